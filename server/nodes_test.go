//go:build unix

package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/pgtest"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/postgres"
)

// database is the PostgreSQL server of these tests; it is started by the first that needs it.
var database struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if database.server != nil {
		database.server.Stop()
	}
	os.Exit(code)
}

// newDatabase returns the URL of an empty database.
func newDatabase(t *testing.T) string {
	t.Helper()
	database.once.Do(func() { database.server, database.err = pgtest.Start(context.Background()) })
	switch {
	case database.err != nil:
		t.Fatal(database.err)
	case database.server == nil:
		t.Skip(pgtest.Missing + ": servers that share one were not tested")
	}
	return database.server.URL(database.server.Dir, database.server.Database(t, "template0"))
}

// deaf is a store whose hints are all lost.
type deaf struct{ taskstore.Store }

func (deaf) Notify(func(string)) (stop func()) { return func() {} }

func (d deaf) Unwrap() taskstore.Store { return d.Store }

// onDatabase returns a server on a store of its own, in a database that others have too. It hears no hints: whatever
// these tests wait for comes without them.
func onDatabase(t *testing.T, url string, a agent.Agent, change ...func(*server.Config)) *host {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return newHost(t, a, append([]func(*server.Config){func(c *server.Config) { c.Store = deaf{s} }}, change...)...)
}

// hears has a server on a database hear hints all the same.
func hears(c *server.Config) { c.Store = c.Store.(deaf).Store }

// soon waits until a task is in a state.
func (h *host) soon(id string, want a2a.TaskState, within time.Duration) *a2a.Task {
	h.t.Helper()
	tick, end := time.NewTicker(20*time.Millisecond), time.After(within)
	defer tick.Stop()
	for {
		task := h.get(id)
		if task.Status.State == want {
			return task
		}
		select {
		case <-tick.C:
		case <-end:
			h.t.Fatalf("the task is %v after %v, want %v (%s)", task.Status.State, within, want, said(task))
		}
	}
}

// TestAnyNode serves calls on a node that does not run the task.
func TestAnyNode(t *testing.T) {
	url := newDatabase(t)
	works := func(node string) agent.Agent {
		return agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			switch r.Text() {
			case "ask":
				m, err := u.Ask(ctx, a2a.TextPart("which?"))
				if err != nil {
					return err
				}
				return u.Complete(a2a.TextPart(m.Text() + " at " + node))
			case "park":
				return u.Park(a2a.TextPart("which?"))
			case "wait":
				<-ctx.Done()
				return ctx.Err()
			case "busy": // hints come all the time
				for ctx.Err() == nil {
					if err := u.Progress(a2a.TextPart("at it")); err != nil {
						return err
					}
				}
				return ctx.Err()
			case "chunks":
				w := u.Begin("x")
				for i := range 50 {
					if err := w.WriteText(fmt.Sprint(i, ";")); err != nil {
						return err
					}
				}
			}
			return u.Complete(a2a.TextPart(r.Text() + " at " + node))
		})
	}
	a, b := onDatabase(t, url, works("a"), extended), onDatabase(t, url, works("b"), extended)

	t.Run("cancel", func(t *testing.T) { cancelOn(t, a, b, "wait") })
	t.Run("cancel busy", func(t *testing.T) { cancelOn(t, onDatabase(t, url, works("c"), hears), b, "busy") })
	t.Run("answer", func(t *testing.T) {
		task := a.send(t.Context(), text("ask"))
		state(t, task, a2a.TaskStateInputRequired)
		if got := said(b.send(t.Context(), to(task.ID, "this"))); got != "this at a" {
			t.Errorf("the task says %q", got)
		}
	})
	t.Run("parked", func(t *testing.T) {
		task := a.send(t.Context(), text("park"))
		if got := said(b.send(t.Context(), to(task.ID, "this"))); got != "this at b" {
			t.Errorf("the task says %q", got)
		}
		state(t, a.get(task.ID), a2a.TaskStateCompleted)
	})
	t.Run("subscribe", func(t *testing.T) {
		task := a.send(t.Context(), text("ask"))
		seen, done := make(chan int64, 100), make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range b.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
				if err != nil {
					t.Error(err)
					return
				}
				seen <- e.Generation
			}
		}()
		next := <-seen
		a.send(t.Context(), to(task.ID, "this"))
		<-done
		for close(seen); ; {
			g, more := <-seen
			if !more {
				break
			}
			if next++; g != next {
				t.Errorf("frame %d came, want %d", g, next)
			}
		}
		if next != 5 {
			t.Errorf("the stream ended at frame %d", next)
		}
	})
	t.Run("retry", func(t *testing.T) {
		ids := make(chan string, 20)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				res, err := []*host{a, b}[i%2].SendMessage(under(t.Context(), extension.SafeRetry), text("chunks"))
				if err != nil {
					t.Error(err)
					return
				}
				ids <- res.(*a2a.Task).ID
			})
		}
		all.Wait()
		close(ids)
		first := <-ids
		for id := range ids {
			if id != first {
				t.Fatal("one message made two tasks")
			}
		}
	})
}

// cancelOn cancels a task of one node on the other.
func cancelOn(t *testing.T, a, b *host, how string) {
	t.Helper()
	task := a.send(t.Context(), immediately(text(how)))
	began := time.Now()
	got, err := b.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
	if err != nil {
		t.Fatal(err)
	}
	state(t, got, a2a.TaskStateCanceled)
	if d := time.Since(began); d > 4*time.Second { // the grace is 5 s
		t.Errorf("the run heard of the cancel after %v", d)
	}
}

// TestOtherNodeTakesWaiting: a task that waits for its turn on one node starts on another that has room.
func TestOtherNodeTakesWaiting(t *testing.T) {
	url := newDatabase(t)
	a := onDatabase(t, url, stuck, func(c *server.Config) { c.Limits.Running = 1 })
	a.send(t.Context(), immediately(text("1")))
	task := a.send(t.Context(), immediately(text("2")))
	state(t, task, a2a.TaskStateSubmitted)
	b := onDatabase(t, url, echo)
	b.soon(task.ID, a2a.TaskStateCompleted, 5*time.Second)
}

// TestLeavingNode: what an orderly stop leaves of a restartable agent another node goes on with soon.
func TestLeavingNode(t *testing.T) {
	url := newDatabase(t)
	began := make(chan struct{})
	works := &again{works: func(_ *agent.Request, u *agent.Updater, run int32, ctx context.Context) error {
		if run == 1 {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		}
		return u.Complete()
	}}
	a, b := onDatabase(t, url, works), onDatabase(t, url, works)
	task := a.send(t.Context(), immediately(text("x")))
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.Shutdown(ctx)
	b.soon(task.ID, a2a.TaskStateCompleted, 5*time.Second)
}

// hanging is a store whose question for cancels has no answer while it hangs, as when the network swallows all.
type hanging struct {
	taskstore.Store
	taskstore.Nodes
	asked chan struct{}
	hangs atomic.Bool
}

func (h *hanging) Unwrap() taskstore.Store { return h.Store }

func (h *hanging) Latched(ctx context.Context, node string) ([]taskstore.Key, error) {
	if !h.hangs.Load() {
		return h.Nodes.Latched(ctx, node)
	}
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLostNodeHangs: a node that waits for the database to answer ends its runs all the same when it is lost.
func TestLostNodeHangs(t *testing.T) {
	url := newDatabase(t)
	ended, h := make(chan struct{}), &hanging{asked: make(chan struct{}, 1)}
	a := onDatabase(t, url, agent.Func(func(ctx context.Context, _ *agent.Request, _ *agent.Updater) error {
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}), func(c *server.Config) {
		h.Store = c.Store
		h.Nodes, _ = taskstore.As[taskstore.Nodes](c.Store)
		c.Store = h
	})
	a.send(t.Context(), immediately(text("x")))
	h.hangs.Store(true)
	<-h.asked
	database.server.Exec(t, databaseOf(url), "UPDATE nodes SET expires_at = clock_timestamp()") // the next beat, at most 3 s later, finds out
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("5 s after the node was lost its run goes on")
	}
	h.hangs.Store(false)
}

// TestStoreDeadline: a deadline of the store's own is no deadline of the caller.
func TestStoreDeadline(t *testing.T) {
	h := newHost(t, stuck, func(c *server.Config) { c.Store = slow{c.Store} })
	_, err := h.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "x"})
	want(t, err, a2a.ErrUnavailable, "try again later")
}

// slow is a store that cannot be reached in the time that it gives itself.
type slow struct{ taskstore.Store }

func (slow) Task(context.Context, taskstore.Key, int64) (taskstore.Snapshot, error) {
	return taskstore.Snapshot{}, fmt.Errorf("%w: %w", taskstore.ErrUnavailable, context.DeadlineExceeded)
}

// TestLostNode takes the time of a node away, as the loss of the database does: its runs end, another node settles them,
// and it goes on under a new name.
func TestLostNode(t *testing.T) {
	url := newDatabase(t)
	ended := make(chan error, 1)
	a := onDatabase(t, url, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		if r.Text() == "again" {
			return u.Complete()
		}
		<-ctx.Done()
		err := u.Complete(a2a.TextPart("late"))
		ended <- err
		return err
	}))
	task := a.send(t.Context(), immediately(text("x")))
	key := taskstore.Key{Scope: taskstore.Scope{Agent: "test"}, Task: task.ID}
	snap, err := a.store.Task(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := onDatabase(t, url, stuck)
	database.server.Exec(t, databaseOf(url), fmt.Sprintf("UPDATE nodes SET expires_at = clock_timestamp() WHERE node = '%s'", snap.Node))
	failed := b.soon(task.ID, a2a.TaskStateFailed, 15*time.Second)
	if err := <-ended; !errors.Is(err, agent.ErrEnded) {
		t.Errorf("the lost run wrote: %v", err)
	}
	if got := b.get(task.ID); said(got) != said(failed) {
		t.Errorf("the task says %q", said(got))
	}
	for {
		res, err := a.SendMessage(t.Context(), text("again"))
		if errors.Is(err, a2a.ErrUnavailable) {
			continue // it is about to join
		}
		if err != nil {
			t.Fatal(err)
		}
		state(t, res.(*a2a.Task), a2a.TaskStateCompleted)
		break
	}
}

// databaseOf returns the name at the end of the URLs of these tests.
func databaseOf(url string) string {
	var name string
	for i := len(url) - 1; url[i] != '='; i-- {
		name = url[i:]
	}
	return name
}

// unsure is a store that carries a change out and then says that it does not know.
type unsure struct {
	taskstore.Store
	left atomic.Int32
}

func (u *unsure) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	r, err := u.Store.Commit(ctx, c)
	if err == nil && c.Claim != "" && u.left.Add(-1) >= 0 {
		return taskstore.Receipt{}, fmt.Errorf("the line went dead: %w", taskstore.ErrUnavailable)
	}
	return r, err
}

// TestUnsureBegin: a run whose beginning was recorded though the store gave an error is not forgotten.
func TestUnsureBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unsure{Store: taskstore.NewMemory(taskstore.MemoryOptions{})}
		h := newHost(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
			if r.Text() == "park" {
				return u.Park(a2a.TextPart("which?"))
			}
			pass(time.Second)
			return u.Complete(a2a.TextPart(r.Text()))
		}), func(c *server.Config) { c.Store, c.Limits.Running = u, 1 })
		only := func() *a2a.Task {
			t.Helper()
			list, err := h.ListTasks(t.Context(), &a2a.ListTasksRequest{Status: a2a.TaskStateWorking})
			if err != nil || len(list.Tasks) != 1 {
				t.Fatalf("ListTasks = %+v, %v", list, err)
			}
			return list.Tasks[0]
		}
		check := func(id string) {
			t.Helper()
			pass(5 * time.Second)
			state(t, h.get(id), a2a.TaskStateCompleted)
			synctest.Wait() // its place is free a moment later
		}

		u.left.Store(1) // at a new task
		_, err := h.SendMessage(t.Context(), text("x"))
		want(t, err, a2a.ErrUnavailable)
		check(only().ID)

		u.left.Store(0) // at an answer
		parked := h.send(t.Context(), text("park"))
		synctest.Wait()
		u.left.Store(1)
		_, err = h.SendMessage(t.Context(), to(parked.ID, "that"))
		want(t, err, a2a.ErrUnavailable)
		check(parked.ID)

		u.left.Store(0) // at one that waited for its turn
		h.send(t.Context(), immediately(text("first")))
		second := h.send(t.Context(), immediately(text("second")))
		u.left.Store(1)
		state(t, second, a2a.TaskStateSubmitted)
		check(second.ID)
	})
}

// TestTwoAnswersThenCancel: of two answers at once one is taken, and its run can be canceled after the other was refused.
func TestTwoAnswersThenCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			if r.Text() == "park" {
				return u.Park(a2a.TextPart("which?"))
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		task := h.send(t.Context(), text("park"))
		var refused atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := h.SendMessage(t.Context(), immediately(to(task.ID, "that"))); err != nil {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if n := refused.Load(); n != 9 {
			t.Errorf("%d of 10 answers were refused", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := h.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		state(t, got, a2a.TaskStateCanceled)
	})
}

// full is a store without room, once on is set.
type full struct {
	taskstore.Store
	on atomic.Bool
}

func (f *full) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if f.on.Load() {
		return taskstore.Receipt{}, fmt.Errorf("no room in the secret place: %w", taskstore.ErrUnavailable)
	}
	return f.Store.Commit(ctx, c)
}

// TestFullStore: while nothing can be recorded, callers are told to come later, and the log is told once a minute.
func TestFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{Store: taskstore.NewMemory(taskstore.MemoryOptions{})}
		h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
			pass(time.Second)
			return u.Complete()
		}), func(c *server.Config) { c.Store = f })
		var ids []string
		for range 20 {
			ids = append(ids, h.send(t.Context(), immediately(text("x"))).ID)
		}
		f.on.Store(true)
		pass(50 * time.Second)
		_, err := h.SendMessage(t.Context(), text("x"))
		want(t, err, a2a.ErrUnavailable, "try again later")
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the caller reads %q", err)
		}
		if n := strings.Count(h.log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
		f.on.Store(false)
		pass(time.Minute)
		for _, id := range ids {
			if !h.get(id).Status.State.Terminal() {
				t.Errorf("the task %s did not end when there was room again", id)
			}
		}
	})
}
