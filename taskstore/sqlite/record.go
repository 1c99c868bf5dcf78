package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// maxBlob is the size in bytes beyond which nothing is written: SQLite's own limit is 1e9.
const maxBlob = 512 << 20

// encode makes rows of records that have no numbers yet.
func encode(records []taskstore.Record) ([]taskcodec.Written, error) {
	out, err := taskcodec.Encode(records, maxBlob)
	if err != nil {
		return nil, fmt.Errorf("taskstore/sqlite: %w", err)
	}
	return out, nil
}

// decode reads a row of logColumns.
func decode(row []driver.Value) (taskstore.Record, error) {
	r, err := taskcodec.Decode(integer(row[0]), integer(row[1]), blob(row[2]), blob(row[3]), blob(row[4]))
	if err != nil {
		return r, unreadable{err}
	}
	return r, nil
}

// decodeSnapshot reads a row of the snapshots into a state that further records can be applied to.
func decodeSnapshot(row []driver.Value) (*taskstore.State, error) {
	s := taskcodec.Snapshot{Front: blob(row[3]), Artifacts: blob(row[4])}
	st, err := s.State(integer(row[0]), integer(row[1]), integer(row[2]) != 0)
	if err != nil {
		return nil, unreadable{err}
	}
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
