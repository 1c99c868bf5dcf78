package rest_test

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/rest"
)

// fake is a Service that notes each call as the operation and its request's JSON.
type fake struct {
	ran   []string
	err   error
	event []a2a.Entry
}

func (f *fake) note(name string, req interface{ AppendJSON([]byte) []byte }) error {
	f.ran = append(f.ran, name+" "+string(req.AppendJSON(nil)))
	return f.err
}

func (f *fake) stream(err error) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		for _, e := range f.event {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(a2a.Entry{}, err)
		}
	}
}

var task = &a2a.Task{ID: "t", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}

func (f *fake) SendMessage(_ context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return task, f.note("SendMessage", req)
}

func (f *fake) SendStreamingMessage(_ context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return f.stream(f.note("SendStreamingMessage", req))
}

func (f *fake) GetTask(_ context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return task, f.note("GetTask", req)
}

func (f *fake) ListTasks(_ context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return &a2a.ListTasksResponse{}, f.note("ListTasks", req)
}

func (f *fake) CancelTask(_ context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return task, f.note("CancelTask", req)
}

func (f *fake) SubscribeToTask(_ context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return f.stream(f.note("SubscribeToTask", req))
}

func (f *fake) CreateTaskPushNotificationConfig(_ context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return req, f.note("CreateTaskPushNotificationConfig", req)
}

func (f *fake) GetTaskPushNotificationConfig(_ context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return new(a2a.TaskPushNotificationConfig), f.note("GetTaskPushNotificationConfig", req)
}

func (f *fake) ListTaskPushNotificationConfigs(_ context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return new(a2a.ListTaskPushNotificationConfigsResponse), f.note("ListTaskPushNotificationConfigs", req)
}

func (f *fake) GetExtendedAgentCard(_ context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return new(a2a.AgentCard), f.note("GetExtendedAgentCard", req)
}

func (f *fake) DeleteTaskPushNotificationConfig(_ context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return new(a2a.Empty), f.note("DeleteTaskPushNotificationConfig", req)
}

func serve(t *testing.T, f *fake) string {
	t.Helper()
	srv := httptest.NewServer(rest.NewHandler(f, rest.Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// send sends a request whose first line is "METHOD path", with a body unless that is "-", and headers of the
// form "Name: value".
func send(t *testing.T, url, line, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	var r io.Reader
	if body != "-" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("A2A-Version", "1.0")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}
