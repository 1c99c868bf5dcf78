package delegation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/delegation"
	"github.com/parley-a2a/parley/extension"
)

// handsOn is an agent that hands its message on to the next, which may be set later, and notes what came of it.
type handsOn struct {
	name string
	next a2a.Service
	errs box[error]
	runs box[*agent.Request]
}

func (h *handsOn) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	h.runs.add(r)
	if h.next == nil {
		return u.Complete(a2a.TextPart("done by " + h.name))
	}
	res, err := delegation.Client(h.next, nil).SendMessage(ctx, message(r.Text()))
	h.errs.add(err)
	if err != nil {
		return err
	}
	task := res.(*a2a.Task)
	if task.Status.State != a2a.TaskStateCompleted {
		return agent.Errorf("%s", task.Status.Message.Text())
	}
	return u.Complete(task.Status.Message.Parts...)
}

// sends counts the messages that a host gets.
type sends struct {
	a2a.Service
	n *box[string]
}

func (s sends) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	s.n.add("SendMessage")
	return s.Service.SendMessage(ctx, r)
}

func guarded(a *handsOn) agent.Agent { return delegation.Guard(a, delegation.Options{Self: a.name}) }

// TestCircle is threat A11: of A→B→A the second A refuses, after 3 sends, and no task is made of it.
func TestCircle(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var n box[string]
		count := parley.Config{Wrap: func(s a2a.Service) a2a.Service { return sends{s, &n} }}
		a, b := &handsOn{name: "A"}, &handsOn{name: "B"}
		hostA, hostB := start(t, count, guarded(a)), start(t, count, guarded(b))
		a.next, b.next = dial(t, hostB, binding), dial(t, hostA, binding)
		if s, said := state(t, dial(t, hostA, binding), message("x")); s != a2a.TaskStateFailed || !strings.Contains(said, "circle") {
			t.Errorf("%v: %s", s, said)
		}
		if len(n.got()) != 3 || len(a.runs.got()) != 1 || len(b.runs.got()) != 1 {
			t.Errorf("%d sends, %d and %d runs", len(n.got()), len(a.runs.got()), len(b.runs.got()))
		}
		if err := b.errs.got()[0]; !errors.Is(err, a2a.ErrPermissionDenied) || reason(err) != delegation.ReasonLoop {
			t.Errorf("B was told %v", err)
		}
		if r := b.runs.got()[0]; !slices.Contains(r.Extensions, extension.Delegation) || !slices.Contains(r.Message.Extensions, extension.Delegation) {
			t.Errorf("in effect are %q, the message has %q", r.Extensions, r.Message.Extensions)
		}
		var chain []string
		if b.runs.got()[0].Message.Metadata.Get(delegation.ChainKey, &chain); !slices.Equal(chain, []string{"A"}) {
			t.Errorf("B's chain is %q", chain)
		}
	})
}

// TestDepth: depth 6 is refused, by who gets it and by who would send it.
func TestDepth(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		x := &handsOn{name: "X"}
		c := dial(t, start(t, parley.Config{}, guarded(x)), binding)
		five := []string{"1", "2", "3", "4", "5"}
		if s, said := state(t, c, from(delegation.ChainKey, five)); s != a2a.TaskStateCompleted {
			t.Errorf("%v: %s", s, said)
		}
		for _, bad := range []any{append(five, "6"), []string{"X"}, "1", 1, []any{1}, []string{""}} {
			_, err := c.SendMessage(t.Context(), from(delegation.ChainKey, bad))
			if !errors.Is(err, a2a.ErrPermissionDenied) && !errors.Is(err, a2a.ErrInvalidParams) {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if _, err := c.SendMessage(t.Context(), from(delegation.ChainKey, append(five, "6"))); reason(err) != delegation.ReasonDepth {
			t.Errorf("got %v", err)
		}
		if n := len(x.runs.got()); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
	t.Run("a line", func(t *testing.T) {
		line := make([]*handsOn, 7)
		var next a2a.Service
		var n box[string]
		count := parley.Config{Wrap: func(s a2a.Service) a2a.Service { return sends{s, &n} }}
		for i := len(line) - 1; i >= 0; i-- {
			line[i] = &handsOn{name: fmt.Sprint(i), next: next}
			next = dial(t, start(t, count, guarded(line[i])), a2a.BindingJSONRPC)
		}
		if s, said := state(t, next, message("x")); s != a2a.TaskStateFailed || !strings.Contains(said, "at most 5") {
			t.Errorf("%v: %s", s, said)
		}
		if len(line[5].runs.got()) != 1 || len(line[6].runs.got()) != 0 {
			t.Errorf("%d and %d runs of the last two", len(line[5].runs.got()), len(line[6].runs.got()))
		}
		if len(n.got()) != 6 {
			t.Errorf("%d sends: the last was to be kept back", len(n.got()))
		}
	})
}

// TestVerified: where an identity vouches for the chain, the message's is not looked at.
func TestVerified(t *testing.T) {
	for name, c := range map[string]struct {
		says, claims []string
		want         error
	}{
		"it says that it was here, the message does not": {[]string{"X"}, nil, a2a.ErrPermissionDenied},
		"the message says that, it does not":             {nil, []string{"X"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := &handsOn{name: "X"}
			h := start(t, parley.Config{}, delegation.Guard(x, delegation.Options{
				Self: "X", Verified: func(*agent.Request) ([]string, error) { return c.says, nil },
			}))
			if _, err := dial(t, h, a2a.BindingREST).SendMessage(t.Context(), from(delegation.ChainKey, c.claims)); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestDeadline: the deadline of a run goes on to the next agent, and ends what that does.
func TestDeadline(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var ends box[time.Time]
		b := start(t, parley.Config{}, delegation.Guard(agent.Func(func(ctx context.Context, _ *agent.Request, _ *agent.Updater) error {
			d, _ := ctx.Deadline()
			ends.add(d)
			<-ctx.Done()
			return ctx.Err()
		}), delegation.Options{Self: "B"}))
		next := dial(t, b, binding)
		a := start(t, parley.Config{}, delegation.Guard(agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			in, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			req, err := delegation.Request(in, message("x"))
			if err != nil {
				return err
			}
			d, _ := in.Deadline()
			ends.add(d)
			res, err := next.SendMessage(ctx, req)
			if err != nil {
				return err
			}
			return u.Complete(res.(*a2a.Task).Status.Message.Parts...)
		}), delegation.Options{Self: "A"}))
		if s, said := state(t, dial(t, a, binding), message("x")); s != a2a.TaskStateCompleted || !strings.Contains(said, "has passed") {
			t.Errorf("%v: %s", s, said)
		}
		if got := ends.got(); len(got) != 2 || got[0].Truncate(time.Millisecond).Sub(got[1]) != 0 {
			t.Errorf("deadlines %v", got)
		}
		for _, v := range []any{time.Now().Add(-time.Second), "soon"} {
			if _, err := next.SendMessage(t.Context(), from(delegation.DeadlineKey, v)); err == nil {
				t.Errorf("a deadline %v was taken", v)
			}
		}
	})
}

// TestUnguarded: work whose way nobody knows is not handed on.
func TestUnguarded(t *testing.T) {
	if _, err := delegation.Client(nil, nil).SendMessage(t.Context(), message("x")); err == nil {
		t.Error("sent")
	}
}

// TestStripped: headers by which somebody called us do not go on, from wherever an agent has them.
func TestStripped(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var seen box[http.Header]
		h := start(t, parley.Config{Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
			seen.add(info.Header.Clone())
			return nil
		}}, &handsOn{name: "C"})
		ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Extensions: []string{extension.Delegation}, Header: http.Header{
			"Authorization": {"Bearer secret-1"}, "X-Api-Key": {"secret-2"}, "Cookie": {"secret-3"},
			"X-Forwarded-User": {"secret-4"}, "Traceparent": {"kept"},
		}})
		own := delegation.TokenFunc(func(context.Context) (string, error) { return "own", nil })
		if _, err := delegation.Client(dial(t, h, binding), own).GetTask(ctx, &a2a.GetTaskRequest{ID: "x"}); !errors.Is(err, a2a.ErrTaskNotFound) {
			t.Fatal(err)
		}
		got := seen.got()[0]
		if s := fmt.Sprint(got); strings.Contains(s, "secret") || got.Get("Traceparent") != "kept" || got.Get("Authorization") != "Bearer own" {
			t.Errorf("the next agent sees %v", got)
		}
	})
}
