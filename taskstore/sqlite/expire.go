package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// A step of Expire deletes about so many rows, whatever its Limit is: a commit waits for no more than that. Beside
// those of its log a task has about rowsOfTask.
const (
	expireRows = 250
	rowsOfTask = 4
)

// expired is a task that a step of Expire touches.
type expired struct {
	key  taskstore.Key
	row  row  // as far as a step needs it
	full bool // a snapshot has the whole task, so that it can be read without its log
}

// left is how many records the task's log still has. The one that set the last status is the last.
func (e *expired) left() int64 { return e.row.head.StatusGeneration - e.row.trimmed }

// Expire implements [taskstore.Store]. A step is a transaction of its own between those of commits: while steps
// follow one another a commit takes about twice as long. It touches fewer tasks than r.Limit if they have many
// records, and of a long log it takes a part. The log of a task that is too large for a snapshot stays as long as
// the task.
func (s *Store) Expire(ctx context.Context, r taskstore.Retention) (taskstore.Expired, error) {
	q := &request{retention: &r, done: make(chan struct{}, 1)}
	s.do(ctx, q)
	return q.expired, q.err
}

// step is what a step of Expire may still do.
type step struct {
	*batch
	out         *taskstore.Expired
	tasks, rows int64
}

// expire carries out a step of Expire.
func (b *batch) expire(r *request) error {
	if err := b.begin(); err != nil {
		return err
	}
	st := step{batch: b, out: &r.expired, tasks: int64(max(r.retention.Limit, 0)), rows: expireRows}
	for _, kind := range []struct {
		find   *stmt
		before time.Time
		do     func(*expired) error
	}{
		{b.w.dueTrimmed, r.retention.Tasks, st.delete},
		{b.w.due, r.retention.Tasks, st.delete},
		{b.w.dueLogs, r.retention.Logs, st.trim},
	} {
		if err := st.each(kind.find, kind.before, kind.do); err != nil {
			return err
		}
	}
	return st.others(time.Now())
}

// each calls do with the tasks that a statement finds, as long as the step may touch more.
func (st *step) each(find *stmt, before time.Time, do func(*expired) error) error {
	var due []*expired
	err := find.query(func(v []driver.Value) error {
		due = append(due, &expired{
			key: taskstore.Key{Scope: scopeKey(v[2:]), Task: text(v[1])},
			row: row{
				tid: integer(v[0]), statusMS: integer(v[6]), trimmed: integer(v[8]),
				head: taskstore.Head{State: a2a.TaskState(integer(v[5])), StatusGeneration: integer(v[7])},
			},
			full: integer(v[9]) != 0,
		})
		return nil
	}, ceilMS(before), max(min(st.tasks, st.rows/rowsOfTask), 0)+1)
	if err != nil {
		return err
	}
	for _, e := range due {
		if st.tasks == 0 || st.rows <= 0 {
			st.out.More = true
			return nil
		}
		st.tasks--
		st.rows -= rowsOfTask
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a task. A log with too many records for the step is cut first.
func (st *step) delete(e *expired) error {
	if e.full && e.left() > expireRows {
		return st.cutLog(e)
	}
	st.rows -= e.left()
	if _, err := st.w.dropLog.exec(e.row.tid, e.row.head.StatusGeneration); err != nil {
		return err
	}
	for _, q := range []*stmt{st.w.dropSnapshot, st.w.dropTask} {
		if _, err := q.exec(e.row.tid); err != nil {
			return err
		}
	}
	if _, err := st.w.dropWebhooks.exec(e.key.Task); err != nil {
		return err
	}
	sc, err := st.scope(e.key.Scope)
	if err != nil {
		return err
	}
	st.add1(sc, &e.row, -1)
	st.gone = append(st.gone, e)
	st.out.Tasks++
	return nil
}

// trim deletes a task's log.
func (st *step) trim(e *expired) error {
	if err := st.cutLog(e); err != nil || e.left() > 0 {
		return err
	}
	st.out.Logs++
	return nil
}

// cutLog deletes the oldest records of a log: all of them, if they are not too many.
func (st *step) cutLog(e *expired) error {
	n := min(e.left(), expireRows)
	st.rows -= n
	e.row.trimmed += n
	st.out.More = st.out.More || e.left() > 0
	st.cut = append(st.cut, e)
	if _, err := st.w.dropLog.exec(e.row.tid, e.row.trimmed); err != nil {
		return err
	}
	_, err := st.w.setTrimmed.exec(e.row.trimmed, e.row.tid)
	return err
}

// others deletes messages and contexts that have expired.
func (st *step) others(now time.Time) error {
	for _, kind := range []struct {
		drop  *stmt
		until int64
		n     *int
	}{
		{st.w.dropSent, now.UnixMilli(), &st.out.Sent},
		{st.w.dropContexts, st.s.expired(now), &st.out.Contexts},
	} {
		n, err := kind.drop.exec(kind.until, int64(expireRows))
		if err != nil {
			return err
		}
		*kind.n = int(n)
		st.out.More = st.out.More || n == expireRows
	}
	return nil
}

// dropCounters deletes the counters of hours and minutes that nothing is left of: those of scopes that lost a task,
// up to the time of that.
func (b *batch) dropCounters() error {
	until := map[*scope]int64{}
	for _, e := range b.gone {
		sc := b.scopes[e.key.Scope]
		ms := e.row.statusMS
		if last, ok := until[sc]; !ok || ms > last {
			until[sc] = ms
		}
	}
	for sc, ms := range until {
		if _, err := b.w.dropHours.exec(sc.id, floor(ms, hourMS)); err != nil {
			return err
		}
		if _, err := b.w.dropMinutes.exec(sc.id, floor(ms, minuteMS)); err != nil {
			return err
		}
	}
	return nil
}

// forget takes from memory the tasks of which a step of Expire deleted something. A front of theirs may stay until
// there is too much: no list looks for it, because no row leads there.
func (b *batch) forget() {
	s := b.s
	if len(b.gone)+len(b.cut) > 0 {
		s.steps++
	}
	for _, e := range slices.Concat(b.gone, b.cut) {
		if t := s.tasks.byID[e.key.Task]; t != nil {
			s.tasks.drop(t)
		}
	}
}
