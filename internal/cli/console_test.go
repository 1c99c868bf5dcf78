package cli

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/console"
	"github.com/parley-a2a/parley/internal/agents"
	"github.com/parley-a2a/parley/taskstore"
)

func consoleFlag(t *testing.T, args ...string) *consoleFlags {
	t.Helper()
	f, fs := new(consoleFlags), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestConsoleFlag(t *testing.T) {
	if f := consoleFlag(t); f.on() {
		t.Error("there is a console that nobody asked for")
	}
	if f := consoleFlag(t, "--console"); f.listen != defaultConsole {
		t.Errorf("it listens at %q", f.listen)
	}
	for _, tt := range []struct {
		listen        string
		known, secure bool
		wrong         string // empty: nothing is
	}{
		{"127.0.0.1:0", false, false, ""},
		{"[::1]:0", false, false, ""},
		{"localhost:0", false, false, ""},
		{"nowhere", true, true, "want an address"},
		{"0.0.0.0:0", false, true, "authenticate"},
		{":0", true, false, "TLS"},
		{"0.0.0.0:0", true, true, ""},
		{"", false, false, ""},
	} {
		err := (&consoleFlags{listen: tt.listen}).check(tt.known, tt.secure)
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: %v, want %q", tt.listen, err, tt.wrong)
		}
	}
}

// The printed address opens the console, and a stop ends it.
func TestConsoleStart(t *testing.T) {
	echo, err := agents.ByName("echo", agents.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := agentcard.NewKey(private)
	if err != nil {
		t.Fatal(err)
	}
	deliveries := new(console.Deliveries)
	store := deliveries.Watch(taskstore.NewMemory(taskstore.MemoryOptions{}))
	cfg := parley.Config{
		Name: "Echo", AgentName: "echo", Store: store, PublicURL: "https://agent.example", CardKeys: []*agentcard.Key{key},
		Log: slog.New(slog.DiscardHandler),
	}
	host, err := parley.New(cfg, echo.Agent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Shutdown(t.Context()) })
	agent := hostConsole(host, &cfg, deliveries, func() ([]*agentcard.Key, error) { return cfg.CardKeys, nil })
	card, err := agent.Card(t.Context())
	if err != nil || card.Signed.Outcome != agentcard.Verified || card.URL != "https://agent.example"+a2a.CardPath {
		t.Errorf("the card at %s is %v: %v", card.URL, card.Signed, err)
	}
	var out bytes.Buffer
	stop, err := consoleFlag(t, "--console=127.0.0.1:0").start(t.Context(), consoleConfig{
		Options: console.Options{Agents: func() []console.Agent { return []console.Agent{agent} }, Log: cfg.Log}, out: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	address, token, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(out.String()), "parley: console at "), "#token=")
	if !ok || token == "" {
		t.Fatalf("printed %q", out.String())
	}
	res, err := http.Post(address+"api/session", "application/json", strings.NewReader(`{"token":"`+token+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		b, _ := io.ReadAll(res.Body)
		t.Errorf("%s %s", res.Status, b)
	}
	stop()
	if res, err := http.Get(address); err == nil {
		res.Body.Close()
		t.Errorf("after the stop: %s", res.Status)
	}
}

// The operator has no credential that could have scopes: the rules of a host and of its agents are for callers.
func TestOperatorPassesRules(t *testing.T) {
	s := &serving{c: new(serveCommand), agents: []*hosted{{console: console.Agent{Caller: operator}}, {}}}
	s.c.file.Security.Rules = rulesConfig{Operations: map[string][]string{"ListTasks": {"read"}}, Skills: map[string][]string{"admin": {"adm"}}}
	s.agents[0].c.Security.Rules.Operations = map[string][]string{auth.AnyOperation: {"tests"}}
	shown := s.shown()
	for _, rules := range []auth.Rules{
		{Operations: s.c.file.Security.Rules.Operations, Skills: s.c.file.Security.Rules.Skills},
		{Operations: s.agents[0].c.Security.Rules.Operations},
	} {
		if err := rules.Operation(shown[0].Caller, "ListTasks"); err != nil {
			t.Error(err)
		}
		if err := rules.Skill(shown[0].Caller, "admin"); err != nil {
			t.Error(err)
		}
	}
	if shown[1].Caller.Scopes != nil || operator.Scopes != nil {
		t.Error("scopes where nobody asks who calls, or for good")
	}
}
