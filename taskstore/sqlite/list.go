package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// found is a task on a page.
type found struct {
	tid, statusMS, statusGeneration int64
	id                              string
}

// List implements [taskstore.Store].
func (s *Store) List(ctx context.Context, q taskstore.Query) (taskstore.Page, error) {
	cursor, err := taskstore.ParseCursor(q)
	if err != nil {
		return taskstore.Page{}, err
	}
	var page taskstore.Page
	err = s.read(ctx, func(c *conn) error {
		scope, err := s.scopeID(c, q.Scope)
		if err != nil || scope == 0 {
			return err
		}
		if page.Total, err = c.count(scope, q); err != nil {
			return err
		}
		tasks, err := c.list(scope, q, cursor)
		if err != nil {
			return err
		}
		more := len(tasks) > q.PageSize
		if more {
			tasks = tasks[:q.PageSize]
		}
		size := 0
		for i := range tasks {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			t, err := s.view(c, &tasks[i], q)
			if err != nil {
				return fmt.Errorf("task %s: %w", tasks[i].id, err)
			}
			page.Tasks = append(page.Tasks, t)
			if q.MaxBytes == 0 || i == len(tasks)-1 {
				continue
			}
			if size += t.Size(); size >= q.MaxBytes {
				more, tasks = true, tasks[:i+1]
				break
			}
		}
		if more {
			last := &tasks[len(tasks)-1]
			page.Next = taskstore.Cursor{Time: time.UnixMilli(last.statusMS), Task: last.id}.Token(q)
		}
		return nil
	})
	if err != nil {
		return taskstore.Page{}, err
	}
	return page, nil
}

// list returns the tasks of a page, and one more if there is one.
func (c *conn) list(scope int64, q taskstore.Query, cursor *taskstore.Cursor) ([]found, error) {
	args := []any{scope}
	stmt := c.listAll
	switch {
	case q.ContextID != "":
		stmt, args = c.listContext, append(args, q.ContextID, int64(q.Status))
	case q.Status != a2a.TaskStateUnspecified:
		stmt, args = c.listState, append(args, int64(q.Status))
	}
	args = append(args, ceilMS(q.After))
	if cursor != nil {
		args = append(args, cursor.Time.UnixMilli(), cursor.Task)
	} else {
		args = append(args, int64(math.MaxInt64), "")
	}
	out := make([]found, 0, min(q.PageSize, 100)+1)
	err := stmt.query(func(row []driver.Value) error {
		out = append(out, found{
			tid: integer(row[0]), id: text(row[1]), statusMS: integer(row[2]), statusGeneration: integer(row[3]),
		})
		return nil
	}, append(args, int64(q.PageSize)+1)...)
	return out, err
}

// count returns how many tasks the query selects.
func (c *conn) count(scopeID int64, q taskstore.Query) (int, error) {
	var n int64
	if q.ContextID != "" {
		err := c.countContext.query(readInt(&n), scopeID, q.ContextID, int64(q.Status), ceilMS(q.After))
		return int(n), err
	}
	sc := scope{id: scopeID}
	if err := c.sum(&sc); err != nil {
		return 0, err
	}
	for state := range sc.totals {
		if q.Status != a2a.TaskStateUnspecified && int(q.Status) != state || sc.totals[state] == 0 {
			continue
		}
		if q.After.IsZero() {
			n += sc.totals[state]
			continue
		}
		since, err := c.since(scopeID, int64(state), ceilMS(q.After))
		if err != nil {
			return 0, err
		}
		n += since
	}
	return int(n), nil
}

// since counts the tasks in a state whose status is not older than ms: whole hours and whole minutes by their
// counters, the first minute, of which a part counts, by its tasks.
func (c *conn) since(scope, state, ms int64) (int64, error) {
	var hours, minutes, edge int64
	h, m := floor(ms, hourMS), floor(ms, minuteMS)
	if err := c.countHours.query(readInt(&hours), scope, state, h); err != nil {
		return 0, err
	}
	if err := c.countMinutes.query(readInt(&minutes), scope, state, m, (h+1)*(hourMS/minuteMS)); err != nil {
		return 0, err
	}
	err := c.countInRange.query(readInt(&edge), scope, state, ms, (m+1)*minuteMS)
	return hours + minutes + edge, err
}

// view returns a task of the page as the query wants it. What memory has is taken if it is of the same status.
func (s *Store) view(c *conn, f *found, q taskstore.Query) (*a2a.Task, error) {
	s.mu.RLock()
	t := s.tasks.get(f.id)
	if t != nil && t.tid == f.tid && t.state != nil && t.head.StatusGeneration == f.statusGeneration {
		v := taskstore.View(&t.state.Task, q.HistoryLength, q.Artifacts)
		if v == &t.state.Task || v.Artifacts != nil {
			v = v.Snapshot()
		}
		s.mu.RUnlock()
		return v, nil
	}
	s.mu.RUnlock()
	if !q.Artifacts {
		if t := s.fronts.get(f.tid, f.statusGeneration); t != nil {
			return taskstore.View(t, q.HistoryLength, false), nil
		}
	}
	st, size, err := c.fold(f.tid, math.MaxInt64, 0, q.Artifacts)
	if err != nil {
		return nil, err
	}
	if !q.Artifacts && st.Task.Status.State.Terminal() {
		s.fronts.put(f.tid, st, size)
	}
	return taskstore.View(&st.Task, q.HistoryLength, q.Artifacts), nil
}
