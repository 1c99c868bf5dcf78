package parley_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/limits"
	"github.com/parley-a2a/parley/taskstore"
)

// says is an agent that ends each task with a word.
func says(word string) agent.Agent {
	return agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		return u.Complete(a2a.TextPart(word))
	})
}

// TestGroup: several agents on one pair of listeners, each with a card of its own that is found by the catalog, and none
// with a sight of another's tasks (threat B10).
func TestGroup(t *testing.T) {
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	var hosts []*parley.Host
	for _, name := range []string{"One", "Two"} {
		h, err := parley.New(parley.Config{Name: name, Store: store, Log: slog.New(slog.DiscardHandler)}, says(name))
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	g, err := parley.NewGroup(parley.Config{Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	httpL, grpcL, err := g.Listeners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, httpL, grpcL) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	base := "http://" + httpL.Addr().String()
	tasks := map[string]string{}
	for _, item := range catalogItems(t, base) {
		for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
			c, err := client.New(ctx, strings.TrimSuffix(item.Href, "/")+a2a.CardPath, client.Options{Transports: []string{binding}})
			if err != nil {
				t.Fatalf("%s: %v", item.Href, err)
			}
			res, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("x")}}})
			if err != nil {
				t.Fatalf("%s %s: %v", item.Title, binding, err)
			}
			task := res.(*a2a.Task) //nolint:forcetypeassert // the agents make tasks
			if got := task.Status.Message.Text(); got != item.Title {
				t.Errorf("%s over %s: %q answered", item.Title, binding, got)
			}
			for other, id := range tasks {
				if other == item.Title {
					continue
				}
				if _, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id}); !errors.Is(err, a2a.ErrTaskNotFound) {
					t.Errorf("%s reads a task of %s: %v", item.Title, other, err)
				}
			}
			tasks[item.Title] = task.ID
			_ = c.Close()
		}
	}
	if len(tasks) != 2 {
		t.Errorf("the catalog has %d agents", len(tasks))
	}
	res, err := http.Get(base + "/agents/one" + a2a.CardPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	card, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if findings := agentcard.Validate(card); len(findings) > 0 {
		t.Errorf("the card: %v", findings)
	}
}

// TestGroupLimits: on gRPC, where only the request names the agent, each agent of a group has limits of its own, which count what
// its rules refuse, and what is for none of them is limited too.
func TestGroupLimits(t *testing.T) {
	bob, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: []auth.APIKey{{Name: "bob"}}})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := auth.Any(auth.Options{Rules: auth.Rules{Operations: map[string][]string{"CancelTask": {"no-one-has-it"}}}}, bob)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []*parley.Host
	for _, name := range []string{"One", "Two"} {
		h, err := parley.New(parley.Config{
			Name: name, Auth: rules, Authenticate: authenticate, Rates: limits.Options{Rate: 0.001, Burst: 3}, Log: slog.New(slog.DiscardHandler),
		}, says(name))
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	g, err := parley.NewGroup(parley.Config{
		Listen: parley.NoListen, GRPCListen: "127.0.0.1:0", Rates: limits.Options{Rate: 0.001, Burst: 2}, Log: slog.New(slog.DiscardHandler),
	}, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, grpcL, err := g.Listeners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, nil, grpcL) }()
	defer func() { cancel(); <-done }()
	h := &host{grpc: grpcL.Addr().String()}
	for i, c := range []struct{ caller, op, tenant, want, left string }{
		{"alice", "GetTask", "one", "NotFound", `"requests";r=2;`},
		{"alice", "CancelTask", "one", "PermissionDenied", `"requests";r=1;`},
		{"alice", "GetTask", "two", "NotFound", `"requests";r=2;`},
		{"alice", "CancelTask", "one", "PermissionDenied", `"requests";r=0;`},
		{"alice", "CancelTask", "one", "limit requests", `"requests";r=0;`},
		{"alice", "GetTask", "two", "NotFound", `"requests";r=1;`},
		{"alice", "GetTask", "six", "InvalidArgument", `"requests";r=1;`},
		{"alice", "GetTask", "six", "InvalidArgument", `"requests";r=0;`},
		{"alice", "GetTask", "six", "limit requests", `"requests";r=0;`},
		{"bob", "GetTask", "six", "InvalidArgument", `"requests";r=1;`},
	} {
		head := as(c.caller)
		head.Set("A2A-Version", "1.0")
		at := "\x0a\x03" + c.tenant + "\x12\x01x" // tenant and id
		header, said := bytesByGRPC(t, h, c.op, at, head)
		if !strings.Contains(said, c.want) || !strings.HasPrefix(header.Get("RateLimit"), c.left) {
			t.Errorf("%d: %+v: %s, RateLimit %s", i, c, said, header.Get("RateLimit"))
		}
	}
}

type catalogItem struct{ Href, Title string }

func catalogItems(t *testing.T, base string) []catalogItem {
	t.Helper()
	res, err := http.Get(base + parley.CatalogPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var set struct {
		Linkset []struct{ Item []catalogItem }
	}
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	return set.Linkset[0].Item
}

func TestGroupRefuses(t *testing.T) {
	host := func(name string, a a2a.Authenticate) *parley.Host {
		h, err := parley.New(parley.Config{Name: name, Authenticate: a, Log: slog.New(slog.DiscardHandler)}, says(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Shutdown(context.Background()) })
		return h
	}
	known := func(context.Context, *a2a.CallInfo) error { return nil }
	for why, hosts := range map[string][]*parley.Host{
		"none": nil, "one name twice": {host("a", nil), host("a", nil)}, "one asks who calls": {host("a", nil), host("b", known)},
	} {
		if _, err := parley.NewGroup(parley.Config{}, hosts...); err == nil {
			t.Errorf("%s: taken", why)
		}
	}
}

// TestGroupChanges: agents are added, changed and removed while a group serves. A removed one takes no more messages and
// ends what it is at, with its streams.
func TestGroupChanges(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	begun, hold := make(chan struct{}, 100), make(chan struct{})
	newHost := func(name string, a agent.Agent) *parley.Host {
		h, err := parley.New(parley.Config{Name: name, Log: quiet}, a)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	slow := newHost("Slow", agent.Func(func(context.Context, *agent.Request, *agent.Updater) error {
		begun <- struct{}{}
		<-hold
		return nil
	}))
	g, err := parley.NewGroup(parley.Config{Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", Log: quiet}, slow)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	httpL, grpcL, err := g.Listeners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, httpL, grpcL) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	base := "http://" + httpL.Addr().String()
	dial := func(name, binding string) *client.Client {
		c, err := client.New(ctx, base+"/agents/"+name+a2a.CardPath, client.Options{Transports: []string{binding}, OnlyExtensions: true})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := func() *a2a.SendMessageRequest {
		return &a2a.SendMessageRequest{Message: &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("x")}}}
	}
	if err := g.Remove(ctx, slow); err == nil {
		t.Error("the last agent was removed")
	}
	if err := g.Add(newHost("slow", says("x"))); err == nil {
		t.Error("two agents of one name")
	}

	other := newHost("Other", says("Other"))
	if err := g.Add(other); err != nil {
		t.Fatal(err)
	}
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		if _, err := dial("other", binding).SendMessage(ctx, ask()); err != nil {
			t.Errorf("%s: %v", binding, err)
		}
	}
	err = other.Update(func(c *parley.Config) {
		c.Name, c.AgentName, c.PublicURL, c.Rates.Rate, c.Rates.Burst, c.Rates.Loopback = "Changed", "another", "http://elsewhere.example", 0.001, 1, true
	})
	if err != nil {
		t.Fatal(err)
	}
	c := dial("other", a2a.BindingGRPC)
	if c.Card().Name != "Changed" || !strings.HasPrefix(c.Card().SupportedInterfaces[0].URL, base+"/agents/other/") {
		t.Errorf("the card is %s", c.Card().Raw)
	}
	_, first := c.SendMessage(ctx, ask())
	if _, err := c.SendMessage(ctx, ask()); first != nil || !errors.Is(err, a2a.ErrResourceExhausted) {
		t.Errorf("the new rate is not in effect: %v, %v", first, err)
	}
	if err := other.Update(func(c *parley.Config) { c.Name = "" }); err == nil || other.Card().Name != "Changed" {
		t.Errorf("a host without a name: %v, %q", err, other.Card().Name)
	}

	ended := make(chan a2a.TaskState, 1)
	stream := dial("slow", a2a.BindingJSONRPC)
	go func() {
		var task a2a.Task
		for e, err := range stream.SendStreamingMessage(ctx, ask()) {
			if err != nil {
				t.Errorf("the stream: %v", err)
				break
			}
			task.Apply(e.Event)
		}
		ended <- task.Status.State
	}()
	<-begun
	removed := make(chan error, 1)
	go func() { removed <- g.Remove(ctx, slow) }()
	now := ask()
	now.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		c := dial("slow", binding)
		for !refused(c.SendMessage(ctx, now)) { // until the removal has begun
		}
	}
	if items := catalogItems(t, base); len(items) != 1 {
		t.Errorf("the catalog has %d agents", len(items))
	}
	close(hold)
	if state := <-ended; state != a2a.TaskStateCompleted {
		t.Errorf("the task is %v", state)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if _, err := client.FetchCard(ctx, base+"/agents/slow"+a2a.CardPath, client.Options{}); !errors.Is(err, client.ErrCardNotFound) {
		t.Errorf("the agent is still there: %v", err)
	}
	if err := g.Add(newHost("Slow", says("again"))); err != nil {
		t.Error(err)
	}
}

func refused(_ a2a.SendMessageResult, err error) bool { return errors.Is(err, a2a.ErrUnavailable) }
