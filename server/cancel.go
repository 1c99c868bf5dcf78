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
			return snap.Task, nil
		case state.Terminal():
			return nil, notCancelable(req.ID, fmt.Sprintf("the task has already ended (%s)", state))
		case snap.Node == "":
			task, err := s.cancelIdle(ctx, key, snap)
			if task != nil || err != nil {
				return task, err
			}
		default:
			task, err := s.cancelRun(ctx, key, snap)
			if task != nil || err != nil {
				return task, err
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func notCancelable(id, why string) error {
	return &a2a.Error{Code: a2a.ErrTaskNotCancelable, Message: why, Metadata: map[string]string{"taskId": id}}
}

// cancelIdle cancels a task that no run is at work on. It returns nothing if the task has moved on.
func (s *Server) cancelIdle(ctx context.Context, key taskstore.Key, snap taskstore.Snapshot) (*a2a.Task, error) {
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
	task := s.asOf(ctx, key, receipt.Generation)
	if a, ok := s.cfg.Agent.(agent.Canceler); ok && task != nil {
		go func() {
			defer func() {
				if p := recover(); p != nil {
					s.log.Error("Canceled panicked", "task", key.Task, "panic", p)
				}
			}()
			a.Canceled(s.ctx, task)
		}()
	}
	return task, nil
}

// asOf returns the task as of a record, or as it is now where the log is gone; nil if the store fails.
func (s *Server) asOf(ctx context.Context, key taskstore.Key, generation int64) *a2a.Task {
	t, err := s.joined(ctx, key, generation)
	if err != nil {
		return nil
	}
	return t.task
}

// cancelRun asks the run that holds the task to end, and waits for the end. It returns nothing if the task
// has moved on.
func (s *Server) cancelRun(ctx context.Context, key taskstore.Key, snap taskstore.Snapshot) (*a2a.Task, error) {
	_, err := s.store.Commit(context.WithoutCancel(ctx), taskstore.Change{Key: key, Latch: true})
	switch {
	case errors.Is(err, taskstore.ErrCommitted):
		return nil, notCancelable(key.Task, "the task is past the point where it can be canceled")
	case isVerdict(err):
		return nil, nil
	case err != nil:
		return nil, internal(err)
	}
	if r := s.running(key.Task); r != nil {
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
			return s.asOf(ctx, key, rec.Generation), nil
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
