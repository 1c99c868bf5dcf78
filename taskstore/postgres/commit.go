package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"

	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// The most that shares a transaction: changes, and bytes of theirs, so that a small one does not wait long for
// large ones.
const (
	maxBatch      = 512
	maxBatchBytes = 8 << 20
)

// maxRecord is the size in bytes beyond which a record is refused. PostgreSQL's own limit is 1 GB for a row.
const maxRecord = 256 << 20

// request is a change on its way through the queue.
type request struct {
	change  taskstore.Change
	written []taskcodec.Written
	values  []byte // JSON; nil: no values
	size    int64

	receipt taskstore.Receipt
	err     error
	done    chan struct{}
}

func (r *request) refuse(err error) { r.receipt, r.err = taskstore.Receipt{}, err }

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

// take waits for requests and returns those that share a transaction, nil after the queue was closed and is empty.
func (q *queue) take() []*request {
	for {
		q.mu.Lock()
		closed := q.closed
		n, size := 0, int64(0)
		for n < min(len(q.waiting), maxBatch) {
			if size += q.waiting[n].size; n > 0 && size > maxBatchBytes {
				break
			}
			n++
		}
		batch := q.waiting[:n:n]
		if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
			q.waiting = nil
		}
		q.mu.Unlock()
		if n > 0 || closed {
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

// Commit implements [taskstore.Store]. The context bounds the waiting for the writer to take the change; once it is
// taken, the answer is that of the database. While the database is away a change is tried for 8 seconds; it fails
// with ErrUnreachable, and then did not happen, or with ErrUnknown.
func (s *Store) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	r := &request{change: c, done: make(chan struct{}, 1)}
	var err error
	if r.written, err = taskcodec.Encode(c.Records, maxRecord); err != nil {
		return taskstore.Receipt{}, fmt.Errorf("taskstore/postgres: %w", err)
	}
	for i := range r.written {
		r.size += r.written[i].Size() + int64(len(r.written[i].Request))
	}
	if c.Values != nil {
		if r.values, err = json.Marshal(c.Values); err != nil {
			return taskstore.Receipt{}, err
		}
	}
	s.do(ctx, r)
	return r.receipt, r.err
}

// do hands the request to the writer and waits for its answer.
func (s *Store) do(ctx context.Context, r *request) {
	if ctx.Err() != nil {
		r.refuse(context.Cause(ctx))
		return
	}
	if !s.queue.put(r) {
		r.refuse(&trouble{s.where, ErrClosed, nil})
		return
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if s.queue.withdraw(r) {
			r.refuse(context.Cause(ctx))
			return
		}
		<-r.done
	}
}

// write is the writer.
func (s *Store) write() {
	defer close(s.ended)
	for {
		requests := s.queue.take()
		if len(requests) == 0 {
			return
		}
		s.commit(requests)
		runtime.Gosched() // whoever got an answer may have the next change ready
	}
}

// commit carries out the requests in one transaction and answers. While the database is away only the first of them
// are tried for long.
func (s *Store) commit(requests []*request) {
	var b *batch
	err := s.try(context.Background(), s.failing, func(ctx context.Context) error {
		b = newBatch(s)
		return b.run(ctx, requests)
	})
	if err != nil {
		if !s.failing { // said once, however long it lasts
			s.opts.Log.Error("the store cannot write", "err", err)
		}
		s.failing = true
		for _, r := range requests {
			r.refuse(err)
			r.done <- struct{}{}
		}
		return
	}
	if s.failing {
		s.opts.Log.Info("the store can write again", "database", s.where)
		s.failing = false
	}
	b.publish()
	for _, r := range requests {
		r.done <- struct{}{}
	}
	for _, p := range b.order {
		if len(p.records) > 0 || p.row.lease.Latched != p.was.lease.Latched {
			s.hints.add(p.key.Task)
			s.tell(p.key.Task)
		}
	}
}
