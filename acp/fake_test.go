package acp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is the fake agent too: a program that does what its prompt says, and that shares no code with the
// package.

func TestMain(m *testing.M) {
	if word := os.Getenv("PARLEY_FAKE_AGENT"); word != "" {
		fake(word)
		return
	}
	os.Exit(m.Run())
}

type object = map[string]any

type fakeAgent struct {
	word string // how it begins
	mu   sync.Mutex
	out  *bufio.Writer

	waiting map[string]chan json.RawMessage
	cancel  map[string]chan struct{}
	next    int
}

func fake(word string) {
	switch word {
	case "dies":
		fmt.Fprintln(os.Stderr, "no license found, key=abcdef123")
		os.Exit(3)
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "closed":
		os.Stdout.Close()
		select {}
	}
	a := &fakeAgent{word: word, out: bufio.NewWriterSize(os.Stdout, 64<<10), waiting: map[string]chan json.RawMessage{}, cancel: map[string]chan struct{}{}}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		if m.Method == "" {
			a.mu.Lock()
			c := a.waiting[string(m.ID)]
			a.mu.Unlock()
			if m.Result == nil {
				m.Result = m.Error
			}
			c <- m.Result
			continue
		}
		a.handle(m.ID, m.Method, m.Params)
	}
}

func (a *fakeAgent) send(m object) {
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(append(b, '\n'))
	_ = a.out.Flush()
}

// request asks the client. Its ids begin at 0, like those of real agents.
func (a *fakeAgent) request(method string, params any) <-chan json.RawMessage {
	a.mu.Lock()
	id := fmt.Sprint(a.next)
	a.next++
	c := make(chan json.RawMessage, 1)
	a.waiting[id] = c
	a.mu.Unlock()
	a.send(object{"id": json.RawMessage(id), "method": method, "params": params})
	return c
}

func (a *fakeAgent) handle(id json.RawMessage, method string, params json.RawMessage) {
	var p struct {
		SessionID string
		Cwd       string
		Prompt    []json.RawMessage
	}
	_ = json.Unmarshal(params, &p)
	switch method {
	case "initialize":
		version := 1
		if a.word == "version 2" {
			version = 2
		}
		caps := object{"loadSession": a.word == "loads", "promptCapabilities": object{"image": a.word == "sees"}}
		if a.word == "resumes" {
			caps["sessionCapabilities"] = object{"resume": object{}}
		}
		a.send(object{"id": id, "result": object{
			"protocolVersion": version, "agentCapabilities": caps,
			"authMethods": []object{{"id": "login", "name": "Log in"}},
		}})
	case "session/new":
		if a.word == "logged out" {
			if _, err := os.Stat(p.Cwd + "/logged-in"); err != nil {
				a.send(object{"id": id, "error": object{"code": -32000, "message": "Authentication required"}})
				return
			}
		}
		result := object{"sessionId": fmt.Sprintf("s-%d", os.Getpid())}
		if a.word == "unguarded" {
			result["modes"] = object{"currentModeId": "yolo", "availableModes": []object{}}
		}
		a.send(object{"id": id, "result": result})
	case "session/load":
		a.update(p.SessionID, object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": "REPLAY"}})
		a.send(object{"id": id, "result": nil})
	case "session/resume":
		a.send(object{"id": id, "result": object{}})
	case "session/cancel":
		a.mu.Lock()
		if c := a.cancel[p.SessionID]; c != nil {
			close(c)
			delete(a.cancel, p.SessionID)
		}
		a.mu.Unlock()
	case "session/prompt":
		stop := make(chan struct{})
		a.mu.Lock()
		a.cancel[p.SessionID] = stop
		a.mu.Unlock()
		go a.prompt(id, p.SessionID, p.Prompt, stop)
	default:
		a.send(object{"id": id, "error": object{"code": -32601, "message": "no such method"}})
	}
}

func (a *fakeAgent) update(session string, update object) {
	a.send(object{"method": "session/update", "params": object{"sessionId": session, "update": update}})
}

func (a *fakeAgent) say(session, text string) {
	a.update(session, object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}})
}

// long says n times ten bytes in one line, without the cost of a writer of JSON.
func (a *fakeAgent) long(session string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = fmt.Fprintf(a.out, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`, session)
	for range n {
		_, _ = a.out.WriteString("0123456789")
	}
	_, _ = a.out.WriteString("\"}}}}\n")
	_ = a.out.Flush()
}

var permissionOptions = []object{
	{"optionId": "yes-once", "name": "Yes", "kind": "allow_once"},
	{"optionId": "yes-always", "name": "Always", "kind": "allow_always"},
	{"optionId": "no", "name": "No", "kind": "reject_once"},
}

func (a *fakeAgent) ask(session, call string) <-chan json.RawMessage {
	return a.request("session/request_permission", object{
		"sessionId": session, "options": permissionOptions,
		"toolCall": object{"toolCallId": call, "title": "Delete " + call, "kind": "edit", "status": "pending"},
	})
}

// prompt does what the first block says.
func (a *fakeAgent) prompt(id json.RawMessage, s string, blocks []json.RawMessage, stop <-chan struct{}) {
	var first struct{ Text string }
	_ = json.Unmarshal(blocks[0], &first)
	end := func(reason string) { a.send(object{"id": id, "result": object{"stopReason": reason}}) }
	switch first.Text {
	case "session":
		a.say(s, s)
	case "blocks":
		for _, b := range blocks[1:] {
			a.say(s, string(b)+"\n")
		}
	case "permission":
		a.say(s, "before. ")
		a.update(s, object{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Delete  c1", "kind": "edit", "status": "pending", "rawInput": object{"path": "x"}})
		result := string(<-a.ask(s, "c1"))
		a.say(s, "after: "+result)
		if strings.Contains(result, "cancelled") {
			end("cancelled")
			return
		}
		a.update(s, object{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": strings.Repeat("x", 100_000)})
	case "two permissions":
		one, two := a.ask(s, "c1"), a.ask(s, "c2")
		a.say(s, fmt.Sprintf("%s %s", <-one, <-two))
	case "die at permission":
		a.ask(s, "c1")
		time.AfterFunc(100*time.Millisecond, func() { os.Exit(9) })
		return
	case "burst":
		for i := range 5000 {
			a.say(s, fmt.Sprintf("%04d\n", i))
		}
	case "long":
		a.long(s, 6_000_000)
	case "too long":
		a.long(s, 7_000_000)
	case "twice":
		a.say(s, "once")
		end("end_turn")
		end("refusal")
		a.say(s, "late")
		return
	case "unknown":
		_, _ = os.Stdout.WriteString("this is no message\n")
		a.update(s, object{"sessionUpdate": "from_the_future", "content": 7})
		a.update(s, object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "hologram"}})
		a.update(s, object{"sessionUpdate": 7})
		a.update("another", object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": "STRAY"}})
		a.say(s, string(<-a.request("fs/read_text_file", object{"path": "/etc/passwd"})))
	case "hang":
		a.say(s, "hanging")
		<-stop
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		a.say(s, "hanging")
		select {}
	case "die":
		a.say(s, "last words")
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(7)
	case "error":
		a.send(object{"id": id, "error": object{"code": -32603, "message": "Internal error", "data": object{"details": "model overloaded"}}})
		return
	case "refuse":
		end("refusal")
		return
	case "tokens":
		a.say(s, "half")
		end("max_tokens")
		return
	case "cancels itself":
		end("cancelled")
		return
	case "usage":
		a.update(s, object{"sessionUpdate": "usage_update", "used": 10, "size": 100})
		a.update(s, object{"sessionUpdate": "session_info_update", "title": "A title"})
	case "mode":
		a.update(s, object{"sessionUpdate": "current_mode_update", "currentModeId": "bypassPermissions"})
		<-stop
	case "thoughts":
		a.update(s, object{"sessionUpdate": "agent_thought_chunk", "content": object{"type": "text", "text": "hmm"}})
	case "plan":
		for _, status := range []string{"pending", "in_progress", "completed"} {
			a.update(s, object{"sessionUpdate": "plan", "entries": []object{{"content": "Step one", "priority": "high", "status": status}}})
		}
	case "diff":
		a.update(s, object{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Edit", "content": []object{
			{"type": "diff", "path": "/x/a.txt", "oldText": "1\n2\n3\n4\n5\n6\n", "newText": "1\n2\n3\n4\nfive\n6\n"},
			{"type": "diff", "path": "/x/new.txt", "newText": "no end"},
		}})
	case "form":
		a.say(s, string(<-a.request("elicitation/create", object{
			"sessionId": s, "mode": "form", "message": "Your name?",
			"requestedSchema": object{"type": "object", "properties": object{"name": object{"type": "string"}}, "required": []string{"name"}},
		})))
	case "url":
		a.say(s, string(<-a.request("elicitation/create", object{"sessionId": s, "mode": "url", "elicitationId": "e", "message": "Log in", "url": "https://example.com/login"})))
	default:
		a.say(s, "You said: "+first.Text)
	}
	end("end_turn")
}
