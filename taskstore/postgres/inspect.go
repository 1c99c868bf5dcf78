package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Stats says what is in a database.
type Stats struct {
	Tasks       map[a2a.TaskState]int64 // by state; those of which there are none are left out
	Records     int64                   // in the logs
	Bytes       int64                   // of the database on its disk
	OldestEnded time.Time               // of the tasks that have ended, when the first one did; zero: none has
	Pending     int64                   // webhooks to which something is still to be delivered
	Dead        int64                   // webhooks that were given up
	Nodes       int64                   // that are alive: two of a process that delivers webhooks
}

// Stats reads what is in the database, as of one moment.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	var st Stats
	var oldest *int64
	err := s.read(ctx, func(q *pgx.Batch) {
		st = Stats{Tasks: map[a2a.TaskState]int64{}}
		q.Queue("SELECT state, sum(n)::bigint FROM counters WHERE hour = $1 GROUP BY state HAVING sum(n) <> 0", int32(allHours)).Query(func(rows pgx.Rows) error {
			return each(rows, func() error {
				var of state
				var n int64
				err := rows.Scan(&of, &n)
				st.Tasks[a2a.TaskState(of)] = n
				return err
			})
		})
		for sql, into := range map[string]any{
			"SELECT count(*) FROM log":                                        &st.Records,
			"SELECT pg_database_size(current_database())":                     &st.Bytes,
			"SELECT min(status_ms) FROM tasks WHERE state IN (3, 4, 5, 7)":    &oldest,
			"SELECT count(*) FROM webhooks WHERE NOT done":                    &st.Pending,
			"SELECT count(*) FROM webhooks WHERE done AND attempts > 0":       &st.Dead,
			"SELECT count(*) FROM nodes WHERE expires_at > clock_timestamp()": &st.Nodes,
		} {
			q.Queue(sql).QueryRow(func(row pgx.Row) error { return row.Scan(into) })
		}
	})
	if oldest != nil {
		st.OldestEnded = time.UnixMilli(*oldest).UTC()
	}
	return st, err
}

// wrongs count what must not be in a database.
var wrongs = map[string]string{
	"%d counters are not as the tasks are": `SELECT count(*) FROM
			(SELECT scope, state, hour, n FROM
				(SELECT scope, state, -2147483648 AS hour, count(*) AS n FROM tasks GROUP BY 1, 2
				UNION ALL SELECT scope, state, floor(status_ms / 3600000.0)::integer, count(*) FROM tasks GROUP BY 1, 2, 3) u) t
		FULL JOIN (SELECT scope, state, hour, sum(n) AS n FROM counters GROUP BY 1, 2, 3 HAVING sum(n) <> 0) c
		USING (scope, state, hour) WHERE t.n IS DISTINCT FROM c.n`,
	"%d tasks have a gap in their log": `SELECT count(*) FROM tasks t LEFT JOIN
			(SELECT tid, count(*) AS n, min(generation) AS low, max(generation) AS high FROM log GROUP BY tid) l USING (tid)
		WHERE CASE WHEN t.trimmed = t.generation THEN l.n IS NOT NULL
			ELSE l.n IS NULL OR l.low <> t.trimmed + 1 OR l.high <> t.generation OR l.n <> t.generation - t.trimmed END`,
	"%d tasks have ended, and a node holds them":   "SELECT count(*) FROM tasks WHERE state IN (3, 4, 5, 7) AND node <> ''",
	"%d tasks are at work, and no node holds them": "SELECT count(*) FROM tasks WHERE state = 2 AND node = ''",
	"%d records of the log belong to no task":      "SELECT count(*) FROM log l WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.tid = l.tid)",
	"%d snapshots belong to no task":               "SELECT count(*) FROM snapshots s WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.tid = s.tid)",
	"%d webhooks belong to no task":                "SELECT count(*) FROM webhooks w WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = w.task)",
}

// Check returns what is wrong in the database, a sentence for each finding: whether the counters are right, and for every
// task whether its log has no gap, can be read and folds to what the row says. It only reads, and hosts may be at work.
// progress, if it is not nil, is called with the number of tasks that were read.
func (s *Store) Check(ctx context.Context, progress func(done int)) (wrong []string, err error) {
	counts := map[string]*int64{}
	err = s.read(ctx, func(q *pgx.Batch) {
		for what, sql := range wrongs {
			n := new(int64)
			counts[what] = n
			q.Queue(sql).QueryRow(func(row pgx.Row) error { return row.Scan(n) })
		}
	})
	if err != nil {
		return nil, err
	}
	for what, n := range counts {
		if *n > 0 {
			wrong = append(wrong, fmt.Sprintf(what, *n))
		}
	}
	slices.Sort(wrong)
	const page = 256
	done, after := 0, ""
	for {
		keys, err := s.keys(ctx, `SELECT c.agent, c.tenant, c.owner, t.id FROM tasks t JOIN scopes c ON c.id = t.scope
			WHERE t.id > $1 ORDER BY t.id LIMIT $2`, []byte(after), page)
		if err != nil {
			return wrong, err
		}
		for _, key := range keys {
			scope, err := s.scopeID(ctx, key.Scope)
			if err == nil {
				_, err = s.fold(ctx, key, scope, 0)
			}
			switch {
			case errors.Is(err, ErrCorrupt):
				wrong = append(wrong, err.Error())
			case err != nil && !errors.Is(err, taskstore.ErrNotFound):
				return wrong, err
			}
		}
		if done += len(keys); progress != nil {
			progress(done)
		}
		if len(keys) < page {
			return wrong, nil
		}
		after = keys[page-1].Task
	}
}

// Secret returns the value that is kept under a name, and keeps fresh there if there is none: all nodes get the same.
func (s *Store) Secret(ctx context.Context, name string, fresh []byte) (value []byte, err error) {
	err = s.query(ctx, nil, func(rows pgx.Rows) error { return rows.Scan(&value) },
		"INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING value", name, fresh)
	return value, err
}
