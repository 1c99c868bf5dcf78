package sqlite

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"sync"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Kinds of a row of the log, as the column kind has them. keepFlag is added for Record.Keep.
const (
	kindTask     = 1
	kindStatus   = 2
	kindArtifact = 3
	kindMessage  = 4
	keepFlag     = 16
)

// maxBlob is the size in bytes beyond which nothing is written: SQLite's own limit is 1e9.
const maxBlob = 512 << 20

// written is a record as it goes into the log.
type written struct {
	taskstore.Record
	kind  int64
	event []byte
	turn  []byte // nil: none
}

// size is what the record adds to the task's log.
func (w *written) size() int64 { return int64(len(w.event) + len(w.turn)) }

// status returns the status that the record sets, if it sets one.
func (w *written) status() (a2a.TaskStatus, bool) {
	switch ev := w.Event.(type) {
	case *a2a.Task:
		return ev.Status, true
	case *a2a.TaskStatusUpdateEvent:
		return ev.Status, true
	case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
	}
	return a2a.TaskStatus{}, false
}

// encode makes rows of records that have no numbers yet. The JSON of an event is that which its followers
// get: it is made once, here, and kept with the entry.
func encode(records []taskstore.Record) ([]written, error) {
	out := make([]written, len(records))
	for i, r := range records {
		w := written{Record: r, kind: kindOf(r.Event)}
		w.Entry = a2a.NewEntry(0, r.Event)
		w.event, _ = w.Wire(a2a.WireJSON, encodeEvent)
		if r.Keep {
			w.kind |= keepFlag
		}
		if r.Turn != nil {
			w.turn = r.Turn.AppendJSON(nil)
		}
		if size := w.size() + int64(len(r.Request)); size > maxBlob {
			return nil, fmt.Errorf("taskstore/sqlite: a record of %d bytes is too large, at most %d can be kept", size, maxBlob)
		}
		if err := w.readable(); err != nil {
			return nil, fmt.Errorf("taskstore/sqlite: this record could not be read again: %w", err)
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
		return kindTask
	case *a2a.TaskStatusUpdateEvent:
		return kindStatus
	case *a2a.TaskArtifactUpdateEvent:
		return kindArtifact
	case *a2a.Message:
	}
	return kindMessage
}

// readable returns an error if the record could be written and then not be read: raw JSON that an agent puts
// into data and metadata is taken as it comes, and may be no JSON, or nested too deep. What holds no such
// thing can always be read.
func (w *written) readable() error {
	if holdsRaw(w.event) {
		if _, err := a2a.ParseStreamResponse(w.event); err != nil {
			return err
		}
	}
	if holdsRaw(w.turn) { // in a history it stands deeper than by itself
		_, err := a2a.ParseStreamResponse(a2a.AppendStreamResponse(nil, &a2a.Task{History: []*a2a.Message{w.Turn}}))
		return err
	}
	return nil
}

func holdsRaw(b []byte) bool {
	return bytes.Contains(b, []byte(`"data":`)) || bytes.Contains(b, []byte(`"metadata":`))
}

// decode reads a row of logColumns.
func decode(row []driver.Value) (taskstore.Record, error) {
	generation, kind, event, turn := integer(row[0]), integer(row[1]), blob(row[2]), blob(row[3])
	ev, err := a2a.ParseStreamResponse(event)
	if err != nil {
		return taskstore.Record{}, unreadable{fmt.Errorf("record %d: %w", generation, err)}
	}
	r := taskstore.Record{Entry: a2a.NewEntry(generation, ev), Keep: kind&keepFlag != 0, Request: blob(row[4])}
	_, _ = r.Wire(a2a.WireJSON, func(a2a.Event) ([]byte, error) { return event, nil })
	if turn != nil {
		r.Turn = new(a2a.Message)
		if err := r.Turn.UnmarshalJSON(turn); err != nil {
			return taskstore.Record{}, unreadable{fmt.Errorf("record %d: %w", generation, err)}
		}
	}
	return r, nil
}

// snapshot is a task folded up to a generation, as a row has it.
type snapshot struct {
	front, artifacts []byte // artifacts is nil if there are none
}

func (s *snapshot) size() int64 { return int64(len(s.front) + len(s.artifacts)) }

func encodeSnapshot(t *a2a.Task) snapshot {
	front := *t
	front.Artifacts = nil
	s := snapshot{front: front.AppendJSON(nil)}
	if len(t.Artifacts) > 0 {
		s.artifacts = (&a2a.Task{Artifacts: t.Artifacts}).AppendJSON(nil)
	}
	return s
}

// decodeSnapshot reads a row of the snapshots into a state that further records can be applied to.
func decodeSnapshot(row []driver.Value) (*taskstore.State, error) {
	generation, statusGeneration, keep := integer(row[0]), integer(row[1]), integer(row[2]) != 0
	t := new(a2a.Task)
	err := t.UnmarshalJSON(blob(row[3]))
	if artifacts := blob(row[4]); err == nil && artifacts != nil {
		var rest a2a.Task
		err = rest.UnmarshalJSON(artifacts)
		t.Artifacts = rest.Artifacts
	}
	if err != nil {
		return nil, unreadable{fmt.Errorf("snapshot %d: %w", generation, err)}
	}
	st := new(taskstore.State)
	st.Apply(taskstore.Record{Entry: a2a.Entry{Generation: statusGeneration, Event: t}, Keep: keep})
	st.Generation = generation
	return st, nil
}

// fold reads a task up to the record of generation at, and returns the size of what it read too. ErrTrimmed if
// what that needs is gone.
func (c *conn) fold(tid, at, trimmed int64, artifacts bool) (st *taskstore.State, size int64, err error) {
	base, log := c.front, c.statuses
	if artifacts {
		base, log = c.snapshot, c.records
	}
	st = new(taskstore.State)
	err = base.query(func(row []driver.Value) (err error) {
		if integer(row[0]) <= at {
			st, err = decodeSnapshot(row)
			size = int64(len(blob(row[3])) + len(blob(row[4])))
		}
		return err
	}, tid)
	if err != nil {
		return nil, 0, err
	}
	if st.Generation < trimmed {
		return nil, 0, taskstore.ErrTrimmed
	}
	if st.Task.Status.State.Terminal() { // nothing comes after
		return st, size, nil
	}
	err = log.query(func(row []driver.Value) error {
		r, err := decode(row)
		if err == nil {
			st.Apply(r)
			size += int64(len(blob(row[2])) + len(blob(row[3])))
		}
		return err
	}, tid, st.Generation, at)
	return st, size, err
}
