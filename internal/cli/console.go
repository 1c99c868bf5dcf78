package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/console"
	"github.com/parley-a2a/parley/tap"
)

// defaultConsole is where the console is unless it is told otherwise.
const defaultConsole = "127.0.0.1:41243"

// consoleFlags say whether there is a console, and where.
type consoleFlags struct{ listen string }

func (f *consoleFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "console", "", "a web page to look at the agent with, at "+defaultConsole+" unless =ADDR says where (`ADDR`)")
	fs.Lookup("console").NoOptDefVal = defaultConsole
}

func (f *consoleFlags) on() bool { return f.listen != "" }

// consoleConfig is what a console shows, and to whom.
type consoleConfig struct {
	console.Options             // Agents and Wire; Authenticate counts beyond loopback only, where it is required
	tls             *tls.Config // nil: without
	behindTLS       bool        // TLS ends before this host
	publicURL       string      // of the host: the console answers to its name too
	out             io.Writer   // gets the address that opens the page
}

// check returns an error if the console may not be opened where the flag says. Beyond loopback a printed token would let in
// everybody who sees the line: there callers have to be known, and what they send to be secure.
func (f *consoleFlags) check(known, secure bool) error {
	here, err := f.here()
	switch {
	case err != nil || here:
		return err
	case !known:
		return usage("--console=%s: beyond this machine the console wants callers that authenticate, see --api-key", f.listen)
	case !secure:
		return usage("--console=%s: beyond this machine the console wants TLS, see --tls-cert and --behind-tls", f.listen)
	}
	return nil
}

// checkHere is check for a program that knows no callers.
func (f *consoleFlags) checkHere(program string) error {
	here, err := f.here()
	if err != nil || here {
		return err
	}
	return usage("--console=%s: the console of %s is for this machine only, since it knows no callers: want an address such as %s", f.listen, program, defaultConsole)
}

// here reports whether the console is at loopback, or nowhere.
func (f *consoleFlags) here() (bool, error) {
	if !f.on() {
		return true, nil
	}
	host, port, err := net.SplitHostPort(f.listen)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return false, usage("--console=%s: want an address such as %s", f.listen, defaultConsole)
	}
	return loopback(host), nil
}

// start serves the console, if the flag asks for one, until stop is called.
func (f *consoleFlags) start(ctx context.Context, c consoleConfig) (stop func(), err error) {
	stop = func() {}
	if !f.on() {
		return stop, nil
	}
	c.Secure = c.tls != nil || c.behindTLS
	if err := f.check(c.Authenticate != nil, c.Secure); err != nil {
		return stop, err
	}
	fragment := ""
	if host, _, _ := net.SplitHostPort(f.listen); loopback(host) {
		c.Token, c.Authenticate = console.NewToken(), nil
		fragment = "#token=" + c.Token
	} else {
		c.Hosts = append(c.Hosts, host)
	}
	if u, err := url.Parse(c.publicURL); err == nil && u.Hostname() != "" {
		c.Hosts = append(c.Hosts, u.Hostname())
	}
	handler, err := console.New(c.Options)
	if err != nil {
		return stop, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return stop, explainListen(err)
	}
	scheme := "http://"
	if c.tls != nil {
		l, scheme = tls.NewListener(l, c.tls), "https://"
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 120 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(c.log().Handler(), slog.LevelDebug),
	}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.log().Error("the console ended", "err", err)
		}
	}()
	if _, err := fmt.Fprintln(c.out, "parley: console at "+scheme+callable(l)+console.Path+fragment); err != nil {
		_ = srv.Close()
		return stop, err
	}
	return func() { _ = srv.Close() }, nil
}

func (c *consoleConfig) log() *slog.Logger {
	if c.Log == nil {
		return slog.Default()
	}
	return c.Log
}

// operator is who the console is to a host that knows its callers: somebody of its own, whose tasks are its own.
var operator = a2a.Caller{Issuer: "console", Subject: "operator"}

// exceptOperator is check for all callers but the console's operator, who has no credential: the console vouches for it.
func exceptOperator(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if info := a2a.CallInfoFrom(ctx); info != nil && info.Caller.Owner() == operator.Owner() {
			return nil
		}
		return check(ctx)
	}
}

// hostConsole is a host of this process as its console shows it. The store is the one that its webhooks are delivered from,
// and deliveries watches it; cfg is the host's. keys returns those that sign the card now.
func hostConsole(host *parley.Host, cfg *parley.Config, deliveries *console.Deliveries, keys func() ([]*agentcard.Key, error)) console.Agent {
	a := console.Agent{
		Name: cfg.AgentName, Service: host.Service(), Store: cfg.Store, Deliveries: deliveries,
		Card: func(ctx context.Context) (console.Card, error) {
			own, err := keys()
			if err != nil {
				return console.Card{}, err
			}
			return hostCard(ctx, host.Card(), own)
		},
	}
	if cfg.Authenticate != nil || cfg.Public {
		a.Caller = operator
	}
	return a
}

// hostCard returns a host's card with what its signatures are worth by the host's own keys.
func hostCard(ctx context.Context, card *a2a.AgentCard, keys []*agentcard.Key) (console.Card, error) {
	out := console.Card{Raw: card.AppendJSON(nil)}
	var policy agentcard.Policy
	if len(card.SupportedInterfaces) > 0 {
		policy.Origin, _ = agentcard.Origin(card.SupportedInterfaces[0].URL) // a host that has only gRPC has none
	}
	if policy.Origin != "" {
		out.URL = policy.Origin + a2a.CardPath
		set, err := agentcard.JWKS(keys...)
		if err != nil {
			return out, err
		}
		enrolled := agentcard.Enrollment{KeySet: set}
		for _, k := range keys {
			enrolled.URL = cmp.Or(enrolled.URL, k.SetURL)
		}
		policy.Enrolled = map[string]agentcard.Enrollment{policy.Origin: enrolled}
	}
	out.Signed = agentcard.Verify(ctx, out.Raw, policy)
	return out, nil
}

// console serves the console of the agents, as they are at any time.
func (s *serving) console(ctx context.Context) (stop func(), err error) {
	c := s.c
	opts := console.Options{Agents: s.shown, Wire: s.wire, Log: c.cfg.Log}
	if c.auth != nil { // whether callers are asked does not change, who asks may
		now := func() *auth.Authenticator {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.c.auth
		}
		opts.Authenticate = func(ctx context.Context, info *a2a.CallInfo) error { return now().Authenticate(ctx, info) }
		opts.Valid = func(ctx context.Context) error { return now().Valid(ctx) }
	}
	return c.console.start(ctx, consoleConfig{
		Options: opts, tls: c.cfg.TLS, behindTLS: c.cfg.BehindTLS, publicURL: c.cfg.PublicURL, out: c.app.out,
	})
}

// shown returns the agents as the console shows them.
func (s *serving) shown() []console.Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]console.Agent, len(s.agents))
	for i, a := range s.agents {
		out[i] = a.console
		if !out[i].Caller.Anonymous() { // the operator wrote the rules
			out[i].Caller.Scopes = append(s.c.file.Security.Rules.scopes(), a.c.Security.Rules.scopes()...)
		}
	}
	return out
}

// startTap serves the console of the agent behind a tap, which clients reach at base, with the session's credential. What
// the page says goes through the tap like everything else.
func (f *consoleFlags) startTap(ctx context.Context, s *session, rec *tap.Recorder, base string, log *slog.Logger) (stop func(), err error) {
	through := &throughTap{ctx: ctx, session: *s, flags: *s.flags, log: log}
	through.flags.card = base
	through.session.flags = &through.flags
	return f.start(ctx, consoleConfig{Options: console.Options{Agents: through.agents, Wire: rec, Log: log}, out: s.w})
}

// throughTap is an agent behind a tap. It is connected when the first page asks for it: the tap has to serve by then.
type throughTap struct {
	ctx   context.Context
	flags clientFlags
	log   *slog.Logger

	mu      sync.Mutex
	session session
	agent   *console.Agent // nil until it is connected
}

func (t *throughTap) agents() []console.Agent {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.agent == nil {
		if err := t.connect(); err != nil {
			t.log.Warn("the console cannot reach the agent through the tap", "err", err)
			return nil
		}
	}
	return []console.Agent{*t.agent}
}

func (t *throughTap) connect() error {
	s := &t.session
	if _, err := s.connect(t.ctx); err != nil {
		return err
	}
	opts := s.options()
	opts.Header = s.header // the tap's addresses are ours
	c, err := client.Dial(s.Card(), opts)
	if err != nil {
		return err
	}
	t.agent = &console.Agent{Name: "agent", Service: c, Card: func(ctx context.Context) (console.Card, error) {
		card, err := client.FetchCard(ctx, s.flags.card, s.options())
		if err != nil {
			return console.Card{}, err
		}
		origin, _ := agentcard.Origin(card.URL) // only what is enrolled for one counts, and nothing is
		return console.Card{
			Raw: card.Raw, URL: card.URL, Signed: agentcard.Verify(ctx, card.Raw, agentcard.Policy{Origin: origin}),
			Note: "the tap has put its own addresses in, and so had to drop the signature or to sign anew",
		}, nil
	}}
	return nil
}
