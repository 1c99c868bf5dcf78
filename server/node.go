package server

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

const (
	// latchEvery is how often a server asks which of its runs are to be canceled, hints or not.
	latchEvery = time.Second
	// latchGather is how long it waits after a hint, for others.
	latchGather = 50 * time.Millisecond
	// orphanEvery is about how often it looks for what nodes have left that are gone.
	orphanEvery = 2 * time.Second
)

// errNodeLost is why runs end whose node can no longer reach the store: another may have their tasks.
var errNodeLost = errors.New("server: this node has lost the store")

// join makes the server a node, under a new name, of a store that several processes share.
func (s *Server) join(ctx context.Context) (lost <-chan struct{}, err error) {
	node := uuid.NewString()
	if lost, err = s.nodes.Join(ctx, node); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node = node
	return lost, nil
}

// closes reports whether the server shuts down.
func (s *Server) closes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// allRuns yields all runs; the caller holds s.mu.
func (s *Server) allRuns() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for _, runs := range s.runs {
			for _, r := range runs {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// nodeName is the name under which leases are claimed, empty while the node is lost.
func (s *Server) nodeName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// attend is what a node of a shared store does besides: it cancels the runs that other nodes were asked to cancel, and
// ends all of them and joins anew when it is lost.
func (s *Server) attend(lost <-chan struct{}) {
	defer close(s.attended)
	hints := make(chan struct{}, 1)
	defer s.store.Notify(func(task string) {
		if s.running(task) != nil {
			select {
			case hints <- struct{}{}:
			default:
			}
		}
	})()
	next, hinted := time.NewTimer(latchEvery), false
	defer next.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-lost:
			s.loseRuns()
			if lost = s.rejoin(); lost == nil {
				return
			}
		case <-hints:
			if !hinted { // those that come meanwhile do not put it off
				hinted = true
				next.Reset(latchGather)
			}
			continue
		case <-next.C:
			s.stopLatched(lost)
		}
		hinted = false
		next.Reset(latchEvery)
	}
}

// loseRuns ends the runs of a node that is lost, before others may take their tasks. Nothing is claimed until the
// server has joined anew; tasks that wait for their turn keep waiting.
func (s *Server) loseRuns() {
	s.mu.Lock()
	var left []*run
	for r := range s.allRuns() {
		if r.node != "" && r.node == s.node {
			left = append(left, r)
		}
	}
	s.node = ""
	s.mu.Unlock()
	s.log.Error("this node has lost the store: its runs end", "runs", len(left))
	for _, r := range left {
		r.lost(errNodeLost)
	}
}

// rejoin joins anew as soon as the store can be reached; nil: the server ended first.
func (s *Server) rejoin() <-chan struct{} {
	for ; s.ctx.Err() == nil; pause(time.Second).wait(s.ctx) {
		lost, err := s.join(s.ctx)
		if err == nil {
			s.log.Info("this node has joined anew", "node", s.nodeName())
			return lost
		}
		s.log.Warn("cannot join anew, trying again", "err", err)
	}
	return nil
}

// stopLatched cancels the runs whose cancel another node recorded. It waits no longer than until the node is lost.
func (s *Server) stopLatched(lost <-chan struct{}) {
	node := s.nodeName()
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	keys, err := s.nodes.Latched(ctx, node)
	if err != nil && s.ctx.Err() == nil {
		s.log.Warn("cannot ask which runs are to be canceled", "err", err)
	}
	for _, key := range keys {
		for _, r := range s.running(key.Task) {
			r.stop()
		}
	}
}

// claims notes under which name a run is about to claim its task. It is false while the node is lost.
func (s *Server) claims(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.node = s.node
	return r.node != ""
}

// holds reports whether a run's node is not lost.
func (s *Server) holds(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.node != "" && r.node == s.node
}

func nodeLost() error {
	return &a2a.Error{Code: a2a.ErrUnavailable, Message: "this node has lost its store and joins anew: try again", RetryAfter: 2 * time.Second}
}

// took finds out whether a change that was to begin a run, and for which the store gave an error, happened all the same:
// then the task is the run's.
func (s *Server) took(r *run) bool {
	for p := first; s.ctx.Err() == nil; p = p.wait(s.ctx) {
		snap, err := s.store.Task(s.ctx, r.key, 0)
		switch {
		case err == nil && snap.Node == r.node && !s.another(r, snap.Epoch):
			r.req.Task = snap.Task
			r.claimed(snap.Epoch)
			return true
		case err == nil, errors.Is(err, taskstore.ErrNotFound):
			return false
		}
	}
	return false
}

// another reports whether another run of the same task on this node has the epoch.
func (s *Server) another(r *run, epoch int64) bool {
	for _, other := range s.running(r.key.Task) {
		other.mu.Lock()
		has := other.epoch
		other.mu.Unlock()
		if other != r && has == epoch {
			return true
		}
	}
	return false
}

// failedToBegin takes back a run that is registered and has a place, unless the change that was to begin it happened
// in spite of the store's error.
func (s *Server) failedToBegin(r *run, err error) {
	drop := func() {
		s.unregister(r)
		s.leave(true, r.key.Scope)
	}
	if isVerdict(err) || errors.Is(err, taskstore.ErrSent) || errors.Is(err, taskstore.ErrExists) {
		drop()
		return
	}
	go func() {
		if s.took(r) {
			s.exec(r)
		} else {
			drop()
		}
	}()
}

// orphans returns how long to wait before the next look for what nodes have left that are gone.
func (s *Server) orphans() time.Duration {
	if s.nodes == nil {
		return recoverEvery
	}
	return orphanEvery*3/4 + rand.N(orphanEvery/2) //nolint:gosec // to spread the nodes needs no secret numbers
}
