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

// TestWho: callers are told apart by who they are, and strangers by their network.
func TestWho(t *testing.T) {
	known := func(subject string) string {
		return (&CallInfo{Caller: Caller{Issuer: "i", Subject: subject}, Peer: "192.0.2.1:1"}).Who()
	}
	from := func(peer string) string { return (&CallInfo{Peer: peer}).Who() }
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8::2]:1", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::1%eth1]:1", true},
		{"@one", "@two", false},
	} {
		if got := from(c.a) == from(c.b); got != c.same {
			t.Errorf("%s and %s are the same: %v", c.a, c.b, got)
		}
	}
	if known("ann") == known("bob") || known("ann") == from("192.0.2.1:1") {
		t.Error("callers of one address are not told apart")
	}
}
