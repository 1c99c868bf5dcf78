package sqlite

// reads are the statements that every connection has.
type reads struct {
	begin, commit *stmt
	// task finds a task by its id, with its scope, the end of its log and its snapshot's size.
	task *stmt
	// records reads a task's log after a generation and up to another, statuses the same without artifacts.
	records, statuses *stmt
	// snapshot reads a task's snapshot, front the same without artifacts.
	snapshot, front *stmt
	// heads takes a JSON array of ids.
	heads                                  *stmt
	scope, totals, values, waiting         *stmt
	listAll, listState, listContext        *stmt
	countContext, countHours, countInRange *stmt
}

const (
	logColumns  = "generation, kind, event, turn"
	listColumns = "tid, id, status_ms, status_generation"
)

func (r *reads) sources() []source {
	return []source{
		{&r.begin, "BEGIN"},
		{&r.commit, "COMMIT"},
		{&r.task, `SELECT t.tid, c.agent, c.tenant, c.owner, t.context, t.state, t.status_ms, t.status_generation,
				t.epoch, t.node, t.latched, t.committed, t.trimmed,
				coalesce(l.generation, s.generation), coalesce(l.bytes, s.bytes),
				coalesce((SELECT kind >> 4 FROM log WHERE tid = t.tid AND generation = t.status_generation), s.keep),
				s.bytes, length(s.front) + coalesce(length(s.artifacts), 0)
			FROM tasks t JOIN scopes c ON c.id = t.scope LEFT JOIN snapshots s ON s.tid = t.tid
			LEFT JOIN log l ON l.tid = t.tid AND l.generation = (SELECT max(generation) FROM log WHERE tid = t.tid)
			WHERE t.id = ?`},
		{&r.records, "SELECT " + logColumns + " FROM log WHERE tid = ? AND generation > ? AND generation <= ? ORDER BY generation"},
		{&r.statuses, "SELECT " + logColumns + " FROM log WHERE tid = ? AND generation > ? AND generation <= ? AND kind & 15 <> 3 ORDER BY generation"},
		{&r.snapshot, "SELECT generation, status_generation, keep, front, artifacts FROM snapshots WHERE tid = ?"},
		{&r.front, "SELECT generation, status_generation, keep, front, NULL FROM snapshots WHERE tid = ?"},
		{&r.heads, `SELECT t.id, c.agent, c.tenant, c.owner,
				coalesce((SELECT max(generation) FROM log WHERE tid = t.tid), (SELECT generation FROM snapshots WHERE tid = t.tid))
			FROM json_each(?) CROSS JOIN tasks t ON t.id = json_each.value JOIN scopes c ON c.id = t.scope`},
		{&r.scope, "SELECT id FROM scopes WHERE agent = ? AND tenant = ? AND owner = ?"},
		{&r.totals, "SELECT state, n FROM totals WHERE scope = ?"},
		{&r.values, "SELECT vals FROM contexts WHERE scope = ? AND id = ? AND used_ms > ?"},
		{&r.waiting, `SELECT c.agent, c.tenant, c.owner, t.id
			FROM tasks t INDEXED BY tasks_waiting CROSS JOIN scopes c ON c.id = t.scope
			WHERE t.state IN (6, 8) AND t.status_ms < ? AND c.agent = ? LIMIT ?`},
		{&r.listAll, "SELECT " + listColumns + ` FROM tasks INDEXED BY tasks_list
			WHERE scope = ? AND status_ms >= ? AND (status_ms, id) < (?, ?) ORDER BY status_ms DESC, id DESC LIMIT ?`},
		{&r.listState, "SELECT " + listColumns + ` FROM tasks INDEXED BY tasks_state
			WHERE scope = ? AND state = ? AND status_ms >= ? AND (status_ms, id) < (?, ?) ORDER BY status_ms DESC, id DESC LIMIT ?`},
		{&r.listContext, "SELECT " + listColumns + ` FROM tasks INDEXED BY tasks_context
			WHERE scope = ? AND context = ? AND ? IN (0, state) AND status_ms >= ? AND (status_ms, id) < (?, ?)
			ORDER BY status_ms DESC, id DESC LIMIT ?`},
		{&r.countContext, `SELECT count(*) FROM tasks INDEXED BY tasks_context
			WHERE scope = ? AND context = ? AND ? IN (0, state) AND status_ms >= ?`},
		{&r.countHours, "SELECT sum(n) FROM hours WHERE scope = ? AND state = ? AND hour > ?"},
		{&r.countInRange, "SELECT count(*) FROM tasks INDEXED BY tasks_state WHERE scope = ? AND state = ? AND status_ms >= ? AND status_ms < ?"},
	}
}

// writes are the statements that the writer's connection has besides.
type writes struct {
	beginWrite, rollback    *stmt
	lastTask, lastScope     *stmt
	addScope, addTask       *stmt
	setStatus, setLease     *stmt
	addRecord, setSnapshot  *stmt
	addTotal, addHour       *stmt
	setValues, touchContext *stmt
}

func (w *writes) sources() []source {
	return []source{
		{&w.beginWrite, "BEGIN IMMEDIATE"},
		{&w.rollback, "ROLLBACK"},
		{&w.lastTask, "SELECT max(tid) FROM tasks"},
		{&w.lastScope, "SELECT max(id) FROM scopes"},
		{&w.addScope, "INSERT INTO scopes (id, agent, tenant, owner) VALUES (?, ?, ?, ?)"},
		{&w.addTask, `INSERT INTO tasks (tid, id, scope, context, state, status_ms, status_generation, epoch, node, latched, committed)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`},
		{&w.setStatus, `UPDATE tasks SET state = ?, status_ms = ?, status_generation = ?, epoch = ?, node = ?, latched = ?, committed = ?
			WHERE tid = ?`},
		{&w.setLease, "UPDATE tasks SET epoch = ?, node = ?, latched = ?, committed = ? WHERE tid = ?"},
		{&w.addRecord, "INSERT INTO log (tid, generation, kind, bytes, event, turn) VALUES (?, ?, ?, ?, ?, ?)"},
		{&w.setSnapshot, `INSERT OR REPLACE INTO snapshots (tid, generation, bytes, status_generation, keep, front, artifacts)
			VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&w.addTotal, `INSERT INTO totals (scope, state, n) VALUES (?, ?, ?)
			ON CONFLICT (scope, state) DO UPDATE SET n = n + excluded.n`},
		{&w.addHour, `INSERT INTO hours (scope, state, hour, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (scope, state, hour) DO UPDATE SET n = n + excluded.n`},
		{&w.setValues, `INSERT INTO contexts (scope, id, used_ms, vals) VALUES (?, ?, ?, ?)
			ON CONFLICT (scope, id) DO UPDATE SET used_ms = excluded.used_ms, vals = excluded.vals`},
		{&w.touchContext, "UPDATE contexts SET used_ms = ? WHERE scope = ? AND id = ? AND used_ms > ?"},
	}
}
