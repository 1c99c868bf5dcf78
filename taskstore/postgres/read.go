package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// row is a row of the table tasks.
type row struct {
	tid, scope int64
	contextID  string
	head       taskstore.Head
	lease      taskstore.Lease
	statusMS   int64
	keep       bool  // Record.Keep of the status
	trimmed    int64 // the log begins after this generation
	bytes      int64 // size of the log
	snapBytes  int64 // size of the log at the last snapshot
	snapSize   int64 // size of that snapshot
}

const rowColumns = `t.tid, t.scope, t.context, t.state, t.status_ms, t.status_generation, t.keep, t.generation,
	t.epoch, t.node, t.latched, t.committed, t.trimmed, t.bytes, t.snap_bytes, t.snap_size`

// columns are the places of rowColumns.
func (r *row) columns() []any {
	return []any{
		&r.tid, &r.scope, (*text)(&r.contextID), (*state)(&r.head.State), &r.statusMS, &r.head.StatusGeneration, &r.keep, &r.head.Generation,
		&r.lease.Epoch, &r.lease.Node, &r.lease.Latched, &r.lease.Committed, &r.trimmed, &r.bytes, &r.snapBytes, &r.snapSize,
	}
}

// text is a string in a bytea column.
type text string

// ScanBytes implements pgtype.BytesScanner.
func (t *text) ScanBytes(v []byte) error { *t = text(v); return nil }

// state is a TaskState in an integer column.
type state a2a.TaskState

// ScanInt64 implements pgtype.Int64Scanner.
func (s *state) ScanInt64(v pgtype.Int8) error { *s = state(v.Int64); return nil }

// each calls f for every row.
func each(rows pgx.Rows, f func() error) error {
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// read runs a batch of queries, which see the database at one moment, and tries that again while the server is away.
// queue puts them in anew for each try.
func (s *Store) read(ctx context.Context, queue func(*pgx.Batch)) error {
	return s.try(ctx, false, func(ctx context.Context) error {
		q := &pgx.Batch{}
		q.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
		queue(q)
		q.Queue("COMMIT")
		return s.pool.SendBatch(ctx, q).Close()
	})
}

// query runs one query and calls f for every row; begin, if it is not nil, is called before each try.
func (s *Store) query(ctx context.Context, begin func(), f func(pgx.Rows) error, sql string, args ...any) error {
	return s.try(ctx, false, func(ctx context.Context) error {
		if begin != nil {
			begin()
		}
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		return each(rows, func() error { return f(rows) })
	})
}

// scopeID returns the id of a scope, 0 if nobody wrote to it.
func (s *Store) scopeID(ctx context.Context, key taskstore.Scope) (id int64, err error) {
	s.mu.RLock()
	id = s.scopes[key]
	s.mu.RUnlock()
	if id != 0 {
		return id, nil
	}
	err = s.query(ctx, nil, func(rows pgx.Rows) error { return rows.Scan(&id) },
		"SELECT id FROM scopes WHERE agent = $1 AND tenant = $2 AND owner = $3", []byte(key.Agent), []byte(key.Tenant), []byte(key.Owner))
	s.keepScope(key, id)
	return id, err
}

// Scopes implements [taskstore.Store]. The order within a scope keeps the planner from reading the table of tasks for one
// that has none.
func (s *Store) Scopes(ctx context.Context, agent string, after *taskstore.Scope, limit int) (out []taskstore.Scope, err error) {
	tenant, owner := []byte{}, []byte{}
	if after != nil {
		tenant, owner = []byte(after.Tenant), []byte(after.Owner+"\x00") // as bytes, nothing is between the two
	}
	err = s.query(ctx, func() { out = nil }, func(rows pgx.Rows) error {
		var sc taskstore.Scope
		err := rows.Scan((*text)(&sc.Agent), (*text)(&sc.Tenant), (*text)(&sc.Owner))
		out = append(out, sc)
		return err
	}, scopesOf, []byte(agent), tenant, owner, limit)
	return out, err
}

const scopesOf = `SELECT c.agent, c.tenant, c.owner FROM scopes c
	CROSS JOIN LATERAL (SELECT 1 FROM tasks t WHERE t.scope = c.id ORDER BY t.status_ms LIMIT 1) one
	WHERE c.agent = $1 AND (c.tenant, c.owner) >= ($2, $3) ORDER BY c.tenant, c.owner LIMIT $4`

func (s *Store) keepScope(key taskstore.Scope, id int64) {
	if id == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scopes) >= maxScopes {
		clear(s.scopes)
	}
	s.scopes[key] = id
}

// makeScope makes the row of a scope, unless another node does.
func (s *Store) makeScope(ctx context.Context, key taskstore.Scope) (int64, error) {
	_, err := s.pool.Exec(ctx, "INSERT INTO scopes (agent, tenant, owner) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
		[]byte(key.Agent), []byte(key.Tenant), []byte(key.Owner))
	if err != nil {
		return 0, err
	}
	return s.scopeID(ctx, key)
}

// queueRow reads a task's row, nil if there is none in that scope. It returns where the row will be.
func queueRow(q *pgx.Batch, scope int64, task string) *[]row {
	found := new([]row)
	q.Queue("SELECT "+rowColumns+" FROM tasks t WHERE t.id = $1 AND t.scope = $2", []byte(task), scope).Query(func(rows pgx.Rows) error {
		return each(rows, func() error {
			var r row
			err := rows.Scan(r.columns()...)
			*found = append(*found, r)
			return err
		})
	})
	return found
}

const logColumns = "l.generation, l.kind, l.event, l.turn, l.request"

// scanRecord reads logColumns, after what stands before them.
func scanRecord(rows pgx.Rows, before ...any) (taskstore.Record, error) {
	var generation, kind int64
	var event, turn, request []byte
	if err := rows.Scan(append(before, &generation, &kind, &event, &turn, &request)...); err != nil {
		return taskstore.Record{}, err
	}
	r, err := taskcodec.Decode(generation, kind, event, turn, request)
	if err != nil {
		err = unreadable{err}
	}
	return r, err
}

const shotColumns = "s.generation, s.status_generation, s.keep, s.front"

// scanShot reads shotColumns and the artifacts, after what stands before them.
func scanShot(rows pgx.Rows, before ...any) (*taskstore.State, error) {
	var generation, statusGeneration int64
	var keep bool
	var shot taskcodec.Snapshot
	if err := rows.Scan(append(before, &generation, &statusGeneration, &keep, &shot.Front, &shot.Artifacts)...); err != nil {
		return nil, err
	}
	st, err := shot.State(generation, statusGeneration, keep)
	if err != nil {
		err = unreadable{err}
	}
	return st, err
}

// folds are tasks that queueFolds folds.
type folds struct {
	states map[int64]*taskstore.State // by tid
}

// queueFolds reads tasks folded up to their last records, or, without artifacts, up to their last statuses.
func queueFolds(q *pgx.Batch, tids []int64, artifacts bool) *folds {
	f := &folds{states: map[int64]*taskstore.State{}}
	third, kinds := "s.artifacts", ""
	if !artifacts {
		third, kinds = "NULL::bytea", " AND l.kind & 15 <> 3"
	}
	q.Queue("SELECT s.tid, "+shotColumns+", "+third+" FROM snapshots s WHERE s.tid = ANY($1)", tids).Query(func(rows pgx.Rows) error {
		return each(rows, func() error {
			var tid int64
			st, err := scanShot(rows, &tid)
			f.states[tid] = st
			return err
		})
	})
	q.Queue("SELECT l.tid, "+logColumns+` FROM unnest($1::bigint[]) AS u (tid) LEFT JOIN snapshots s ON s.tid = u.tid
		JOIN log l ON l.tid = u.tid AND l.generation > coalesce(s.generation, 0)`+kinds+`
		ORDER BY l.tid, l.generation`, tids).Query(func(rows pgx.Rows) error {
		return each(rows, func() error {
			var tid int64
			r, err := scanRecord(rows, &tid)
			if err != nil {
				return err
			}
			if f.states[tid] == nil {
				f.states[tid] = new(taskstore.State)
			}
			f.states[tid].Apply(r)
			return nil
		})
	})
	return f
}

// missing is the error of a log that lacks its end.
func missing(task string, generation int64) error {
	return unreadable{fmt.Errorf("task %s: the log does not go up to record %d", task, generation)}
}

// Task implements [taskstore.Store].
func (s *Store) Task(ctx context.Context, key taskstore.Key, at int64) (taskstore.Snapshot, error) {
	if snap, ok := s.tasks.end(key, at); ok {
		return snap, nil
	}
	scope, err := s.scopeID(ctx, key.Scope)
	switch {
	case err != nil:
		return taskstore.Snapshot{}, err
	case scope == 0:
		return taskstore.Snapshot{}, taskstore.ErrNotFound
	case s.tasks.has(key.Task):
		var found []row
		err := s.query(ctx, func() { found = nil }, func(rows pgx.Rows) error {
			var r row
			err := rows.Scan(r.columns()...)
			found = append(found, r)
			return err
		}, "SELECT "+rowColumns+" FROM tasks t WHERE t.id = $1 AND t.scope = $2", []byte(key.Task), scope)
		if err != nil {
			return taskstore.Snapshot{}, err
		}
		if len(found) == 0 {
			return taskstore.Snapshot{}, taskstore.ErrNotFound
		}
		if st := s.remembered(key.Task, &found[0], at); st != nil {
			return found[0].snapshot(st), nil
		}
	}
	return s.fold(ctx, key, scope, at)
}

// remembered returns a task as of a record, or of now, if memory has that.
func (s *Store) remembered(task string, r *row, at int64) *taskstore.State {
	switch {
	case at == 0 || at >= r.head.Generation:
		return s.tasks.fold(r.tid, task, r.head.Generation)
	case r.trimmed > 0:
		return nil
	}
	return s.tasks.at(r.tid, task, at)
}

// snapshot returns a state of the task with the lease of now. The state is the reader's own.
func (r *row) snapshot(st *taskstore.State) taskstore.Snapshot {
	return taskstore.Snapshot{
		Task: &st.Task, Generation: st.Generation, StatusGeneration: st.StatusGeneration,
		Epoch: r.lease.Epoch, Node: r.lease.Node, Latched: r.lease.Latched, Committed: r.lease.Committed,
	}
}

// fold reads a task as of a record, or of now.
func (s *Store) fold(ctx context.Context, key taskstore.Key, scope, at int64) (taskstore.Snapshot, error) {
	if at == 0 {
		at = math.MaxInt64
	}
	var found *[]row
	var st *taskstore.State
	err := s.read(ctx, func(q *pgx.Batch) {
		st = new(taskstore.State)
		found = queueRow(q, scope, key.Task)
		q.Queue("SELECT "+shotColumns+`, s.artifacts FROM tasks t JOIN snapshots s ON s.tid = t.tid
			WHERE t.id = $1 AND t.scope = $2 AND s.generation <= $3`, []byte(key.Task), scope, at).Query(func(rows pgx.Rows) error {
			return each(rows, func() (err error) {
				st, err = scanShot(rows)
				return err
			})
		})
		q.Queue("SELECT "+logColumns+` FROM tasks t LEFT JOIN snapshots s ON s.tid = t.tid AND s.generation <= $3
			JOIN log l ON l.tid = t.tid AND l.generation > coalesce(s.generation, 0) AND l.generation <= $3
			WHERE t.id = $1 AND t.scope = $2 ORDER BY l.generation`, []byte(key.Task), scope, at).Query(func(rows pgx.Rows) error {
			return each(rows, func() error {
				r, err := scanRecord(rows)
				if err == nil {
					st.Apply(r)
				}
				return err
			})
		})
	})
	if err != nil {
		return taskstore.Snapshot{}, err
	}
	if len(*found) == 0 {
		return taskstore.Snapshot{}, taskstore.ErrNotFound
	}
	r := &(*found)[0]
	switch want := min(at, r.head.Generation); {
	case st.Generation == want:
	case r.trimmed > 0:
		return taskstore.Snapshot{}, taskstore.ErrTrimmed
	default:
		return taskstore.Snapshot{}, s.fault(missing(key.Task, want))
	}
	if st.Generation == r.head.Generation {
		own := *st
		own.Task = *st.Task.Snapshot()
		s.tasks.putState(key, r, st)
		st = &own
	}
	return r.snapshot(st), nil
}

// Entries implements [taskstore.Store].
func (s *Store) Entries(ctx context.Context, key taskstore.Key, after int64, limit int) ([]taskstore.Record, error) {
	if out := s.tasks.since(key, after, limit); out != nil {
		return out, nil
	}
	scope, err := s.scopeID(ctx, key.Scope)
	switch {
	case err != nil:
		return nil, err
	case scope == 0:
		return nil, taskstore.ErrNotFound
	}
	var found *[]row
	var out []taskstore.Record
	err = s.read(ctx, func(q *pgx.Batch) {
		out = nil
		found = queueRow(q, scope, key.Task)
		q.Queue("SELECT "+logColumns+` FROM tasks t JOIN log l ON l.tid = t.tid AND l.generation > $3
			WHERE t.id = $1 AND t.scope = $2 ORDER BY l.generation LIMIT $4`, []byte(key.Task), scope, after, limit).Query(func(rows pgx.Rows) error {
			return each(rows, func() error {
				r, err := scanRecord(rows)
				out = append(out, r)
				return err
			})
		})
	})
	switch {
	case err != nil:
		return nil, err
	case len(*found) == 0:
		return nil, taskstore.ErrNotFound
	case after < (*found)[0].trimmed:
		return nil, taskstore.ErrTrimmed
	}
	for i := range out {
		if out[i].Generation != after+int64(i)+1 {
			return nil, s.fault(missing(key.Task, after+int64(i)+1))
		}
	}
	return out, nil
}

// Heads implements [taskstore.Store].
func (s *Store) Heads(ctx context.Context, keys []taskstore.Key) ([]int64, error) {
	type place struct {
		scope int64
		task  string
	}
	where := map[place][]int{}
	ids := make([][]byte, 0, len(keys))
	for i, k := range keys {
		scope, err := s.scopeID(ctx, k.Scope)
		if err != nil {
			return nil, err
		}
		if scope != 0 {
			where[place{scope, k.Task}] = append(where[place{scope, k.Task}], i)
			ids = append(ids, []byte(k.Task))
		}
	}
	out := make([]int64, len(keys))
	err := s.query(ctx, nil, func(rows pgx.Rows) error {
		var p place
		var head int64
		err := rows.Scan((*text)(&p.task), &p.scope, &head)
		for _, i := range where[p] {
			out[i] = head
		}
		return err
	}, "SELECT id, scope, generation FROM tasks WHERE id = ANY($1)", ids)
	return out, err
}

// Count implements [taskstore.Store].
func (s *Store) Count(ctx context.Context, key taskstore.Scope, states ...a2a.TaskState) (int, error) {
	scope, err := s.scopeID(ctx, key)
	if err != nil || scope == 0 {
		return 0, err
	}
	list := make([]int16, len(states))
	for i, st := range states {
		list[i] = int16(st)
	}
	var n int64
	err = s.query(ctx, nil, func(rows pgx.Rows) error { return rows.Scan(&n) },
		"SELECT coalesce(sum(n), 0)::bigint FROM counters WHERE scope = $1 AND hour = $2 AND state = ANY($3)", scope, int32(allHours), list)
	return int(n), err
}

// expired returns the time, in Unix milliseconds, at which a context must have been used to be kept.
func (s *Store) expired(now time.Time) int64 { return now.Add(-s.opts.ContextTTL).UnixMilli() }

// Values implements [taskstore.Store].
func (s *Store) Values(ctx context.Context, key taskstore.Scope, contextID string) (out map[string]string, err error) {
	scope, err := s.scopeID(ctx, key)
	if err != nil || scope == 0 {
		return nil, err
	}
	err = s.query(ctx, func() { out = nil }, func(rows pgx.Rows) error {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return err
		}
		if err := json.Unmarshal(b, &out); err != nil {
			return unreadable{fmt.Errorf("the values of context %s: %w", contextID, err)}
		}
		return nil
	}, "SELECT vals FROM contexts WHERE scope = $1 AND id = $2 AND used_ms > $3", scope, []byte(contextID), s.expired(time.Now()))
	return out, err
}

// Interrupted implements [taskstore.Store]. It returns those that wait longest.
func (s *Store) Interrupted(ctx context.Context, agent string, before time.Time, limit int) ([]taskstore.Key, error) {
	return s.keys(ctx, `SELECT c.agent, c.tenant, c.owner, t.id FROM tasks t JOIN scopes c ON c.id = t.scope
		WHERE t.state IN (6, 8) AND t.status_ms < $1 AND c.agent = $2 ORDER BY t.status_ms LIMIT $3`, ceilMS(before), []byte(agent), limit)
}

// keys runs a query for tasks.
func (s *Store) keys(ctx context.Context, sql string, args ...any) (out []taskstore.Key, err error) {
	err = s.query(ctx, func() { out = nil }, func(rows pgx.Rows) error {
		var k taskstore.Key
		err := rows.Scan(scanKey(&k)...)
		out = append(out, k)
		return err
	}, sql, args...)
	return out, err
}

// scanKey are the places of a scope and a task's id.
func scanKey(k *taskstore.Key) []any {
	return []any{(*text)(&k.Agent), (*text)(&k.Tenant), (*text)(&k.Owner), (*text)(&k.Task)}
}

// ceilMS returns the first whole Unix millisecond that is not before t: times are stored in milliseconds, and
// one is before t exactly if it is before that.
func ceilMS(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

const (
	hourMS = 3_600_000
	// allHours is the hour of the counters that count a state's tasks of all times.
	allHours = math.MinInt32
	// slots is how many rows a counter has at most.
	slots = 16
)

// hour is the hour that the counters count a status time under.
func hour(ms int64) int32 {
	h := ms / hourMS
	if ms%hourMS < 0 {
		h--
	}
	return int32(max(min(h, math.MaxInt32), allHours+1))
}
