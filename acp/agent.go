// Package acp joins A2A and ACP, the Agent Client Protocol that editors speak with coding agents: JSON-RPC in lines over
// a program's standard input and output, version 1. An [Agent] makes an ACP agent, such as Claude, Codex or Gemini, an
// A2A agent; [Serve] makes an A2A agent an ACP agent, for editors.
//
// # An ACP agent on A2A
//
// The program runs once for every context that is in use, in a process group of its own, and each caller's contexts are
// its own. A session of the agent belongs to a context: its tasks run in it one after the other. When the program is
// gone, with the host or after [Config.Idle], the next task resumes or loads the session where the agent can, and
// otherwise begins a new one and says so.
//
// What the agent says becomes the artifact "response"; tools that it uses and steps of its plan are progress, its plan
// and its changes to files artifacts. What it wants to be allowed is a question, INPUT_REQUIRED: the answer is the id of
// an option, or allow or deny. The last status says why the turn ended, in a data part, where there is more to say than
// that it did.
package acp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/child"
)

// ThoughtsExtension is the URI of the extension under which a caller gets what the agent thinks, as the artifact
// "thoughts".
const ThoughtsExtension = "https://github.com/parley-a2a/parley/extensions/thoughts/v1"

// Declaration returns the extension as the card of a host with an [Agent] lists it.
func Declaration() *a2a.AgentExtension {
	return &a2a.AgentExtension{URI: ThoughtsExtension, Description: "What the agent thinks, as the artifact thoughts"}
}

// Policy is what becomes of an agent's requests for permission.
type Policy int

// Policies.
const (
	Ask    Policy = iota // the caller decides
	Allow                // they are allowed, each for once
	Reject               // they are rejected
)

// ParsePolicy returns the policy of a word: ask, allow or reject.
func ParsePolicy(word string) (Policy, error) {
	switch word {
	case "ask":
		return Ask, nil
	case "allow":
		return Allow, nil
	case "reject":
		return Reject, nil
	}
	return 0, fmt.Errorf("acp: there is no policy %q for permissions: choose ask, allow or reject", word)
}

// Config says which program to run and how. Args is required; every other zero value has a default.
type Config struct {
	Args []string // the program, by path or by name on PATH, and its arguments
	Dir  string   // the sessions' working directory; default: this process's
	// Env are the variables of this process that the program may see besides the harmless ones, with * for any letters,
	// and variables to set, NAME=VALUE.
	Env    []string
	Policy Policy // default: Ask
	// Mode is the session mode to set, one of the agent's own; empty: the agent's choice.
	Mode string
	// Unguarded are the modes in which the agent may work without asking for permissions. In others that are known to do
	// so (such as bypassPermissions and yolo) a turn fails.
	Unguarded []string

	Start  time.Duration // for the program to begin a session; default 1 min
	Cancel time.Duration // for the agent to end a canceled turn; default 5 s
	Grace  time.Duration // for the program between TERM and KILL; default 2 s
	Idle   time.Duration // that a program without work is kept, one with an open question too; default 30 min
	// Waiting is how many tasks of a context may wait for the one at work; default 16.
	Waiting int
	// Programs is how many programs run at once; default 64.
	Programs int
	Log      *slog.Logger // default slog.Default
}

// Agent runs an ACP agent behind an A2A agent. Close it when it is no longer needed.
type Agent struct {
	cfg Config
	ctx context.Context // ends with Close
	end context.CancelFunc
	run sync.WaitGroup // of programs

	mu     sync.Mutex
	slots  map[string]*slot
	parked map[string]*turn // by task
	live   int              // programs
}

// New returns an agent that runs the program. That there is such a program is found out here; it starts with the
// first task.
func New(cfg Config) (*Agent, error) {
	if err := child.Check(cfg.Args, cfg.Dir); err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("acp: Config.Dir: %w", err)
	}
	orDefault(&cfg.Start, time.Minute)
	orDefault(&cfg.Cancel, 5*time.Second)
	orDefault(&cfg.Idle, 30*time.Minute)
	orDefault(&cfg.Waiting, 16)
	orDefault(&cfg.Programs, 64)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	a := &Agent{cfg: cfg, slots: map[string]*slot{}, parked: map[string]*turn{}}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a, nil
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Name returns what to call the agent: the program's base name, via ACP.
func (a *Agent) Name() string {
	name := filepath.Base(a.cfg.Args[0])
	return viaACP(strings.TrimSuffix(name, filepath.Ext(name)))
}

// Close ends all programs, with what they are at, and waits for that. Questions that are open are asked again by the
// next process.
func (a *Agent) Close() {
	a.end()
	a.run.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sl := range a.slots {
		if sl.idle != nil {
			sl.idle.Stop()
		}
	}
}

// Accept implements agent.Accepter: it refuses parts that no agent could be given.
func (a *Agent) Accept(_ context.Context, r *agent.Request) (*a2a.Message, error) {
	return nil, checkParts(r.Message.Parts)
}

// Handle implements agent.Agent.
func (a *Agent) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	if t := a.unpark(r.Task.ID); t != nil {
		if !t.s.ended() {
			return a.outcome(ctx, t, t.resume(ctx, r, u))
		}
		a.over(t)
	}
	sl, err := a.take(ctx, r, u)
	if err != nil {
		return err
	}
	t, err := a.begin(ctx, sl, r, u)
	if err != nil {
		a.leave(sl)
		return parkAuth(u, err)
	}
	return a.outcome(ctx, t, t.work(ctx))
}

// outcome puts a turn where it belongs that Handle is about to return from: it is parked, or over, or to be canceled.
func (a *Agent) outcome(ctx context.Context, t *turn, err error) error {
	switch {
	case t.question != nil && err == nil && ctx.Err() == nil:
		a.park(t)
		return nil
	case !t.finished:
		t.cancel()
	}
	u := t.u
	a.over(t)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return parkAuth(u, err)
}

// parkAuth parks the task for an agent that wants its user to log in; any other error is returned.
func parkAuth(u *agent.Updater, err error) error {
	var auth *errAuth
	if errors.As(err, &auth) {
		return u.ParkAuth(auth.parts()...)
	}
	return err
}

// Canceled implements agent.Canceler, for a task that waits for an answer.
func (a *Agent) Canceled(_ context.Context, task *a2a.Task) {
	if t := a.unpark(task.ID); t != nil {
		t.u = nil
		t.cancel()
		a.over(t)
	}
}

func (a *Agent) park(t *turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parked[t.task] = t
	t.sl.idle = time.AfterFunc(a.cfg.Idle, func() {
		if a.unpark(t.task) == t {
			t.u = nil
			t.cancel()
			t.s.close()
			a.over(t)
		}
	})
}

// unpark takes a parked turn, nil if there is none. Whoever has it decides about it.
func (a *Agent) unpark(task string) *turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.parked[task]
	if t != nil {
		delete(a.parked, task)
		t.sl.idle.Stop()
	}
	return t
}

// over ends a turn and lets the next task of the context go on.
func (a *Agent) over(t *turn) {
	t.end()
	a.leave(t.sl)
}

// slot is a caller's context: the one turn that runs, and the session with its program, if there is one.
type slot struct {
	key   string
	turn  chan struct{} // has a place for who runs
	users int           // who runs, and who waits for that
	s     *session      // of who runs
	idle  *time.Timer
}

// take waits until the task is the one that runs in its context.
func (a *Agent) take(ctx context.Context, r *agent.Request, u *agent.Updater) (*slot, error) {
	key := r.Caller.Tenant + "\x00" + r.Caller.Owner() + "\x00" + r.Task.ContextID
	a.mu.Lock()
	sl := a.slots[key]
	if sl == nil {
		sl = &slot{key: key, turn: make(chan struct{}, 1)}
		a.slots[key] = sl
	}
	if sl.users > a.cfg.Waiting {
		a.mu.Unlock()
		return nil, agent.Errorf("%d tasks of this context wait for their turn already (limit waiting)", a.cfg.Waiting)
	}
	sl.users++
	a.mu.Unlock()
	beat := time.NewTicker(time.Minute)
	defer beat.Stop()
	for {
		select {
		case sl.turn <- struct{}{}:
			a.mu.Lock()
			if sl.idle != nil {
				sl.idle.Stop()
			}
			a.mu.Unlock()
			return sl, nil
		case <-beat.C:
			u.Alive()
		case <-ctx.Done():
			a.mu.Lock()
			sl.users--
			a.mu.Unlock()
			return nil, context.Cause(ctx)
		}
	}
}

// leave gives the context back. A program that nobody wants for a while is ended.
func (a *Agent) leave(sl *slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sl.users--
	if sl.s != nil && sl.s.ended() {
		sl.s = nil
	}
	switch {
	case sl.users > 0:
	case sl.s == nil:
		delete(a.slots, sl.key)
	default:
		sl.idle = time.AfterFunc(a.cfg.Idle, func() { a.drop(sl) })
	}
	<-sl.turn
}

// drop ends the program of a context that is not in use.
func (a *Agent) drop(sl *slot) {
	a.mu.Lock()
	if sl.users > 0 || a.slots[sl.key] != sl {
		a.mu.Unlock()
		return
	}
	delete(a.slots, sl.key)
	a.mu.Unlock()
	if sl.s != nil {
		sl.s.close()
	}
}

// room makes room for one more program, by ending one that nobody uses.
func (a *Agent) room() error {
	a.mu.Lock()
	if a.live < a.cfg.Programs {
		a.live++
		a.mu.Unlock()
		return nil
	}
	var free *slot
	for _, sl := range a.slots {
		if sl.users == 0 && sl.s != nil {
			free = sl
			break
		}
	}
	if free == nil {
		a.mu.Unlock()
		return agent.Errorf("%d programs of this agent run already, all of them at work (limit programs): try again later", a.cfg.Programs)
	}
	a.live++ // in place of the other's
	a.mu.Unlock()
	free.idle.Stop()
	a.drop(free)
	return nil
}

var (
	_ agent.Agent    = (*Agent)(nil)
	_ agent.Accepter = (*Agent)(nil)
	_ agent.Canceler = (*Agent)(nil)
)
