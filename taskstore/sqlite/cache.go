package sqlite

import (
	"sync"
	"sync/atomic"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// row is what a commit needs to know of a task.
type row struct {
	tid       int64
	contextID string
	head      taskstore.Head
	lease     taskstore.Lease
	statusMS  int64
	keep      bool  // Record.Keep of the status
	trimmed   int64 // the log begins after this generation
	bytes     int64 // size of the log
	snapBytes int64 // size of the log at the last snapshot
	snapSize  int64 // size of that snapshot
}

// foldedSize is about how large the task is when it is folded.
func (r *row) foldedSize() int64 { return r.snapSize + r.bytes - r.snapBytes }

// task is a task in memory. The writer alone changes it, under the store's lock, after a commit, save for the
// state of one that has ended, which a reader may bring; others read it under that lock.
type task struct {
	row
	key taskstore.Key
	// state is the log folded up to the head; nil: it is not in memory.
	state *taskstore.State
	// recent are the newest records, up to the head, with the bytes that their followers share.
	recent      []taskstore.Record
	recentBytes int64

	touched atomic.Bool
	slot    int   // in cache.all
	size    int64 // as the cache counts it
}

// The most that is kept of one task's newest records; half of it stays when it is reached.
const (
	maxRecent      = 1024
	maxRecentBytes = 1 << 20
)

// remember appends the newest records.
func (t *task) remember(records []taskstore.Record) {
	t.recent = append(t.recent, records...)
	for i := range records {
		t.recentBytes += recordSize(&records[i])
	}
	if len(t.recent) <= maxRecent && t.recentBytes <= maxRecentBytes {
		return
	}
	i := 0
	for len(t.recent)-i > maxRecent/2 || t.recentBytes > maxRecentBytes/2 {
		t.recentBytes -= recordSize(&t.recent[i])
		i++
	}
	t.recent = append([]taskstore.Record(nil), t.recent[i:]...) // readers may still have the old slice
}

func recordSize(r *taskstore.Record) int64 { return int64(len(r.JSON()) + len(r.Request)) }

// since returns records after a generation, at most limit, and whether memory has them.
func (t *task) since(after int64, limit int) ([]taskstore.Record, bool) {
	if after >= t.head.Generation {
		return nil, true
	}
	if len(t.recent) == 0 || after+1 < t.recent[0].Generation {
		return nil, false
	}
	from := after + 1 - t.recent[0].Generation
	to := min(from+int64(limit), int64(len(t.recent)))
	return t.recent[from:to:to], true
}

// at returns the task folded up to a generation before its head, if memory has the whole log.
func (t *task) at(generation int64) *taskstore.State {
	if len(t.recent) == 0 || t.recent[0].Generation != 1 {
		return nil
	}
	st := new(taskstore.State)
	for _, r := range t.recent[:generation] {
		st.Apply(r)
	}
	return st
}

// cache holds tasks in memory up to a size. It forgets those that were not asked for lately.
type cache struct {
	byID  map[string]*task
	all   []*task
	hand  int // next to be looked at for removal
	size  int64
	limit int64 // bytes, of JSON: about half of what they take
}

func newCache(limit int64) *cache { return &cache{byID: map[string]*task{}, limit: limit} }

// get finds a task.
func (c *cache) get(id string) *task {
	t := c.byID[id]
	if t != nil && !t.touched.Load() {
		t.touched.Store(true)
	}
	return t
}

// put holds a task that is new or has changed.
func (c *cache) put(t *task) {
	if old := c.byID[t.key.Task]; old != t {
		if old != nil {
			c.drop(old)
		}
		t.slot = len(c.all)
		c.all = append(c.all, t)
		c.byID[t.key.Task] = t
		t.size = 0
	}
	c.size -= t.size
	t.size = 512 + t.recentBytes
	if t.state != nil {
		t.size += t.foldedSize()
	}
	c.size += t.size
}

// drop forgets a task.
func (c *cache) drop(t *task) {
	if c.byID[t.key.Task] != t {
		return
	}
	delete(c.byID, t.key.Task)
	last := len(c.all) - 1
	c.all[t.slot] = c.all[last]
	c.all[t.slot].slot = t.slot
	c.all[last] = nil
	c.all = c.all[:last]
	c.size -= t.size
}

// shrink forgets tasks until the rest fits. It goes around: who was asked for since the last time is spared
// once.
func (c *cache) shrink() {
	for c.size > c.limit && len(c.all) > 0 {
		if c.hand >= len(c.all) {
			c.hand = 0
		}
		if t := c.all[c.hand]; t.touched.Swap(false) {
			c.hand++
		} else {
			c.drop(t)
		}
	}
}

// fronts are tasks that have ended, without their artifacts, as lists show them. They never change.
type fronts struct {
	mu    sync.RWMutex
	byTID map[int64]*taskstore.State
	size  int64
	limit int64 // bytes of JSON
}

// get finds a task with the status of a record: a list that is of an earlier moment wants an earlier one.
func (f *fronts) get(tid, statusGeneration int64) *a2a.Task {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if st := f.byTID[tid]; st != nil && st.StatusGeneration == statusGeneration {
		return &st.Task
	}
	return nil
}

// put holds a task of a size. When there is too much, all go: the next lists bring back what is looked at.
func (f *fronts) put(tid int64, st *taskstore.State, size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byTID == nil || f.size > f.limit {
		f.byTID, f.size = map[int64]*taskstore.State{}, 0
	}
	f.byTID[tid] = st
	f.size += size + 256
}
