package sqlite

import (
	"slices"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// batch is the changes that share a transaction. A change is checked against what those before it left, and
// one that is refused leaves nothing, so that it has to be undone for nobody.
type batch struct {
	s              *Store
	w              *conn
	began          bool
	tasks          map[string]*pending // by id
	order          []*pending
	scopes         map[taskstore.Scope]*scope
	totals         map[total]int64 // what to add; time is 0
	hours, minutes map[total]int64
	// Of which a step of Expire deleted all, or the log up to what trimmed now says.
	gone, cut []*expired
}

// total is a counter's key.
type total struct {
	scope *scope
	state a2a.TaskState
	time  int64
}

// pending is a task that the batch touches: its row as the changes so far leave it.
type pending struct {
	t       *task // as it was; all but empty for a task that the batch creates
	row     row
	records []taskstore.Record
	state   *taskstore.State // folded up to the last of records; nil: not yet
	// What the tables have to be told at the end.
	created, statusChanged, leaseChanged bool
}

// run carries out the requests. Its error is one of the store itself, and spares nobody.
func (b *batch) run(requests []*request) error {
	for _, r := range requests {
		if r.retention != nil {
			if err := b.expire(r); err != nil {
				return err
			}
			continue
		}
		verdict, err := b.apply(r)
		if err != nil {
			return err
		}
		r.err = verdict
	}
	if !b.began {
		return nil
	}
	for _, p := range b.order {
		if err := b.settle(p); err != nil {
			return err
		}
	}
	if err := b.count(); err != nil {
		return err
	}
	if err := b.dropCounters(); err != nil {
		return err
	}
	_, err := b.w.commit.exec()
	return err
}

// begin starts the transaction, if there is none yet.
func (b *batch) begin() error {
	if b.began {
		return nil
	}
	b.s.transactions.Add(1)
	_, err := b.w.beginWrite.exec()
	b.began = err == nil
	return err
}

// apply carries out one change, or returns the store's verdict why not.
func (b *batch) apply(r *request) (verdict, err error) {
	c := &r.change
	if verdict, err := b.taken(c); verdict != nil || err != nil {
		return verdict, err
	}
	if c.OnlySent() {
		return nil, b.send(c, 0)
	}
	p, verdict, err := b.find(c)
	if verdict != nil || err != nil {
		return verdict, err
	}
	lease, verdict := c.Check(p.row.head, p.row.lease)
	if verdict != nil {
		return verdict, nil
	}
	if verdict, err := b.registered(c); verdict != nil || err != nil {
		return verdict, err
	}
	if err := b.begin(); err != nil {
		return nil, err
	}
	before := p.row
	p.row.lease = lease
	p.number(r)
	if c.Create {
		added, err := b.add(p, c.Records[0].Event.(*a2a.Task)) //nolint:forcetypeassert // Check saw to it
		if err != nil {
			return nil, err
		}
		if !added {
			return taskstore.ErrExists, nil
		}
		b.touch(p)
	} else {
		p.statusChanged = p.statusChanged || p.row.head.StatusGeneration != before.head.StatusGeneration
		p.leaseChanged = p.leaseChanged || lease != before.lease
	}
	if err := b.append(p, r.written); err != nil {
		return nil, err
	}
	if err := b.values(p, r.values); err != nil {
		return nil, err
	}
	if err := b.hook(c, p.row.head.Generation, r.config); err != nil {
		return nil, err
	}
	if err := b.send(c, p.row.head.Generation); err != nil {
		return nil, err
	}
	r.receipt = taskstore.Receipt{Generation: p.row.head.Generation, Epoch: lease.Epoch, Records: slices.Clip(p.records[len(p.records)-len(r.written):])}
	return nil, nil
}

// find returns the task that the change is for. A new one is not the batch's before it was added.
func (b *batch) find(c *taskstore.Change) (p *pending, verdict, err error) {
	if p = b.tasks[c.Key.Task]; p == nil {
		b.s.mu.RLock() // readers put tasks there too
		t := b.s.tasks.get(c.Key.Task)
		b.s.mu.RUnlock()
		if t == nil && !c.Create {
			if t, err = b.w.load(c.Key.Task); err != nil {
				return nil, nil, err
			}
		}
		if t != nil {
			p = &pending{t: t, row: t.row}
			b.touch(p)
		}
	}
	switch {
	case c.Create && p != nil:
		return nil, taskstore.ErrExists, nil
	case c.Create:
		return &pending{t: &task{key: c.Key}, state: new(taskstore.State), created: true}, nil, nil
	case p == nil || p.t.key.Scope != c.Key.Scope:
		return nil, taskstore.ErrNotFound, nil
	}
	return p, nil, nil
}

func (b *batch) touch(p *pending) {
	b.tasks[p.t.key.Task] = p
	b.order = append(b.order, p)
}

// number gives the records of a request the next numbers and moves the task's head past them.
func (p *pending) number(r *request) {
	for i := range r.written {
		w := &r.written[i]
		p.row.head.Generation++
		w.Generation = p.row.head.Generation
		if st, ok := w.Status(); ok {
			p.row.head.State, p.row.head.StatusGeneration = st.State, w.Generation
			p.row.statusMS, p.row.keep = st.Timestamp.UnixMilli(), w.Keep
		}
		if p.state != nil {
			p.state.Apply(w.Record)
		}
		p.records = append(p.records, w.Record)
	}
}

// add makes the row of a new task and reports whether its id was free.
func (b *batch) add(p *pending, first *a2a.Task) (bool, error) {
	sc, err := b.scope(p.t.key.Scope)
	if err != nil {
		return false, err
	}
	b.s.lastTask++
	r := &p.row
	r.tid, r.contextID = b.s.lastTask, first.ContextID
	n, err := b.w.addTask.exec(
		r.tid, p.t.key.Task, sc.id, r.contextID, int64(r.head.State), r.statusMS, r.head.StatusGeneration,
		r.lease.Epoch, r.lease.Node, flag(r.lease.Latched), flag(r.lease.Committed),
	)
	if err != nil || n == 0 {
		return false, err
	}
	now := time.Now()
	_, err = b.w.touchContext.exec(now.UnixMilli(), sc.id, r.contextID, b.s.expired(now))
	return true, err
}

// append writes records at the end of the log.
func (b *batch) append(p *pending, records []taskcodec.Written) error {
	for i := range records {
		w := &records[i]
		p.row.bytes += w.Size()
		if _, err := b.w.addRecord.exec(p.row.tid, w.Generation, w.Kind, p.row.bytes, w.Event, null(w.Turn), null(w.Request)); err != nil {
			return err
		}
	}
	return nil
}

// values keeps the values of the task's context.
func (b *batch) values(p *pending, values []byte) error {
	if values == nil {
		return nil
	}
	sc, err := b.scope(p.t.key.Scope)
	if err != nil {
		return err
	}
	_, err = b.w.setValues.exec(sc.id, p.row.contextID, time.Now().UnixMilli(), values)
	return err
}

// scope returns the scope's row, which is made if there is none.
func (b *batch) scope(key taskstore.Scope) (*scope, error) {
	if sc := b.scopes[key]; sc != nil {
		return sc, nil
	}
	sc := b.s.scopes[key] // the writer alone changes the map
	if sc == nil {
		sc = new(scope)
		if err := b.w.scope.query(readInt(&sc.id), key.Agent, key.Tenant, key.Owner); err != nil {
			return nil, err
		}
		if sc.id != 0 {
			if err := b.w.sum(sc); err != nil {
				return nil, err
			}
		} else {
			b.s.lastScope++
			sc.id = b.s.lastScope
			if _, err := b.w.addScope.exec(sc.id, key.Agent, key.Tenant, key.Owner); err != nil {
				return nil, err
			}
		}
	}
	b.scopes[key] = sc
	return sc, nil
}

// snapshotEvery is how many bytes a log grows by at least between two snapshots.
const snapshotEvery = 128 << 10

// settle tells the tables what became of a task: once, however many changes of the batch were for it.
func (b *batch) settle(p *pending) error {
	r, was := &p.row, &p.t.row
	ended := r.head.State.Terminal() && !was.head.State.Terminal()
	if ended || r.bytes-r.snapBytes > max(r.snapSize, snapshotEvery) {
		if err := b.snapshot(p); err != nil {
			return err
		}
	}
	lease := []any{r.lease.Epoch, r.lease.Node, flag(r.lease.Latched), flag(r.lease.Committed), r.tid}
	var err error
	switch {
	case p.statusChanged:
		_, err = b.w.setStatus.exec(append([]any{int64(r.head.State), r.statusMS, r.head.StatusGeneration}, lease...)...)
	case p.leaseChanged:
		_, err = b.w.setLease.exec(lease...)
	}
	if err != nil || !p.created && !p.statusChanged {
		return err
	}
	sc, err := b.scope(p.t.key.Scope)
	if err != nil {
		return err
	}
	b.add1(sc, r, 1)
	if !p.created {
		b.add1(sc, was, -1)
	}
	return nil
}

func (b *batch) add1(sc *scope, r *row, n int64) {
	b.totals[total{scope: sc, state: r.head.State}] += n
	b.minutes[total{scope: sc, state: r.head.State, time: floor(r.statusMS, minuteMS)}] += n
	b.hours[total{scope: sc, state: r.head.State, time: floor(r.statusMS, hourMS)}] += n
}

// snapshot writes the folded task.
func (b *batch) snapshot(p *pending) error {
	if err := b.fold(p); err != nil {
		return err
	}
	shot := taskcodec.EncodeSnapshot(&p.state.Task)
	if shot.Size() > maxBlob { // the log has it all
		return nil
	}
	r := &p.row
	r.snapBytes, r.snapSize = r.bytes, shot.Size()
	_, err := b.w.setSnapshot.exec(r.tid, r.head.Generation, r.bytes, r.head.StatusGeneration, flag(r.keep), shot.Front, null(shot.Artifacts))
	return err
}

// fold folds the task up to its last record, on a copy of what the readers see.
func (b *batch) fold(p *pending) (err error) {
	switch {
	case p.state != nil:
	case p.t.state == nil:
		p.state, _, err = b.w.fold(p.row.tid, p.row.head.Generation, p.row.trimmed, true)
	default:
		st := *p.t.state
		st.Task = *st.Task.Snapshot()
		for _, r := range p.records {
			st.Apply(r)
		}
		p.state = &st
	}
	return err
}

// count writes the counters.
func (b *batch) count() error {
	for k, n := range b.minutes {
		if n == 0 {
			continue
		}
		if _, err := b.w.addMinute.exec(k.scope.id, int64(k.state), k.time, n); err != nil {
			return err
		}
	}
	for k, n := range b.totals {
		if n == 0 {
			continue
		}
		if _, err := b.w.addTotal.exec(k.scope.id, int64(k.state), n); err != nil {
			return err
		}
	}
	for k, n := range b.hours {
		if n == 0 {
			continue
		}
		if _, err := b.w.addHour.exec(k.scope.id, int64(k.state), k.time, n); err != nil {
			return err
		}
	}
	return nil
}

// publish shows what was committed to the readers of memory.
func (b *batch) publish() {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range b.order {
		t := p.t
		t.row = p.row
		switch {
		case p.state != nil:
			t.state = p.state
		case t.state != nil:
			for _, r := range p.records {
				t.state.Apply(r)
			}
		}
		t.remember(p.records)
		t.touched.Store(true)
		s.tasks.put(t)
	}
	b.forget()
	s.tasks.shrink()
	if len(s.scopes) > maxScopes {
		clear(s.scopes)
	}
	for key, sc := range b.scopes {
		s.scopes[key] = sc
	}
	for k, n := range b.totals {
		k.scope.totals[k.state] += n
	}
}

// undo ends a transaction that failed. What memory has of its tasks and scopes is read anew when it is needed:
// a commit that failed may have happened.
func (b *batch) undo() {
	_, _ = b.w.rollback.exec() // an error says that SQLite did it already
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range b.order {
		s.tasks.drop(p.t)
	}
	b.forget()
	clear(s.scopes)
}
