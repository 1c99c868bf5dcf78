package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/approval"
)

// deployer writes what is deployed where. Yours would start it.
type deployer struct {
	releases string
	audience string
}

// deployment is what a caller wants, and the content of deployment.json.
type deployment struct {
	Service     string `json:"service"`
	Commit      string `json:"commit"`
	Environment string `json:"environment"`
	Task        string `json:"task,omitempty"` // that deployed it
	At          string `json:"at,omitempty"`
}

var (
	said   = regexp.MustCompile(`(?i)\bdeploy (\S+) at (\S+) to (\S+)`)
	word   = regexp.MustCompile(`^[A-Za-z0-9][\w-]{0,63}$`)
	commit = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
)

// String is exactly what is to be approved.
func (d deployment) String() string {
	return fmt.Sprintf("%s at %s to %s", d.Service, d.Commit, d.Environment)
}

// deploymentOf reads what the task's first message asks for. Later ones change nothing: what was approved stays what it is.
func deploymentOf(task *a2a.Task) (d deployment, err error) {
	for _, p := range task.History[0].Parts {
		switch c := p.Content.(type) {
		case a2a.Data:
			if json.Unmarshal(c, &d) != nil {
				return d, errors.New(`the data part is not like {"service":"payments-api","commit":"9f3c2e1","environment":"staging"}`)
			}
		case a2a.Text:
			if m := said.FindStringSubmatch(string(c)); m != nil {
				d = deployment{Service: m[1], Commit: m[2], Environment: m[3]}
			}
		case a2a.Raw, a2a.URL: // says nothing here
		}
	}
	d.Task, d.At = "", ""
	if !word.MatchString(d.Service) || !commit.MatchString(d.Commit) || !word.MatchString(d.Environment) {
		return d, errors.New("deploy what? Say a service, a commit and an environment: deploy payments-api at 9f3c2e1 to staging")
	}
	return d, nil
}

// Restartable implements [agent.Restartable]: what a task deployed is written with its id.
func (*deployer) Restartable() bool { return true }

// Handle implements [agent.Agent].
func (a *deployer) Handle(_ context.Context, r *agent.Request, u *agent.Updater) error {
	d, err := deploymentOf(r.Task)
	if err != nil {
		return u.Reject(a2a.TextPart(err.Error()))
	}
	if done, err := a.deployed(d); err != nil || done.Task == r.Task.ID { // an earlier run of this turn did it
		return a.report(u, done, err)
	}
	answer := approval.Answered(r)
	switch {
	case answer == nil || answer.Request.Resource != d.String() || answer.Decision == approval.Undecided:
		return approval.Park(r, u, approval.Request{Resource: d.String(), Scopes: []string{scope}, Audience: a.audience})
	case answer.Decision != approval.Approved:
		return u.Reject(a2a.TextPart("Nothing is deployed: the approval was denied."))
	}
	if err := u.Committed(); err != nil {
		return err // a cancel came first
	}
	d.Task, d.At = r.Task.ID, time.Now().UTC().Format(time.RFC3339)
	return a.report(u, d, a.deploy(d))
}

func (*deployer) report(u *agent.Updater, d deployment, err error) error {
	if err != nil {
		return err // the log has it
	}
	part := a2a.DataPart(d)
	part.Filename, part.MediaType = "deployment.json", "application/json"
	return u.Artifact(a2a.Artifact{ArtifactID: part.Filename, Name: part.Filename, Parts: []*a2a.Part{part}})
}

func (a *deployer) file(d deployment) string {
	return filepath.Join(a.releases, d.Environment, d.Service+".json")
}

// deployed returns what is deployed where d is to go.
func (a *deployer) deployed(d deployment) (now deployment, err error) {
	b, err := os.ReadFile(a.file(d))
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &now)
	}
	return now, err
}

func (a *deployer) deploy(d deployment) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	path := a.file(d)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
