// Package storetest is the suite that every taskstore.Store must pass.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Run runs the suite. open returns a new, empty store; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) taskstore.Store) {
	for _, c := range []testCase{
		{"Log", testLog},
		{"Create", testCreate},
		{"Preconditions", testPreconditions},
		{"Lease", testLease},
		{"Cancel", testCancel},
		{"Terminal", testTerminal},
		{"WholeOrNotAtAll", testWhole},
		{"Foreign", testForeign},
		{"FoldEqualsSnapshot", testFold},
		{"SnapshotsAreTheReadersOwn", testSnapshots},
		{"History", testHistory},
		{"List", testList},
		{"ListFilters", testListFilters},
		{"ListPagingUnderChange", testListPaging},
		{"ListTokens", testListTokens},
		{"ListMaxBytes", testListMaxBytes},
		{"ConcurrentCommits", testConcurrent},
		{"OneClaimWins", testOneClaim},
		{"Follow", testFollow},
		{"FollowDroppedHints", testFollowDropped},
		{"FollowSlowReader", testFollowSlow},
		{"Interrupted", testInterrupted},
		{"Values", testValues},
		{"Seize", testSeize},
		{"SeizeLatched", testSeizeLatched},
		{"Unsettled", testUnsettled},
		{"Scopes", testScopes},
		{"Request", testRequest},
		{"Sent", testSent},
		{"OneSent", testOneSent},
		{"Webhooks", testWebhooks},
		{"WebhooksOfEnded", testWebhooksOfEnded},
		{"WebhooksForeign", testWebhooksForeign},
		{"Outbox", testOutbox},
		{"OutboxWhileWriting", testOutboxWhileWriting},
		{"ExpireTasks", testExpireTasks},
		{"ExpireLogs", testExpireLogs},
		{"ExpireWebhooks", testExpireWebhooks},
		{"ExpireWhileWriting", testExpireWhileWriting},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
	// In these time passes: the store is opened under their clock.
	for _, c := range []testCase{
		{"SentExpires", testSentExpires},
		{"ExpireContexts", testExpireContexts},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, open) })
		})
	}
}

type testCase struct {
	name string
	test func(*testing.T, *fixture)
}

func (c *testCase) run(t *testing.T, open func(t *testing.T) taskstore.Store) {
	s := open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	c.test(t, &fixture{t: t, s: s, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
}

var alice = taskstore.Scope{Agent: "echo", Tenant: "t1", Owner: "issuer\x00alice"}

// fixture writes what a test wants in few words.
type fixture struct {
	t     *testing.T
	s     taskstore.Store
	clock time.Time
}

func (f *fixture) key(id string) taskstore.Key { return taskstore.Key{Scope: alice, Task: id} }

func (f *fixture) tick() time.Time {
	f.clock = f.clock.Add(time.Second)
	return f.clock
}

func taskRecord(key taskstore.Key, contextID string, at time.Time) taskstore.Record {
	m := &a2a.Message{MessageID: "m-" + key.Task, TaskID: key.Task, ContextID: contextID, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hi")}}
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.Task{
		ID: key.Task, ContextID: contextID, History: []*a2a.Message{m},
		Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: at},
	}}}
}

func statusRecord(key taskstore.Key, state a2a.TaskState, at time.Time) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskStatusUpdateEvent{
		TaskID: key.Task, ContextID: "c", Status: a2a.TaskStatus{State: state, Timestamp: at},
	}}}
}

func chunkRecord(key taskstore.Key, id, text string, more bool) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskArtifactUpdateEvent{
		TaskID: key.Task, ContextID: "c", Append: more,
		Artifact: &a2a.Artifact{ArtifactID: id, Parts: []*a2a.Part{a2a.TextPart(text)}},
	}}}
}

// said puts a message into a status record.
func said(r taskstore.Record, text string, keep bool) taskstore.Record {
	ev := *r.Event.(*a2a.TaskStatusUpdateEvent) //nolint:forcetypeassert // the caller's word
	ev.Status.Message = &a2a.Message{MessageID: "s-" + text, TaskID: ev.TaskID, ContextID: ev.ContextID, Role: a2a.RoleAgent, Parts: []*a2a.Part{a2a.TextPart(text)}}
	r.Event, r.Keep = &ev, keep
	return r
}

func (f *fixture) commit(c taskstore.Change) taskstore.Receipt {
	f.t.Helper()
	r, err := f.s.Commit(f.t.Context(), c)
	if err != nil {
		f.t.Fatalf("Commit: %v", err)
	}
	return r
}

func (f *fixture) refused(want error, c taskstore.Change) {
	f.t.Helper()
	if _, err := f.s.Commit(f.t.Context(), c); !errors.Is(err, want) {
		f.t.Errorf("Commit: got %v, want %v", err, want)
	}
}

// create makes a task in the given state, held if claim.
func (f *fixture) create(id, contextID string, claim bool) taskstore.Receipt {
	f.t.Helper()
	c := taskstore.Change{Key: f.key(id), Create: true, Records: []taskstore.Record{taskRecord(f.key(id), contextID, f.tick())}}
	if claim {
		c.Claim = "node"
	}
	return f.commit(c)
}

func (f *fixture) set(id string, state a2a.TaskState, at time.Time) taskstore.Receipt {
	f.t.Helper()
	return f.commit(taskstore.Change{Key: f.key(id), Records: []taskstore.Record{statusRecord(f.key(id), state, at)}})
}

func (f *fixture) task(id string) taskstore.Snapshot {
	f.t.Helper()
	s, err := f.s.Task(f.t.Context(), f.key(id), 0)
	if err != nil {
		f.t.Fatalf("Task: %v", err)
	}
	return s
}

func (f *fixture) entries(id string, after int64, limit int) []taskstore.Record {
	f.t.Helper()
	r, err := f.s.Entries(f.t.Context(), f.key(id), after, limit)
	if err != nil {
		f.t.Fatalf("Entries: %v", err)
	}
	return r
}

func testLog(t *testing.T, f *fixture) {
	r := f.create("a", "c", true)
	if r.Generation != 1 || r.Epoch == 0 || len(r.Records) != 1 || r.Records[0].Generation != 1 {
		t.Fatalf("receipt of a new task: %+v", r)
	}
	k := f.key("a")
	r = f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{
		statusRecord(k, a2a.TaskStateWorking, f.tick()), chunkRecord(k, "x", "1", false), chunkRecord(k, "x", "2", true),
	}})
	if r.Generation != 4 || r.Records[0].Generation != 2 || r.Records[2].Generation != 4 {
		t.Fatalf("receipt of three records: %+v", r)
	}
	for _, c := range []struct {
		after int64
		limit int
		want  []int64
	}{{0, 10, []int64{1, 2, 3, 4}}, {0, 2, []int64{1, 2}}, {2, 1, []int64{3}}, {3, 10, []int64{4}}, {4, 10, nil}, {9, 10, nil}} {
		var got []int64
		for _, e := range f.entries("a", c.after, c.limit) {
			got = append(got, e.Generation)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Entries(after %d, limit %d) = %v, want %v", c.after, c.limit, got, c.want)
		}
	}
	heads, err := f.s.Heads(t.Context(), []taskstore.Key{k, f.key("nothing")})
	if err != nil || !slices.Equal(heads, []int64{4, 0}) {
		t.Errorf("Heads = %v, %v; want [4 0]", heads, err)
	}
	if s := f.task("a"); s.Generation != 4 || s.StatusGeneration != 2 || s.Node != "node" || s.Epoch != r.Epoch {
		t.Errorf("Task = %+v", s)
	}
	if s, err := f.s.Task(t.Context(), k, 3); err != nil || s.Generation != 3 || s.Task.Artifacts[0].Text() != "1" {
		t.Errorf("Task at 3 = %+v, %v", s, err)
	}
	if s, err := f.s.Task(t.Context(), k, 1); err != nil || s.Task.Status.State != a2a.TaskStateSubmitted || s.Task.Artifacts != nil {
		t.Errorf("Task at 1 = %+v, %v", s.Task, err)
	}
}

func testCreate(_ *testing.T, f *fixture) {
	f.create("a", "c", false)
	f.refused(taskstore.ErrExists, taskstore.Change{Key: f.key("a"), Create: true, Records: []taskstore.Record{taskRecord(f.key("a"), "c", f.tick())}})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: f.key("b"), Create: true})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: f.key("b"), Create: true, Records: []taskstore.Record{statusRecord(f.key("b"), a2a.TaskStateWorking, f.tick())}})
	f.refused(taskstore.ErrNotFound, taskstore.Change{Key: f.key("b"), Records: []taskstore.Record{statusRecord(f.key("b"), a2a.TaskStateWorking, f.tick())}})
}

func testPreconditions(_ *testing.T, f *fixture) {
	f.create("a", "c", false)
	k := f.key("a")
	next := func() []taskstore.Record {
		return []taskstore.Record{statusRecord(k, a2a.TaskStateInputRequired, f.tick())}
	}
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, IfHead: 2, Records: next()})
	f.commit(taskstore.Change{Key: k, IfHead: 1, IfStatus: 1, Records: next()})
	f.commit(taskstore.Change{Key: k, IfHead: 2, Records: []taskstore.Record{chunkRecord(k, "x", "1", false)}})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, IfStatus: 3, Records: next()})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, IfHead: 2, IfStatus: 2, Records: next()})
	f.commit(taskstore.Change{Key: k, IfHead: 3, IfStatus: 2, Records: next()})
}

func testLease(t *testing.T, f *fixture) {
	f.create("a", "c", false)
	k := f.key("a")
	working := func() []taskstore.Record {
		return []taskstore.Record{statusRecord(k, a2a.TaskStateWorking, f.tick())}
	}
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: 1, Records: working()})
	one := f.commit(taskstore.Change{Key: k, Claim: "n1", Records: working()})
	f.refused(taskstore.ErrHeld, taskstore.Change{Key: k, Claim: "n2"})
	f.refused(taskstore.ErrHeld, taskstore.Change{Key: k, Records: working()})
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: one.Epoch + 1, Records: working()})
	if s := f.task("a"); s.Node != "n1" || s.Epoch != one.Epoch {
		t.Errorf("lease = %q %d, want n1 %d", s.Node, s.Epoch, one.Epoch)
	}
	// An answer, by somebody without the lease, needs to name the status that it answers.
	ask := f.commit(taskstore.Change{Key: k, Epoch: one.Epoch, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateInputRequired, f.tick())}})
	f.commit(taskstore.Change{Key: k, IfStatus: ask.Generation, Records: working()})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, IfStatus: ask.Generation, Records: working()})
	// Parked: released, and claimed anew under a higher epoch.
	f.commit(taskstore.Change{Key: k, Epoch: one.Epoch, Release: true, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateInputRequired, f.tick())}})
	if s := f.task("a"); s.Node != "" {
		t.Errorf("after the release node %q holds the task", s.Node)
	}
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: one.Epoch, Records: working()})
	two := f.commit(taskstore.Change{Key: k, Claim: "n2", Records: working()})
	if two.Epoch <= one.Epoch {
		t.Errorf("epoch %d after %d", two.Epoch, one.Epoch)
	}
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: one.Epoch, Records: working()})
}

func testCancel(t *testing.T, f *fixture) {
	r := f.create("a", "c", false)
	k := f.key("a")
	status := func(s a2a.TaskState) []taskstore.Record {
		return []taskstore.Record{statusRecord(k, s, f.tick())}
	}
	f.refused(taskstore.ErrNotHeld, taskstore.Change{Key: k, Latch: true})
	r = f.commit(taskstore.Change{Key: k, Claim: "n", Records: status(a2a.TaskStateWorking)})
	f.commit(taskstore.Change{Key: k, Latch: true})
	f.commit(taskstore.Change{Key: k, Latch: true})
	if !f.task("a").Latched {
		t.Error("the latch does not show")
	}
	f.refused(taskstore.ErrLatched, taskstore.Change{Key: k, Epoch: r.Epoch, Committed: true})
	f.refused(taskstore.ErrLatched, taskstore.Change{Key: k, Epoch: r.Epoch, Records: status(a2a.TaskStateCompleted)})
	f.refused(taskstore.ErrLatched, taskstore.Change{Key: k, Epoch: r.Epoch, Release: true, Records: status(a2a.TaskStateInputRequired)})
	f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: status(a2a.TaskStateWorking)}) // cleaning up may be said
	f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: status(a2a.TaskStateCanceled)})

	r = f.create("b", "c", true)
	k = f.key("b")
	f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Committed: true})
	f.refused(taskstore.ErrCommitted, taskstore.Change{Key: k, Latch: true})
	if s := f.task("b"); !s.Committed || s.Latched {
		t.Errorf("committed %v, latched %v", s.Committed, s.Latched)
	}
	f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Release: true, Records: status(a2a.TaskStateInputRequired)})
	f.commit(taskstore.Change{Key: k, Claim: "n"})
	f.commit(taskstore.Change{Key: k, Latch: true}) // the next run has its own point of no return
}

func testTerminal(t *testing.T, f *fixture) {
	for _, end := range []a2a.TaskState{a2a.TaskStateCompleted, a2a.TaskStateFailed, a2a.TaskStateCanceled, a2a.TaskStateRejected} {
		id := end.String()
		r := f.create(id, "c", true)
		k := f.key(id)
		f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(k, end, f.tick())}})
		if s := f.task(id); s.Node != "" || s.Task.Status.State != end {
			t.Errorf("%v: held by %q in state %v", end, s.Node, s.Task.Status.State)
		}
		more := []taskstore.Record{statusRecord(k, a2a.TaskStateWorking, f.tick())}
		f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Records: more})
		f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Epoch: r.Epoch, Records: more})
		f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Claim: "n"})
		f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Latch: true})
		f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Epoch: r.Epoch, Committed: true})
	}
}

func testWhole(t *testing.T, f *fixture) {
	r := f.create("a", "c", true)
	k := f.key("a")
	before := f.task("a")
	f.refused(taskstore.ErrConflict, taskstore.Change{
		Key: k, Epoch: r.Epoch, IfHead: 7, Release: true, Committed: true, Values: map[string]string{"k": "v"},
		Records: []taskstore.Record{chunkRecord(k, "x", "1", false), statusRecord(k, a2a.TaskStateCompleted, f.tick())},
	})
	if diff := cmp.Diff(before, f.task("a")); diff != "" {
		t.Errorf("a refused change left something:\n%s", diff)
	}
	if v, err := f.s.Values(t.Context(), alice, "c"); err != nil || v != nil {
		t.Errorf("Values = %v, %v", v, err)
	}
}

func testForeign(t *testing.T, f *fixture) {
	f.create("a", "c", true)
	for name, scope := range map[string]taskstore.Scope{
		"owner":  {Agent: alice.Agent, Tenant: alice.Tenant, Owner: "issuer\x00bob"},
		"tenant": {Agent: alice.Agent, Tenant: "t2", Owner: alice.Owner},
		"agent":  {Agent: "other", Tenant: alice.Tenant, Owner: alice.Owner},
	} {
		k := taskstore.Key{Scope: scope, Task: "a"}
		if _, err := f.s.Task(t.Context(), k, 0); !errors.Is(err, taskstore.ErrNotFound) {
			t.Errorf("%s: Task: %v", name, err)
		}
		if _, err := f.s.Entries(t.Context(), k, 0, 10); !errors.Is(err, taskstore.ErrNotFound) {
			t.Errorf("%s: Entries: %v", name, err)
		}
		f.refused(taskstore.ErrNotFound, taskstore.Change{Key: k, Latch: true})
		f.refused(taskstore.ErrNotFound, taskstore.Change{Key: k, IfStatus: 1, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateCanceled, f.tick())}})
		if h, err := f.s.Heads(t.Context(), []taskstore.Key{k}); err != nil || h[0] != 0 {
			t.Errorf("%s: Heads = %v, %v", name, h, err)
		}
		for _, ctxID := range []string{"", "c"} {
			p, err := f.s.List(t.Context(), taskstore.Query{Scope: scope, ContextID: ctxID, PageSize: 10})
			if err != nil || len(p.Tasks) != 0 || p.Total != 0 {
				t.Errorf("%s: List = %+v, %v", name, p, err)
			}
		}
		if n, err := f.s.Count(t.Context(), scope, a2a.TaskStateSubmitted); err != nil || n != 0 {
			t.Errorf("%s: Count = %d, %v", name, n, err)
		}
		// The same context id in another scope is another context.
		f.commit(taskstore.Change{
			Key: taskstore.Key{Scope: scope, Task: "own-" + name}, Create: true, Values: map[string]string{"k": name},
			Records: []taskstore.Record{taskRecord(taskstore.Key{Scope: scope, Task: "own-" + name}, "c", f.tick())},
		})
		if v, err := f.s.Values(t.Context(), alice, "c"); err != nil || v != nil {
			t.Errorf("%s: Values of the first scope = %v, %v", name, v, err)
		}
	}
}

// testFold writes random logs and compares each prefix's fold with the store's word.
func testFold(t *testing.T, f *fixture) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same log at every run
	for round := range 20 {
		id := fmt.Sprint("task", round)
		k := f.key(id)
		r := f.create(id, "c", true)
		n := rng.IntN(40)
		for i := range n {
			var rec taskstore.Record
			switch rng.IntN(4) {
			case 0:
				rec = said(statusRecord(k, a2a.TaskStateWorking, f.tick()), fmt.Sprint(i), rng.IntN(2) == 0)
			case 1:
				rec = statusRecord(k, a2a.TaskStateWorking, f.tick())
				rec.Turn = &a2a.Message{MessageID: fmt.Sprint("u", i), Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("go on")}}
			default:
				rec = chunkRecord(k, fmt.Sprint("x", rng.IntN(3)), fmt.Sprint(i), rng.IntN(3) > 0)
			}
			f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{rec}})
		}
		var st taskstore.State
		for _, rec := range f.entries(id, 0, 1000) {
			st.Apply(rec)
			s, err := f.s.Task(t.Context(), k, rec.Generation)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&st.Task, s.Task); diff != "" || st.StatusGeneration != s.StatusGeneration {
				t.Fatalf("fold of %d records differs from the snapshot (status %d, %d):\n%s", rec.Generation, st.StatusGeneration, s.StatusGeneration, diff)
			}
		}
		if st.Generation != int64(n+1) {
			t.Fatalf("the log has %d records, want %d", st.Generation, n+1)
		}
	}
}

func testSnapshots(t *testing.T, f *fixture) {
	r := f.create("a", "c", true)
	k := f.key("a")
	f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, "x", "1", false)}})
	mine := f.task("a").Task
	mine.Apply(chunkRecord(k, "x", "mine", true).Event)
	f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, "x", "2", true), chunkRecord(k, "y", "3", false)}})
	if got := mine.Artifacts[0].Text(); got != "1mine" || len(mine.Artifacts) != 1 {
		t.Errorf("the reader's snapshot became %q", got)
	}
	if got := f.task("a").Task; got.Artifacts[0].Text() != "12" || len(got.Artifacts) != 2 {
		t.Errorf("the store's task became %q", got.Artifacts[0].Text())
	}
}

func testHistory(t *testing.T, f *fixture) {
	r := f.create("a", "c", true)
	k := f.key("a")
	answer := statusRecord(k, a2a.TaskStateWorking, f.tick())
	answer.Turn = &a2a.Message{MessageID: "answer", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("yes")}}
	f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{
		said(statusRecord(k, a2a.TaskStateWorking, f.tick()), "progress", false),
		said(statusRecord(k, a2a.TaskStateWorking, f.tick()), "remark", true),
		said(statusRecord(k, a2a.TaskStateInputRequired, f.tick()), "question", true),
		answer,
		said(statusRecord(k, a2a.TaskStateCompleted, f.tick()), "done", true),
	}})
	var got []string
	for _, m := range f.task("a").Task.History {
		got = append(got, m.MessageID)
	}
	want := []string{"m-a", "s-remark", "s-question", "answer"}
	if !slices.Equal(got, want) {
		t.Errorf("history = %v, want %v", got, want)
	}
}

func ids(tasks []*a2a.Task) []string {
	out := make([]string, len(tasks))
	for i, t := range tasks {
		out[i] = t.ID
	}
	return out
}

func (f *fixture) list(q taskstore.Query) taskstore.Page {
	f.t.Helper()
	q.Scope = alice
	p, err := f.s.List(f.t.Context(), q)
	if err != nil {
		f.t.Fatalf("List: %v", err)
	}
	return p
}

func testList(t *testing.T, f *fixture) {
	if p := f.list(taskstore.Query{PageSize: 5}); len(p.Tasks) != 0 || p.Total != 0 || p.Next != "" {
		t.Errorf("an empty store lists %+v", p)
	}
	for i := range 5 {
		f.create(fmt.Sprint("t", i), "c", false)
	}
	f.set("t1", a2a.TaskStateWorking, f.tick()) // now the newest
	p := f.list(taskstore.Query{PageSize: 10, HistoryLength: -1})
	if got, want := ids(p.Tasks), []string{"t1", "t4", "t3", "t2", "t0"}; !slices.Equal(got, want) || p.Total != 5 || p.Next != "" {
		t.Errorf("List = %v total %d next %q, want %v", got, p.Total, p.Next, want)
	}
	// A chunk is no change of status: the order stays.
	f.commit(taskstore.Change{Key: f.key("t0"), Records: []taskstore.Record{chunkRecord(f.key("t0"), "x", "1", false)}})
	p = f.list(taskstore.Query{PageSize: 1, HistoryLength: 0})
	if p.Tasks[0].ID != "t1" || len(p.Tasks[0].History) > 0 || p.Total != 5 || p.Next == "" {
		t.Errorf("List of one = %+v", p)
	}
	p = f.list(taskstore.Query{PageSize: 10, HistoryLength: -1})
	if last := p.Tasks[4]; last.ID != "t0" || last.Artifacts != nil || len(last.History) != 1 {
		t.Errorf("without artifacts: %+v", last)
	}
	p = f.list(taskstore.Query{PageSize: 10, HistoryLength: -1, Artifacts: true})
	if last := p.Tasks[4]; last.ID != "t0" || len(last.Artifacts) != 1 {
		t.Errorf("with artifacts: %+v", last)
	}
	if n, err := f.s.Count(t.Context(), alice, a2a.TaskStateSubmitted, a2a.TaskStateWorking); err != nil || n != 5 {
		t.Errorf("Count = %d, %v", n, err)
	}
	if n, err := f.s.Count(t.Context(), alice, a2a.TaskStateWorking); err != nil || n != 1 {
		t.Errorf("Count of WORKING = %d, %v", n, err)
	}
}

func testListFilters(t *testing.T, f *fixture) {
	var third time.Time
	for i := range 9 {
		id := fmt.Sprint("t", i)
		f.create(id, fmt.Sprint("c", i%3), false)
		if i == 3 {
			third = f.clock
		}
		if i%2 == 0 {
			f.set(id, a2a.TaskStateCompleted, f.clock)
		}
	}
	for _, c := range []struct {
		q    taskstore.Query
		want []string
	}{
		{taskstore.Query{ContextID: "c1"}, []string{"t7", "t4", "t1"}},
		{taskstore.Query{ContextID: "none"}, nil},
		{taskstore.Query{Status: a2a.TaskStateCompleted}, []string{"t8", "t6", "t4", "t2", "t0"}},
		{taskstore.Query{Status: a2a.TaskStateFailed}, nil},
		{taskstore.Query{Status: a2a.TaskStateCompleted, ContextID: "c1"}, []string{"t4"}},
		{taskstore.Query{After: third}, []string{"t8", "t7", "t6", "t5", "t4", "t3"}},
		{taskstore.Query{After: third.Add(time.Millisecond)}, []string{"t8", "t7", "t6", "t5", "t4"}},
		{taskstore.Query{After: third, Status: a2a.TaskStateSubmitted}, []string{"t7", "t5", "t3"}},
		{taskstore.Query{After: third, ContextID: "c0"}, []string{"t6", "t3"}},
	} {
		c.q.HistoryLength = -1
		for _, size := range []int{1, 2, 100} {
			c.q.PageSize, c.q.PageToken = size, ""
			var got []string
			for {
				p := f.list(c.q)
				if p.Total != len(c.want) {
					t.Errorf("%+v: total %d, want %d", c.q, p.Total, len(c.want))
				}
				got = append(got, ids(p.Tasks)...)
				if p.Next == "" {
					break
				}
				c.q.PageToken = p.Next
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, want %v", c.q, got, c.want)
			}
		}
	}
}

// testListPaging pages through tasks of one and the same time while others come, go on and end.
func testListPaging(t *testing.T, f *fixture) {
	same := f.tick()
	for i := range 10 {
		id := fmt.Sprintf("t%02d", i)
		f.commit(taskstore.Change{Key: f.key(id), Create: true, Records: []taskstore.Record{taskRecord(f.key(id), "c", same)}})
	}
	for _, contextID := range []string{"", "c"} {
		t.Run("context="+contextID, func(t *testing.T) {
			seen := map[string]int{}
			q := taskstore.Query{PageSize: 2, ContextID: contextID, HistoryLength: -1}
			pages := 0
			for {
				p := f.list(q)
				for _, id := range ids(p.Tasks) {
					seen[id]++
				}
				if pages == 1 { // the cursor's own row moves to the front, and so does one not yet seen
					f.set(p.Tasks[1].ID, a2a.TaskStateWorking, f.tick())
					f.set("t01", a2a.TaskStateWorking, f.tick())
				}
				pages++
				if p.Next == "" {
					break
				}
				q.PageToken = p.Next
			}
			for i := range 10 {
				id := fmt.Sprintf("t%02d", i)
				if seen[id] > 1 || seen[id] == 0 && id != "t01" {
					t.Errorf("%s was seen %d times", id, seen[id])
				}
			}
		})
	}
}

func testListTokens(t *testing.T, f *fixture) {
	for i := range 4 {
		f.create(fmt.Sprint("t", i), "c", false)
	}
	q := taskstore.Query{Scope: alice, PageSize: 2}
	p := f.list(q)
	for name, bad := range map[string]taskstore.Query{
		"nonsense":      {Scope: alice, PageSize: 2, PageToken: "nonsense"},
		"not base64":    {Scope: alice, PageSize: 2, PageToken: "!"},
		"cut":           {Scope: alice, PageSize: 2, PageToken: p.Next[:8]},
		"other filter":  {Scope: alice, PageSize: 2, PageToken: p.Next, Status: a2a.TaskStateFailed},
		"other context": {Scope: alice, PageSize: 2, PageToken: p.Next, ContextID: "c"},
		"other caller":  {Scope: taskstore.Scope{Agent: "echo"}, PageSize: 2, PageToken: p.Next},
	} {
		if _, err := f.s.List(t.Context(), bad); !errors.Is(err, taskstore.ErrBadToken) {
			t.Errorf("%s: %v, want ErrBadToken", name, err)
		}
	}
	q.PageToken, q.PageSize = p.Next, 1 // another size is the same query
	if p := f.list(q); len(p.Tasks) != 1 || p.Tasks[0].ID != "t1" {
		t.Errorf("the next page = %v", ids(p.Tasks))
	}
}

// testListMaxBytes pages through big tasks: a page ends early, and none is lost or comes twice.
func testListMaxBytes(t *testing.T, f *fixture) {
	for i := range 9 {
		id := fmt.Sprint("t", i)
		f.create(id, "c", false)
		f.commit(taskstore.Change{Key: f.key(id), Records: []taskstore.Record{chunkRecord(f.key(id), "x", string(make([]byte, 1000)), false)}})
	}
	q := taskstore.Query{PageSize: 100, HistoryLength: -1, Artifacts: true, MaxBytes: 2500}
	var got []string
	for pages := 1; ; pages++ {
		p := f.list(q)
		if len(p.Tasks) == 0 || len(p.Tasks) > 3 || p.Total != 9 {
			t.Fatalf("page %d has %d tasks of %d", pages, len(p.Tasks), p.Total)
		}
		got = append(got, ids(p.Tasks)...)
		if p.Next == "" {
			break
		}
		q.PageToken = p.Next
	}
	if want := []string{"t8", "t7", "t6", "t5", "t4", "t3", "t2", "t1", "t0"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if p := f.list(taskstore.Query{PageSize: 100, HistoryLength: 0, MaxBytes: 2500}); len(p.Tasks) != 9 || p.Next != "" {
		t.Errorf("without artifacts: %d tasks, next %q", len(p.Tasks), p.Next)
	}
}

func testConcurrent(t *testing.T, f *fixture) {
	const writers, each = 8, 50
	r := f.create("a", "c", true)
	k := f.key("a")
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := f.s.Commit(t.Context(), taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, fmt.Sprint("x", w), fmt.Sprint(i, ","), i > 0)}})
				if err != nil {
					t.Errorf("Commit: %v", err)
				}
				id := fmt.Sprintf("w%d-%d", w, i)
				rec := taskRecord(f.key(id), "c", f.clock)
				if _, err := f.s.Commit(t.Context(), taskstore.Change{Key: f.key(id), Create: true, Records: []taskstore.Record{rec}}); err != nil {
					t.Errorf("Commit: %v", err)
				}
			}
		})
	}
	wg.Wait()
	log := f.entries("a", 0, 10_000)
	if len(log) != writers*each+1 {
		t.Fatalf("the log has %d records, want %d", len(log), writers*each+1)
	}
	for i, rec := range log {
		if rec.Generation != int64(i+1) {
			t.Fatalf("record %d has generation %d", i, rec.Generation)
		}
	}
	var want string
	for i := range each {
		want += fmt.Sprint(i, ",")
	}
	for _, a := range f.task("a").Task.Artifacts {
		if a.Text() != want {
			t.Errorf("artifact %s = %s", a.ArtifactID, a.Text())
		}
	}
	if p := f.list(taskstore.Query{PageSize: 1}); p.Total != writers*each+1 {
		t.Errorf("total %d, want %d", p.Total, writers*each+1)
	}
}

func testOneClaim(t *testing.T, f *fixture) {
	f.create("a", "c", false)
	k := f.key("a")
	var wg sync.WaitGroup
	won := make(chan int64, 16)
	for i := range cap(won) {
		wg.Go(func() {
			r, err := f.s.Commit(t.Context(), taskstore.Change{Key: k, Claim: fmt.Sprint("n", i), IfStatus: 1, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateWorking, f.clock)}})
			if err == nil {
				won <- r.Epoch
			} else if !errors.Is(err, taskstore.ErrConflict) && !errors.Is(err, taskstore.ErrHeld) {
				t.Errorf("Commit: %v", err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || f.task("a").Generation != 2 {
		t.Errorf("%d claims won, head %d", len(won), f.task("a").Generation)
	}
}

// write appends n chunks and ends the task.
func (f *fixture) write(id string, epoch int64, n int) {
	k := f.key(id)
	for i := range n {
		f.commit(taskstore.Change{Key: k, Epoch: epoch, Records: []taskstore.Record{chunkRecord(k, "x", fmt.Sprint(i), i > 0)}})
	}
	f.commit(taskstore.Change{Key: k, Epoch: epoch, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateCompleted, f.clock)}})
}

// follow reads a task's log to its end and complains about every gap and duplicate.
func follow(ctx context.Context, t *testing.T, fl *taskstore.Follower, key taskstore.Key, after int64, each func(taskstore.Record)) {
	next := after + 1
	for rec, err := range fl.Follow(ctx, key, after) {
		if err != nil {
			t.Errorf("Follow after %d: %v", next-1, err)
			return
		}
		if rec.Generation != next {
			t.Errorf("Follow: generation %d, want %d", rec.Generation, next)
			return
		}
		next++
		if each != nil {
			each(rec)
		}
		if st, ok := rec.Event.(*a2a.TaskStatusUpdateEvent); ok && st.Status.State.Terminal() {
			return
		}
	}
}

// readers starts n readers of a task's log, each of which has seen its first record on return, and returns
// a function that waits for their end.
func (f *fixture) readers(fl *taskstore.Follower, id string, n int) (wait func()) {
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			follow(f.t.Context(), f.t, fl, f.key(id), 0, func(r taskstore.Record) {
				if r.Generation == 1 {
					started.Done()
				}
			})
		})
	}
	started.Wait()
	return ended.Wait
}

func testFollow(t *testing.T, f *fixture) {
	fl := taskstore.NewFollower(f.s, 10*time.Millisecond)
	defer fl.Close(context.Canceled)
	r := f.create("a", "c", true)
	wait := f.readers(fl, "a", 8)
	f.write("a", r.Epoch, 1000)
	wait()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	for _, err := range fl.Follow(ctx, f.key("a"), 1002) {
		if !errors.Is(err, why) {
			t.Errorf("after the end of the context: %v", err)
		}
	}
	for _, err := range fl.Follow(t.Context(), f.key("none"), 0) {
		if !errors.Is(err, taskstore.ErrNotFound) {
			t.Errorf("an unknown task: %v", err)
		}
		break
	}
}

// deaf passes on a part of the hints.
type deaf struct {
	taskstore.Store
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *deaf) Notify(f func(string)) (stop func()) {
	return d.Store.Notify(func(task string) {
		d.mu.Lock()
		heard := d.rng.IntN(10) >= 3
		d.mu.Unlock()
		if heard {
			f(task)
		}
	})
}

// testFollowDropped writes a record only when every reader has the one before, so that each lost hint has
// readers who wait for it.
func testFollowDropped(t *testing.T, f *fixture) {
	f.s = &deaf{Store: f.s, rng: rand.New(rand.NewPCG(3, 4))} //nolint:gosec // the same hints at every run
	fl := taskstore.NewFollower(f.s, 10*time.Millisecond)
	defer fl.Close(context.Canceled)
	const readers, records = 5, 50
	r := f.create("a", "c", true)
	k := f.key("a")
	got := make(chan int64, readers)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			follow(t.Context(), t, fl, k, 0, func(r taskstore.Record) { got <- r.Generation })
		})
	}
	for i := range records {
		for range readers {
			select {
			case g := <-got:
				if g != int64(i+1) {
					t.Fatalf("a reader got generation %d, want %d", g, i+1)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("a reader waits for generation %d after its hint was lost", i+1)
			}
		}
		rec := chunkRecord(k, "x", fmt.Sprint(i), i > 0)
		if i == records-1 {
			rec = statusRecord(k, a2a.TaskStateCompleted, f.clock)
		}
		f.commit(taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{rec}})
	}
	for range readers {
		<-got
	}
	wg.Wait()
}

// testFollowSlow has a reader that stops in the middle: the writer and another reader do not notice.
func testFollowSlow(t *testing.T, f *fixture) {
	fl := taskstore.NewFollower(f.s, 10*time.Millisecond)
	defer fl.Close(context.Canceled)
	r := f.create("a", "c", true)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	var slow int
	wg.Go(func() {
		follow(t.Context(), t, fl, f.key("a"), 1, func(taskstore.Record) {
			if slow++; slow == 2 {
				<-gate
			}
		})
	})
	f.write("a", r.Epoch, 3000)
	follow(t.Context(), t, fl, f.key("a"), 1, nil)
	close(gate)
	wg.Wait()
	if slow != 3001 {
		t.Errorf("the slow reader got %d records, want 3001", slow)
	}
}

func testInterrupted(t *testing.T, f *fixture) {
	for _, id := range []string{"a", "b", "c", "d"} {
		f.create(id, "c", false)
	}
	f.set("a", a2a.TaskStateInputRequired, f.tick())
	f.set("b", a2a.TaskStateAuthRequired, f.tick())
	limit := f.tick()
	f.set("c", a2a.TaskStateInputRequired, f.tick())
	find := func(agent string, n int) []string {
		keys, err := f.s.Interrupted(t.Context(), agent, limit, n)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, k := range keys {
			if k.Scope != alice {
				t.Errorf("scope %+v", k.Scope)
			}
			out = append(out, k.Task)
		}
		slices.Sort(out)
		return out
	}
	if got := find("echo", 10); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("Interrupted = %v", got)
	}
	if got := find("echo", 1); len(got) != 1 {
		t.Errorf("Interrupted with a limit of 1 = %v", got)
	}
	if got := find("other", 10); len(got) != 0 {
		t.Errorf("Interrupted of another agent = %v", got)
	}
	f.set("a", a2a.TaskStateWorking, f.tick())
	if got := find("echo", 10); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after an answer: %v", got)
	}
}

func testValues(t *testing.T, f *fixture) {
	values := func() map[string]string {
		v, err := f.s.Values(t.Context(), alice, "c")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := values(); v != nil {
		t.Errorf("values of no context: %v", v)
	}
	r := f.create("a", "c", true)
	f.commit(taskstore.Change{Key: f.key("a"), Epoch: r.Epoch, Values: map[string]string{"session": "1"}})
	f.create("b", "c", false)
	if v := values(); v["session"] != "1" {
		t.Errorf("values = %v", v)
	}
	f.commit(taskstore.Change{Key: f.key("a"), Epoch: r.Epoch, Values: map[string]string{"session": "2"}})
	if v := values(); v["session"] != "2" || len(v) != 1 {
		t.Errorf("values = %v", v)
	}
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: f.key("a"), Epoch: r.Epoch + 1, Values: map[string]string{"session": "3"}})
}
