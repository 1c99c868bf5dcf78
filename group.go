package parley

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/limits"
)

// Group is several agents behind one pair of listeners. Each is under /agents/NAME/ with its card and its HTTP bindings,
// as if a host of its own stood there; on gRPC, which has no paths, the card says NAME as the interface's tenant. The
// catalog at [CatalogPath] lists them all. Agents can be added and removed while it serves.
type Group struct {
	cfg      Config
	mux      *http.ServeMux
	grpc     *grpcbinding.Handler
	limiter  *limits.Limiter // of calls on gRPC until their agent is known
	draining atomic.Bool
	agents   atomic.Pointer[agents]

	mu    sync.Mutex // of changes
	place place
	ctx   context.Context // of Serve; nil before
}

// agents are those of a group at one time. They do not change.
type agents struct {
	hosts  []*Host          // in the order of the catalog
	byName map[string]*Host // also those that are being removed
}

// NewGroup makes a group. Of cfg the addresses, public URLs, TLS, BehindTLS, CertificateRefused, Public, Drain, Grace, MaxBody,
// WrapAuthenticate, Middleware and Log count; those of the hosts do not. Rates count for calls on gRPC that are refused before
// it is known which agent they are for; all others are within the Rates of their agent. All hosts ask their callers by the
// same Authenticate. The hosts have different AgentNames. They belong to the group from then on.
func NewGroup(cfg Config, hosts ...*Host) (*Group, error) {
	if len(hosts) == 0 {
		return nil, errors.New("parley: a group of no agents")
	}
	cfg.defaults()
	g := &Group{cfg: cfg, mux: http.NewServeMux(), place: place{http: cfg.Listen, grpc: cfg.GRPCListen}}
	g.agents.Store(&agents{byName: map[string]*Host{}})
	g.mux.HandleFunc("/agents/{name}/", g.serveAgent)
	g.mux.HandleFunc(CatalogPath, g.serveCatalog)
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	g.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { serveReady(w, &g.draining, g.agents.Load().hosts...) })
	g.mux.HandleFunc("/", g.serveElse)
	rates := cfg.Rates
	rates.Loopback = rates.Loopback || cfg.Public
	g.limiter = limits.New(rates)
	ask := cfg.wrapAuthenticate(g.limiter.Authenticate(g.authenticate))
	g.grpc = grpcbinding.NewHandler(router(g.to), grpcbinding.HandlerOptions{Authenticate: ask, Log: cfg.Log})
	for _, h := range hosts {
		if err := g.Add(h); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Add adds an agent. One whose name another has, or has had that is still being removed, is an error.
func (g *Group) Add(h *Host) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, name := g.agents.Load(), h.config().AgentName
	switch {
	case now.byName[name] != nil && !slices.Contains(now.hosts, now.byName[name]):
		return fmt.Errorf("parley: the agent that had the name %q is at work still: add the other when its tasks have ended", name)
	case now.byName[name] != nil:
		return fmt.Errorf("parley: two agents of a group have the name %q: set Config.AgentName", name)
	case len(now.hosts) > 0 && (h.config().Authenticate != nil) != (now.hosts[0].config().Authenticate != nil):
		return fmt.Errorf("parley: agent %q and the others of its group do not all ask who calls: give all the same Authenticate", name)
	}
	if err := g.settle(h); err != nil {
		return err
	}
	if g.ctx != nil {
		if err := h.startPush(g.ctx); err != nil {
			return err
		}
	}
	next := &agents{hosts: append(slices.Clip(now.hosts), h), byName: maps.Clone(now.byName)}
	next.byName[name] = h
	g.agents.Store(next)
	return nil
}

// Remove takes an agent out of the catalog and shuts it down: new messages are refused, what runs may finish until ctx
// ends, and streams stay open until then. When it returns the agent is gone. The last agent of a group stays.
func (g *Group) Remove(ctx context.Context, h *Host) error {
	if err := g.drop(h, true); err != nil {
		return err
	}
	h.shutdownAll(ctx)
	return g.drop(h, false)
}

// drop takes an agent out of the catalog, or out of everything.
func (g *Group) drop(h *Host, listed bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, name := g.agents.Load(), h.config().AgentName
	next := &agents{hosts: slices.DeleteFunc(slices.Clone(now.hosts), func(x *Host) bool { return x == h }), byName: maps.Clone(now.byName)}
	switch {
	case listed && len(next.hosts) == len(now.hosts):
		return fmt.Errorf("parley: the agent %q is none of the group", name)
	case len(next.hosts) == 0:
		return errors.New("parley: the last agent of a group stays")
	case !listed:
		delete(next.byName, name)
	}
	g.agents.Store(next)
	return nil
}

// settle makes an agent's card for the addresses that are listened at.
func (g *Group) settle(h *Host) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	cfg := *h.config()
	if base := g.base(); base != "" {
		cfg.PublicURL = base + "/agents/" + cfg.AgentName
	}
	if cfg.PublicGRPCURL = g.cfg.PublicGRPCURL; cfg.PublicGRPCURL == "" && g.place.grpc != NoListen {
		cfg.PublicGRPCURL = g.cfg.grpcTarget(g.place.grpc)
	}
	return h.replace(cfg, place{http: NoListen, grpc: NoListen, tenant: cfg.AgentName})
}

// move makes the agents' cards for other addresses.
func (g *Group) move(at place) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.place = at
	for _, h := range g.agents.Load().hosts {
		if err := g.settle(h); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) base() string { return g.cfg.base(g.place.http) }

func (g *Group) serveAgent(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	h := g.agents.Load().byName[name]
	if h == nil {
		g.serveElse(w, r)
		return
	}
	http.StripPrefix("/agents/"+name, h).ServeHTTP(w, r)
}

func (g *Group) serveCatalog(w http.ResponseWriter, r *http.Request) {
	var all []listed
	for _, h := range g.agents.Load().hosts {
		f := h.front.Load()
		all = append(all, listed{base: f.cfg.PublicURL, card: f.card})
	}
	g.mu.Lock()
	base := g.base()
	g.mu.Unlock()
	newCatalogAt(base, all...).ServeHTTP(w, r)
}

func (g *Group) serveElse(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusNotFound, "this host has several agents: they are listed at "+CatalogPath)
}

// ServeHTTP implements http.Handler. Only hosts of the group look at the Host header: what is listed is no secret.
func (g *Group) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Listeners opens what the configuration says to listen at, which the cards then name. One that is NoListen is nil.
func (g *Group) Listeners(ctx context.Context) (httpL, grpcL net.Listener, err error) {
	if httpL, grpcL, err = g.cfg.listeners(ctx); err != nil {
		return nil, nil, err
	}
	return httpL, grpcL, g.move(place{http: address(httpL), grpc: address(grpcL)})
}

// Serve serves the agents on the listeners until ctx ends, as [Host.Serve] does one.
func (g *Group) Serve(ctx context.Context, httpL, grpcL net.Listener) error {
	if err := g.move(place{http: address(httpL), grpc: address(grpcL)}); err != nil {
		return err
	}
	if err := g.start(ctx); err != nil {
		return err
	}
	return g.cfg.serve(ctx, g, g.RegisterGRPC, &g.draining, g.shutdownAll, httpL, grpcL)
}

// start starts the webhooks of all agents, and of those that come.
func (g *Group) start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx = ctx
	for _, h := range g.agents.Load().hosts {
		if err := h.startPush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// RegisterGRPC adds the gRPC binding of all agents to a server that was made with a host's GRPCServerOptions.
func (g *Group) RegisterGRPC(s grpc.ServiceRegistrar) { g.grpc.Register(s) }

// Shutdown shuts all hosts down at once, see [Host.Shutdown].
func (g *Group) Shutdown(ctx context.Context) { g.each(func(h *Host) { h.Shutdown(ctx) }) }

func (g *Group) shutdownAll(ctx context.Context) { g.each(func(h *Host) { h.shutdownAll(ctx) }) }

func (g *Group) each(f func(*Host)) {
	g.draining.Store(true)
	var all sync.WaitGroup
	for _, h := range g.agents.Load().byName {
		all.Go(func() { f(h) })
	}
	all.Wait()
}

// authenticate asks whoever all agents of the group ask.
func (g *Group) authenticate(ctx context.Context, info *a2a.CallInfo) error {
	return g.agents.Load().hosts[0].identify(ctx, info)
}

// to returns the agent that the tenant of a request names. From here on the call is within that one's limits.
func (g *Group) to(ctx context.Context, tenant string) (a2a.Service, error) {
	if h := g.agents.Load().byName[tenant]; h != nil {
		f, info := h.front.Load(), a2a.CallInfoFrom(ctx)
		g.limiter.Uncount(info)
		return f.svc, f.limiter.Count(info)
	}
	return nil, a2a.InvalidField("tenant", "no agent has this name: use the tenant that the agent card gives for the interface")
}

// router is the service that the tenant of a request leads to.
type router func(ctx context.Context, tenant string) (a2a.Service, error)

func routed[Req, Res any](
	ctx context.Context, r router, tenant string, req Req, call func(a2a.Service, context.Context, Req) (Res, error),
) (Res, error) {
	s, err := r(ctx, tenant)
	if err != nil {
		var none Res
		return none, err
	}
	return call(s, ctx, req)
}

func routedStream[Req any](
	ctx context.Context, r router, tenant string, req Req, call func(a2a.Service, context.Context, Req) iter.Seq2[a2a.Entry, error],
) iter.Seq2[a2a.Entry, error] {
	s, err := r(ctx, tenant)
	if err != nil {
		return func(yield func(a2a.Entry, error) bool) { yield(a2a.Entry{}, err) }
	}
	return call(s, ctx, req)
}

// SendMessage implements a2a.Service.
func (r router) SendMessage(ctx context.Context, q *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.SendMessage)
}

// SendStreamingMessage implements a2a.Service.
func (r router) SendStreamingMessage(ctx context.Context, q *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return routedStream(ctx, r, q.Tenant, q, a2a.Service.SendStreamingMessage)
}

// GetTask implements a2a.Service.
func (r router) GetTask(ctx context.Context, q *a2a.GetTaskRequest) (*a2a.Task, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.GetTask)
}

// ListTasks implements a2a.Service.
func (r router) ListTasks(ctx context.Context, q *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.ListTasks)
}

// CancelTask implements a2a.Service.
func (r router) CancelTask(ctx context.Context, q *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.CancelTask)
}

// SubscribeToTask implements a2a.Service.
func (r router) SubscribeToTask(ctx context.Context, q *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return routedStream(ctx, r, q.Tenant, q, a2a.Service.SubscribeToTask)
}

// CreateTaskPushNotificationConfig implements a2a.Service.
func (r router) CreateTaskPushNotificationConfig(
	ctx context.Context, q *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.CreateTaskPushNotificationConfig)
}

// GetTaskPushNotificationConfig implements a2a.Service.
func (r router) GetTaskPushNotificationConfig(
	ctx context.Context, q *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.GetTaskPushNotificationConfig)
}

// ListTaskPushNotificationConfigs implements a2a.Service.
func (r router) ListTaskPushNotificationConfigs(
	ctx context.Context, q *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.ListTaskPushNotificationConfigs)
}

// GetExtendedAgentCard implements a2a.Service.
func (r router) GetExtendedAgentCard(ctx context.Context, q *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.GetExtendedAgentCard)
}

// DeleteTaskPushNotificationConfig implements a2a.Service.
func (r router) DeleteTaskPushNotificationConfig(
	ctx context.Context, q *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return routed(ctx, r, q.Tenant, q, a2a.Service.DeleteTaskPushNotificationConfig)
}
