package tap

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
)

const (
	taskJSON    = `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05.678Z"}}`
	completed   = `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`
	working     = `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`
	sendParams  = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}`
	notFoundRPC = `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}`
)

// TestFindings plants one fault at a time, of the agent's or the client's, and wants the one rule that names it.
func TestFindings(t *testing.T) {
	rpc := func(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }
	stream := func(results ...string) string {
		var b strings.Builder
		for _, r := range results {
			b.WriteString("data: " + rpc(r) + "\n\n")
		}
		return b.String()
	}
	task := `{"task":` + taskJSON + `}`
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	sse := []string{"Content-Type", "text/event-stream"}
	for name, c := range map[string]struct {
		path, ask string
		header    []string // of the request
		status    int
		out       []string // header of the answer
		answer    string
		want      string // rules, in the order of the alphabet
		frame     int    // of the first finding; 0: it is about the whole
	}{
		"good":                  {answer: rpc(taskJSON)},
		"a good stream":         {ask: call("SendStreamingMessage", sendParams), out: sse, answer: stream(task, working, completed)},
		"no first task":         {ask: call("SendStreamingMessage", sendParams), out: sse, answer: stream(working, completed), want: "stream-first", frame: 1},
		"after the end":         {ask: call("SendStreamingMessage", sendParams), out: sse, answer: stream(task, completed, working), want: "stream-nothing-after-end", frame: 3},
		"an empty stream":       {ask: call("SendStreamingMessage", sendParams), out: sse, answer: ": hello\n\n", want: "stream-first"},
		"a broken frame":        {ask: call("SendStreamingMessage", sendParams), out: sse, answer: stream(task) + "data: {\"jsonrpc\n\n", want: "rpc-envelope stream-framing", frame: 2},
		"a line that is none":   {ask: call("SendStreamingMessage", sendParams), out: sse, answer: "hello\n" + stream(task, completed), want: "stream-framing"},
		"another id":            {answer: strings.Replace(rpc(taskJSON), `"id":1`, `"id":2`, 1), want: "rpc-id"},
		"a good error":          {answer: notFoundRPC},
		"an error of no shape":  {answer: `{"jsonrpc":"2.0","id":1,"error":"no"}`, want: "error-message error-rpc-object"},
		"an error without info": {answer: `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`, want: "error-rpc-info"},
		"a state of 0.3":        {answer: rpc(strings.Replace(taskJSON, "TASK_STATE_WORKING", "working", 1)), want: "data-enums"},
		"text/plain":            {out: []string{"Content-Type", "text/plain"}, answer: rpc(taskJSON), want: "rpc-media-type"},
		"no version":            {header: []string{"A2A-Version", ""}, answer: rpc(taskJSON), want: "client-version"},
		"a method of 0.3":       {ask: call("tasks/get", `{"id":"t"}`), answer: notFoundRPC, want: "client-method"},
		"no message":            {ask: call("SendMessage", `{}`), answer: notFoundRPC, want: "client-params"},
		"snake_case":            {ask: call("SendMessage", strings.Replace(sendParams, `"messageId":"m"`, `"messageId":"m","context_id":"c"`, 1)), answer: notFoundRPC, want: "client-params"},
		"no request at all":     {ask: `{"half`, answer: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, want: "client-envelope"},
		"the wrong media type":  {header: []string{"Content-Type", "text/json"}, answer: rpc(taskJSON), want: "client-media-type"},
		"no such path":          {path: "/rest/tasks:nothing", ask: `{}`, header: []string{"Content-Type", "application/a2a+json"}, status: 404, answer: `{"error":{"code":404,"message":"no"}}`, want: "client-path"},
		"a REST error":          {path: "/rest/message:send", ask: sendParams, header: []string{"Content-Type", "application/a2a+json"}, status: 400, answer: `{"code":400}`, want: "error-message error-rest-body"},
		"a REST stream":         {path: "/rest/message:stream", ask: sendParams, header: []string{"Content-Type", "application/a2a+json"}, out: sse, answer: "data: " + working + "\n\ndata: " + completed + "\n\n", want: "stream-first", frame: 1},
		"gRPC": {
			path: "/lf.a2a.v1.A2AService/GetTask", ask: string(message(t, &pb.GetTaskRequest{Id: "t"})), header: []string{"Content-Type", "application/grpc"},
			out: []string{"Content-Type", "application/grpc", http.TrailerPrefix + "Grpc-Status", "0"}, answer: string(appendMessage(nil, []byte{0xff})), want: "grpc-message",
			frame: 1,
		},
		"gRPC's wrong status": {
			path: "/lf.a2a.v1.A2AService/GetTask", ask: string(message(t, &pb.GetTaskRequest{Id: "t"})), header: []string{"Content-Type", "application/grpc"},
			out: []string{"Content-Type", "application/grpc", "Grpc-Status", "5", "Grpc-Message", ""}, want: "error-message",
		},
		"no method of gRPC's": {
			path: "/lf.a2a.v1.A2AService/Nothing", ask: string(appendMessage(nil, nil)), header: []string{"Content-Type", "application/grpc"},
			out: []string{"Content-Type", "application/grpc", "Grpc-Status", "12", "Grpc-Message", "no%20such"}, want: "client-method",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				for i := 0; i < len(c.out); i += 2 {
					w.Header().Set(c.out[i], c.out[i+1])
				}
				w.WriteHeader(max(c.status, 200))
				_, _ = io.WriteString(w, c.answer)
			})
			var log bytes.Buffer
			tap := startTapOn(t, cfg, func(cfg *Config) { cfg.Log = logTo(&log) })
			path, ask := c.path, c.ask
			if path == "" {
				path = "/rpc"
			}
			if ask == "" {
				ask = call("GetTask", `{"id":"t"}`)
			}
			post(t, tap.url+path, ask, c.header...)
			x := tap.until(t, func(x *Exchange) bool { return x.Done })
			var got []string
			for _, f := range x.All() {
				if !slices.Contains(got, f.Rule) {
					got = append(got, f.Rule)
				}
				if f.Section == "" || f.Says == "" || f.Level == "" || f.Client != strings.HasPrefix(f.Rule, "client-") {
					t.Errorf("a finding that does not explain itself: %+v", f)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("found %q, want %q: %+v", got, c.want, x.All())
			}
			if c.frame > 0 && (len(x.Frames) < c.frame || len(x.Frames[c.frame-1].Findings) == 0) {
				t.Errorf("frame %d has no finding", c.frame)
			}
			_ = tap.rec.Close()
			for _, rule := range got {
				if !strings.Contains(log.String(), "rule="+rule) {
					t.Errorf("the log has no %s: %s", rule, log.String())
				}
			}
			if s := tap.rec.Status(); s.Must+s.Should != len(x.All()) || s.Exchanges != 1 {
				t.Errorf("the status is %+v", s)
			}
		})
	}
}

func message(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return appendMessage(nil, b)
}

// TestCompressed has an agent compress its answers: they pass compressed, and are read for the record.
func TestCompressed(t *testing.T) {
	answer := "data: " + `{"task":` + taskJSON + `}` + "\n\n"
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			w.WriteHeader(400)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped(t, answer))
	})
	tap := startTapOn(t, cfg, nil)
	if res, body := post(t, tap.url+"/rest/message:stream", sendParams, "Accept-Encoding", "gzip"); body != string(zipped(t, answer)) {
		t.Errorf("%v, %q", res.Header, body)
	}
	x := tap.until(t, done("SendStreamingMessage"))
	if len(x.Frames) != 1 || !strings.Contains(x.Note, "compressed with gzip") {
		t.Errorf("recorded %+v", x)
	}
}

// TestWindow has more pass than memory takes: the oldest go, the last stay, and readers by version miss nothing in between.
func TestWindow(t *testing.T) {
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Repeat(" ", 1000)+`{}`)
	})
	tap := startTapOn(t, cfg, func(c *Config) { c.Recording.MaxExchanges = 10 })
	for i := range 30 {
		post(t, fmt.Sprintf("%s/rest/tasks/%d", tap.url, i), "")
	}
	tap.until(t, func(x *Exchange) bool { return x.ID == 30 && x.Done })
	all := tap.rec.Exchanges(0, 0)
	if len(all) != 10 || tap.rec.Exchange(20) != nil || tap.rec.Exchange(21) == nil || tap.rec.bytes < 10*perExchange || tap.rec.bytes > 10*(perExchange+1100) {
		t.Errorf("%d exchanges and %d bytes are in memory", len(all), tap.rec.bytes)
	}
	if next := tap.rec.Exchanges(all[4].Version, 3); len(next) != 3 || next[0] != all[5] {
		t.Errorf("after %d come %d", all[4].Version, len(next))
	}
}

// TestInFront has the recorder in front of a host's own handler, without a proxy.
func TestInFront(t *testing.T) {
	rec, err := NewRecorder(Options{Card: &a2a.AgentCard{SupportedInterfaces: []*a2a.AgentInterface{
		{URL: "https://agent.example/", ProtocolBinding: a2a.BindingJSONRPC}, {URL: "https://agent.example/a2a/rest", ProtocolBinding: a2a.BindingREST},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	url := serveHandler(t, rec.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("on purpose")
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "ok")
	})))
	post(t, url+"/a2a/rest/tasks/t:cancel", `{}`)
	if x := untilExchange(t, rec, done("CancelTask")); x.Binding != a2a.BindingREST || x.Task != "t" || string(x.Response) != "ok" {
		t.Errorf("recorded %+v", x)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/panic", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
		t.Error("a panic became an answer")
	}
	if x := untilExchange(t, rec, func(x *Exchange) bool { return x.ID == 2 && x.Done }); x.Kind != KindOther || x.Err != handlerBust {
		t.Errorf("recorded %+v", x)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	post(t, url+"/", `{}`) // after its end it lets everything pass
}
