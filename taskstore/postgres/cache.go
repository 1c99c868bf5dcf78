package postgres

import (
	"sync"
	"time"

	"github.com/parley-a2a/parley/taskstore"
)

// cached is a task in memory. What it has was committed, and of a log that only grows: it is never wrong, but another
// node may have more. Whoever wants the task as it is now asks the database where that is first.
type cached struct {
	tid  int64
	key  taskstore.Key
	head int64 // the last record that this process knows of
	// state is the log folded up to head; nil: it is not in memory.
	state *taskstore.State
	// recent are the newest records, up to head, with the bytes that their followers share.
	recent      []taskstore.Record
	recentBytes int64
	folded      int64 // about how large state is
	epoch       int64
	ended       time.Time // when this process ended the task; zero: it has not
	size        int64     // as the cache counts it
}

// The most that is kept of one task's newest records; half of it stays when it is reached.
const (
	maxRecent      = 1024
	maxRecentBytes = 1 << 20
)

// cache holds tasks in memory up to a size.
type cache struct {
	mu    sync.RWMutex
	byID  map[string]*cached
	size  int64
	limit int64 // bytes, of JSON: about half of what they take
}

func newCache(limit int64) *cache { return &cache{byID: map[string]*cached{}, limit: limit} }

// put brings in what was committed of a task.
func (c *cache) put(p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.byID[p.key.Task]
	if t == nil || t.tid != p.row.tid {
		c.drop(p.key.Task)
		t = &cached{tid: p.row.tid, key: p.key, head: p.was.head.Generation}
		c.byID[p.key.Task] = t
	}
	if t.head != p.was.head.Generation { // another node wrote between
		t.head, t.state, t.recent, t.recentBytes = p.was.head.Generation, nil, nil, 0
	}
	switch {
	case p.state != nil && p.state.Generation == p.row.head.Generation:
		t.state = p.state
	case t.state != nil:
		for _, r := range p.records {
			t.state.Apply(r)
		}
	}
	t.head, t.epoch = p.row.head.Generation, p.row.lease.Epoch
	if len(p.records) > 0 && p.row.head.State.Terminal() {
		t.ended = time.Now()
	}
	t.folded = p.row.snapSize + p.row.bytes - p.row.snapBytes
	t.remember(p.records)
	c.weigh(t)
	c.shrink(p.key.Task)
}

// putState brings in a task that was read.
func (c *cache) putState(key taskstore.Key, r *row, st *taskstore.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.byID[key.Task]
	if t != nil && t.tid == r.tid && t.head >= st.Generation { // the writer was faster, or it is known
		if t.head == st.Generation && t.state == nil {
			t.state, t.folded = st, r.snapSize+r.bytes-r.snapBytes
			c.weigh(t)
			c.shrink(key.Task)
		}
		return
	}
	c.drop(key.Task)
	t = &cached{tid: r.tid, key: key, head: st.Generation, state: st, folded: r.snapSize + r.bytes - r.snapBytes}
	c.byID[key.Task] = t
	c.weigh(t)
	c.shrink(key.Task)
}

func (c *cache) weigh(t *cached) {
	c.size -= t.size
	t.size = 512 + t.recentBytes
	if t.state != nil {
		t.size += t.folded
	}
	c.size += t.size
}

// drop forgets a task.
func (c *cache) drop(id string) {
	if t := c.byID[id]; t != nil {
		c.size -= t.size
		delete(c.byID, id)
	}
}

// shrink forgets tasks, whichever come, until the rest fits; the one just used comes last.
func (c *cache) shrink(last string) {
	for id := range c.byID {
		if c.size <= c.limit {
			return
		}
		if id != last {
			c.drop(id)
		}
	}
	if c.size > c.limit {
		c.drop(last)
	}
}

// forget drops tasks that were deleted, or whose log was.
func (c *cache) forget(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.drop(id)
	}
}

// fold returns a copy of a task folded up to its record of a generation, if memory has exactly that.
func (c *cache) fold(tid int64, id string, generation int64) *taskstore.State {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.byID[id]
	if t == nil || t.tid != tid || t.state == nil || t.state.Generation != generation {
		return nil
	}
	st := *t.state
	st.Task = *st.Task.Snapshot()
	return &st
}

// justEnded is how long the word of memory is taken that a task has ended: nothing changes it but Expire.
const justEnded = time.Minute

// end returns a task that has ended, without asking the database, if this process has just ended it. at is the record
// as of which it is wanted, or 0.
func (c *cache) end(key taskstore.Key, at int64) (snap taskstore.Snapshot, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.byID[key.Task]
	if t == nil || t.key != key || t.state == nil || at > 0 && at < t.head || time.Since(t.ended) > justEnded {
		return snap, false
	}
	return taskstore.Snapshot{
		Task: t.state.Task.Snapshot(), Generation: t.head, StatusGeneration: t.state.StatusGeneration, Epoch: t.epoch,
	}, true
}

// has reports whether memory has a task folded.
func (c *cache) has(id string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.byID[id]
	return t != nil && t.state != nil
}

// since returns records after a generation, at most limit, if memory has any.
func (c *cache) since(key taskstore.Key, after int64, limit int) []taskstore.Record {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.byID[key.Task]
	if t == nil || t.key != key || len(t.recent) == 0 || after+1 < t.recent[0].Generation || after >= t.head {
		return nil
	}
	from := after + 1 - t.recent[0].Generation
	to := min(from+int64(limit), int64(len(t.recent)))
	return t.recent[from:to:to]
}

// at returns the task folded up to a record before its head, if memory has the whole log up to there.
func (c *cache) at(tid int64, id string, generation int64) *taskstore.State {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.byID[id]
	if t == nil || t.tid != tid || len(t.recent) == 0 || t.recent[0].Generation != 1 || t.head < generation {
		return nil
	}
	st := new(taskstore.State)
	for _, r := range t.recent[:generation] {
		st.Apply(r)
	}
	return st
}

// remember appends the newest records.
func (t *cached) remember(records []taskstore.Record) {
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
