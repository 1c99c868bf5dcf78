// Package delegation is for agents that call other agents: work that is handed on must not come back in a circle, nor
// outlive the time that its caller has, nor lose whose work it is.
//
// [Guard] stands before the agent. It knows from a message through which agents it has come and until when an answer is
// wanted (extension delegation), refuses what has been here already or has come too far, and gives both to the run's
// context. [Client] stands before the next agent's client and hands them on. [Exchange] trades the caller's token for
// one that is good for the next agent and nothing else (RFC 8693).
package delegation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/extension"
)

// Depth is through how many agents a message may come, unless Options says less.
const Depth = 5

// Names in the metadata of a message, under the extension delegation.
const (
	// ChainKey is where the names of the agents are through which the message came, the first one first.
	ChainKey = extension.Delegation + "/chain"
	// DeadlineKey is where the time is until which an answer is wanted (RFC 3339).
	DeadlineKey = extension.Delegation + "/deadline"
)

// Reasons of the errors by which a message is refused.
const (
	ReasonLoop     = "DELEGATION_LOOP"
	ReasonDepth    = "DELEGATION_DEPTH"
	ReasonDeadline = "DELEGATION_DEADLINE"
)

// Options say who an agent is among others. Self is required.
type Options struct {
	// Self is the agent's name in chains, the same at all times and no other agent's, such as the URL of its card.
	// With Verified it is the name that tokens have for it.
	Self string
	// Depth is through how many agents a message may have come, at most and by default 5.
	Depth int
	// Verified returns the chain that the caller's identity vouches for, such as the actors of its token, the first one
	// first. Where it is set the chain in the message is only somebody's word, and not looked at. Nil, which is for
	// hosts that do not ask who calls: the message is believed.
	Verified func(*agent.Request) ([]string, error)
}

func (o *Options) depth() int {
	if o.Depth <= 0 || o.Depth > Depth {
		return Depth
	}
	return o.Depth
}

// hop is where a run stands.
type hop struct {
	chain []string // with this agent as the last
	depth int
}

type hopKey struct{}

// Guard returns next with the extension before it: a message that has come through this agent or through more than
// Options.Depth others is refused before a task is made of it (ErrPermissionDenied), and so is one whose deadline has
// passed. The contexts of Accept and Handle end at the deadline, and [Client] knows from them what to hand on.
//
// What is returned implements every optional interface of package agent: where next does not have it, with the answer
// that means the same as not having it. It panics without Options.Self.
func Guard(next agent.Agent, opts Options) agent.Agent {
	if opts.Self == "" {
		panic("delegation: Guard needs Options.Self")
	}
	return &guard{Agent: next, opts: opts}
}

type guard struct {
	agent.Agent
	opts Options
}

var (
	_ agent.Accepter    = (*guard)(nil)
	_ agent.Canceler    = (*guard)(nil)
	_ agent.Restartable = (*guard)(nil)
)

// Accept implements agent.Accepter.
func (g *guard) Accept(ctx context.Context, r *agent.Request) (*a2a.Message, error) {
	ctx, cancel, err := g.enter(ctx, r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if next, ok := g.Agent.(agent.Accepter); ok {
		return next.Accept(ctx, r)
	}
	return nil, nil
}

// Handle implements agent.Agent. A message to a task is only seen here: then the task fails.
func (g *guard) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	in, cancel, err := g.enter(ctx, r)
	if err != nil {
		return err
	}
	defer cancel()
	err = g.Agent.Handle(in, r, u)
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(in.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return late()
	}
	return err
}

// Canceled implements agent.Canceler.
func (g *guard) Canceled(ctx context.Context, task *a2a.Task) {
	if next, ok := g.Agent.(agent.Canceler); ok {
		next.Canceled(ctx, task)
	}
}

// Restartable implements agent.Restartable.
func (g *guard) Restartable() bool {
	next, ok := g.Agent.(agent.Restartable)
	return ok && next.Restartable()
}

// enter returns the context of what is done for a message, or the error that refuses it.
func (g *guard) enter(ctx context.Context, r *agent.Request) (context.Context, context.CancelFunc, error) {
	chain, err := g.chain(r)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case slices.Contains(chain, g.opts.Self):
		return nil, nil, refused(ReasonLoop,
			"the message has been with this agent already: the agents it came through hand it on in a circle")
	case len(chain) > g.opts.depth():
		return nil, nil, refused(ReasonDepth,
			"the message has come through %d agents, and at most %d are taken", len(chain), g.opts.depth())
	}
	ctx = context.WithValue(ctx, hopKey{}, &hop{chain: append(slices.Clip(chain), g.opts.Self), depth: g.opts.depth()})
	cancel := context.CancelFunc(func() {})
	if _, ok := r.Message.Metadata[DeadlineKey]; ok {
		var deadline time.Time
		if !r.Message.Metadata.Get(DeadlineKey, &deadline) {
			return nil, nil, invalid(DeadlineKey, "must be a time (RFC 3339)")
		}
		if !time.Now().Before(deadline) {
			return nil, nil, late()
		}
		ctx, cancel = context.WithDeadline(ctx, deadline)
	}
	return ctx, cancel, nil
}

func (g *guard) chain(r *agent.Request) (chain []string, err error) {
	if g.opts.Verified != nil {
		return g.opts.Verified(r)
	}
	_, has := r.Message.Metadata[ChainKey]
	if has && (!r.Message.Metadata.Get(ChainKey, &chain) || slices.Contains(chain, "")) {
		return nil, invalid(ChainKey, "must be a list of names")
	}
	return chain, nil
}

func invalid(key, what string) error { return a2a.InvalidField("message.metadata."+key, "%s", what) }

func refused(reason, format string, args ...any) error {
	e := a2a.Errorf(a2a.ErrPermissionDenied, format, args...)
	e.Reason = reason
	return e
}

func late() error {
	return refused(ReasonDeadline, "the time until which an answer was wanted has passed")
}

// Request returns a copy of a message's request with what is to be handed on of this run: the chain, with this agent as
// the last, and the context's deadline. It is an error (ErrPermissionDenied) if the chain is at its end or the deadline
// has passed, and if ctx is not from a [Guard]: work whose way nobody knows is not handed on.
func Request(ctx context.Context, req *a2a.SendMessageRequest) (*a2a.SendMessageRequest, error) {
	h, ok := ctx.Value(hopKey{}).(*hop)
	switch {
	case !ok:
		return nil, errors.New("delegation: the context is not that of a run behind delegation.Guard")
	case req.Message == nil:
		return nil, a2a.InvalidField("message", "required")
	case len(h.chain) > h.depth:
		return nil, refused(ReasonDepth,
			"the work has come through %d agents: it is not handed on to another (at most %d)", len(h.chain), h.depth)
	}
	out, m := *req, *req.Message
	m.Metadata = m.Metadata.With(ChainKey, h.chain)
	m.Extensions = declared(m.Extensions)
	if deadline, ok := ctx.Deadline(); ok {
		if !time.Now().Before(deadline) {
			return nil, late()
		}
		m.Metadata = m.Metadata.With(DeadlineKey, deadline.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano))
	}
	out.Message = &m
	return &out, nil
}

// declared returns the extensions with delegation among them.
func declared(uris []string) []string {
	if slices.Contains(uris, extension.Delegation) {
		return uris
	}
	return append(slices.Clip(uris), extension.Delegation)
}

// identity are headers, in lower case, that say who calls or vouch for it: they are the caller's at this agent, and no
// business of the next one.
var identity = []string{
	"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "forwarded", "dpop",
}

// stripped returns the headers without those that say who calls.
func stripped(in map[string][]string) map[string][]string {
	out := make(map[string][]string, len(in))
	for name, values := range in {
		lower := strings.ToLower(name)
		if slices.Contains(identity, lower) || strings.HasPrefix(lower, "x-forwarded-") || strings.HasPrefix(lower, "x-user") {
			continue
		}
		out[name] = values
	}
	return out
}
