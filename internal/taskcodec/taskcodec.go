// Package taskcodec writes records and snapshots of tasks as the columns of a database, and reads them again. All
// stores in a database use it, so that what one of them wrote means the same to the others.
package taskcodec

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Kinds of a record. A kind in a row has KeepFlag added for Record.Keep.
const (
	KindTask     = 1
	KindStatus   = 2
	KindArtifact = 3
	KindMessage  = 4
	KeepFlag     = 16
)

// Written is a record as it goes into the log.
type Written struct {
	taskstore.Record
	Kind  int64  // with KeepFlag
	Event []byte // StreamResponse as JSON
	Turn  []byte // Message as JSON; nil: none
}

// Size is how many bytes the record adds to the task's log.
func (w *Written) Size() int64 { return int64(len(w.Event) + len(w.Turn)) }

// Status returns the status that the record sets, if it sets one.
func (w *Written) Status() (a2a.TaskStatus, bool) {
	switch ev := w.Record.Event.(type) {
	case *a2a.Task:
		return ev.Status, true
	case *a2a.TaskStatusUpdateEvent:
		return ev.Status, true
	case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
	}
	return a2a.TaskStatus{}, false
}

// Encode makes rows of records that have no numbers yet. The JSON of an event is that which its followers get: it is
// made once, here, and kept with the entry. A record of more than limit bytes, and one that could not be read again,
// is an error.
func Encode(records []taskstore.Record, limit int64) ([]Written, error) {
	out := make([]Written, len(records))
	for i, r := range records {
		w := Written{Record: r, Kind: kindOf(r.Event)}
		w.Entry = a2a.NewEntry(0, r.Event)
		w.Event, _ = w.Wire(a2a.WireJSON, encodeEvent)
		if r.Keep {
			w.Kind |= KeepFlag
		}
		if r.Turn != nil {
			w.Turn = r.Turn.AppendJSON(nil)
		}
		if size := w.Size() + int64(len(r.Request)); size > limit {
			return nil, fmt.Errorf("a record of %d bytes is too large, at most %d can be kept", size, limit)
		}
		if err := w.readable(); err != nil {
			return nil, fmt.Errorf("this record could not be read again: %w", err)
		}
		out[i] = w
	}
	return out, nil
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// encodeEvent is what Entry.JSON makes, in a slice that fits.
func encodeEvent(ev a2a.Event) ([]byte, error) {
	//nolint:forcetypeassert // the pool has nothing else
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	*buf = a2a.AppendStreamResponse((*buf)[:0], ev)
	if cap(*buf) > 1<<20 {
		defer func() { *buf = nil }()
	}
	return bytes.Clone(*buf), nil
}

func kindOf(ev a2a.Event) int64 {
	switch ev.(type) {
	case *a2a.Task:
		return KindTask
	case *a2a.TaskStatusUpdateEvent:
		return KindStatus
	case *a2a.TaskArtifactUpdateEvent:
		return KindArtifact
	case *a2a.Message:
	}
	return KindMessage
}

// readable returns an error if the record could be written and then not be read: raw JSON that an agent puts
// into data and metadata is taken as it comes, and may be no JSON, or nested too deep. What holds no such
// thing can always be read.
func (w *Written) readable() error {
	if holdsRaw(w.Event) {
		if _, err := a2a.ParseStreamResponse(w.Event); err != nil {
			return err
		}
	}
	if holdsRaw(w.Turn) { // in a history it stands deeper than by itself
		turn := &a2a.Task{History: []*a2a.Message{w.Record.Turn}}
		_, err := a2a.ParseStreamResponse(a2a.AppendStreamResponse(nil, turn))
		return err
	}
	return nil
}

func holdsRaw(b []byte) bool {
	return bytes.Contains(b, []byte(`"data":`)) || bytes.Contains(b, []byte(`"metadata":`))
}

// Decode reads a record from its columns. The record keeps the slices.
func Decode(generation, kind int64, event, turn, request []byte) (taskstore.Record, error) {
	ev, err := a2a.ParseStreamResponse(event)
	if err != nil {
		return taskstore.Record{}, fmt.Errorf("record %d: %w", generation, err)
	}
	r := taskstore.Record{Entry: a2a.NewEntry(generation, ev), Keep: kind&KeepFlag != 0, Request: request}
	_, _ = r.Wire(a2a.WireJSON, func(a2a.Event) ([]byte, error) { return event, nil })
	if turn != nil {
		r.Turn = new(a2a.Message)
		if err := r.Turn.UnmarshalJSON(turn); err != nil {
			return taskstore.Record{}, fmt.Errorf("record %d: %w", generation, err)
		}
	}
	return r, nil
}

// Snapshot is a folded task in two columns, so that lists need not read the artifacts.
type Snapshot struct {
	Front     []byte // Task without artifacts as JSON
	Artifacts []byte // Task with nothing else as JSON; nil: there are none
}

// Size is how many bytes the snapshot has.
func (s *Snapshot) Size() int64 { return int64(len(s.Front) + len(s.Artifacts)) }

// EncodeSnapshot makes the columns of a task.
func EncodeSnapshot(t *a2a.Task) Snapshot {
	front := *t
	front.Artifacts = nil
	s := Snapshot{Front: front.AppendJSON(nil)}
	if len(t.Artifacts) > 0 {
		s.Artifacts = (&a2a.Task{Artifacts: t.Artifacts}).AppendJSON(nil)
	}
	return s
}

// State reads the snapshot, which is of a generation, into a state that further records can be applied to. keep is
// Record.Keep of the status, which the record statusGeneration set.
func (s *Snapshot) State(generation, statusGeneration int64, keep bool) (*taskstore.State, error) {
	t := new(a2a.Task)
	err := t.UnmarshalJSON(s.Front)
	if err == nil && s.Artifacts != nil {
		var rest a2a.Task
		err = rest.UnmarshalJSON(s.Artifacts)
		t.Artifacts = rest.Artifacts
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", generation, err)
	}
	st := new(taskstore.State)
	st.Apply(taskstore.Record{Entry: a2a.Entry{Generation: statusGeneration, Event: t}, Keep: keep})
	st.Generation = generation
	return st, nil
}
