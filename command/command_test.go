package command_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/command"
	"github.com/parley-a2a/parley/internal/child/childtest"
	"github.com/parley-a2a/parley/server"
)

// host serves a program, and checks at the end that nothing of it is left.
type host struct {
	t    *testing.T
	svc  a2a.Service
	mark string
	dir  string
}

func serve(t *testing.T, cfg command.Config) *host {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a Unix shell")
	}
	childtest.Goroutines(t, "parley/command.", "parley/internal/child.")
	h := &host{t: t, mark: childtest.Mark(t), dir: t.TempDir()}
	cfg.Env = append(cfg.Env, h.mark, "TEST_DIR="+h.dir)
	a, err := command.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parley.New(parley.Config{
		Name: "Program", Log: slog.New(slog.DiscardHandler), Times: server.Times{Silence: time.Minute},
	}, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		p.Shutdown(ctx)
	})
	h.svc = p.Service()
	return h
}

func sh(script string) command.Config { return command.Config{Args: []string{"sh", "-c", script}} }

func message(task, text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m-" + text[:1], TaskID: task, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)},
	}, Configuration: &a2a.SendMessageConfiguration{}}
}

// send sends a text and returns the task as it is when it ended or asks.
func (h *host) send(task, text string) *a2a.Task {
	h.t.Helper()
	result, err := h.svc.SendMessage(h.t.Context(), message(task, text))
	if err != nil {
		h.t.Fatal(err)
	}
	return result.(*a2a.Task)
}

// begin sends a text, and returns the task once the program has made a file of that name in $TEST_DIR.
func (h *host) begin(text, file string) *a2a.Task {
	h.t.Helper()
	req := message("", text)
	req.Configuration.ReturnImmediately = true
	result, err := h.svc.SendMessage(h.t.Context(), req)
	if err != nil {
		h.t.Fatal(err)
	}
	childtest.Eventually(h.t, "the program has begun", func() bool {
		_, err := os.Stat(filepath.Join(h.dir, file))
		return err == nil
	})
	return result.(*a2a.Task)
}

func (h *host) cancel(task *a2a.Task) *a2a.Task {
	h.t.Helper()
	got, err := h.svc.CancelTask(h.t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// wants checks a task's state, and that its status message has the text.
func wants(t *testing.T, task *a2a.Task, state a2a.TaskState, text string) {
	t.Helper()
	if task.Status.State != state || !strings.Contains(task.Status.Message.Text(), text) {
		t.Errorf("the task is %v %q, want %v with %q", task.Status.State, task.Status.Message.Text(), state, text)
	}
}

// artifacts returns the texts, data and bytes of the artifacts by their names.
func artifacts(task *a2a.Task) map[string]string {
	m := map[string]string{}
	for _, a := range task.Artifacts {
		for _, p := range a.Parts {
			switch c := p.Content.(type) {
			case a2a.Text:
				m[a.Name] += string(c)
			case a2a.Data:
				m[a.Name] += "data " + string(c)
			case a2a.Raw:
				m[a.Name] += "raw " + string(c)
			case a2a.URL:
				m[a.Name] += "url " + string(c)
			}
		}
	}
	return m
}

func TestText(t *testing.T) {
	h := serve(t, command.Config{Args: []string{"tr", "a-z", "A-Z"}})
	task := h.send("", "grüße, hello")
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := artifacts(task)["output"]; !strings.HasSuffix(got, "HELLO") || len(task.Artifacts) != 1 {
		t.Errorf("the artifacts are %v", artifacts(task))
	}
}

func TestSilence(t *testing.T) {
	task := serve(t, sh("exec >&-; exit 0")).send("", "x")
	wants(t, task, a2a.TaskStateCompleted, "")
	if len(task.Artifacts) != 0 {
		t.Errorf("a silent program has artifacts: %v", artifacts(task))
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"exit code":   {`echo out; echo "disk is full" >&2; exit 3`, "exit status 3:\ndisk is full"},
		"signal":      {`kill -9 $$`, "signal: killed"},
		"secret":      {`echo "with $MY_TOKEN and Authorization: Bearer abcdefgh" >&2; exit 1`, "with [redacted] and Authorization: Bearer [redacted]"},
		"long stderr": {`yes noise | head -c 1000000 >&2; echo last words >&2; exit 1`, "last words"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sh(c.script)
			cfg.Env = []string{"MY_TOKEN=verysecret"}
			task := serve(t, cfg).send("", "x")
			wants(t, task, a2a.TaskStateFailed, c.says)
			if text := task.Status.Message.Text(); strings.Contains(text, "verysecret") || len(text) > 5000 {
				t.Errorf("the reason has a secret or no bound: %.200q", text)
			}
			if name == "exit code" && artifacts(task)["output"] != "out\n" {
				t.Errorf("what it wrote is lost: %v", artifacts(task))
			}
		})
	}
}

func TestNeverStarts(t *testing.T) {
	if _, err := command.New(command.Config{Args: []string{"no-such-program-at-all"}}); err == nil {
		t.Error("a program that is not there was taken")
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := serve(t, command.Config{Args: []string{path}})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wants(t, h.send("", "x"), a2a.TaskStateFailed, "the program program could not be started: it, or its directory, was not found")
	if err := os.WriteFile(path, []byte{0x7f, 'E', 'L', 'F'}, 0o700); err != nil {
		t.Fatal(err)
	}
	wants(t, h.send("", "x"), a2a.TaskStateFailed, "could not be started")
}

func TestInputRequired(t *testing.T) {
	h := serve(t, sh(`read a; case "$a" in yes) echo done;; *) printf 'so far\nGo on?\n'; exit 75;; esac`))
	task := h.send("", "start")
	wants(t, task, a2a.TaskStateInputRequired, "Go on?")
	if got := artifacts(task)["output"]; got != "so far\n" {
		t.Errorf("before the question: %q", got)
	}
	task = h.send(task.ID, "yes")
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := artifacts(task)["output"]; got != "so far\ndone\n" {
		t.Errorf("after it: %q", got)
	}
}

func TestEnvironmentAndFiles(t *testing.T) {
	t.Setenv("PARLEY_TEST_HIDDEN", "hidden")
	t.Setenv("PARLEY_TEST_SHOWN", "shown")
	cfg := sh(`env | grep -c HIDDEN; echo $PARLEY_TEST_SHOWN; echo $A2A_TASK_ID $A2A_CONTEXT_ID
		grep -c '"messageId":"m-x"' "$A2A_MESSAGE_FILE"
		echo '{"passed":3}' > "$A2A_OUT_DIR/summary.json"; echo '{"a":1,"a":2}' > "$A2A_OUT_DIR/twice.json"
		mkdir "$A2A_OUT_DIR/d"; printf 'a log' > "$A2A_OUT_DIR/d/log.txt"; printf '\0\377' > "$A2A_OUT_DIR/b"
		ln -s /etc/passwd "$A2A_OUT_DIR/link"; mkfifo "$A2A_OUT_DIR/fifo"; echo "$A2A_OUT_DIR" > "$TEST_DIR/out"`)
	cfg.Env = []string{"PARLEY_TEST_SHOWN"}
	h := serve(t, cfg)
	task := h.send("", "x")
	wants(t, task, a2a.TaskStateCompleted, "")
	got := artifacts(task)
	want := map[string]string{
		"output":       "0\nshown\n" + task.ID + " " + task.ContextID + "\n1\n",
		"summary.json": "data {\"passed\":3}\n", "twice.json": "{\"a\":1,\"a\":2}\n", "d/log.txt": "a log", "b": "raw \x00\xff",
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the artifacts are %v", got)
	}
	out, err := os.ReadFile(filepath.Join(h.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(strings.TrimSpace(string(out))); !os.IsNotExist(err) {
		t.Errorf("the program's directory is left: %v", err)
	}
}

func TestStream(t *testing.T) {
	cfg := sh(`mkfifo "$TEST_DIR/gate"; echo first; read x < "$TEST_DIR/gate"; printf 'sec\303'; printf '\274nd\nlast'`)
	cfg.Stream = true
	h := serve(t, cfg)
	var got []string
	for e, err := range h.svc.SendStreamingMessage(t.Context(), message("", "x")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev, ok := e.Event.(*a2a.TaskArtifactUpdateEvent); ok {
			if len(got) == 0 { // the first chunk came while the program runs
				if err := os.WriteFile(filepath.Join(h.dir, "gate"), []byte("go\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got = append(got, ev.Artifact.Text())
			if ev.LastChunk {
				got = append(got, "|")
			}
		}
	}
	if text := strings.Join(got, ""); text != "first\nsecünd\nlast|" || len(got) < 3 {
		t.Errorf("the chunks are %q", got)
	}
}

func TestFlood(t *testing.T) {
	for _, stream := range []bool{false, true} {
		cfg := sh(`exec yes xéé`)
		cfg.Stream, cfg.MaxOutput = stream, 1<<20
		task := serve(t, cfg).send("", "x")
		wants(t, task, a2a.TaskStateFailed, "more than the 1048576 bytes of output and files that a turn may have: its output up to there is kept. Have it write less")
		if got := artifacts(task)["output"]; got != strings.Repeat("xéé\n", 1<<20/6+1)[:1<<20-1] { // a character is in the way of the last byte
			t.Errorf("stream %v: kept are %d bytes, to %q", stream, len(got), got[max(0, len(got)-10):])
		}
	}
	cfg := sh(`while :; do echo '{"text":"more"}'; done`)
	cfg.Events, cfg.MaxOutput = true, 1<<16
	task := serve(t, cfg).send("", "x")
	wants(t, task, a2a.TaskStateFailed, "more than the 65536 bytes")
	if got, want := artifacts(task)["output"], strings.Repeat("more", 1<<16/len(`{"text":"more"}`)); got != want {
		t.Errorf("kept are %d bytes, want %d", len(got), len(want))
	}
}

// Output that is no text arrives as the bytes that it is, whole or in chunks.
func TestBinaryOutput(t *testing.T) {
	for _, stream := range []bool{false, true} {
		cfg := sh(`{ printf 'in words: \303'; sleep 0.2; printf '\274\n'; sleep 0.2; head -c 30000 /dev/urandom; printf '\303'; } | tee $TEST_DIR/sent`)
		cfg.Stream = stream
		h := serve(t, cfg)
		task := h.send("", "x")
		wants(t, task, a2a.TaskStateCompleted, "")
		sent, err := os.ReadFile(filepath.Join(h.dir, "sent"))
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, p := range task.Artifacts[0].Parts {
			switch c := p.Content.(type) {
			case a2a.Text:
				got = append(got, c...)
			case a2a.Raw:
				got = append(got, c...)
			case a2a.Data, a2a.URL:
				t.Errorf("a part is %T", c)
			}
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("stream %v: %d bytes of %d arrived as they were, or none", stream, len(got), len(sent))
		}
		if first, ok := task.Artifacts[0].Parts[0].Content.(a2a.Text); stream && (!ok || first != "in words: ") {
			t.Errorf("the text before is %q", task.Artifacts[0].Parts[0].Content)
		}
	}
}

// The host's log says of every failure what ended the program.
func TestFailureIsLogged(t *testing.T) {
	var log bytes.Buffer
	a, err := command.New(sh(`echo "disk is full" >&2; exit 3`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := parley.New(parley.Config{Name: "Program", Log: slog.New(slog.NewTextHandler(&log, nil))}, a)
	if err != nil {
		t.Fatal(err)
	}
	task := (&host{t: t, svc: p.Service()}).send("", "x")
	p.Shutdown(t.Context())
	for _, want := range []string{"program=sh", `why="exit status 3"`, "disk is full", task.ID} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log.String())
		}
	}
}

func TestCancel(t *testing.T) {
	for name, script := range map[string]string{
		"sleep":        `touch $TEST_DIR/up; exec sleep 300`,
		"ignores TERM": `trap '' TERM; touch $TEST_DIR/up; while :; do sleep 300; done`,
		"children":     `sleep 300 & sleep 300 & touch $TEST_DIR/up; wait`,
		"floods":       `touch $TEST_DIR/up; while :; do echo x; sleep 0.1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sh(script)
			cfg.Grace = 200 * time.Millisecond
			h := serve(t, cfg)
			task := h.begin("x", "up")
			start := time.Now()
			wants(t, h.cancel(task), a2a.TaskStateCanceled, "")
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
			if left := childtest.Processes(t, h.mark); len(left) > 0 {
				t.Errorf("when CANCELED is told, %d processes are left", len(left))
			}
		})
	}
}

func TestChildKeepsThePipe(t *testing.T) {
	h := serve(t, sh(`sleep 300 & echo done`))
	start := time.Now()
	task := h.send("", "x")
	wants(t, task, a2a.TaskStateCompleted, "")
	if got := artifacts(task)["output"]; got != "done\n" || time.Since(start) > 4*time.Second {
		t.Errorf("output %q after %v", got, time.Since(start))
	}
}

// A child that leaves the group with the pipe in its hands cannot be ended, but delays nothing.
func TestChildLeavesTheGroup(t *testing.T) {
	h := serve(t, sh(`setsid sh -c 'echo $$ > $TEST_DIR/pid; while :; do echo noise; sleep 0.05; done' & while ! [ -s $TEST_DIR/pid ]; do sleep 0.01; done; echo done`))
	start := time.Now()
	task := h.send("", "x")
	wants(t, task, a2a.TaskStateCompleted, "")
	if !strings.Contains(artifacts(task)["output"], "done\n") || time.Since(start) > 8*time.Second {
		t.Errorf("output %.100q after %v", artifacts(task)["output"], time.Since(start))
	}
}

func TestEvents(t *testing.T) {
	cfg := sh(`read m; case "$m" in '{"message":{'*'"messageId":"m-x"'*) ;; *) exit 9;; esac
		echo '{"status":"half way"}'; echo '{"text":"Hello"}'; echo '{"later":1}'; echo
		echo '{"artifact":{"artifactId":"a","name":"n.json","parts":[{"data":{"n":1}}]}}'
		echo '{"artifact":{"artifactId":"c","name":"c","parts":[{"text":"1"}]},"lastChunk":false}'
		echo '{"artifact":{"artifactId":"c","parts":[{"text":"2"}]},"append":true,"lastChunk":true}'
		echo '{"ask":"Which?"}'; read a; case "$a" in '{"answer":{'*'"text":"blue"'*) echo '{"text":", blue"}';; *) exit 8;; esac`)
	cfg.Events = true
	h := serve(t, cfg)
	task := h.send("", "x")
	wants(t, task, a2a.TaskStateInputRequired, "Which?")
	task = h.send(task.ID, "blue")
	wants(t, task, a2a.TaskStateCompleted, "")
	got := artifacts(task)
	if got["output"] != "Hello, blue" || got["n.json"] != `data {"n":1}` || got["c"] != "12" || len(got) != 3 {
		t.Errorf("the artifacts are %v", got)
	}
}

func TestBadEvents(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"no JSON":         {`echo '{"text":"kept"}'; echo boom; exec sleep 300`, "line 2 of the program's output is not an event"},
		"half an event":   {`printf '{"text":"a'`, "half an event: every event, the last one too, is a line"},
		"long line":       {`head -c 3000000 /dev/zero | tr '\0' x; exec sleep 300`, "more than 1048576 bytes, and the program was ended: split the event"},
		"no UTF-8":        {`printf '{"text":"\377"}\n'; exec sleep 300`, "line 1 of the program's output is not an event that can be taken: it is not UTF-8"},
		"unknown chunk":   {`echo '{"artifact":{"artifactId":"z","parts":[{"text":"2"}]},"append":true}'; exec sleep 300`, ""},
		"dies asking":     {`echo '{"ask":"Which?"}'; sleep 0.2`, "unanswered"},
		"dies at once":    {`exit 4`, "exit status 4"},
		"exit 75":         {`exit 75`, "exit status 75"},
		"a bad part":      {`echo '{"status":[{}]}'; exec sleep 300`, "line 1"},
		"floods a status": {`i=0; while [ $i -lt 3000 ]; do echo '{"status":"x"}'; i=$((i+1)); done; exit 1`, "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sh(c.script)
			cfg.Events, cfg.MaxLine = true, 1<<20
			h := serve(t, cfg)
			task := h.send("", "x")
			if name == "dies asking" {
				for e, err := range h.svc.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
					if err != nil {
						t.Fatal(err)
					}
					task.Apply(e.Event)
				}
			}
			wants(t, task, a2a.TaskStateFailed, c.says)
		})
	}
}

func TestCancelWhileAsking(t *testing.T) {
	cfg := sh(`echo '{"ask":"Which?"}'; read x; read y`)
	cfg.Events = true
	h := serve(t, cfg)
	task := h.send("", "x")
	wants(t, task, a2a.TaskStateInputRequired, "Which?")
	wants(t, h.cancel(task), a2a.TaskStateCanceled, "")
}

func TestInputThatNobodyReads(t *testing.T) {
	h := serve(t, sh(`exec sleep 0.1`))
	wants(t, h.send("", string(bytes.Repeat([]byte("x"), 1<<20))), a2a.TaskStateCompleted, "")
}
