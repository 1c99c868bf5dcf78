package httpx

import (
	"context"
	"iter"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// unary runs an operation of the table whose result is a T.
func unary[T any, P interface {
	*T
	op.Message
}](ctx context.Context, s *service, name string, req op.Message) (P, error) {
	res := P(new(T))
	if err := s.call(ctx, op.ByName(name), req, res); err != nil {
		return nil, err
	}
	return res, nil
}

// The operations of a2a.Service.

func (s *service) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	res, err := unary[a2a.SendMessageResponse](ctx, s, "SendMessage", req)
	if err != nil {
		return nil, err
	}
	return res.Result, nil
}

func (s *service) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return s.stream(ctx, op.ByName("SendStreamingMessage"), req)
}

func (s *service) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return unary[a2a.Task](ctx, s, "GetTask", req)
}

func (s *service) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return unary[a2a.ListTasksResponse](ctx, s, "ListTasks", req)
}

func (s *service) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return unary[a2a.Task](ctx, s, "CancelTask", req)
}

func (s *service) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return s.stream(ctx, op.ByName("SubscribeToTask"), req)
}

func (s *service) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary[a2a.TaskPushNotificationConfig](ctx, s, "CreateTaskPushNotificationConfig", req)
}

func (s *service) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary[a2a.TaskPushNotificationConfig](ctx, s, "GetTaskPushNotificationConfig", req)
}

func (s *service) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return unary[a2a.ListTaskPushNotificationConfigsResponse](ctx, s, "ListTaskPushNotificationConfigs", req)
}

func (s *service) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return unary[a2a.AgentCard](ctx, s, "GetExtendedAgentCard", req)
}

func (s *service) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return unary[a2a.Empty](ctx, s, "DeleteTaskPushNotificationConfig", req)
}
