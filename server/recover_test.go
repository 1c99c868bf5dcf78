package server_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

// after starts the process that comes after h's: a server on the same store, to which h's node is gone.
func (h *host) after(a agent.Agent, change ...func(*server.Config)) *host {
	h.t.Helper()
	return newHost(h.t, a, append(change, func(c *server.Config) { c.Store = h.store })...)
}

// stuck writes a chunk and waits for the end of its process, or for a cancel.
var stuck = agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
	if err := u.Begin("x").WriteText("kept"); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
})

func TestCutRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, stuck)
		task := h.send(t.Context(), immediately(text("x")))
		pass(time.Second)
		next := h.after(stuck)
		got := next.get(task.ID)
		state(t, got, a2a.TaskStateFailed)
		equal(t, []string{said(got), got.Artifacts[0].Text()}, []string{"The task was interrupted by a restart of the host. Send the message again.", "kept"})
	})
}

func TestCutRunWithCancelLatchIsCanceled(t *testing.T) {
	// The process ends between the latch and the end of the run.
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	h := newHost(t, stuck, func(c *server.Config) { c.Store = store })
	task := h.send(t.Context(), immediately(text("x")))
	key := taskstore.Key{Scope: taskstore.Scope{Agent: "test"}, Task: task.ID}
	if _, err := store.Commit(t.Context(), taskstore.Change{Key: key, Latch: true}); err != nil {
		t.Fatal(err)
	}
	state(t, h.after(stuck).get(task.ID), a2a.TaskStateCanceled)
}

// again is an agent that counts its runs and is restartable.
type again struct {
	runs  atomic.Int32
	works func(r *agent.Request, u *agent.Updater, run int32, ctx context.Context) error
}

func (a *again) Restartable() bool { return true }

func (a *again) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	return a.works(r, u, a.runs.Add(1), ctx)
}

func TestCutRunRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &again{works: func(r *agent.Request, u *agent.Updater, run int32, ctx context.Context) error {
			if run < 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return u.Complete(a2a.TextPart(fmt.Sprint(r.Text(), r.Attempt, r.Caller.Subject, r.Metadata.Get("k", new(string)))))
		}}
		h := newHost(t, a)
		ctx := as(t.Context(), "alice")
		req := immediately(text("x"))
		req.Metadata = a2a.Struct{}.With("k", "v")
		task := h.send(ctx, req)
		pass(time.Second)
		second := h.after(a)
		pass(time.Second)
		third := second.after(a)
		pass(time.Second)
		got, err := third.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		state(t, got, a2a.TaskStateCompleted)
		equal(t, []string{said(got)}, []string{"x3alicetrue"})
	})
}

// TestEndlessCrash: a turn that ends the process each time does not end every process.
func TestEndlessCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &again{works: func(_ *agent.Request, _ *agent.Updater, _ int32, ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		h := newHost(t, a)
		task := h.send(t.Context(), immediately(text("x")))
		for range 5 {
			pass(time.Second)
			h = h.after(a)
		}
		state(t, h.get(task.ID), a2a.TaskStateFailed)
		if n := a.runs.Load(); n != 3 {
			t.Errorf("%d runs", n)
		}
	})
}

// TestShutdownLeavesRestartable: an orderly stop of a restartable agent's host leaves the turns to the next process, also of
// runs that return at once when their context ends.
func TestShutdownLeavesRestartable(t *testing.T) {
	const many = 20
	synctest.Test(t, func(t *testing.T) {
		a := &again{works: func(_ *agent.Request, u *agent.Updater, run int32, ctx context.Context) error {
			if err := u.Begin("x").WriteText("a"); err != nil {
				return err
			}
			if run <= many {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		h := newHost(t, a)
		var tasks [many]*a2a.Task
		for i := range tasks {
			tasks[i] = h.send(t.Context(), immediately(text("x")))
		}
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h.Shutdown(ctx)
		next := h.after(a)
		pass(time.Second)
		for _, task := range tasks {
			state(t, next.get(task.ID), a2a.TaskStateCompleted)
		}
	})
}

// TestShutdownEndsQuestions: what waits in Ask cannot be answered any more, so a stop does not wait for it.
func TestShutdownEndsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
			_, err := u.Ask(ctx, a2a.TextPart("?"))
			return err
		}))
		task := h.send(t.Context(), text("x"))
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h.Shutdown(ctx)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("the stop took %v", d)
		}
		state(t, h.after(echo).get(task.ID), a2a.TaskStateFailed)
	})
}

// TestWaitingTasksStart: tasks that never started start in the next process, in their order, with all that was sent.
func TestWaitingTasksStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, stuck, func(c *server.Config) { c.Limits.Running = 1 })
		ctx := as(t.Context(), "alice")
		ids := make([]string, 4)
		for i := range ids {
			ids[i] = h.send(ctx, immediately(text(fmt.Sprint("m", i)))).ID
		}
		pass(time.Second)
		var order []string
		next := h.after(agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
			order = append(order, r.Text()+r.Caller.Subject)
			pass(time.Second)
			return u.Complete()
		}), func(c *server.Config) { c.Limits.Running = 1 })
		pass(time.Minute)
		equal(t, order, []string{"m1alice", "m2alice", "m3alice"})
		for i, id := range ids {
			got, err := next.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			want := a2a.TaskStateCompleted
			if i == 0 {
				want = a2a.TaskStateFailed
			}
			state(t, got, want)
		}
	})
}

// TestParkedSurvives: a parked task takes its answer in the next process, and a subscription to it opens there.
func TestParkedSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		park := agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
			if len(r.Task.History) == 1 {
				return u.Park(a2a.TextPart("which?"))
			}
			return u.Complete(a2a.TextPart(r.Text()))
		})
		h := newHost(t, park)
		task := h.send(t.Context(), text("x"))
		state(t, task, a2a.TaskStateInputRequired)
		next := h.after(park)
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range next.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
				if err != nil {
					t.Error(err)
					return
				}
				seen = append(seen, fmt.Sprint(e.Generation))
			}
		}()
		synctest.Wait()
		state(t, next.send(t.Context(), to(task.ID, "that")), a2a.TaskStateCompleted)
		<-done
		equal(t, seen, []string{"3", "4", "5"})
	})
}

// TestRecoverLater: what the store would not settle at the start is settled when it works again.
func TestRecoverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, stuck)
		task := h.send(t.Context(), immediately(text("x")))
		pass(time.Second)
		b := &broken{Store: h.store}
		next := newHost(t, stuck, func(c *server.Config) { c.Store = b })
		state(t, next.get(task.ID), a2a.TaskStateWorking)
		b.after.Store(1 << 30)
		pass(15 * time.Second)
		state(t, next.get(task.ID), a2a.TaskStateFailed)
	})
}
