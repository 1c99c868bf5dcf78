package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/taskstore"
)

// CancelTask implements a2a.Service. The wish is recorded before the run hears of it.
func (s *Server) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	c, err := s.begin(ctx, req.Tenant)
	if err != nil {
		return nil, err
	}
	if req.ID == "" {
		return nil, a2a.InvalidField("id", "required")
	}
	key := c.key(req.ID)
	for {
		snap, err := s.store.Task(ctx, key, 0)
		if errors.Is(err, taskstore.ErrNotFound) {
			return nil, notFound(req.ID)
		}
		if err != nil {
			return nil, internal(err)
		}
		state := snap.Task.Status.State
		switch {
		case state == a2a.TaskStateCanceled:
			return c.view(snap.Task, snap.Generation, -1), nil
		case state.Terminal():
			return nil, notCancelable(req.ID, fmt.Sprintf("the task has already ended (%s)", state))
		case snap.Node == "":
			t, err := s.cancelIdle(ctx, key, snap)
			if t != nil || err != nil {
				return c.canceled(t), err
			}
		default:
			t, err := s.cancelRun(ctx, key, snap)
			if t != nil || err != nil {
				return c.canceled(t), err
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// canceled returns the task that a cancel ended, nil if there is none.
func (c *call) canceled(t *turn) *a2a.Task {
	if t == nil {
		return nil
	}
	return c.view(t.task, t.last, -1)
}

func notCancelable(id, why string) error {
	return &a2a.Error{Code: a2a.ErrTaskNotCancelable, Message: why, Metadata: map[string]string{"taskId": id}}
}

// cancelIdle cancels a task that no run is at work on. It returns nothing if the task has moved on.
func (s *Server) cancelIdle(ctx context.Context, key taskstore.Key, snap taskstore.Snapshot) (*turn, error) {
	r := run{key: key, contextID: snap.Task.ContextID}
	receipt, err := s.store.Commit(context.WithoutCancel(ctx), taskstore.Change{
		Key: key, IfStatus: snap.StatusGeneration,
		Records: []taskstore.Record{r.status(a2a.TaskStateCanceled, nil, false)},
	})
	if isVerdict(err) {
		return nil, nil
	}
	if err != nil {
		return nil, internal(err)
	}
	t, err := s.joined(ctx, key, receipt.Generation)
	if err != nil {
		return nil, err
	}
	if a, ok := s.cfg.Agent.(agent.Canceler); ok {
		go func() {
			defer func() {
				if p := recover(); p != nil {
					s.log.Error("Canceled panicked", "task", key.Task, "panic", p)
				}
			}()
			a.Canceled(s.ctx, t.task)
		}()
	}
	return t, nil
}

// cancelRun asks the run that holds the task to end, and waits for the end. It returns nothing if the task
// has moved on.
func (s *Server) cancelRun(ctx context.Context, key taskstore.Key, snap taskstore.Snapshot) (*turn, error) {
	_, err := s.store.Commit(context.WithoutCancel(ctx), taskstore.Change{Key: key, Latch: true})
	switch {
	case errors.Is(err, taskstore.ErrCommitted):
		return nil, notCancelable(key.Task, "the task is past the point where it can be canceled")
	case isVerdict(err):
		return nil, nil
	case err != nil:
		return nil, internal(err)
	}
	for _, r := range s.running(key.Task) {
		r.stop()
	}
	for rec, err := range s.follow.Follow(ctx, key, snap.Generation) {
		if errors.Is(err, taskstore.ErrTrimmed) {
			return nil, nil
		}
		if err != nil {
			return nil, internal(err)
		}
		if st, ok := rec.Event.(*a2a.TaskStatusUpdateEvent); ok && st.Status.State.Terminal() {
			if st.Status.State != a2a.TaskStateCanceled {
				return nil, nil // it ended before the wish was recorded
			}
			return s.joined(ctx, key, rec.Generation)
		}
	}
	return nil, nil
}

// stop tells the run that it was canceled, and records CANCELED when the grace is over. Once is enough.
func (r *run) stop() {
	if r.ctx.Err() != nil {
		return
	}
	r.cancel(agent.ErrCanceled)
	time.AfterFunc(r.s.cfg.Times.CancelGrace, func() { r.finish(agent.ErrCanceled) })
}
