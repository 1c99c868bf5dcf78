package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	googlegrpc "google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/binding/rest"
	"github.com/parley-a2a/parley/internal/op"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/telemetry"
)

// newServer returns an engine over an agent and a store, with a card that allows streams.
func newServer(t testing.TB, a agent.Agent, store taskstore.Store) *server.Server {
	t.Helper()
	yes := true
	card := &a2a.AgentCard{Name: "x", Capabilities: a2a.AgentCapabilities{Streaming: &yes}, DefaultInputModes: []string{"text/plain", "application/json"}}
	s, err := server.New(server.Config{Agent: a, Name: "x", Store: store, Card: func() *a2a.AgentCard { return card }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
	})
	return s
}

func identify(_ context.Context, info *a2a.CallInfo) error {
	info.Caller = a2a.Caller{Tenant: "acme", Issuer: "https://issuer.example", Subject: "ann", Scopes: []string{"all"}}
	return nil
}

// dial serves svc on a socket of every binding and returns the clients.
func dial(t testing.TB, svc a2a.Service) map[string]a2a.Service {
	t.Helper()
	opts := jsonrpc.Options{Authenticate: identify}
	rpc := httptest.NewServer(jsonrpc.NewHandler(svc, opts))
	t.Cleanup(rpc.Close)
	restful := httptest.NewServer(rest.NewHandler(svc, opts))
	t.Cleanup(restful.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gs := googlegrpc.NewServer(grpc.ServerOptions()...)
	grpc.NewHandler(svc, grpc.HandlerOptions{Authenticate: identify}).Register(gs)
	go func() { _ = gs.Serve(l) }()
	t.Cleanup(gs.Stop)
	conn, err := grpc.Dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return map[string]a2a.Service{
		a2a.BindingJSONRPC: jsonrpc.NewClient(rpc.URL, jsonrpc.ClientOptions{}),
		a2a.BindingREST:    rest.NewClient(restful.URL, rest.ClientOptions{}),
		a2a.BindingGRPC:    grpc.NewClient(conn),
	}
}

func hello(parts ...*a2a.Part) *a2a.SendMessageRequest {
	parts = append(parts, a2a.TextPart("hello"))
	return &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, ContextID: "c1", Parts: parts}}
}

// TestTraceAcrossHosts: on every binding the client's span is the parent of the server's, and the metrics and the
// log tell of the same call.
func TestTraceAcrossHosts(t *testing.T) {
	for _, b := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		t.Run(b, func(t *testing.T) {
			here, there := newSignals(), newSignals()
			svc := newServer(t, telemetry.Agent(new(script.Agent), there.Options), taskstore.NewMemory(taskstore.MemoryOptions{}))
			c := telemetry.Client(dial(t, telemetry.Service(svc, there.Options))[b], here.Options)
			res, err := c.SendMessage(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			task := res.(*a2a.Task)

			sent, served := here.span(t, "SendMessage"), there.span(t, "SendMessage")
			if sent.SpanKind() != trace.SpanKindClient || served.SpanKind() != trace.SpanKindServer {
				t.Errorf("kinds %v and %v", sent.SpanKind(), served.SpanKind())
			}
			if served.Parent().SpanID() != sent.SpanContext().SpanID() || served.SpanContext().TraceID() != sent.SpanContext().TraceID() {
				t.Errorf("the server's span %+v has the parent %+v, want %+v", served.SpanContext(), served.Parent(), sent.SpanContext())
			}
			want := map[string]string{
				"a2a.operation": "SendMessage", "a2a.binding": b, "a2a.outcome": "ok", "a2a.task.id": task.ID, "a2a.context.id": "c1",
				"a2a.caller.issuer": "https://issuer.example", "a2a.caller.subject": "ann",
			}
			if diff := cmp.Diff(want, attributes(served.Attributes())); diff != "" {
				t.Error(diff)
			}
			if got := there.values(t, "a2a.server.operation.duration"); got[b+" SendMessage ok"] != 1 || len(got) != 1 {
				t.Errorf("server's durations %v", got)
			}
			if got := here.values(t, "a2a.client.operation.duration"); got["SendMessage ok"] != 1 || len(got) != 1 {
				t.Errorf("client's durations %v", got)
			}
			line := strings.Join(there.lines(), "\n")
			for _, part := range []string{
				"level=DEBUG", "operation=SendMessage", "binding=" + b, "outcome=ok", "task=" + task.ID, "context=c1",
				"issuer=https://issuer.example subject=ann", "duration=", "traceId=" + served.SpanContext().TraceID().String(),
			} {
				if !strings.Contains(line, part) {
					t.Errorf("the log has no %q:\n%s", part, line)
				}
			}
			if strings.Contains(line, "acme") {
				t.Errorf("the log has the tenant:\n%s", line)
			}

			run := there.span(t, "Handle")
			if run.Parent().IsValid() || run.SpanContext().TraceID() == served.SpanContext().TraceID() || len(run.Links()) > 0 {
				t.Errorf("the run's span %+v has a parent %+v or links %v", run.SpanContext(), run.Parent(), run.Links())
			}
			want = map[string]string{
				"a2a.outcome": "ok", "a2a.task.id": task.ID, "a2a.context.id": "c1",
				"a2a.caller.issuer": "https://issuer.example", "a2a.caller.subject": "ann",
			}
			if diff := cmp.Diff(want, attributes(run.Attributes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEveryOperation: each is passed on to its own like, and named like itself.
func TestEveryOperation(t *testing.T) {
	s := newSignals()
	var next names
	svc := telemetry.Client(telemetry.Service(&next, s.Options), s.Options)
	for i := range op.All {
		o := &op.All[i]
		req := o.NewRequest()
		if r, ok := req.(*a2a.SendMessageRequest); ok {
			r.Message = &a2a.Message{}
		}
		if o.Call != nil {
			_, _ = o.Call(t.Context(), svc, req)
		} else {
			for range o.Stream(t.Context(), svc, req) {
				break
			}
		}
		if next.last != o.Name {
			t.Errorf("%s arrived as %s", o.Name, next.last)
		}
		if got := s.values(t, "a2a.server.operation.duration")["none "+o.Name+" UNSUPPORTED_OPERATION"]; got != 1 {
			t.Errorf("%s was counted %d times", o.Name, got)
		}
	}
}

// names keeps the name of the last operation, and supports none.
type names struct{ last string }

func (n *names) SendMessage(context.Context, *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	n.last = "SendMessage"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) SendStreamingMessage(context.Context, *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	n.last = "SendStreamingMessage"
	return fails(a2a.ErrUnsupportedOperation)
}

func (n *names) GetTask(context.Context, *a2a.GetTaskRequest) (*a2a.Task, error) {
	n.last = "GetTask"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) ListTasks(context.Context, *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	n.last = "ListTasks"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) CancelTask(context.Context, *a2a.CancelTaskRequest) (*a2a.Task, error) {
	n.last = "CancelTask"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) SubscribeToTask(context.Context, *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	n.last = "SubscribeToTask"
	return fails(a2a.ErrUnsupportedOperation)
}

func (n *names) CreateTaskPushNotificationConfig(context.Context, *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	n.last = "CreateTaskPushNotificationConfig"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) GetTaskPushNotificationConfig(context.Context, *a2a.GetTaskPushNotificationConfigRequest) (*a2a.TaskPushNotificationConfig, error) {
	n.last = "GetTaskPushNotificationConfig"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) ListTaskPushNotificationConfigs(context.Context, *a2a.ListTaskPushNotificationConfigsRequest) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	n.last = "ListTaskPushNotificationConfigs"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) GetExtendedAgentCard(context.Context, *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	n.last = "GetExtendedAgentCard"
	return nil, a2a.ErrUnsupportedOperation
}

func (n *names) DeleteTaskPushNotificationConfig(context.Context, *a2a.DeleteTaskPushNotificationConfigRequest) (*a2a.Empty, error) {
	n.last = "DeleteTaskPushNotificationConfig"
	return nil, a2a.ErrUnsupportedOperation
}

func fails(err error) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) { yield(a2a.Entry{}, err) }
}

// answers is a service whose answers a test chooses.
type answers struct {
	a2a.Service
	get    func(context.Context) (*a2a.Task, error)
	stream iter.Seq2[a2a.Entry, error]
}

func (a answers) GetTask(ctx context.Context, _ *a2a.GetTaskRequest) (*a2a.Task, error) {
	return a.get(ctx)
}

func (a answers) SubscribeToTask(context.Context, *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return a.stream
}

func TestOutcomes(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	const secret = "the password is canary"
	for name, c := range map[string]struct {
		ctx            context.Context
		err            error
		outcome, level string
		server, client codes.Code
	}{
		"fine":             {outcome: "ok", level: "DEBUG"},
		"a code":           {err: a2a.ErrTaskNotFound, outcome: "TASK_NOT_FOUND", level: "DEBUG", client: codes.Error},
		"an error":         {err: a2a.Errorf(a2a.ErrInvalidParams, secret), outcome: "INVALID_PARAMS", level: "DEBUG", client: codes.Error},
		"its own reason":   {err: &a2a.Error{Code: a2a.ErrPermissionDenied, Reason: secret}, outcome: "PERMISSION_DENIED", level: "DEBUG", client: codes.Error},
		"an unknown code":  {err: &a2a.Error{Code: 12345}, outcome: "INTERNAL_ERROR", level: "WARN", server: codes.Error, client: codes.Error},
		"a cause":          {err: (&a2a.Error{Code: a2a.ErrInternal}).WithCause(errors.New(secret)), outcome: "INTERNAL_ERROR", level: "WARN", server: codes.Error, client: codes.Error},
		"no error of ours": {err: errors.New(secret), outcome: "INTERNAL_ERROR", level: "WARN", server: codes.Error, client: codes.Error},
		"not now":          {err: a2a.ErrUnavailable, outcome: "UNAVAILABLE", level: "DEBUG", server: codes.Error, client: codes.Error},
		"the caller left":  {ctx: gone, err: fmt.Errorf("x: %w", context.Canceled), outcome: "CANCELED", level: "DEBUG", client: codes.Error},
		"out of time":      {ctx: late, err: context.DeadlineExceeded, outcome: "REQUEST_TIMEOUT", level: "DEBUG", client: codes.Error},
		"another's end":    {err: context.Canceled, outcome: "INTERNAL_ERROR", level: "WARN", server: codes.Error, client: codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			here, there := newSignals(), newSignals()
			next := answers{get: func(context.Context) (*a2a.Task, error) { return &a2a.Task{ID: "t"}, c.err }}
			_, err := telemetry.Client(telemetry.Service(next, there.Options), here.Options).GetTask(ctx, &a2a.GetTaskRequest{ID: "t"})
			if err != c.err { //nolint:errorlint // it must be the same
				t.Errorf("error %v, want %v", err, c.err)
			}
			if got := there.values(t, "a2a.server.operation.duration"); got["none GetTask "+c.outcome] != 1 {
				t.Errorf("counted as %v, want %s", got, c.outcome)
			}
			served, sent := there.span(t, "GetTask"), here.span(t, "GetTask")
			if served.Status().Code != c.server || sent.Status().Code != c.client {
				t.Errorf("statuses %v and %v, want %v and %v", served.Status(), sent.Status(), c.server, c.client)
			}
			if got := attributes(served.Attributes())["error.type"]; got != c.outcome && c.err != nil || c.err == nil && got != "" {
				t.Errorf("error.type %q", got)
			}
			log := strings.Join(there.lines(), "\n")
			if !strings.Contains(log, "level="+c.level) || !strings.Contains(log, "outcome="+c.outcome) {
				t.Errorf("log %s", log)
			}
			if all := fmt.Sprint(log, here.lines(), served, sent, served.Events()); strings.Contains(all, "canary") {
				t.Errorf("an error's words are in the signals: %s", all)
			}
		})
	}
}

// TestPanic: a panic goes through, and leaves an outcome behind.
func TestPanic(t *testing.T) {
	s := newSignals()
	svc := telemetry.Service(answers{
		get:    func(context.Context) (*a2a.Task, error) { panic("canary") },
		stream: func(func(a2a.Entry, error) bool) { panic("canary") },
	}, s.Options)
	panics := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	if v := panics(func() { _, _ = svc.GetTask(t.Context(), &a2a.GetTaskRequest{}) }); v != "canary" {
		t.Errorf("GetTask panicked with %v", v)
	}
	if v := panics(func() {
		for e, err := range svc.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{}) {
			t.Error("an entry", e, err)
		}
	}); v != "canary" {
		t.Errorf("SubscribeToTask panicked with %v", v)
	}
	want := map[string]int64{"none GetTask INTERNAL_ERROR": 1, "none SubscribeToTask INTERNAL_ERROR": 1}
	if diff := cmp.Diff(want, s.values(t, "a2a.server.operation.duration")); diff != "" {
		t.Error(diff)
	}
	if got := s.values(t, "a2a.server.active_streams"); got["none SubscribeToTask"] != 0 {
		t.Errorf("open streams %v", got)
	}
}

func TestStreams(t *testing.T) {
	status := func(st a2a.TaskState) a2a.Event {
		return &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: st}}
	}
	working := &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}
	chunk := &a2a.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c"}
	for name, c := range map[string]struct {
		events  []a2a.Event
		err     error
		gone    bool // the context ends before the stream
		read    int  // entries after which the reader leaves
		outcome string
	}{
		"to the end":         {events: []a2a.Event{working, chunk, status(a2a.TaskStateCompleted)}, read: 9, outcome: "ok"},
		"left at the end":    {events: []a2a.Event{working, status(a2a.TaskStateCompleted), chunk}, read: 2, outcome: "ok"},
		"left at a question": {events: []a2a.Event{working, status(a2a.TaskStateInputRequired)}, read: 2, outcome: "ok"},
		"left before":        {events: []a2a.Event{working, chunk, status(a2a.TaskStateCompleted)}, read: 2, outcome: "CANCELED"},
		"a message":          {events: []a2a.Event{&a2a.Message{ContextID: "c"}}, read: 1, outcome: "ok"},
		"connection gone":    {events: []a2a.Event{working, chunk}, read: 9, gone: true, outcome: "CANCELED"},
		"an error":           {events: []a2a.Event{working}, err: a2a.ErrUnavailable, read: 9, outcome: "UNAVAILABLE"},
		"an early error":     {err: a2a.ErrTaskNotFound, read: 9, outcome: "TASK_NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := newSignals()
			next := answers{stream: func(yield func(a2a.Entry, error) bool) {
				if open := s.values(t, "a2a.server.active_streams"); open["none SubscribeToTask"] != 1 {
					t.Errorf("open streams %v, want one", open)
				}
				for i, ev := range c.events {
					if !yield(a2a.NewEntry(int64(i+1), ev), nil) {
						return
					}
				}
				if c.gone {
					cancel()
				}
				if c.err != nil {
					yield(a2a.Entry{}, c.err)
				}
			}}
			var got []a2a.Event
			var err error
			for e, eerr := range telemetry.Service(next, s.Options).SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"}) {
				if err = eerr; err == nil {
					got = append(got, e.Event)
				}
				if len(got) == c.read {
					break
				}
			}
			if want := c.events[:min(c.read, len(c.events))]; !slices.Equal(got, want) || !errors.Is(err, c.err) {
				t.Errorf("got %v and %v, want %v and %v", got, err, want, c.err)
			}
			if n := s.values(t, "a2a.server.operation.duration"); n["none SubscribeToTask "+c.outcome] != 1 || len(n) != 1 {
				t.Errorf("counted as %v, want %s", n, c.outcome)
			}
			if n := s.values(t, "a2a.server.stream.events")["none SubscribeToTask"]; n != int64(len(got)) {
				t.Errorf("%d events counted of %d", n, len(got))
			}
			if open := s.values(t, "a2a.server.active_streams"); open["none SubscribeToTask"] != 0 {
				t.Errorf("open streams %v, want none", open)
			}
		})
	}
}

// TestAuthenticate: what an authenticator says is counted and stays as it is.
func TestAuthenticate(t *testing.T) {
	s := newSignals()
	var says error
	auth := telemetry.Authenticate(func(_ context.Context, info *a2a.CallInfo) error {
		info.Caller.Subject = "ann"
		return says
	}, s.Options)
	refusal := &a2a.Error{Code: a2a.ErrUnauthenticated, Reason: "canary"}
	for _, says = range []error{nil, refusal, refusal} {
		info := &a2a.CallInfo{Binding: a2a.BindingGRPC}
		if err := auth(t.Context(), info); err != says || info.Caller.Subject != "ann" { //nolint:errorlint // it must be the same
			t.Errorf("%v for %+v, want %v", err, info.Caller, says)
		}
	}
	want := map[string]int64{"GRPC ok": 1, "GRPC UNAUTHENTICATED": 2}
	if diff := cmp.Diff(want, s.values(t, "a2a.server.authentications")); diff != "" {
		t.Error(diff)
	}
}

// TestPassedOn: a host that passes a call on tells the next host of its span and of nothing else that came with the
// request; what the answer activates comes back.
func TestPassedOn(t *testing.T) {
	var sent *a2a.CallInfo
	next := answers{get: func(ctx context.Context) (*a2a.Task, error) {
		sent = a2a.CallInfoFrom(ctx)
		sent.Activated = []string{"urn:x"}
		return &a2a.Task{}, nil
	}}
	for name, c := range map[string]struct {
		peer string
		want []string
	}{
		"an own call":      {"", []string{"Authorization", "Traceparent"}},
		"a request passed": {"192.0.2.1:5", []string{"Traceparent"}},
	} {
		t.Run(name, func(t *testing.T) {
			info := &a2a.CallInfo{
				Version: "1.0", Extensions: []string{"urn:x"}, Peer: c.peer,
				Header: http.Header{"Authorization": {"Bearer canary"}},
			}
			svc := telemetry.Client(next, newSignals().Options)
			if _, err := svc.GetTask(a2a.WithCallInfo(t.Context(), info), &a2a.GetTaskRequest{}); err != nil {
				t.Fatal(err)
			}
			var names []string
			for name := range sent.Header {
				names = append(names, name)
			}
			slices.Sort(names)
			if !slices.Equal(names, c.want) || sent.Peer != "" || sent.Version != "1.0" || !slices.Equal(sent.Extensions, info.Extensions) {
				t.Errorf("sent %v of %+v", names, sent)
			}
			if len(info.Header) != 1 || !slices.Equal(info.Activated, []string{"urn:x"}) {
				t.Errorf("the caller's CallInfo is now %+v", info)
			}
		})
	}
}

// TestNoProvider: without a program's providers nothing is sent along.
func TestNoProvider(t *testing.T) {
	info := &a2a.CallInfo{}
	next := answers{get: func(ctx context.Context) (*a2a.Task, error) {
		if got := a2a.CallInfoFrom(ctx); got != info || len(got.Header) > 0 {
			t.Errorf("CallInfo %+v", got)
		}
		return &a2a.Task{}, nil
	}}
	if _, err := telemetry.Client(next, telemetry.Options{}).GetTask(a2a.WithCallInfo(t.Context(), info), &a2a.GetTaskRequest{}); err != nil {
		t.Fatal(err)
	}
}

// TestIDsAreBounded: ids are the caller's words.
func TestIDsAreBounded(t *testing.T) {
	s := newSignals()
	svc := telemetry.Service(answers{get: func(context.Context) (*a2a.Task, error) { return nil, a2a.ErrTaskNotFound }}, s.Options)
	_, _ = svc.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "\xff" + strings.Repeat("x", 1<<20)})
	if id := attributes(s.span(t, "GetTask").Attributes())["a2a.task.id"]; len(id) > 130 || !strings.HasPrefix(id, "\uFFFDxxx") {
		t.Errorf("the id on the span has %d bytes", len(id))
	}
	if line := s.lines(); len(line[0]) > 500 {
		t.Errorf("the line has %d bytes", len(line[0]))
	}
}
