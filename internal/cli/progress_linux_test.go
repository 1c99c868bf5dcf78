package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// atTerminal runs a command whose stderr, and stdout unless it is given, is a terminal, and returns what was written there.
func atTerminal(t *testing.T, stdout *bytes.Buffer, args ...string) string {
	t.Helper()
	person, program := terminal(t)
	cmd := exec.CommandContext(t.Context(), "parley", args...)
	cmd.Stdout, cmd.Stderr = program, program
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	var seen bytes.Buffer
	var wait sync.WaitGroup
	wait.Go(func() { _, _ = seen.ReadFrom(person) }) // it ends with an error when the terminal does
	err := cmd.Wait()
	wait.Wait()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, seen.String())
	}
	return strings.ReplaceAll(seen.String(), "\r\n", "\n")
}

// onScreen returns what is left of the lines of a terminal: \r goes back, and what follows is written over.
func onScreen(written string) string {
	var out []string
	for line := range strings.SplitSeq(written, "\n") {
		var shown []rune
		at := 0
		for _, r := range line {
			if r == '\r' {
				at = 0
				continue
			}
			shown = append(shown[:min(at, len(shown))], append([]rune{r}, shown[min(at+1, len(shown)):]...)...)
			at++
		}
		out = append(out, strings.TrimRight(string(shown), " "))
	}
	return strings.Join(out, "\n")
}

// TestBytesAtTerminal: a person sees how much was sent, received and saved, and only the result is left of it. A program
// that has the result sees nothing of it.
func TestBytesAtTerminal(t *testing.T) {
	home(t)
	const big = 2 << 20
	url := serveUntilEnd(t, parley.Config{Name: "Big"}, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		if len(r.Message.Parts) > 1 { // the file was sent
			return u.Complete(a2a.TextPart("thanks"))
		}
		if err := u.Progress(a2a.TextPart("at it")); err != nil {
			return err
		}
		for i := range 4 {
			if err := u.Artifact(a2a.Artifact{ArtifactID: fmt.Sprint("big", i), Parts: []*a2a.Part{{Content: a2a.Raw(bytes.Repeat([]byte{byte(i)}, big/4))}}}); err != nil {
				return err
			}
			<-time.After(progressPause) // for the next line to be due
		}
		return u.Complete()
	}))
	dir := t.TempDir()
	file := filepath.Join(dir, "big.txt")
	if err := os.WriteFile(file, make([]byte, big), 0o600); err != nil {
		t.Fatal(err)
	}
	sending, receiving := regexp.MustCompile(`Sending (\d+ kB|[\d.]+ MB) of [23]\.\d MB`), regexp.MustCompile(`Receiving (\d+ kB|[\d.]+ MB)`)
	for _, binding := range bindings {
		written := atTerminal(t, nil, "send", "-a", url, "--transport", binding, "--text", "take this", "--file", file)
		screen := onScreen(written)
		if !sending.MatchString(written) || strings.Contains(screen, "Sending") || !strings.Contains(screen, "\nState: COMPLETED\n") || strings.Contains(written, "\x1b") {
			t.Errorf("%s: %q\nscreen:\n%s", binding, written, screen)
		}
		written = atTerminal(t, nil, "send", "-a", url, "--transport", binding, "give")
		screen = onScreen(written)
		if !strings.Contains(screen, "\nWORKING: at it\n") {
			t.Errorf("%s: screen:\n%s", binding, screen)
		}
		n := len(receiving.FindAllString(written, -1))
		if n < 2 || n > 20 || strings.Contains(screen, "Receiving") || !strings.Contains(screen, "\nState: COMPLETED\n") {
			t.Errorf("%s: %d times, %q\nscreen:\n%s", binding, n, written, screen)
		}
		id := regexp.MustCompile(`(?m)^Task: (\S+)$`).FindStringSubmatch(screen)
		if id == nil {
			t.Fatal(screen)
		}
		written = atTerminal(t, nil, "task", "download", "-a", url, "--transport", binding, "--dir", filepath.Join(dir, binding), id[1])
		screen = onScreen(written)
		if !receiving.MatchString(written) || strings.Contains(screen, "Receiving") || strings.Contains(screen, "Saving") || !strings.Contains(screen, "\nSaved: ") {
			t.Errorf("%s: %q\nscreen:\n%s", binding, written, screen)
		}
	}
	var stdout bytes.Buffer
	if seen := atTerminal(t, &stdout, "send", "-a", url, "--text", "take this", "--file", file); strings.Contains(seen, "Sending") || strings.Contains(seen, "\r") {
		t.Errorf("stdout is no terminal: %q", seen)
	}
	if seen := atTerminal(t, &stdout, "send", "-a", url, "give"); !regexp.MustCompile(`^Waiting for task \S+\n$`).MatchString(seen) {
		t.Errorf("stdout is no terminal: %q", seen)
	}
}
