package conformance

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

// scripts are what the good agent does, by the beginning of a message's id.
var scripts = map[string]string{
	"tck-complete-task":           `[{"complete":"done"}]`,
	"tck-artifact-text":           `[{"artifact":{"id":"a","name":"n","text":"some text"}}]`,
	"tck-stream-artifact-chunked": `[{"chunks":{"id":"c","texts":["one ","two ","three"],"last":true}}]`,
	"tck-input-required":          `[{"park":"which one?"}]`,
	"test-resubscribe-message-id": `[{"wait":"never"}]`,
	"parley-auth-required":        `[{"parkAuth":"may I read your calendar?"}]`,
	"tck-message-response":        `[{"reply":"hello"}]`,
}

// good is the script agent, told what to do by the message's id.
type good struct {
	script.Agent
	fast bool // every task is COMPLETED at once
}

func (g *good) told(r *agent.Request) *agent.Request {
	for prefix, steps := range scripts {
		if strings.HasPrefix(r.Message.MessageID, prefix) {
			if g.fast {
				steps = scripts["tck-complete-task"]
			}
			out, m := *r, *r.Message
			m.Parts = []*a2a.Part{{Content: a2a.Data(steps)}}
			out.Message = &m
			return &out
		}
	}
	return r
}

func (g *good) Accept(ctx context.Context, r *agent.Request) (*a2a.Message, error) {
	return g.Agent.Accept(ctx, g.told(r))
}

func (g *good) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	return g.Agent.Handle(ctx, g.told(r), u)
}

// setup says what kind of host a test wants.
type setup struct {
	plain   bool // no streaming, no webhooks, no extended card, no credentials
	fast    bool
	require string
	key     *agentcard.Key // signs the card

	publicURL, publicGRPC string
}

const (
	ann = "Bearer ann"
	bob = "Bearer bob"
)

func authenticate(_ context.Context, info *a2a.CallInfo) error {
	name, ok := strings.CutPrefix(info.Header.Get("Authorization"), "Bearer ")
	if !ok || name != "ann" && name != "bob" {
		return &a2a.Error{Code: a2a.ErrUnauthenticated, Challenge: []string{`Bearer realm="script"`}}
	}
	info.Caller = a2a.Caller{Issuer: "test", Subject: name}
	return nil
}

// startHost starts a good agent and returns where it is.
func startHost(t *testing.T, s setup) (url, grpcAddr string) {
	t.Helper()
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	quiet := slog.New(slog.DiscardHandler)
	cfg := parley.Config{
		Name: "Good", AgentName: "good", Store: store, Log: quiet, Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0",
		PublicURL: s.publicURL, PublicGRPCURL: s.publicGRPC, NoStreaming: s.plain, Times: server.Times{CancelGrace: time.Second}, Grace: 50 * time.Millisecond,
		DefaultInputModes: []string{"text/plain", "application/json"},
	}
	if s.require != "" {
		cfg.Extensions = []*a2a.AgentExtension{{URI: s.require, Required: true}}
	}
	if s.key != nil {
		cfg.CardKeys = []*agentcard.Key{s.key}
	}
	var hooks *push.Push
	if !s.plain {
		var err error
		hooks, err = push.New(push.Options{Store: store, Agent: "good", AllowPrivate: true, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Push = hooks
		cfg.Authenticate = authenticate
		cfg.SecuritySchemes = map[string]a2a.SecurityScheme{"bearer": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		cfg.SecurityRequirements = []*a2a.SecurityRequirement{{Schemes: map[string][]string{"bearer": {}}}}
		cfg.ExtendedCard = func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
			return &a2a.AgentCard{Description: "more"}, nil
		}
	}
	host, err := parley.New(cfg, &good{fast: s.fast})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	httpL, grpcL, err := host.Listeners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- host.Serve(ctx, httpL, grpcL) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if hooks != nil {
			last, stop := context.WithTimeout(context.Background(), time.Second)
			defer stop()
			hooks.Shutdown(last)
		}
	})
	return "http://" + httpL.Addr().String(), grpcL.Addr().String()
}

// quick are the options for an agent on this machine.
func quick() Options {
	return Options{
		Header: http.Header{"Authorization": {ann}}, Other: http.Header{"Authorization": {bob}},
		Patience: 10 * time.Second, Settle: 400 * time.Millisecond,
	}
}
