// Package child runs a program behind an agent: in a process group of its own, with an environment of its own, and
// ended whole. It also has what bridges to programs share: bounded lines, and text that is gathered into chunks.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Program says what to run. Args is required.
type Program struct {
	Args []string // the program, by path or by name on PATH, and its arguments
	Dir  string   // where it runs; empty: where this process does
	Env  []string // all of its environment, NAME=VALUE, such as [Environment]
	// Grace is how long it has between TERM and KILL: 2 s by default.
	Grace time.Duration
	// Memory is how many bytes its group may have resident, together: over that it is killed, and Err is
	// [ErrMemory]. Zero: any number. It is looked at every 250 ms, and on Linux alone.
	Memory int64
}

// ErrMemory says that a program was killed because its group had more memory than it may.
var ErrMemory = errors.New("the program used more memory than it may")

const (
	maxTail  = 4 << 10                // of stderr, which is kept for the reason of a failure
	maxAfter = 1 << 20                // of output after the program's end: more than a pipe holds
	quiet    = 250 * time.Millisecond // after the program's end, when somebody else holds its pipe
)

// Process is a program that was started. Its standard error is read and kept in part, see [Process.Tail].
//
// When the program ends, by itself or stopped, what is left of its group is killed. A child that left the group
// lives on, but what it holds of the pipes delays nobody.
type Process struct {
	Stdin  io.WriteCloser // closed when the program ends
	Stdout io.Reader      // to be read to its end, which comes soon after the program's

	cmd   *exec.Cmd
	env   []string
	grace time.Duration
	tail  tail
	pipes []*output
	done  chan struct{}

	mu     sync.Mutex
	ended  bool // its id, and that of its group, may be another's
	killer *time.Timer
	greedy bool // was killed for its memory
	err    error
}

// Check says what is wrong with a program and its directory as far as is known before it runs, and what to do.
func Check(args []string, dir string) error {
	if len(args) == 0 || args[0] == "" {
		return errors.New("Config.Args is empty: name a program")
	}
	name := args[0]
	switch _, err := exec.LookPath(name); {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("the program %q is not on PATH: install it, or give its path", name)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no program %q: give its path, or a name on PATH", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the program %q may not be run: make it executable (chmod +x), or run its interpreter", name)
	case err != nil:
		var cause *exec.Error
		if errors.As(err, &cause) { // which says the name again
			err = cause.Err
		}
		return fmt.Errorf("the program %q cannot be run: %w", name, err)
	}
	if dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("Config.Dir %q is not a directory: make it, or name another", dir)
		}
	}
	return nil
}

// Start runs a program. The error says in words for a caller why it could not be started, and wraps the cause.
func Start(p Program) (*Process, error) {
	c := &Process{env: p.Env, grace: p.Grace, done: make(chan struct{})}
	if c.grace == 0 {
		c.grace = 2 * time.Second
	}
	c.cmd = exec.CommandContext(context.Background(), p.Args[0], p.Args[1:]...) //nolint:gosec // the operator's program
	c.cmd.Dir, c.cmd.Env = p.Dir, p.Env
	c.cmd.SysProcAttr = ownGroup()
	if err := c.start(); err != nil {
		return nil, &startError{filepath.Base(p.Args[0]), err}
	}
	if p.Memory > 0 {
		go c.watchMemory(p.Memory)
	}
	return c, nil
}

// watchMemory kills the group when it has more resident memory than limit.
func (c *Process) watchMemory(limit int64) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		if resident(c.cmd.Process.Pid) > limit {
			c.mu.Lock()
			c.greedy = !c.ended
			c.mu.Unlock()
			c.kill()
			return
		}
	}
}

func (c *Process) start() error {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close() //nolint:errcheck // nothing is lost with it
		}
	}()
	in, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	theirs = append(theirs, in)
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			c.closePipes(stdin)
			return err
		}
		c.pipes, theirs = append(c.pipes, &output{f: r}), append(theirs, w)
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, theirs[1], theirs[2]
	if err := c.cmd.Start(); err != nil {
		c.closePipes(stdin)
		return err
	}
	c.Stdin, c.Stdout = stdin, c.pipes[0]
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&c.tail, c.pipes[1]) // its end is all there is to know
	}()
	go c.wait(stdin, read)
	return nil
}

func (c *Process) closePipes(stdin *os.File) {
	stdin.Close() //nolint:errcheck // nothing is lost with it
	for _, p := range c.pipes {
		p.f.Close() //nolint:errcheck // nothing is lost with it
	}
}

// wait waits for the program's end and clears up after it.
func (c *Process) wait(stdin *os.File, read <-chan struct{}) {
	err, reaped := error(nil), false
	if !exited(c.cmd.Process.Pid) {
		err, reaped = c.cmd.Wait(), true
	}
	c.mu.Lock()
	killGroup(c.cmd.Process) // until the program is reaped, nobody else has the number of its group
	if !reaped {
		err = c.cmd.Wait()
	}
	if c.greedy {
		err = ErrMemory
	}
	c.err, c.ended = err, true
	if c.killer != nil {
		c.killer.Stop()
	}
	c.mu.Unlock()
	stdin.Close() //nolint:errcheck // nothing is lost with it
	for _, p := range c.pipes {
		p.end()
	}
	<-read
	close(c.done)
}

// Done is closed when the program has ended, its group is gone, and its standard error was read.
func (c *Process) Done() <-chan struct{} { return c.done }

// Err says how the program ended: nil is exit code 0, otherwise mostly an *exec.ExitError. It waits for the end.
func (c *Process) Err() error {
	<-c.done
	return c.err
}

// Tail returns the last of what the program wrote on standard error, with secrets blotted out.
func (c *Process) Tail() string { return Redact(c.tail.String(), c.env) }

// Stop asks the program's group to end (TERM), and ends it (KILL) when the grace is over. It does not wait.
func (c *Process) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.killer != nil {
		return
	}
	terminateGroup(c.cmd.Process)
	c.killer = time.AfterFunc(c.grace, c.kill)
}

func (c *Process) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		killGroup(c.cmd.Process)
	}
}

// Close closes the program's output, for who does not read it to its end, stops the program and waits for that.
func (c *Process) Close() {
	c.Stop()
	<-c.done
	for _, p := range c.pipes {
		p.f.Close() //nolint:errcheck // nothing is lost with it
	}
}

// startError says why a program could not be started.
type startError struct {
	name  string
	cause error
}

func (e *startError) Error() string {
	why := "the system refused"
	switch {
	case errors.Is(e.cause, exec.ErrNotFound), errors.Is(e.cause, fs.ErrNotExist):
		why = "it, or its directory, was not found"
	case errors.Is(e.cause, fs.ErrPermission):
		why = "it may not be run"
	}
	return fmt.Sprintf("the program %s could not be started: %s", e.name, why)
}

func (e *startError) Unwrap() error { return e.cause }

// output is our end of a pipe that a program writes to.
type output struct {
	f     *os.File
	ended atomic.Bool
	// Since the program ended:
	after  int           // bytes that were read
	waited time.Duration // for them
}

// Read implements io.Reader. After the program's end it goes on for what is in the pipe, and for no more than that:
// somebody else may hold the other end. What the program wrote comes without waiting.
func (o *output) Read(b []byte) (int, error) {
	over := o.ended.Load()
	start := time.Now()
	if over {
		if o.after >= maxAfter || o.waited >= quiet {
			o.f.Close() //nolint:errcheck // nothing is lost with it
			return 0, io.EOF
		}
		_ = o.f.SetReadDeadline(start.Add(quiet - o.waited)) // every pipe of ours has deadlines
	}
	n, err := o.f.Read(b)
	late := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case over:
		o.after += n
		o.waited += time.Since(start)
	case late: // the program ended meanwhile
		return o.Read(b)
	}
	if late || errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	if errors.Is(err, io.EOF) {
		o.f.Close() //nolint:errcheck // nothing is lost with it
	}
	return n, err
}

// end says that the program has ended.
func (o *output) end() {
	o.ended.Store(true)
	_ = o.f.SetReadDeadline(time.Now().Add(quiet)) // wakes who reads
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(b) >= maxTail {
		t.b = append(t.b[:0], b[len(b)-maxTail:]...)
		return len(b), nil
	}
	if over := len(t.b) + len(b) - maxTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, b...)
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
