package taskstore

import (
	"context"
	"iter"
	"sync"
	"time"
)

// batch is how many records a follower reads at once.
const batch = 256

// Follower follows the logs of one store for many readers. It has one hook in the store and, while somebody
// follows, one timer that asks the store once a second whether a hint was lost.
type Follower struct {
	store Store
	every time.Duration
	stop  func()

	mu      sync.Mutex
	readers map[string]*reader // by task id: the first of those that follow it
	broken  map[string]error   // by task id
	timer   *time.Timer
	closed  error // set: every reader ends with it
}

type reader struct {
	key  Key
	next *reader       // of the same task; for Follower
	wake chan struct{} // holds one hint

	mu   sync.Mutex
	seen int64 // generation up to which records were read
	err  error // ends the reader
}

// NewFollower returns a follower of the store's logs that looks for lost hints every so often.
func NewFollower(s Store, every time.Duration) *Follower {
	f := &Follower{store: s, every: every, readers: map[string]*reader{}}
	f.stop = s.Notify(f.hint)
	return f
}

// Close ends every reader, now and later, with err.
func (f *Follower) Close(err error) {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = err
	if f.timer != nil {
		f.timer.Stop()
	}
	for task := range f.readers {
		for r := range f.of(task) {
			r.end(err)
		}
	}
}

// Break ends those who follow the task with err, now and until Break(task, nil): its log cannot be written,
// and nobody shall wait for that.
func (f *Follower) Break(task string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.broken, task)
		return
	}
	if f.broken == nil {
		f.broken = map[string]error{}
	}
	f.broken[task] = err
	for r := range f.of(task) {
		r.end(err)
	}
}

func (f *Follower) hint(task string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.of(task) {
		r.nudge()
	}
}

// of yields the readers of a task. The caller holds f.mu.
func (f *Follower) of(task string) iter.Seq[*reader] {
	return func(yield func(*reader) bool) {
		for r := f.readers[task]; r != nil && yield(r); r = r.next {
		}
	}
}

func (r *reader) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reader) end(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.nudge()
}

func (f *Follower) add(key Key, after int64) *reader {
	r := &reader{key: key, wake: make(chan struct{}, 1), seen: after}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		r.err = f.closed
		return r
	}
	r.err = f.broken[key.Task]
	r.next = f.readers[key.Task]
	f.readers[key.Task] = r
	if f.timer == nil {
		f.timer = time.AfterFunc(f.every, f.poll)
	}
	return r
}

func (f *Follower) remove(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.readers[r.key.Task]
	switch {
	case first != r:
		for before := range f.of(r.key.Task) {
			if before.next == r {
				before.next = r.next
				break
			}
		}
	case r.next == nil:
		delete(f.readers, r.key.Task)
	default:
		f.readers[r.key.Task] = r.next
	}
}

// poll finds the tasks whose hint was lost, with one question for all readers.
func (f *Follower) poll() {
	f.mu.Lock()
	if f.closed != nil || len(f.readers) == 0 {
		f.timer = nil
		f.mu.Unlock()
		return
	}
	keys := make([]Key, 0, len(f.readers))
	for _, r := range f.readers {
		keys = append(keys, r.key)
	}
	f.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	heads, err := f.store.Heads(ctx, keys)
	cancel()

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		return
	}
	for i := range heads {
		if err != nil {
			break
		}
		for r := range f.of(keys[i].Task) {
			r.mu.Lock()
			behind := r.seen < heads[i]
			r.mu.Unlock()
			if behind {
				r.nudge()
			}
		}
	}
	f.timer = time.AfterFunc(f.every, f.poll)
}

// Follow yields the records of a task's log with generations after+1, after+2, …, each once and without a
// gap, as they are committed, until the caller leaves the loop, ctx ends, or the store fails. Every record
// whose successor is in hand has More set. A reader that is slow costs nobody anything: it reads the stored
// log when it comes.
func (f *Follower) Follow(ctx context.Context, key Key, after int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := f.add(key, after)
		defer f.remove(r)
		for {
			ended := r.ended() // before the log is read: what was written until then is still told
			records, err := f.store.Entries(ctx, key, after, batch)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for i, rec := range records {
				rec.More = i < len(records)-1
				if !yield(rec, nil) {
					return
				}
			}
			after += int64(len(records))
			if len(records) == batch {
				continue
			}
			if err := r.wait(ctx, after, ended); err != nil {
				yield(Record{}, err)
				return
			}
		}
	}
}

func (r *reader) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *reader) wait(ctx context.Context, seen int64, ended error) error {
	r.mu.Lock()
	r.seen = seen
	r.mu.Unlock()
	if ended != nil {
		return ended
	}
	select {
	case <-r.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
