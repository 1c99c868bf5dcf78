package server

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/taskstore"
)

// GetTask implements a2a.Service.
func (s *Server) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	c, err := s.begin(ctx, req.Tenant)
	if err != nil {
		return nil, err
	}
	if err := checkHistoryLength("historyLength", req.HistoryLength); err != nil {
		return nil, err
	}
	snap, err := s.find(ctx, &c, req.ID)
	if err != nil {
		return nil, err
	}
	if after, ok, err := c.generation(extension.CurrentGeneration); err != nil {
		return nil, err
	} else if ok && snap.Generation <= after && !snap.Task.Status.State.Terminal() {
		if snap, err = s.later(ctx, &c, snap, after); err != nil {
			return nil, err
		}
	}
	return c.view(snap.Task, snap.Generation, history(req.HistoryLength)), nil
}

// longPoll is how long GetTask waits at most for a task to change.
const longPoll = 30 * time.Second

// later waits until the task is past a generation or has ended, but not for ever, and returns it as it is then.
func (s *Server) later(ctx context.Context, c *call, snap taskstore.Snapshot, after int64) (taskstore.Snapshot, error) {
	wait, cancel := context.WithTimeout(ctx, longPoll)
	defer cancel()
	for rec, err := range s.follow.Follow(wait, c.key(snap.Task.ID), snap.Generation) {
		if err != nil && wait.Err() == nil && !errors.Is(err, taskstore.ErrTrimmed) {
			return taskstore.Snapshot{}, internal(err)
		}
		st, ok := rec.Event.(*a2a.TaskStatusUpdateEvent)
		if err != nil || rec.Generation > after || ok && st.Status.State.Terminal() {
			break
		}
	}
	if ctx.Err() != nil {
		return taskstore.Snapshot{}, context.Cause(ctx)
	}
	return s.find(ctx, c, snap.Task.ID)
}

func (s *Server) find(ctx context.Context, c *call, id string) (taskstore.Snapshot, error) {
	if id == "" {
		return taskstore.Snapshot{}, a2a.InvalidField("id", "required")
	}
	snap, err := s.store.Task(ctx, c.key(id), 0)
	if errors.Is(err, taskstore.ErrNotFound) {
		return snap, notFound(id)
	}
	return snap, internal(err)
}

// ListTasks implements a2a.Service.
func (s *Server) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	c, err := s.begin(ctx, req.Tenant)
	if err != nil {
		return nil, err
	}
	if s.cfg.NoAnonymousLists && c.caller.Anonymous() {
		return nil, a2a.Errorf(a2a.ErrPermissionDenied, "callers that nobody knows cannot list tasks: keep the task's id, or authenticate")
	}
	q := taskstore.Query{
		Scope: c.scope, ContextID: req.ContextID, Status: req.Status, After: req.StatusTimestampAfter,
		PageSize: min(50, s.cfg.Limits.PageSize), PageToken: req.PageToken,
		HistoryLength: history(req.HistoryLength),
		Artifacts:     req.IncludeArtifacts != nil && *req.IncludeArtifacts,
		MaxBytes:      s.cfg.Limits.PageBytes,
	}
	if n := req.PageSize; n != nil && *n != 0 { // gRPC clients send 0 for "not set"
		if *n < 1 || int(*n) > s.cfg.Limits.PageSize {
			return nil, a2a.InvalidField("pageSize", "must be between 1 and %d, got %d", s.cfg.Limits.PageSize, *n)
		}
		q.PageSize = int(*n)
	}
	if err := checkHistoryLength("historyLength", req.HistoryLength); err != nil {
		return nil, err
	}
	page, err := s.store.List(ctx, q)
	if errors.Is(err, taskstore.ErrBadToken) {
		return nil, a2a.InvalidField("pageToken", "not a token of this query: pass the nextPageToken of the page before, with the same filters")
	}
	if err != nil {
		return nil, internal(err)
	}
	return &a2a.ListTasksResponse{
		Tasks: page.Tasks, NextPageToken: page.Next,
		PageSize:      int32(q.PageSize),
		TotalSize:     int32(min(page.Total, math.MaxInt32)),
		WithArtifacts: q.Artifacts,
	}, nil
}

// SubscribeToTask implements a2a.Service.
func (s *Server) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		c, err := s.begin(ctx, req.Tenant)
		if err == nil {
			err = c.streaming()
		}
		var snap taskstore.Snapshot
		if err == nil {
			snap, err = s.find(ctx, &c, req.ID)
		}
		resumed := false
		if err == nil {
			snap, resumed, err = s.resumed(ctx, &c, req.ID, snap)
		}
		if err == nil && !resumed && snap.Task.Status.State.Terminal() {
			e := a2a.Errorf(a2a.ErrUnsupportedOperation, "the task has ended (%s): read it with GetTask", snap.Task.Status.State)
			e.Metadata = map[string]string{"taskId": req.ID, "state": snap.Task.Status.State.String()}
			err = e
		}
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		s.stream(ctx, c.key(req.ID), a2a.NewEntry(snap.Generation, snap.Task), c.dressed(yield), a2a.TaskState.Terminal)
	}
}

// resumed returns the task as of the generation that the caller has, if it says one under task-log. Where the log no
// longer goes back there, it is the task as it is now, which says it all.
func (s *Server) resumed(ctx context.Context, c *call, id string, snap taskstore.Snapshot) (taskstore.Snapshot, bool, error) {
	have, ok, err := c.generation(extension.LastEventID)
	switch {
	case err != nil || !ok || have == 0:
		return snap, false, err
	case have > snap.Generation:
		return snap, false, a2a.InvalidField(extension.LastEventID, "the task is at generation %d", snap.Generation)
	}
	then, err := s.store.Task(ctx, c.key(id), have)
	if errors.Is(err, taskstore.ErrTrimmed) {
		return snap, true, nil
	}
	return then, true, internal(err)
}

// GetExtendedAgentCard implements a2a.Service.
func (s *Server) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	c, err := s.begin(ctx, req.Tenant)
	if err != nil {
		return nil, err
	}
	if on := c.card.Capabilities.ExtendedAgentCard; on == nil || !*on {
		return nil, a2a.Errorf(a2a.ErrUnsupportedOperation, "this agent has no extended agent card (capabilities.extendedAgentCard)")
	}
	if s.cfg.ExtendedCard == nil {
		return nil, &a2a.Error{Code: a2a.ErrExtendedAgentCardNotConfigured}
	}
	card, err := s.cfg.ExtendedCard(ctx, c.caller)
	return card, internal(err)
}
