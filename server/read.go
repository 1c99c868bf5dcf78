package server

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/parley-a2a/parley/a2a"
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
	return taskstore.View(snap.Task, history(req.HistoryLength), true), nil
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
		if err == nil && snap.Task.Status.State.Terminal() {
			e := a2a.Errorf(a2a.ErrUnsupportedOperation, "the task has ended (%s): read it with GetTask", snap.Task.Status.State)
			e.Metadata = map[string]string{"taskId": req.ID, "state": snap.Task.Status.State.String()}
			err = e
		}
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		s.stream(ctx, c.key(req.ID), a2a.NewEntry(snap.Generation, snap.Task), yield, a2a.TaskState.Terminal)
	}
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
