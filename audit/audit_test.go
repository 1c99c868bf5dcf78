package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/audit"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
)

// TestLog: what matters is written once each, by whom and with what outcome, and nothing secret is.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := audit.New(slog.NewJSONHandler(&out, nil))
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	hooks, err := push.New(push.Options{Store: store, Agent: "audited", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	only := func(next a2a.Service) a2a.Service { return log.Service(refusing{next}) }
	h, err := parley.New(parley.Config{Name: "audited", Store: store, Push: hooks, Wrap: only, Log: slog.New(slog.DiscardHandler)},
		agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error { return u.Park(a2a.TextPart("?")) }))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Shutdown(t.Context())
	as := func(op string) context.Context {
		return a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Operation: op, Binding: "JSONRPC", Caller: a2a.Caller{Issuer: "i", Subject: "alice"}})
	}
	svc := h.Service()
	const secret = "canary-1234"
	res, err := svc.SendMessage(as("SendMessage"), &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(secret)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := res.(*a2a.Task).ID //nolint:forcetypeassert // the agent makes tasks
	_, _ = svc.CreateTaskPushNotificationConfig(as("CreateTaskPushNotificationConfig"), &a2a.TaskPushNotificationConfig{
		TaskID: id, URL: "https://127.0.0.1/" + secret, Token: secret, Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: secret},
	})
	if _, err := svc.CancelTask(as("CancelTask"), &a2a.CancelTaskRequest{ID: id}); err != nil {
		t.Fatal(err)
	}
	_, _ = svc.ListTasks(as("ListTasks"), &a2a.ListTasksRequest{})
	refused := log.Authenticate(func(context.Context, *a2a.CallInfo) error {
		return a2a.Errorf(a2a.ErrUnauthenticated, "the token %s", secret)
	})
	_ = refused(t.Context(), &a2a.CallInfo{Operation: "GetTask", Peer: "192.0.2.1:1"})
	var got []string
	for line := range strings.Lines(out.String()) {
		var r struct{ Msg, Decision, Subject, Task, Reason string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Task != "" && r.Task != id {
			t.Errorf("the task is %s", r.Task)
		}
		got = append(got, strings.Join([]string{r.Msg, r.Decision, r.Subject, r.Reason}, " "))
	}
	want := []string{
		"webhook failed alice INVALID_PARAMS", "cancel allowed alice ", "denial denied alice PERMISSION_DENIED", "authentication denied  UNAUTHENTICATED",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(out.String(), secret) {
		t.Errorf("a secret is in the log:\n%s", out.String())
	}
}

// refusing lets nobody list.
type refusing struct{ a2a.Service }

func (refusing) ListTasks(context.Context, *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return nil, a2a.ErrPermissionDenied
}
