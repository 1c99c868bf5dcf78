package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/examples/internal/exampletest"
	"github.com/parley-a2a/parley/examples/internal/issuer"
	"github.com/parley-a2a/parley/extension"
)

var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deployer-")
	if err == nil {
		bin, err = exampletest.Build(dir, "../deployer")
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// caller is somebody with a token of the test issuer.
type caller struct {
	host  *exampletest.Host
	state string
}

func start(t *testing.T) caller {
	t.Helper()
	state := t.TempDir()
	return caller{exampletest.Start(t, bin, nil, "-state", state), state}
}

func (c caller) dial(t *testing.T, binding, subject, scopes string) *client.Client {
	t.Helper()
	opts := client.Options{Extensions: []string{extension.Approval}, Transports: []string{binding}}
	if subject != "" {
		token, err := issuer.Issuer{Name: testIssuer, Folder: c.state}.Token(subject, "deployer", map[string]any{"scope": scopes})
		if err != nil {
			t.Fatal(err)
		}
		creds, err := auth.NewCredentials(auth.Credential{
			Origins: []string{c.host.URL, "http://" + c.host.GRPC}, Source: auth.Static(auth.NewSecret(token)), Header: "Authorization",
		})
		if err != nil {
			t.Fatal(err)
		}
		opts.HTTP, opts.GRPC = creds.HTTP(nil), creds.GRPC()
	}
	cl, err := client.New(t.Context(), c.host.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func send(t *testing.T, c *client.Client, req *a2a.SendMessageRequest) (*a2a.Task, error) {
	t.Helper()
	res, err := c.SendMessage(t.Context(), req)
	if err != nil {
		return nil, err
	}
	return res.(*a2a.Task), nil
}

func say(taskID, text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{TaskID: taskID, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)}}}
}

// TestCallers refuses whoever has no token, and a token without the scope.
func TestCallers(t *testing.T) {
	c := start(t)
	for _, b := range bindings {
		t.Run(b, func(t *testing.T) {
			if _, err := send(t, c.dial(t, b, "", ""), say("", "deploy pay at 9f3c2e1 to staging")); !errors.Is(err, a2a.ErrUnauthenticated) {
				t.Errorf("without a token: %v", err)
			}
			_, err := send(t, c.dial(t, b, "planner", "read"), say("", "deploy pay at 9f3c2e1 to staging"))
			if !errors.Is(err, a2a.ErrPermissionDenied) || !strings.Contains(err.Error(), scope) {
				t.Errorf("without the scope: %v", err)
			}
		})
	}
}

// TestDeploy asks for an approval of exactly what it will do, over a restart, and takes no words for one.
func TestDeploy(t *testing.T) {
	c := start(t)
	for _, b := range bindings {
		t.Run(b, func(t *testing.T) {
			agent := c.dial(t, b, "planner", scope)
			service := "pay-" + strings.ToLower(b[:1])
			file := filepath.Join(c.state, "releases", "staging", service+".json")
			task, err := send(t, agent, say("", "deploy "+service+" at 9f3c2e1 to staging"))
			if err != nil {
				t.Fatal(err)
			}
			if q := approval.Pending(task); q == nil || q.Resource != service+" at 9f3c2e1 to staging" {
				t.Fatalf("asked %+v in %v", q, task.Status.State)
			}
			if task, err = send(t, agent, say(task.ID, "yes, approved")); err != nil || approval.Pending(task) == nil {
				t.Fatalf("words: %v %v", task, err)
			}
			c.host.Stop(t)
			c.host.Run(t)
			if _, err := os.Stat(file); err == nil {
				t.Fatal("it is deployed, and nobody approved it")
			}
			yes, err := approval.Approve(task)
			if err != nil {
				t.Fatal(err)
			}
			if task, err = send(t, agent, yes); err != nil || task.Status.State != a2a.TaskStateCompleted {
				t.Fatalf("approved: %v %v", task, err)
			}
			if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), task.ID) {
				t.Errorf("%s: %s %v", file, text, err)
			}
			yes.Message.MessageID = "" // the same message would be the same answer
			if _, err := send(t, agent, yes); !errors.Is(err, a2a.ErrUnsupportedOperation) {
				t.Errorf("approved again: %v", err)
			}
		})
	}
}

// TestRefused rejects what is no deployment, and what would leave the folder of releases.
func TestRefused(t *testing.T) {
	c := start(t)
	agent := c.dial(t, a2a.BindingJSONRPC, "planner", scope)
	for _, text := range []string{"hello", "deploy ../x at 9f3c2e1 to staging", "deploy pay at HEAD to staging", "deploy pay at 9f3c2e1 to /etc"} {
		task, err := send(t, agent, say("", text))
		if err != nil || task.Status.State != a2a.TaskStateRejected {
			t.Errorf("%s: %v %v", text, task, err)
		}
	}
}
