// Package acp runs the example agents of other ACP SDKs behind parley serve --acp, and the way back through parley acp.
package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/internal/child/childtest"

	// The host is another process: this makes go test see when its code has changed.
	_ "github.com/parley-a2a/parley/internal/cli"
)

// peer is an agent of another SDK.
type peer struct {
	name    string
	command []string
	says    string // what it says first
}

// peers returns the agents that can run here, and the parley binary: PARLEY_BIN, or one that is built. Without node the
// agent of the TypeScript SDK is left out, but not on CI.
func peers(t *testing.T) (bin string, all []peer) {
	t.Helper()
	dir := t.TempDir()
	if bin = os.Getenv("PARLEY_BIN"); bin == "" {
		bin = filepath.Join(dir, "parley")
		run(t, "go", "build", "-o", bin, "github.com/parley-a2a/parley/cmd/parley")
	}
	example := filepath.Join(dir, "example-agent")
	run(t, "go", "-C", filepath.Join("..", "go"), "build", "-o", example, "github.com/coder/acp-go-sdk/example/agent")
	all = append(all, peer{"Go", []string{example}, "ACP Go Example Agent"})
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is not installed: CI must run this suite")
		}
		t.Log("node is not installed: install Node 20 or newer to run the agent of the TypeScript SDK")
		return bin, all
	}
	script, err := filepath.Abs(filepath.Join("node_modules", "@agentclientprotocol", "sdk", "dist", "examples", "agent.js"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(script); err != nil {
		run(t, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	}
	return bin, append(all, peer{"TypeScript", []string{"node", script}, "I'll help you with that."})
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// host is parley serve with an agent behind it.
type host struct {
	url string
	cmd *exec.Cmd
}

// serve starts a host whose programs have a mark in their environment.
func serve(t *testing.T, bin string, p peer, store, mark string) *host {
	t.Helper()
	args := []string{"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "none", "--store", store, "--env", mark, "--dir", t.TempDir()}
	args = append(append(args, "--acp", "command", "--"), p.command...)
	h := &host{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), bin, args...)}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.end(t) })
	line, err := bufio.NewReader(out).ReadString('\n')
	m := regexp.MustCompile(` at (\S+) `).FindStringSubmatch(line)
	if err != nil || m == nil {
		t.Fatalf("parley serve said %q: %v", line, err)
	}
	h.url = m[1]
	return h
}

// end ends the host in an orderly way. To call it again does nothing.
func (h *host) end(t *testing.T) {
	t.Helper()
	if h.cmd.ProcessState != nil {
		return
	}
	if err := errors.Join(h.cmd.Process.Signal(syscall.SIGTERM), h.cmd.Wait()); err != nil {
		t.Error(err)
	}
}

func (h *host) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(t.Context(), h.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c *client.Client, task *a2a.Task, text string) *a2a.Task {
	t.Helper()
	m := &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)}}
	if task != nil {
		m.TaskID = task.ID
	}
	res, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	return res.(*a2a.Task) //nolint:forcetypeassert // the bridge makes tasks
}

// asks begins a turn, up to the agent's request for a permission.
func asks(t *testing.T, c *client.Client, p peer) *a2a.Task {
	t.Helper()
	task := send(t, c, nil, "change something")
	wants(t, task, a2a.TaskStateInputRequired, p.says)
	var q struct {
		RequestID string
		Options   []struct{ OptionID, Name string }
	}
	for _, part := range task.Status.Message.Parts {
		if d, ok := part.Content.(a2a.Data); ok {
			if err := json.Unmarshal(d, &q); err != nil {
				t.Fatal(err)
			}
		}
	}
	if q.RequestID == "" || len(q.Options) != 2 || q.Options[0].OptionID != "allow" {
		t.Errorf("the question is %s", task.Status.Message.AppendJSON(nil))
	}
	return task
}

// wants fails unless a task is in a state, with a text in its response.
func wants(t *testing.T, task *a2a.Task, state a2a.TaskState, says string) {
	t.Helper()
	var response string
	for _, a := range task.Artifacts {
		if a.ArtifactID == "response" {
			response = a.Text()
		}
	}
	if task.Status.State != state || !strings.Contains(response, says) {
		t.Fatalf("%v %q with the response %q, want %v with %q", task.Status.State, task.Status.Message.Text(), response, state, says)
	}
}

// TestExampleAgents: a turn with a permission that is answered, refused, canceled, and asked for again by a host that was
// restarted; and no process is left of any.
func TestExampleAgents(t *testing.T) {
	bin, all := peers(t)
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			mark := childtest.Mark(t)
			t.Run("cases", func(t *testing.T) {
				t.Run("allowed", func(t *testing.T) {
					t.Parallel()
					c := serve(t, bin, p, "memory:", mark).client(t)
					wants(t, send(t, c, asks(t, c, p), "allow"), a2a.TaskStateCompleted, "Perfect!")
				})
				t.Run("refused", func(t *testing.T) {
					t.Parallel()
					c := serve(t, bin, p, "memory:", mark).client(t)
					task := asks(t, c, p)
					wants(t, send(t, c, task, "maybe"), a2a.TaskStateInputRequired, p.says)
					wants(t, send(t, c, task, "reject"), a2a.TaskStateCompleted, "I'll skip the configuration update.")
				})
				t.Run("canceled", func(t *testing.T) {
					t.Parallel()
					c := serve(t, bin, p, "memory:", mark).client(t)
					task, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: asks(t, c, p).ID})
					if err != nil {
						t.Fatal(err)
					}
					wants(t, task, a2a.TaskStateCanceled, p.says)
				})
				t.Run("restarted", func(t *testing.T) {
					t.Parallel()
					store := "sqlite:" + filepath.Join(t.TempDir(), "tasks.db")
					first := serve(t, bin, p, store, mark)
					task := asks(t, first.client(t), p)
					first.end(t)
					c := serve(t, bin, p, store, mark).client(t)
					task = send(t, c, task, "allow") // it was the other process that asked
					wants(t, task, a2a.TaskStateInputRequired, p.says)
					wants(t, send(t, c, task, "allow"), a2a.TaskStateCompleted, "Perfect!")
				})
			})
		})
	}
}

// transcript is what an editor sees of a turn, but for ids and for how texts and progress are cut.
type transcript struct {
	Text    string
	Tools   map[string]tool // by title
	Asked   []string
	Stopped string
}

type tool struct{ Kind, Status string }

// TestLoop: an editor that speaks with an agent through A2A sees what it sees without.
func TestLoop(t *testing.T) {
	bin, all := peers(t)
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			direct := edit(t, p.command)
			h := serve(t, bin, p, "memory:", childtest.Mark(t))
			through := edit(t, []string{bin, "acp", "-a", h.url})
			if direct.Stopped != "end_turn" || len(direct.Asked) != 3 || len(direct.Tools) != 2 {
				t.Errorf("the agent's own transcript is %+v", direct)
			}
			if !reflect.DeepEqual(direct, through) {
				t.Errorf("direct  %+v\nthrough %+v", direct, through)
			}
		})
	}
}

// edit is an editor: it starts an ACP agent, gives it one prompt and allows what it asks.
func edit(t *testing.T, command []string) transcript {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // not all agents end well
	}()
	e := &editor{in: in, titles: map[string]string{}, seen: transcript{Tools: map[string]tool{}}}
	e.request(1, "initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if e.read(t, lines.Bytes()) {
			return e.seen
		}
	}
	t.Fatalf("the agent ended: %v, after %+v", lines.Err(), e.seen)
	return e.seen
}

type editor struct {
	in     io.Writer
	titles map[string]string // of tools, by id
	seen   transcript
}

func (e *editor) write(v map[string]any) {
	v["jsonrpc"] = "2.0"
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of maps and strings
	}
	_, _ = e.in.Write(append(b, '\n')) // an agent that is gone is seen by its output
}

func (e *editor) request(id int, method string, params map[string]any) {
	e.write(map[string]any{"id": id, "method": method, "params": params})
}

// read does what a line says, and reports whether the turn is over.
func (e *editor) read(t *testing.T, line []byte) bool {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Update struct {
				SessionUpdate, ToolCallID, Title, Kind, Status string
				Content                                        json.RawMessage
			}
			ToolCall struct{ Title string }
			Options  []struct{ OptionID, Name, Kind string }
		}
		Result struct{ SessionID, StopReason string }
		Error  json.RawMessage
	}
	if err := json.Unmarshal(line, &m); err != nil || m.Error != nil {
		t.Fatalf("%s: %v", line, err)
	}
	switch {
	case m.Method == "session/update":
		u := &m.Params.Update
		switch u.SessionUpdate {
		case "agent_message_chunk":
			var text struct{ Text string }
			if err := json.Unmarshal(u.Content, &text); err != nil {
				t.Fatal(err)
			}
			e.seen.Text += text.Text
		case "tool_call", "tool_call_update":
			if u.Title != "" {
				e.titles[u.ToolCallID] = u.Title
			}
			title := e.titles[u.ToolCallID]
			was := e.seen.Tools[title]
			e.seen.Tools[title] = tool{or(u.Kind, was.Kind), or(u.Status, was.Status)}
		}
	case m.Method == "session/request_permission":
		e.seen.Asked = append(e.seen.Asked, m.Params.ToolCall.Title)
		for _, o := range m.Params.Options {
			e.seen.Asked = append(e.seen.Asked, o.OptionID+" "+o.Name+" "+o.Kind)
		}
		e.write(map[string]any{"id": m.ID, "result": map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "allow"}}})
	case m.Result.StopReason != "":
		e.seen.Stopped = m.Result.StopReason
		return true
	case m.Result.SessionID != "":
		e.request(3, "session/prompt", map[string]any{
			"sessionId": m.Result.SessionID, "prompt": []any{map[string]any{"type": "text", "text": "change something"}},
		})
	case string(m.ID) == "1":
		e.request(2, "session/new", map[string]any{"cwd": os.TempDir(), "mcpServers": []any{}})
	}
	return false
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
