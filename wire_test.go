package parley_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/golden"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

var update = flag.Bool("update", false, "write testdata/wire anew from what the host says")

// The hosts of these tests stand in Tokyo: times on the wire are UTC all the same (case 39).
func init() { time.Local = time.FixedZone("JST", 9*60*60) } //nolint:gosmopolitan // that is the point

// TestWire plays the golden conversations.
func TestWire(t *testing.T) {
	golden.Run(t, "testdata/wire/*.txtar", *update, func(t *testing.T, options []byte) golden.Host {
		var o hostOptions
		if len(options) > 0 {
			if err := json.Unmarshal(options, &o); err != nil {
				t.Fatalf("host: %v", err)
			}
		}
		return startHost(t, o)
	})
}

// hostOptions are the section host of a conversation.
type hostOptions struct {
	NoStreaming  bool
	ExtendedCard bool     // for callers who have a name; bob's is not configured
	Require      []string // extensions that the card requires
	Offer        []string // extensions that the card offers
	Public       bool
	Running      int // limit
	Parked       int // limit
	Queue        int
	InputModes   []string
	MaxBody      int64

	store taskstore.Store // default: in memory
}

// host is a host of the script agent on real sockets.
type host struct {
	*script.Agent

	t     *testing.T
	cfg   parley.Config
	store *brittle

	mu        sync.Mutex
	url, grpc string
	host      *parley.Host
	stop      func()
}

func startHost(t *testing.T, o hostOptions) *host {
	t.Helper()
	if o.store == nil {
		o.store = taskstore.NewMemory(taskstore.MemoryOptions{})
	}
	h := &host{t: t, Agent: new(script.Agent), store: &brittle{Store: o.store}}
	h.cfg = parley.Config{
		Name: "Script", Store: h.store, Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0",
		NoStreaming: o.NoStreaming, Authenticate: authenticate, Public: o.Public, Queue: o.Queue,
		DefaultInputModes: o.InputModes, MaxBody: o.MaxBody,
		Limits: server.Limits{Running: o.Running, Parked: o.Parked},
		Times:  server.Times{CancelGrace: 5 * time.Second},
		Grace:  50 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	for _, uri := range o.Require {
		h.cfg.Extensions = append(h.cfg.Extensions, &a2a.AgentExtension{URI: uri, Required: true})
	}
	for _, uri := range o.Offer {
		h.cfg.Extensions = append(h.cfg.Extensions, &a2a.AgentExtension{URI: uri})
	}
	if o.ExtendedCard {
		h.cfg.ExtendedCard = extendedCard
	}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// authenticate believes the header Test-Caller: a name, or name@tenant. Nobody is refused.
func authenticate(_ context.Context, info *a2a.CallInfo) error {
	name := info.Header.Get(golden.CallerHeader)
	if name == "nobody" {
		return &a2a.Error{Code: a2a.ErrUnauthenticated, Challenge: []string{`Bearer realm="script"`}}
	}
	if name != "" {
		name, tenant, _ := strings.Cut(name, "@")
		info.Caller = a2a.Caller{Tenant: tenant, Issuer: "test", Subject: name}
	}
	return nil
}

func extendedCard(_ context.Context, c a2a.Caller) (*a2a.AgentCard, error) {
	if c.Subject == "bob" {
		return nil, a2a.ErrExtendedAgentCardNotConfigured
	}
	yes := true
	return &a2a.AgentCard{
		Name: "Script", Description: "For " + cmp.Or(c.Subject, "everybody"), Version: "1",
		SupportedInterfaces: []*a2a.AgentInterface{{
			URL: "https://agent.example/", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: a2a.Version,
		}},
		Capabilities:      a2a.AgentCapabilities{ExtendedAgentCard: &yes},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2a.AgentSkill{{ID: "s", Name: "S", Description: "Says it.", Tags: []string{"t"}}},
	}, nil
}

// start starts the host, or starts it again with the store that it had.
func (h *host) start() {
	h.t.Helper()
	ph, err := parley.New(h.cfg, h.Agent)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	httpL, grpcL, err := ph.Listeners(ctx)
	if err != nil {
		cancel()
		h.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- ph.Serve(ctx, httpL, grpcL) }()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.url, h.grpc, h.host = "http://"+httpL.Addr().String(), grpcL.Addr().String(), ph
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("Serve: %v", err)
		}
	})
}

// Addresses implements golden.Host.
func (h *host) Addresses() (url, grpc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.url, h.grpc
}

// Do implements golden.Host.
func (h *host) Do(ctx context.Context, words []string) error {
	switch words[0] {
	case "open":
		h.Open(words[1])
	case "await":
		select {
		case <-h.Reached(words[1]):
		case <-ctx.Done():
			return ctx.Err()
		}
	case "tick": // the next status has a later time
		<-time.After(2 * time.Millisecond)
	case "store":
		h.store.broken.Store(words[1] == "fails")
	case "restart":
		h.stop()
		h.start()
	case "shutdown":
		h.host.Shutdown(ctx)
	default:
		return fmt.Errorf("the host cannot %q", words)
	}
	return nil
}

// dial returns a connection to the host.
func (h *host) dial(t *testing.T, binding string) golden.Conn {
	t.Helper()
	c, err := golden.Dial(binding, h.url, h.grpc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// brittle is a store that can be told to fail or to be slow.
type brittle struct {
	taskstore.Store

	broken atomic.Bool
	delay  time.Duration
}

func (s *brittle) Unwrap() taskstore.Store { return s.Store }

var errDisk = errors.New("cannot write /var/lib/parley/tasks.db: no space left on device")

func (s *brittle) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if s.broken.Load() {
		return taskstore.Receipt{}, errDisk
	}
	if s.delay > 0 {
		<-time.After(s.delay)
	}
	return s.Store.Commit(ctx, c)
}

// as returns the header of a caller, and nothing for "".
func as(caller string) http.Header {
	if caller == "" {
		return nil
	}
	return http.Header{golden.CallerHeader: {caller}}
}

// message returns the JSON of a SendMessageRequest with a script and the given members of its message.
func message(steps string, members ...string) string {
	m := append([]string{`"messageId":"m1"`, `"role":"ROLE_USER"`, `"parts":[{"data":[` + steps + `]}]`}, members...)
	return `{"message":{` + strings.Join(m, ",") + `}}`
}
