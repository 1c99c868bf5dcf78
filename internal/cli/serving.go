package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/audit"
	"github.com/parley-a2a/parley/console"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/tap"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/telemetry"
)

// serving is the agents that a process serves. It has to be ended.
type serving struct {
	c      *serveCommand // what is in effect
	o      *observer
	audit  *audit.Log // nil: there is none
	stores map[string]taskstore.Store
	group  *parley.Group // nil: there is one agent, at the root
	wire   *tap.Recorder // nil: there is no console to see it
	ctx    context.Context

	mu     sync.Mutex // of what reloads change
	agents []*hosted
	ends   []func() error // in reverse
	gone   sync.WaitGroup // agents that are being removed
}

// hosted is one agent with its host.
type hosted struct {
	c       agentConfig
	name    string // its routing word
	ref     storeRef
	built   *built
	seat    *seat
	host    *parley.Host // nil until it serves
	console console.Agent
	key     string // public half of the one that signs webhooks; empty: they are not signed
	unwatch context.CancelFunc
}

// prepare makes the agents, and checks all that can be checked before a port or a store is opened: --check ends here.
func (c *serveCommand) prepare(ctx context.Context) (*serving, error) {
	s := &serving{c: c, ctx: ctx, stores: map[string]taskstore.Store{}}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

func (s *serving) prepare() error {
	for i := range s.c.agents {
		a, err := s.newAgent(&s.c.agents[i])
		if err != nil {
			return err
		}
		s.agents = append(s.agents, a)
	}
	if s.c.hints != "" && !slices.ContainsFunc(s.agents, func(a *hosted) bool { return a.ref.database != "" }) {
		return wrong("hints", "only hosts that share a database (--store postgres://…) tell each other")
	}
	if err := canAppend(s.c.audit); err != nil {
		return wrong("audit-log", "%s", err.Error())
	}
	name := "parley"
	if s.c.file.Agents == nil {
		name = s.agents[0].title()
	}
	var err error
	if s.o, err = newObserver(s.ctx, observeConfig{name: name, version: s.version(), listen: s.c.metrics, log: s.c.cfg.Log}); err != nil {
		return err
	}
	s.ends = append(s.ends, func() error { s.o.close(); return nil })
	for _, a := range s.agents {
		probe := s.c.cfg
		if err := s.configure(s.c, a, &probe); err != nil {
			return err
		}
		if err := probe.Check(); err != nil {
			return about(a.c.at, refused("card", err))
		}
	}
	return nil
}

// canAppend returns an error if a file cannot be appended to, or not be made. It leaves nothing behind. An empty path is
// none.
func canAppend(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err = os.CreateTemp(filepath.Dir(path), ".parley-*")
	if err != nil {
		var why *os.PathError
		if errors.As(err, &why) {
			err = why.Err // the name of the file that was tried says nothing
		}
		return fmt.Errorf("%s cannot be made: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// newAgent makes an agent that is not served yet.
func (s *serving) newAgent(c *agentConfig) (*hosted, error) {
	b, err := c.build(s.ctx, s.c.cfg.Log)
	if err != nil {
		return nil, about(c.at, err)
	}
	a := &hosted{c: *c, name: c.Name, built: b, seat: new(seat), unwatch: func() {}}
	if a.name == "" {
		a.name = b.word
	}
	a.seat.put(b.Agent.Agent, b.end)
	if a.ref, err = parseStore(cmp.Or(c.Store, s.c.store), a.name); err != nil {
		a.seat.end()
		if c.Store != "" {
			return nil, about(c.at+".store", err)
		}
		return nil, about("store", err)
	}
	if a.ref.database != "" {
		a.ref.hints = s.c.hints
	}
	return a, nil
}

// serve serves the agents until ctx ends. again reads the configuration anew.
func (s *serving) serve(ctx context.Context, again func() (*serveCommand, error)) error {
	shown := strconv.Itoa(len(s.agents)) + " agents"
	if len(s.agents) == 1 {
		shown = s.agents[0].title()
	}
	if err := s.o.meter(ctx); err != nil {
		return err
	}
	if s.c.audit != "" {
		log, file, err := audit.Open(s.c.audit)
		if err != nil {
			return wrong("audit-log", "%s", err.Error())
		}
		s.audit = log
		s.ends = append(s.ends, file.Close)
	}
	for _, a := range s.agents {
		if err := s.open(a); err != nil {
			return err
		}
	}
	listener, err := s.front()
	if err != nil {
		return err
	}
	httpL, grpcL, err := listener.Listeners(ctx)
	if err != nil {
		return explainListen(err)
	}
	for _, a := range s.agents {
		s.tell(a)
	}
	if err := s.record(); err != nil {
		return err
	}
	if err := s.c.announce(shown, httpL, grpcL); err != nil {
		return err
	}
	stop, err := s.console(ctx)
	if err != nil {
		return err
	}
	defer stop()
	defer s.onHangup(again)()
	return listener.Serve(ctx, httpL, grpcL)
}

// record begins to record what passes, if there is a console to show it.
func (s *serving) record() error {
	if !s.c.console.on() {
		return nil
	}
	all := &a2a.AgentCard{SecuritySchemes: map[string]a2a.SecurityScheme{}} // of all agents, for what bindings are where and what is secret
	for _, a := range s.agents {
		card := a.host.Card()
		all.SupportedInterfaces = append(all.SupportedInterfaces, card.SupportedInterfaces...)
		maps.Copy(all.SecuritySchemes, card.SecuritySchemes)
	}
	var err error
	if s.wire, err = tap.NewRecorder(tap.Options{Card: all}); err == nil {
		s.ends = append(s.ends, s.wire.Close)
	}
	return err
}

// recorded is the middleware of a host with a console.
func (s *serving) recorded(next http.Handler) http.Handler { return s.wire.Handler(next) }

// front is what serves the listeners: the only agent, or the group of them.
func (s *serving) front() (interface {
	Listeners(context.Context) (net.Listener, net.Listener, error)
	Serve(context.Context, net.Listener, net.Listener) error
}, error,
) {
	if s.c.file.Agents == nil {
		return s.agents[0].host, nil
	}
	hosts := make([]*parley.Host, len(s.agents))
	for i, a := range s.agents {
		hosts[i] = a.host
	}
	var err error
	cfg := s.c.cfg
	cfg.WrapAuthenticate = s.counted
	if s.audit != nil {
		cfg.CertificateRefused = s.audit.CertificateRefused
	}
	if s.c.console.on() {
		cfg.Middleware = s.recorded
	}
	s.group, err = parley.NewGroup(cfg, hosts...)
	return s.group, err
}

func (a *hosted) title() string {
	var cfg parley.Config
	a.c.describe(a.built, &cfg)
	return cfg.Name
}

func (s *serving) version() string {
	if s.c.file.Agents != nil {
		return version()
	}
	return s.agents[0].built.Version
}

// open opens an agent's store and makes its host.
func (s *serving) open(a *hosted) error {
	store := s.stores[a.ref.url]
	if store == nil {
		opened, err := a.ref.open(s.ctx, durabilities[s.c.durability], s.c.cfg.Log)
		if err != nil {
			return err
		}
		s.stores[a.ref.url] = opened
		s.ends = append(s.ends, func() error {
			if err := opened.Close(); err != nil {
				return explainStore(err)
			}
			return nil
		})
		store = opened
	}
	cfg := s.c.cfg
	if s.audit != nil {
		cfg.CertificateRefused = s.audit.CertificateRefused
	}
	if s.c.console.on() {
		cfg.Middleware = s.recorded
	}
	cfg.AgentName, cfg.Store, cfg.Retain = a.name, telemetry.Store(store, s.o.Options), s.c.retain
	if a.c.Retain > 0 {
		cfg.Retain = a.c.Retain
	}
	if err := s.configure(s.c, a, &cfg); err != nil {
		return err
	}
	var deliveries *console.Deliveries
	if s.c.console.on() {
		deliveries = new(console.Deliveries)
		cfg.Store = deliveries.Watch(cfg.Store)
	}
	hooks, err := s.webhooks(a, cfg.Store)
	if err != nil {
		return err
	}
	cfg.Push = hooks
	if a.host, err = parley.New(cfg, telemetry.Agent(a.seat, s.o.Options)); err != nil {
		return err
	}
	a.console = hostConsole(a.host, &cfg, deliveries, func() ([]*agentcard.Key, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.c.keysOf(a)
	})
	s.watch(a)
	return nil
}

// tell says in the log what is served.
func (s *serving) tell(a *hosted) {
	log := s.c.cfg.Log.With("agent", a.name)
	log.Info("tasks are kept", "store", a.ref.url)
	if a.key != "" {
		log.Info("webhooks are signed", "publicKey", a.key)
	}
}

// watch follows the card of an agent that is elsewhere.
func (s *serving) watch(a *hosted) {
	a.unwatch()
	p := a.built.proxy
	if p == nil {
		a.unwatch = func() {}
		return
	}
	var ctx context.Context
	ctx, a.unwatch = context.WithCancel(s.ctx)
	go p.Watch(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if err := a.host.Update(func(cfg *parley.Config) { a.c.describe(a.built, cfg) }); err != nil {
			s.c.cfg.Log.Error("the card could not be made anew", "agent", a.name, "err", err)
		}
	})
}

// configure writes what can change while a host serves.
func (s *serving) configure(c *serveCommand, a *hosted, cfg *parley.Config) error {
	cfg.NoStreaming = c.cfg.NoStreaming
	a.c.describe(a.built, cfg)
	var err error
	if cfg.CardKeys, err = c.keysOf(a); err != nil {
		return err
	}
	a.c.Limits.set(cfg)
	cfg.Auth, cfg.Authenticate = c.auth, nil
	if c.auth != nil {
		cfg.Authenticate = c.auth.Authenticate
		if s.audit != nil {
			cfg.Authenticate = s.audit.Authenticate(cfg.Authenticate)
		}
		cfg.Rates.Check = exceptOperator(c.auth.Valid)
	}
	cfg.WrapAuthenticate = s.counted
	cfg.Wrap, err = s.wrap(c, a)
	return err
}

// counted counts who is let in.
func (s *serving) counted(next a2a.Authenticate) a2a.Authenticate {
	return telemetry.Authenticate(next, s.o.Options)
}

// keysOf reads the keys that sign an agent's card.
func (c *serveCommand) keysOf(a *hosted) ([]*agentcard.Key, error) {
	files, where := c.cardKeys, "card-key"
	if a.c.Card.Keys != nil {
		files, where = a.c.Card.Keys, "card.keys"
		if a.c.at != "" {
			where = a.c.at + "." + where
		}
	}
	keys, err := readKeys("--card-key", files)
	if err != nil {
		return nil, about(where, err)
	}
	return keys, nil
}

// wrap returns what stands before an agent's service: from the inside the tokens that it hands on, its own rules, the
// signals and the audit log.
func (s *serving) wrap(c *serveCommand, a *hosted) (func(a2a.Service) a2a.Service, error) {
	var all []func(a2a.Service) a2a.Service
	if a.built.wrap != nil {
		all = append(all, a.built.wrap)
	}
	own, err := c.ownRules(&a.c)
	if err != nil {
		return nil, err
	}
	if own != nil {
		all = append(all, own.Service)
	}
	all = append(all, func(svc a2a.Service) a2a.Service { return telemetry.Service(svc, s.o.Options) })
	if s.audit != nil {
		all = append(all, s.audit.Service)
	}
	return func(svc a2a.Service) a2a.Service {
		for _, wrap := range all {
			svc = wrap(svc)
		}
		return svc
	}, nil
}

// webhooks makes what delivers to webhooks. Its key is kept beside the tasks.
func (s *serving) webhooks(a *hosted, store taskstore.Store) (*push.Push, error) {
	c := s.c
	opts := push.Options{
		Store: store, Agent: a.name, AllowPrivate: c.private, Log: c.cfg.Log,
		Meter:     s.o.MeterProvider.Meter("github.com/parley-a2a/parley/push"),
		Challenge: c.file.Security.Webhooks.Challenge, Allow: c.allowHook,
	}
	key, err := a.ref.signingKey(s.ctx, store)
	if err != nil {
		return nil, err
	}
	if key != nil {
		opts.Key, a.key = key, push.PublicKey(key)
	}
	return push.New(opts)
}

// end ends what was made, when nothing is served any more.
func (s *serving) end() error {
	s.gone.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		a.unwatch()
		a.seat.end()
	}
	var first error
	for _, end := range slices.Backward(s.ends) {
		if err := end(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// onHangup reads the configuration anew at every SIGHUP, if there is a file that may have changed, and returns what ends
// that.
func (s *serving) onHangup(again func() (*serveCommand, error)) (stop func()) {
	if s.c.config == "" {
		return func() {}
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-hangup:
			}
			next, err := again()
			if err == nil {
				err = next.place(s.reload(next))
			}
			if err != nil {
				s.c.cfg.Log.Error("the configuration was not taken over, the old one stays in effect", "err", err)
				continue
			}
			s.c.cfg.Log.Info("the configuration was read anew", "file", s.c.config)
		}
	}()
	return func() { signal.Stop(hangup); close(over) }
}

// fixed are the flags that take effect at a start only.
var fixed = []string{
	"listen", "grpc-listen", "public-url", "public-grpc-url", "anonymous", "tls-cert", "tls-key", "client-ca", "behind-tls", "audit-log",
	"store", "durability", "retain", "allow-private-webhooks", "metrics-listen", "console", "hints", "drain", "grace", "log", "log-level",
}

// change is what a reload does to an agent that stays.
type change struct {
	old, next *hosted
	rebuilt   bool // another agent takes its seat
}

// reload puts another configuration in the place of the one that is in effect. All that can fail is done first.
func (s *serving) reload(next *serveCommand) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (next.file.Agents == nil) != (s.c.file.Agents == nil) {
		return errors.New("a file with agents in place of one without, or the other way round, needs a restart")
	}
	if (next.auth == nil) != (s.c.auth == nil) {
		return errors.New("whether callers are asked who they are at all needs a restart")
	}
	var restart []string
	for _, name := range fixed {
		if next.said[name] != s.c.said[name] {
			restart = append(restart, name)
		}
	}
	var undo []func()
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
		}
	}()
	was := s.c
	s.c = next
	undo = append(undo, func() { s.c = was })
	next.cfg.Log = was.cfg.Log
	var changes []change
	var added, all []*hosted
	for i := range next.agents {
		c := &next.agents[i]
		old := s.find(c.Name)
		if old == nil {
			a, err := s.newAgent(c)
			if err != nil {
				return err
			}
			undo = append(undo, a.seat.end)
			if err := s.open(a); err != nil {
				return err
			}
			undo = append(undo, func() { a.unwatch(); a.host.Shutdown(s.ctx) })
			added, all = append(added, a), append(all, a)
			continue
		}
		all = append(all, old)
		ch := change{old: old, next: &hosted{c: *c, name: old.name, ref: old.ref, built: old.built}}
		if c.Store != old.c.Store || c.Retain != old.c.Retain || c.Limits.tasks() != old.c.Limits.tasks() {
			restart = append(restart, "store, retain or the limits of tasks of agent "+old.name)
		}
		if !reflect.DeepEqual(c.runs(), old.c.runs()) {
			if ch.next.built, err = c.build(s.ctx, next.cfg.Log); err != nil {
				return about(c.at, err)
			}
			undo = append(undo, ch.next.built.end)
			ch.rebuilt = true
		}
		var probe parley.Config
		if err := s.configure(next, ch.next, &probe); err != nil {
			return err
		}
		changes = append(changes, ch)
	}
	for _, ch := range changes {
		if err := s.apply(next, ch); err != nil {
			return err
		}
	}
	for _, a := range added {
		if err := s.group.Add(a.host); err != nil {
			return err
		}
		s.tell(a)
	}
	for _, a := range s.agents {
		if !slices.Contains(all, a) {
			s.remove(a)
		}
	}
	s.agents = all
	if len(restart) > 0 {
		next.cfg.Log.Warn("what has changed needs a restart to take effect", "keys", strings.Join(restart, ", "))
	}
	return nil
}

// find returns the agent of a routing word. An agent without one is the only one.
func (s *serving) find(name string) *hosted {
	for _, a := range s.agents {
		if name == "" || a.name == name {
			return a
		}
	}
	return nil
}

// apply changes an agent that stays.
func (s *serving) apply(next *serveCommand, ch change) error {
	a := ch.old
	err := a.host.Update(func(cfg *parley.Config) {
		_ = s.configure(next, ch.next, cfg) // it was tried before
	})
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.name, err)
	}
	a.c, a.built = ch.next.c, ch.next.built
	if ch.rebuilt {
		a.seat.put(a.built.Agent.Agent, a.built.end)
		s.watch(a)
	}
	return nil
}

// remove lets an agent go when its tasks have ended.
func (s *serving) remove(a *hosted) {
	log := s.c.cfg.Log.With("agent", a.name)
	s.gone.Go(func() {
		if err := s.group.Remove(context.WithoutCancel(s.ctx), a.host); err != nil { // the end of the group ends it, too
			log.Error("the agent could not be removed", "err", err)
			return
		}
		a.unwatch()
		a.seat.end()
		log.Info("the agent is gone")
	})
}

// copyFlags sets the flags that another command line has set.
func copyFlags(to, from *pflag.FlagSet) (err error) {
	from.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if e := to.Set(f.Name, v); e != nil && err == nil {
				err = fmt.Errorf("--%s: %w", f.Name, e)
			}
		}
	})
	return err
}
