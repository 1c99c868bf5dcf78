package jsonrpc_test

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
	"github.com/parley-a2a/parley/binding/jsonrpc"
)

// fake is a Service of the operations that the tests use; the others panic.
type fake struct {
	a2a.Service
	ran   []string
	sent  []*a2a.SendMessageRequest
	err   error
	event []a2a.Entry
}

func (f *fake) SendMessage(_ context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	f.ran = append(f.ran, "SendMessage")
	f.sent = append(f.sent, req)
	return &a2a.Message{MessageID: "m2", Role: a2a.RoleAgent, Parts: req.Message.Parts}, f.err
}

func (f *fake) GetTask(_ context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	f.ran = append(f.ran, "GetTask")
	return &a2a.Task{ID: req.ID, Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}, f.err
}

func (f *fake) ListTasks(context.Context, *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	f.ran = append(f.ran, "ListTasks")
	return &a2a.ListTasksResponse{}, f.err
}

func (f *fake) SubscribeToTask(context.Context, *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	f.ran = append(f.ran, "SubscribeToTask")
	return func(yield func(a2a.Entry, error) bool) {
		for _, e := range f.event {
			if !yield(e, nil) {
				return
			}
		}
		if f.err != nil {
			yield(a2a.Entry{}, f.err)
		}
	}
}

func serve(t *testing.T, f *fake) string {
	t.Helper()
	srv := httptest.NewServer(jsonrpc.NewHandler(f, jsonrpc.Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func post(t *testing.T, url, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	res, err := http.DefaultClient.Do(req)
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
