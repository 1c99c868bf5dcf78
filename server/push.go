package server

import (
	"context"
	"errors"
	"slices"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// PushConfigs keeps the webhook registrations of tasks. What it returns to callers carries no secrets.
type PushConfigs interface {
	// Prepare returns the registration that comes with a message, for the change that takes the message. The task
	// may not exist yet.
	Prepare(ctx context.Context, key taskstore.Key, c *a2a.TaskPushNotificationConfig) (*taskstore.Webhook, error)
	// Create records a registration and gives it an id if it has none.
	Create(ctx context.Context, key taskstore.Key, c *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error)
	// Get returns a registration; an unknown one is a2a.ErrTaskNotFound.
	Get(ctx context.Context, key taskstore.Key, id string) (*a2a.TaskPushNotificationConfig, error)
	// List returns a page of the registrations of a task.
	List(ctx context.Context, key taskstore.Key, size int, token string) (*a2a.ListTaskPushNotificationConfigsResponse, error)
	// Delete removes a registration, if there is one.
	Delete(ctx context.Context, key taskstore.Key, id string) error
}

func pushNotSupported() error {
	return a2a.Errorf(a2a.ErrPushNotificationNotSupported, "this agent has no push notifications (capabilities.pushNotifications): follow the task with SubscribeToTask or GetTask")
}

// inlineWebhook returns the registration that comes with a message, nil if there is none.
func (s *Server) inlineWebhook(ctx context.Context, key taskstore.Key, req *a2a.SendMessageRequest) (*taskstore.Webhook, error) {
	if req.Configuration == nil || req.Configuration.TaskPushNotificationConfig == nil {
		return nil, nil
	}
	c := *req.Configuration.TaskPushNotificationConfig
	c.TaskID = key.Task
	h, err := s.cfg.Push.Prepare(ctx, key, &c)
	var e *a2a.Error
	if errors.As(err, &e) && len(e.Violations) > 0 {
		const where = "configuration.taskPushNotificationConfig."
		below := *e
		below.Violations = slices.Clone(e.Violations)
		for i := range below.Violations {
			below.Violations[i].Field = where + below.Violations[i].Field
		}
		below.Message = where + e.Message
		return nil, &below
	}
	return h, internal(err)
}

// pushKey is what the four operations begin with: the caller, push notifications at all, and the task.
func (s *Server) pushKey(ctx context.Context, tenant, task string) (taskstore.Key, error) {
	c, err := s.begin(ctx, tenant)
	if err != nil {
		return taskstore.Key{}, err
	}
	if s.cfg.Push == nil {
		return taskstore.Key{}, pushNotSupported()
	}
	if task == "" {
		return taskstore.Key{}, a2a.InvalidField("taskId", "required")
	}
	if _, err := s.find(ctx, &c, task); err != nil {
		return taskstore.Key{}, err
	}
	return c.key(task), nil
}

// CreateTaskPushNotificationConfig implements a2a.Service.
func (s *Server) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	key, err := s.pushKey(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return nil, err
	}
	if req.URL == "" {
		return nil, a2a.InvalidField("url", "required")
	}
	if err := s.checkID("id", req.ID); err != nil {
		return nil, err
	}
	out, err := s.cfg.Push.Create(ctx, key, req)
	return out, internal(err)
}

// GetTaskPushNotificationConfig implements a2a.Service.
func (s *Server) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest) (*a2a.TaskPushNotificationConfig, error) {
	key, err := s.pushKey(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return nil, err
	}
	if req.ID == "" {
		return nil, a2a.InvalidField("id", "required")
	}
	out, err := s.cfg.Push.Get(ctx, key, req.ID)
	return out, internal(err)
}

// ListTaskPushNotificationConfigs implements a2a.Service.
func (s *Server) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	key, err := s.pushKey(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return nil, err
	}
	if req.PageSize < 0 {
		return nil, a2a.InvalidField("pageSize", "must not be negative, got %d", req.PageSize)
	}
	out, err := s.cfg.Push.List(ctx, key, int(req.PageSize), req.PageToken)
	return out, internal(err)
}

// DeleteTaskPushNotificationConfig implements a2a.Service.
func (s *Server) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest) (*a2a.Empty, error) {
	key, err := s.pushKey(ctx, req.Tenant, req.TaskID)
	if err != nil {
		return nil, err
	}
	if req.ID == "" {
		return nil, a2a.InvalidField("id", "required")
	}
	if err := s.cfg.Push.Delete(ctx, key, req.ID); err != nil {
		return nil, internal(err)
	}
	return &a2a.Empty{}, nil
}
