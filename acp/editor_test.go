package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/acp"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/internal/child/childtest"
)

// editor is an editor at the other end of Serve.
type editor struct {
	t      *testing.T
	in     io.Writer
	out    *bufio.Scanner
	next   int
	said   strings.Builder // chunks of messages
	kinds  []string        // of updates
	choose string          // the answer to a request for permission; "": cancel the turn
}

// edit serves the host's agent to an editor, over a real connection.
func edit(t *testing.T, h *host) *editor {
	t.Helper()
	return editUntil(context.Background(), t, h)
}

// editUntil is edit for Serve with a context.
func editUntil(ctx context.Context, t *testing.T, h *host) *editor {
	t.Helper()
	web := httptest.NewServer(h.host)
	t.Cleanup(web.Close)
	card := *h.host.Card()
	card.SupportedInterfaces = []*a2a.AgentInterface{{URL: web.URL + "/", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}}
	c, err := client.Dial(&client.Card{AgentCard: &card, URL: web.URL}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- acp.Serve(ctx, c, inR, outW, acp.ServeOptions{Card: &card}) }()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	e := &editor{t: t, in: inW, out: bufio.NewScanner(outR)}
	e.out.Buffer(nil, 1<<20)
	return e
}

func (e *editor) write(m object) {
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.in.Write(append(b, '\n')); err != nil {
		e.t.Fatal(err)
	}
}

// call sends a request and returns its answer, result or error, as text.
func (e *editor) call(method string, params object) string {
	e.t.Helper()
	id := e.next
	e.next++
	e.write(object{"id": id, "method": method, "params": params})
	for e.out.Scan() {
		var m struct {
			ID            *int
			Method        string
			Params        json.RawMessage
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(e.out.Bytes(), &m); err != nil {
			e.t.Fatal(err)
		}
		switch {
		case m.Method == "session/request_permission":
			e.kinds = append(e.kinds, "permission")
			result := object{"outcome": "selected", "optionId": e.choose}
			if e.choose == "" {
				var p struct{ SessionID string }
				_ = json.Unmarshal(m.Params, &p)
				e.write(object{"method": "session/cancel", "params": object{"sessionId": p.SessionID}})
				result = object{"outcome": "cancelled"}
			}
			e.write(object{"id": m.ID, "result": object{"outcome": result}})
		case m.Method != "":
			e.update(m.Params)
		case m.ID != nil && *m.ID == id:
			if m.Error != nil {
				return string(m.Error)
			}
			return string(m.Result)
		}
	}
	e.t.Fatalf("%s has no answer: %v", method, e.out.Err())
	return ""
}

func (e *editor) update(params json.RawMessage) {
	var p struct {
		Update struct {
			SessionUpdate string
			Content       json.RawMessage
		}
	}
	if err := json.Unmarshal(params, &p); err != nil {
		e.t.Fatal(err)
	}
	kind := p.Update.SessionUpdate
	var content struct{ Text string }
	if len(p.Update.Content) > 0 && p.Update.Content[0] == '{' {
		_ = json.Unmarshal(p.Update.Content, &content)
	}
	if kind == "agent_message_chunk" {
		e.said.WriteString(content.Text)
	}
	if len(e.kinds) == 0 || e.kinds[len(e.kinds)-1] != kind {
		e.kinds = append(e.kinds, kind)
	}
}

func (e *editor) session() string {
	e.t.Helper()
	if got := e.call("initialize", object{"protocolVersion": 1}); !strings.Contains(got, `"protocolVersion":1`) || !strings.Contains(got, `"loadSession":true`) {
		e.t.Fatalf("initialize: %s", got)
	}
	var s struct{ SessionID string }
	if err := json.Unmarshal([]byte(e.call("session/new", object{"cwd": "/", "mcpServers": []any{}})), &s); err != nil {
		e.t.Fatal(err)
	}
	return s.SessionID
}

// prompt sends a text and returns the answer and what was said.
func (e *editor) prompt(session, text string) (answer, said string) {
	e.t.Helper()
	e.said.Reset()
	e.kinds = nil
	answer = e.call("session/prompt", object{"sessionId": session, "prompt": []object{{"type": "text", "text": text}}})
	return answer, e.said.String()
}

func TestEditor(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	e := edit(t, h)
	s := e.session()
	for _, c := range []struct{ prompt, choose, answer, said, kinds string }{
		{"hello", "", `"end_turn"`, "You said: hello", "agent_message_chunk"},
		{
			"permission", "yes-once", `"end_turn"`, `before. after: {"outcome":{"outcome":"selected","optionId":"yes-once"}}`,
			"agent_message_chunk tool_call permission agent_message_chunk tool_call_update",
		},
		{"permission", "no", `"end_turn"`, `before. after: {"outcome":{"outcome":"selected","optionId":"no"}}`, "permission"},
		{"permission", "", `"cancelled"`, "before. ", "permission"},
		{"refuse", "", `"refusal"`, "The agent refused to go on.", "agent_message_chunk"},
		{"error", "", "model overloaded", "", ""},
		{"plan", "", `"end_turn"`, "", "plan"},
		{"thoughts", "", `"end_turn"`, "", "agent_thought_chunk"},
		{"form", "", `"end_turn"`, "Your name?", "agent_message_chunk"},
		{"Ada", "", `"end_turn"`, `{"action":"accept","content":{"name":"Ada"}}`, "agent_message_chunk"},
	} {
		e.choose = c.choose
		answer, said := e.prompt(s, c.prompt)
		if kinds := strings.Join(e.kinds, " "); !strings.Contains(answer, c.answer) || !strings.Contains(said, c.said) || !strings.Contains(kinds, c.kinds) {
			t.Errorf("%s, %q: %s %q (%s)", c.prompt, c.choose, answer, said, kinds)
		}
	}
	if got := e.call("no/such", nil); !strings.Contains(got, "-32601") {
		t.Errorf("an unknown method: %s", got)
	}
	if got, _ := e.prompt("another", "x"); !strings.Contains(got, "no session") {
		t.Errorf("an unknown session: %s", got)
	}

	later := edit(t, h)
	later.call("initialize", object{"protocolVersion": 1})
	if got := later.call("session/load", object{"sessionId": s, "cwd": "/", "mcpServers": []any{}}); got != "{}" {
		t.Errorf("load: %s", got)
	}
	if said := later.said.String(); !strings.HasPrefix(said, "You said: hello") || !strings.Contains(strings.Join(later.kinds, " "), "user_message_chunk") {
		t.Errorf("loaded: %q %v", said, later.kinds)
	}
	if _, said := later.prompt(s, "hello"); said != "You said: hello" {
		t.Errorf("after the load: %q", said)
	}
}

func TestEditorCancels(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	e := edit(t, h)
	s := e.session()
	go func() { // once the agent is at work
		childtest.Eventually(t, "the agent is at work", func() bool {
			page, err := h.svc.ListTasks(context.Background(), &a2a.ListTasksRequest{Status: a2a.TaskStateWorking})
			return err == nil && len(page.Tasks) == 1
		})
		_, _ = e.in.Write([]byte(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"` + s + `"}}` + "\n"))
	}()
	if answer, _ := e.prompt(s, "hang"); !strings.Contains(answer, `"cancelled"`) {
		t.Errorf("the answer is %s", answer)
	}
	if _, said := e.prompt(s, "hello"); said != "You said: hello" {
		t.Errorf("after a cancel: %q", said)
	}
}

// An option that was not offered ends the turn, and the question stays open for the next prompt.
func TestEditorChoosesWhatWasNotOffered(t *testing.T) {
	e := edit(t, serve(t, "plain", acp.Config{}))
	s := e.session()
	e.choose = "nonsense"
	answer, _ := e.prompt(s, "permission")
	if !strings.Contains(answer, "-32602") || !strings.Contains(answer, `option \"nonsense\", which was not offered`) {
		t.Errorf("the answer is %s", answer)
	}
	if answer, said := e.prompt(s, "yes-once"); !strings.Contains(answer, "end_turn") || !strings.Contains(said, `"optionId":"yes-once"`) {
		t.Errorf("the next prompt: %s %q", answer, said)
	}
}

// What is no message, or comes too early, is answered by an error.
func TestEditorBrokenLines(t *testing.T) {
	e := edit(t, serve(t, "plain", acp.Config{}))
	for _, c := range []struct{ line, id, code string }{
		{`not json`, `null`, `-32700`},
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}", `null`, `-32700`},
		{`[]`, `null`, `-32600`},
		{`{}`, `null`, `-32600`},
		{`5`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":5}`, `5`, `-32600`},
		{`{"jsonrpc":"2.0","id":"a","method":3}`, `"a"`, `-32600`},
		{`{"jsonrpc":"1.0","id":6,"method":"initialize"}`, `6`, `-32600`},
		{`{"id":6,"method":"initialize"}`, `6`, `-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"initialize"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":8,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`, `8`, `-32600`},
		{`{"jsonrpc":"2.0","id":99,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":9,"method":"no/such"}`, `9`, `-32600`}, // answers are not answered
	} {
		if _, err := io.WriteString(e.in, c.line+"\n"); err != nil {
			t.Fatal(err)
		}
		if !e.out.Scan() {
			t.Fatalf("%s: %v", c.line, e.out.Err())
		}
		got := e.out.Text()
		if !strings.Contains(got, `"id":`+c.id) || !strings.Contains(got, `"code":`+c.code) {
			t.Errorf("%s: %s, want the id %s and %s", c.line, got, c.id, c.code)
		}
	}
	if _, said := e.prompt(e.session(), "hello"); said != "You said: hello" {
		t.Errorf("after them: %q", said)
	}
}

// A block that the agent does not take is the editor's mistake, not a failure inside.
func TestEditorSendsAnImageTooMany(t *testing.T) {
	p, err := parley.New(parley.Config{Name: "Text", Log: slog.New(slog.DiscardHandler), DefaultInputModes: []string{"text/plain"}},
		agent.Func(func(context.Context, *agent.Request, *agent.Updater) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown(context.Background()) })
	e := edit(t, &host{host: p, svc: p.Service()})
	got := e.call("session/prompt", object{"sessionId": e.session(), "prompt": []object{{"type": "image", "data": "AAAA", "mimeType": "image/png"}}})
	if !strings.Contains(got, "-32602") {
		t.Errorf("the answer is %s", got)
	}
}

// An editor that goes away, or whose process is stopped, cancels what is at work for it.
func TestEditorGoes(t *testing.T) {
	for _, prompt := range []string{"hang", "permission"} {
		for _, how := range []string{"closes stdin", "stops"} {
			t.Run(prompt+", "+how, func(t *testing.T) {
				h := serve(t, "plain", acp.Config{})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				e := editUntil(ctx, t, h)
				e.write(object{"id": 99, "method": "session/prompt", "params": object{
					"sessionId": e.session(), "prompt": []object{{"type": "text", "text": prompt}},
				}})
				state := func(want a2a.TaskState) {
					t.Helper()
					childtest.Eventually(t, "the task is "+want.String(), func() bool {
						page, err := h.svc.ListTasks(context.Background(), &a2a.ListTasksRequest{Status: want})
						return err == nil && len(page.Tasks) == 1
					})
				}
				if prompt == "hang" {
					state(a2a.TaskStateWorking)
				} else {
					for !strings.Contains(e.out.Text(), "session/request_permission") && e.out.Scan() {
					}
				}
				if how == "stops" {
					stop()
				} else if err := e.in.(io.Closer).Close(); err != nil {
					t.Fatal(err)
				}
				state(a2a.TaskStateCanceled)
			})
		}
	}
}
