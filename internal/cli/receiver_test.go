package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
)

// newPusher serves an agent that delivers webhooks to this machine, signed with key, and returns its address.
func newPusher(t *testing.T, a agent.Agent, key ed25519.PrivateKey) string {
	t.Helper()
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	hooks, err := push.New(push.Options{Store: store, Agent: "pusher", Key: key, AllowPrivate: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	host, err := parley.New(parley.Config{
		Name: "Pusher", AgentName: "pusher", PublicURL: "http://" + s.Listener.Addr().String(), Store: store, Push: hooks,
		Log: slog.New(slog.DiscardHandler),
	}, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := hooks.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Config.Handler = host
	s.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Close()
		host.Shutdown(ctx)
		hooks.Shutdown(ctx)
	})
	return s.URL
}

// TestWebhookStops: a receiver that is told to stop removes its registration and leaves the task alone.
func TestWebhookStops(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	url := newPusher(t, agent.Func(func(ctx context.Context, _ *agent.Request, _ *agent.Updater) error {
		<-ctx.Done()
		return ctx.Err()
	}), key)
	sent := parleyRun("send", "-a", url, "--async", "x")
	_, id, _ := strings.Cut(strings.SplitN(sent.stdout, "\n", 2)[0], "Task: ")

	cmd := exec.CommandContext(t.Context(), "parley", "task", "webhook", "-a", url, id, "--stream", "--key", push.PublicKey(key), "--timeout", "1m")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "Task: "+id+"\n" {
		t.Fatalf("stdout %q, %v", line, err)
	}
	parleyRun("task", "push-config", "list", "-a", url, id).wants(t, 0, "Webhook: ", "")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code says it
	result{cmd.ProcessState.ExitCode(), "", stderr.String()}.wants(t, 1, "", "interrupted; task "+id+" goes on")
	if strings.Contains(stderr.String(), "Warning") {
		t.Errorf("stderr %q", stderr.String())
	}
	parleyRun("task", "push-config", "list", "-a", url, id).wants(t, 0, "Webhooks: none", "")
	parleyRun("task", "get", "-a", url, id).wants(t, 0, "State: WORKING", "")
}

// TestWebhookRefuses: what a receiver takes from whom.
func TestWebhookRefuses(t *testing.T) {
	in := &inbox{task: "t1", ready: make(chan a2a.Entry, 1), refused: make(chan string, 1), stopped: make(chan struct{})}
	receiver, err := new(webhookCommand).receiver(in, "right")
	if err != nil {
		t.Fatal(err)
	}
	h := in.watch(receiver)
	deliver := func(token, body string) int {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/a2a+json")
		r.Header.Set(push.TokenHeader, token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	const event = `{"statusUpdate":{"taskId":"t1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`
	for _, tt := range []struct {
		token, body string
		want        int
	}{
		{"wrong", event, http.StatusUnauthorized},
		{"", event, http.StatusUnauthorized},
		{"right", `{}`, http.StatusBadRequest},
		{"right", strings.Replace(event, "t1", "t2", 1), http.StatusGone},
		{"right", event, http.StatusNoContent},
	} {
		if got := deliver(tt.token, tt.body); got != tt.want {
			t.Errorf("%q %s: %d, want %d", tt.token, tt.body, got, tt.want)
		}
	}
	if len(in.refused) != 1 {
		t.Fatal("nobody is told that deliveries were refused")
	}
	if why := <-in.refused; !strings.HasPrefix(why, "401, ") || len(in.refused) > 0 {
		t.Errorf("refused: %s", why)
	}
	if len(in.ready) != 1 || (<-in.ready).Event.(*a2a.TaskStatusUpdateEvent).TaskID != "t1" {
		t.Error("not one event of the task was taken")
	}
	in.ready = make(chan a2a.Entry) // nobody prints any more
	in.stop()
	if got := deliver("right", event); got != http.StatusGone {
		t.Errorf("after the end: %d", got)
	}
}

// repeats is an agent that says what it does not like about a webhook, in full.
type repeats struct{ a2a.Service }

func (repeats) CreateTaskPushNotificationConfig(_ context.Context, c *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	return nil, a2a.Errorf(a2a.ErrInvalidParams, "not %s, and not %s", c.Token, c.Authentication.Credentials)
}

// TestWebhookSecrets: what a webhook is registered with is in no diagnostics.
func TestWebhookSecrets(t *testing.T) {
	p := newPeer(t, says("hi"), nil, nil)
	rpc := httptest.NewServer(jsonrpc.NewHandler(repeats{}, jsonrpc.Options{}))
	t.Cleanup(rpc.Close)
	p.change(func(card *a2a.AgentCard) {
		card.SupportedInterfaces[0].URL = rpc.URL + "/"
		card.Capabilities.PushNotifications = new(true)
	})
	for _, format := range []string{"text", "json"} {
		got := parleyRun("task", "push-config", "create", "t1", "-a", p.URL, "--url", "https://x.example/", "--token", "s3cret-1",
			"--authorization", "Bearer s3cret-2", "-o", format)
		if all := got.stdout + got.stderr; got.code != 1 || !strings.Contains(all, "not [redacted], and not [redacted]") {
			t.Errorf("exit code %d: %s", got.code, all)
		}
	}
}
