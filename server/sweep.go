package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Why the host ends a run.
var (
	errSilent     = errors.New("server: the run gave no sign of life")
	errUnanswered = errors.New("server: nobody answered")
)

// sweep looks now and then for runs that are silent and for tasks that nobody answers.
func (s *Server) sweep() {
	defer close(s.swept)
	every := max(min(s.cfg.Times.Silence, s.cfg.Times.Answer)/4, 10*time.Millisecond)
	tick := time.NewTicker(min(every, time.Second))
	defer tick.Stop()
	recovered, expired := time.Now(), time.Now()
	again := s.orphans()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.sweepSilent()
		s.sweepUnanswered()
		if time.Since(recovered) >= again {
			if err := s.recover(s.ctx); err != nil && s.ctx.Err() == nil {
				s.log.Error("cannot look for tasks of nodes that are gone", "err", err)
			}
			recovered, again = time.Now(), s.orphans()
		}
		if time.Since(expired) >= expireEvery && !s.expire() {
			expired = time.Now()
		}
	}
}

const (
	recoverEvery = 10 * time.Second
	expireEvery  = time.Minute
	expireStep   = 200 // tasks at once
)

// expire has the store forget one step of what is too old, and reports whether there is more.
func (s *Server) expire() bool {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	before := func(age time.Duration) time.Time {
		if age < 0 {
			return time.Time{}
		}
		return time.Now().Add(-age)
	}
	gone, err := s.store.Expire(ctx, taskstore.Retention{Tasks: before(s.cfg.Retain), Logs: before(s.cfg.Replay), Limit: expireStep})
	if err != nil {
		if s.ctx.Err() == nil {
			s.log.Error("cannot expire old tasks", "err", err)
		}
		return false
	}
	if gone.Tasks > 0 {
		s.log.Info("expired old tasks", "tasks", gone.Tasks)
	}
	return gone.More
}

// sweepSilent fails runs that neither wrote nor said that they live.
func (s *Server) sweepSilent() {
	limit := time.Now().Add(-s.cfg.Times.Silence).UnixNano()
	s.mu.Lock()
	var silent []*run
	for r := range s.allRuns() {
		if beat := r.beat.Load(); beat != 0 && beat < limit && !r.asking.Load() {
			silent = append(silent, r)
		}
	}
	s.mu.Unlock()
	for _, r := range silent {
		r.alive() // once is enough
		r.req.Log.Warn("the run gave no sign of life", "silence", s.cfg.Times.Silence)
		go r.overrule(&overruled{errSilent, fmt.Sprintf("The agent gave no sign of life for %v.", s.cfg.Times.Silence)})
	}
}

// sweepUnanswered fails interrupted tasks that nobody answered in time.
func (s *Server) sweepUnanswered() {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	keys, err := s.store.Interrupted(ctx, s.cfg.Name, time.Now().Add(-s.cfg.Times.Answer), 100)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Error("cannot look for unanswered tasks", "err", err)
		}
		return
	}
	for _, key := range keys {
		s.failUnanswered(ctx, key)
	}
}

func (s *Server) failUnanswered(ctx context.Context, key taskstore.Key) {
	snap, err := s.store.Task(ctx, key, 0)
	if err != nil || !snap.Task.Status.State.Interrupted() || time.Since(snap.Task.Status.Timestamp) < s.cfg.Times.Answer {
		return
	}
	text := fmt.Sprintf("Nobody answered within %v.", s.cfg.Times.Answer)
	if snap.Node != "" {
		for _, r := range s.running(key.Task) {
			go r.overrule(&overruled{errUnanswered, text})
		}
		return
	}
	r := run{key: key, contextID: snap.Task.ContextID}
	_, err = s.store.Commit(ctx, taskstore.Change{
		Key: key, IfStatus: snap.StatusGeneration,
		Records: []taskstore.Record{r.status(a2a.TaskStateFailed, []*a2a.Part{a2a.TextPart(text)}, true)},
	})
	if err != nil && !isVerdict(err) {
		s.log.Error("cannot fail an unanswered task", "task", key.Task, "err", err)
	}
}
