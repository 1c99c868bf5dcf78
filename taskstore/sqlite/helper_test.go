package sqlite

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

var alice = taskstore.Scope{Agent: "echo", Tenant: "t1", Owner: "issuer\x00alice"}

func key(id string) taskstore.Key { return taskstore.Key{Scope: alice, Task: id} }

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func taskRecord(k taskstore.Key, at time.Time) taskstore.Record {
	m := &a2a.Message{MessageID: "m-" + k.Task, TaskID: k.Task, ContextID: "c-" + k.Task, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hi")}}
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.Task{
		ID: k.Task, ContextID: m.ContextID, History: []*a2a.Message{m},
		Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: at},
	}}}
}

func statusRecord(k taskstore.Key, state a2a.TaskState, at time.Time) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskStatusUpdateEvent{
		TaskID: k.Task, ContextID: "c-" + k.Task, Status: a2a.TaskStatus{State: state, Timestamp: at},
	}}}
}

func chunkRecord(k taskstore.Key, text string, more bool) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskArtifactUpdateEvent{
		TaskID: k.Task, ContextID: "c-" + k.Task, Append: more,
		Artifact: &a2a.Artifact{ArtifactID: "x", Parts: []*a2a.Part{a2a.TextPart(text)}},
	}}}
}

func commit(tb testing.TB, s taskstore.Store, c taskstore.Change) taskstore.Receipt {
	tb.Helper()
	r, err := s.Commit(tb.Context(), c)
	if err != nil {
		tb.Fatalf("Commit: %v", err)
	}
	return r
}

// now is the time as the store keeps it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// oneTask writes what the server writes for a SendMessage: task and WORKING in one change, an artifact,
// COMPLETED; and reads the end.
func oneTask(tb testing.TB, s taskstore.Store, id string) {
	k := key(id)
	now := now()
	r, err := s.Commit(tb.Context(), taskstore.Change{Key: k, Create: true, Claim: "node", Records: []taskstore.Record{
		taskRecord(k, now), statusRecord(k, a2a.TaskStateWorking, now),
	}})
	if err == nil {
		_, err = s.Commit(tb.Context(), taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, "0123456789", false)}})
	}
	if err == nil {
		r, err = s.Commit(tb.Context(), taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateCompleted, now)}})
	}
	if err == nil {
		_, err = s.Task(tb.Context(), k, r.Generation)
	}
	if err != nil {
		tb.Error(err)
	}
}
