package interop

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

var tapReady = regexp.MustCompile(`^parley: tap at (\S+) for `)

// startTap starts a recording proxy in front of a host. end ends it, and fails the test if the tap saw a MUST of the
// specification broken, by either side.
func startTap(t *testing.T, h host, file string) (through host, end func()) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(binary(t), "tap", h.url, "--listen", "127.0.0.1:0", "--record", file, "--fail-on", "must")
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("parley tap said nothing: %v\n%s", err, log.Bytes())
	}
	m := tapReady.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("parley tap printed %q", line)
	}
	return host{name: h.name, url: m[1]}, func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("parley tap: %v\n%s", err, log.Bytes())
		}
	}
}

// TestTap has the client talk to Revisor with the tap and without it: what it gets is the same, to the byte where it reads
// the same, and but for ids and times where it makes a task.
func TestTap(t *testing.T) {
	h := startHost(t, "revisor")
	file := filepath.Join(t.TempDir(), "tap.jsonl")
	through, end := startTap(t, h, file)
	for _, binding := range transports {
		t.Run(string(binding), func(t *testing.T) {
			direct, tapped := connect(t, h, binding), connect(t, through, binding)
			converse := func(p peer) (task *a2a.Task, said string) {
				events := collect(t, p.stream(t.Context(), text(strings.Repeat("One two three. ", 50))))
				asked := p.must(t, a2a.TaskStateInputRequired, text(blank))
				task = p.must(t, a2a.TaskStateCompleted, textFor(asked, "Two words."))
				_, err := p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: unknownID})
				if err == nil {
					t.Fatal("a task that never was")
				}
				return task, plain(asJSON(t, fold(t, events)) + asJSON(t, asked) + asJSON(t, task) + err.Error())
			}
			task, without := converse(direct)
			if _, with := converse(tapped); with != without {
				t.Errorf("with the tap\n%s\nwithout\n%s", with, without)
			}
			if with, without := asJSON(t, tapped.get(t, task.ID, nil)), asJSON(t, direct.get(t, task.ID, nil)); with != without {
				t.Errorf("with the tap\n%s\nwithout\n%s", with, without)
			}
		})
	}
	end()
	out, err := exec.Command(binary(t), "tap", "replay", file, h.url).CombinedOutput()
	if n := strings.Count(string(out), ": same\n"); err != nil || n != 15 {
		t.Errorf("played again: %v, %d the same\n%s", err, n, out)
	}
}

var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|[0-9a-f]{64}`)

// plain takes out of JSON what is another at every run.
func plain(s string) string { return changing.ReplaceAllString(s, "*") }
