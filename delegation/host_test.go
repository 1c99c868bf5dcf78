package delegation_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/extension"
)

var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

// onEach runs a test over each binding.
func onEach(t *testing.T, f func(t *testing.T, binding string)) {
	for _, b := range bindings {
		t.Run(b, func(t *testing.T) { f(t, b) })
	}
}

// start serves an agent at free ports until the test ends.
func start(t *testing.T, cfg parley.Config, a agent.Agent) *parley.Host {
	t.Helper()
	httpL, grpcL := listen(t), listen(t)
	cfg.Name, cfg.Listen, cfg.GRPCListen, cfg.Grace = "test", httpL.Addr().String(), grpcL.Addr().String(), time.Second
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.Extensions = []*a2a.AgentExtension{extension.Declaration(extension.Delegation)}
	h, err := parley.New(cfg, a)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, httpL, grpcL) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dial returns a client of a host over a binding.
func dial(t *testing.T, h *parley.Host, binding string) *client.Client {
	t.Helper()
	c, err := client.Dial(&client.Card{AgentCard: h.Card()}, client.Options{Transports: []string{binding}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func message(s string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(s)}}}
}

// from is a message that claims to have come through a chain.
func from(key string, v any) *a2a.SendMessageRequest {
	m := message("x")
	m.Message.Metadata = a2a.Struct{}.With(key, v)
	return m
}

// box holds what an agent saw, for the test to read.
type box[T any] struct {
	mu  sync.Mutex
	all []T
}

func (b *box[T]) add(v T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, v)
}

func (b *box[T]) got() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]T(nil), b.all...)
}

// reason returns the ErrorInfo reason of a protocol error.
func reason(err error) string {
	var e *a2a.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.ErrorReason()
}

// state sends a message and returns the state of its task, with what it says.
func state(t *testing.T, c a2a.Service, req *a2a.SendMessageRequest) (a2a.TaskState, string) {
	t.Helper()
	res, err := c.SendMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	task := res.(*a2a.Task)
	return task.Status.State, task.Status.Message.Text()
}
