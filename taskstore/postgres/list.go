package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// found is a task on a page.
type found struct {
	row
	id string
}

// List implements [taskstore.Store].
func (s *Store) List(ctx context.Context, q taskstore.Query) (taskstore.Page, error) {
	cursor, err := taskstore.ParseCursor(q)
	if err != nil {
		return taskstore.Page{}, err
	}
	scope, err := s.scopeID(ctx, q.Scope)
	if err != nil || scope == 0 {
		return taskstore.Page{}, err
	}
	var page taskstore.Page
	err = s.try(ctx, false, func(ctx context.Context) error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release() // which closes a connection whose transaction is still open
		l := lister{s: s, conn: conn.Conn(), q: &q, scope: scope}
		if page, err = l.list(ctx, cursor); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "COMMIT")
		return err
	})
	if err != nil {
		return taskstore.Page{}, err
	}
	return page, nil
}

// lister reads a page; all of it as of one moment.
type lister struct {
	s     *Store
	conn  *pgx.Conn
	q     *taskstore.Query
	scope int64
}

func (l *lister) list(ctx context.Context, cursor *taskstore.Cursor) (page taskstore.Page, err error) {
	var tasks []found
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	l.queueTotal(b, &page.Total)
	l.queuePage(b, cursor, &tasks)
	if err := l.conn.SendBatch(ctx, b).Close(); err != nil {
		return page, err
	}
	more := len(tasks) > l.q.PageSize
	if more {
		tasks = tasks[:l.q.PageSize]
	}
	size := 0
	var states map[int64]*taskstore.State
	for i := range tasks {
		f := &tasks[i]
		if states == nil || states[f.tid] == nil {
			if states, err = l.fold(ctx, tasks[i:]); err != nil {
				return page, err
			}
		}
		st := states[f.tid]
		if st == nil || st.StatusGeneration != f.head.StatusGeneration {
			return page, missing(f.id, f.head.StatusGeneration)
		}
		t := taskstore.View(&st.Task, l.q.HistoryLength, l.q.Artifacts)
		page.Tasks = append(page.Tasks, t)
		if l.q.MaxBytes == 0 || i == len(tasks)-1 {
			continue
		}
		if size += t.Size(); size >= l.q.MaxBytes {
			more, tasks = true, tasks[:i+1]
			break
		}
	}
	if more {
		last := &tasks[len(tasks)-1]
		page.Next = taskstore.Cursor{Time: time.UnixMilli(last.statusMS), Task: last.id}.Token(*l.q)
	}
	return page, nil
}

// fold folds the first of the tasks: as many as fill a page.
func (l *lister) fold(ctx context.Context, tasks []found) (map[int64]*taskstore.State, error) {
	out := map[int64]*taskstore.State{}
	var cold []int64
	size := int64(0)
	for i := range tasks {
		f := &tasks[i]
		if st := l.s.tasks.fold(f.tid, f.id, f.head.Generation); st != nil {
			out[f.tid] = st
		} else {
			cold = append(cold, f.tid)
		}
		if size += f.snapSize + f.bytes - f.snapBytes; l.q.MaxBytes > 0 && l.q.Artifacts && size >= int64(l.q.MaxBytes) {
			break
		}
	}
	if len(cold) == 0 {
		return out, nil
	}
	b := &pgx.Batch{}
	f := queueFolds(b, cold, l.q.Artifacts)
	if err := l.conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	for tid, st := range f.states {
		out[tid] = st
	}
	return out, nil
}

// where is a condition with its arguments.
type where struct {
	sql  string
	args []any
}

func (w *where) and(sql string, args ...any) {
	w.args = append(w.args, args...)
	w.sql += " AND " + sql
}

// place returns the place of the argument that comes next, i after it.
func (w *where) place(i int) string { return fmt.Sprintf("$%d", len(w.args)+1+i) }

// selected is the condition that all of the query's tasks fulfil.
func (l *lister) selected() *where {
	w := &where{sql: "t.scope = $1", args: []any{l.scope}}
	if l.q.ContextID != "" {
		w.and("t.context = "+w.place(0), []byte(l.q.ContextID))
	}
	if l.q.Status != a2a.TaskStateUnspecified {
		w.and("t.state = "+w.place(0), int16(l.q.Status))
	}
	return w
}

func (l *lister) queuePage(b *pgx.Batch, cursor *taskstore.Cursor, tasks *[]found) {
	w := l.selected()
	if !l.q.After.IsZero() {
		w.and("t.status_ms >= "+w.place(0), ceilMS(l.q.After))
	}
	if cursor != nil {
		w.and("(t.status_ms, t.id) < ("+w.place(0)+", "+w.place(1)+")", cursor.Time.UnixMilli(), []byte(cursor.Task))
	}
	limit := w.place(0)
	b.Queue("SELECT t.id, "+rowColumns+" FROM tasks t WHERE "+w.sql+" ORDER BY t.status_ms DESC, t.id DESC LIMIT "+limit,
		append(w.args, int64(l.q.PageSize)+1)...).Query(func(rows pgx.Rows) error {
		return each(rows, func() error {
			var f found
			err := rows.Scan(append([]any{(*text)(&f.id)}, f.columns()...)...)
			*tasks = append(*tasks, f)
			return err
		})
	})
}

// queueTotal counts what the query selects: a context's tasks one by one, others by the counters, save for the part of
// an hour with which a time begins.
func (l *lister) queueTotal(b *pgx.Batch, total *int) {
	into := func(r pgx.Row) error {
		var n int64
		err := r.Scan(&n)
		*total += int(n)
		return err
	}
	if l.q.ContextID != "" {
		w := l.selected()
		w.and("t.status_ms >= "+w.place(0), ceilMS(l.q.After))
		b.Queue("SELECT count(*) FROM tasks t WHERE "+w.sql, w.args...).QueryRow(into)
		return
	}
	c := &where{sql: "scope = $1", args: []any{l.scope}}
	if l.q.Status != a2a.TaskStateUnspecified {
		c.and("state = "+c.place(0), int16(l.q.Status))
	}
	if l.q.After.IsZero() {
		c.and("hour = "+c.place(0), int32(allHours))
	} else {
		ms := ceilMS(l.q.After)
		h := hour(ms)
		c.and("hour > "+c.place(0), h)
		w := l.selected()
		w.and("t.status_ms >= "+w.place(0)+" AND t.status_ms < "+w.place(1), ms, endOf(h))
		b.Queue("SELECT count(*) FROM tasks t WHERE "+w.sql, w.args...).QueryRow(into)
	}
	b.Queue("SELECT coalesce(sum(n), 0)::bigint FROM counters WHERE "+c.sql, c.args...).QueryRow(into)
}

// endOf returns when an hour of the counters ends.
func endOf(h int32) int64 {
	if h == math.MaxInt32 {
		return math.MaxInt64
	}
	return (int64(h) + 1) * hourMS
}
