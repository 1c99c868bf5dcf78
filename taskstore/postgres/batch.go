package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// batch is the changes that share a transaction. It locks and reads what they are about in one round trip, checks
// each change against what those before it left, and writes all that came of it in another, with the commit. A change
// that is refused leaves nothing, so that it has to be undone for nobody.
//
// Rows are locked in one order by all nodes: tasks by their ids, then what is new, then counters. What two nodes want
// to make at once violates a key, and the slower one does its batch anew.
type batch struct {
	s      *Store
	conn   *pgxpool.Conn
	number int64 // of this writer's batches, to ask what became of it
	now    time.Time

	tasks  map[string]*pending // by id
	order  []*pending
	nodes  map[string]bool // whether a node is alive; those that never joined are missing
	sent   map[sentKey]bool
	stale  []sentKey // rows of messages that have expired, or whose task is gone
	hooks  map[string]map[string]*hook
	values map[contextKey][]byte
	used   map[contextKey]bool
	taken  []takenSent
	counts map[counter]int64
}

type sentKey struct {
	scope int64
	id    string
}

type contextKey struct {
	scope int64
	id    string
}

// takenSent is a message that a change of the batch takes.
type takenSent struct {
	sentKey
	*taskstore.Sent
	task       string
	generation int64
}

// counter is a counter's key.
type counter struct {
	scope int64
	hour  int32
	state int16
}

// hook is a webhook that the batch may change.
type hook struct {
	taskstore.Webhook
	config []byte
	was    bool // it has a row
	gone   bool
	dirty  bool
}

// pending is a task that the batch touches: its row as the changes so far leave it.
type pending struct {
	key     taskstore.Key
	was     row // all but empty for a task that the batch creates
	row     row
	records []taskstore.Record
	rows    []taskcodec.Written // of the same records
	state   *taskstore.State    // folded up to the last of records; nil: not yet
	shot    *taskcodec.Snapshot // to be written
	created bool
	touched bool // it is in the order
}

func newBatch(s *Store) *batch {
	s.batches++
	return &batch{
		s: s, number: s.batches, now: time.Now(), tasks: map[string]*pending{}, nodes: map[string]bool{}, sent: map[sentKey]bool{},
		hooks: map[string]map[string]*hook{}, values: map[contextKey][]byte{}, used: map[contextKey]bool{},
		counts: map[counter]int64{},
	}
}

// run carries out the requests. Its error is one of the store itself, and spares nobody.
func (b *batch) run(ctx context.Context, requests []*request) (err error) {
	scopes, err := b.scopes(ctx, requests)
	if err != nil {
		return err
	}
	if b.conn, err = b.s.writer.Acquire(ctx); err != nil {
		return err
	}
	defer b.conn.Release() // which closes a connection whose transaction is still open
	if err := b.load(ctx, requests, scopes); err != nil {
		return err
	}
	wrote := false
	for i, r := range requests {
		r.receipt, r.err = taskstore.Receipt{}, nil
		verdict, err := b.apply(r, scopes[i])
		if err != nil {
			return err
		}
		r.err = verdict
		wrote = wrote || verdict == nil
	}
	if !wrote {
		_, err := b.conn.Exec(ctx, "ROLLBACK")
		return err
	}
	if err := b.snapshots(ctx); err != nil {
		return err
	}
	b.count()
	b.s.transactions.Add(1)
	return b.outcome(ctx, b.flush(ctx))
}

// scopes returns the ids of the requests' scopes, 0 for one that nobody wrote to. Those that will be written to are
// made beforehand, in transactions of their own: they stay.
func (b *batch) scopes(ctx context.Context, requests []*request) ([]int64, error) {
	out := make([]int64, len(requests))
	for i, r := range requests {
		id, err := b.s.scopeID(ctx, r.change.Key.Scope)
		if err == nil && id == 0 && (r.change.Create || r.change.OnlySent()) {
			id, err = b.s.makeScope(ctx, r.change.Key.Scope)
		}
		if err != nil {
			return nil, err
		}
		out[i] = id
	}
	return out, nil
}

// load begins the transaction, locks the tasks of the requests, and then reads the rest, which cannot change after.
func (b *batch) load(ctx context.Context, requests []*request, scopes []int64) error {
	var tasks, hooked, sentIDs [][]byte
	var sentScopes []int64
	create := 0
	for i, r := range requests {
		c := &r.change
		if c.Sent != nil && scopes[i] != 0 {
			sentScopes, sentIDs = append(sentScopes, scopes[i]), append(sentIDs, []byte(c.Sent.MessageID))
		}
		if c.OnlySent() {
			continue
		}
		tasks = append(tasks, []byte(c.Key.Task))
		if c.Delivered != nil || c.Unhook != "" || c.Webhook != nil {
			hooked = append(hooked, []byte(c.Key.Task))
		}
		if c.Create {
			create++
		}
	}
	q := &pgx.Batch{}
	q.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	if len(tasks) > 0 {
		q.Queue("SELECT id, "+rowColumns+" FROM tasks t WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE", tasks).Query(func(rows pgx.Rows) error {
			return each(rows, func() error {
				var id []byte
				p := &pending{}
				if err := rows.Scan(append([]any{&id}, p.row.columns()...)...); err != nil {
					return err
				}
				p.key.Task, p.was = string(id), p.row
				b.tasks[p.key.Task] = p
				return nil
			})
		})
		q.Queue("SELECT node, expires_at > clock_timestamp() FROM nodes").Query(func(rows pgx.Rows) error {
			var node string
			var alive bool
			return each(rows, func() error {
				err := rows.Scan(&node, &alive)
				b.nodes[node] = alive
				return err
			})
		})
	}
	if len(sentIDs) > 0 {
		q.Queue(`SELECT scope, message_id, expires_ms > $3 AND (task = '' OR EXISTS (SELECT 1 FROM tasks WHERE tasks.id = sent.task))
			FROM sent WHERE (scope, message_id) IN (SELECT * FROM unnest($1::bigint[], $2::bytea[]))`,
			sentScopes, sentIDs, b.now.UnixMilli()).Query(func(rows pgx.Rows) error {
			return each(rows, func() error {
				var k sentKey
				var id []byte
				var live bool
				err := rows.Scan(&k.scope, &id, &live)
				if k.id = string(id); live {
					b.sent[k] = true
				} else {
					b.stale = append(b.stale, k)
				}
				return err
			})
		})
	}
	if len(hooked) > 0 {
		q.Queue("SELECT w.task, "+webhookColumns+" FROM webhooks w WHERE w.task = ANY($1)", hooked).Query(func(rows pgx.Rows) error {
			return each(rows, func() error {
				var task []byte
				h := &hook{was: true}
				var err error
				h.config, err = scanWebhook(rows, &h.Webhook, &task)
				b.hooksOf(string(task))[h.Config.ID] = h
				return err
			})
		})
	}
	if b.s.lastTask-b.s.nextTask < int64(create) {
		q.Queue("SELECT nextval('task_numbers')").QueryRow(func(r pgx.Row) error {
			err := r.Scan(&b.s.nextTask)
			b.s.lastTask = b.s.nextTask + taskNumbers
			return err
		})
	}
	return b.conn.SendBatch(ctx, q).Close()
}

// taskNumbers is how many numbers the sequence gives at once; more than maxBatch.
const taskNumbers = 1000

func (b *batch) hooksOf(task string) map[string]*hook {
	m := b.hooks[task]
	if m == nil {
		m = map[string]*hook{}
		b.hooks[task] = m
	}
	return m
}

// apply carries out one change, or returns the store's verdict why not.
func (b *batch) apply(r *request, scope int64) (verdict, err error) {
	c := &r.change
	if c.Sent != nil && b.sent[sentKey{scope, c.Sent.MessageID}] {
		return taskstore.ErrSent, nil
	}
	if c.OnlySent() {
		b.send(c, scope, 0)
		return nil, nil
	}
	p := b.tasks[c.Key.Task]
	switch {
	case c.Create && p != nil:
		return taskstore.ErrExists, nil
	case c.Create:
		p = &pending{state: new(taskstore.State), created: true}
		p.row.scope = scope
	case p == nil || p.row.scope != scope:
		return taskstore.ErrNotFound, nil
	}
	lease, verdict := c.Check(p.row.head, p.row.lease)
	if verdict == nil {
		verdict = b.fence(c, p.row.lease)
	}
	if verdict == nil && !b.registered(c) {
		verdict = taskstore.ErrConflict
	}
	if verdict != nil {
		return verdict, nil
	}
	p.key = c.Key
	p.row.lease = lease
	records := p.number(r)
	if c.Create {
		first := c.Records[0].Event.(*a2a.Task) //nolint:forcetypeassert // Check saw to it
		p.row.tid, p.row.contextID = b.s.nextTask, first.ContextID
		b.s.nextTask++
		b.tasks[c.Key.Task] = p
		b.used[contextKey{scope, first.ContextID}] = true
	}
	if !p.touched {
		p.touched = true
		b.order = append(b.order, p)
	}
	if r.values != nil {
		b.values[contextKey{scope, p.row.contextID}] = r.values
	}
	b.hook(c, p.row.head.Generation)
	if c.Sent != nil {
		b.send(c, scope, p.row.head.Generation)
	}
	r.receipt = taskstore.Receipt{Generation: p.row.head.Generation, Epoch: lease.Epoch, Records: records}
	return nil, nil
}

// fence refuses what a node does whose time is over, and the seizure of a lease from one that is alive.
func (b *batch) fence(c *taskstore.Change, lease taskstore.Lease) error {
	switch {
	case c.Epoch != 0 && b.dead(lease.Node), c.Claim != "" && b.dead(c.Claim):
		return taskstore.ErrFenced
	case c.Seize != "" && b.nodes[c.Seize]:
		return taskstore.ErrHeld
	}
	return nil
}

func (b *batch) dead(node string) bool {
	alive, joined := b.nodes[node]
	return joined && !alive || b.s.lostHere(node)
}

// number gives the records of a request the next numbers and moves the task's head past them.
func (p *pending) number(r *request) []taskstore.Record {
	for i := range r.written {
		w := &r.written[i]
		p.row.head.Generation++
		w.Generation = p.row.head.Generation
		if st, ok := w.Status(); ok {
			p.row.head.State, p.row.head.StatusGeneration = st.State, w.Generation
			p.row.statusMS, p.row.keep = st.Timestamp.UnixMilli(), w.Keep
		}
		p.row.bytes += w.Size()
		if p.state != nil {
			p.state.Apply(w.Record)
		}
		p.records, p.rows = append(p.records, w.Record), append(p.rows, *w)
	}
	return slices.Clip(p.records[len(p.records)-len(r.written):])
}

// send records that the change's message was taken.
func (b *batch) send(c *taskstore.Change, scope, generation int64) {
	k := sentKey{scope, c.Sent.MessageID}
	b.sent[k] = true
	b.taken = append(b.taken, takenSent{k, c.Sent, c.Key.Task, generation})
}

// registered reports whether the registration is there that the change has news of, and is the node's that has them.
func (b *batch) registered(c *taskstore.Change) bool {
	if c.Delivered == nil {
		return true
	}
	h := b.hooks[c.Key.Task][c.Delivered.Config.ID]
	return h != nil && !h.gone && h.Registration == c.Delivered.Registration && h.Node == c.Delivered.Node
}

// hook carries out what a change says of webhooks: how far one has come, that one goes, that there is one.
func (b *batch) hook(c *taskstore.Change, generation int64) {
	if c.Delivered != nil {
		h := b.hooks[c.Key.Task][c.Delivered.Config.ID] // registered said that it is there
		config := h.Config
		h.Webhook, h.dirty = *c.Delivered, true
		h.Config = config
	}
	if h := b.hooks[c.Key.Task][c.Unhook]; h != nil && c.Unhook != "" {
		h.gone = true
	}
	if reg := c.Hook(generation); reg != nil {
		hooks := b.hooksOf(c.Key.Task)
		h := hooks[reg.Config.ID]
		if h == nil {
			h = &hook{}
			hooks[reg.Config.ID] = h
		}
		h.Webhook, h.config, h.dirty, h.gone = *reg, reg.Config.AppendJSON(nil), true, false
	}
}

// snapshotEvery is how many bytes a log grows by at least between two snapshots.
const snapshotEvery = 128 << 10

// snapshots makes the snapshots that are due, once for a task, however many changes were for it.
func (b *batch) snapshots(ctx context.Context) error {
	var due, unknown []*pending
	for _, p := range b.order {
		ended := p.row.head.State.Terminal() && !p.was.head.State.Terminal()
		if !ended && p.row.bytes-p.row.snapBytes <= max(p.row.snapSize, snapshotEvery) {
			continue
		}
		due = append(due, p)
		if p.state != nil {
			continue
		}
		if p.state = b.s.tasks.fold(p.row.tid, p.key.Task, p.was.head.Generation); p.state == nil {
			unknown = append(unknown, p)
		}
	}
	if len(unknown) > 0 {
		q := &pgx.Batch{}
		tids := make([]int64, len(unknown))
		for i, p := range unknown {
			tids[i] = p.row.tid
		}
		f := queueFolds(q, tids, true)
		if err := b.conn.SendBatch(ctx, q).Close(); err != nil {
			return err
		}
		for _, p := range unknown {
			p.state = f.states[p.row.tid]
			if p.state == nil || p.state.Generation != p.was.head.Generation {
				return missing(p.key.Task, p.was.head.Generation)
			}
		}
	}
	for _, p := range due {
		for _, r := range p.records {
			if r.Generation > p.state.Generation {
				p.state.Apply(r)
			}
		}
		shot := taskcodec.EncodeSnapshot(&p.state.Task)
		if shot.Size() > maxRecord { // the log has it all
			continue
		}
		p.shot = &shot
		p.row.snapBytes, p.row.snapSize = p.row.bytes, shot.Size()
	}
	return nil
}

// count finds what to add to the counters.
func (b *batch) count() {
	for _, p := range b.order {
		r, was := &p.row, &p.was
		if !p.created && r.head.StatusGeneration == was.head.StatusGeneration {
			continue
		}
		countTask(b.counts, r, 1)
		if !p.created {
			countTask(b.counts, was, -1)
		}
	}
}

// countTask adds n tasks like r to the counters.
func countTask(counts map[counter]int64, r *row, n int64) {
	state := int16(r.head.State)
	counts[counter{r.scope, allHours, state}] += n
	counts[counter{r.scope, hour(r.statusMS), state}] += n
}

// outcome finds out what became of the transaction when its commit gave an error. nil: it happened. A transient
// error: it did not, and may be done anew. (What the server says of a transaction's id is no answer: after a crash
// another one may have the same.)
func (b *batch) outcome(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	if err == nil || errors.As(err, &pg) && pg.Severity == "ERROR" {
		return err
	}
	closeConn(b.conn.Conn())
	var last int64
	ask := b.s.try(context.WithoutCancel(ctx), false, func(ctx context.Context) error { // waits while the transaction lasts
		return b.s.writer.QueryRow(ctx, `INSERT INTO writers (writer, batch) VALUES ($1, 0)
			ON CONFLICT (writer) DO UPDATE SET used_at = clock_timestamp() RETURNING batch`, b.s.id).Scan(&last)
	})
	switch {
	case ask != nil:
		return &trouble{b.s.where, ErrUnknown, err}
	case last == b.number:
		return nil
	}
	return err
}

// publish shows what was committed to the readers of memory.
func (b *batch) publish() {
	for _, p := range b.order {
		b.s.tasks.put(p)
	}
}

// flush writes all that came of the batch, and commits.
func (b *batch) flush(ctx context.Context) error {
	q := &pgx.Batch{}
	q.Queue(`INSERT INTO writers (writer, batch) VALUES ($1, $2)
		ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, used_at = excluded.used_at`, b.s.id, b.number)
	b.flushTasks(q)
	b.flushHooks(q)
	b.flushSent(q)
	b.flushContexts(q)
	queueCounts(q, b.counts, b.s.slot)
	q.Queue("COMMIT")
	return b.conn.SendBatch(ctx, q).Close()
}

// columns gathers values by column, as unnest wants them.
type columns[T any] []T

func (c *columns[T]) add(v T) { *c = append(*c, v) }

func (b *batch) flushTasks(q *pgx.Batch) {
	var n, l, sh struct {
		tid, scope, statusMS, statusGeneration, generation, epoch, bytes, snapBytes, snapSize columns[int64]
		id, context, event, turn, request                                                     columns[[]byte]
		state                                                                                 columns[int16]
		node                                                                                  columns[string]
		keep, latched, committed                                                              columns[bool]
	}
	u := n // of tasks that were there
	slices.SortFunc(b.order, func(x, y *pending) int { return strings.Compare(x.key.Task, y.key.Task) })
	for _, p := range b.order {
		r := &p.row
		t := &u
		if p.created {
			t = &n
			t.id.add([]byte(p.key.Task))
			t.scope.add(r.scope)
			t.context.add([]byte(r.contextID))
		}
		if p.created || p.row != p.was {
			t.tid.add(r.tid)
			t.state.add(int16(r.head.State))
			t.statusMS.add(r.statusMS)
			t.statusGeneration.add(r.head.StatusGeneration)
			t.keep.add(r.keep)
			t.generation.add(r.head.Generation)
			t.epoch.add(r.lease.Epoch)
			t.node.add(r.lease.Node)
			t.latched.add(r.lease.Latched)
			t.committed.add(r.lease.Committed)
			t.bytes.add(r.bytes)
			t.snapBytes.add(r.snapBytes)
			t.snapSize.add(r.snapSize)
		}
		for i := range p.rows {
			w := &p.rows[i]
			l.tid.add(r.tid)
			l.generation.add(w.Generation)
			l.state.add(int16(w.Kind))
			l.event.add(w.Event)
			l.turn.add(w.Turn)
			l.request.add(w.Request)
		}
		if p.shot != nil {
			sh.tid.add(r.tid)
			sh.generation.add(r.head.Generation)
			sh.statusGeneration.add(r.head.StatusGeneration)
			sh.keep.add(r.keep)
			sh.event.add(p.shot.Front)
			sh.turn.add(p.shot.Artifacts)
		}
	}
	if len(n.tid) > 0 {
		q.Queue(`INSERT INTO tasks (tid, id, scope, context, state, status_ms, status_generation, keep, generation, epoch, node,
				latched, committed, bytes, snap_bytes, snap_size)
			SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bytea[], $5::smallint[], $6::bigint[], $7::bigint[],
				$8::boolean[], $9::bigint[], $10::bigint[], $11::text[], $12::boolean[], $13::boolean[], $14::bigint[],
				$15::bigint[], $16::bigint[])`,
			n.tid, n.id, n.scope, n.context, n.state, n.statusMS, n.statusGeneration, n.keep, n.generation, n.epoch, n.node,
			n.latched, n.committed, n.bytes, n.snapBytes, n.snapSize)
	}
	if len(u.tid) > 0 {
		q.Queue(`UPDATE tasks t SET state = u.state, status_ms = u.status_ms, status_generation = u.status_generation,
				keep = u.keep, generation = u.generation, epoch = u.epoch, node = u.node, latched = u.latched,
				committed = u.committed, bytes = u.bytes, snap_bytes = u.snap_bytes, snap_size = u.snap_size
			FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bigint[], $7::bigint[],
				$8::text[], $9::boolean[], $10::boolean[], $11::bigint[], $12::bigint[], $13::bigint[])
				AS u (tid, state, status_ms, status_generation, keep, generation, epoch, node, latched, committed,
					bytes, snap_bytes, snap_size)
			WHERE t.tid = u.tid`,
			u.tid, u.state, u.statusMS, u.statusGeneration, u.keep, u.generation, u.epoch, u.node, u.latched, u.committed,
			u.bytes, u.snapBytes, u.snapSize)
	}
	if len(l.tid) > 0 {
		q.Queue(`INSERT INTO log (tid, generation, kind, event, turn, request)
			SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bytea[], $5::bytea[], $6::bytea[])`,
			l.tid, l.generation, l.state, l.event, l.turn, l.request)
	}
	if len(sh.tid) > 0 {
		q.Queue(`INSERT INTO snapshots (tid, generation, status_generation, keep, front, artifacts)
			SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bytea[], $6::bytea[])
			ON CONFLICT (tid) DO UPDATE SET generation = excluded.generation, status_generation = excluded.status_generation,
				keep = excluded.keep, front = excluded.front, artifacts = excluded.artifacts`,
			sh.tid, sh.generation, sh.statusGeneration, sh.keep, sh.event, sh.turn)
	}
}

// flushHooks writes webhooks one by one: they are few.
func (b *batch) flushHooks(q *pgx.Batch) {
	for task, hooks := range b.hooks {
		for id, h := range hooks {
			switch {
			case h.gone && h.was:
				q.Queue("DELETE FROM webhooks WHERE task = $1 AND id = $2", []byte(task), []byte(id))
			case h.dirty && !h.gone:
				var due *int64
				if !h.Due.IsZero() {
					ms := h.Due.UnixMilli()
					due = &ms
				}
				// A node that takes the webhook meanwhile keeps it.
				q.Queue(`INSERT INTO webhooks AS w (task, id, config, registration, delivered, begun, attempts, due_ms, done, failure, node)
					VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
					ON CONFLICT (task, id) DO UPDATE SET config = $3, registration = $4, delivered = $5, begun = $6,
						attempts = $7, due_ms = $8, done = $9, failure = $10,
						node = CASE WHEN w.registration = $4 THEN w.node ELSE $11 END`,
					[]byte(task), []byte(id), h.config, []byte(h.Registration), h.Delivered, h.Begun, int32(h.Attempts), due, h.Done, []byte(h.Failure), h.Node)
			}
		}
	}
}

func (b *batch) flushSent(q *pgx.Batch) {
	for _, k := range b.stale {
		q.Queue("DELETE FROM sent WHERE scope = $1 AND message_id = $2", k.scope, []byte(k.id))
	}
	if len(b.taken) == 0 {
		return
	}
	slices.SortFunc(b.taken, func(x, y takenSent) int { return strings.Compare(x.id, y.id) })
	var scope, generation, expires columns[int64]
	var id, hash, reply, task columns[[]byte]
	for i := range b.taken {
		m := &b.taken[i]
		scope.add(m.scope)
		id.add([]byte(m.id))
		hash.add(m.Hash[:])
		reply.add(m.Reply)
		task.add([]byte(m.task))
		generation.add(m.generation)
		expires.add(m.Expires.UnixMilli())
	}
	q.Queue(`INSERT INTO sent (scope, message_id, hash, reply, task, generation, expires_ms)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[])`,
		scope, id, hash, reply, task, generation, expires)
}

// usedEvery is how exactly the time is known at which a context was used, so that the tasks of one context do not all
// write to its row.
const usedEvery = time.Hour

func (b *batch) flushContexts(q *pgx.Batch) {
	now := b.now.UnixMilli()
	if len(b.used) > 0 {
		var scope columns[int64]
		var id columns[[]byte]
		for k := range b.used {
			scope.add(k.scope)
			id.add([]byte(k.id))
		}
		q.Queue(`UPDATE contexts c SET used_ms = $3 FROM unnest($1::bigint[], $2::bytea[]) AS u (scope, id)
			WHERE c.scope = u.scope AND c.id = u.id AND c.used_ms > $4 AND c.used_ms < $5`,
			scope, id, now, b.s.expired(b.now), now-usedEvery.Milliseconds())
	}
	for k, v := range b.values {
		q.Queue(`INSERT INTO contexts (scope, id, used_ms, vals) VALUES ($1, $2, $3, $4)
			ON CONFLICT (scope, id) DO UPDATE SET used_ms = $3, vals = $4`, k.scope, []byte(k.id), now, v)
	}
}

// queueCounts adds to the counters.
func queueCounts(q *pgx.Batch, counts map[counter]int64, slot int16) {
	var scope, n columns[int64]
	var hours columns[int32]
	var state columns[int16]
	for k, d := range counts {
		if d != 0 {
			scope.add(k.scope)
			hours.add(k.hour)
			state.add(k.state)
			n.add(d)
		}
	}
	if len(n) == 0 {
		return
	}
	q.Queue(`INSERT INTO counters (scope, hour, state, slot, n)
		SELECT scope, hour, state, $5, n FROM unnest($1::bigint[], $2::integer[], $3::smallint[], $4::bigint[]) AS u (scope, hour, state, n)
		ORDER BY 1, 2, 3
		ON CONFLICT (scope, hour, state, slot) DO UPDATE SET n = counters.n + excluded.n`, scope, hours, state, n, slot)
}
