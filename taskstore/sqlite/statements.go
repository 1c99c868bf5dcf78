package sqlite

// reads are the statements that every connection has.
type reads struct {
	begin, rollback *stmt
	// task finds a task by its id, with its scope, the end of its log and its snapshot's size.
	task *stmt
	// records reads a task's log after a generation and up to another, statuses the same without artifacts.
	records, statuses *stmt
	// snapshot reads a task's snapshot, front the same without artifacts.
	snapshot, front *stmt
	// heads takes a JSON array of ids.
	heads                             *stmt
	scope, scopes                     *stmt
	totals, values, waiting           *stmt
	listAll, listState, listContext   *stmt
	countContext, countHours          *stmt
	countMinutes, countInRange        *stmt
	unsettled, sent, webhooks, outbox *stmt
}

const (
	logColumns     = "generation, kind, event, turn, request"
	listColumns    = "tid, id, status_ms, status_generation"
	webhookColumns = "w.config, w.registration, w.delivered, w.begun, w.attempts, w.due_ms, w.done, w.failure"
)

func (r *reads) sources() []source {
	return []source{
		{&r.begin, "BEGIN"},
		{&r.rollback, "ROLLBACK"},
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
		// The index of the scopes gives their order, and one look into tasks_list whether one has tasks.
		{&r.scopes, `SELECT c.agent, c.tenant, c.owner FROM scopes c WHERE c.agent = ? AND (c.tenant, c.owner) >= (?, ?)
				AND EXISTS (SELECT 1 FROM tasks t INDEXED BY tasks_list WHERE t.scope = c.id)
			ORDER BY c.tenant, c.owner LIMIT ? + 0`},
		{&r.totals, "SELECT state, n FROM totals WHERE scope = ?"},
		{&r.values, "SELECT vals FROM contexts WHERE scope = ? AND id = ? AND used_ms > ?"},
		{&r.waiting, `SELECT c.agent, c.tenant, c.owner, t.id
			FROM tasks t INDEXED BY tasks_waiting CROSS JOIN scopes c ON c.id = t.scope
			WHERE t.state IN (6, 8) AND t.status_ms < ? AND c.agent = ? LIMIT ?`},
		// LIMIT ? alone has SQLite plan these anew each time: it looks at the value.
		{&r.listAll, "SELECT " + listColumns + ` FROM tasks INDEXED BY tasks_list
			WHERE scope = ? AND status_ms >= ? AND (status_ms, id) < (?, ?) ORDER BY status_ms DESC, id DESC LIMIT ? + 0`},
		{&r.listState, "SELECT " + listColumns + ` FROM tasks INDEXED BY tasks_state
			WHERE scope = ? AND state = ? AND status_ms >= ? AND (status_ms, id) < (?, ?) ORDER BY status_ms DESC, id DESC LIMIT ? + 0`},
		{&r.listContext, "SELECT " + listColumns + ` FROM tasks INDEXED BY tasks_context
			WHERE scope = ? AND context = ? AND ? IN (0, state) AND status_ms >= ? AND (status_ms, id) < (?, ?)
			ORDER BY status_ms DESC, id DESC LIMIT ? + 0`},
		{&r.countContext, `SELECT count(*) FROM tasks INDEXED BY tasks_context
			WHERE scope = ? AND context = ? AND ? IN (0, state) AND status_ms >= ?`},
		{&r.countHours, "SELECT sum(n) FROM hours WHERE scope = ? AND state = ? AND hour > ?"},
		{&r.countMinutes, "SELECT sum(n) FROM minutes WHERE scope = ? AND state = ? AND minute > ? AND minute < ?"},
		{&r.countInRange, "SELECT count(*) FROM tasks INDEXED BY tasks_state WHERE scope = ? AND state = ? AND status_ms >= ? AND status_ms < ?"},
		{&r.unsettled, `SELECT c.agent, c.tenant, c.owner, t.id
			FROM tasks t INDEXED BY tasks_unsettled CROSS JOIN scopes c ON c.id = t.scope
			WHERE (t.node <> '' OR t.state = 1) AND t.id > ? AND t.node <> ? AND c.agent = ? ORDER BY t.id LIMIT ?`},
		{&r.sent, `SELECT hash, reply, expires_ms, task, generation FROM sent
			WHERE scope = (SELECT id FROM scopes WHERE agent = ? AND tenant = ? AND owner = ?) AND message_id = ? AND expires_ms > ?
				AND (task = '' OR EXISTS (SELECT 1 FROM tasks WHERE tasks.id = sent.task))`},
		{&r.webhooks, "SELECT " + webhookColumns + " FROM webhooks w WHERE w.task = ? ORDER BY w.id"},
		{&r.outbox, "SELECT c.agent, c.tenant, c.owner, w.task, " + webhookColumns + `
			FROM webhooks w INDEXED BY webhooks_open CROSS JOIN tasks t ON t.id = w.task CROSS JOIN scopes c ON c.id = t.scope
			WHERE w.done = 0 AND (w.task, w.id) > (?, ?) AND c.agent = ? ORDER BY w.task, w.id LIMIT ?`},
	}
}

// writes are the statements that the writer's connection has besides.
type writes struct {
	beginWrite, commit      *stmt
	lastTask, lastScope     *stmt
	addScope, addTask       *stmt
	setStatus, setLease     *stmt
	addRecord, setSnapshot  *stmt
	addTotal                *stmt
	addHour, addMinute      *stmt
	setValues, touchContext *stmt
	addSent                 *stmt
	registration            *stmt
	setWebhook, setDelivery *stmt
	dropWebhook             *stmt
	// What Expire uses. due and dueTrimmed find tasks to be deleted, dueLogs those whose log goes.
	due, dueTrimmed, dueLogs        *stmt
	dropTask, dropLog, dropSnapshot *stmt
	dropWebhooks, setTrimmed        *stmt
	dropHours, dropMinutes          *stmt
	dropSent                        *stmt
	dropContexts                    *stmt
}

func (w *writes) sources() []source {
	return []source{
		{&w.beginWrite, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.lastTask, "SELECT max(tid) FROM tasks"},
		{&w.lastScope, "SELECT max(id) FROM scopes"},
		{&w.addScope, "INSERT INTO scopes (id, agent, tenant, owner) VALUES (?, ?, ?, ?)"},
		{&w.addTask, `INSERT INTO tasks (tid, id, scope, context, state, status_ms, status_generation, epoch, node, latched, committed)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`},
		{&w.setStatus, `UPDATE tasks SET state = ?, status_ms = ?, status_generation = ?, epoch = ?, node = ?, latched = ?, committed = ?
			WHERE tid = ?`},
		{&w.setLease, "UPDATE tasks SET epoch = ?, node = ?, latched = ?, committed = ? WHERE tid = ?"},
		{&w.addRecord, "INSERT INTO log (tid, generation, kind, bytes, event, turn, request) VALUES (?, ?, ?, ?, ?, ?, ?)"},
		{&w.setSnapshot, `INSERT OR REPLACE INTO snapshots (tid, generation, bytes, status_generation, keep, front, artifacts)
			VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&w.addTotal, `INSERT INTO totals (scope, state, n) VALUES (?, ?, ?)
			ON CONFLICT (scope, state) DO UPDATE SET n = n + excluded.n`},
		{&w.addHour, `INSERT INTO hours (scope, state, hour, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (scope, state, hour) DO UPDATE SET n = n + excluded.n`},
		{&w.addMinute, `INSERT INTO minutes (scope, state, minute, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (scope, state, minute) DO UPDATE SET n = n + excluded.n`},
		{&w.setValues, `INSERT INTO contexts (scope, id, used_ms, vals) VALUES (?, ?, ?, ?)
			ON CONFLICT (scope, id) DO UPDATE SET used_ms = excluded.used_ms, vals = excluded.vals`},
		{&w.touchContext, "UPDATE contexts SET used_ms = ? WHERE scope = ? AND id = ? AND used_ms > ?"},
		{&w.addSent, "INSERT OR REPLACE INTO sent (scope, message_id, hash, reply, task, generation, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?)"},
		{&w.registration, "SELECT count(*) FROM webhooks WHERE task = ? AND id = ? AND registration = ?"},
		{&w.setWebhook, `INSERT OR REPLACE INTO webhooks (delivered, begun, attempts, due_ms, done, failure, task, id, registration, config)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.setDelivery, `UPDATE webhooks SET delivered = ?, begun = ?, attempts = ?, due_ms = ?, done = ?, failure = ?
			WHERE task = ? AND id = ?`},
		{&w.dropWebhook, "DELETE FROM webhooks WHERE task = ? AND id = ?"},
		{&w.due, dueFrom("tasks_logged", "trimmed < status_generation", "true")},
		{&w.dueTrimmed, dueFrom("tasks_trimmed", "trimmed >= status_generation", "true")},
		{&w.dueLogs, dueFrom("tasks_logged", "trimmed < status_generation", "folded")},
		{&w.dropTask, "DELETE FROM tasks WHERE tid = ?"},
		{&w.dropLog, "DELETE FROM log WHERE tid = ? AND generation <= ?"},
		{&w.dropSnapshot, "DELETE FROM snapshots WHERE tid = ?"},
		{&w.dropWebhooks, "DELETE FROM webhooks WHERE task = ?"},
		{&w.setTrimmed, "UPDATE tasks SET trimmed = ? WHERE tid = ?"},
		{&w.dropHours, "DELETE FROM hours WHERE scope = ? AND state IN (1, 2, 3, 4, 5, 6, 7, 8) AND hour <= ? AND n = 0"},
		{&w.dropMinutes, "DELETE FROM minutes WHERE scope = ? AND state IN (1, 2, 3, 4, 5, 6, 7, 8) AND minute <= ? AND n = 0"},
		{&w.dropSent, "DELETE FROM sent WHERE pos IN (SELECT pos FROM sent WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?)"},
		{&w.dropContexts, `DELETE FROM contexts WHERE (scope, id) IN
			(SELECT scope, id FROM contexts WHERE used_ms <= ? ORDER BY used_ms LIMIT ?)`},
	}
}

// dueFrom selects tasks that ended before a time, oldest first, from one of the indexes of such tasks, but none
// with a webhook that is not done. folded says that the task can be read without its log.
func dueFrom(index, where, and string) string {
	return `SELECT t.tid, t.id, c.agent, c.tenant, c.owner, t.state, t.status_ms, t.status_generation, t.trimmed,
			coalesce((SELECT generation FROM snapshots WHERE tid = t.tid) = t.status_generation, 0) AS folded
		FROM tasks t INDEXED BY ` + index + ` CROSS JOIN scopes c ON c.id = t.scope
		WHERE t.state IN (3, 4, 5, 7) AND t.` + where + ` AND t.status_ms < ? AND ` + and + `
			AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.task = t.id AND w.done = 0)
		ORDER BY t.status_ms LIMIT ?`
}
