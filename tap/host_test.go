package tap

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/internal/agents"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

// startHost starts an agent and returns the URL of its card's origin.
func startHost(t testing.TB, a agent.Agent, change func(*parley.Config)) string {
	t.Helper()
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	quiet := slog.New(slog.DiscardHandler)
	hooks, err := push.New(push.Options{Store: store, Agent: "agent", AllowPrivate: true, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	cfg := parley.Config{
		Name: "Agent", AgentName: "agent", Description: "An agent for tests", Version: "1", Store: store, Log: quiet, Push: hooks,
		Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", Times: server.Times{CancelGrace: time.Second}, Grace: 50 * time.Millisecond,
		DefaultInputModes: []string{"text/plain", "application/json"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2a.AgentSkill{{ID: "s", Name: "Skill", Description: "does what it is told", Tags: []string{"test"}}},
	}
	if change != nil {
		change(&cfg)
	}
	host, err := parley.New(cfg, a)
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
	})
	return "http://" + httpL.Addr().String()
}

func revisor(t testing.TB) agent.Agent {
	t.Helper()
	a, err := agents.ByName("revisor", agents.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a.Agent
}

func scripted() agent.Agent { return new(script.Agent) }

// running is a tap under test.
type running struct {
	*Tap
	url string
}

// startTap starts a tap in front of the agent whose card is at the URL.
func startTap(t testing.TB, card string, change func(*Config)) *running {
	t.Helper()
	got, err := client.FetchCard(t.Context(), card, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return startTapOn(t, Config{Card: got.Raw, CardURL: got.URL}, change)
}

func startTapOn(t testing.TB, cfg Config, change func(*Config)) *running {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	tap, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- tap.Serve(ctx, func(base string) { ready <- base }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Log(err)
		}
	})
	select {
	case base := <-ready:
		return &running{tap, base}
	case err := <-done:
		done <- nil
		t.Fatal(err)
		return nil
	}
}

// until waits for an exchange that ok takes.
func (r *running) until(t testing.TB, ok func(*Exchange) bool) *Exchange {
	t.Helper()
	return untilExchange(t, r.rec, ok)
}

func untilExchange(t testing.TB, rec *Recorder, ok func(*Exchange) bool) *Exchange {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		changed := rec.Changed()
		all := rec.Exchanges(0, 0)
		for _, x := range all {
			if ok(x) {
				return x
			}
		}
		select {
		case <-changed:
		case <-late:
			b, _ := json.MarshalIndent(all, "", " ")
			t.Fatalf("no such exchange among %s", b)
		}
	}
}

func done(operation string) func(*Exchange) bool {
	return func(x *Exchange) bool { return x.Operation == operation && x.Done }
}

// dial connects to the agent whose card is at the URL.
func dial(t testing.TB, card, binding string) *client.Client {
	t.Helper()
	c, err := client.New(t.Context(), card, client.Options{
		Transports: []string{binding}, GRPC: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func text(s string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "m-" + s, Role: a2a.RoleUser, Parts: []*a2a.Part{{Content: a2a.Text(s)}}}}
}

func steps(s string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []*a2a.Part{{Content: a2a.Data(s)}}}}
}

// post sends a JSON-RPC request.
func post(t testing.TB, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	res := open(t, url, body, header...)
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

func open(t testing.TB, url, body string, header ...string) *http.Response {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("A2A-Version", "1.0")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// fake is an agent that answers as a test wants; its card names one interface for each binding over HTTP.
func fake(t testing.TB, h http.HandlerFunc) Config {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return Config{Card: fakeCard("http://" + l.Addr().String()), CardURL: "http://" + l.Addr().String() + a2a.CardPath}
}

func fakeCard(base string) []byte {
	return []byte(`{"name":"Fake","description":"d","version":"1","capabilities":{"streaming":true},"skills":[` +
		`{"id":"s","name":"n","description":"d","tags":["t"]}],"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],` +
		`"supportedInterfaces":[{"url":"` + base + `/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"},` +
		`{"url":"` + base + `/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}]}`)
}

func overTLS(c *tls.Config) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(c))}
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func serveHandler(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func zipped(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
