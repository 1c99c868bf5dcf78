package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-a2a/parley/taskstore"
)

// A step of Expire deletes about so many records, or a task; and so many messages and contexts.
const (
	expireRecords = 5000
	expireOthers  = 1000
)

// Expire implements [taskstore.Store]. A step is a transaction of its own that no commit waits for; several nodes may
// take steps at once, each of other tasks. A step touches fewer tasks than r.Limit if they have many records. The log
// of a task that is too large for a snapshot stays as long as the task.
func (s *Store) Expire(ctx context.Context, r taskstore.Retention) (taskstore.Expired, error) {
	var st *step
	err := s.try(ctx, false, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			st = &step{s: s, tx: tx, tasks: max(r.Limit, 0), records: expireRecords, counts: map[counter]int64{}}
			return st.run(ctx, r)
		})
	})
	if err != nil {
		return taskstore.Expired{}, err
	}
	s.tasks.forget(st.touched...)
	return st.out, nil
}

// step is a step of Expire, and what it may still do.
type step struct {
	s       *Store
	tx      pgx.Tx
	out     taskstore.Expired
	tasks   int
	records int64
	touched []string
	counts  map[counter]int64
}

func (st *step) run(ctx context.Context, r taskstore.Retention) error {
	due, err := st.due(ctx, "true", r.Tasks)
	if err != nil {
		return err
	}
	if err := st.delete(ctx, due); err != nil {
		return err
	}
	due, err = st.due(ctx, `t.trimmed = 0
		AND EXISTS (SELECT 1 FROM snapshots s WHERE s.tid = t.tid AND s.generation = t.generation)`, r.Logs)
	if err != nil {
		return err
	}
	if err := st.trim(ctx, due); err != nil {
		return err
	}
	return st.others(ctx, time.Now())
}

// due locks and returns tasks that ended before a time, oldest first, but none with a webhook that is not done, and
// none that another node is at: as many as the step may touch.
func (st *step) due(ctx context.Context, and string, before time.Time) ([]found, error) {
	var all []found
	rows, err := st.tx.Query(ctx, "SELECT t.id, "+rowColumns+` FROM tasks t
		WHERE t.state IN (3, 4, 5, 7) AND t.status_ms < $1 AND `+and+`
			AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.task = t.id AND NOT w.done)
		ORDER BY t.status_ms LIMIT $2 FOR UPDATE OF t SKIP LOCKED`, ceilMS(before), st.tasks+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	err = each(rows, func() error {
		var f found
		err := rows.Scan(append([]any{(*text)(&f.id)}, f.columns()...)...)
		all = append(all, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		left := all[i].head.Generation - all[i].trimmed
		if st.tasks == 0 || st.records <= 0 {
			st.out.More = true
			return all[:i], nil
		}
		st.tasks--
		st.records -= left
	}
	return all, nil
}

// delete deletes tasks. One that got a webhook while it was waited for stays: this statement sees it.
func (st *step) delete(ctx context.Context, due []found) error {
	if len(due) == 0 {
		return nil
	}
	tids := make([]int64, len(due))
	byTID := map[int64]*found{}
	for i := range due {
		tids[i] = due[i].tid
		byTID[tids[i]] = &due[i]
	}
	rows, err := st.tx.Query(ctx, `DELETE FROM tasks t WHERE t.tid = ANY($1)
		AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.task = t.id AND NOT w.done) RETURNING t.tid`, tids)
	if err != nil {
		return err
	}
	tids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	oldest := map[int64]int32{} // by scope: the last hour that lost a task
	ids := make([][]byte, len(tids))
	for i, tid := range tids {
		f := byTID[tid]
		ids[i] = []byte(f.id)
		st.touched = append(st.touched, f.id)
		countTask(st.counts, &f.row, -1)
		if h, ok := oldest[f.scope]; !ok || h < hour(f.statusMS) {
			oldest[f.scope] = hour(f.statusMS)
		}
	}
	st.out.Tasks = len(tids)
	q := &pgx.Batch{}
	q.Queue("DELETE FROM log WHERE tid = ANY($1)", tids)
	q.Queue("DELETE FROM snapshots WHERE tid = ANY($1)", tids)
	q.Queue("DELETE FROM webhooks WHERE task = ANY($1)", ids)
	queueCounts(q, st.counts, st.s.slot)
	for scope, h := range oldest { // counters of hours that nothing is left of
		q.Queue(`WITH old AS (SELECT * FROM counters WHERE scope = $1 AND hour > $2 AND hour <= $3 ORDER BY hour, state, slot FOR UPDATE),
				zero AS (SELECT hour, state FROM old GROUP BY hour, state HAVING sum(n) = 0)
			DELETE FROM counters c USING old, zero
			WHERE c.scope = $1 AND c.hour = old.hour AND c.state = old.state AND c.slot = old.slot
				AND zero.hour = old.hour AND zero.state = old.state`, scope, int32(allHours), h)
	}
	return st.tx.SendBatch(ctx, q).Close()
}

// trim deletes the logs of tasks.
func (st *step) trim(ctx context.Context, due []found) error {
	if len(due) == 0 {
		return nil
	}
	tids := make([]int64, len(due))
	for i := range due {
		tids[i] = due[i].tid
		st.touched = append(st.touched, due[i].id)
	}
	st.out.Logs = len(tids)
	q := &pgx.Batch{}
	q.Queue("DELETE FROM log WHERE tid = ANY($1)", tids)
	q.Queue("UPDATE tasks SET trimmed = generation WHERE tid = ANY($1)", tids)
	return st.tx.SendBatch(ctx, q).Close()
}

// others deletes messages and contexts that have expired.
func (st *step) others(ctx context.Context, now time.Time) error {
	for _, kind := range []struct {
		sql   string
		until int64
		n     *int
	}{
		{"DELETE FROM sent WHERE ctid = ANY(ARRAY(SELECT ctid FROM sent WHERE expires_ms <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED))", now.UnixMilli(), &st.out.Sent},
		{"DELETE FROM contexts WHERE ctid = ANY(ARRAY(SELECT ctid FROM contexts WHERE used_ms <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED))", st.s.expired(now), &st.out.Contexts},
	} {
		tag, err := st.tx.Exec(ctx, kind.sql, kind.until, expireOthers)
		if err != nil {
			return err
		}
		*kind.n = int(tag.RowsAffected())
		st.out.More = st.out.More || *kind.n == expireOthers
	}
	return nil
}
