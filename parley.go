// Package parley puts an agent on A2A 1.0: one [Host] is an agent, its tasks, its card and the three
// protocol bindings, in one http.Handler and one gRPC service.
package parley

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/binding/rest"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/limits"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

// Where a host listens unless it is told otherwise.
const (
	DefaultListen     = "127.0.0.1:41241"
	DefaultGRPCListen = "127.0.0.1:41242"
)

// NoListen in place of an address says: not at all.
const NoListen = "none"

// Config says what a host serves. Name is required; every other zero value has a default.
type Config struct {
	// What the agent card says (specification 4.4.1).
	Name               string
	Description        string // default: the name
	Version            string // of the agent; default 0.1.0
	Provider           *a2a.AgentProvider
	DocumentationURL   string
	IconURL            string
	Skills             []*a2a.AgentSkill // default: one with the agent's name and description
	DefaultInputModes  []string          // default text/plain and application/json
	DefaultOutputModes []string          // default text/plain and application/json
	Extensions         []*a2a.AgentExtension
	NoStreaming        bool // do not offer streams
	// SecuritySchemes says how callers authenticate, which is up to Auth or Authenticate, and SecurityRequirements which of the
	// schemes they must use. An extended card needs a scheme (specification 13.3).
	SecuritySchemes      map[string]a2a.SecurityScheme
	SecurityRequirements []*a2a.SecurityRequirement
	// ExtendedCard returns the card for authenticated callers (specification 3.1.11), such as one by [SkillsByScope]; nil:
	// there is none. Anonymous callers are refused before. What the card leaves empty is as on the public card. A nil card
	// says that none is configured for this caller.
	ExtendedCard func(context.Context, a2a.Caller) (*a2a.AgentCard, error)
	// CardKeys are private keys that sign the card and the extended card, all of them; their public halves are served at
	// [KeySetPath]. None: the cards are not signed.
	CardKeys []*agentcard.Key

	// AgentName is the agent's routing word, under which its tasks are kept: letters, digits, - and _.
	// Default: made from Name.
	AgentName string
	// Store keeps the tasks; default: in memory, for as long as the process lives.
	Store taskstore.Store

	// Listen and GRPCListen are TCP addresses; port 0 takes a free one, NoListen none.
	Listen, GRPCListen string
	// PublicURL and PublicGRPCURL are what the card says in place of the addresses listened at: where
	// callers reach the host through proxies. PublicURL may have a path, below which a proxy finds us.
	PublicURL, PublicGRPCURL string

	// Auth identifies callers and says what they may do: it stands for Authenticate, SecuritySchemes, SecurityRequirements and
	// Rates.Check, each of which may be set besides in its place, and has its rules looked at before each operation.
	Auth *auth.Authenticator
	// Authenticate identifies callers where Auth does not; with neither, everybody is the same anonymous caller.
	Authenticate a2a.Authenticate
	// Public says that anonymous callers are strangers to each other: none may list tasks. Without an
	// authenticator, a host that listens beyond loopback must set it.
	Public bool

	// TLS serves both listeners with TLS, such as auth.ServerTLS makes; nil: without. A host that listens beyond loopback
	// must have it, or BehindTLS: TLS ends before it, at a proxy, which alone reaches it.
	TLS       *tls.Config
	BehindTLS bool
	// CertificateRefused hears of each connection that ended because TLS refused the client's certificate, by its address, such
	// as package audit; the log does, too. Nil: nobody else.
	CertificateRefused func(peer string)

	// Retain is how long finished tasks are kept, 30 days by default, and Replay how long a stream of one can be
	// resumed, 24 hours by default. Negative: for ever.
	Retain, Replay time.Duration
	// Push keeps and delivers webhooks, such as push.New makes; nil: this agent has no push notifications. Serve starts and
	// ends it.
	Push server.PushConfigs

	// Wrap returns what the bindings serve in place of the host's own service, such as that of package telemetry; nil:
	// the host's own.
	Wrap func(a2a.Service) a2a.Service

	// WrapAuthenticate returns what the bindings ask in place of the host's own authenticator, which is Authenticate, if any,
	// with the limit of requests behind it; such as that of package telemetry, which so hears of both. Nil: the host's own.
	WrapAuthenticate func(a2a.Authenticate) a2a.Authenticate

	// Middleware returns what stands before all that is served over HTTP and, then with net/http under it, over gRPC, such
	// as the recorder of package tap; nil: nothing. It is called when serving begins, once for each.
	Middleware func(http.Handler) http.Handler

	// Rates bound how often a caller may ask and how many streams it may have; Rates.Check ends the calls of a credential
	// that was revoked. Anonymous callers at loopback have no limits unless the agent is public. Requests are counted once it is
	// known who calls, before anything else is looked at; streams, and calls from within the process, behind Wrap.
	Rates   limits.Options
	Limits  server.Limits
	Times   server.Times
	MaxBody int64 // bytes of a request; default 10 MiB
	// Queue is how many messages may wait for tasks that are working; zero: they are refused.
	Queue int
	// Drain is how long /readyz says 503 before a shutdown begins, so that a load balancer leaves this host out first;
	// default 0.
	Drain time.Duration
	// Grace is how long runs may go on after a shutdown began; default 10 s.
	Grace time.Duration
	// Log gets what callers do not; default slog.Default.
	Log *slog.Logger
}

func (c *Config) defaults() {
	c.Description = cmp.Or(c.Description, c.Name)
	c.Version = cmp.Or(c.Version, "0.1.0")
	c.AgentName = cmp.Or(c.AgentName, RoutingWord(c.Name))
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.GRPCListen = cmp.Or(c.GRPCListen, DefaultGRPCListen)
	c.MaxBody = cmp.Or(c.MaxBody, 10<<20)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	if c.Skills == nil {
		c.Skills = []*a2a.AgentSkill{{ID: c.AgentName, Name: c.Name, Description: c.Description, Tags: []string{c.AgentName}}}
	}
	if c.DefaultInputModes == nil {
		c.DefaultInputModes = []string{"text/plain", "application/json"}
	}
	if c.DefaultOutputModes == nil {
		c.DefaultOutputModes = []string{"text/plain", "application/json"}
	}
	if c.Store == nil {
		c.Store = taskstore.NewMemory(taskstore.MemoryOptions{})
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

func (c *Config) wrapAuthenticate(own a2a.Authenticate) a2a.Authenticate {
	if c.WrapAuthenticate == nil {
		return own
	}
	return c.WrapAuthenticate(own)
}

// withAuth returns the configuration with what Auth stands for.
func (c Config) withAuth() Config {
	if c.Auth == nil {
		return c
	}
	if c.Authenticate == nil {
		c.Authenticate = c.Auth.Authenticate
	}
	if c.SecuritySchemes == nil {
		c.SecuritySchemes = c.Auth.SecuritySchemes()
	}
	if c.SecurityRequirements == nil {
		c.SecurityRequirements = c.Auth.SecurityRequirements()
	}
	if c.Rates.Check == nil {
		c.Rates.Check = c.Auth.Valid
	}
	return c
}

// Host is an agent on A2A. It is an http.Handler that serves the card, JSON-RPC and REST; RegisterGRPC adds
// the third binding to a gRPC server.
type Host struct {
	server *server.Server
	grpc   *grpcbinding.Handler
	front  atomic.Pointer[front]

	mu       sync.Mutex // of changes
	rates    limits.Options
	limiter  *limits.Limiter
	draining atomic.Bool
}

// New returns a host that is ready to serve. Call Shutdown when it is no longer needed.
func New(cfg Config, a agent.Agent) (*Host, error) {
	if cfg.Name == "" {
		return nil, errors.New("parley: Config.Name is required")
	}
	cfg.defaults()
	h := new(Host)
	extended := h.extendedCard
	if cfg.ExtendedCard == nil {
		extended = nil
	}
	at := place{http: cfg.Listen, grpc: cfg.GRPCListen}
	first := &front{given: cfg, cfg: cfg.withAuth(), place: at}
	if err := first.announce(); err != nil { // the server asks for the card while it starts
		return nil, err
	}
	h.front.Store(first)
	var err error
	h.server, err = server.New(server.Config{
		Agent: a, Name: cfg.AgentName, Store: cfg.Store, Card: h.Card, ExtendedCard: extended,
		Log: cfg.Log, Limits: cfg.Limits, Times: cfg.Times, Queue: cfg.Queue, NoAnonymousLists: cfg.Public,
		Retain: cfg.Retain, Replay: cfg.Replay, Push: cfg.Push,
	})
	if err != nil {
		return nil, err
	}
	h.grpc = grpcbinding.NewHandler(h.Service(), grpcbinding.HandlerOptions{Authenticate: h.authenticate, Log: cfg.Log})
	if err := h.replace(cfg, at); err != nil {
		return nil, err
	}
	return h, nil
}

// Update changes a host's configuration while it serves: what the card says and the keys that sign it, how callers
// authenticate and what they may do, Rates, Wrap, WrapAuthenticate, MaxBody and Grace. change gets the present configuration to change it. All else stays as it
// is, whatever change does to it: the agent's name, its store and webhooks, what tasks may use, the addresses and TLS.
// After an error nothing has changed. Calls that are under way are not touched.
func (h *Host) Update(change func(*Config)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.front.Load()
	cfg := now.given
	change(&cfg)
	if cfg.Name == "" {
		return errors.New("parley: Config.Name is required")
	}
	cfg.AgentName, cfg.Store, cfg.Push, cfg.Public = now.cfg.AgentName, now.cfg.Store, now.cfg.Push, now.cfg.Public
	cfg.Listen, cfg.GRPCListen, cfg.PublicURL, cfg.PublicGRPCURL = now.cfg.Listen, now.cfg.GRPCListen, now.cfg.PublicURL, now.cfg.PublicGRPCURL
	cfg.TLS, cfg.BehindTLS, cfg.Limits, cfg.Times = now.cfg.TLS, now.cfg.BehindTLS, now.cfg.Limits, now.cfg.Times
	if now.cfg.ExtendedCard == nil {
		cfg.ExtendedCard = nil // the server was not told that there is one
	}
	cfg.defaults()
	if err := cfg.Check(); err != nil {
		return err
	}
	return h.replace(cfg, now.place)
}

// limited returns a limiter for rates: that of before, with what it knows of callers, if they are the same.
func (h *Host) limited(rates limits.Options, public bool) *limits.Limiter {
	rates.Loopback = rates.Loopback || public // strangers may come through a proxy on this machine
	same := func(a, b limits.Options) bool {
		return a.Rate == b.Rate && a.Burst == b.Burst && a.Streams == b.Streams && a.Callers == b.Callers &&
			a.Loopback == b.Loopback && (a.Check == nil) == (b.Check == nil)
	}
	if h.limiter != nil && same(h.rates, rates) {
		return h.limiter
	}
	h.rates = rates
	if rates.Check != nil {
		rates.Check = func(ctx context.Context) error {
			if check := h.config().Rates.Check; check != nil {
				return check(ctx)
			}
			return nil
		}
	}
	h.limiter = limits.New(rates)
	return h.limiter
}

// config is the present configuration. It is not changed.
func (h *Host) config() *Config { return &h.front.Load().cfg }

// Service returns the host's operations, for callers in the same process.
func (h *Host) Service() a2a.Service {
	return router(func(context.Context, string) (a2a.Service, error) { return h.front.Load().svc, nil })
}

// authenticate asks whoever the present configuration says, and counts the request.
func (h *Host) authenticate(ctx context.Context, info *a2a.CallInfo) error {
	return h.front.Load().admit(ctx, info)
}

// identify asks whoever the present configuration says.
func (h *Host) identify(ctx context.Context, info *a2a.CallInfo) error {
	if ask := h.config().Authenticate; ask != nil {
		return ask(ctx, info)
	}
	return nil
}

// RegisterGRPC adds the gRPC binding to a server that was made with [GRPCServerOptions].
func (h *Host) RegisterGRPC(s grpc.ServiceRegistrar) { h.grpc.Register(s) }

// GRPCServerOptions are the options that a gRPC server needs to carry the binding.
func (h *Host) GRPCServerOptions() []grpc.ServerOption { return h.config().grpcOptions() }

func (c *Config) grpcOptions() []grpc.ServerOption {
	return append(grpcbinding.ServerOptions(), grpc.MaxRecvMsgSize(int(c.MaxBody)))
}

// ServeHTTP implements http.Handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.front.Load().mux.ServeHTTP(w, r) }

func (f *front) routes(ready http.HandlerFunc) error {
	opts := jsonrpc.Options{Authenticate: f.admit, Log: f.cfg.Log, MaxBody: f.cfg.MaxBody}
	rpc := jsonrpc.NewHandler(f.svc, opts)
	mux := http.NewServeMux()
	mux.Handle(a2a.CardPath, f.json) // specification 8.2, 8.6
	mux.Handle(CatalogPath, f.catalog)
	mux.Handle("/{$}", rpc)
	mux.Handle("/a2a/jsonrpc", rpc)
	mux.Handle("/a2a/jsonrpc/{$}", rpc)
	opts.Prefix = "/a2a/rest"
	mux.Handle(opts.Prefix+"/", rest.NewHandler(f.svc, opts))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", ready)
	if err := f.serveKeys(mux); err != nil {
		return err
	}
	f.mux = f.guard(mux)
	return nil
}

// extensions are those that the host can keep. Where nobody says who calls, strangers could use each other's message
// ids, so there is no safe retry.
func (c *Config) extensions() []*a2a.AgentExtension {
	return slices.DeleteFunc(append(extension.Declare(), extension.Declaration(extension.ChunkIntegrity)), func(x *a2a.AgentExtension) bool {
		return x.URI == extension.SafeRetry && c.Public && c.Authenticate == nil
	})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

func (h *Host) serveReady(w http.ResponseWriter, _ *http.Request) { serveReady(w, &h.draining, h) }

// serveReady says whether a balancer should send calls here.
func serveReady(w http.ResponseWriter, draining *atomic.Bool, hosts ...*Host) {
	if slices.ContainsFunc(hosts, func(h *Host) bool { return h.server.Lost() }) {
		plain(w, http.StatusServiceUnavailable, "this node has lost its store")
		return
	}
	if draining.Load() {
		plain(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	plain(w, http.StatusOK, "ready")
}

// Listeners opens what the configuration says to listen at, which the card then names. One that is NoListen is nil.
func (h *Host) Listeners(ctx context.Context) (httpL, grpcL net.Listener, err error) {
	if httpL, grpcL, err = h.config().listeners(ctx); err != nil {
		return nil, nil, err
	}
	return httpL, grpcL, h.move(place{http: address(httpL), grpc: address(grpcL)})
}

// Check returns an error if the configuration asks for an address that is none, or that this host may not open to other
// machines, or if there is no card of it: what is known before anything is opened. It needs no Name.
func (c *Config) Check() error {
	for _, addr := range []string{c.Listen, c.GRPCListen} {
		if addr == "" || addr == NoListen {
			continue
		}
		if err := c.checkListen(addr); err != nil {
			return err
		}
	}
	cfg := *c
	cfg.defaults()
	f := &front{given: cfg, cfg: cfg.withAuth(), place: place{http: cfg.Listen, grpc: cfg.GRPCListen}}
	return f.announce()
}

// delivery is what a Config.Push does besides keeping webhooks: it has to be started, and ended after the last task.
type delivery interface {
	Start(ctx context.Context) error
	Shutdown(ctx context.Context)
}

func (c *Config) listeners(ctx context.Context) (httpL, grpcL net.Listener, err error) {
	var lc net.ListenConfig
	open := func(addr string) (net.Listener, error) {
		if addr == NoListen {
			return nil, nil
		}
		if err := c.checkListen(addr); err != nil {
			return nil, err
		}
		return lc.Listen(ctx, "tcp", addr)
	}
	if httpL, err = open(c.Listen); err != nil {
		return nil, nil, err
	}
	if grpcL, err = open(c.GRPCListen); err != nil {
		if httpL != nil {
			_ = httpL.Close()
		}
		return nil, nil, err
	}
	return httpL, grpcL, nil
}

// checkListen refuses to open an agent to a network when nobody asks who calls.
func (c *Config) checkListen(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // a number, or a name of this machine's
	}
	if err != nil {
		return fmt.Errorf("parley: %q is not an address to listen at: %w", addr, err)
	}
	switch {
	case isLoopback(host):
		return nil
	case c.TLS == nil && !c.BehindTLS:
		return fmt.Errorf("parley: %s is reachable from other machines, and this host has no TLS: listen at 127.0.0.1, configure a certificate (--tls-cert, --tls-key), or say that TLS ends before this host (--behind-tls)", addr)
	case c.Authenticate != nil || c.Auth != nil || c.Public:
		return nil
	}
	return fmt.Errorf("parley: %s is reachable from other machines, and this host does not ask who calls: listen at 127.0.0.1, set an authenticator, or say that the agent is public (--anonymous)", addr)
}

// Serve serves on the listeners until ctx ends, then lets runs finish for the grace and returns nil. A nil
// listener is left out. The card names the listeners' addresses where no public URL is configured.
func (h *Host) Serve(ctx context.Context, httpL, grpcL net.Listener) error {
	if err := h.move(place{http: address(httpL), grpc: address(grpcL)}); err != nil {
		return err
	}
	if err := h.startPush(ctx); err != nil {
		return err
	}
	return h.config().serve(ctx, h, h.RegisterGRPC, &h.draining, h.shutdownAll, httpL, grpcL)
}

// startPush starts to deliver to webhooks.
func (h *Host) startPush(ctx context.Context) error {
	if d, ok := h.config().Push.(delivery); ok {
		return d.Start(context.WithoutCancel(ctx))
	}
	return nil
}

// shutdownAll shuts the host down and then lets the last webhooks out.
func (h *Host) shutdownAll(ctx context.Context) {
	h.Shutdown(ctx)
	if d, ok := h.config().Push.(delivery); ok {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		d.Shutdown(last)
	}
}

// serve serves a handler and a gRPC service on the listeners until ctx ends, and then shuts them down.
func (c *Config) serve(
	ctx context.Context, handler http.Handler, register func(grpc.ServiceRegistrar), draining *atomic.Bool,
	shutdown func(context.Context), httpL, grpcL net.Listener,
) error {
	options := c.grpcOptions()
	if c.TLS != nil {
		handler = strict(handler)
		options = append(options, grpc.Creds(toldCredentials{credentials.NewTLS(c.TLS.Clone()), handshakes{c}}))
	}
	gs := grpc.NewServer(options...)
	register(gs)
	hs := c.httpServer(handler)
	servers := []*http.Server{hs}
	failed := make(chan error, 2)
	if httpL != nil {
		go func() { failed <- serveHTTP(hs, httpL) }()
	}
	switch {
	case grpcL == nil:
	case c.Middleware != nil:
		over := c.httpServer(grpcbinding.OverHTTP(gs))
		over.Protocols = new(http.Protocols)
		over.Protocols.SetHTTP2(true)
		over.Protocols.SetUnencryptedHTTP2(true)
		servers = append(servers, over)
		go func() { failed <- serveHTTP(over, grpcL) }()
	default:
		go func() { failed <- gs.Serve(grpcL) }()
	}
	var err error
	select {
	case <-ctx.Done():
		draining.Store(true)
		if c.Drain > 0 {
			<-time.After(c.Drain)
		}
	case err = <-failed:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Grace)
	defer cancel()
	shutdown(grace)
	closeServers(servers, gs)
	return err
}

func (c *Config) httpServer(handler http.Handler) *http.Server {
	if c.Middleware != nil {
		handler = c.Middleware(handler)
	}
	hs := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 120 * time.Second, MaxHeaderBytes: 64 << 10,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 1000, SendPingTimeout: 30 * time.Second, PingTimeout: 20 * time.Second},
		ErrorLog: log.New(handshakes{c}, "", 0),
	}
	if c.TLS != nil {
		hs.TLSConfig = c.TLS.Clone()
	}
	return hs
}

func serveHTTP(hs *http.Server, l net.Listener) error {
	if hs.TLSConfig != nil {
		return hs.ServeTLS(l, "", "")
	}
	return hs.Serve(l)
}

// strict tells browsers to come back by TLS only (RFC 6797).
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		next.ServeHTTP(w, r)
	})
}

// closeServers lets the last answers out and ends what then is still open.
func closeServers(servers []*http.Server, gs *grpc.Server) {
	last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	stopped := make(chan struct{})
	go func() { gs.GracefulStop(); close(stopped) }()
	for _, hs := range servers {
		if hs.Shutdown(last) != nil {
			_ = hs.Close()
		}
	}
	select {
	case <-stopped:
	case <-last.Done():
		gs.Stop()
	}
}

func address(l net.Listener) string {
	if l == nil {
		return NoListen
	}
	return l.Addr().String()
}

// Shutdown ends the host's agent: new messages are refused as unavailable, runs may finish until ctx ends,
// and the rest is recorded as interrupted by a restart. What is then still at work has Times.CancelGrace, 5 s by default, to
// clean up. The store stays open: who made it closes it.
func (h *Host) Shutdown(ctx context.Context) {
	h.draining.Store(true)
	h.server.Shutdown(ctx)
}

// ListenAndServe serves an agent at the configured addresses until ctx ends or the process gets SIGINT or
// SIGTERM. It returns nil after an orderly end.
func ListenAndServe(ctx context.Context, cfg Config, a agent.Agent) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	h, err := New(cfg, a)
	if err != nil {
		return err
	}
	httpL, grpcL, err := h.Listeners(ctx)
	if err != nil {
		h.Shutdown(ctx)
		return err
	}
	for _, i := range h.Card().SupportedInterfaces {
		h.config().Log.Info("serving", "agent", h.config().Name, "binding", i.ProtocolBinding, "url", i.URL)
	}
	return h.Serve(ctx, httpL, grpcL)
}
