package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/storetest"
	"github.com/parley-a2a/parley/telemetry"
)

// TestStoreIsAStore: the suite of every store passes through.
func TestStoreIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) taskstore.Store {
		return telemetry.Store(taskstore.NewMemory(taskstore.MemoryOptions{}), newSignals().Options)
	})
}

// failing is a store whose Commit returns err.
type failing struct {
	taskstore.Store
	err error
}

func (f failing) Commit(context.Context, taskstore.Change) (taskstore.Receipt, error) {
	return taskstore.Receipt{}, fmt.Errorf("a store: %w", f.err)
}

var verdicts = map[string]error{
	"ErrNotFound": taskstore.ErrNotFound, "ErrExists": taskstore.ErrExists, "ErrConflict": taskstore.ErrConflict,
	"ErrTerminal": taskstore.ErrTerminal, "ErrFenced": taskstore.ErrFenced, "ErrHeld": taskstore.ErrHeld,
	"ErrNotHeld": taskstore.ErrNotHeld, "ErrLatched": taskstore.ErrLatched, "ErrCommitted": taskstore.ErrCommitted,
	"ErrTrimmed": taskstore.ErrTrimmed, "ErrBadToken": taskstore.ErrBadToken, "ErrSent": taskstore.ErrSent,
	"ErrUnavailable": taskstore.ErrUnavailable,
}

// TestVerdicts: none of a store's verdicts looks like a fault, and a fault does.
func TestVerdicts(t *testing.T) {
	for _, name := range exported(t, "../taskstore", func(s ast.Spec) (names []string) {
		if vs, ok := s.(*ast.ValueSpec); ok {
			for _, n := range vs.Names {
				if len(n.Name) > 3 && n.Name[:3] == "Err" {
					names = append(names, n.Name)
				}
			}
		}
		return names
	}) {
		if verdicts[name] == nil {
			t.Errorf("taskstore.%s is not known here and in telemetry's verdicts", name)
		}
	}
	commit := func(ctx context.Context, err error) map[string]int64 {
		s := newSignals()
		_, got := telemetry.Store(failing{err: err}, s.Options).Commit(ctx, taskstore.Change{Create: true})
		if !errors.Is(got, err) {
			t.Errorf("error %v, want %v", got, err)
		}
		if n := s.values(t, "a2a.task.created"); len(n) > 0 {
			t.Errorf("%v: counted as created: %v", err, n)
		}
		return s.values(t, "a2a.store.operation.duration")
	}
	seen := map[string]bool{}
	for name, err := range verdicts {
		for outcome := range commit(t.Context(), err) {
			if seen[outcome] || outcome == "ERROR Commit" {
				t.Errorf("%s is counted as %s", name, outcome)
			}
			seen[outcome] = true
		}
	}
	if got := commit(t.Context(), errors.New("disk full")); got["ERROR Commit"] != 1 {
		t.Errorf("a fault is counted as %v", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := commit(gone, context.Canceled); got["CANCELED Commit"] != 1 {
		t.Errorf("an ended context is counted as %v", got)
	}
}

func TestStoreCounts(t *testing.T) {
	s := newSignals()
	store := telemetry.Store(taskstore.NewMemory(taskstore.MemoryOptions{}), s.Options)
	key := taskstore.Key{Scope: taskstore.Scope{Agent: "x"}, Task: "t"}
	status := func(st a2a.TaskState) taskstore.Record {
		return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskStatusUpdateEvent{
			TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: st, Timestamp: time.Unix(1, 0)},
		}}}
	}
	commit := func(c taskstore.Change) {
		t.Helper()
		c.Key = key
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	commit(taskstore.Change{Create: true, Claim: "n", Records: []taskstore.Record{
		{Entry: a2a.Entry{Event: &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: time.Unix(1, 0)}}}},
		status(a2a.TaskStateWorking),
	}})
	commit(taskstore.Change{Epoch: 1, Records: []taskstore.Record{{Entry: a2a.Entry{Event: &a2a.TaskArtifactUpdateEvent{
		TaskID: "t", ContextID: "c", Artifact: &a2a.Artifact{ArtifactID: "a", Parts: []*a2a.Part{a2a.TextPart("x")}},
	}}}}})
	commit(taskstore.Change{Epoch: 1, Records: []taskstore.Record{status(a2a.TaskStateCompleted)}})
	if _, err := store.Task(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Entries(t.Context(), key, 0, 9); err != nil {
		t.Fatal(err)
	}
	if _, err := store.List(t.Context(), taskstore.Query{Scope: key.Scope, PageSize: 1}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]int64{
		"a2a.store.operation.duration": {"ok Commit": 3, "ok Task": 1, "ok Entries": 1, "ok List": 1},
		"a2a.task.created":             {"": 1},
		"a2a.task.ended":               {"TASK_STATE_COMPLETED": 1},
	} {
		if diff := cmp.Diff(want, s.values(t, name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
