package rest_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/rest"
)

const message = `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"x"}]}}`

// Requests that work, as what the service is asked.
func TestRequests(t *testing.T) {
	withTenant := `{"tenant":"T",` + message[1:]
	tests := []struct{ line, body, want string }{
		{"POST /message:send", message, "SendMessage " + message},
		{"POST /message:send", "", "SendMessage {}"},
		{"POST /message:stream", message, "SendStreamingMessage " + message},
		{"POST /T/message:send", message, "SendMessage " + withTenant},
		{"POST /T/message:send", withTenant, "SendMessage " + withTenant},
		{"POST /message:send?tenant=T", message, "SendMessage " + withTenant},
		{"POST /T/message:send?tenant=T&x=y", message, "SendMessage " + withTenant},
		{"GET /tasks/t1", "-", `GetTask {"id":"t1"}`},
		{"GET /tasks/t1?historyLength=2", "-", `GetTask {"id":"t1","historyLength":2}`},
		{"GET /tasks/t1?history_length=0", "-", `GetTask {"id":"t1","historyLength":0}`},
		{"GET /tasks/t1?historyLength=-1", "-", `GetTask {"id":"t1","historyLength":-1}`}, // the service refuses it
		{"GET /tasks/t1?id=t2&unknown=1&unknown=2", "-", `GetTask {"id":"t1"}`},
		{"GET /T/tasks/t1", "-", `GetTask {"tenant":"T","id":"t1"}`},
		{"GET /tasks/t1?tenant=T", "-", `GetTask {"tenant":"T","id":"t1"}`},
		{"GET /tasks/a:b", "-", `GetTask {"id":"a:b"}`},
		{"GET /tasks/a%3Acancel", "-", `GetTask {"id":"a:cancel"}`},
		{"GET /tasks/a%2Fb%20c%C3%A9", "-", `GetTask {"id":"a/b cé"}`},
		{"GET /tasks/tasks", "-", `GetTask {"id":"tasks"}`},
		{"GET /tasks/message:send", "-", `GetTask {"id":"message:send"}`},
		{"GET /tasks", "-", `ListTasks {}`},
		{"GET /tasks?", "-", `ListTasks {}`},
		{"GET /T%2F1/tasks", "-", `ListTasks {"tenant":"T/1"}`},
		{
			"GET /tasks?contextId=true&status=TASK_STATE_WORKING&pageSize=5&pageToken=a%2Bb&historyLength=1" +
				"&statusTimestampAfter=2026-01-31T14:00:00%2B02:00&includeArtifacts=true", "-",
			`ListTasks {"contextId":"true","status":"TASK_STATE_WORKING","pageSize":5,"pageToken":"a+b","historyLength":1,` +
				`"statusTimestampAfter":"2026-01-31T12:00:00.000Z","includeArtifacts":true}`,
		},
		{"GET /tasks?context_id=c&page_size=5&include_artifacts=false", "-", `ListTasks {"contextId":"c","pageSize":5,"includeArtifacts":false}`},
		{"POST /tasks/t1:cancel", "-", `CancelTask {"id":"t1"}`},
		{"POST /tasks/t1:cancel", "", `CancelTask {"id":"t1"}`},
		{"POST /tasks/t1:cancel", "{}", `CancelTask {"id":"t1"}`},
		{"POST /tasks/t1:cancel", "null", `CancelTask {"id":"t1"}`},
		{"POST /tasks/t1:cancel", `{"id":"t1","metadata":{"a":1}}`, `CancelTask {"id":"t1","metadata":{"a":1}}`},
		{"POST /T/tasks/t1:cancel", `{"tenant":""}`, `CancelTask {"tenant":"T","id":"t1"}`},
		{"POST /tasks/a:b:cancel", "-", `CancelTask {"id":"a:b"}`},
		{"POST /tasks/a%3Acancel:cancel", "-", `CancelTask {"id":"a:cancel"}`},
		{"POST /tasks/t1:subscribe", "-", `SubscribeToTask {"id":"t1"}`},
		{"POST /tasks/t1:subscribe", "null", `SubscribeToTask {"id":"t1"}`},
		{"GET /tasks/t1:subscribe", "-", `SubscribeToTask {"id":"t1"}`},
		{"GET /T/tasks/t1:subscribe", "-", `SubscribeToTask {"tenant":"T","id":"t1"}`},
		{"POST /tasks/t1/pushNotificationConfigs", `{"url":"u"}`, `CreateTaskPushNotificationConfig {"taskId":"t1","url":"u"}`},
		{"GET /tasks/t1/pushNotificationConfigs/p:1", "-", `GetTaskPushNotificationConfig {"taskId":"t1","id":"p:1"}`},
		{"GET /tasks/t1/pushNotificationConfigs?pageSize=3", "-", `ListTaskPushNotificationConfigs {"taskId":"t1","pageSize":3}`},
		{"GET /tasks/tasks/pushNotificationConfigs", "-", `ListTaskPushNotificationConfigs {"taskId":"tasks"}`},
		{"GET /T/tasks/t1/pushNotificationConfigs/p1", "-", `GetTaskPushNotificationConfig {"tenant":"T","taskId":"t1","id":"p1"}`},
		{"DELETE /tasks/t1/pushNotificationConfigs/p1", "-", `DeleteTaskPushNotificationConfig {"taskId":"t1","id":"p1"}`},
		{"GET /extendedAgentCard", "-", `GetExtendedAgentCard {}`},
		{"GET /T/extendedAgentCard", "-", `GetExtendedAgentCard {"tenant":"T"}`},
	}
	for _, tt := range tests {
		f := new(fake)
		var headers []string
		if tt.body != "-" && tt.body != "" {
			headers = []string{"Content-Type: application/a2a+json; charset=UTF-8"}
		}
		res, got := send(t, serve(t, f), tt.line, tt.body, headers...)
		if res.StatusCode != http.StatusOK || !slices.Equal(f.ran, []string{tt.want}) {
			t.Errorf("%s %s: %d %s\ngot  %q\nwant %q", tt.line, tt.body, res.StatusCode, got, f.ran, tt.want)
		}
	}
}

// Requests that are refused before the service is asked, as the whole answer.
func TestRefused(t *testing.T) {
	tests := []struct {
		line, body      string
		status          int
		reason, message string
		allow           string
	}{
		{"GET /", "-", 404, "METHOD_NOT_FOUND", "there is no operation at this path", ""},
		{"GET /task", "-", 404, "METHOD_NOT_FOUND", "there is no operation at this path", ""},
		{"GET /tasks/", "-", 404, "METHOD_NOT_FOUND", "there is no operation at this path", ""},
		{"POST /tasks/:cancel", "-", 404, "METHOD_NOT_FOUND", "there is no operation at this path", ""},
		{"GET //tasks", "-", 404, "METHOD_NOT_FOUND", "there is no operation at this path", ""},
		{"GET /a/b/c/d/e/f/g", "-", 404, "METHOD_NOT_FOUND", "there is no operation at this path", ""},
		{"POST /message:sends", message, 404, "METHOD_NOT_FOUND", "there is no operation at this path", ""},
		{"GET /message:send", "-", 405, "METHOD_NOT_ALLOWED", "HTTP method GET is not allowed here, use POST", "POST"},
		{"GET /tasks/t1:cancel", "-", 405, "METHOD_NOT_ALLOWED", "HTTP method GET is not allowed here, use POST", "POST"},
		{"PUT /tasks/t1:subscribe", "-", 405, "METHOD_NOT_ALLOWED", "HTTP method PUT is not allowed here, use GET, POST", "GET, POST"},
		{"OPTIONS /tasks", "-", 405, "METHOD_NOT_ALLOWED", "HTTP method OPTIONS is not allowed here, use GET", "GET"},
		{"POST /tasks/t1", "{}", 405, "METHOD_NOT_ALLOWED", "HTTP method POST is not allowed here, use GET", "GET"},
		{"PATCH /T/tasks/t1/pushNotificationConfigs/p1", "-", 405, "METHOD_NOT_ALLOWED", "HTTP method PATCH is not allowed here, use DELETE, GET", "DELETE, GET"},
		{"POST /message:send", "{", 400, "JSON_PARSE_ERROR", "invalid JSON at byte 1: unexpected end, a name in quotes is missing", ""},
		{"POST /message:send", message + "x", 400, "JSON_PARSE_ERROR", "invalid JSON at byte 72: unexpected 'x', want the end", ""},
		{"GET /tasks?pageSize=%zz", "-", 400, "INVALID_PARAMS", "the query is not URL-encoded", ""},
		{"GET /tasks?a;b", "-", 400, "INVALID_PARAMS", "the query is not URL-encoded", ""},
	}
	for _, tt := range tests {
		f := new(fake)
		res, got := send(t, serve(t, f), tt.line, tt.body, "Content-Type: application/json")
		status := map[int]string{404: "UNIMPLEMENTED", 405: "UNIMPLEMENTED", 400: "INVALID_ARGUMENT"}[tt.status]
		want := `{"error":{"code":` + res.Status[:3] + `,"status":"` + status + `","message":"` + tt.message + `","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + tt.reason + `","domain":"a2a-protocol.org"}]}}`
		if res.StatusCode != tt.status || got != want || res.Header.Get("Allow") != tt.allow || f.ran != nil {
			t.Errorf("%s %s:\ngot  %d %q %s\nwant %s", tt.line, tt.body, res.StatusCode, res.Header.Get("Allow"), got, want)
		}
	}
}

// Fields that are wrong, wherever they stand, by name.
func TestInvalidFields(t *testing.T) {
	tests := []struct{ line, body, field, description string }{
		{"POST /message:send", `[]`, "", "must be an object, not an array"},
		{"POST /message:send", `{"message":{"role":"USER"}}`, "message.role", `unknown value \"USER\"`},
		{"POST /message:send", `{"message":{},"message":{}}`, "message", "the name is there twice"},
		{"GET /tasks/t1?historyLength=2147483648", "-", "historyLength", "must be between -2147483648 and 2147483647"},
		{"GET /tasks/t1?historyLength=x", "-", "historyLength", "must be a whole number"},
		{"GET /tasks/t1?historyLength=", "-", "historyLength", "must be a whole number"},
		{"GET /tasks/t1?historyLength=1&historyLength=1", "-", "historyLength", "is in the query more than once"},
		{"GET /tasks/t1?historyLength=1&history_length=1", "-", "historyLength", "is in the query more than once"},
		{"GET /tasks?status=working", "-", "status", `unknown value \"working\"`},
		{"GET /tasks?includeArtifacts=True", "-", "includeArtifacts", "must be true or false, not a string"},
		{"GET /tasks?statusTimestampAfter=5", "-", "statusTimestampAfter", "must be an RFC 3339 time such as 2026-01-31T12:00:00Z"},
		{"GET /tasks?contextId=%FF", "-", "contextId", "is not UTF-8"},
		{"GET /tasks/%FF", "-", "id", "is not UTF-8"},
		{"GET /tasks?tenant=a&tenant=b", "-", "tenant", "is in the query more than once"},
		{"GET /A/tasks?tenant=B", "-", "tenant", `is \"A\" in one place of the request and \"B\" in another`},
		{"POST /A/message:send", `{"tenant":"B"}`, "tenant", `is \"B\" in one place of the request and \"A\" in another`},
		{"POST /tasks/t1:cancel", `{"id":"t2"}`, "id", `is \"t2\" in one place of the request and \"t1\" in another`},
		{
			"POST /tasks/t1/pushNotificationConfigs", `{"task_id":"t2","url":"u"}`, "taskId",
			`is \"t2\" in one place of the request and \"t1\" in another`,
		},
	}
	for _, tt := range tests {
		f := new(fake)
		res, got := send(t, serve(t, f), tt.line, tt.body, "Content-Type: application/json")
		text := tt.field + ": " + tt.description
		if tt.field == "" {
			text = tt.description
		}
		want := `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"` + text + `","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_PARAMS","domain":"a2a-protocol.org"},` +
			`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"` + tt.field + `","description":"` + tt.description + `"}]}]}}`
		if res.StatusCode != http.StatusBadRequest || got != want || f.ran != nil {
			t.Errorf("%s %s:\ngot  %d %s\nwant %s", tt.line, tt.body, res.StatusCode, got, want)
		}
	}
}

func TestMediaType(t *testing.T) {
	const a2aJSON, json = "application/a2a+json", "application/json"
	tests := []struct{ contentType, accept, result, failure string }{
		{"", "", a2aJSON, json},
		{"", "*/*", a2aJSON, json},
		{"", json, json, json},
		{"", a2aJSON, a2aJSON, a2aJSON},
		{"", "application/json, application/a2a+json;q=0.5", a2aJSON, a2aJSON},
		{"", "text/html, application/json;q=0.9", json, json},
		{json, "", json, json},
		{json + "; charset=utf-8", "*/*", json, json},
		{json, a2aJSON, a2aJSON, a2aJSON},
		{a2aJSON, "", a2aJSON, json},
		{a2aJSON, json, json, json},
	}
	for _, tt := range tests {
		f := new(fake)
		url := serve(t, f)
		headers := []string{"Accept: " + tt.accept}
		if tt.contentType != "" {
			headers = append(headers, "Content-Type: "+tt.contentType)
		}
		res, _ := send(t, url, "POST /tasks/t1:cancel", "", headers...)
		if got := res.Header.Get("Content-Type"); got != tt.result {
			t.Errorf("%+v: a result is %s", tt, got)
		}
		f.err = a2a.ErrTaskNotFound
		res, _ = send(t, url, "POST /tasks/t1:cancel", "", headers...)
		if got := res.Header.Get("Content-Type"); got != tt.failure {
			t.Errorf("%+v: an error is %s", tt, got)
		}
	}
}

// Without a body no media type is needed, with one it is.
func TestBodyWithoutMediaType(t *testing.T) {
	for body, want := range map[string]int{"": 200, "-": 200, "{}": 415} {
		if res, got := send(t, serve(t, new(fake)), "POST /tasks/t1:cancel", body); res.StatusCode != want {
			t.Errorf("%q: got %d %s", body, res.StatusCode, got)
		}
	}
	f := new(fake)
	res, _ := send(t, serve(t, f), "POST /tasks/t1:cancel", "", "Content-Type: application/x-www-form-urlencoded")
	if res.StatusCode != 415 || f.ran != nil {
		t.Errorf("a form: got %d, ran %q", res.StatusCode, f.ran)
	}
}

func TestAnswers(t *testing.T) {
	for line, want := range map[string]string{
		"GET /tasks/t": `{"id":"t","status":{"state":"TASK_STATE_WORKING"}}`,
		"GET /tasks":   `{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}`,
		"DELETE /tasks/t/pushNotificationConfigs/p": `{}`,
		"HEAD /tasks/t": ``,
	} {
		res, got := send(t, serve(t, new(fake)), line, "-")
		if got != want || (res.StatusCode == 200) == strings.HasPrefix(line, "HEAD") {
			t.Errorf("%s: got %d %s", line, res.StatusCode, got)
		}
	}
	f := new(fake)
	_, got := send(t, serve(t, f), "POST /message:send", message, "Content-Type: application/json")
	if want := `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestStream(t *testing.T) {
	status := &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
	f := &fake{event: []a2a.Entry{a2a.NewEntry(1, task), {Generation: 2, Event: status, More: true}, a2a.NewEntry(0, status)}}
	url := serve(t, f)
	want := "id: 1\ndata: {\"task\":{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}\n\n"
	update := "data: {\"statusUpdate\":{\"taskId\":\"t\",\"contextId\":\"c\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\"}}}\n\n"
	want += "id: 2\n" + update + update
	if res, got := send(t, url, "GET /tasks/t:subscribe", "-"); got != want || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	f.err = &a2a.Error{Code: a2a.ErrUnsupportedOperation, Message: "over"}
	failure := `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"over","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]}}`
	if _, got := send(t, url, "POST /tasks/t:subscribe", "-"); got != want+"data: "+failure+"\n\n" {
		t.Errorf("a late error: got %q", got)
	}
	f.event = nil
	if res, got := send(t, url, "POST /tasks/t:subscribe", "-"); got != failure || res.StatusCode != 400 {
		t.Errorf("an early error: got %d %q", res.StatusCode, got)
	}
}

func TestBelowAPrefix(t *testing.T) {
	f := new(fake)
	srv := httptest.NewServer(http.StripPrefix("/a2a/rest", rest.NewHandler(f, rest.Options{})))
	defer srv.Close()
	c := rest.NewClient(srv.URL+"/a2a/rest/", rest.ClientOptions{})
	if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{Tenant: "a/b", ID: "x/y:cancel"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{`GetTask {"tenant":"a/b","id":"x/y:cancel"}`}; !slices.Equal(f.ran, want) {
		t.Errorf("got %q", f.ran)
	}
}
