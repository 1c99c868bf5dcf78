package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// testRunner runs tests of the repositories that it was given. The wire names them: it never says where they are.
type testRunner struct {
	repositories map[string]string // what git clones, by name
	limits       limits
}

type limits struct {
	time   time.Duration
	memory int64
	log    int
}

// job is what a caller wants, as far as it is known.
type job struct {
	Repository string   `json:"repository"`
	Commit     string   `json:"commit"`
	Paths      []string `json:"paths"` // below the repository; none: all of it
}

// summary is what came of it, and the content of summary.json.
type summary struct {
	Repository string    `json:"repository"`
	Commit     string    `json:"commit"` // in full
	Passed     int       `json:"passed"`
	Failed     int       `json:"failed"`
	Skipped    int       `json:"skipped"`
	Seconds    float64   `json:"seconds"`
	Failures   []failure `json:"failures"`
}

type failure struct {
	Test   string `json:"test"`
	Output string `json:"output,omitempty"` // the end of it
}

var (
	names   = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,99}$`)
	commits = regexp.MustCompile(`^[A-Za-z0-9][\w./-]{0,99}$`) // or a branch or tag
	paths   = regexp.MustCompile(`^\./[\w./-]{0,200}$`)
	request = regexp.MustCompile(`(?i)\btests? of (\S+)(?: at (\S+))?`)
)

func isName(s string) bool { return names.MatchString(s) }

// Restartable implements [agent.Restartable]: tests may be run twice.
func (*testRunner) Restartable() bool { return true }

// Handle implements [agent.Agent].
func (t *testRunner) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	j, err := jobOf(r.Task)
	if err != nil {
		return u.Reject(a2a.TextPart(err.Error()))
	}
	switch {
	case j.Repository == "":
		return u.Park(a2a.TextPart("The tests of which repository? I have " + t.names() + "."))
	case t.repositories[j.Repository] == "":
		return u.Reject(a2a.TextPart(fmt.Sprintf("There is no repository %s here: I have %s.", j.Repository, t.names())))
	case j.Commit == "":
		return u.Park(a2a.TextPart("At which commit?"))
	}
	scratch, err := os.MkdirTemp("", "testrunner-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	ctx, cancel := context.WithTimeoutCause(ctx, t.limits.time, fmt.Errorf("the tests took more than %v: name paths to run fewer, or have the operator raise -time", t.limits.time))
	defer cancel()
	run := &testRun{job: *j, source: t.repositories[j.Repository], scratch: scratch, limits: t.limits, u: u}
	done, err := run.do(ctx)
	if ctx.Err() != nil && r.Task != nil {
		err = context.Cause(ctx) // the task's cancel, or our limit: what the programs said comes of it
	}
	// The log first: who sees the summary can read why.
	if text := run.log.String(); text != "" {
		if err := u.Artifact(artifact("log.txt", "text/plain", a2a.TextPart(text))); err != nil {
			return err
		}
	}
	if err != nil {
		return explain(err)
	}
	return u.Artifact(artifact("summary.json", "application/json", a2a.DataPart(done)))
}

// explain returns an error whose text the caller may read.
func explain(err error) error {
	if errors.Is(err, agent.ErrCanceled) || errors.Is(err, context.Canceled) {
		return err
	}
	return agent.Errorf("%s", err.Error())
}

// artifact has its name for an id, so that a turn that runs again replaces it.
func artifact(name, mediaType string, part *a2a.Part) a2a.Artifact {
	part.Filename, part.MediaType = name, mediaType
	return a2a.Artifact{ArtifactID: name, Name: name, Parts: []*a2a.Part{part}}
}

// jobOf reads all that the caller has said in a task. What is said last counts.
func jobOf(task *a2a.Task) (*job, error) {
	j := new(job)
	for i, m := range task.History {
		if m.Role == a2a.RoleUser {
			if err := j.read(m, i > 0); err != nil {
				return nil, err
			}
		}
	}
	return j, j.check()
}

// read takes a message in. Text that answers a question of ours is just what was asked for.
func (j *job) read(m *a2a.Message, answer bool) error {
	for _, p := range m.Parts {
		switch c := p.Content.(type) {
		case a2a.Data:
			if err := json.Unmarshal(c, j); err != nil {
				return errors.New(`the data part is not like {"repository":"payments-api","commit":"9f3c2e1"}`)
			}
		case a2a.Text:
			said := request.FindStringSubmatch(string(c))
			switch {
			case said != nil:
				j.Repository = said[1]
				if said[2] != "" {
					j.Commit = said[2]
				}
			case !answer:
			case j.Repository == "":
				j.Repository = string(c)
			case j.Commit == "":
				j.Commit = string(c)
			}
		case a2a.Raw, a2a.URL: // says nothing here
		}
	}
	return nil
}

func (j *job) check() error {
	switch {
	case j.Repository != "" && !isName(j.Repository):
		return errors.New("that is no name of a repository")
	case j.Commit != "" && (!commits.MatchString(j.Commit) || regexp.MustCompile(`\.\.|\.lock$`).MatchString(j.Commit)):
		return errors.New("that is no commit, branch or tag")
	case slices.ContainsFunc(j.Paths, func(p string) bool {
		return !paths.MatchString(p) || regexp.MustCompile(`(^|/)\.\.(/|$)`).MatchString(p)
	}):
		return errors.New("paths are like ./a2a/... and stay in the repository")
	}
	return nil
}
