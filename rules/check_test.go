package rules

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
)

const goodTask = `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-02T03:04:05.678Z"},` +
	`"artifacts":[{"artifactId":"a","parts":[{"text":"x"}]}],"history":[{"messageId":"m","role":"ROLE_USER","parts":[{"data":null}]}]}`

// rpc returns an exchange on JSON-RPC.
func rpc(op, answer string, frames ...string) *Exchange {
	x := &Exchange{
		Binding: a2a.BindingJSONRPC, Op: op, Method: "POST", Body: []byte(`{"jsonrpc":"2.0","id":7,"method":"` + op + `","params":{}}`),
		Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Answer: []byte(answer),
	}
	if frames != nil {
		x.Stream, x.Answer, x.Header = true, nil, http.Header{"Content-Type": {"text/event-stream"}}
		for _, f := range frames {
			x.Frames = append(x.Frames, []byte(`{"jsonrpc":"2.0","id":7,"result":`+f+`}`))
		}
	}
	return x
}

func broken(v Verdict) (out []string) {
	for _, f := range v.Findings {
		if !slices.Contains(out, f.Rule) {
			out = append(out, f.Rule)
		}
	}
	slices.Sort(out)
	return out
}

func TestCheck(t *testing.T) {
	ok := func(result string) string { return `{"jsonrpc":"2.0","id":7,"result":` + result + `}` }
	failed := func(e string) string { return `{"jsonrpc":"2.0","id":7,"error":` + e + `}` }
	info := `[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]`
	task := `{"task":` + goodTask + `}`
	update := func(state string) string {
		return `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"` + state + `"}}}`
	}
	working := strings.Replace(task, "COMPLETED", "WORKING", 1)
	for name, c := range map[string]struct {
		x    *Exchange
		want string
	}{
		"good":                    {rpc("GetTask", ok(goodTask)), ""},
		"good error":              {rpc("GetTask", failed(`{"code":-32001,"message":"no","data":`+info+`}`)), ""},
		"good stream":             {rpc("SendStreamingMessage", "", working, update("TASK_STATE_COMPLETED")), ""},
		"an id as a string":       {rpc("GetTask", strings.Replace(ok(goodTask), "7", `"7"`, 1)), "rpc-id"},
		"an id of 1.0":            {rpc("GetTask", strings.Replace(ok(goodTask), `"id":7`, `"id":7.0`, 1)), ""},
		"neither":                 {rpc("GetTask", `{"jsonrpc":"2.0","id":7}`), "rpc-envelope"},
		"a null result":           {rpc("GetTask", ok("null")), "data-types"},
		"a list":                  {rpc("GetTask", `[]`), "rpc-envelope"},
		"not JSON":                {rpc("GetTask", `<html>`), "rpc-envelope"},
		"the wrong code":          {rpc("GetTask", failed(`{"code":-32004,"message":"no","data":`+info+`}`)), "error-rpc-code error-rpc-info"},
		"an empty text":           {rpc("GetTask", ok(strings.Replace(goodTask, `"text":"x"`, `"text":""`, 1))), ""},
		"an empty state":          {rpc("GetTask", ok(strings.Replace(goodTask, "TASK_STATE_COMPLETED", "", 1))), "data-enums"},
		"an unspecified state":    {rpc("GetTask", ok(strings.Replace(goodTask, "TASK_STATE_COMPLETED", "TASK_STATE_UNSPECIFIED", 1))), "data-required"},
		"a field of later":        {rpc("GetTask", ok(`{"later":1,`+goodTask[1:])), ""},
		"metadata may be snakes":  {rpc("GetTask", ok(`{"metadata":{"task_id":1},`+goodTask[1:])), ""},
		"snake_case":              {rpc("GetTask", ok(`{"context_id":"c",`+goodTask[1:])), "data-names"},
		"a leap of a month":       {rpc("GetTask", ok(strings.Replace(goodTask, "2026-01", "2026-13", 1))), "data-times"},
		"microseconds":            {rpc("GetTask", ok(strings.Replace(goodTask, ".678Z", ".678901Z", 1))), ""},
		"no base64":               {rpc("GetTask", ok(strings.Replace(goodTask, `"text":"x"`, `"raw":"%"`, 1))), "data-types"},
		"an empty page":           {rpc("ListTasks", ok(`{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`)), ""},
		"a page's task":           {rpc("ListTasks", ok(`{"tasks":[{"id":"t"}],"nextPageToken":"","pageSize":50,"totalSize":0}`)), "data-required"},
		"an update first":         {rpc("SendStreamingMessage", "", update("TASK_STATE_WORKING"), update("TASK_STATE_COMPLETED")), "stream-first"},
		"after the end":           {rpc("SendStreamingMessage", "", task, update("TASK_STATE_WORKING")), "stream-nothing-after-end"},
		"the final task again":    {rpc("SendStreamingMessage", "", working, update("TASK_STATE_COMPLETED"), task), ""},
		"another task's":          {rpc("SubscribeToTask", "", working, strings.Replace(update("TASK_STATE_WORKING"), `"t"`, `"u"`, 1)), "stream-one-task"},
		"a subscription's update": {rpc("SubscribeToTask", "", update("TASK_STATE_WORKING")), "subscribe-first"},
		"no frame":                {&Exchange{Binding: a2a.BindingREST, Op: "SubscribeToTask", Status: 200, Stream: true, Header: http.Header{"Content-Type": {"text/event-stream"}}}, "subscribe-first"},
		"REST: another status": {&Exchange{
			Binding: a2a.BindingREST, Op: "GetTask", Status: 400, Header: http.Header{"Content-Type": {"application/a2a+json"}},
			Answer: []byte(`{"error":{"code":404,"message":"no","details":` + info + `}}`),
		}, "error-rest-status"},
		"REST: a proxy's 502": {&Exchange{Binding: a2a.BindingREST, Op: "GetTask", Status: 502, Answer: []byte("<html>")}, "error-message"},
		"no answer":           {&Exchange{Binding: a2a.BindingREST, Op: "GetTask", Err: "EOF"}, ""},
	} {
		if got := strings.Join(broken(Check(c.x)), " "); got != c.want {
			t.Errorf("%s: %q, want %q: %+v", name, got, c.want, Check(c.x).Findings)
		}
	}
	open := rpc("SendStreamingMessage", "", task)
	open.Open = true
	if got := broken(Check(open)); !slices.Equal(got, []string{"stream-closes"}) {
		t.Errorf("a stream that goes on: %v", got)
	}
}

// TestGRPC judges the bytes of the proto.
func TestGRPC(t *testing.T) {
	good, err := proto.Marshal(&pb.Task{Id: "t", ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_COMPLETED}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"good": {good, ""}, "no message": {[]byte{0xff}, "grpc-message"}, "unknown": {append(slices.Clone(good), 0xfa, 0x7f, 1, 'x'), "grpc-message"},
		"empty": {nil, "data-required"},
	} {
		x := &Exchange{Binding: a2a.BindingGRPC, Op: "GetTask", Frames: [][]byte{c.b}}
		if got := strings.Join(broken(Check(x)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestClauses holds the data to its form.
func TestClauses(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All {
		if c.ID == "" || c.Section == "" || c.Says == "" || c.Seen == "" || c.Level != Must && c.Level != Should || seen[c.ID] {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
	}
}

// TestNoSecrets shows nothing of credentials.
func TestNoSecrets(t *testing.T) {
	x := rpc("GetTask", "{}")
	x.Sent = http.Header{"Authorization": {"Bearer s3cret"}, "Cookie": {"s3cret"}, "X-Api-Key": {"s3cret"}, "A2a-Version": {"1.0"}}
	x.URL = "https://a.example/?key=s3cret&pageSize=1"
	if got := x.Request() + x.Response(); strings.Contains(got, "s3cret") || !strings.Contains(got, "pageSize=1") || !strings.Contains(got, "A2a-Version: 1.0") {
		t.Error(got)
	}
}

// FuzzCheck takes anything.
func FuzzCheck(f *testing.F) {
	f.Add("GetTask", `{"jsonrpc":"2.0","id":7,"result":`+goodTask+`}`, false)
	f.Add("SendStreamingMessage", `{"jsonrpc":"2.0","id":7,"result":{"task":`+goodTask+`}}`, true)
	f.Add("GetTask", `{"error":{"code":1e99,"details":[null]}}`, false)
	f.Fuzz(func(_ *testing.T, op, data string, stream bool) {
		for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
			x := &Exchange{Binding: binding, Op: op, Status: 200, Body: []byte(data), Answer: []byte(data), Stream: stream, Frames: [][]byte{[]byte(data)}}
			_ = Check(x)
			_ = x.Request() + x.Response()
			x.Status = 404
			_ = Check(x)
		}
	})
}

func ExampleCheck() {
	v := Check(&Exchange{
		Binding: a2a.BindingREST, Op: "GetTask", Status: 200, Header: http.Header{"Content-Type": {"application/a2a+json"}},
		Answer: json.RawMessage(`{"id":"1","contextId":"2","status":{"state":"completed"}}`),
	})
	for _, f := range v.Findings {
		c := ByID(f.Rule)
		fmt.Println(c.Level, c.ID, c.Section+":", f.Path, "is", f.Got+", want", f.Want)
	}
	// Output: MUST data-enums 5.5: status.state is completed, want a name of TaskState
}
