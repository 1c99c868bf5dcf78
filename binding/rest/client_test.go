package rest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/rest"
)

func TestClientRequest(t *testing.T) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("Content-Type"), " ", string(body))
	}))
	defer srv.Close()
	c := rest.NewClient(srv.URL+"/rest/?key=1", rest.ClientOptions{})
	two, yes := int32(2), true
	msg := &a2a.SendMessageRequest{Tenant: "a/b", Message: &a2a.Message{MessageID: "m"}}
	tests := []struct {
		call func()
		want string
	}{
		{
			func() { _, _ = c.SendMessage(t.Context(), msg) },
			`POST /rest/a%2Fb/message:send?key=1 application/a2a+json {"tenant":"a/b","message":{"messageId":"m","role":"ROLE_UNSPECIFIED","parts":[]}}`,
		},
		{
			func() { _, _ = c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "x:y", HistoryLength: &two}) },
			`GET /rest/tasks/x%3Ay?key=1&historyLength=2  `,
		},
		{
			func() {
				_, _ = c.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: "é&", IncludeArtifacts: &yes, Status: a2a.TaskStateFailed})
			},
			`GET /rest/tasks?key=1&contextId=%C3%A9%26&includeArtifacts=true&status=TASK_STATE_FAILED  `,
		},
		{
			func() { _, _ = c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "t"}) },
			`POST /rest/tasks/t:cancel?key=1 application/a2a+json {"id":"t"}`,
		},
		{
			func() {
				for _, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t"}) {
					if err == nil {
						t.Error("an empty answer is a stream")
					}
				}
			},
			`POST /rest/tasks/t:subscribe?key=1  `,
		},
		{
			func() {
				_, _ = c.DeleteTaskPushNotificationConfig(t.Context(), &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"})
			},
			`DELETE /rest/tasks/t/pushNotificationConfigs/p?key=1  `,
		},
	}
	for _, tt := range tests {
		tt.call()
		if got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	got = ""
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id}); !errors.Is(err, a2a.ErrInvalidParams) || got != "" {
			t.Errorf("id %q: got %v, sent %q", id, err, got)
		}
	}
}

// A server that does not know a subscription by POST is asked by GET, and no other one.
func TestSubscribeWithEitherMethod(t *testing.T) {
	const found = "data: {\"task\":{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}\n\n"
	info := func(reason string) string {
		return `{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"a2a-protocol.org"}]}}`
	}
	tests := []struct {
		name   string
		status int
		body   string
		want   []string // the methods that were used
		err    error
	}{
		{"405", 405, "", []string{"POST", "GET"}, nil},
		{"a bare 404", 404, "404 page not found", []string{"POST", "GET"}, nil},
		{"a 404 without ErrorInfo", 404, `{"error":{"code":404,"status":"NOT_FOUND","message":"m"}}`, []string{"POST", "GET"}, nil},
		{"an unknown path", 404, info("METHOD_NOT_FOUND"), []string{"POST", "GET"}, nil},
		{"an unknown task", 404, info("TASK_NOT_FOUND"), []string{"POST"}, a2a.ErrTaskNotFound},
		{"a finished task", 400, info("UNSUPPORTED_OPERATION"), []string{"POST"}, a2a.ErrUnsupportedOperation},
		{"500", 500, "", []string{"POST"}, a2a.ErrInternal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Method)
				if r.Method == http.MethodPost {
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, tt.body)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, found)
			}))
			defer srv.Close()
			n := 0
			var last error
			for _, err := range rest.NewClient(srv.URL, rest.ClientOptions{}).SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t"}) {
				last = err
				n++
			}
			if !slices.Equal(got, tt.want) || !errors.Is(last, tt.err) || n != 1 {
				t.Errorf("used %q, got %d events and %v", got, n, last)
			}
		})
	}
}

// The code of an error is that of its reason, else of its status word, else of its HTTP status.
func TestClientErrors(t *testing.T) {
	detail := func(domain, reason string) string {
		return `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"` + domain + `"}`
	}
	tests := []struct {
		status int
		body   string
		want   a2a.ErrorCode
		text   string
	}{
		{400, `{"error":{"message":"m","details":[` + detail("a2a-protocol.org", "TASK_NOT_CANCELABLE") + `]}}`, a2a.ErrTaskNotCancelable, "m"},
		{400, `{"error":{"message":"m","details":[5,` + detail("googleapis.com", "TASK_NOT_CANCELABLE") + `]}}`, a2a.ErrInvalidParams, "m"},
		{400, `{"error":{"status":"FAILED_PRECONDITION","message":"m"}}`, a2a.ErrUnsupportedOperation, "m"},
		{404, `{"error":{"status":"NOT_FOUND","message":"m"}}`, a2a.ErrTaskNotFound, "m"},
		{409, `{"error":{"message":"m"}}`, a2a.ErrInvalidRequest, "m"},
		{503, `{"error":"odd"}`, a2a.ErrUnavailable, `the server answered with HTTP status 503 Service Unavailable: "{\"error\":\"odd\"}"`},
		{200, ``, a2a.ErrInvalidAgentResponse, "invalid answer: the result of CancelTask: invalid JSON at byte 0: unexpected end, a value is missing"},
		{200, `<html>`, a2a.ErrInvalidAgentResponse, "invalid answer: the result of CancelTask: invalid JSON at byte 0: unexpected '<', want a value"},
		{200, ` { "error":{"code":404,"status":"NOT_FOUND","message":"m"}}`, a2a.ErrTaskNotFound, "m"},
		{200, `{"error":5}`, a2a.ErrInvalidAgentResponse, `invalid answer: an error that cannot be read: "{\"error\":5}"`},
	}
	for _, tt := range tests {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		task, err := rest.NewClient(srv.URL, rest.ClientOptions{}).CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "t"})
		srv.Close()
		if !errors.Is(err, tt.want) || err.Error() != tt.text || task != nil {
			t.Errorf("%d %s: got %v", tt.status, tt.body, err)
		}
	}
}

func TestDeleteWithoutABody(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer srv.Close()
	c := rest.NewClient(srv.URL, rest.ClientOptions{})
	if _, err := c.DeleteTaskPushNotificationConfig(t.Context(), &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"}); err != nil {
		t.Error(err)
	}
	if task, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "t"}); !errors.Is(err, a2a.ErrInvalidAgentResponse) {
		t.Errorf("a task that is not there: got %v, %v", task, err)
	}
}
