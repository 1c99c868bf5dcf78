package taskcodec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

func message(id string) *a2a.Message {
	return &a2a.Message{MessageID: id, TaskID: "t", ContextID: "c", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hi")}}
}

func log() []taskstore.Record {
	said := message("said")
	said.Role = a2a.RoleAgent
	return []taskstore.Record{
		{Entry: a2a.Entry{Event: &a2a.Task{
			ID: "t", ContextID: "c", History: []*a2a.Message{message("m")},
			Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: at},
		}}, Request: []byte("\x00\xff")},
		{Entry: a2a.Entry{Event: &a2a.TaskStatusUpdateEvent{
			TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateInputRequired, Timestamp: at, Message: said},
		}}, Keep: true},
		{Entry: a2a.Entry{Event: &a2a.TaskArtifactUpdateEvent{
			TaskID: "t", ContextID: "c", Artifact: &a2a.Artifact{ArtifactID: "x", Parts: []*a2a.Part{a2a.TextPart("1")}},
		}}},
		{Entry: a2a.Entry{Event: &a2a.TaskStatusUpdateEvent{
			TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: at},
		}}, Turn: message("turn")},
	}
}

// TestRoundTrip writes a log, reads it again, and folds both: at each record, by the log and by a snapshot.
func TestRoundTrip(t *testing.T) {
	written, err := taskcodec.Encode(log(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var wrote, read taskstore.State
	for i, w := range written {
		generation := int64(i + 1)
		w.Generation = generation
		r, err := taskcodec.Decode(generation, w.Kind, w.Event, w.Turn, w.Request)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.JSON()) != string(w.Event) || string(r.Request) != string(w.Request) || r.Keep != w.Keep {
			t.Errorf("record %d was read as %+v", generation, r)
		}
		wrote.Apply(w.Record)
		read.Apply(r)
		if diff := cmp.Diff(&wrote.Task, &read.Task); diff != "" {
			t.Errorf("up to record %d:\n%s", generation, diff)
		}
		shot := taskcodec.EncodeSnapshot(&wrote.Task)
		st, err := shot.State(generation, wrote.StatusGeneration, w.Keep)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&wrote.Task, &st.Task); diff != "" || st.Generation != generation || st.StatusGeneration != wrote.StatusGeneration {
			t.Errorf("the snapshot of record %d:\n%s", generation, diff)
		}
		if hasArtifacts := i >= 2; (shot.Artifacts != nil) != hasArtifacts || strings.Contains(string(shot.Front), "artifacts") {
			t.Errorf("the snapshot of record %d is %s and %s", generation, shot.Front, shot.Artifacts)
		}
	}
	if len(read.Task.History) != 3 {
		t.Errorf("the history is %+v", read.Task.History)
	}
}

func TestRefused(t *testing.T) {
	bad := log()[:1]
	bad[0].Event.(*a2a.Task).History[0].Parts = []*a2a.Part{{Content: a2a.Data("{")}}
	if _, err := taskcodec.Encode(bad, 1<<20); err == nil {
		t.Error("a record that cannot be read again was written")
	}
	if _, err := taskcodec.Encode(log(), 100); err == nil {
		t.Error("a record that is too large was written")
	}
	if _, err := taskcodec.Decode(1, taskcodec.KindTask, []byte("{"), nil, nil); err == nil {
		t.Error("no JSON was read")
	}
	if _, err := (&taskcodec.Snapshot{Front: []byte("{")}).State(1, 1, false); err == nil {
		t.Error("no JSON was read as a snapshot")
	}
}
