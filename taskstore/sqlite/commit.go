package sqlite

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"

	"github.com/parley-a2a/parley/taskstore"
)

// maxBatch is how many changes share a transaction.
const maxBatch = 512

// request is a change on its way through the queue.
type request struct {
	change  taskstore.Change // its records are those of written, so that they get their numbers
	written []written
	values  []byte // JSON; nil: no values

	receipt taskstore.Receipt
	err     error
	done    chan struct{}
}

// queue holds the changes that the writer has not taken yet.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  bool
	wake    chan struct{} // holds one hint for the writer
}

// put reports whether the queue took the request: not after close.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, r)
	q.hint()
	return true
}

func (q *queue) hint() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// withdraw reports whether the request was still waiting, and is no longer.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiting {
		if other == r {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take waits for requests and returns them, nil after the queue was closed and is empty.
func (q *queue) take() []*request {
	for {
		q.mu.Lock()
		batch, closed := q.waiting, q.closed
		if len(batch) > maxBatch {
			batch = batch[:maxBatch:maxBatch]
		}
		if q.waiting = q.waiting[len(batch):]; len(q.waiting) == 0 {
			q.waiting = nil
		}
		q.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch
		}
		<-q.wake
	}
}

// close reports whether it is the first to close the queue.
func (q *queue) close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.closed = true
	q.hint()
	return true
}

// Commit implements [taskstore.Store]. The context bounds the waiting for the writer to take the change; once
// it is taken, the answer is that of the disk.
func (s *Store) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	r := &request{change: c, done: make(chan struct{}, 1)}
	var err error
	if r.written, err = encode(c.Records); err != nil {
		return taskstore.Receipt{}, err
	}
	if c.Values != nil {
		if r.values, err = json.Marshal(c.Values); err != nil {
			return taskstore.Receipt{}, err
		}
	}
	if ctx.Err() != nil {
		return taskstore.Receipt{}, context.Cause(ctx)
	}
	if !s.queue.put(r) {
		return taskstore.Receipt{}, &trouble{s.path, ErrClosed, nil}
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if s.queue.withdraw(r) {
			return taskstore.Receipt{}, context.Cause(ctx)
		}
		<-r.done
	}
	return r.receipt, r.err
}

// write is the writer.
func (s *Store) write() {
	defer close(s.ended)
	for {
		requests := s.queue.take()
		if requests == nil {
			return
		}
		s.commit(requests)
		runtime.Gosched() // whoever got an answer may have the next change ready
	}
}

// commit carries out the changes in one transaction and answers.
func (s *Store) commit(requests []*request) {
	b := &batch{s: s, w: s.w, tasks: map[string]*pending{}, scopes: map[taskstore.Scope]*scope{}, totals: map[total]int64{}, hours: map[total]int64{}}
	if err := b.run(requests); err != nil {
		err = fault(s.path, err)
		if !s.failing { // said once, however long it lasts
			s.opts.Log.Error("the store cannot write", "err", err)
		}
		s.failing = true
		b.undo()
		for _, r := range requests {
			r.receipt, r.err = taskstore.Receipt{}, err
			r.done <- struct{}{}
		}
		return
	}
	if s.failing && b.began {
		s.opts.Log.Info("the store can write again", "path", s.path)
		s.failing = false
	}
	b.publish()
	for _, r := range requests {
		r.done <- struct{}{}
	}
	s.notifyMu.RLock()
	defer s.notifyMu.RUnlock()
	for _, p := range b.order {
		if len(p.records) > 0 {
			for _, f := range s.notify {
				f(p.t.key.Task)
			}
		}
	}
}
