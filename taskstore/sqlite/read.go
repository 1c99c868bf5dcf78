package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// read calls f with a connection inside a read transaction: all that f reads is of one moment.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	var c *conn
	select {
	case c = <-s.readers:
	case <-s.closing:
		return &trouble{s.path, ErrClosed, nil}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { s.readers <- c }()
	return fault(s.path, c.atOnce(f))
}

// atOnce calls f inside a read transaction, which ends however f does.
func (c *conn) atOnce(f func(*conn) error) (err error) {
	if _, err := c.begin.exec(); err != nil {
		return err
	}
	defer func() {
		if _, e := c.rollback.exec(); err == nil { // after a damaged page COMMIT would fail
			err = e
		}
	}()
	return f(c)
}

// load reads a task's row, nil if there is none.
func (c *conn) load(id string) (*task, error) {
	var t *task
	err := c.task.query(func(v []driver.Value) error {
		t = &task{
			key: taskstore.Key{Scope: scopeKey(v[1:]), Task: id},
			row: row{
				tid: integer(v[0]), contextID: text(v[4]), statusMS: integer(v[6]), trimmed: integer(v[12]),
				head:  taskstore.Head{Generation: integer(v[13]), StatusGeneration: integer(v[7]), State: a2a.TaskState(integer(v[5]))},
				lease: taskstore.Lease{Epoch: integer(v[8]), Node: text(v[9]), Latched: integer(v[10]) != 0, Committed: integer(v[11]) != 0},
				bytes: integer(v[14]), keep: integer(v[15]) != 0, snapBytes: integer(v[16]), snapSize: integer(v[17]),
			},
		}
		return nil
	}, id)
	return t, err
}

func scopeKey(v []driver.Value) taskstore.Scope {
	return taskstore.Scope{Agent: text(v[0]), Tenant: text(v[1]), Owner: text(v[2])}
}

func readInt(to *int64) func([]driver.Value) error {
	return func(row []driver.Value) error { *to = integer(row[0]); return nil }
}

// sum reads a scope's totals.
func (c *conn) sum(sc *scope) error {
	return c.totals.query(func(row []driver.Value) error {
		sc.totals[integer(row[0])] = integer(row[1])
		return nil
	}, sc.id)
}

// scopeID returns the id of a scope, 0 if nobody wrote to it.
func (s *Store) scopeID(c *conn, key taskstore.Scope) (id int64, err error) {
	s.mu.RLock()
	sc := s.scopes[key]
	s.mu.RUnlock()
	if sc != nil {
		return sc.id, nil
	}
	return id, c.scope.query(readInt(&id), key.Agent, key.Tenant, key.Owner)
}

// Scopes implements [taskstore.Store].
func (s *Store) Scopes(ctx context.Context, agent string, after *taskstore.Scope, limit int) ([]taskstore.Scope, error) {
	tenant, owner := "", ""
	if after != nil {
		tenant, owner = after.Tenant, after.Owner+"\x00" // as bytes, nothing is between the two
	}
	var out []taskstore.Scope
	err := s.read(ctx, func(c *conn) error {
		return c.scopes.query(func(row []driver.Value) error {
			out = append(out, scopeKey(row))
			return nil
		}, agent, tenant, owner, int64(limit))
	})
	return out, err
}

// Task implements [taskstore.Store].
func (s *Store) Task(ctx context.Context, key taskstore.Key, at int64) (snap taskstore.Snapshot, err error) {
	s.mu.RLock()
	steps := s.steps
	t := s.tasks.get(key.Task)
	if t != nil && t.key.Scope == key.Scope { // somebody else's is looked for like one that never was: in the same time
		snap = t.snapshot(at)
	}
	s.mu.RUnlock()
	if snap.Task != nil {
		return snap, nil
	}
	err = s.read(ctx, func(c *conn) error {
		t, err := c.load(key.Task)
		if err != nil {
			return err
		}
		if t == nil || t.key.Scope != key.Scope {
			return taskstore.ErrNotFound
		}
		now := at == 0 || at >= t.head.Generation
		if now {
			at = t.head.Generation
		}
		st, _, err := c.fold(t.tid, at, t.trimmed, true)
		if err != nil {
			return fmt.Errorf("task %s: %w", key.Task, err)
		}
		if now {
			t.state = st
			s.keep(t, steps)
		}
		snap = t.folded(st)
		return nil
	})
	return snap, err
}

// keep puts a task that was read in memory, if it has ended: any other may have changed since. steps is what
// s.steps was before the reading began: a task that has ended changes by a step of Expire only.
func (s *Store) keep(t *task, steps int64) {
	if !t.head.State.Terminal() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps != steps {
		return
	}
	if old := s.tasks.get(t.key.Task); old != nil {
		if old.head != t.head {
			return
		}
		old.state = t.state
		t = old
	}
	s.tasks.put(t)
	s.tasks.shrink()
}

// snapshot returns the task as of a record, without a Task if memory does not have that.
func (t *task) snapshot(at int64) taskstore.Snapshot {
	if at == 0 || at >= t.head.Generation {
		if t.state == nil {
			return taskstore.Snapshot{}
		}
		return t.folded(t.state)
	}
	if st := t.at(at); st != nil {
		return t.folded(st)
	}
	return taskstore.Snapshot{}
}

// folded returns a state of the task with the lease of now.
func (t *task) folded(st *taskstore.State) taskstore.Snapshot {
	return taskstore.Snapshot{
		Task: st.Task.Snapshot(), Generation: st.Generation, StatusGeneration: st.StatusGeneration,
		Epoch: t.lease.Epoch, Node: t.lease.Node, Latched: t.lease.Latched, Committed: t.lease.Committed,
	}
}

// Entries implements [taskstore.Store].
func (s *Store) Entries(ctx context.Context, key taskstore.Key, after int64, limit int) ([]taskstore.Record, error) {
	s.mu.RLock()
	t := s.tasks.get(key.Task)
	if t != nil && t.key.Scope == key.Scope {
		if out, ok := t.since(after, limit); ok {
			s.mu.RUnlock()
			return out, nil
		}
	}
	s.mu.RUnlock()
	var out []taskstore.Record
	err := s.read(ctx, func(c *conn) error {
		t, err := c.load(key.Task)
		switch {
		case err != nil:
			return err
		case t == nil || t.key.Scope != key.Scope:
			return taskstore.ErrNotFound
		case after < t.trimmed:
			return taskstore.ErrTrimmed
		}
		return c.records.query(func(row []driver.Value) error {
			r, err := decode(row)
			if err == nil && r.Generation != after+int64(len(out))+1 {
				err = unreadable{fmt.Errorf("record %d is missing", after+int64(len(out))+1)}
			}
			if err != nil {
				return fmt.Errorf("task %s: %w", key.Task, err)
			}
			out = append(out, r)
			return nil
		}, t.tid, after, min(after+int64(limit), t.head.Generation))
	})
	return out, err
}

// Heads implements [taskstore.Store].
func (s *Store) Heads(ctx context.Context, keys []taskstore.Key) ([]int64, error) {
	out := make([]int64, len(keys))
	cold := map[string][]int{}
	s.mu.RLock()
	for i, k := range keys {
		if t := s.tasks.get(k.Task); t == nil {
			cold[k.Task] = append(cold[k.Task], i)
		} else if t.key.Scope == k.Scope {
			out[i] = t.head.Generation
		}
	}
	s.mu.RUnlock()
	if len(cold) == 0 {
		return out, nil
	}
	ids := make([]string, 0, len(cold))
	for id := range cold {
		ids = append(ids, id)
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		return c.heads.query(func(row []driver.Value) error {
			for _, i := range cold[text(row[0])] {
				if keys[i].Scope == scopeKey(row[1:]) {
					out[i] = integer(row[4])
				}
			}
			return nil
		}, string(list))
	})
	return out, err
}

// Count implements [taskstore.Store].
func (s *Store) Count(ctx context.Context, key taskstore.Scope, states ...a2a.TaskState) (int, error) {
	var sc scope
	s.mu.RLock()
	known := s.scopes[key]
	if known != nil {
		sc = *known
	}
	s.mu.RUnlock()
	if known == nil {
		err := s.read(ctx, func(c *conn) error {
			if err := c.scope.query(readInt(&sc.id), key.Agent, key.Tenant, key.Owner); err != nil {
				return err
			}
			return c.sum(&sc)
		})
		if err != nil {
			return 0, err
		}
	}
	n := 0
	for _, st := range states {
		n += int(sc.totals[st])
	}
	return n, nil
}

// expired returns the time, in Unix milliseconds, at which a context must have been used to be kept.
func (s *Store) expired(now time.Time) int64 { return now.Add(-s.opts.ContextTTL).UnixMilli() }

// Values implements [taskstore.Store].
func (s *Store) Values(ctx context.Context, scope taskstore.Scope, contextID string) (map[string]string, error) {
	var out map[string]string
	err := s.read(ctx, func(c *conn) error {
		id, err := s.scopeID(c, scope)
		if err != nil {
			return err
		}
		return c.values.query(func(row []driver.Value) error {
			return json.Unmarshal(blob(row[0]), &out)
		}, id, contextID, s.expired(time.Now()))
	})
	return out, err
}

// Interrupted implements [taskstore.Store]. It returns those that wait longest.
func (s *Store) Interrupted(ctx context.Context, agent string, before time.Time, limit int) ([]taskstore.Key, error) {
	var out []taskstore.Key
	err := s.read(ctx, func(c *conn) error {
		return c.waiting.query(func(row []driver.Value) error {
			out = append(out, taskstore.Key{Scope: scopeKey(row), Task: text(row[3])})
			return nil
		}, ceilMS(before), agent, int64(limit))
	})
	return out, err
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
