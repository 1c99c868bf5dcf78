package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/jsonrpc"
)

// info is the details of an error that says no more than its kind.
func info(reason string) string {
	return `"data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"a2a-protocol.org"}]}}`
}

func failure(id, code, message, reason string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + code + `,"message":"` + message + `",` + info(reason)
}

func TestEnvelope(t *testing.T) {
	get := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"GetTask","params":{"id":"t1"}}`
	}
	ok := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}}`
	}
	long := `"` + strings.Repeat("x", 1022) + `"`
	const ran, notRun = true, false
	tests := []struct {
		name, in, want string
		ran            bool
	}{
		{"a number", get("7"), ok("7"), ran},
		{"a string", get(`"7"`), ok(`"7"`), ran},
		{"a fraction", get("1.5"), ok("1.5"), ran},
		{"a number keeps its digits", get("1.50e+00"), ok("1.50e+00"), ran},
		{"a big number", get("12345678901234567890"), ok("12345678901234567890"), ran},
		{"an escape stays one", get(`"\u0041\n"`), ok(`"\u0041\n"`), ran},
		{"null", get("null"), ok("null"), ran},
		{"long", get(long), ok(long), ran},
		{"another order", `{"params":{"id":"t1"},"id":1,"method":"GetTask","jsonrpc":"2.0"}`, ok("1"), ran},
		{"space", " {\n\"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\":\"GetTask\",\"params\": {\"id\":\"t1\"} } \n", ok("1"), ran},
		{"another member", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"},"x":{}}`, ok("1"), ran},
		{"snake case", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1","history_length":"2"}}`, ok("1"), ran},

		{"an object as id", get("{}"), failure("null", "-32600", "id must be a string, a number or null", "INVALID_REQUEST"), notRun},
		{"an array as id", get("[1]"), failure("null", "-32600", "id must be a string, a number or null", "INVALID_REQUEST"), notRun},
		{"a boolean as id", get("true"), failure("null", "-32600", "id must be a string, a number or null", "INVALID_REQUEST"), notRun},
		{"too long", get(`"x` + long[1:]), failure("null", "-32600", "id is over the limit of 1024 bytes", "INVALID_REQUEST"), notRun},
		{"broken", `{`, failure("null", "-32700", "invalid JSON at byte 1: unexpected end, a name in quotes is missing", "JSON_PARSE_ERROR"), notRun},
		{
			"broken after the id", `{"jsonrpc":"2.0","id":1,"method":}`,
			failure("null", "-32700", "invalid JSON at byte 33: unexpected '}', want a value", "JSON_PARSE_ERROR"), notRun,
		},
		{
			"bytes behind it", get("1") + "x",
			failure("null", "-32700", "invalid JSON at byte 64: unexpected 'x', want the end", "JSON_PARSE_ERROR"), notRun,
		},
		{"two requests", get("1") + get("2"), failure("null", "-32700", "invalid JSON at byte 64: unexpected '{', want the end", "JSON_PARSE_ERROR"), notRun},
		{
			"no UTF-8", strings.Replace(get("1"), "t1", "\xff", 1),
			failure("null", "-32700", "invalid JSON at byte 59: a string is not UTF-8", "JSON_PARSE_ERROR"), notRun,
		},
		{"empty", ``, failure("null", "-32700", "invalid JSON at byte 0: unexpected end, a value is missing", "JSON_PARSE_ERROR"), notRun},
		{"a batch", "[" + get("1") + "]", failure("null", "-32600", "batches are not supported: send one request at a time", "INVALID_REQUEST"), notRun},
		{"an empty batch", "[]", failure("null", "-32600", "batches are not supported: send one request at a time", "INVALID_REQUEST"), notRun},
		{"a broken batch", "[", failure("null", "-32700", "invalid JSON at byte 1: unexpected end, a value is missing", "JSON_PARSE_ERROR"), notRun},
		{"a string", `"x"`, failure("null", "-32600", "a request is a JSON object", "INVALID_REQUEST"), notRun},
		{"null request", `null`, failure("null", "-32600", "a request is a JSON object", "INVALID_REQUEST"), notRun},
		{
			"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"GetTask"}`,
			failure("1", "-32600", `jsonrpc must be \"2.0\"`, "INVALID_REQUEST"), notRun,
		},
		{"version 2.0 as a number", `{"jsonrpc":2.0,"id":1,"method":"GetTask"}`, failure("1", "-32600", `jsonrpc must be \"2.0\"`, "INVALID_REQUEST"), notRun},
		{"no version", `{"id":"a","method":"GetTask"}`, failure(`"a"`, "-32600", `jsonrpc must be \"2.0\"`, "INVALID_REQUEST"), notRun},
		{"no version, id last", `{"method":"GetTask","id":"a"}`, failure(`"a"`, "-32600", `jsonrpc must be \"2.0\"`, "INVALID_REQUEST"), notRun},
		{"not even a notification", `{"jsonrpc":"2.0"}`, failure("null", "-32600", "method must be a string that names an operation", "INVALID_REQUEST"), notRun},
		{"no method", `{"jsonrpc":"2.0","id":1}`, failure("1", "-32600", "method must be a string that names an operation", "INVALID_REQUEST"), notRun},
		{"a method of another kind", `{"jsonrpc":"2.0","method":5,"id":1}`, failure("1", "-32600", "method must be a string that names an operation", "INVALID_REQUEST"), notRun},
		{"another case", `{"jsonrpc":"2.0","id":1,"Method":"GetTask"}`, failure("1", "-32600", "method must be a string that names an operation", "INVALID_REQUEST"), notRun},
		{
			"a member twice", `{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"CancelTask","params":{"id":"t1"}}`,
			failure("1", "-32600", "method: the name is there twice", "INVALID_REQUEST"), notRun,
		},
		{"the id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}`, failure("1", "-32600", "id: the name is there twice", "INVALID_REQUEST"), notRun},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"getTask"}`, failure("1", "-32601", `there is no method \"getTask\"`, "METHOD_NOT_FOUND"), notRun},
		{
			"a method of 0.3", `{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe"}`,
			failure("1", "-32601", `method \"tasks/resubscribe\" is of protocol version 0.3; this agent speaks 1.0: `+
				`call \"SubscribeToTask\" and send the header \"A2A-Version: 1.0\"`, "METHOD_NOT_FOUND"), notRun,
		},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`, `{"jsonrpc":"2.0","id":1,"result":{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}}`, ran},
		{"null params", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":null}`, `{"jsonrpc":"2.0","id":1,"result":{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}}`, ran},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := new(fake)
			res, got := post(t, serve(t, f), tt.in)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s", res.StatusCode, res.Header.Get("Content-Type"))
			}
			if (len(f.ran) == 1) != tt.ran {
				t.Errorf("%d operations ran", len(f.ran))
			}
		})
	}
}

func TestParams(t *testing.T) {
	tests := []struct{ method, in, field, description string }{
		{"GetTask", `[]`, "params", "must be an object"},
		{"GetTask", `"x"`, "params", "must be an object"},
		{"GetTask", `5`, "params", "must be an object"},
		{"GetTask", `{"id":"t1","historyLength":2147483648}`, "historyLength", "must be between -2147483648 and 2147483647"},
		{"GetTask", `{"id":"t1","id":"t2"}`, "id", "the name is there twice"},
		{"GetTask", `{"id":"t1","historyLength":1,"history_length":2}`, "historyLength", "the name is there twice"},
		{"ListTasks", `{"status":"WORKING"}`, "status", `unknown value \"WORKING\"`},
		{"SendMessage", `{"message":{"parts":[{"text":5}]}}`, "message.parts[0].text", "must be a string, not a number"},
		{"SendMessage", `{"metadata":{"a":{"b":1,"b":2}}}`, "metadata.a.b", "the name is there twice"},
	}
	for _, tt := range tests {
		f := new(fake)
		_, got := post(t, serve(t, f), `{"jsonrpc":"2.0","id":"x","method":"`+tt.method+`","params":`+tt.in+`}`)
		want := `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"` + tt.field + ": " + tt.description + `","data":[` +
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_PARAMS","domain":"a2a-protocol.org"},` +
			`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"` + tt.field + `","description":"` + tt.description + `"}]}]}}`
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.in, got, want)
		}
		if len(f.ran) > 0 {
			t.Errorf("%s: it ran", tt.in)
		}
	}
}

// An error says no more than its HTTP status where it is about the transport, and 200 where it is the protocol's.
func TestErrorStatus(t *testing.T) {
	for code, want := range map[a2a.ErrorCode]int{
		a2a.ErrTaskNotFound: 200, a2a.ErrVersionNotSupported: 200, a2a.ErrInternal: 200, a2a.ErrInvalidParams: 200,
		a2a.ErrUnauthenticated: 401, a2a.ErrPermissionDenied: 403, a2a.ErrRequestTimeout: 408, a2a.ErrTooLarge: 413,
		a2a.ErrUnsupportedMediaType: 415, a2a.ErrResourceExhausted: 429, a2a.ErrUnavailable: 503,
	} {
		res, got := post(t, serve(t, &fake{err: code}), `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`)
		if res.StatusCode != want || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"error":{"code":`) || !strings.Contains(got, code.Reason()) {
			t.Errorf("%v: got %d %s", code.Name(), res.StatusCode, got)
		}
	}
}

func TestNotification(t *testing.T) {
	send := `{"jsonrpc":"2.0","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}}`
	tests := []struct {
		in  string
		err error
		ran int
	}{
		{send, nil, 1},
		{send, errors.New("broken"), 1},
		{send, a2a.ErrUnauthenticated, 1},
		{`{"jsonrpc":"2.0","method":"SubscribeToTask","params":{"id":"t"}}`, nil, 1},
		{`{"jsonrpc":"2.0","method":"SubscribeToTask","params":{"id":"t"}}`, a2a.ErrTaskNotFound, 1},
		{`{"jsonrpc":"2.0","method":"ExtendedCard"}`, nil, 0},
		{`{"jsonrpc":"2.0","method":"GetTask","params":{"id":5}}`, nil, 0},
		{`{"jsonrpc":"2.0","method":"CancelTask","params":{"id":"the fake panics"}}`, nil, 0},
	}
	for _, tt := range tests {
		f := &fake{err: tt.err}
		res, got := post(t, serve(t, f), tt.in)
		if res.StatusCode != http.StatusNoContent || got != "" || len(f.ran) != tt.ran {
			t.Errorf("%s: got %d %q, %d ran", tt.in, res.StatusCode, got, len(f.ran))
		}
	}
}

func TestHTTPMethod(t *testing.T) {
	url := serve(t, new(fake))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete} {
		req, _ := http.NewRequestWithContext(t.Context(), method, url, nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s: got %d, Allow %q", method, res.StatusCode, res.Header.Get("Allow"))
		}
	}
}

func TestStream(t *testing.T) {
	status := &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
	f := &fake{event: []a2a.Entry{
		a2a.NewEntry(1, &a2a.Task{ID: "t", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}),
		{Generation: 2, Event: status, More: true},
		a2a.NewEntry(0, status),
	}}
	url := serve(t, f)
	const request = `{"jsonrpc":"2.0","id":"é","method":"SubscribeToTask","params":{"id":"t"}}`
	want := "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"é\",\"result\":{\"task\":{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n"
	update := "data: {\"jsonrpc\":\"2.0\",\"id\":\"é\",\"result\":{\"statusUpdate\":{\"taskId\":\"t\",\"contextId\":\"c\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\"}}}}\n\n"
	want += "id: 2\n" + update + update
	if res, got := post(t, url, request); got != want || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	f.err = &a2a.Error{Code: a2a.ErrTaskNotFound, Message: "gone"}
	want += "data: " + failure(`"é"`, "-32001", "gone", "TASK_NOT_FOUND") + "\n\n"
	if _, got := post(t, url, request); got != want {
		t.Errorf("a late error:\ngot  %q\nwant %q", got, want)
	}
	f.event = nil
	res, got := post(t, url, request)
	if got != failure(`"é"`, "-32001", "gone", "TASK_NOT_FOUND") || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("an early error: got %v %q", res.Header, got)
	}
}

// The request's memory is used again: nothing decoded from it may point there.
func TestBodiesAreIndependent(t *testing.T) {
	f := new(fake)
	url := serve(t, f)
	send := func(text string) {
		post(t, url, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"`+text+
			`","role":"ROLE_USER","parts":[{"text":"`+text+`"},{"data":"`+text+`"}]},"metadata":{"`+text+`":"`+text+`"}}}`)
	}
	send("aaaa")
	before := string(f.sent[0].AppendJSON(nil))
	send("bbbb")
	if after := string(f.sent[0].AppendJSON(nil)); after != before || strings.Contains(after, "b\"") {
		t.Errorf("it was  %s\nand became %s", before, after)
	}
}

// FuzzEnvelope gives the handler any body: the answer is a response of JSON-RPC 2.0, or nothing to a notification.
func FuzzEnvelope(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`)
	f.Add(`{"id":"x","jsonrpc":"2.0","method":"SubscribeToTask"}`)
	f.Add(`[{"jsonrpc":"2.0","method":"ListTasks"}]`)
	h := jsonrpc.NewHandler(new(fake), jsonrpc.Options{Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusNoContent || w.Header().Get("Content-Type") == "text/event-stream" {
			return
		}
		var res struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  json.RawMessage `json:"result"`
			Error   *struct {
				Code int `json:"code"`
			} `json:"error"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil || res.JSONRPC != "2.0" || res.ID == nil || (res.Result == nil) == (res.Error == nil) {
			t.Errorf("%q: got %d %s, %v", body, w.Code, w.Body, err)
		}
	})
}
