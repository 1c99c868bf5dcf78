package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/taskstore"
)

// interrupted is what a task says that the end of a process cut short.
const interrupted = "The task was interrupted by a restart of the host. Send the message again."

// maxAttempts is how many runs a turn gets, so that a task which ends the process does not end every process.
const maxAttempts = 3

// request is what is kept of a message for a run that starts later, or again: see taskstore.Record.Request.
type request struct {
	Attempt    int             `json:"attempt,omitempty"`
	Caller     a2a.Caller      `json:"caller"`
	Extensions []string        `json:"extensions,omitempty"`
	Send       json.RawMessage `json:"send"` // a SendMessageRequest, without the webhook, which has secrets
}

// restartable reports whether turns that were cut short run again.
func (s *Server) restartable() bool {
	a, ok := s.cfg.Agent.(agent.Restartable)
	return ok && a.Restartable()
}

// keepRequest returns what a later run needs of a message.
func keepRequest(ar *agent.Request) []byte {
	cfg := *ar.Configuration
	cfg.TaskPushNotificationConfig = nil
	send := a2a.SendMessageRequest{Message: ar.Message, Configuration: &cfg, Metadata: ar.Metadata}
	b, err := json.Marshal(request{Attempt: ar.Attempt, Caller: ar.Caller, Extensions: ar.Extensions, Send: send.AppendJSON(nil)})
	if err != nil { // nothing in it can fail
		panic(err)
	}
	return b
}

// loadRequest makes the agent's request of one that was kept.
func (s *Server) loadRequest(ctx context.Context, key taskstore.Key, kept []byte) (*agent.Request, error) {
	var r request
	var send a2a.SendMessageRequest
	if err := json.Unmarshal(kept, &r); err != nil {
		return nil, fmt.Errorf("server: the request of task %s cannot be read: %w", key.Task, err)
	}
	if err := send.UnmarshalJSON(r.Send); err != nil {
		return nil, fmt.Errorf("server: the request of task %s cannot be read: %w", key.Task, err)
	}
	c := call{info: &a2a.CallInfo{Activated: r.Extensions}, caller: r.Caller, scope: key.Scope}
	ar, err := s.request(ctx, &c, &send, send.Message)
	if err != nil {
		return nil, err
	}
	ar.Attempt = max(r.Attempt, 1)
	ar.Log = s.taskLog(key.Task, send.Message.ContextID)
	return ar, nil
}

// recover settles what an earlier process left behind, or another node whose process is gone. A task that never
// started waits for its turn again. One whose run was cut is CANCELED if that was asked for, run again if the agent is
// restartable, and otherwise FAILED. What is parked stays so. What the store fails is logged, and tried again by the
// sweeper.
func (s *Server) recover(ctx context.Context) error {
	const many = 256
	node, n := s.nodeName(), 0
	if node == "" {
		return nil
	}
	for after := ""; ; {
		keys, err := s.store.Unsettled(ctx, s.cfg.Name, node, after, many)
		if err != nil {
			return fmt.Errorf("server: look for what an earlier process left: %w", err)
		}
		n += s.settleAll(ctx, node, keys)
		if len(keys) < many {
			break
		}
		after = keys[many-1].Task
	}
	if n > 0 {
		s.log.Info("settled what another process left", "tasks", n)
	}
	return nil
}

// settleAll settles tasks, those of runs that were cut all at once, so that they share commits, and those that never
// started in their order. It returns how many it settled.
func (s *Server) settleAll(ctx context.Context, node string, keys []taskstore.Key) int {
	var settled atomic.Int64
	settle := func(key taskstore.Key, f func() error) {
		if err := f(); err != nil {
			if s.tells(err) {
				s.log.Error("cannot settle a task that another process left", "task", key.Task, "err", err)
			}
			return
		}
		settled.Add(1)
	}
	var cut sync.WaitGroup
	for _, key := range keys {
		if s.running(key.Task) != nil || s.closes() {
			continue
		}
		snap, err := s.store.Task(ctx, key, 0)
		switch {
		case errors.Is(err, taskstore.ErrNotFound):
		case err != nil:
			settle(key, func() error { return err })
		case snap.Node != "" && snap.Node != node:
			cut.Go(func() { settle(key, func() error { return s.settleCut(ctx, node, key, snap) }) })
		case snap.Node == "" && snap.Task.Status.State == a2a.TaskStateSubmitted:
			settle(key, func() error { return s.settleWaiting(ctx, key) })
		}
	}
	cut.Wait()
	return int(settled.Load())
}

// settleWaiting puts a task that never started in the queue for its turn.
func (s *Server) settleWaiting(ctx context.Context, key taskstore.Key) error {
	ar, snap, err := s.cutTurn(ctx, key)
	if err != nil {
		return err
	}
	if ar == nil { // a store that was written by something else
		r := &run{key: key, contextID: snap.Task.ContextID}
		_, err := s.store.Commit(ctx, taskstore.Change{Key: key, IfStatus: snap.StatusGeneration, Records: []taskstore.Record{r.failed(interrupted)}})
		return err
	}
	r := s.newRun(key, snap.Task.ContextID, true, ar)
	r.req.Task = snap.Task
	if err := s.register(r, false); err != nil {
		return err
	}
	if s.turns.wait(r) {
		s.startWaiting(r)
	}
	return nil
}

// settleCut ends or restarts a task whose run was cut.
func (s *Server) settleCut(ctx context.Context, node string, key taskstore.Key, snap taskstore.Snapshot) error {
	r := &run{key: key, contextID: snap.Task.ContextID}
	ch := taskstore.Change{Key: key, Claim: node, Seize: snap.Node, Release: true}
	end := r.failed(interrupted)
	if !snap.Latched && s.restartable() {
		again, err := s.restart(ctx, key, ch)
		if again || err != nil {
			return err
		}
	}
	for range 2 {
		if snap.Latched {
			end = r.status(a2a.TaskStateCanceled, nil, false)
		}
		ch.Records = []taskstore.Record{end}
		_, err := s.store.Commit(ctx, ch)
		if errors.Is(err, taskstore.ErrLatched) {
			snap.Latched = true
			continue
		}
		if isVerdict(err) { // another node was faster
			return nil
		}
		return err
	}
	return nil
}

// restart runs the turn that was cut again, and reports false if it has run too often.
func (s *Server) restart(ctx context.Context, key taskstore.Key, ch taskstore.Change) (bool, error) {
	ar, snap, err := s.cutTurn(ctx, key)
	if err != nil || ar == nil || ar.Attempt >= maxAttempts {
		return false, err
	}
	ar.Attempt++
	r := s.newRun(key, snap.Task.ContextID, true, ar)
	rec := r.status(a2a.TaskStateWorking, nil, false)
	rec.Request = keepRequest(ar)
	if err := s.register(r, true); err != nil {
		return false, err
	}
	s.turns.back(key.Scope)
	ch.Claim, ch.Release, ch.Records = r.node, false, []taskstore.Record{rec}
	receipt, err := s.store.Commit(ctx, ch)
	if err != nil {
		s.failedToBegin(r, err)
		if errors.Is(err, taskstore.ErrLatched) {
			return false, nil
		}
		if isVerdict(err) {
			return true, nil
		}
		return false, err
	}
	t, err := s.joined(ctx, key, receipt.Generation)
	if err != nil {
		t = &turn{task: snap.Task}
	}
	r.req.Task = t.task
	s.start(r, receipt)
	return true, nil
}

// cutTurn returns the request of the task's last turn, nil if it was not kept.
func (s *Server) cutTurn(ctx context.Context, key taskstore.Key) (*agent.Request, taskstore.Snapshot, error) {
	snap, err := s.store.Task(ctx, key, 0)
	if err != nil {
		return nil, snap, err
	}
	var kept []byte
	for after := int64(0); ; {
		records, err := s.store.Entries(ctx, key, after, 256)
		if err != nil || len(records) == 0 {
			if kept == nil || err != nil {
				return nil, snap, err
			}
			break
		}
		for _, rec := range records {
			if rec.Request != nil {
				kept = rec.Request
			}
		}
		after += int64(len(records))
	}
	ar, err := s.loadRequest(ctx, key, kept)
	return ar, snap, err
}

// interrupt ends a run because the process ends. Where the agent is restartable the task stays as it is, for the
// process that comes next.
func (r *run) interrupt() { r.overrule(&overruled{ErrShutdown, interrupted}) }
