package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/child"
)

// session is a session of the agent with the program that has it.
type session struct {
	a    *Agent
	p    *child.Process
	c    *conn
	id   string
	info initialized
	dead atomic.Bool // the program was ended

	mu   sync.Mutex
	turn *turn // at work; nil: what arrives is dropped
}

// ended reports whether the program is of no use any more.
func (s *session) ended() bool {
	select {
	case <-s.c.done:
		return true
	default:
		return s.dead.Load()
	}
}

// close ends the program and waits for that.
func (s *session) close() {
	s.dead.Store(true)
	s.p.Close()
}

// start runs the program.
func (a *Agent) start() (*session, error) {
	if a.ctx.Err() != nil {
		return nil, a2a.Errorf(a2a.ErrUnavailable, "the host is shutting down")
	}
	if err := a.room(); err != nil {
		return nil, err
	}
	p, err := child.Start(child.Program{Args: a.cfg.Args, Dir: a.cfg.Dir, Env: child.Environment(a.cfg.Env...), Grace: a.cfg.Grace})
	if err != nil {
		a.gone()
		return nil, agent.Errorf("%s: %w", err.Error(), errors.Unwrap(err))
	}
	s := &session{a: a, p: p, c: newConn(p.Stdout, p.Stdin, a.cfg.Log)}
	stop := context.AfterFunc(a.ctx, p.Stop)
	a.run.Go(func() {
		s.c.run(s.handle)
		p.Close() // who cannot be heard any more is of no use
		stop()
		a.gone()
	})
	return s, nil
}

func (a *Agent) gone() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live--
}

// handle passes on what the agent says on its own account.
func (s *session) handle(m *message) {
	switch m.Method {
	case methodUpdate:
		var p updateParams
		if err := json.Unmarshal(m.Params, &p); err == nil {
			s.push(p.SessionID, event{update: p.Update})
		}
	case methodPermission, methodElicitation:
		var p updateParams
		if err := json.Unmarshal(m.Params, &p); m.ID != nil && (err != nil || !s.push(p.SessionID, event{request: m})) {
			_ = s.c.reply(s.a.ctx, m.ID, refusal(m.Method)) // a program that has ended needs no answer
		}
	default:
		if m.ID != nil && string(m.ID) != "null" {
			_ = s.c.refuse(s.a.ctx, m.ID, codeMethodNotFound, "the client does not offer "+m.Method)
		}
	}
}

// push hands an event of a session to the turn at work, if there is one, and waits until there is room for it.
func (s *session) push(session string, ev event) bool {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil || session != s.id {
		return false
	}
	select {
	case t.events <- ev:
		return true
	case <-t.ended:
	case <-s.a.ctx.Done():
	}
	return false
}

func (s *session) setTurn(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = t
}

// errAuth says that the agent wants its user to log in.
type errAuth struct{ methods []authMethod }

// Error implements error.
func (e *errAuth) Error() string {
	names := make([]string, len(e.methods))
	for i, m := range e.methods {
		names[i] = clip(m.Name, 100)
	}
	text := "The agent is not logged in. Its operator logs in on the agent's machine; then send a message to go on."
	if len(names) > 0 {
		text += " The agent offers: " + strings.Join(names, ", ") + "."
	}
	return text
}

// parts are the question that follows.
func (e *errAuth) parts() []*a2a.Part {
	return []*a2a.Part{a2a.TextPart(e.Error()), a2a.DataPart(map[string]any{"methods": e.methods})}
}

// sessionKey is the name of the context's value that has the session.
const sessionKey = "acp.session"

// stored is the session that a context keeps. It is of use only in the directory it was made in.
type stored struct {
	ID  string `json:"id"`
	Dir string `json:"dir"`
}

// open starts the program and has it begin a session, or go on with that of the context. lost reports that there was
// one, and that the agent knows nothing of it.
func (a *Agent) open(ctx context.Context, r *agent.Request) (_ *session, lost bool, err error) {
	s, err := a.start()
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	limit := fmt.Errorf("acp: the agent took more than %v", a.cfg.Start)
	starting, cancel := context.WithTimeoutCause(ctx, a.cfg.Start, limit)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() == nil && errors.Is(err, limit) {
			err = agent.Errorf("the agent did not begin a session within %v%s", a.cfg.Start, tail(s.p))
		}
	}()
	err = s.c.call(starting, methodInitialize, map[string]any{
		"protocolVersion": protocolVersion,
		"clientCapabilities": map[string]any{
			"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false,
			"elicitation": map[string]any{"form": struct{}{}, "url": struct{}{}},
		},
		"clientInfo": implementation{Name: "parley", Title: "Parley", Version: "1"},
	}, &s.info)
	if err != nil {
		return nil, false, s.explain(err)
	}
	if s.info.ProtocolVersion != protocolVersion {
		return nil, false, agent.Errorf("the agent speaks version %d of ACP, and this bridge version %d", s.info.ProtocolVersion, protocolVersion)
	}
	var was stored
	_ = json.Unmarshal([]byte(r.Values.Get(sessionKey)), &was) // what cannot be read is not there
	had := was.ID != ""
	var result sessionResult
	if had && was.Dir == a.cfg.Dir && s.resume(starting, was.ID, &result) {
		s.id = was.ID
	} else {
		if starting.Err() != nil {
			return nil, false, context.Cause(starting)
		}
		params := sessionParams{Cwd: a.cfg.Dir, MCPServers: []any{}}
		if err := s.c.call(starting, methodNew, params, &result); err != nil {
			return nil, false, s.explain(err)
		}
		s.id, lost = result.SessionID, had
		keep, err := json.Marshal(stored{s.id, a.cfg.Dir})
		if err != nil {
			return nil, false, err
		}
		if err := r.Values.Set(sessionKey, string(keep)); err != nil {
			return nil, false, err
		}
	}
	return s, lost, s.setMode(starting, &result)
}

// resume takes up a session, without its past where the agent tells that again.
func (s *session) resume(ctx context.Context, id string, result *sessionResult) bool {
	params := sessionParams{SessionID: id, Cwd: s.a.cfg.Dir, MCPServers: []any{}}
	can := s.info.Capabilities
	if can.Session.Resume != nil && s.c.call(ctx, methodResume, params, result) == nil {
		return true
	}
	return can.LoadSession && s.c.call(ctx, methodLoad, params, result) == nil // there is no turn: its updates are dropped
}

// bypass are modes of known agents in which they ask for no permission.
var bypass = []string{"bypassPermissions", "dontAsk", "yolo", "full-access", "danger-full-access", "agent-full-access"}

// guarded says why an agent may not work in a mode, if so.
func (a *Agent) guarded(mode string) error {
	if slices.Contains(bypass, mode) && !slices.Contains(a.cfg.Unguarded, mode) {
		return agent.Errorf("the agent is in the mode %q, in which it asks for no permission, and its operator has not allowed that", mode)
	}
	return nil
}

func (s *session) setMode(ctx context.Context, result *sessionResult) error {
	mode := ""
	if result.Modes != nil {
		mode = result.Modes.CurrentModeID
	}
	if want := s.a.cfg.Mode; want != "" && want != mode {
		mode = want
		if err := s.a.guarded(mode); err != nil {
			return err
		}
		if err := s.c.call(ctx, methodSetMode, map[string]string{"sessionId": s.id, "modeId": mode}, nil); err != nil {
			return s.explain(err)
		}
	}
	return s.a.guarded(mode)
}

// explain says to a caller what an error of the connection means.
func (s *session) explain(err error) error {
	var rpc *rpcError
	switch {
	case errors.As(err, &rpc) && rpc.Code == codeAuthRequired:
		return &errAuth{s.info.AuthMethods}
	case errors.As(err, &rpc):
		return agent.Errorf("the agent answered with an error: %s", clip(child.Redact(rpc.Error(), child.Environment(s.a.cfg.Env...)), 2000))
	case errors.Is(err, errClosed):
		return s.died()
	}
	return err
}

// died says how the program ended, or why it was ended.
func (s *session) died() error {
	<-s.c.done
	why := s.c.why()
	err := s.p.Err()
	var tooLong *child.LineTooLongError
	switch {
	case errors.As(why, &tooLong):
		return agent.Errorf("the agent's program was ended: %s, the most that a message of it may have", tooLong.Error())
	case err == nil:
		return agent.Errorf("the agent's program ended before it was done%s", tail(s.p))
	}
	return agent.Errorf("the agent's program ended before it was done: %s%s", err.Error(), tail(s.p))
}

// tail is the end of what a program wrote on standard error, as the end of a sentence.
func tail(p *child.Process) string {
	if t := strings.TrimSpace(p.Tail()); t != "" {
		return ":\n" + t
	}
	return ""
}

// clip shortens a text to n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
