package parley

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
)

// Group is several agents behind one pair of listeners. Each is under /agents/NAME/ with its card and its HTTP bindings,
// as if a host of its own stood there; on gRPC, which has no paths, the card says NAME as the interface's tenant. The
// catalog at [CatalogPath] lists them all.
type Group struct {
	cfg     Config
	hosts   []*Host
	byName  map[string]*Host
	mux     *http.ServeMux
	grpc    *grpcbinding.Handler
	catalog atomic.Pointer[document]
}

// NewGroup makes a group. Of cfg the addresses, public URLs, TLS, BehindTLS, Authenticate, Public, Grace, MaxBody and Log
// count; those of the hosts do not, except that each host asks its HTTP callers by its own Authenticate: give it the same.
// The hosts have different AgentNames. They belong to the group from then on.
func NewGroup(cfg Config, hosts ...*Host) (*Group, error) {
	if len(hosts) == 0 {
		return nil, errors.New("parley: a group of no agents")
	}
	cfg.defaults()
	g := &Group{cfg: cfg, hosts: hosts, byName: map[string]*Host{}, mux: http.NewServeMux()}
	for _, h := range hosts {
		name := h.cfg.AgentName
		switch {
		case g.byName[name] != nil:
			return nil, fmt.Errorf("parley: two agents of a group have the name %q: set Config.AgentName", name)
		case (h.cfg.Authenticate != nil) != (cfg.Authenticate != nil):
			return nil, fmt.Errorf("parley: agent %q and its group do not both ask who calls: give both the same Authenticate", name)
		}
		g.byName[name] = h
		prefix := "/agents/" + name
		g.mux.Handle(prefix+"/", http.StripPrefix(prefix, h))
	}
	g.mux.HandleFunc(CatalogPath, func(w http.ResponseWriter, r *http.Request) { g.catalog.Load().ServeHTTP(w, r) })
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	g.mux.HandleFunc("GET /readyz", hosts[0].serveReady)
	g.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		plain(w, http.StatusNotFound, "this host has several agents: they are listed at "+CatalogPath)
	})
	g.grpc = grpcbinding.NewHandler(router{g}, grpcbinding.HandlerOptions{Authenticate: cfg.Authenticate, Log: cfg.Log})
	return g, g.announce(cfg.Listen, cfg.GRPCListen)
}

// announce makes the agents' cards for the addresses that are listened at.
func (g *Group) announce(httpAddr, grpcAddr string) error {
	shared := Host{cfg: g.cfg}
	base := shared.base(httpAddr)
	target := g.cfg.PublicGRPCURL
	if target == "" && grpcAddr != NoListen {
		target = shared.grpcTarget(grpcAddr)
	}
	var agents []listed
	for _, h := range g.hosts {
		if base != "" {
			h.cfg.PublicURL = base + "/agents/" + h.cfg.AgentName
		}
		h.cfg.PublicGRPCURL, h.tenant = target, h.cfg.AgentName
		if err := h.announce(NoListen, NoListen); err != nil {
			return err
		}
		agents = append(agents, listed{base: h.cfg.PublicURL, card: h.Card()})
	}
	doc := newCatalogAt(base, agents...)
	g.catalog.Store(doc)
	return nil
}

// ServeHTTP implements http.Handler. Only hosts of the group look at the Host header: what is listed is no secret.
func (g *Group) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Listeners opens what the configuration says to listen at, which the cards then name. One that is NoListen is nil.
func (g *Group) Listeners(ctx context.Context) (httpL, grpcL net.Listener, err error) {
	if httpL, grpcL, err = g.cfg.listeners(ctx); err != nil {
		return nil, nil, err
	}
	return httpL, grpcL, g.announce(address(httpL), address(grpcL))
}

// Serve serves the agents on the listeners until ctx ends, as [Host.Serve] does one.
func (g *Group) Serve(ctx context.Context, httpL, grpcL net.Listener) error {
	if err := g.announce(address(httpL), address(grpcL)); err != nil {
		return err
	}
	for _, h := range g.hosts {
		if err := h.startPush(ctx); err != nil {
			return err
		}
	}
	return g.cfg.serve(ctx, g, g.RegisterGRPC, g.shutdownAll, httpL, grpcL)
}

// RegisterGRPC adds the gRPC binding of all agents to a server that was made with a host's GRPCServerOptions.
func (g *Group) RegisterGRPC(s grpc.ServiceRegistrar) { g.grpc.Register(s) }

// Shutdown shuts all hosts down at once, see [Host.Shutdown].
func (g *Group) Shutdown(ctx context.Context) { g.each(func(h *Host) { h.Shutdown(ctx) }) }

func (g *Group) shutdownAll(ctx context.Context) { g.each(func(h *Host) { h.shutdownAll(ctx) }) }

func (g *Group) each(f func(*Host)) {
	var all sync.WaitGroup
	for _, h := range g.hosts {
		all.Go(func() { f(h) })
	}
	all.Wait()
}

// router is the service of all agents: the tenant of a request says which.
type router struct{ g *Group }

func (r router) to(tenant string) (a2a.Service, error) {
	if h := r.g.byName[tenant]; h != nil {
		return h.svc, nil
	}
	return nil, a2a.InvalidField("tenant", "no agent has this name: use the tenant that the agent card gives for the interface")
}

func routed[Req, Res any](
	ctx context.Context, r router, tenant string, req Req, call func(a2a.Service, context.Context, Req) (Res, error),
) (Res, error) {
	s, err := r.to(tenant)
	if err != nil {
		var none Res
		return none, err
	}
	return call(s, ctx, req)
}

func routedStream[Req any](
	ctx context.Context, r router, tenant string, req Req, call func(a2a.Service, context.Context, Req) iter.Seq2[a2a.Entry, error],
) iter.Seq2[a2a.Entry, error] {
	s, err := r.to(tenant)
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
