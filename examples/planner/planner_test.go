package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/examples/internal/exampletest"
	"github.com/parley-a2a/parley/extension"
)

// bin has the paths of the three commands.
var bin = map[string]string{}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "planner-")
	for _, name := range []string{"testrunner", "deployer", "planner"} {
		if err == nil {
			bin[name], err = exampletest.Build(dir, "../"+name)
		}
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// fleet is the three agents, and a repository of which they know.
type fleet struct {
	runner, deployer, planner *exampletest.Host
	repository, commit        string
	releases, gate            string // a test of the repository waits for the file gate
}

const payTest = `package pay

import (
	"os"
	"testing"
	"time"
)

func TestGood(*testing.T) {}

func TestGate(t *testing.T) {
	for {
		if _, err := os.Stat(GATE); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
`

func start(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{repository: t.TempDir(), releases: t.TempDir(), gate: filepath.Join(t.TempDir(), "gate")}
	for name, text := range map[string]string{
		"go.mod":      "module example.com/pay\n\ngo 1.26\n",
		"pay_test.go": strings.ReplaceAll(payTest, "GATE", fmt.Sprintf("%q", f.gate)),
	} {
		if err := os.WriteFile(filepath.Join(f.repository, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", f.repository}, args...)...).Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	git("add", ".")
	git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "all")
	f.commit = git("rev-parse", "HEAD")

	state := t.TempDir()
	token, err := exec.CommandContext(t.Context(), bin["deployer"], "-state", state, "-token", "planner").Output()
	if err != nil {
		t.Fatal(err)
	}
	f.runner = exampletest.Start(t, bin["testrunner"], nil, "-state", t.TempDir(), "-repository", "payments-api="+f.repository)
	f.deployer = exampletest.Start(t, bin["deployer"], nil, "-state", state, "-releases", f.releases)
	f.planner = exampletest.Start(t, bin["planner"], []string{"DEPLOYER_TOKEN=" + strings.TrimSpace(string(token))},
		"-state", t.TempDir(), "-test-runner", f.runner.URL, "-deployer", f.deployer.URL)
	return f
}

// open lets the repository's tests end.
func (f *fleet) open(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(f.gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, h *exampletest.Host, transports ...string) *client.Client {
	t.Helper()
	c, err := client.New(t.Context(), h.URL, client.Options{Extensions: []string{extension.Approval}, Transports: transports})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do has the planner do something, and decides about what it asks.
func do(t *testing.T, c *client.Client, text string, decide func(*a2a.Task) (*a2a.SendMessageRequest, error), each func(*a2a.Task)) *a2a.Task {
	t.Helper()
	var task *a2a.Task
	asked := ""
	for e, err := range c.Send(t.Context(), &a2a.SendMessageRequest{
		Message: &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)}},
	}) {
		if err != nil {
			t.Fatal(err)
		}
		if now, ok := e.Event.(*a2a.Task); ok {
			task = now
		} else {
			task.Apply(e.Event)
		}
		if each != nil {
			each(task)
		}
		if q := approval.Pending(task); q != nil && q.ID != asked {
			asked = q.ID
			req, err := decide(task)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.SendMessage(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	return task
}

// reportOf returns what report.json says of the tests.
func reportOf(t *testing.T, task *a2a.Task) (n counts) {
	t.Helper()
	b, err := content(task, "report.json")
	if err != nil {
		t.Fatalf("%v: %v %s", err, task.Status.State, task.Status.Message.Text())
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(r.Tests, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func approve(task *a2a.Task) (*a2a.SendMessageRequest, error) { return approval.Approve(task) }

// TestPlan has tests run and the commit deployed, on every binding: the count is that of summary.json, the approval is
// that of the deployer's question, and a denial deploys nothing.
func TestPlan(t *testing.T) {
	f := start(t)
	f.open(t)
	for i, b := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		t.Run(b, func(t *testing.T) {
			c := dial(t, f.planner, b)
			environment := fmt.Sprintf("stage%d", i)
			var question string
			task := do(t, c, "test payments-api at "+f.commit[:10]+" and deploy to "+environment, func(task *a2a.Task) (*a2a.SendMessageRequest, error) {
				question = approval.Pending(task).Resource
				return approval.Approve(task)
			}, nil)
			if n := reportOf(t, task); task.Status.State != a2a.TaskStateCompleted || n.Passed != 2 || n.Failed != 0 || n.Commit != f.commit {
				t.Errorf("%v %s: %+v", task.Status.State, task.Status.Message.Text(), n)
			}
			if want := "payments-api at " + f.commit + " to " + environment; question != want {
				t.Errorf("the question was for %q, want %q", question, want)
			}
			file := filepath.Join(f.releases, environment, "payments-api.json")
			if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), f.commit) {
				t.Errorf("%s: %s %v", file, text, err)
			}
			task = do(t, c, "test payments-api at "+f.commit+" and deploy to denied", approval.Deny, nil)
			if task.Status.State != a2a.TaskStateFailed || !strings.Contains(task.Status.Message.Text(), "Nothing is deployed") {
				t.Errorf("denied: %v %s", task.Status.State, task.Status.Message.Text())
			}
			if _, err := os.Stat(filepath.Join(f.releases, "denied")); err == nil {
				t.Error("what was denied is deployed")
			}
		})
	}
}

// TestRestart kills the planner while the tests run: its task goes on after the restart, and the tests ran once.
func TestRestart(t *testing.T) {
	f := start(t)
	c := dial(t, f.planner)
	killed := false
	task := do(t, c, "test payments-api at "+f.commit+" and deploy to staging", approve, func(task *a2a.Task) {
		if !killed && strings.Contains(task.Status.Message.Text(), "test-runner: 1 passed") {
			killed = true
			f.planner.Kill()
			f.planner.Run(t)
			f.open(t)
		}
	})
	if n := reportOf(t, task); !killed || task.Status.State != a2a.TaskStateCompleted || n.Passed != 2 {
		t.Errorf("killed %v: %v %s: %+v", killed, task.Status.State, task.Status.Message.Text(), n)
	}
	list, err := dial(t, f.runner).ListTasks(t.Context(), &a2a.ListTasksRequest{})
	if err != nil || len(list.Tasks) != 1 {
		t.Errorf("the test-runner has %d tasks: %v", len(list.Tasks), err)
	}
}

// TestCancel cancels the planner's task while the tests run: those end too, within the grace.
func TestCancel(t *testing.T) {
	f := start(t)
	c := dial(t, f.planner)
	task := do(t, c, "test payments-api at "+f.commit, nil, func(task *a2a.Task) {
		if strings.Contains(task.Status.Message.Text(), "test-runner: 1 passed") {
			if _, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID}); err != nil {
				t.Error(err)
			}
		}
	})
	if task.Status.State != a2a.TaskStateCanceled {
		t.Fatalf("%v %s", task.Status.State, task.Status.Message.Text())
	}
	runner := dial(t, f.runner)
	list, err := runner.ListTasks(t.Context(), &a2a.ListTasksRequest{})
	if err != nil || len(list.Tasks) != 1 {
		t.Fatalf("the test-runner has %v: %v", list, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	tests, err := runner.Wait(ctx, list.Tasks[0].ID)
	if err != nil || tests.Status.State != a2a.TaskStateCanceled {
		t.Errorf("the tests: %v %v", tests, err)
	}
}

// TestToken calls the deployer without a token, which it refuses, and the planner says so.
func TestToken(t *testing.T) {
	f := start(t)
	f.open(t)
	planner := exampletest.Start(t, bin["planner"], []string{"DEPLOYER_TOKEN=wrong"},
		"-state", t.TempDir(), "-test-runner", f.runner.URL, "-deployer", f.deployer.URL)
	task := do(t, dial(t, planner), "test payments-api at "+f.commit+" and deploy to staging", approve, nil)
	if task.Status.State != a2a.TaskStateFailed || !strings.Contains(task.Status.Message.Text(), "deployer:") {
		t.Errorf("%v %s", task.Status.State, task.Status.Message.Text())
	}
}
