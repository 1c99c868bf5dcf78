package grpc

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// fake is a Service made of two functions.
type fake struct {
	call   func(ctx context.Context, req op.Message) (any, error)
	stream func(ctx context.Context, req op.Message) iter.Seq2[a2a.Entry, error]
}

func answer[T any](ctx context.Context, f *fake, req op.Message) (T, error) {
	var none T
	res, err := f.call(ctx, req)
	if err != nil {
		return none, err
	}
	return res.(T), nil
}

func (f *fake) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return answer[a2a.SendMessageResult](ctx, f, r)
}

func (f *fake) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return f.stream(ctx, r)
}

func (f *fake) GetTask(ctx context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return answer[*a2a.Task](ctx, f, r)
}

func (f *fake) ListTasks(ctx context.Context, r *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return answer[*a2a.ListTasksResponse](ctx, f, r)
}

func (f *fake) CancelTask(ctx context.Context, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return answer[*a2a.Task](ctx, f, r)
}

func (f *fake) SubscribeToTask(ctx context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return f.stream(ctx, r)
}

func (f *fake) CreateTaskPushNotificationConfig(ctx context.Context, r *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	return answer[*a2a.TaskPushNotificationConfig](ctx, f, r)
}

func (f *fake) GetTaskPushNotificationConfig(ctx context.Context, r *a2a.GetTaskPushNotificationConfigRequest) (*a2a.TaskPushNotificationConfig, error) {
	return answer[*a2a.TaskPushNotificationConfig](ctx, f, r)
}

func (f *fake) ListTaskPushNotificationConfigs(ctx context.Context, r *a2a.ListTaskPushNotificationConfigsRequest) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return answer[*a2a.ListTaskPushNotificationConfigsResponse](ctx, f, r)
}

func (f *fake) GetExtendedAgentCard(ctx context.Context, r *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return answer[*a2a.AgentCard](ctx, f, r)
}

func (f *fake) DeleteTaskPushNotificationConfig(ctx context.Context, r *a2a.DeleteTaskPushNotificationConfigRequest) (*a2a.Empty, error) {
	return answer[*a2a.Empty](ctx, f, r)
}

// entries returns a stream of the given events, and then err if it is not nil.
func entries(err error, events ...a2a.Event) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		for i, ev := range events {
			if !yield(a2a.NewEntry(int64(i+1), ev), nil) {
				return
			}
		}
		if err != nil {
			yield(a2a.Entry{}, err)
		}
	}
}

// serve serves on a socket until the test ends, which is not before every call has returned, and returns the
// address.
func serve(t testing.TB, register func(grpc.ServiceRegistrar), opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(opts, grpc.WaitForHandlers(true))...)
	register(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// connect returns a connection to a server that serves svc.
func connect(t testing.TB, svc a2a.Service, opts HandlerOptions, sopts ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return dial(t, serve(t, NewHandler(svc, opts).Register, append(ServerOptions(), sopts...)...))
}

func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := Dial(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
