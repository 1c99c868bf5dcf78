package a2a

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestEncodedOnce: however many readers share an entry, its event is encoded once a form, and all get the
// same bytes.
func TestEncodedOnce(t *testing.T) {
	e := NewEntry(7, &TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: TaskStatus{State: TaskStateWorking}})
	var made atomic.Int32
	var wg sync.WaitGroup
	got := make([][]byte, 100)
	for i := range got {
		wg.Go(func() {
			reader := e // a copy, as Entries hands them out
			b, err := reader.Wire(WireProto, func(ev Event) ([]byte, error) {
				made.Add(1)
				return AppendStreamResponse(nil, ev), nil
			})
			if err != nil {
				t.Error(err)
			}
			got[i] = b
		})
	}
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("encoded %d times", n)
	}
	for i := range got {
		if &got[i][0] != &got[0][0] {
			t.Fatalf("reader %d got bytes of its own", i)
		}
	}
	if a, b := e.JSON(), e.JSON(); &a[0] != &b[0] {
		t.Error("JSON was made twice")
	}
}

// TestApply: what a client folds equals what it was told (specification 4.2).
func TestApply(t *testing.T) {
	chunk := func(id, text string, add bool) *TaskArtifactUpdateEvent {
		return &TaskArtifactUpdateEvent{Artifact: &Artifact{ArtifactID: id, Name: "n" + text, Parts: []*Part{TextPart(text)}, Metadata: Struct{}.With(text, 1)}, Append: add}
	}
	var task Task
	task.Apply(&Task{ID: "t", Status: TaskStatus{State: TaskStateWorking}, Artifacts: []*Artifact{{ArtifactID: "a", Parts: []*Part{TextPart("0")}}}})
	before := task.Snapshot()
	task.Apply(chunk("a", "1", true))
	task.Apply(chunk("b", "2", true)) // never begun: begun now (case 23)
	task.Apply(chunk("b", "3", true))
	task.Apply(&TaskStatusUpdateEvent{Status: TaskStatus{State: TaskStateCompleted}})
	task.Apply(&Message{MessageID: "m"})
	if got := task.Artifacts[0].Text() + "|" + task.Artifacts[1].Text(); got != "01|23" || task.Status.State != TaskStateCompleted {
		t.Errorf("got %q, %v", got, task.Status.State)
	}
	if a := task.Artifacts[1]; a.Name != "n3" || len(a.Metadata) != 2 {
		t.Errorf("artifact %+v", a)
	}
	if before.Artifacts[0].Text() != "0" || len(before.Artifacts) != 1 || before.Status.State != TaskStateWorking {
		t.Errorf("the snapshot changed: %+v", before)
	}
	task.Apply(chunk("a", "new", false))
	if task.Artifacts[0].Text() != "new" {
		t.Errorf("not replaced: %q", task.Artifacts[0].Text())
	}
}
