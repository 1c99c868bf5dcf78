package acp_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/acp"
	"github.com/parley-a2a/parley/internal/child/childtest"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

// host serves the fake agent, and checks at the end that nothing of it is left.
type host struct {
	t     *testing.T
	svc   a2a.Service
	host  *parley.Host
	agent *acp.Agent
	store taskstore.Store
	mark  string
	cfg   acp.Config
}

// serve serves the fake agent that begins as word says.
func serve(t *testing.T, word string, cfg acp.Config) *host {
	t.Helper()
	childtest.Goroutines(t, "parley/acp.", "parley/internal/child.")
	h := &host{t: t, mark: childtest.Mark(t), store: taskstore.NewMemory(taskstore.MemoryOptions{})}
	cfg.Args = []string{os.Args[0]}
	cfg.Env = append(cfg.Env, h.mark, "PARLEY_FAKE_AGENT="+word)
	cfg.Log = slog.New(slog.DiscardHandler)
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Cancel == 0 {
		cfg.Cancel = time.Second
	}
	if cfg.Grace == 0 {
		cfg.Grace = 200 * time.Millisecond
	}
	h.cfg = cfg
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *host) start() {
	h.t.Helper()
	var err error
	if h.agent, err = acp.New(h.cfg); err != nil {
		h.t.Fatal(err)
	}
	h.host, err = parley.New(parley.Config{
		Name: "Fake", Log: h.cfg.Log, Store: h.store, Times: server.Times{Silence: time.Minute},
		DefaultInputModes: []string{"*/*"}, Extensions: []*a2a.AgentExtension{{URI: acp.ThoughtsExtension}},
	}, h.agent)
	if err != nil {
		h.t.Fatal(err)
	}
	h.svc = h.host.Service()
}

func (h *host) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	h.host.Shutdown(ctx)
	h.agent.Close()
}

// restart ends the host with its programs, and starts it again with its tasks.
func (h *host) restart() {
	h.t.Helper()
	h.stop()
	h.start()
}

func message(task, contextID string, parts ...*a2a.Part) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: uuid.NewString(), TaskID: task, ContextID: contextID, Role: a2a.RoleUser, Parts: parts,
	}, Configuration: &a2a.SendMessageConfiguration{}}
}

// send sends parts and returns the task as it is when it ended or asks.
func (h *host) send(task, contextID string, parts ...*a2a.Part) *a2a.Task {
	h.t.Helper()
	result, err := h.svc.SendMessage(h.t.Context(), message(task, contextID, parts...))
	if err != nil {
		h.t.Fatal(err)
	}
	return result.(*a2a.Task)
}

func (h *host) say(text string) *a2a.Task { h.t.Helper(); return h.send("", "", a2a.TextPart(text)) }

func (h *host) answer(task *a2a.Task, text string) *a2a.Task {
	h.t.Helper()
	return h.send(task.ID, "", a2a.TextPart(text))
}

// begin sends a text and returns the task once the agent has said something.
func (h *host) begin(text string) *a2a.Task {
	h.t.Helper()
	var task a2a.Task
	for e, err := range h.svc.SendStreamingMessage(h.t.Context(), message("", "", a2a.TextPart(text))) {
		if err != nil {
			h.t.Fatal(err)
		}
		task.Apply(e.Event)
		if len(task.Artifacts) > 0 {
			break
		}
	}
	return &task
}

func (h *host) get(task *a2a.Task) *a2a.Task {
	h.t.Helper()
	got, err := h.svc.GetTask(h.t.Context(), &a2a.GetTaskRequest{ID: task.ID})
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func (h *host) cancel(task *a2a.Task) *a2a.Task {
	h.t.Helper()
	got, err := h.svc.CancelTask(h.t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func (h *host) processes() int { return len(childtest.Processes(h.t, h.mark)) }

func wants(t *testing.T, task *a2a.Task, state a2a.TaskState, text string) {
	t.Helper()
	if task.Status.State != state || !strings.Contains(task.Status.Message.Text(), text) {
		t.Errorf("the task is %v %q, want %v with %q", task.Status.State, task.Status.Message.Text(), state, text)
	}
}

// response is the text of an artifact.
func response(task *a2a.Task, id string) string {
	for _, a := range task.Artifacts {
		if a.ArtifactID == id {
			return a.Text()
		}
	}
	return ""
}

func says(t *testing.T, task *a2a.Task, text string) {
	t.Helper()
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := response(task, "response"); got != text {
		t.Errorf("the response is %.500q, want %q", got, text)
	}
}

// data returns the data of a status message.
func data(m *a2a.Message) string {
	if m != nil {
		for _, p := range m.Parts {
			if d, ok := p.Content.(a2a.Data); ok {
				return string(d)
			}
		}
	}
	return ""
}

func TestTurn(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	task := h.say("hello")
	says(t, task, "You said: hello")
	first := h.send("", task.ContextID, a2a.TextPart("session"))
	second := h.send("", task.ContextID, a2a.TextPart("session"))
	other := h.say("session")
	if a, b, c := response(first, "response"), response(second, "response"), response(other, "response"); a == "" || a != b || a == c {
		t.Errorf("the sessions are %q and %q, and of another context %q", a, b, c)
	}
	if n := h.processes(); n != 2 {
		t.Errorf("%d programs run for 2 contexts", n)
	}
}

func TestPermission(t *testing.T) {
	for answer, want := range map[string]string{
		"allow": `"optionId":"yes-once"`, "Deny": `"optionId":"no"`, "yes-always": `"optionId":"yes-always"`,
	} {
		t.Run(answer, func(t *testing.T) {
			h := serve(t, "plain", acp.Config{})
			task := h.say("permission")
			wants(t, task, a2a.TaskStateInputRequired, "Delete c1")
			if d := data(task.Status.Message); !strings.Contains(d, `"requestId"`) || !strings.Contains(d, `"rawInput"`) || !strings.Contains(d, `"yes-always"`) {
				t.Errorf("the question's data is %s", d)
			}
			for _, no := range []string{"don't allow", "yes", "constructor", ""} {
				task = h.answer(task, no)
				wants(t, task, a2a.TaskStateInputRequired, "none of the answers")
			}
			task = h.send(task.ID, "", a2a.DataPart(map[string]string{"requestId": "another", "optionId": "yes-once"}))
			wants(t, task, a2a.TaskStateInputRequired, "none of the answers")
			task = h.answer(task, answer)
			wants(t, task, a2a.TaskStateCompleted, "")
			if got := response(task, "response"); !strings.HasPrefix(got, "before. after: ") || !strings.Contains(got, want) {
				t.Errorf("after %q the response is %q", answer, got)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	for policy, want := range map[acp.Policy]string{acp.Allow: "yes-once", acp.Reject: `"no"`} {
		t.Run(want, func(t *testing.T) {
			task := serve(t, "plain", acp.Config{Policy: policy}).say("permission")
			wants(t, task, a2a.TaskStateCompleted, "")
			if got := response(task, "response"); !strings.Contains(got, want) {
				t.Errorf("the response is %q", got)
			}
		})
	}
}

func TestTwoPermissions(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	task := h.say("two permissions")
	wants(t, task, a2a.TaskStateInputRequired, "Delete c1")
	task = h.answer(task, "allow")
	wants(t, task, a2a.TaskStateInputRequired, "Delete c2")
	task = h.answer(task, "deny")
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := response(task, "response"); strings.Index(got, "yes-once") > strings.Index(got, `"no"`) {
		t.Errorf("the response is %q", got)
	}
}

func TestElicitation(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	task := h.say("form")
	wants(t, task, a2a.TaskStateInputRequired, "Your name?")
	says(t, h.answer(task, "Ada"), `{"action":"accept","content":{"name":"Ada"}}`)
	task = h.say("form")
	says(t, h.send(task.ID, "", a2a.DataPart(map[string]string{"name": "Bo"})), `{"action":"accept","content":{"name":"Bo"}}`)
	task = h.say("form")
	says(t, h.answer(task, "deny"), `{"action":"decline"}`)

	req := message("", "", a2a.TextPart("url"))
	for e, err := range h.svc.SendStreamingMessage(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		task.Apply(e.Event)
		if task.Status.State == a2a.TaskStateAuthRequired {
			wants(t, task, a2a.TaskStateAuthRequired, "https://example.com/login")
			go h.answer(task.Snapshot(), "done")
		}
	}
	says(t, h.get(task), `{"action":"accept"}`)
}

func TestLoggedOut(t *testing.T) {
	h := serve(t, "logged out", acp.Config{})
	result, err := h.svc.SendMessage(t.Context(), func() *a2a.SendMessageRequest {
		r := message("", "", a2a.TextPart("hello"))
		r.Configuration.ReturnImmediately = true
		return r
	}())
	if err != nil {
		t.Fatal(err)
	}
	task := result.(*a2a.Task)
	childtest.Eventually(t, "the task waits for a login", func() bool { return h.get(task).Status.State == a2a.TaskStateAuthRequired })
	wants(t, h.get(task), a2a.TaskStateAuthRequired, "Log in")
	if err := os.WriteFile(filepath.Join(h.cfg.Dir, "logged-in"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, h.answer(task, "done"), "You said: hello")
}

func TestUpdates(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	task := h.say("usage")
	wants(t, task, a2a.TaskStateCompleted, "")
	if d := data(task.Status.Message); !strings.Contains(d, `"used":10`) || !strings.Contains(d, `"title":"A title"`) || !strings.Contains(d, `"stopReason":"end_turn"`) {
		t.Errorf("the last status says %s", d)
	}
	task = h.say("plan")
	if len(task.Artifacts) != 1 || task.Artifacts[0].ArtifactID != "plan" || !strings.Contains(string(task.Artifacts[0].Parts[0].Content.(a2a.Data)), `"completed"`) {
		t.Errorf("the plan is %+v", task.Artifacts)
	}
	task = h.say("diff")
	const want = "--- a//x/a.txt\n+++ b//x/a.txt\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n"
	if got := response(task, "diff c1 /x/a.txt"); got != want {
		t.Errorf("the diff is\n%s", got)
	}
	if got := response(task, "diff c1 /x/new.txt"); got != "--- /dev/null\n+++ b//x/new.txt\n@@ -0,0 +1,1 @@\n+no end\n\\ No newline at end of file\n" {
		t.Errorf("the diff of a new file is\n%s", got)
	}
	if task = h.say("thoughts"); len(task.Artifacts) != 0 {
		t.Errorf("thoughts that nobody asked for: %+v", task.Artifacts)
	}
	ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Version: "1.0", Extensions: []string{acp.ThoughtsExtension}})
	result, err := h.svc.SendMessage(ctx, message("", "", a2a.TextPart("thoughts")))
	if err != nil {
		t.Fatal(err)
	}
	if got := response(result.(*a2a.Task), "thoughts"); got != "hmm" {
		t.Errorf("the thoughts are %q", got)
	}
}

func TestProgress(t *testing.T) {
	h := serve(t, "plain", acp.Config{Policy: acp.Allow})
	var lines []string
	for e, err := range h.svc.SendStreamingMessage(t.Context(), message("", "", a2a.TextPart("permission"))) {
		if err != nil {
			t.Fatal(err)
		}
		if ev, ok := e.Event.(*a2a.TaskStatusUpdateEvent); ok && ev.Status.Message != nil {
			lines = append(lines, ev.Status.Message.Text())
			if d := data(ev.Status.Message); !strings.Contains(d, `"rawInput":{"path":"x"}`) || len(d) > 1000 {
				t.Errorf("the tool call is %.300s", d)
			}
		}
	}
	if got := strings.Join(lines, "|"); got != "Delete c1: pending|Delete c1: completed" {
		t.Errorf("the progress is %q", got)
	}
}

func TestBurst(t *testing.T) {
	task := serve(t, "plain", acp.Config{}).say("burst")
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := response(task, "response"); len(got) != 25_000 || !strings.HasPrefix(got, "0000\n0001\n") || !strings.HasSuffix(got, "4998\n4999\n") {
		t.Errorf("the response has %d bytes", len(got))
	}
}

func TestLongLines(t *testing.T) {
	if testing.Short() {
		t.Skip("60 MB take their time under the race detector")
	}
	h := serve(t, "plain", acp.Config{})
	task := h.say("long")
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := response(task, "response"); len(got) != 60_000_000 {
		t.Errorf("the response has %d bytes", len(got))
	}
	wants(t, h.say("too long"), a2a.TaskStateFailed, "bytes, the most that a message of it may have")
	says(t, h.say("hello"), "You said: hello")
}

func TestTwiceAndLate(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	task := h.say("twice")
	says(t, task, "once")
	next := h.send("", task.ContextID, a2a.TextPart("hello"))
	if got := response(next, "response"); !strings.HasSuffix(got, "You said: hello") {
		t.Errorf("the next response is %q", got)
	}
	says(t, h.get(task), "once")
}

func TestUnknown(t *testing.T) {
	task := serve(t, "plain", acp.Config{}).say("unknown")
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := response(task, "response"); !strings.HasPrefix(got, `{"code":-32601`) {
		t.Errorf("the response is %q", got)
	}
}

func TestEnds(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	for prompt, c := range map[string]struct {
		state a2a.TaskState
		says  string
	}{
		"refuse": {a2a.TaskStateRejected, "refused"},
		"tokens": {a2a.TaskStateFailed, "tokens"},
		"error":  {a2a.TaskStateFailed, "Internal error: model overloaded"},
		"die":    {a2a.TaskStateFailed, "exit status 7:\nout of memory"},
		"mode":   {a2a.TaskStateFailed, "bypassPermissions"},
	} {
		t.Run(prompt, func(t *testing.T) {
			task := h.say(prompt)
			wants(t, task, c.state, c.says)
			if prompt == "tokens" && (response(task, "response") != "half" || !strings.Contains(data(task.Status.Message), "max_tokens")) {
				t.Errorf("the task is %+v", task)
			}
			if prompt == "die" && response(task, "response") != "last words" {
				t.Errorf("the last words are lost: %q", response(task, "response"))
			}
			says(t, h.send("", task.ContextID, a2a.TextPart("hello")), "You said: hello")
		})
	}
}

func TestBadStarts(t *testing.T) {
	for word, want := range map[string]string{
		"dies": "exit status 3:\nno license found, key=abcdef123", "silent": "did not begin a session", "closed": "ended before",
		"version 2": "version 2 of ACP", "unguarded": `mode "yolo"`,
	} {
		t.Run(word, func(t *testing.T) {
			wants(t, serve(t, word, acp.Config{Start: 3 * time.Second}).say("hello"), a2a.TaskStateFailed, want)
		})
	}
	if _, err := acp.New(acp.Config{Args: []string{"no-such-program-at-all"}}); err == nil {
		t.Error("a program that is not there was taken")
	}
	t.Run("allowed", func(t *testing.T) {
		says(t, serve(t, "unguarded", acp.Config{Unguarded: []string{"yolo"}}).say("hello"), "You said: hello")
	})
}

func TestCancel(t *testing.T) {
	for prompt, left := range map[string]int{"hang": 1, "stubborn": 0} {
		t.Run(prompt, func(t *testing.T) {
			h := serve(t, "plain", acp.Config{})
			task := h.begin(prompt)
			start := time.Now()
			wants(t, h.cancel(task), a2a.TaskStateCanceled, "")
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := h.processes(); n != left {
				t.Errorf("%d programs are left, want %d", n, left)
			}
			next := h.send("", task.ContextID, a2a.TextPart("hello"))
			says(t, next, "You said: hello")
			if notice := len(next.History) > 1; notice != (left == 0) {
				t.Errorf("the history is %v", next.History)
			}
		})
	}
}

func TestCancelAtPermission(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	task := h.say("permission")
	wants(t, h.cancel(task), a2a.TaskStateCanceled, "")
	says(t, h.send("", task.ContextID, a2a.TextPart("hello")), "You said: hello")
	if n := h.processes(); n != 1 {
		t.Errorf("%d programs run", n)
	}
}

func TestDieAtPermission(t *testing.T) {
	h := serve(t, "plain", acp.Config{})
	task := h.say("die at permission")
	wants(t, task, a2a.TaskStateInputRequired, "Delete c1")
	childtest.Eventually(t, "the program is gone", func() bool { return h.agent.Live() == 0 })
	wants(t, h.get(task), a2a.TaskStateInputRequired, "Delete c1")
	task = h.answer(task, "allow")
	wants(t, task, a2a.TaskStateInputRequired, "Delete c1")
	var history strings.Builder
	for _, m := range h.get(task).History {
		history.WriteString(m.Text() + "\n")
	}
	if !strings.Contains(history.String(), "the answer was not used") {
		t.Errorf("no notice in\n%s", history.String())
	}
	wants(t, h.cancel(task), a2a.TaskStateCanceled, "")
}

func TestRestart(t *testing.T) {
	for word, notice := range map[string]bool{"plain": true, "resumes": false, "loads": false} {
		t.Run(word, func(t *testing.T) {
			h := serve(t, word, acp.Config{})
			first := h.say("session")
			h.restart()
			second := h.send("", first.ContextID, a2a.TextPart("session"))
			a, b := response(first, "response"), response(second, "response")
			if (a == b) == notice || strings.Contains(b, "REPLAY") {
				t.Errorf("the sessions are %q and then %q", a, b)
			}
			if got := len(second.History) > 1; got != notice {
				t.Errorf("the history is %v", second.History)
			}
			parked := h.say("permission")
			h.restart()
			wants(t, h.answer(parked, "allow"), a2a.TaskStateInputRequired, "Delete c1")
			wants(t, h.answer(parked, "allow"), a2a.TaskStateCompleted, "")
		})
	}
}

func TestIdle(t *testing.T) {
	h := serve(t, "plain", acp.Config{Idle: 100 * time.Millisecond})
	says(t, h.say("hello"), "You said: hello")
	task := h.say("permission")
	childtest.Eventually(t, "the programs are ended", func() bool { return h.processes() == 0 })
	wants(t, h.get(task), a2a.TaskStateInputRequired, "Delete c1")
}

func TestPrograms(t *testing.T) {
	h := serve(t, "plain", acp.Config{Programs: 2})
	h.say("permission")
	for range 3 {
		says(t, h.say("hello"), "You said: hello")
		if n := h.processes(); n > 2 {
			t.Errorf("%d programs run", n)
		}
	}
	h.say("permission")
	wants(t, h.say("hello"), a2a.TaskStateFailed, "limit programs")
}

func TestTasksOfAContextWait(t *testing.T) {
	h := serve(t, "plain", acp.Config{Waiting: 1})
	first := h.say("permission")
	var more []*a2a.Task
	for range 2 {
		req := message("", first.ContextID, a2a.TextPart("hello"))
		req.Configuration.ReturnImmediately = true
		result, err := h.svc.SendMessage(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, result.(*a2a.Task))
	}
	count := func(state a2a.TaskState) (n int) {
		for _, task := range more {
			if h.get(task).Status.State == state {
				n++
			}
		}
		return n
	}
	childtest.Eventually(t, "one is refused", func() bool { return count(a2a.TaskStateFailed) == 1 })
	if n := count(a2a.TaskStateWorking); n != 1 {
		t.Errorf("%d tasks wait", n)
	}
	wants(t, h.answer(first, "allow"), a2a.TaskStateCompleted, "")
	childtest.Eventually(t, "the other ends", func() bool { return count(a2a.TaskStateCompleted) == 1 })
}

func TestParts(t *testing.T) {
	h := serve(t, "sees", acp.Config{})
	task := h.send("", "", a2a.TextPart("blocks"),
		&a2a.Part{Content: a2a.Raw("png"), MediaType: "image/png"},
		&a2a.Part{Content: a2a.Raw("\x00zip"), MediaType: "application/zip", Filename: "../../a b.zip"},
		&a2a.Part{Content: a2a.Data(`{"a":1}`)},
		&a2a.Part{Content: a2a.URL("https://example.com/x"), Filename: "x"},
	)
	got := response(task, "response")
	for _, want := range []string{
		`{"type":"image","data":"cG5n","mimeType":"image/png"}`, `"uri":"file://` + h.cfg.Dir + `/.parley/` + task.ID + `/2-_.._a_b.zip"`,
		`{"text":"{\"a\":1}","type":"text"}`, `"uri":"https://example.com/x"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	childtest.Eventually(t, "no file is left", func() bool {
		left, err := os.ReadDir(h.cfg.Dir)
		return err == nil && len(left) == 0
	})
	_, err := h.svc.SendMessage(t.Context(), message("", "", &a2a.Part{Content: a2a.URL("file:///etc/passwd")}))
	if !strings.Contains(err.Error(), "http") {
		t.Errorf("a file URL: %v", err)
	}
}

func TestPresets(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, p := range acp.Presets() {
		if err := p.Missing(); err == nil || !strings.Contains(err.Error(), "npm install -g "+p.Package) {
			t.Errorf("%s: %v", p.Word, err)
		}
	}
	if _, err := acp.PresetByWord("cloud"); err == nil || !strings.Contains(err.Error(), "claude, codex, gemini, opencode") {
		t.Errorf("an unknown word: %v", err)
	}
}
