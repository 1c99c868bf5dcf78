package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// wrapping is what stands between the host and its store: what a host must live with, and the faults that the tests must
// find.
type wrapping struct {
	drop  int           // percentage of hints that are lost
	skew  time.Duration // how much the clock is ahead
	fault string
}

func (w *wrapping) around(s taskstore.Store) taskstore.Store {
	if w.skew != 0 {
		s = &skewed{s, w.skew}
	}
	if w.drop > 0 {
		s = &dropping{s, w.drop}
	}
	switch w.fault {
	case "hasty":
		s = &hasty{Store: s, pending: map[string]chan struct{}{}}
	case "deaf":
		s = newDeaf(s)
	case "unfenced":
		s = newUnfenced(s)
	}
	return s
}

// dropping loses hints.
type dropping struct {
	taskstore.Store
	percent int
}

func (d *dropping) Unwrap() taskstore.Store { return d.Store }

func (d *dropping) Notify(f func(string)) (stop func()) {
	return d.Store.Notify(func(task string) {
		if rand.IntN(100) >= d.percent { //nolint:gosec // any number will do
			f(task)
		}
	})
}

// skewed is the store as one with another clock uses it: the times that it says are those of its clock.
type skewed struct {
	taskstore.Store
	by time.Duration
}

func (s *skewed) Unwrap() taskstore.Store { return s.Store }

func (s *skewed) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	records := make([]taskstore.Record, len(c.Records))
	for i, r := range c.Records {
		switch ev := r.Event.(type) {
		case *a2a.Task:
			later := *ev
			later.Status.Timestamp = later.Status.Timestamp.Add(s.by)
			r.Entry = a2a.Entry{Event: &later}
		case *a2a.TaskStatusUpdateEvent:
			later := *ev
			later.Status.Timestamp = later.Status.Timestamp.Add(s.by)
			r.Entry = a2a.Entry{Event: &later}
		case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
		}
		records[i] = r
	}
	c.Records = records
	if c.Sent != nil {
		sent := *c.Sent
		sent.Expires = sent.Expires.Add(s.by)
		c.Sent = &sent
	}
	if d := c.Delivered; d != nil && !d.Due.IsZero() {
		later := *d
		later.Due = later.Due.Add(s.by)
		c.Delivered = &later
	}
	return s.Store.Commit(ctx, c)
}

func (s *skewed) Interrupted(ctx context.Context, agent string, t time.Time, limit int) ([]taskstore.Key, error) {
	return s.Store.Interrupted(ctx, agent, t.Add(s.by), limit)
}

func (s *skewed) Expire(ctx context.Context, r taskstore.Retention) (taskstore.Expired, error) {
	r.Tasks, r.Logs = r.Tasks.Add(s.by), r.Logs.Add(s.by)
	return s.Store.Expire(ctx, r)
}

// deaf is a fault: nobody asks whether a hint was lost.
type deaf struct {
	taskstore.Store
	taskstore.Nodes
}

func newDeaf(s taskstore.Store) *deaf {
	nodes, _ := taskstore.As[taskstore.Nodes](s)
	return &deaf{s, nodes}
}

func (d *deaf) Heads(_ context.Context, keys []taskstore.Key) ([]int64, error) {
	return make([]int64, len(keys)), nil
}

func (d *deaf) Latched(context.Context, string) ([]taskstore.Key, error) { return nil, nil }

// unfenced is a fault: who has lost its lease writes all the same, and does not hear that it has.
type unfenced struct {
	taskstore.Store
	taskstore.Nodes
}

func newUnfenced(s taskstore.Store) *unfenced {
	nodes, _ := taskstore.As[taskstore.Nodes](s)
	return &unfenced{s, nodes}
}

func (u *unfenced) Join(ctx context.Context, node string) (<-chan struct{}, error) {
	_, err := u.Nodes.Join(ctx, node)
	return nil, err
}

func (u *unfenced) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if c.Epoch != 0 {
		snap, err := u.Task(ctx, c.Key, 0)
		if err != nil {
			return taskstore.Receipt{}, err
		}
		c.Epoch = snap.Epoch
	}
	return u.Store.Commit(ctx, c)
}

// hasty is a fault: new tasks are acknowledged up to 20 ms before they are committed. Whoever asks for such a task waits
// until it is there, so that nothing else goes wrong.
type hasty struct {
	taskstore.Store

	mu      sync.Mutex
	pending map[string]chan struct{} // closed when the task is committed
}

func (s *hasty) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if !c.Create {
		s.await(c.Key.Task)
		return s.Store.Commit(ctx, c)
	}
	receipt := taskstore.Receipt{Generation: int64(len(c.Records))}
	if c.Claim != "" {
		receipt.Epoch = 1
	}
	for i, r := range c.Records {
		r.Entry = a2a.NewEntry(int64(i+1), r.Event)
		receipt.Records = append(receipt.Records, r)
	}
	done := make(chan struct{})
	s.mu.Lock()
	s.pending[c.Key.Task] = done
	s.mu.Unlock()
	go func() {
		<-time.After(rand.N(20 * time.Millisecond)) //nolint:gosec // any time will do
		_, _ = s.Store.Commit(context.WithoutCancel(ctx), c)
		s.mu.Lock()
		delete(s.pending, c.Key.Task)
		s.mu.Unlock()
		close(done)
	}()
	return receipt, nil
}

func (s *hasty) Task(ctx context.Context, key taskstore.Key, at int64) (taskstore.Snapshot, error) {
	s.await(key.Task)
	return s.Store.Task(ctx, key, at)
}

func (s *hasty) Entries(ctx context.Context, key taskstore.Key, after int64, limit int) ([]taskstore.Record, error) {
	s.await(key.Task)
	return s.Store.Entries(ctx, key, after, limit)
}

// await waits for the task to be committed, if it is one that was acknowledged before.
func (s *hasty) await(task string) {
	s.mu.Lock()
	done := s.pending[task]
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}
