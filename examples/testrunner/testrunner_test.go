package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
)

// repository makes a git repository of files with one commit, and returns its folder and that commit.
func repository(t *testing.T, files map[string]string) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "init", "--quiet")
	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "all")
	return dir, strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

// serve returns the agent with one repository.
func serve(t *testing.T, source string, change func(*testRunner)) a2a.Service {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	runner := &testRunner{
		repositories: map[string]string{"payments-api": source},
		limits:       limits{time: 2 * time.Minute, memory: 2 << 30, log: 1 << 20},
	}
	if change != nil {
		change(runner)
	}
	h, err := parley.New(parley.Config{Name: "test-runner", Log: slog.New(slog.DiscardHandler)}, runner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Shutdown(context.Background()) })
	return h.Service()
}

func send(t *testing.T, s a2a.Service, taskID string, parts ...*a2a.Part) *a2a.Task {
	t.Helper()
	res, err := s.SendMessage(t.Context(), &a2a.SendMessageRequest{
		Message: &a2a.Message{MessageID: "m", TaskID: taskID, Role: a2a.RoleUser, Parts: parts},
	})
	if err != nil {
		t.Fatal(err)
	}
	return res.(*a2a.Task)
}

// summaryOf returns the content of summary.json.
func summaryOf(t *testing.T, task *a2a.Task) *summary {
	t.Helper()
	for _, a := range task.Artifacts {
		if a.Name == "summary.json" {
			s := new(summary)
			if err := json.Unmarshal(a.Parts[0].Content.(a2a.Data), s); err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	t.Fatalf("no summary.json: %v %s", task.Status.State, task.Status.Message.Text())
	return nil
}

func logOf(task *a2a.Task) string {
	for _, a := range task.Artifacts {
		if a.Name == "log.txt" {
			return a.Text()
		}
	}
	return ""
}

var goFiles = map[string]string{
	"go.mod":           "module example.com/pay\n\ngo 1.26\n",
	"pay.go":           "package pay\n",
	"pay_test.go":      "package pay\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { t.Run(\"part\", func(*testing.T) {}) }\nfunc TestBad(t *testing.T) { t.Error(\"two is not three\") }\nfunc TestLater(t *testing.T) { t.Skip(\"later\") }\n",
	"broken/b_test.go": "package broken\n\nfunc x() { y }\n",
}

// TestRunners runs the tests of a repository of each kind.
func TestRunners(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		needs                   string
		files                   map[string]string
		passed, failed, skipped int
		failures, log           string
	}{
		{"go", "go version", goFiles, 2, 2, 1, "example.com/pay.TestBad", "two is not three"},
		{"pytest", "python3 -m pytest --version", map[string]string{
			"pyproject.toml":   "[project]\nname='pay'\nversion='1'\n",
			"tests/test_it.py": "import pytest\ndef test_good(): pass\ndef test_bad(): assert 2 == 3\n@pytest.mark.skip\ndef test_later(): pass\n",
		}, 1, 1, 1, "tests.test_it.test_bad", "assert 2 == 3"},
		{"npm", "npm --version", map[string]string{
			"package.json": `{"name":"pay","scripts":{"test":"node --test"}}`,
			"pay.test.js":  "const t = require('node:test');\nt('good', () => {});\nt('bad', () => { throw new Error('two is not three') });\nt('later', { skip: true }, () => {});\n",
		}, 1, 1, 1, "bad", "two is not three"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			need(t, strings.Fields(tc.needs)...)
			dir, commit := repository(t, tc.files)
			task := send(t, serve(t, dir, nil), "", a2a.TextPart("run the tests of payments-api at "+commit[:8]))
			if task.Status.State != a2a.TaskStateCompleted {
				t.Fatalf("%v: %s\n%s", task.Status.State, task.Status.Message.Text(), logOf(task))
			}
			s := summaryOf(t, task)
			if s.Passed != tc.passed || s.Failed != tc.failed || s.Skipped != tc.skipped || s.Commit != commit || s.Seconds <= 0 {
				t.Errorf("summary %+v\n%s", s, logOf(task))
			}
			found := false
			for _, f := range s.Failures {
				found = found || f.Test == tc.failures
			}
			if !found || !strings.Contains(logOf(task), tc.log) {
				t.Errorf("failures %+v, want %s\n%s", s.Failures, tc.failures, logOf(task))
			}
		})
	}
}

// need skips a test whose programs are not on this machine, and fails it in CI.
func need(t *testing.T, args ...string) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), args[0], args[1:]...).Run(); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%v does not run", args)
	}
	t.Skipf("%v does not run", args)
}

// TestAsked asks for what a caller left out, and says what it does not have.
func TestAsked(t *testing.T) {
	dir, commit := repository(t, goFiles)
	s := serve(t, dir, nil)
	task := send(t, s, "", a2a.TextPart("run something"))
	if task.Status.State != a2a.TaskStateInputRequired {
		t.Fatalf("%v: %s", task.Status.State, task.Status.Message.Text())
	}
	if task = send(t, s, task.ID, a2a.TextPart("payments-api")); task.Status.State != a2a.TaskStateInputRequired {
		t.Fatalf("%v: %s", task.Status.State, task.Status.Message.Text())
	}
	task = send(t, s, task.ID, a2a.DataPart(map[string]any{"commit": commit, "paths": []string{"./broken"}}))
	if got := summaryOf(t, task); got.Failed != 1 || got.Passed != 0 {
		t.Errorf("paths: %+v", got)
	} else if out := got.Failures[0].Output; !strings.Contains(out, "undefined: y") || !strings.Contains(out, "[build failed]") || len(out) > keptOutput+len("…") {
		t.Errorf("what does not compile: %q", out)
	}
	for _, tc := range []struct {
		name  string
		part  *a2a.Part
		state a2a.TaskState
		says  string
	}{
		{"repository", a2a.TextPart("tests of other at HEAD"), a2a.TaskStateRejected, "I have payments-api"},
		{"folder", a2a.TextPart("tests of /etc at HEAD"), a2a.TaskStateRejected, "no name"},
		{"flag", a2a.TextPart("tests of payments-api at --upload-pack=x"), a2a.TaskStateRejected, "no commit"},
		{"path", a2a.DataPart(map[string]any{"repository": "payments-api", "commit": "HEAD", "paths": []string{"./../x"}}), a2a.TaskStateRejected, "stay in"},
		{"data", a2a.DataPart([]string{"x"}), a2a.TaskStateRejected, "not like"},
		{"commit", a2a.TextPart("tests of payments-api at 0123456789"), a2a.TaskStateFailed, "has no commit 0123456789"},
	} {
		task := send(t, s, "", tc.part)
		if task.Status.State != tc.state || !strings.Contains(task.Status.Message.Text(), tc.says) {
			t.Errorf("%s: %v: %s", tc.name, task.Status.State, task.Status.Message.Text())
		}
	}
}

// TestBounds ends tests that take too long, too much memory, or that say too much, and leaves nothing behind.
func TestBounds(t *testing.T) {
	file := func(body string) map[string]string {
		return map[string]string{"go.mod": goFiles["go.mod"], "x_test.go": "package pay\n\nimport (\n\"testing\"\n\"time\"\n\"strings\"\n\"fmt\"\n)\nvar _, _, _ = fmt.Sprint, time.Now, strings.Repeat\nvar kept [][]byte\nfunc TestX(t *testing.T) { " + body + " }\n"}
	}
	for _, tc := range []struct {
		name, body string
		change     func(*testRunner)
		state      a2a.TaskState
		says       string
	}{
		{"time", "time.Sleep(time.Hour)", func(r *testRunner) { r.limits.time = 10 * time.Second }, a2a.TaskStateFailed, "more than 10s"},
		{"memory", "for i := range 40 { b := make([]byte, 64<<20); for j := range b { b[j] = byte(i+j) }; kept = append(kept, b); time.Sleep(50*time.Millisecond) }; time.Sleep(time.Hour)", func(r *testRunner) { r.limits.memory = 1 << 30 }, a2a.TaskStateFailed, "MiB of memory"},
		{"output", "for range 4000 { fmt.Println(strings.Repeat(\"x\", 1000)) }", func(r *testRunner) { r.limits.log = 64 << 10 }, a2a.TaskStateCompleted, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := repository(t, file(tc.body))
			task := send(t, serve(t, dir, tc.change), "", a2a.TextPart("tests of payments-api at HEAD"))
			if task.Status.State != tc.state || !strings.Contains(task.Status.Message.Text(), tc.says) {
				t.Errorf("%v: %s", task.Status.State, task.Status.Message.Text())
			}
			if n := len(logOf(task)); n > 1<<20 || tc.name == "output" && n > 66<<10 {
				t.Errorf("log of %d bytes", n)
			}
			left, err := os.ReadDir(os.Getenv("TMPDIR"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// TestCancel ends a run within the grace, and its programs with it.
func TestCancel(t *testing.T) {
	dir, _ := repository(t, map[string]string{"go.mod": goFiles["go.mod"], "x_test.go": "package pay\n\nimport (\"testing\"; \"time\")\n\nfunc TestX(t *testing.T) { time.Sleep(time.Hour) }\n"})
	s := serve(t, dir, nil)
	for e, err := range s.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{
		Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("tests of payments-api at HEAD")}},
	}) {
		if err != nil {
			t.Fatal(err)
		}
		update, ok := e.Event.(*a2a.TaskStatusUpdateEvent)
		if !ok || !strings.HasPrefix(update.Status.Message.Text(), "0 passed") {
			continue
		}
		task, err := s.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: update.TaskID})
		if err != nil || task.Status.State != a2a.TaskStateCanceled {
			t.Fatalf("%v %v", task, err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		left, err := os.ReadDir(os.Getenv("TMPDIR"))
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v %v", left, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
