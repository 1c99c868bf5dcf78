// Package command makes any program an agent: one that reads text and writes text, or one that says what happens in
// lines of JSON. The program runs once for every turn of a task.
//
// In both forms the exit code is the verdict: 0 is COMPLETED, any other FAILED with the end of standard error. It is
// the program's exit that ends the task, never its silence. Its environment is a few harmless variables of this
// process, those of [Config.Env], and
//
//	A2A_TASK_ID, A2A_CONTEXT_ID  the task's and the context's ids
//	A2A_MESSAGE_FILE             the whole message, as JSON
//	A2A_OUT_DIR                  an empty directory: each file in it at the end becomes an artifact
//
// # Text
//
// Standard input is the text of the message, standard output the artifact "output". Exit code 75 is INPUT_REQUIRED: the
// last line of the output is the question (and, with [Config.Stream], in the artifact too), and the program runs again with
// the answer as its input.
//
// # Events
//
// With [Config.Events], every line of standard output is a JSON object with one of
//
//	{"text": "…"}                  the next piece of the artifact "output"
//	{"status": "…"}                what the program is at
//	{"artifact": {…}}              an A2A Artifact, with "append" and "lastChunk" beside it for one in chunks
//	{"ask": "…"}                   a question: INPUT_REQUIRED until there is an answer
//
// where "status" and "ask" also take an array of A2A parts. What has none of these names is ignored. Standard input has
// {"message": {…}}, and for every question {"answer": {…}}, each the user's A2A Message on a line of its own.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/child"
)

// exitInput is the exit code of a program that needs input: EX_TEMPFAIL of sysexits.h.
const exitInput = 75

// Config says what to run. Args is required; every other zero value has a default.
type Config struct {
	Args []string // the program, by path or by name on PATH, and its arguments; nothing of a message is among them
	Dir  string   // where it runs; default: where this process does
	// Env are the variables of this process that the program may see besides the harmless ones, with * for any letters,
	// and variables to set, NAME=VALUE.
	Env []string
	// Events says that the program writes events rather than text.
	Events bool
	// Stream hands the text on as it comes, in chunks, rather than as one part at the end. Events are always handed on.
	Stream bool
	// Grace is how long a canceled program has between TERM and KILL; default 2 s.
	Grace time.Duration
	// MaxOutput is how many bytes of output and files a turn may have, beyond which it fails; default 32 MiB.
	MaxOutput int64
	// MaxLine is how many bytes a line of events may have; default 8 MiB.
	MaxLine int
}

// Agent runs a program for every turn of a task.
type Agent struct{ cfg Config }

// New returns an agent that runs the program. That there is such a program is found out here.
func New(cfg Config) (*Agent, error) {
	if err := child.Check(cfg.Args, cfg.Dir); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	if cfg.MaxOutput == 0 {
		cfg.MaxOutput = 32 << 20
	}
	if cfg.MaxLine == 0 {
		cfg.MaxLine = 8 << 20
	}
	return &Agent{cfg}, nil
}

// Name returns what to call the agent: the program's base name.
func (a *Agent) Name() string {
	name := filepath.Base(a.cfg.Args[0])
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// Handle implements agent.Agent.
func (a *Agent) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	scratch, err := os.MkdirTemp("", "parley-command-")
	if err != nil {
		return fmt.Errorf("command: no directory for the program's files: %w", err)
	}
	defer os.RemoveAll(scratch)
	t := &turn{cfg: a.cfg, r: r, u: u, out: filepath.Join(scratch, "out"), left: a.cfg.MaxOutput}
	message := filepath.Join(scratch, "message.json")
	if err := os.Mkdir(t.out, 0o700); err != nil {
		return fmt.Errorf("command: no directory for the program's files: %w", err)
	}
	if err := os.WriteFile(message, r.Message.AppendJSON(nil), 0o600); err != nil {
		return fmt.Errorf("command: the message could not be written for the program: %w", err)
	}
	env := append(child.Environment(a.cfg.Env...),
		"A2A_TASK_ID="+r.Task.ID, "A2A_CONTEXT_ID="+r.Task.ContextID, "A2A_MESSAGE_FILE="+message, "A2A_OUT_DIR="+t.out)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.p, err = child.Start(child.Program{Args: a.cfg.Args, Dir: a.cfg.Dir, Env: env, Grace: a.cfg.Grace})
	if err != nil {
		return agent.Errorf("%s: %w", err.Error(), errors.Unwrap(err))
	}
	defer t.p.Close()
	defer context.AfterFunc(ctx, t.p.Stop)()
	defer t.beat()()
	if a.cfg.Events {
		return t.events(ctx)
	}
	return t.text(ctx)
}

// turn is one run of the program.
type turn struct {
	cfg  Config
	r    *agent.Request
	u    *agent.Updater
	p    *child.Process
	out  string // directory of files that become artifacts
	left int64  // bytes of output that it may still have
}

// beat says that the run is at work for as long as the program lives, and returns what ends that.
func (t *turn) beat() (stop func()) {
	over := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.u.Alive()
			case <-t.p.Done():
				return
			case <-over:
				return
			}
		}
	}()
	return func() { close(over) }
}

// input writes the program's input beside the reading of its output, until the channel is closed. A program that reads
// none of it is no error.
func (t *turn) input() chan<- []byte {
	in := make(chan []byte, 16)
	go func() {
		defer t.p.Stdin.Close()
		for b := range in {
			_, _ = t.p.Stdin.Write(b)
		}
	}()
	return in
}

// spend counts output against the limit, and returns what of it is still within.
func (t *turn) spend(b []byte) ([]byte, error) {
	if n := int64(len(b)); n <= t.left {
		t.left -= n
		return b, nil
	}
	b, t.left = b[:t.left], 0
	return b, agent.Errorf("the program wrote more than the %d bytes of output and files that a turn may have: its output up to there is kept. "+
		"Have it write less, or say where the rest is", t.cfg.MaxOutput)
}

// ended waits for the program's end and returns its exit code, or why the task has failed.
func (t *turn) ended(ctx context.Context) (int, error) {
	err := t.p.Err()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.ExitCode() == exitInput && !t.cfg.Events:
		return exitInput, nil
	}
	return 0, t.failed(err.Error())
}

// failed says why the task has failed, with the end of what the program wrote on standard error. The host's log has it too.
func (t *turn) failed(why string) error {
	tail := strings.TrimSpace(t.p.Tail())
	t.r.Log.Warn("the program failed", "program", t.cfg.Args[0], "why", why, "stderr", tail)
	if tail != "" {
		tail = ":\n" + tail
	}
	return agent.Errorf("the program ended with %s%s", why, tail)
}

var _ agent.Agent = (*Agent)(nil)
