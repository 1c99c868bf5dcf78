// Package proxy makes an agent that is elsewhere an agent of this host: with the host's bindings, its own card, its own
// callers and its own log of every task.
//
// A task here is a task there. What the remote agent says of it is recorded here under the ids of this host: artifacts
// with their ids and chunks, progress, questions, and the end. A question (INPUT_REQUIRED) parks the task; an
// authorization (AUTH_REQUIRED) waits for what comes first, a message of the caller or the remote agent's going on. A
// cancel is handed on. After a restart of the host the remote task is followed again, and where the remote agent offers
// safe-retry a message whose fate is not known is sent again. What a remote agent says while it works is progress, which
// the history does not keep; its last word and its questions are kept.
//
// Nothing of a caller but the message goes on: no header, no credential. The remote agent is called with the host's own
// credential for it, or under [Identity] with a token that says for whom. A caller's context is a context there of the
// remote agent's making, and no two callers share one.
package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/delegation"
	"github.com/parley-a2a/parley/extension"
)

// Config says which agent to call and how. Card is required.
type Config struct {
	// Card names the remote agent's card, as client.FetchCard takes it.
	Card string
	// Client says how the agent is called: its HTTP and GRPC have the host's credential (auth.Credentials), its Cache with
	// Trust says which cards are taken. A nil Cache takes every card. Extensions are not to be set.
	Client client.Options
	// Delegation says who this host is among agents that call agents: a message that has come through it before, or
	// through too many, is refused (package delegation). Self is required.
	Delegation delegation.Options
	// Identity has the remote agent know for whom it is called; nil: it sees the host only.
	Identity *Identity
	// Refresh is how often the card is looked at; default 5 min.
	Refresh time.Duration
	Log     *slog.Logger // default slog.Default
}

// Identity is a token for every caller (package delegation), in place of one credential for all. A caller who cancels a
// task that waits for an answer brings none: the remote task is then left to wait.
type Identity struct {
	Exchange *delegation.Exchange
	Tokens   *delegation.Tokens // its Wrap has to stand in front of the host's service
	Audience string             // the remote agent's name at the token service
	// Origins are where the token may go: scheme, host and port of the remote agent's interfaces.
	Origins []string
}

// Agent is the remote agent. It is to be closed.
type Agent struct {
	agent.Agent // behind delegation.Guard

	cfg   Config
	calls client.Options // of the calls; those of cfg are for cards
	log   *slog.Logger

	mu     sync.Mutex
	remote *remote // nil: its card is not to be trusted any more
	links  map[contextKey]*links
	parked map[string]string // the remote task's id, by the task's
}

// remote is the remote agent as one of its cards says it is.
type remote struct {
	*client.Client
	public *a2a.AgentCard
	hide   hidden // its addresses
	runs   sync.WaitGroup
}

// maxParked is of how many parked tasks the remote tasks are remembered, to be canceled there.
const maxParked = 10_000

// New fetches the card and returns the agent.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	if cfg.Card == "" {
		return nil, errors.New("proxy: Config.Card is empty: name the remote agent's card")
	}
	if cfg.Delegation.Self == "" {
		return nil, errors.New("proxy: Config.Delegation.Self is empty: give the host a name that no other agent has")
	}
	cfg.Refresh = cmp.Or(cfg.Refresh, 5*time.Minute)
	a := &Agent{cfg: cfg, log: cfg.Log, links: map[contextKey]*links{}, parked: map[string]string{}}
	if a.log == nil {
		a.log = slog.Default()
	}
	a.Agent = delegation.Guard(bridge{a}, cfg.Delegation)
	if a.cfg.Client.Cache == nil {
		a.cfg.Client.Cache = new(client.CardCache)
	}
	a.calls = a.cfg.Client
	if cfg.Identity != nil {
		if err := a.identify(cfg.Identity); err != nil {
			return nil, err
		}
	}
	card, err := client.FetchCard(ctx, cfg.Card, a.cfg.Client)
	if err != nil {
		return nil, err
	}
	a.remote, err = a.dial(card)
	return a, err
}

// identify puts the caller's token into the requests of a run.
func (a *Agent) identify(id *Identity) error {
	source := auth.TokenFunc(func(ctx context.Context) (auth.Token, error) {
		r, ok := ctx.Value(requestKey{}).(*agent.Request)
		if !ok {
			return auth.Token{}, errors.New("proxy: a call that is nobody's run has no token")
		}
		token, err := id.Exchange.Source(r, id.Tokens, id.Audience).Token(ctx)
		return auth.Token{Secret: auth.NewSecret(token), Expiry: time.Unix(1, 0)}, err // it is not the next caller's
	})
	creds, err := auth.NewCredentials(auth.Credential{Origins: id.Origins, Source: source})
	if err != nil {
		return err
	}
	a.calls.HTTP = creds.HTTP(a.calls.HTTP)
	a.calls.GRPC = append(slices.Clip(a.calls.GRPC), creds.GRPC()...)
	return nil
}

// requestKey is where the context of a run's calls has its request.
type requestKey struct{}

func (a *Agent) dial(card *client.Card) (*remote, error) {
	c, err := client.Dial(card, a.calls)
	if err != nil {
		return nil, err
	}
	hide := addresses(card)
	return &remote{Client: c, public: hide.card(card.AgentCard), hide: hide}, nil
}

// Card returns what a card of this host may say of the remote agent: name, description, version, provider, skills,
// modes and extensions. It has no interfaces, no security and no signatures, which are for the host to make, and no
// address of the remote agent is in it.
func (a *Agent) Card() *a2a.AgentCard {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.remote == nil {
		return new(a2a.AgentCard)
	}
	return a.remote.public
}

// ExtendedCard returns, for parley.Config.ExtendedCard, what callers who authenticate are told: what the remote agent tells
// this host under its credential, as by [Agent.Card]. It is nil where the remote agent has no extended card, and under
// Identity, where no call is the host's own.
func (a *Agent) ExtendedCard() func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.remote == nil || a.cfg.Identity != nil {
		return nil
	}
	if offers := a.remote.Client.Card().Capabilities.ExtendedAgentCard; offers == nil || !*offers {
		return nil
	}
	return func(ctx context.Context, _ a2a.Caller) (*a2a.AgentCard, error) {
		r, err := a.take()
		if err != nil {
			return nil, err
		}
		defer r.runs.Done()
		card, err := r.GetExtendedAgentCard(a2a.WithCallInfo(ctx, new(a2a.CallInfo)), &a2a.GetExtendedAgentCardRequest{})
		if err != nil {
			a.log.WarnContext(ctx, "the remote agent does not give its extended card", "err", err)
			return nil, nil
		}
		out := r.hide.card(card)
		out.Capabilities = a2a.AgentCapabilities{} // as on the public card
		return out, nil
	}
}

// Watch looks at the remote agent's card from time to time until ctx ends, and calls changed when another one is in
// effect. A card that the policy does not take is not followed: then new messages are refused until it is the old one
// again, or the policy another. One that cannot be had changes nothing.
func (a *Agent) Watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(a.cfg.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if a.refresh(ctx) {
			changed()
		}
	}
}

// refresh reports whether the card is another now.
func (a *Agent) refresh(ctx context.Context) bool {
	card, err := client.FetchCard(ctx, a.cfg.Card, a.cfg.Client)
	a.mu.Lock()
	old := a.remote
	a.mu.Unlock()
	if err == nil && old != nil && bytes.Equal(card.Raw, old.Client.Card().Raw) {
		return false
	}
	var next *remote
	if err == nil {
		next, err = a.dial(card)
	}
	if err != nil {
		if ctx.Err() == nil {
			a.log.WarnContext(ctx, "the remote agent's card cannot be used", "card", a.cfg.Card, "err", err)
		}
		if !errors.Is(err, client.ErrCardNotTrusted) {
			return false
		}
	}
	a.mu.Lock()
	a.remote = next
	a.mu.Unlock()
	if old != nil {
		go old.retire()
	}
	return next != nil
}

// retire gives up the connections when the last run is over.
func (r *remote) retire() {
	r.runs.Wait()
	_ = r.Close() // nobody uses it
}

// Close gives up the connections to the remote agent. Runs must be over.
func (a *Agent) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.remote != nil {
		_ = a.remote.Close() // nobody uses it
		a.remote = nil
	}
}

// take returns the remote agent for a run, which has to call runs.Done.
func (a *Agent) take() (*remote, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.remote == nil {
		return nil, errNotTrusted
	}
	a.remote.runs.Add(1)
	return a.remote, nil
}

var errNotTrusted = a2a.Errorf(a2a.ErrUnavailable, "the agent behind this host is not the one that its operator approved: try again later")

// Accept implements agent.Accepter: what has come through this host before is refused.
func (a *Agent) Accept(ctx context.Context, r *agent.Request) (*a2a.Message, error) {
	return a.Agent.(agent.Accepter).Accept(ctx, r) //nolint:forcetypeassert // a Guard is one
}

// Canceled implements agent.Canceler: a task that waits for an answer is canceled there, too.
func (a *Agent) Canceled(ctx context.Context, task *a2a.Task) {
	a.Agent.(agent.Canceler).Canceled(ctx, task) //nolint:forcetypeassert // a Guard is one
}

// Restartable implements agent.Restartable: a task is followed again.
func (a *Agent) Restartable() bool { return true }

// bridge is the agent behind the guard.
type bridge struct{ *Agent }

// Accept implements agent.Accepter.
func (b bridge) Accept(context.Context, *agent.Request) (*a2a.Message, error) {
	r, err := b.take()
	if err == nil {
		r.runs.Done()
	}
	return nil, err
}

// Canceled implements agent.Canceler.
func (b bridge) Canceled(ctx context.Context, task *a2a.Task) {
	id := b.unpark(task.ID)
	if id == "" {
		return
	}
	r, err := b.take()
	if err != nil {
		return
	}
	defer r.runs.Done()
	b.cancel(ctx, r, id)
}

// Handle implements agent.Agent.
func (b bridge) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	remote, err := b.take()
	if err != nil {
		return err
	}
	defer remote.runs.Done()
	l := b.enter(r)
	defer l.leave()
	t := newTurn(b.Agent, remote, l, r, u)
	return t.run(ctx)
}

// cancelTime is how long a cancel may take at the remote agent.
const cancelTime = 4 * time.Second

func (a *Agent) cancel(ctx context.Context, r *remote, task string) {
	ctx, stop := context.WithTimeout(ctx, cancelTime)
	defer stop()
	if _, err := r.CancelTask(ctx, &a2a.CancelTaskRequest{ID: task}); err != nil && !errors.Is(err, a2a.ErrTaskNotCancelable) {
		a.log.WarnContext(ctx, "the remote task could not be canceled", "remote", task, "err", err)
	}
}

func (a *Agent) park(task, remote string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.parked) < maxParked {
		a.parked[task] = remote
	}
}

func (a *Agent) unpark(task string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := a.parked[task]
	delete(a.parked, task)
	return id
}

// hop are the extensions that hold between two ends of one connection. A caller has those of this host.
var hop = []string{extension.TaskLog, extension.SafeRetry, extension.ChunkIntegrity, extension.Delegation}

func (r *remote) offers(uri string) bool {
	return slices.ContainsFunc(r.Client.Card().Capabilities.Extensions, func(x *a2a.AgentExtension) bool { return x.URI == uri })
}

var (
	_ agent.Agent       = (*Agent)(nil)
	_ agent.Accepter    = (*Agent)(nil)
	_ agent.Canceler    = (*Agent)(nil)
	_ agent.Restartable = (*Agent)(nil)
)
