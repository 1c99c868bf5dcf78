package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

func openNew(tb testing.TB, opts Options) *Store {
	return open(tb, filepath.Join(tb.TempDir(), "a.db"), opts)
}

// together commits changes in one transaction and returns what became of each.
func together(t *testing.T, s *Store, changes ...taskstore.Change) ([]taskstore.Receipt, []error) {
	t.Helper()
	requests := make([]*request, len(changes))
	for i, c := range changes {
		var err error
		if requests[i], err = newRequest(c); err != nil {
			t.Fatal(err)
		}
	}
	before := s.transactions.Load()
	s.queue.mu.Lock()
	s.queue.waiting = append(s.queue.waiting, requests...)
	s.queue.hint()
	s.queue.mu.Unlock()
	receipts, errs := make([]taskstore.Receipt, len(changes)), make([]error, len(changes))
	for i, r := range requests {
		<-r.done
		receipts[i], errs[i] = r.receipt, r.err
	}
	if n := s.transactions.Load() - before; n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
	return receipts, errs
}

// TestRefusedAmongOthers has changes in one transaction that are refused for what those before them did, and
// leave the others whole.
func TestRefusedAmongOthers(t *testing.T) {
	s := openNew(t, Options{})
	a, b := key("a"), key("b")
	create := func(k taskstore.Key) taskstore.Change {
		return taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{taskRecord(k, now())}}
	}
	status := func(c taskstore.Change, state a2a.TaskState) taskstore.Change {
		c.Records = []taskstore.Record{statusRecord(c.Key, state, now())}
		return c
	}
	chunk := func(c taskstore.Change, text string) taskstore.Change {
		c.Records = []taskstore.Record{chunkRecord(c.Key, text, true)}
		return c
	}
	steps := []struct {
		change     taskstore.Change
		want       error
		generation int64
	}{
		{create(a), nil, 1},
		{create(a), taskstore.ErrExists, 0},
		{status(taskstore.Change{Key: b, IfHead: 1}, a2a.TaskStateWorking), taskstore.ErrNotFound, 0},
		{create(b), nil, 1},
		{status(taskstore.Change{Key: a, IfHead: 1, Claim: "n1"}, a2a.TaskStateWorking), nil, 2},
		{status(taskstore.Change{Key: a, IfHead: 1, Claim: "n2"}, a2a.TaskStateWorking), taskstore.ErrConflict, 0},
		{taskstore.Change{Key: a, Claim: "n2"}, taskstore.ErrHeld, 0},
		{chunk(taskstore.Change{Key: a, Epoch: 7}, "lost"), taskstore.ErrFenced, 0},
		{chunk(taskstore.Change{Key: a, Epoch: 1}, "1"), nil, 3},
		{chunk(taskstore.Change{Key: b}, "2"), nil, 2},
		{taskstore.Change{Key: a, Latch: true}, nil, 3},
		{status(taskstore.Change{Key: a, Epoch: 1}, a2a.TaskStateCompleted), taskstore.ErrLatched, 0},
		{status(taskstore.Change{Key: a, Epoch: 1}, a2a.TaskStateCanceled), nil, 4},
		{chunk(taskstore.Change{Key: a, Epoch: 1}, "late"), taskstore.ErrTerminal, 0},
		{chunk(taskstore.Change{Key: b}, "3"), nil, 3},
	}
	changes := make([]taskstore.Change, len(steps))
	for i := range steps {
		changes[i] = steps[i].change
	}
	receipts, errs := together(t, s, changes...)
	for i, want := range steps {
		if !errors.Is(errs[i], want.want) || errs[i] != nil && want.want == nil || receipts[i].Generation != want.generation {
			t.Errorf("change %d: generation %d, %v; want %d, %v", i, receipts[i].Generation, errs[i], want.generation, want.want)
		}
	}
	check := func(s *Store) {
		t.Helper()
		for k, want := range map[taskstore.Key]struct {
			head  int64
			state a2a.TaskState
			text  string
		}{a: {4, a2a.TaskStateCanceled, "1"}, b: {3, a2a.TaskStateSubmitted, "23"}} {
			snap, err := s.Task(t.Context(), k, 0)
			if err != nil || snap.Generation != want.head || snap.Task.Status.State != want.state || snap.Task.Artifacts[0].Text() != want.text || snap.Node != "" {
				t.Errorf("task %s: %+v %v, want %+v", k.Task, snap, err, want)
			}
			if log, err := s.Entries(t.Context(), k, 0, 10); err != nil || int64(len(log)) != want.head {
				t.Errorf("task %s: %d records, %v", k.Task, len(log), err)
			}
		}
		checkCounters(t, s)
	}
	check(s)
	s.Close()
	check(open(t, s.path, Options{}))
}

// TestGroupCommit counts the transactions of many writers.
func TestGroupCommit(t *testing.T) {
	s := openNew(t, Options{})
	const writers, each = 64, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				oneTask(t, s, newID())
			}
		})
	}
	wg.Wait()
	commits, transactions := int64(3*writers*each), s.transactions.Load()
	t.Logf("%d commits in %d transactions", commits, transactions)
	if transactions*5 > commits {
		t.Errorf("%d transactions for %d commits of %d writers", transactions, commits, writers)
	}
	checkCounters(t, s)
	if n, err := s.Count(t.Context(), alice, a2a.TaskStateCompleted); err != nil || n != writers*each {
		t.Errorf("Count = %d, %v", n, err)
	}
}

// TestNothingToWrite has a batch of refusals only: no transaction for them.
func TestNothingToWrite(t *testing.T) {
	s := openNew(t, Options{})
	if _, err := s.Commit(t.Context(), taskstore.Change{Key: key("none"), Latch: true}); !errors.Is(err, taskstore.ErrNotFound) {
		t.Error(err)
	}
	if n := s.transactions.Load(); n != 0 {
		t.Errorf("%d transactions", n)
	}
}

// limit sets how many pages the database may have, as a disk of that size would. 0: any number.
func limit(t *testing.T, s *Store, pages int) {
	t.Helper()
	if pages == 0 {
		pages = 1 << 30
	}
	d, err := s.w.Prepare(fmt.Sprintf("PRAGMA max_page_count=%d", pages))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := (&stmt{Stmt: d}).query(readInt(new(int64))); err != nil {
		t.Fatal(err)
	}
}

// TestFull fills the database to a limit, while many write, and goes on when there is room again.
func TestFull(t *testing.T) {
	var log strings.Builder
	s := openNew(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	fillUp(t, s, func() { limit(t, s, 200) }, func() { limit(t, s, 0) })
	if n := strings.Count(log.String(), "cannot write"); n == 0 || n > 8 { // a smaller change may still have fitted
		t.Errorf("the log says %d times that the store cannot write:\n%s", n, log.String())
	}
}

// fillUp writes to a store of little room until it is full, and looks that all of that is clean: an error that
// is no verdict, nothing half-written, reads that work, and writes when more made room.
func fillUp(t *testing.T, s *Store, less, more func()) {
	t.Helper()
	k := key("a")
	first := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
	less()
	text := strings.Repeat("x", 3000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]int64{}
	for w := range 8 {
		wg.Go(func() {
			id := fmt.Sprint("w", w)
			k := key(id)
			r, err := s.Commit(t.Context(), taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
			for i := range 100_000 {
				if err != nil {
					break
				}
				mu.Lock()
				acked[id] = r.Generation
				mu.Unlock()
				r, err = s.Commit(t.Context(), taskstore.Change{
					Key: k, Epoch: 1, Values: map[string]string{"chunks": fmt.Sprint(i)},
					Records: []taskstore.Record{chunkRecord(k, text, i > 0), chunkRecord(k, text, true)},
				})
			}
			if !errors.Is(err, ErrFull) {
				t.Errorf("the end of the room: %v", err)
			}
			for _, v := range verdicts {
				if errors.Is(err, v) {
					t.Errorf("%v is a verdict", err)
				}
			}
		})
	}
	wg.Wait()
	whole := func(s *Store) {
		t.Helper()
		for id, want := range acked {
			log, err := s.Entries(t.Context(), key(id), 0, 100_000)
			if err != nil || int64(len(log)) != want || len(log)%2 == 0 {
				t.Errorf("task %s has %d records, %d were acknowledged: %v", id, len(log), want, err)
			}
			snap, err := s.Task(t.Context(), key(id), 0)
			if err != nil || snap.Generation != want {
				t.Errorf("task %s: generation %d, %v", id, snap.Generation, err)
			}
		}
		checkCounters(t, s)
	}
	whole(s)
	if _, err := s.List(t.Context(), taskstore.Query{Scope: alice, PageSize: 10, Artifacts: true}); err != nil {
		t.Errorf("List of a full store: %v", err)
	}
	if _, err := s.Commit(t.Context(), taskstore.Change{Key: k, Claim: "n"}); !errors.Is(err, taskstore.ErrHeld) {
		t.Errorf("a refusal by a full store: %v", err)
	}
	more()
	r := commit(t, s, taskstore.Change{Key: k, Epoch: first.Epoch, Records: []taskstore.Record{chunkRecord(k, text, false)}})
	if r.Generation != 2 {
		t.Errorf("after the error the next record has the generation %d, want 2", r.Generation)
	}
	whole(s)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	whole(open(t, s.path, Options{}))
}

// hooked is a statement that a test has a hand in.
type hooked struct {
	driver.Stmt
	exec func(run func() (driver.Result, error)) (driver.Result, error)
}

func (h *hooked) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return h.exec(func() (driver.Result, error) {
		return h.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

// hook puts f before the next run of a statement of the writer's. The writer is idle.
func hook(st *stmt, f func(run func() (driver.Result, error)) (driver.Result, error)) {
	before := st.Stmt
	st.Stmt = &hooked{Stmt: before, exec: func(run func() (driver.Result, error)) (driver.Result, error) {
		st.Stmt = before
		return f(run)
	}}
}

// TestFault has a statement in the middle of a transaction fail: all changes of it fail, nothing of it is there,
// and the next ones work.
func TestFault(t *testing.T) {
	s := openNew(t, Options{Log: slog.New(slog.DiscardHandler)})
	a, b := key("a"), key("b")
	r := commit(t, s, taskstore.Change{Key: a, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(a, now())}})
	broken := errors.New("broken")
	changes := func() []taskstore.Change {
		return []taskstore.Change{
			{Key: b, Create: true, Records: []taskstore.Record{taskRecord(b, now())}},
			{Key: b, IfHead: 7, Records: []taskstore.Record{chunkRecord(b, "1", false)}},
			{Key: a, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(a, "1", false), statusRecord(a, a2a.TaskStateCompleted, now())}},
		}
	}
	for name, st := range map[string]*stmt{"snapshot": s.w.setSnapshot, "counter": s.w.addTotal, "commit": s.w.commit} {
		hook(st, func(func() (driver.Result, error)) (driver.Result, error) { return nil, broken })
		_, errs := together(t, s, changes()...)
		for i, err := range errs {
			if !errors.Is(err, broken) {
				t.Errorf("%s: change %d: %v", name, i, err)
			}
		}
		if h, err := s.Heads(t.Context(), []taskstore.Key{a, b}); err != nil || !slices.Equal(h, []int64{1, 0}) {
			t.Errorf("%s: Heads = %v, %v", name, h, err)
		}
		if n, err := s.Count(t.Context(), alice, a2a.TaskStateSubmitted); err != nil || n != 1 {
			t.Errorf("%s: Count = %d, %v", name, n, err)
		}
		checkCounters(t, s)
	}
	if _, errs := together(t, s, changes()...); errs[0] != nil || !errors.Is(errs[1], taskstore.ErrConflict) || errs[2] != nil {
		t.Errorf("afterwards: %v", errs)
	}
	checkCounters(t, s)
}

// TestUncertain has a COMMIT that works and says that it did not: the store then goes by the file.
func TestUncertain(t *testing.T) {
	s := openNew(t, Options{Log: slog.New(slog.DiscardHandler)})
	k := key("a")
	r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
	hook(s.w.commit, func(run func() (driver.Result, error)) (driver.Result, error) {
		_, err := run()
		return nil, errors.Join(err, errors.New("who knows"))
	})
	next := taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateWorking, now())}}
	if _, err := s.Commit(t.Context(), next); err == nil {
		t.Fatal("no error")
	}
	if snap, err := s.Task(t.Context(), k, 0); err != nil || snap.Generation != 2 {
		t.Errorf("%+v, %v", snap, err)
	}
	if r := commit(t, s, next); r.Generation != 3 {
		t.Errorf("the next record has the generation %d, want 3", r.Generation)
	}
	if n, err := s.Count(t.Context(), alice, a2a.TaskStateWorking); err != nil || n != 1 {
		t.Errorf("Count = %d, %v", n, err)
	}
	checkCounters(t, s)
}

// TestContext has a writer that is busy: a context ends the waiting of what it has not taken, and of nothing
// else.
func TestContext(t *testing.T) {
	s := openNew(t, Options{})
	entered, leave := make(chan struct{}), make(chan struct{})
	stop := s.Notify(func(string) { entered <- struct{}{}; <-leave })
	commit(t, s, taskstore.Change{Key: key("a"), Create: true, Records: []taskstore.Record{taskRecord(key("a"), now())}})
	<-entered // the writer is in Notify, and takes nothing
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	idle(s)
	go func() {
		_, err := s.Commit(ctx, taskstore.Change{Key: key("b"), Create: true, Records: []taskstore.Record{taskRecord(key("b"), now())}})
		result <- err
	}()
	hinted(s)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a change that waited: %v", err)
	}
	if _, err := s.Commit(ctx, taskstore.Change{Key: key("b"), Latch: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that had ended: %v", err)
	}
	close(leave)
	stop()
	oneTask(t, s, "c")

	// One that was taken is committed, whatever the context says.
	taken, goOn := make(chan struct{}), make(chan struct{})
	hook(s.w.commit, func(run func() (driver.Result, error)) (driver.Result, error) {
		close(taken)
		<-goOn
		return run()
	})
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		_, err := s.Commit(ctx, taskstore.Change{Key: key("a"), Records: []taskstore.Record{chunkRecord(key("a"), "1", false)}})
		result <- err
	}()
	<-taken
	cancel()
	select {
	case err := <-result:
		t.Errorf("a change that was taken did not wait: %v", err)
	case <-time.After(10 * time.Millisecond):
		close(goOn)
		if err := <-result; err != nil {
			t.Errorf("a change that was taken: %v", err)
		}
	}
	if h, err := s.Heads(t.Context(), []taskstore.Key{key("a"), key("b")}); err != nil || !slices.Equal(h, []int64{2, 0}) {
		t.Errorf("Heads = %v, %v", h, err)
	}
}

// idle takes the hint that may be left for a writer that is busy, so that hinted waits for the next one.
func idle(s *Store) {
	select {
	case <-s.queue.wake:
	default:
	}
}

// hinted waits until the queue, of a writer that is busy, got a change or was closed.
func hinted(s *Store) {
	<-s.queue.wake
	s.queue.hint()
}

// TestClose commits what waited, and refuses what comes after.
func TestClose(t *testing.T) {
	s := openNew(t, Options{})
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	s.Notify(func(string) { entered <- struct{}{}; <-leave })
	create := func(id string) error {
		_, err := s.Commit(t.Context(), taskstore.Change{Key: key(id), Create: true, Records: []taskstore.Record{taskRecord(key(id), now())}})
		return err
	}
	if err := create("a"); err != nil {
		t.Fatal(err)
	}
	<-entered
	result := make(chan error, 2)
	idle(s)
	go func() { result <- create("b") }()
	hinted(s)
	idle(s)
	go func() { result <- s.Close() }()
	hinted(s)
	close(leave)
	for range 2 {
		if err := <-result; err != nil {
			t.Errorf("a change that waited, or Close: %v", err)
		}
	}
	if err := create("c"); !errors.Is(err, ErrClosed) {
		t.Errorf("Commit after Close: %v", err)
	}
	if _, err := s.Values(t.Context(), alice, "c"); !errors.Is(err, ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	h, err := open(t, s.path, Options{}).Heads(t.Context(), []taskstore.Key{key("a"), key("b"), key("c")})
	if err != nil || !slices.Equal(h, []int64{1, 1, 0}) {
		t.Errorf("Heads = %v, %v", h, err)
	}
}

// TestUnreadable refuses what could be written and not be read again, and spoils nothing by it.
func TestUnreadable(t *testing.T) {
	s := openNew(t, Options{})
	k := key("a")
	r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
	data := func(raw string) taskstore.Record {
		rec := chunkRecord(k, "", false)
		rec.Event.(*a2a.TaskArtifactUpdateEvent).Artifact.Parts[0].Content = a2a.Data(raw)
		return rec
	}
	turn := statusRecord(k, a2a.TaskStateWorking, now())
	turn.Turn = &a2a.Message{MessageID: "m", Metadata: a2a.Struct{"x": []byte(`{`)}}
	for name, rec := range map[string]taskstore.Record{
		"no JSON": data(`{"a":`), "too deep": data(strings.Repeat("[", 1000) + strings.Repeat("]", 1000)), "a turn": turn,
	} {
		if _, err := s.Commit(t.Context(), taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{rec}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{data(`{"n":1,"big":9007199254740993,"z":null}`)}})
	s.Close()
	snap, err := open(t, s.path, Options{}).Task(t.Context(), k, 0)
	if err != nil || snap.Generation != 2 {
		t.Fatalf("%+v, %v", snap, err)
	}
	if got := snap.Task.Artifacts[0].Parts[0].Content; string(got.(a2a.Data)) != `{"n":1,"big":9007199254740993,"z":null}` {
		t.Errorf("data came back as %s", got)
	}
}

// TestSnapshots folds long random logs that have many snapshots, with and without memory, and anew.
func TestSnapshots(t *testing.T) {
	for _, cache := range []int64{1, 0} {
		t.Run(fmt.Sprint("cache=", cache), func(t *testing.T) {
			s := openNew(t, Options{CacheBytes: cache, Durability: Normal})
			rng := rand.New(rand.NewPCG(5, 6))
			k := key("a")
			r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
			snapshots := map[int64]bool{}
			for i := range 160 {
				var rec taskstore.Record
				text := strings.Repeat(fmt.Sprint(i, " "), 1+rng.IntN(6000))
				switch rng.IntN(5) {
				case 0:
					rec = statusRecord(k, a2a.TaskStateWorking, now())
					rec.Event.(*a2a.TaskStatusUpdateEvent).Status.Message = &a2a.Message{MessageID: fmt.Sprint("s", i), Role: a2a.RoleAgent, Parts: []*a2a.Part{a2a.TextPart(text)}}
					rec.Keep = rng.IntN(2) == 0
				case 1:
					rec = statusRecord(k, a2a.TaskStateWorking, now())
					rec.Turn = &a2a.Message{MessageID: fmt.Sprint("u", i), Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)}}
				default:
					rec = chunkRecord(k, text, rng.IntN(4) > 0)
					rec.Event.(*a2a.TaskArtifactUpdateEvent).Artifact.ArtifactID = fmt.Sprint("x", rng.IntN(3))
				}
				commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{rec}})
				if i%4 == 0 {
					snapshots[snapshotOf(t, s, k)] = true
				}
			}
			if len(snapshots) < 5 { // none is one of them
				t.Errorf("%d snapshots of a log of 161 records", len(snapshots)-1)
			}
			compare(t, s, k)
			commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateCompleted, now())}})
			if g := snapshotOf(t, s, k); g != 162 {
				t.Errorf("the last snapshot is of generation %d, want 162", g)
			}
			compare(t, s, k)
			s.Close()
			compare(t, open(t, s.path, Options{CacheBytes: cache}), k)
		})
	}
}

// snapshotOf returns the generation of the task's snapshot in the file, 0 if there is none.
func snapshotOf(t *testing.T, s *Store, k taskstore.Key) (generation int64) {
	t.Helper()
	err := s.read(t.Context(), func(c *conn) error {
		task, err := c.load(k.Task)
		if err != nil {
			return err
		}
		return c.front.query(readInt(&generation), task.tid)
	})
	if err != nil {
		t.Fatal(err)
	}
	return generation
}

// compare compares the store's word on a task with the fold of its log, at every generation.
func compare(t *testing.T, s *Store, k taskstore.Key) {
	t.Helper()
	log, err := s.Entries(t.Context(), k, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var st taskstore.State
	snapshot := snapshotOf(t, s, k)
	for _, rec := range log {
		st.Apply(rec)
		if rec.Generation != snapshot && rec.Generation%7 != 0 && rec.Generation < int64(len(log))-2 {
			continue
		}
		snap, err := s.Task(t.Context(), k, rec.Generation)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&st.Task, snap.Task); diff != "" || snap.Generation != st.Generation || snap.StatusGeneration != st.StatusGeneration {
			t.Fatalf("at generation %d the task is not its log:\n%s", rec.Generation, diff)
		}
	}
	page, err := s.List(t.Context(), taskstore.Query{Scope: k.Scope, PageSize: 1, HistoryLength: -1, Artifacts: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&st.Task, page.Tasks[0]); diff != "" {
		t.Errorf("in a list the task is not its log:\n%s", diff)
	}
	page, err = s.List(t.Context(), taskstore.Query{Scope: k.Scope, PageSize: 1, HistoryLength: 2})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(taskstore.View(&st.Task, 2, false), page.Tasks[0]); diff != "" {
		t.Errorf("in a list without artifacts the task is not its log:\n%s", diff)
	}
}

// TestCloseWhileReading closes a store that many read and write: what was acknowledged is there, and no connection
// stays, which would keep the WAL.
func TestCloseWhileReading(t *testing.T) {
	for range 20 {
		s := openNew(t, Options{Durability: Normal, CacheBytes: 1})
		oneTask(t, s, "a")
		var wg sync.WaitGroup
		began := make(chan struct{}, 16)
		for range cap(began) {
			wg.Go(func() {
				for i := 0; ; i++ {
					if _, err := s.Task(t.Context(), key("a"), 0); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("Task: %v", err)
						}
						return
					}
					if i == 0 {
						began <- struct{}{}
					}
				}
			})
		}
		acked := map[string]bool{}
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprint("t", i)
				_, err := s.Commit(t.Context(), taskstore.Change{Key: key(id), Create: true, Records: []taskstore.Record{taskRecord(key(id), now())}})
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("Commit: %v", err)
					}
					return
				}
				acked[id] = true
			}
		})
		for range cap(began) {
			<-began
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := os.Stat(s.path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Close left the WAL: %v", err)
		}
		wg.Wait()
		s = open(t, s.path, Options{})
		for id := range acked {
			if _, err := s.Task(t.Context(), key(id), 0); err != nil {
				t.Errorf("task %s was acknowledged: %v", id, err)
			}
		}
	}
}

// TestShare looks at what shares a transaction.
func TestShare(t *testing.T) {
	change, step := &request{size: 1}, &request{retention: &taskstore.Retention{}}
	large := &request{size: maxBatchBytes}
	for _, c := range []struct {
		waiting []*request
		want    int
	}{
		{nil, 0},
		{[]*request{change, change}, 2},
		{[]*request{change, step, change}, 1},
		{[]*request{step, step, change}, 1},
		{[]*request{large, change}, 1},
		{[]*request{change, large}, 1},
		{slices.Repeat([]*request{change}, maxBatch), maxBatch},
		{slices.Repeat([]*request{change}, maxBatch+5), maxBatch},
	} {
		if got := share(c.waiting); got != c.want {
			t.Errorf("of %d requests %d share a transaction, want %d", len(c.waiting), got, c.want)
		}
	}
}

// TestLargeTogether queues changes of more bytes than share a transaction: there are several, and all are committed.
func TestLargeTogether(t *testing.T) {
	s := openNew(t, Options{Durability: Normal})
	entered, leave := make(chan struct{}), make(chan struct{})
	stop := s.Notify(func(string) { entered <- struct{}{}; <-leave })
	k := key("a")
	r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
	<-entered
	stop2 := make(chan struct{})
	go func() { // the writer waits for nobody from here on
		stop()
		close(stop2)
	}()
	var wg sync.WaitGroup
	text := strings.Repeat("x", maxBatchBytes/4)
	for i := range 12 {
		idle(s)
		wg.Go(func() {
			rec := chunkRecord(k, text, false)
			rec.Event.(*a2a.TaskArtifactUpdateEvent).Artifact.ArtifactID = fmt.Sprint("x", i)
			if _, err := s.Commit(t.Context(), taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{rec}}); err != nil {
				t.Error(err)
			}
		})
		hinted(s)
	}
	before := s.transactions.Load()
	close(leave)
	<-stop2
	wg.Wait()
	if n := s.transactions.Load() - before; n < 3 || n > 6 {
		t.Errorf("12 changes of a quarter of what may be shared took %d transactions", n)
	}
	if snap, err := s.Task(t.Context(), k, 0); err != nil || snap.Generation != 13 {
		t.Errorf("%+v, %v", snap, err)
	}
}

// TestNothingKept looks that no statement holds on to what it wrote or read.
func TestNothingKept(t *testing.T) {
	s := openNew(t, Options{CacheBytes: 1})
	fill(t, s)
	for _, id := range []string{"ended", "working", "trimmed"} {
		if _, err := s.Task(t.Context(), key(id), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(s.all, s.w) {
		for _, st := range c.stmts {
			for _, a := range st.args[:cap(st.args)] {
				if a.Value != nil {
					t.Errorf("an argument is kept: %v", a)
				}
			}
			for _, v := range st.row {
				if v != nil {
					t.Errorf("a column is kept: %v", v)
				}
			}
		}
	}
}
