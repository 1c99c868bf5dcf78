package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// The most that shares a transaction: changes, and bytes of theirs, so that a small one does not wait long for
// large ones.
const (
	maxBatch      = 512
	maxBatchBytes = 8 << 20
)

// request is a change, or a step of Expire, on its way through the queue.
type request struct {
	change  taskstore.Change // its records are those of written, so that they get their numbers
	written []taskcodec.Written
	values  []byte // JSON; nil: no values
	config  []byte // of the webhook, JSON; nil: no webhook
	size    int64

	retention *taskstore.Retention // nil: it is a change

	receipt taskstore.Receipt
	expired taskstore.Expired
	err     error
	done    chan struct{}
}

// refuse makes err the answer.
func (r *request) refuse(err error) {
	r.receipt, r.expired, r.err = taskstore.Receipt{}, taskstore.Expired{}, err
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
		closed := q.closed
		n := share(q.waiting)
		batch := q.waiting[:n:n]
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

// share returns how many of the requests, from the first on, share a transaction. A step of Expire has its own.
func share(waiting []*request) int {
	size := int64(0)
	for i, r := range waiting {
		if r.retention != nil {
			return max(i, 1)
		}
		if size += r.size; i == maxBatch || i > 0 && size > maxBatchBytes {
			return i
		}
	}
	return len(waiting)
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
	r, err := newRequest(c)
	if err != nil {
		return taskstore.Receipt{}, err
	}
	s.do(ctx, r)
	return r.receipt, r.err
}

// newRequest does the part of the work that needs no writer.
func newRequest(c taskstore.Change) (*request, error) {
	r := &request{change: c, done: make(chan struct{}, 1)}
	var err error
	if r.written, err = encode(c.Records); err != nil {
		return nil, err
	}
	for i := range r.written {
		r.size += r.written[i].Size() + int64(len(r.written[i].Request))
	}
	if c.Values != nil {
		if r.values, err = json.Marshal(c.Values); err != nil {
			return nil, err
		}
	}
	if c.Webhook != nil {
		r.config = c.Webhook.Config.AppendJSON(nil)
	}
	return r, nil
}

// do hands the request to the writer and waits for its answer.
func (s *Store) do(ctx context.Context, r *request) {
	if ctx.Err() != nil {
		r.refuse(context.Cause(ctx))
		return
	}
	if !s.queue.put(r) {
		r.refuse(&trouble{s.path, ErrClosed, nil})
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
		if requests == nil {
			return
		}
		s.commit(requests)
		runtime.Gosched() // whoever got an answer may have the next change ready
	}
}

// commit carries out the requests in one transaction and answers.
func (s *Store) commit(requests []*request) {
	b := &batch{s: s, w: s.w, tasks: map[string]*pending{}, scopes: map[taskstore.Scope]*scope{}, totals: map[total]int64{}, hours: map[total]int64{}, minutes: map[total]int64{}}
	err := s.inPlace()
	if err == nil {
		err = b.run(requests)
	}
	if err != nil {
		err = fault(s.path, err)
		if !s.failing { // said once, however long it lasts
			s.opts.Log.Error("the store cannot write", "err", err)
		}
		s.failing = true
		b.undo()
		for _, r := range requests {
			r.refuse(err)
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

// inPlaceEvery is how often the writer looks whether its files are still where they were.
const inPlaceEvery = time.Second

// inPlace returns an error if the file at the store's path, or its lock, is not the one that was opened: what is written
// then goes where nobody finds it, or another host writes too.
func (s *Store) inPlace() error {
	if s.looked.IsZero() || time.Since(s.looked) >= inPlaceEvery || s.misplaced != nil {
		s.looked = time.Now()
		s.misplaced = s.place.check(s.path)
	}
	return s.misplaced
}

// place is what a store's files were when it opened them.
type place struct{ database, lock os.FileInfo }

func placeOf(path string, lock *os.File) (p place, err error) {
	if p.database, err = os.Stat(path); err == nil {
		p.lock, err = lock.Stat()
	}
	return p, err
}

func (p place) check(path string) error {
	for name, was := range map[string]os.FileInfo{path: p.database, path + ".lock": p.lock} {
		is, err := os.Stat(name)
		if err == nil && !os.SameFile(is, was) {
			err = fmt.Errorf("%s is another file than the one that was opened", name)
		}
		if err == nil && name == path && is.Size() < int64(len(magic)) {
			err = fmt.Errorf("%s was cut off", name)
		}
		if err != nil {
			return &trouble{path, ErrGone, err}
		}
	}
	return nil
}
