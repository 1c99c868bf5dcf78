package taskstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/parley-a2a/parley/a2a"
)

// MemoryOptions bounds a store in memory. The zero value means the defaults.
type MemoryOptions struct {
	// MaxTasks is how many tasks are kept, 200,000 by default. Beyond it the tasks that finished first are
	// forgotten; a task that has not finished is never.
	MaxTasks int
	// MaxLogs is how many of the tasks that finished last keep their log, 1,024 by default. The others can
	// be read but not followed from the middle.
	MaxLogs int
	// ContextTTL is how long an unused context keeps its values, 90 days by default.
	ContextTTL time.Duration
}

// Memory is a store that lasts as long as its process.
type Memory struct {
	opts MemoryOptions

	mu       sync.RWMutex
	tasks    map[string]*memTask // by id: ids are unique whatever the scope
	scopes   map[Scope]*memScope
	waiting  map[string]*memTask // interrupted tasks
	idle     map[string]*memTask // tasks that have not started
	held     map[string]*memTask // tasks with a lease
	hooks    map[string]hooks    // webhooks of the tasks that have some
	hooked   map[string]*memTask // tasks with a webhook that is not done
	sent     map[sentKey]*Sent
	sentList []sentKey // a heap, the first to expire on top
	logs     queue     // finished tasks that still have their log, oldest first
	finished queue     // finished tasks, oldest first

	notifyMu sync.Mutex
	notify   atomic.Pointer[[]*func(string)] // what it points to does not change
}

type memScope struct {
	Scope
	byState  [9]*btree.BTreeG[*memTask] // each task stands in the tree of its state, ordered by status time and id
	contexts map[string]*memTask        // the newest of each context; older ones by memTask.inContext
	values   map[string]*memValues      // of the contexts that keep some
}

type memValues struct {
	values map[string]string
	used   time.Time
}

type sentKey struct {
	scope Scope
	id    string
}

type memTask struct {
	scope     *memScope
	state     State
	work      *memWork // nil once the log was trimmed
	inContext *memTask
}

// memWork is what a task has besides while it can change or be followed.
type memWork struct {
	log   []Record
	lease Lease
}

func (t *memTask) id() string { return t.state.Task.ID }

// task returns the task for a reader. What one that has ended holds is shared: nothing changes it any more.
func (t *memTask) task() *a2a.Task {
	if t.state.Task.Status.State.Terminal() {
		out := t.state.Task
		return &out
	}
	return t.state.Task.Snapshot()
}

// lease is who may write the task: of one whose log was trimmed, nobody, as it has ended.
func (t *memTask) lease() Lease {
	if t.work == nil {
		return Lease{}
	}
	return t.work.lease
}

// gone reports whether the task was forgotten: it is skipped in inContext chains.
func (t *memTask) gone() bool { return t.state.Generation == 0 }

// idle reports whether the task waits for somebody to start it.
func (t *memTask) idle() bool {
	return t.state.Task.Status.State == a2a.TaskStateSubmitted && t.lease().Node == ""
}

func (t *memTask) key() Key { return Key{Scope: t.scope.Scope, Task: t.id()} }

// NewMemory returns an empty store.
func NewMemory(opts MemoryOptions) *Memory {
	if opts.MaxTasks <= 0 {
		opts.MaxTasks = 200_000
	}
	if opts.MaxLogs <= 0 {
		opts.MaxLogs = 1024
	}
	if opts.ContextTTL <= 0 {
		opts.ContextTTL = 90 * 24 * time.Hour
	}
	return &Memory{
		opts:    opts,
		tasks:   map[string]*memTask{},
		scopes:  map[Scope]*memScope{},
		waiting: map[string]*memTask{},
		idle:    map[string]*memTask{},
		held:    map[string]*memTask{},
		hooks:   map[string]hooks{},
		hooked:  map[string]*memTask{},
		sent:    map[sentKey]*Sent{},
	}
}

// Commit implements [Store].
func (m *Memory) Commit(_ context.Context, c Change) (Receipt, error) {
	m.mu.Lock()
	r, err := m.commit(c)
	m.mu.Unlock()
	if all := m.notify.Load(); err == nil && len(r.Records) > 0 && all != nil {
		for _, f := range *all {
			(*f)(c.Key.Task)
		}
	}
	return r, err
}

func (m *Memory) commit(c Change) (Receipt, error) {
	if c.Sent != nil && m.wasSent(c.Key.Scope, c.Sent.MessageID) != nil {
		return Receipt{}, ErrSent
	}
	if c.OnlySent() {
		m.addSent(c, 0)
		return Receipt{}, nil
	}
	t := m.tasks[c.Key.Task]
	if c.Create {
		if t != nil {
			return Receipt{}, ErrExists
		}
		t = &memTask{scope: m.scope(c.Key.Scope), work: new(memWork)}
	} else {
		if t == nil || t.scope.Scope != c.Key.Scope {
			return Receipt{}, ErrNotFound
		}
	}
	lease, idle := t.lease(), t.idle()
	head := Head{Generation: t.state.Generation, StatusGeneration: t.state.StatusGeneration, State: t.state.Task.Status.State}
	next, err := c.Check(head, lease)
	if err != nil {
		return Receipt{}, err
	}
	if c.Delivered != nil && !m.hooks[t.id()].delivered(c.Delivered) {
		return Receipt{}, ErrConflict
	}
	if c.Create {
		m.add(t, c)
	}
	if next != lease {
		t.work.lease = next
	}
	if len(c.Records) > 0 {
		m.append(t, c.Records)
	}
	if c.Values != nil {
		t.scope.values[t.state.Task.ContextID] = &memValues{values: c.Values, used: time.Now()}
	}
	if now := t.idle(); now != idle {
		set(m.idle, t, now)
	}
	if held := next.Node != ""; held != (lease.Node != "") {
		set(m.held, t, held)
	}
	m.hook(t, &c)
	if c.Sent != nil {
		m.addSent(c, t.state.Generation)
	}
	return Receipt{Generation: t.state.Generation, Epoch: next.Epoch, Records: c.Records}, nil
}

// scope returns what is kept of a scope.
func (m *Memory) scope(scope Scope) *memScope {
	s := m.scopes[scope]
	if s == nil {
		s = &memScope{Scope: scope, contexts: map[string]*memTask{}, values: map[string]*memValues{}}
		m.scopes[scope] = s
	}
	return s
}

// add puts a new task where its context finds it.
func (m *Memory) add(t *memTask, c Change) {
	first := c.Records[0].Event.(*a2a.Task) //nolint:forcetypeassert // Check saw to it
	t.inContext = t.scope.contexts[first.ContextID]
	t.scope.contexts[first.ContextID] = t
	if v := t.scope.values[first.ContextID]; v != nil {
		if now := time.Now(); now.Sub(v.used) > m.opts.ContextTTL {
			delete(t.scope.values, first.ContextID)
		} else {
			v.used = now
		}
	}
	m.tasks[c.Key.Task] = t
}

// append numbers the records, folds them and keeps the indexes.
func (m *Memory) append(t *memTask, records []Record) {
	fresh := t.state.Generation == 0
	before := t.state.Task.Status
	if !fresh && changesStatus(records) {
		t.scope.tree(before.State).Delete(t)
		delete(m.waiting, t.id())
		defer m.index(t)
	}
	for i := range records {
		records[i].Entry = a2a.NewEntry(t.state.Generation+1, records[i].Event)
		t.state.Apply(records[i])
	}
	if fresh {
		t.work.log = records
	} else {
		t.work.log = append(t.work.log, records...)
	}
	if fresh {
		m.index(t)
	}
}

func changesStatus(records []Record) bool {
	for i := range records {
		switch records[i].Event.(type) {
		case *a2a.Task, *a2a.TaskStatusUpdateEvent:
			return true
		case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
		}
	}
	return false
}

// index puts a task into the tree of its state, and a finished one at the end of the queues, whose oldest
// then make room.
func (m *Memory) index(t *memTask) {
	state := t.state.Task.Status.State
	t.scope.tree(state).Load(t) // quick where the task is the newest, as it mostly is
	switch {
	case state.Interrupted():
		m.waiting[t.id()] = t
	case state.Terminal():
		m.logs.push(t)
		m.finished.push(t)
		for m.logs.len() > m.opts.MaxLogs && m.trim() {
		}
		for len(m.tasks) > m.opts.MaxTasks && m.finished.len() > 0 {
			m.forget(m.finished.pop())
		}
	}
}

// trim takes the log of the task that finished first, unless a webhook still needs it.
func (m *Memory) trim() bool {
	old := m.logs.pop()
	if m.hooked[old.id()] == old {
		m.logs.push(old)
		return false
	}
	old.work = nil
	return true
}

func (m *Memory) forget(t *memTask) {
	delete(m.tasks, t.id())
	delete(m.hooks, t.id())
	delete(m.hooked, t.id())
	t.scope.tree(t.state.Task.Status.State).Delete(t)
	contexts, id := t.scope.contexts, t.state.Task.ContextID
	t.work, t.state = nil, State{} // it is gone
	newest := contexts[id]
	for newest != nil && newest.gone() {
		newest = newest.inContext
	}
	if newest == nil {
		delete(contexts, id)
	} else {
		contexts[id] = newest
	}
}

func (s *memScope) tree(state a2a.TaskState) *btree.BTreeG[*memTask] {
	t := s.byState[state]
	if t == nil {
		t = btree.NewBTreeGOptions(older, btree.Options{NoLocks: true, Degree: 16})
		s.byState[state] = t
	}
	return t
}

// older orders tasks by status time and id. A task's time must not change while it is in a tree.
func older(a, b *memTask) bool {
	at, bt := a.state.Task.Status.Timestamp, b.state.Task.Status.Timestamp
	if !at.Equal(bt) {
		return at.Before(bt)
	}
	return a.id() < b.id()
}

// Task implements [Store].
func (m *Memory) Task(_ context.Context, key Key, at int64) (Snapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.find(key)
	if err != nil {
		return Snapshot{}, err
	}
	lease := t.lease()
	out := Snapshot{Epoch: lease.Epoch, Node: lease.Node, Latched: lease.Latched, Committed: lease.Committed}
	if at == 0 || at >= t.state.Generation {
		out.Task = t.task()
		out.Generation, out.StatusGeneration = t.state.Generation, t.state.StatusGeneration
		return out, nil
	}
	if t.work == nil {
		return Snapshot{}, ErrTrimmed
	}
	var s State
	for _, r := range t.work.log[:at] {
		s.Apply(r)
	}
	out.Task, out.Generation, out.StatusGeneration = &s.Task, s.Generation, s.StatusGeneration
	return out, nil
}

func (m *Memory) find(key Key) (*memTask, error) {
	t := m.tasks[key.Task]
	if t == nil || t.scope.Scope != key.Scope {
		return nil, ErrNotFound
	}
	return t, nil
}

// Entries implements [Store]. The records are the log itself: they never change, only more come after.
func (m *Memory) Entries(_ context.Context, key Key, after int64, limit int) ([]Record, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.find(key)
	if err != nil {
		return nil, err
	}
	switch {
	case t.work != nil:
	case after < t.state.Generation:
		return nil, ErrTrimmed
	default:
		return nil, nil
	}
	log := t.work.log
	from := min(after, int64(len(log)))
	to := min(from+int64(limit), int64(len(log)))
	return log[from:to:to], nil
}

// Heads implements [Store].
func (m *Memory) Heads(_ context.Context, keys []Key) ([]int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]int64, len(keys))
	for i, k := range keys {
		if t, err := m.find(k); err == nil {
			out[i] = t.state.Generation
		}
	}
	return out, nil
}

// Count implements [Store].
func (m *Memory) Count(_ context.Context, scope Scope, states ...a2a.TaskState) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := 0
	if s := m.scopes[scope]; s != nil {
		for _, st := range states {
			if t := s.byState[st]; t != nil {
				n += t.Len()
			}
		}
	}
	return n, nil
}

// Values implements [Store].
func (m *Memory) Values(_ context.Context, scope Scope, contextID string) (map[string]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.scopes[scope]
	if s == nil {
		return nil, nil
	}
	v := s.values[contextID]
	if v == nil || time.Since(v.used) > m.opts.ContextTTL {
		return nil, nil
	}
	return v.values, nil
}

// Interrupted implements [Store].
func (m *Memory) Interrupted(_ context.Context, agent string, before time.Time, limit int) ([]Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Key
	for _, t := range m.waiting {
		if len(out) == limit {
			break
		}
		if t.scope.Agent == agent && t.state.Task.Status.Timestamp.Before(before) {
			out = append(out, t.key())
		}
	}
	return out, nil
}

// Notify implements [Store].
func (m *Memory) Notify(f func(task string)) (stop func()) {
	m.setNotify(func(all []*func(string)) []*func(string) { return append(all, &f) })
	return func() {
		m.setNotify(func(all []*func(string)) []*func(string) {
			return slices.DeleteFunc(all, func(other *func(string)) bool { return other == &f })
		})
	}
}

// setNotify replaces the functions that commits call by what change makes of a copy.
func (m *Memory) setNotify(change func([]*func(string)) []*func(string)) {
	m.notifyMu.Lock()
	defer m.notifyMu.Unlock()
	var all []*func(string)
	if old := m.notify.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = change(all)
	m.notify.Store(&all)
}

// Close implements [Store].
func (m *Memory) Close() error { return nil }

// queue is a first-in first-out of tasks.
type queue struct {
	items []*memTask
	first int
}

func (q *queue) len() int { return len(q.items) - q.first }

func (q *queue) peek() *memTask { return q.items[q.first] }

func (q *queue) push(t *memTask) { q.items = append(q.items, t) }

func (q *queue) pop() *memTask {
	t := q.items[q.first]
	q.items[q.first] = nil
	q.first++
	if q.first > 1024 && q.first*2 > len(q.items) {
		q.items = append([]*memTask(nil), q.items[q.first:]...)
		q.first = 0
	}
	return t
}
