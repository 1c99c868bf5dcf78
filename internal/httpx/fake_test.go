package httpx_test

import (
	"bufio"
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/binding/rest"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/op"
)

// The tests of this package hold both bindings to what they share: same input, same outcome.

type binding struct {
	name    string
	handler func(a2a.Service, httpx.Options) http.Handler
	client  func(string, httpx.ClientOptions) a2a.Service
}

var bindings = []binding{
	{a2a.BindingJSONRPC, jsonrpc.NewHandler, jsonrpc.NewClient},
	{a2a.BindingREST, rest.NewHandler, rest.NewClient},
}

func forEach(t *testing.T, f func(t *testing.T, b binding)) {
	for _, b := range bindings {
		t.Run(b.name, func(t *testing.T) { f(t, b) })
	}
}

// serve serves f over a real socket and returns a client of it.
func (b binding) serve(t *testing.T, f *fake, opts httpx.Options) (a2a.Service, *httptest.Server) {
	t.Helper()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	srv := httptest.NewServer(b.handler(f, opts))
	t.Cleanup(srv.Close)
	return b.client(srv.URL, httpx.ClientOptions{HTTP: srv.Client()}), srv
}

// send is a raw SendMessage, or SendStreamingMessage, of the binding.
func (b binding) send(t *testing.T, url string, stream bool, body string) *http.Response {
	t.Helper()
	method, path := "SendMessage", "/message:send"
	if stream {
		method, path = "SendStreamingMessage", "/message:stream"
	}
	if b.name == a2a.BindingJSONRPC {
		path, body = "", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+body+`}`
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	return do(t, req)
}

func do(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// dial opens a raw connection to a server and writes to it.
func dial(t *testing.T, srv *httptest.Server, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

const message = `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"x"}]}}`

func request(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)},
	}}
}

func task(id string) *a2a.Task {
	return &a2a.Task{ID: id, ContextID: "c1", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}
}

func chunk(text string) *a2a.TaskArtifactUpdateEvent {
	return &a2a.TaskArtifactUpdateEvent{
		TaskID: "t1", ContextID: "c1", Append: true,
		Artifact: &a2a.Artifact{ArtifactID: "a1", Parts: []*a2a.Part{a2a.TextPart(text)}},
	}
}

// fake is a Service whose unary operations go to call and whose streams go to stream.
type fake struct {
	call   func(ctx context.Context, name string, req op.Message) (op.Message, error)
	stream func(ctx context.Context, name string, req op.Message, yield func(a2a.Entry, error) bool)

	mu   sync.Mutex
	seen []string // the operations that were called
}

func (f *fake) note(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, name)
}

func (f *fake) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

func unary[T op.Message](ctx context.Context, f *fake, name string, req op.Message) (T, error) {
	f.note(name)
	var zero T
	if f.call == nil {
		return zero, a2a.ErrUnsupportedOperation
	}
	res, err := f.call(ctx, name, req)
	if err != nil {
		return zero, err
	}
	return res.(T), nil
}

func (f *fake) events(ctx context.Context, name string, req op.Message) iter.Seq2[a2a.Entry, error] {
	f.note(name)
	return func(yield func(a2a.Entry, error) bool) {
		if f.stream == nil {
			yield(a2a.Entry{}, a2a.ErrUnsupportedOperation)
			return
		}
		f.stream(ctx, name, req, yield)
	}
}

func (f *fake) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	res, err := unary[*a2a.SendMessageResponse](ctx, f, "SendMessage", req)
	if err != nil {
		return nil, err
	}
	return res.Result, nil
}

func (f *fake) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return f.events(ctx, "SendStreamingMessage", req)
}

func (f *fake) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return unary[*a2a.Task](ctx, f, "GetTask", req)
}

func (f *fake) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return unary[*a2a.ListTasksResponse](ctx, f, "ListTasks", req)
}

func (f *fake) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return unary[*a2a.Task](ctx, f, "CancelTask", req)
}

func (f *fake) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return f.events(ctx, "SubscribeToTask", req)
}

func (f *fake) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary[*a2a.TaskPushNotificationConfig](ctx, f, "CreateTaskPushNotificationConfig", req)
}

func (f *fake) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary[*a2a.TaskPushNotificationConfig](ctx, f, "GetTaskPushNotificationConfig", req)
}

func (f *fake) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return unary[*a2a.ListTaskPushNotificationConfigsResponse](ctx, f, "ListTaskPushNotificationConfigs", req)
}

func (f *fake) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return unary[*a2a.AgentCard](ctx, f, "GetExtendedAgentCard", req)
}

func (f *fake) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return unary[*a2a.Empty](ctx, f, "DeleteTaskPushNotificationConfig", req)
}

// invoke runs an operation of s and returns what came of it: the answer's JSON, or that of each entry.
func invoke(ctx context.Context, s a2a.Service, name string, req op.Message) (got []string, err error) {
	o := op.ByName(name)
	if o.Call != nil {
		res, err := o.Call(ctx, s, req)
		if err != nil {
			return nil, err
		}
		return []string{string(res.AppendJSON(nil))}, nil
	}
	for e, err := range o.Stream(ctx, s, req) {
		if err != nil {
			return got, err
		}
		got = append(got, string(e.JSON()))
	}
	return got, nil
}
