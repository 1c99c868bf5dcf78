package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// terminal returns the two ends of a terminal: the person's, and the program's.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// TestChatAtTerminal: a person is prompted, an error does not end the session, and Ctrl-C is for the turn.
func TestChatAtTerminal(t *testing.T) {
	home(t)
	url := serveUntilEnd(t, parley.Config{Name: "Slow"}, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		if r.Text() != "slow" {
			return u.Complete(a2a.TextPart("hi " + r.Text()))
		}
		if err := u.Progress(a2a.TextPart("at it")); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	person, program := terminal(t)
	cmd := exec.CommandContext(t.Context(), "parley", "chat", "-a", url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	var seen bytes.Buffer
	until := func(want string) {
		t.Helper()
		b := make([]byte, 1)
		for from := seen.Len(); !strings.Contains(seen.String()[from:], want); {
			if _, err := person.Read(b); err != nil {
				t.Fatalf("no %q: %v\n%s", want, err, seen.String())
			}
			seen.Write(b)
		}
	}
	typed := func(s string) {
		t.Helper()
		if _, err := io.WriteString(person, s); err != nil {
			t.Fatal(err)
		}
	}
	until("Talking to Slow. /help for help.")
	until("> ")
	typed("/fly\n")
	until("Error: there is no /fly")
	until("> ")
	typed("slow\n")
	until("at it")
	typed("\x03")
	until("Canceling the task; Ctrl-C again leaves it alone.")
	until("State: CANCELED")
	until("> ")
	typed("there\n")
	until("  hi there")
	until("> ")
	typed("slow\n")
	until("at it")
	until("\n")
	typed("\x03\x03")
	until("> ") // canceled or left alone: either way the session goes on
	typed("\x03")
	until("Ctrl-C again, or /quit, leaves.")
	typed("\x03")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, seen.String())
	}
}

// TestChatWithoutTerminal: nothing asks at a terminal while what is said goes elsewhere.
func TestChatWithoutTerminal(t *testing.T) {
	_, program := terminal(t)
	cmd := exec.CommandContext(t.Context(), "parley", "chat")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = program, &stderr
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(stderr.String(), "give the turns on stdin") {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}
