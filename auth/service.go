package auth

import (
	"context"
	"iter"

	"github.com/parley-a2a/parley/a2a"
)

// Service returns next behind Options.Rules, such as for parley.Config.Wrap: an operation that the caller has not the scopes
// for is refused before next hears of it.
func (a *Authenticator) Service(next a2a.Service) a2a.Service { return &service{next, &a.opts.Rules} }

type service struct {
	next  a2a.Service
	rules *Rules
}

// unary calls f, if the rules let it be.
func unary[Req, Res any](ctx context.Context, s *service, name string, req Req,
	f func(a2a.Service, context.Context, Req) (Res, error),
) (Res, error) {
	if err := s.rules.Operation(callerOf(ctx), name); err != nil {
		var none Res
		return none, err
	}
	return f(s.next, ctx, req)
}

func refuse(err error) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) { yield(a2a.Entry{}, err) }
}

func (s *service) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	if err := s.rules.message(ctx, "SendMessage", req.Message); err != nil {
		return nil, err
	}
	return s.next.SendMessage(ctx, req)
}

func (s *service) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	if err := s.rules.message(ctx, "SendStreamingMessage", req.Message); err != nil {
		return refuse(err)
	}
	return s.next.SendStreamingMessage(ctx, req)
}

func (s *service) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return unary(ctx, s, "GetTask", req, a2a.Service.GetTask)
}

func (s *service) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return unary(ctx, s, "ListTasks", req, a2a.Service.ListTasks)
}

func (s *service) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return unary(ctx, s, "CancelTask", req, a2a.Service.CancelTask)
}

func (s *service) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	if err := s.rules.Operation(callerOf(ctx), "SubscribeToTask"); err != nil {
		return refuse(err)
	}
	return s.next.SubscribeToTask(ctx, req)
}

func (s *service) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary(ctx, s, "CreateTaskPushNotificationConfig", req, a2a.Service.CreateTaskPushNotificationConfig)
}

func (s *service) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary(ctx, s, "GetTaskPushNotificationConfig", req, a2a.Service.GetTaskPushNotificationConfig)
}

func (s *service) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return unary(ctx, s, "ListTaskPushNotificationConfigs", req, a2a.Service.ListTaskPushNotificationConfigs)
}

func (s *service) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return unary(ctx, s, "GetExtendedAgentCard", req, a2a.Service.GetExtendedAgentCard)
}

func (s *service) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return unary(ctx, s, "DeleteTaskPushNotificationConfig", req, a2a.Service.DeleteTaskPushNotificationConfig)
}
