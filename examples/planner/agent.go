package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/delegation"
)

// planner has other agents do the work. What it knows of a task is in the task: it keeps nothing besides.
type planner struct {
	runner, deployer remote
}

// plan is what a caller wants.
type plan struct {
	Repository  string   `json:"repository"`
	Commit      string   `json:"commit"`
	Paths       []string `json:"paths,omitempty"` // of the tests; none: all
	Environment string   `json:"environment"`     // to deploy to; empty: do not
}

// report is the content of report.json: what the agents that did the work said.
type report struct {
	Tests      json.RawMessage `json:"tests"`                // summary.json of the test-runner
	Deployment json.RawMessage `json:"deployment,omitempty"` // deployment.json of the deployer
}

// counts is what the planner reads in summary.json.
type counts struct {
	Commit                  string
	Passed, Failed, Skipped int
}

var said = regexp.MustCompile(`(?i)\btest (\S+) at (\S+?)(?:,? and deploy(?: it)? to (\S+))?\.?$`)

func planOf(m *a2a.Message) (p plan, err error) {
	for _, part := range m.Parts {
		switch c := part.Content.(type) {
		case a2a.Data:
			if json.Unmarshal(c, &p) != nil {
				return p, errors.New(`the data part is not like {"repository":"payments-api","commit":"9f3c2e1","environment":"staging"}`)
			}
		case a2a.Text:
			if w := said.FindStringSubmatch(string(c)); w != nil {
				p = plan{Repository: w[1], Commit: w[2], Environment: w[3]}
			}
		case a2a.Raw, a2a.URL: // says nothing here
		}
	}
	if p.Repository == "" || p.Commit == "" {
		return p, errors.New("test what? Say a repository and a commit: test payments-api at 9f3c2e1 and deploy to staging")
	}
	return p, nil
}

// Restartable implements [agent.Restartable]. A run that is begun again sends the messages of the one before it, with
// their ids: under safe-retry the other agents take each once, and so it finds the tasks that it had begun.
func (*planner) Restartable() bool { return true }

// Handle implements [agent.Agent].
func (p *planner) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	want, err := planOf(r.Task.History[0])
	if err != nil {
		return u.Reject(a2a.TextPart(err.Error()))
	}
	tests, err := p.delegate(ctx, r, u, p.runner, "test-runner", a2a.DataPart(plan{Repository: want.Repository, Commit: want.Commit, Paths: want.Paths}))
	if err != nil {
		return err
	}
	var done report
	var n counts
	if done.Tests, err = content(tests, "summary.json"); err != nil {
		return agent.Errorf("test-runner: %v", err)
	}
	if err := json.Unmarshal(done.Tests, &n); err != nil {
		return agent.Errorf("test-runner: its summary.json cannot be read: %w", err)
	}
	result := fmt.Sprintf("%d passed, %d failed, %d skipped", n.Passed, n.Failed, n.Skipped)
	switch {
	case want.Environment == "":
	case n.Failed > 0 || n.Passed == 0:
		result += "; not deployed"
	default:
		// The commit that was tested, in full: what the caller's words stand for may have changed.
		deployed, err := p.delegate(ctx, r, u, p.deployer, "deployer", a2a.DataPart(map[string]string{
			"service": want.Repository, "commit": n.Commit, "environment": want.Environment,
		}))
		if err != nil {
			return err
		}
		if done.Deployment, err = content(deployed, "deployment.json"); err != nil {
			return agent.Errorf("deployer: %v", err)
		}
		result += "; deployed to " + want.Environment
	}
	part := a2a.DataPart(done)
	part.Filename, part.MediaType = "report.json", "application/json"
	if err := u.Artifact(a2a.Artifact{ArtifactID: part.Filename, Name: part.Filename, Parts: []*a2a.Part{part}}); err != nil {
		return err
	}
	return u.Complete(a2a.TextPart(result))
}

// delegate has another agent do a piece of the work and returns its task, which is COMPLETED. What it says on the way is
// passed on, and so is a question for an approval. When this task is canceled, so is that one.
func (p *planner) delegate(ctx context.Context, r *agent.Request, u *agent.Updater, to remote, name string, part *a2a.Part) (*a2a.Task, error) {
	if to.ref == "" {
		return nil, agent.Errorf("this planner has no %s", name)
	}
	c, err := to.dial(ctx)
	if err != nil {
		return nil, agent.Errorf("the %s cannot be reached: %w", name, err)
	}
	defer c.Close() //nolint:errcheck // nothing is lost with it
	req, err := delegation.Request(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: r.Task.ID + " " + name, Role: a2a.RoleUser, Parts: []*a2a.Part{part},
	}})
	if err != nil {
		return nil, err
	}
	task, err := p.follow(ctx, r, u, c, req, name)
	if task != nil && errors.Is(context.Cause(ctx), agent.ErrCanceled) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second) // of the grace of 5 s
		defer cancel()
		if _, cerr := c.CancelTask(last, &a2a.CancelTaskRequest{ID: task.ID}); cerr != nil {
			r.Log.Warn("the task of another agent was not canceled", "agent", name, "task", task.ID, "err", cerr)
		}
		return nil, agent.ErrCanceled
	}
	if err != nil {
		return nil, agent.Errorf("%s: %s%w", name, a2a.AsError(err).Message, err)
	}
	if task.Status.State != a2a.TaskStateCompleted {
		return nil, agent.Errorf("%s: %s %s", name, task.Status.State, task.Status.Message.Text())
	}
	return task, nil
}

// follow sends the message and follows its task to the end. The task is what it was last known to be, nil if it is not.
func (p *planner) follow(
	ctx context.Context, r *agent.Request, u *agent.Updater, c *client.Client, req *a2a.SendMessageRequest, name string,
) (*a2a.Task, error) {
	var task *a2a.Task
	asked := "" // the question that was passed on last
	for e, err := range c.Send(ctx, req) {
		if err != nil {
			return task, err
		}
		if t, ok := e.Event.(*a2a.Task); ok {
			task = t
		} else if task != nil {
			task.Apply(e.Event)
		}
		if task == nil {
			return nil, errors.New("it answered with a message, and made no task")
		}
		if status, ok := e.Event.(*a2a.TaskStatusUpdateEvent); ok && status.Status.State == a2a.TaskStateWorking && status.Status.Message != nil {
			if err := u.Progress(a2a.TextPart(name + ": " + status.Status.Message.Text())); err != nil {
				return task, err
			}
		}
		if task.Status.State == a2a.TaskStateInputRequired {
			return task, nil // the planner has said all it knows
		}
		if q := approval.Pending(task); q != nil && q.ID != asked {
			asked = q.ID
			if err := relay(ctx, r, u, c, task, q); err != nil {
				return task, err
			}
		}
	}
	return task, ctx.Err()
}

// relay asks this task's caller for the approval that another agent wants, and gives it the answer.
func relay(ctx context.Context, r *agent.Request, u *agent.Updater, c *client.Client, task *a2a.Task, q *approval.Request) error {
	answer, err := approval.Relay(ctx, r, u, q, approval.Request{})
	for err == nil && answer.Decision == approval.Undecided { // words are no answer
		answer, err = approval.Ask(ctx, r, u, answer.Request)
	}
	if err != nil {
		return err
	}
	reply, err := approval.Reply(task, answer)
	if err != nil {
		return err
	}
	_, err = c.SendMessage(ctx, reply)
	return err
}

// content returns the JSON of an artifact.
func content(task *a2a.Task, name string) (json.RawMessage, error) {
	i := slices.IndexFunc(task.Artifacts, func(a *a2a.Artifact) bool { return a.Name == name })
	if i < 0 || len(task.Artifacts[i].Parts) == 0 {
		return nil, fmt.Errorf("there is no %s", name)
	}
	data, ok := task.Artifacts[i].Parts[0].Content.(a2a.Data)
	if !ok {
		return nil, fmt.Errorf("%s is no data", name)
	}
	return json.RawMessage(data), nil
}
