package server_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

// extended puts the extensions on the card.
func extended(c *server.Config) {
	card := *c.Card()
	card.Capabilities.Extensions = extension.Declare()
	c.Card = func() *a2a.AgentCard { return &card }
}

// under returns the context of a call under an extension, with service parameters in pairs.
func under(ctx context.Context, uri string, params ...string) context.Context {
	info := &a2a.CallInfo{Version: a2a.Version, Extensions: []string{uri}, Header: http.Header{}, Caller: a2a.Caller{Issuer: "test", Subject: "alice"}}
	for i := 0; i < len(params); i += 2 {
		info.Header.Set(params[i], params[i+1])
	}
	return a2a.WithCallInfo(ctx, info)
}

// TestManyDuplicates is threat B5: 50 parallel duplicates make one task and one run, and all get its result.
func TestManyDuplicates(t *testing.T) {
	var runs atomic.Int32
	h := newHost(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		return u.Complete(a2a.TextPart(fmt.Sprint(r.Text(), runs.Add(1))))
	}), extended)
	var group sync.WaitGroup
	got := make([]string, 50)
	for i := range got {
		group.Go(func() {
			res, err := h.SendMessage(under(t.Context(), extension.SafeRetry), text("x"))
			if err != nil {
				t.Error(err)
				return
			}
			task := res.(*a2a.Task) //nolint:forcetypeassert // the agent makes tasks
			got[i] = task.ID + said(task)
		})
	}
	group.Wait()
	for _, g := range got {
		if g != got[0] || g[len(g)-2:] != "x1" {
			t.Fatalf("got %q", got)
		}
	}
}

// TestAnswerTwice: an answer that is sent again joins the turn that it began, also when the task has gone on.
func TestAnswerTwice(t *testing.T) {
	var runs atomic.Int32
	h := newHost(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		runs.Add(1)
		return u.Park(a2a.TextPart(r.Text()))
	}), extended)
	ctx := under(t.Context(), extension.SafeRetry)
	task := h.send(ctx, text("first"))
	answer := to(task.ID, "second")
	answer.Message.MessageID = "m2"
	for range 3 {
		got := h.send(under(t.Context(), extension.SafeRetry), answer)
		equal(t, []string{said(got)}, []string{"second"})
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs", n)
	}
}

// TestStrangersDoNotShareIDs: where anonymous callers are strangers, nobody joins another's message.
func TestStrangersDoNotShareIDs(t *testing.T) {
	h := newHost(t, echo, extended, func(c *server.Config) { c.NoAnonymousLists = true })
	stranger := func() context.Context {
		return a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Extensions: []string{extension.SafeRetry}})
	}
	if a, b := h.send(stranger(), text("x")), h.send(stranger(), text("x")); a.ID == b.ID {
		t.Error("two strangers share a task")
	}
}

// TestSentExpires: after a day an id is free again.
func TestSentExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, echo, extended)
		a := h.send(under(t.Context(), extension.SafeRetry), text("x"))
		pass(23 * time.Hour)
		if b := h.send(under(t.Context(), extension.SafeRetry), text("x")); b.ID != a.ID {
			t.Error("taken anew within a day")
		}
		pass(2 * time.Hour)
		if b := h.send(under(t.Context(), extension.SafeRetry), text("x")); b.ID == a.ID {
			t.Error("still the same after a day")
		}
	})
}

// TestLongPoll: GetTask waits for a task to move, not for ever, and not for one that has ended.
func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
			pass(45 * time.Second)
			return u.Message(a2a.TextPart("moved"))
		}), extended)
		ctx := under(t.Context(), extension.TaskLog)
		task := h.send(ctx, immediately(text("x")))
		poll := func(after int64) (int64, time.Duration) {
			begin := time.Now()
			got, err := h.GetTask(under(t.Context(), extension.TaskLog, extension.CurrentGeneration, fmt.Sprint(after)), &a2a.GetTaskRequest{ID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			return extension.Generation(got), time.Since(begin)
		}
		for _, step := range []struct {
			after, generation int64
			wait              time.Duration
		}{{1, 2, 0}, {2, 2, 30 * time.Second}, {2, 4, 15 * time.Second}, {9, 4, 0}} {
			if g, d := poll(step.after); g < step.generation-1 || g > step.generation || d != step.wait {
				t.Errorf("after %d: generation %d after %v", step.after, g, d)
			}
		}
	})
}

// TestResumeAfterTrim: a stream that is resumed where the log is gone begins with the task as it ended.
func TestResumeAfterTrim(t *testing.T) {
	h := newHost(t, echo, extended, func(c *server.Config) {
		c.Store = taskstore.NewMemory(taskstore.MemoryOptions{MaxLogs: 1})
	})
	ctx := under(t.Context(), extension.TaskLog)
	task := h.send(ctx, text("x"))
	h.send(ctx, text("y"))
	n := 0
	for e, err := range h.SubscribeToTask(under(t.Context(), extension.TaskLog, extension.LastEventID, "2"), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		state(t, e.Event.(*a2a.Task), a2a.TaskStateCompleted)
		n++
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
}
