package jsonrpc_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/jsonrpc"
)

func TestClientRequest(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Content-Type"), " ", r.Header.Get("Accept"), " ",
			r.Header.Get("A2A-Version"), " ", string(body)))
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`, len(got))
	}))
	defer srv.Close()
	c := jsonrpc.NewClient(srv.URL+"/rpc?key=1", jsonrpc.ClientOptions{})
	if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "t"}); err != nil {
		t.Error(err)
	}
	for _, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t"}) {
		if err != nil {
			t.Log(err) // a plain result in place of a stream: only the request counts here
		}
	}
	want := []string{
		`POST /rpc?key=1 application/json application/json 1.0 {"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`,
		`POST /rpc?key=1 application/json text/event-stream, application/json 1.0 {"jsonrpc":"2.0","id":2,"method":"SubscribeToTask","params":{"id":"t"}}`,
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

// What is not a response to the request is an error that says so.
func TestClientResponse(t *testing.T) {
	const result = `"result":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}`
	const failed = `"error":{"code":-32001,"message":"gone"}`
	tests := []struct {
		in   string
		want a2a.ErrorCode // 0: none
		text string
	}{
		{`{"jsonrpc":"2.0","id":1,` + result + `}`, 0, ""},
		{`{` + result + `,"id":1,"jsonrpc":"2.0","x":1}`, 0, ""},
		{`{"jsonrpc":"2.0","id":1,` + result + `,"error":null}`, 0, ""},
		{`{"jsonrpc":"2.0","id":1,` + failed + `}`, a2a.ErrTaskNotFound, "gone"},
		{`{"jsonrpc":"2.0","id":1,` + failed + `,"result":null}`, a2a.ErrTaskNotFound, "gone"},
		{`{"jsonrpc":"2.0","id":null,` + failed + `}`, a2a.ErrTaskNotFound, "gone"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"gone","data":"odd"}}`, a2a.ErrTaskNotFound, "gone"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"gone","data":[5,{"@type":7,"metadata":[]}]}}`, a2a.ErrTaskNotFound, "gone"},
		{`{"jsonrpc":"2.0","id":1,"error":{"message":"no code"}}`, a2a.ErrInternal, "no code"},
		{`{"jsonrpc":"2.0","id":2,` + result + `}`, a2a.ErrInvalidAgentResponse, "id"},
		{`{"jsonrpc":"2.0","id":"1",` + result + `}`, a2a.ErrInvalidAgentResponse, "id"},
		{`{"jsonrpc":"2.0","id":null,` + result + `}`, a2a.ErrInvalidAgentResponse, "id"},
		{`{"jsonrpc":"2.0",` + result + `}`, a2a.ErrInvalidAgentResponse, "id"},
		{`{"jsonrpc":"2.0","id":2,` + failed + `}`, a2a.ErrInvalidAgentResponse, "id"},
		{`{"jsonrpc":"1.0","id":1,` + result + `}`, a2a.ErrInvalidAgentResponse, "JSON-RPC 2.0"},
		{`{"id":1,` + result + `}`, a2a.ErrInvalidAgentResponse, "JSON-RPC 2.0"},
		{`{"jsonrpc":"2.0","id":1,` + result + `,` + failed + `}`, a2a.ErrInvalidAgentResponse, "exactly one of result and error"},
		{`{"jsonrpc":"2.0","id":1}`, a2a.ErrInvalidAgentResponse, "exactly one of result and error"},
		{`{"jsonrpc":"2.0","id":1,"result":5}`, a2a.ErrInvalidAgentResponse, "must be an object"},
		{`{"jsonrpc":"2.0","id":1,"result":{"id":5}}`, a2a.ErrInvalidAgentResponse, "id: must be a string"},
		{`{"jsonrpc":"2.0","id":1,` + result + `}x`, a2a.ErrInvalidAgentResponse, "invalid JSON"},
		{`{"jsonrpc":"2.0","id":1,` + result + `,` + result + `}`, a2a.ErrInvalidAgentResponse, "twice"},
		{`[]`, a2a.ErrInvalidAgentResponse, "JSON-RPC 2.0"},
		{`<html>`, a2a.ErrInvalidAgentResponse, `"<html>"`},
		{``, a2a.ErrInvalidAgentResponse, "no body"},
	}
	for _, tt := range tests {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.in) }))
		task, err := jsonrpc.NewClient(srv.URL, jsonrpc.ClientOptions{}).GetTask(t.Context(), &a2a.GetTaskRequest{ID: "t"})
		srv.Close()
		switch {
		case tt.want == 0:
			if err != nil || task.ID != "t" {
				t.Errorf("%s: got %v, %v", tt.in, task, err)
			}
		case !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || task != nil:
			t.Errorf("%s: got %v", tt.in, err)
		}
	}
}
