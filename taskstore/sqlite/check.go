package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// countersWrong count the counters that are not as the tasks are.
var countersWrong = map[string]string{
	"totals": `SELECT count(*) FROM (SELECT scope, state, count(*) AS n FROM tasks GROUP BY 1, 2) t
		FULL JOIN (SELECT * FROM totals WHERE n <> 0) c USING (scope, state) WHERE t.n IS NOT c.n`,
	"hours": `SELECT count(*) FROM (SELECT scope, state, (status_ms - (status_ms % 3600000 + 3600000) % 3600000) / 3600000 AS hour, count(*) AS n
			FROM tasks GROUP BY 1, 2, 3) t
		FULL JOIN (SELECT * FROM hours WHERE n <> 0) c USING (scope, state, hour) WHERE t.n IS NOT c.n`,
	"minutes": `SELECT count(*) FROM (SELECT scope, state, (status_ms - (status_ms % 60000 + 60000) % 60000) / 60000 AS minute, count(*) AS n
			FROM tasks GROUP BY 1, 2, 3) t
		FULL JOIN (SELECT * FROM minutes WHERE n <> 0) c USING (scope, state, minute) WHERE t.n IS NOT c.n`,
}

// strays count the rows that belong to no task.
var strays = map[string]string{
	"log":       "SELECT count(*) FROM log WHERE tid NOT IN (SELECT tid FROM tasks)",
	"snapshots": "SELECT count(*) FROM snapshots WHERE tid NOT IN (SELECT tid FROM tasks)",
	"webhooks":  "SELECT count(*) FROM webhooks WHERE task NOT IN (SELECT id FROM tasks)",
	"tasks":     "SELECT count(*) FROM tasks WHERE scope NOT IN (SELECT id FROM scopes)",
}

// checkAtOnce is how many tasks Check reads as of one moment. Between, a host can move its WAL into the file.
const checkAtOnce = 100

// maxWrong is how much Check tells.
const maxWrong = 1000

// Check reads all of the database at path and returns what is wrong with it, a sentence for each, at most 1,000 and
// one that says that there is more. It looks whether the file is whole, whether the counters are right, and for every task whether its log has no gap and folds to the snapshot
// and the row. It only reads, and a host may have the database in use. each, if it is not nil, is called as the
// tasks are done; a host at work changes their number meanwhile. The errors are those of StatsOf: damage that can
// be told is no error.
func Check(ctx context.Context, path string, each func(done, total int)) (wrong []string, err error) {
	err = inspect(ctx, path, func(c *conn) error {
		ch := checker{conn: c, ctx: ctx}
		err := ch.run(each)
		wrong = ch.wrong
		return err
	})
	return wrong, err
}

type checker struct {
	*conn
	ctx   context.Context // of the one call that the checker is for
	wrong []string
}

// found notes what is wrong. err is about what; it comes back if it says nothing of the database.
func (ch *checker) found(what string, err error) error {
	if err := fault("", err); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, taskstore.ErrTrimmed) {
		return err
	}
	if err != nil {
		ch.note("%s: %v", what, err)
	}
	return nil
}

func (ch *checker) note(format string, args ...any) {
	switch {
	case len(ch.wrong) < maxWrong:
		ch.wrong = append(ch.wrong, fmt.Sprintf(format, args...))
	case len(ch.wrong) == maxWrong:
		ch.wrong = append(ch.wrong, "and more")
	}
}

func (ch *checker) run(each func(done, total int)) error {
	whole, err := ch.integrity(ch.ctx)
	for _, s := range whole {
		ch.note("the file: %s", s)
	}
	if err := ch.found("the file", err); err != nil {
		return err
	}
	for _, q := range []struct {
		list map[string]string
		say  string
	}{
		{countersWrong, "%d counters in the table %s are not as the tasks are"},
		{strays, "%d rows of the table %s belong to nothing"},
	} {
		for table, query := range q.list {
			var n int64
			err := ch.ask(ch.ctx, query, readInt(&n))
			if err := ch.found("table "+table, err); err != nil {
				return err
			}
			if n > 0 {
				ch.note(q.say, n, table)
			}
		}
	}
	return ch.tasks(each)
}

// tasks checks all tasks in the order of their rows.
func (ch *checker) tasks(each func(done, total int)) error {
	var total int64
	err := ch.ask(ch.ctx, "SELECT count(*) FROM tasks", readInt(&total))
	if err := ch.found("table tasks", err); err != nil {
		return err
	}
	done := 0
	for last := int64(0); ; {
		n := 0
		err := ch.atOnce(func(*conn) error {
			ids := []string{}
			err := ch.ask(ch.ctx, "SELECT id, tid FROM tasks WHERE tid > ? ORDER BY tid LIMIT ?", func(row []driver.Value) error {
				ids = append(ids, text(row[0]))
				last = integer(row[1])
				return nil
			}, last, int64(checkAtOnce))
			if err != nil {
				return ch.found("table tasks", err)
			}
			n = len(ids)
			for _, id := range ids {
				if ch.ctx.Err() != nil {
					return context.Cause(ch.ctx)
				}
				if err := ch.found("task "+id, ch.task(id)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		done += n
		if each != nil && n > 0 {
			each(done, max(done, int(total)))
		}
		if n < checkAtOnce {
			return nil
		}
	}
}

// wrongf is what a task has wrong.
func wrongf(format string, args ...any) error { return unreadable{fmt.Errorf(format, args...)} }

// task returns what is wrong with a task.
func (ch *checker) task(id string) error {
	t, err := ch.load(id)
	switch {
	case err != nil:
		return err
	case t == nil:
		return wrongf("its row cannot be found by its id")
	case t.head.Generation == 0:
		return wrongf("it has neither a log nor a snapshot")
	}
	var shot *taskstore.State
	err = ch.snapshot.query(func(row []driver.Value) (err error) {
		shot, err = decodeSnapshot(row)
		return err
	}, t.tid)
	if err != nil {
		return err
	}
	st, err := ch.log(t, shot)
	if err != nil {
		return err
	}
	if t.trimmed > 0 { // then the snapshot has the end
		st = shot
	}
	if st == nil {
		return wrongf("its log is gone, and there is no snapshot")
	}
	return t.check(st)
}

// log reads a task's log, which must have no gap and fold to the snapshot, and returns what it folds to. Of a log
// that was trimmed it returns nothing of use.
func (ch *checker) log(t *task, shot *taskstore.State) (*taskstore.State, error) {
	st := new(taskstore.State)
	whole := t.trimmed == 0
	last, size := t.trimmed, int64(0)
	err := ch.ask(ch.ctx, "SELECT "+logColumns+", bytes FROM log WHERE tid = ? ORDER BY generation", func(row []driver.Value) error {
		r, err := decode(row)
		if err != nil {
			return err
		}
		if r.Generation != last+1 {
			return wrongf("its log has record %d after record %d", r.Generation, last)
		}
		known := whole || last > t.trimmed
		before := size
		last, size = r.Generation, integer(row[5])
		if own := int64(len(blob(row[2])) + len(blob(row[3]))); known && size-own != before {
			return wrongf("record %d says that the log has %d bytes before it, it has %d", r.Generation, size-own, before)
		}
		if whole {
			st.Apply(r)
		}
		if shot == nil || shot.Generation != r.Generation {
			return nil
		}
		if size != t.snapBytes {
			return wrongf("its snapshot says that the log has %d bytes at record %d, it has %d", t.snapBytes, r.Generation, size)
		}
		if whole && !same(st, shot) {
			return wrongf("its log up to record %d does not fold to its snapshot", r.Generation)
		}
		return nil
	}, t.tid)
	switch {
	case err != nil:
		return nil, err
	case whole && last == 0:
		return nil, wrongf("its log is gone")
	case shot != nil && shot.Generation > last:
		return nil, wrongf("its log ends with record %d, its snapshot is of record %d", last, shot.Generation)
	}
	return st, nil
}

// same reports whether two folds are of one task at one point.
func same(a, b *taskstore.State) bool {
	x, y := taskcodec.EncodeSnapshot(&a.Task), taskcodec.EncodeSnapshot(&b.Task)
	return a.Generation == b.Generation && a.StatusGeneration == b.StatusGeneration &&
		bytes.Equal(x.Front, y.Front) && bytes.Equal(x.Artifacts, y.Artifacts)
}

// check compares the task's row with what its log folds to.
func (t *task) check(st *taskstore.State) error {
	status := st.Task.Status
	switch {
	case st.Generation != t.head.Generation:
		return wrongf("its log ends with record %d, its snapshot is of record %d", t.head.Generation, st.Generation)
	case t.head.State != status.State, t.statusMS != status.Timestamp.UnixMilli(), t.head.StatusGeneration != st.StatusGeneration:
		return wrongf("its row says %v since %d by record %d, its log %v since %d by record %d",
			t.head.State, t.statusMS, t.head.StatusGeneration, status.State, status.Timestamp.UnixMilli(), st.StatusGeneration)
	case t.key.Task != st.Task.ID, t.contextID != st.Task.ContextID:
		return wrongf("its row says task %s of context %s, its log %s of %s", t.key.Task, t.contextID, st.Task.ID, st.Task.ContextID)
	case t.trimmed > t.head.Generation:
		return wrongf("its log is trimmed up to record %d, and ends with %d", t.trimmed, t.head.Generation)
	case t.lease.Node == "" && (t.lease.Latched || t.lease.Committed), t.lease.Node != "" && status.State.Terminal():
		return wrongf("its lease cannot be: %+v in state %v", t.lease, status.State)
	}
	return nil
}
