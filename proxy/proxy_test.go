package proxy_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/delegation"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/proxy"
	"github.com/parley-a2a/parley/taskstore"
)

var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

// host is a served agent.
type host struct {
	*parley.Host
	url  string
	stop func() // orderly; to call it again does nothing
}

// start serves an agent at free ports until the test ends.
func start(t *testing.T, cfg parley.Config, a agent.Agent) *host {
	t.Helper()
	httpL, grpcL := listen(t), listen(t)
	cfg.Listen, cfg.GRPCListen, cfg.Grace = httpL.Addr().String(), grpcL.Addr().String(), time.Millisecond
	cfg.Log = slog.New(slog.DiscardHandler)
	if cfg.Name == "" {
		cfg.Name = "Backend"
	}
	h, err := parley.New(cfg, a)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, httpL, grpcL) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return &host{h, "http://" + httpL.Addr().String(), stop}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// front puts a proxy in front of an agent, on a binding.
func front(t *testing.T, cfg proxy.Config) *proxy.Agent {
	t.Helper()
	if cfg.Delegation.Self == "" {
		cfg.Delegation.Self = "proxy of " + t.Name()
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	p, err := proxy.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// shown is the configuration of a host in front of an agent.
func shown(p *proxy.Agent) parley.Config {
	c := p.Card()
	return parley.Config{
		Name: c.Name, Description: c.Description, Version: c.Version, Provider: c.Provider, Skills: c.Skills,
		DefaultInputModes: c.DefaultInputModes, DefaultOutputModes: c.DefaultOutputModes, Extensions: c.Capabilities.Extensions,
	}
}

func dial(t *testing.T, h *host, binding string, opts client.Options) *client.Client {
	t.Helper()
	opts.Transports = []string{binding}
	c, err := client.New(t.Context(), h.url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func message(s string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(s)}}}
}

func next(task *a2a.Task, s string) *a2a.SendMessageRequest {
	m := message(s)
	m.Message.TaskID = task.ID
	return m
}

func send(t *testing.T, c a2a.Service, req *a2a.SendMessageRequest) *a2a.Task {
	t.Helper()
	res, err := c.SendMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := res.(*a2a.Task)
	if !ok {
		t.Fatalf("got %T, want a task", res)
	}
	return task
}

// want fails unless a task is in a state and says something.
func want(t *testing.T, task *a2a.Task, state a2a.TaskState, says string) {
	t.Helper()
	if got := task.Status.Message.Text(); task.Status.State != state || !strings.Contains(got, says) {
		t.Fatalf("%v %q, want %v with %q", task.Status.State, got, state, says)
	}
}

// actor does what a message says.
type actor struct {
	mu    sync.Mutex
	saw   []*agent.Request
	begun chan string // gets the text of every message
	hold  chan struct{}
}

func newActor() *actor { return &actor{begun: make(chan string, 100), hold: make(chan struct{})} }

func (x *actor) Accept(_ context.Context, r *agent.Request) (*a2a.Message, error) {
	switch r.Text() {
	case "direct":
		return &a2a.Message{MessageID: "m", Role: a2a.RoleAgent, Parts: []*a2a.Part{a2a.TextPart("at once")}}, nil
	case "refuse":
		return nil, a2a.Errorf(a2a.ErrContentTypeNotSupported, "not that")
	}
	return nil, nil
}

func (x *actor) seen() []*agent.Request {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.saw)
}

func (x *actor) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	x.mu.Lock()
	x.saw = append(x.saw, r)
	x.mu.Unlock()
	x.begun <- r.Text()
	switch r.Text() {
	case "work":
		if err := u.Progress(a2a.TextPart("half way")); err != nil {
			return err
		}
		w := u.BeginArtifact(a2a.Artifact{ArtifactID: "out", Name: "out.txt", Description: "all of it"})
		for _, s := range []string{"one ", "two "} {
			if err := w.WriteText(s); err != nil {
				return err
			}
		}
		if err := w.Last(a2a.TextPart("three")); err != nil {
			return err
		}
		if err := u.Artifact(a2a.Artifact{ArtifactID: "data", Parts: []*a2a.Part{a2a.DataPart(map[string]int{"n": 3})}}); err != nil {
			return err
		}
		return u.Complete(a2a.TextPart("done"))
	case "ask":
		return u.Park(a2a.TextPart("which?"))
	case "login":
		answer, err := u.AskAuth(ctx, a2a.TextPart("log in"))
		if err != nil {
			return err
		}
		return u.Complete(a2a.TextPart("logged in by " + answer.Text()))
	case "approve":
		answer, err := approval.Ask(ctx, r, u, approval.Request{Resource: "db", Scopes: []string{"write"}, Audience: "me"})
		if err != nil {
			return err
		}
		return u.Complete(a2a.TextPart(fmt.Sprint(answer.Decision == approval.Approved, answer.Scopes)))
	case "elsewhere":
		ctx, cancel := context.WithCancel(ctx)
		go func() { <-x.hold; cancel() }()
		if _, err := u.AskAuth(ctx, a2a.TextPart("log in")); !errors.Is(err, context.Canceled) {
			return err
		}
		return u.Complete(a2a.TextPart("came elsewhere"))
	case "hold":
		if err := u.Begin("out").WriteText("begun "); err != nil {
			return err
		}
		select {
		case <-x.hold:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return u.Complete(a2a.TextPart("held"))
	case "fail":
		return u.Fail(a2a.TextPart("no luck"))
	case "reject":
		return u.Reject(a2a.TextPart("will not"))
	}
	return u.Complete(a2a.TextPart("said " + r.Text()))
}

// TestBridge: what a remote agent says on one binding is what callers get on another.
func TestBridge(t *testing.T) {
	x := newActor()
	backend := start(t, parley.Config{Extensions: []*a2a.AgentExtension{extension.Declaration(extension.Approval)}}, x)
	for _, up := range bindings {
		p := front(t, proxy.Config{Card: backend.url, Client: client.Options{Transports: []string{up}}})
		h := start(t, shown(p), p)
		for _, down := range bindings {
			t.Run(up+" behind "+down, func(t *testing.T) { talk(t, dial(t, h, down, client.Options{})) })
		}
	}
	for _, r := range x.seen() {
		if r.Text() == "" || r.Message.Metadata[delegation.ChainKey] == nil {
			t.Errorf("a message came without the chain: %s", r.Message.AppendJSON(nil))
		}
	}
}

func talk(t *testing.T, c *client.Client) {
	var states []string
	var task a2a.Task
	for e, err := range c.SendStreamingMessage(t.Context(), message("work")) {
		if err != nil {
			t.Fatal(err)
		}
		task.Apply(e.Event)
		if s, ok := e.Event.(*a2a.TaskStatusUpdateEvent); ok {
			states = append(states, s.Status.Message.Text())
		}
	}
	want(t, &task, a2a.TaskStateCompleted, "done")
	if !slices.Contains(states, "half way") {
		t.Errorf("progress was lost: %q", states)
	}
	if len(task.Artifacts) != 2 {
		t.Fatalf("%d artifacts", len(task.Artifacts))
	}
	out, data := task.Artifacts[0], task.Artifacts[1]
	if out.ArtifactID != "out" || out.Name != "out.txt" || out.Description != "all of it" || out.Text() != "one two three" || len(out.Parts) != 3 {
		t.Errorf("artifact %+v %q", out, out.Text())
	}
	if d, ok := data.Parts[0].Content.(a2a.Data); !ok || string(d) != `{"n":3}` {
		t.Errorf("data %v", data.Parts[0].Content)
	}

	asked := send(t, c, message("ask"))
	want(t, asked, a2a.TaskStateInputRequired, "which?")
	want(t, send(t, c, next(asked, "that")), a2a.TaskStateCompleted, "said that")

	want(t, send(t, c, message("fail")), a2a.TaskStateFailed, "no luck")
	want(t, send(t, c, message("reject")), a2a.TaskStateRejected, "will not")
	want(t, send(t, c, message("direct")), a2a.TaskStateCompleted, "at once")
	refused := send(t, c, message("refuse"))
	want(t, refused, a2a.TaskStateFailed, "not that")
	if d, ok := refused.Status.Message.Parts[1].Content.(a2a.Data); !ok || !strings.Contains(string(d), "-32005") {
		t.Errorf("the error's code is not there: %s", d)
	}

	login := send(t, c, message("login"))
	want(t, login, a2a.TaskStateAuthRequired, "log in")
	want(t, send(t, c, next(login, "word")), a2a.TaskStateCompleted, "logged in by word")

	with := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Extensions: []string{extension.Approval}})
	res, err := c.SendMessage(with, message("approve"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := approval.Approve(res.(*a2a.Task)) //nolint:forcetypeassert // the agent makes tasks
	if err != nil {
		t.Fatal(err)
	}
	if res, err = c.SendMessage(with, req); err != nil {
		t.Fatal(err)
	}
	want(t, res.(*a2a.Task), a2a.TaskStateCompleted, "true [write]") //nolint:forcetypeassert // as before
}

// TestAuthorizedElsewhere: the remote agent goes on by itself, and so does the task.
func TestAuthorizedElsewhere(t *testing.T) {
	x := newActor()
	p := front(t, proxy.Config{Card: start(t, parley.Config{}, x).url})
	c := dial(t, start(t, shown(p), p), a2a.BindingJSONRPC, client.Options{})
	task := send(t, c, message("elsewhere"))
	want(t, task, a2a.TaskStateAuthRequired, "log in")
	close(x.hold)
	var last a2a.Task
	for e, err := range c.Follow(t.Context(), task.ID) {
		if err != nil {
			t.Fatal(err)
		}
		last.Apply(e.Event)
	}
	want(t, &last, a2a.TaskStateCompleted, "came elsewhere")
}

// TestCancel: a task that works and one that waits are canceled there, too.
func TestCancel(t *testing.T) {
	x := newActor()
	backend := start(t, parley.Config{}, x)
	for _, up := range bindings {
		p := front(t, proxy.Config{Card: backend.url, Client: client.Options{Transports: []string{up}}})
		c := dial(t, start(t, shown(p), p), up, client.Options{})
		remote := dial(t, backend, up, client.Options{})
		for _, word := range []string{"hold", "ask"} {
			req := message(word)
			req.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: word == "hold"}
			task := send(t, c, req)
			if word == "hold" {
				for e, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
					if err != nil {
						t.Fatal(err)
					}
					if task.Apply(e.Event); len(task.Artifacts) > 0 {
						break
					}
				}
			}
			got, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			want(t, got, a2a.TaskStateCanceled, "")
			saw := x.seen()
			id := saw[len(saw)-1].Task.ID
			there, err := remote.Wait(t.Context(), id)
			if err == nil && there.Status.State == a2a.TaskStateInputRequired { // Canceled is told after the cancel is answered
				for e, err := range remote.Follow(t.Context(), id) {
					if err != nil {
						t.Fatal(err)
					}
					there.Apply(e.Event)
				}
			}
			if err != nil || there.Status.State != a2a.TaskStateCanceled {
				t.Errorf("%s %s: the remote task is %v %v", up, word, there, err)
			}
		}
	}
}

// TestContexts: a caller's context goes on there, and is no other caller's (threat A1).
func TestContexts(t *testing.T) {
	x := newActor()
	keys, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: []auth.APIKey{key(t, "alice=alice-secret-0123456789"), key(t, "bob=bob-secret-0123456789ab")}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := auth.Any(auth.Options{}, keys)
	if err != nil {
		t.Fatal(err)
	}
	p := front(t, proxy.Config{Card: start(t, parley.Config{}, x).url})
	cfg := shown(p)
	cfg.Authenticate, cfg.SecuritySchemes = who.Authenticate, who.SecuritySchemes()
	h := start(t, cfg, p)
	as := func(secret string) *client.Client {
		creds, err := auth.NewCredentials(auth.Credential{Origins: []string{h.url}, Source: auth.Static(auth.NewSecret(secret)), Header: "X-API-Key"})
		if err != nil {
			t.Fatal(err)
		}
		return dial(t, h, a2a.BindingJSONRPC, client.Options{HTTP: creds.HTTP(nil)})
	}
	alice, bob := as("alice-secret-0123456789"), as("bob-secret-0123456789ab")
	first := send(t, alice, message("a"))
	again := message("b")
	again.Message.ContextID = first.ContextID
	send(t, alice, again)
	foreign := message("c")
	foreign.Message.ContextID = first.ContextID
	send(t, bob, foreign)
	var contexts []string
	for _, r := range x.seen() {
		contexts = append(contexts, r.Task.ContextID)
		if r.Message.Metadata["x-api-key"] != nil {
			t.Error("a credential came along")
		}
	}
	if contexts[0] != contexts[1] || contexts[0] == contexts[2] || contexts[0] == first.ContextID {
		t.Errorf("contexts there %q, here %q", contexts, first.ContextID)
	}
}

func key(t *testing.T, text string) auth.APIKey {
	t.Helper()
	k, err := auth.ParseAPIKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestRestart: a host that starts again follows the remote tasks that it had, and the remote agent runs once.
func TestRestart(t *testing.T) {
	t.Run("with Parley's extensions", func(t *testing.T) { restart(t, func(card string) string { return card }) })
	t.Run("without", func(t *testing.T) {
		restart(t, func(card string) string { return strings.ReplaceAll(card, "/parley/extensions/", "/parley/none/") })
	})
}

func restart(t *testing.T, change func(card string) string) {
	x := newActor()
	backend := start(t, parley.Config{}, x)
	card := change(get(t, backend.url+a2a.CardPath))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, card) }))
	defer web.Close()
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	p := front(t, proxy.Config{Card: web.URL})
	cfg := shown(p)
	cfg.Store = store
	first := start(t, cfg, p)
	c := dial(t, first, a2a.BindingJSONRPC, client.Options{})
	asked := send(t, c, message("ask"))
	<-x.begun
	req := message("hold")
	req.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	held := send(t, c, req)
	<-x.begun
	for e, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: held.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		if held.Apply(e.Event); len(held.Artifacts) > 0 {
			break
		}
	}
	first.stop()
	p2 := front(t, proxy.Config{Card: web.URL})
	c = dial(t, start(t, cfg, p2), a2a.BindingJSONRPC, client.Options{})
	close(x.hold)
	task, err := c.Wait(t.Context(), held.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, task, a2a.TaskStateCompleted, "held")
	if len(task.Artifacts) != 1 || task.Artifacts[0].Text() != "begun " {
		t.Errorf("artifacts %+v", task.Artifacts)
	}
	want(t, send(t, c, next(asked, "that")), a2a.TaskStateCompleted, "said that")
	saw := x.seen()
	if len(saw) != 3 || saw[0].Task.ID != saw[2].Task.ID || saw[0].Task.ID == saw[1].Task.ID {
		t.Errorf("the remote agent ran %d times, want 3, the last one for the first task", len(saw))
	}
}

// TestBadInput: what is not understood here does not get there (threat B6).
func TestBadInput(t *testing.T) {
	x := newActor()
	var requests []string
	backend := start(t, parley.Config{}, x)
	p := front(t, proxy.Config{Card: backend.url, Client: client.Options{
		Transports: []string{a2a.BindingJSONRPC},
		HTTP: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			requests = append(requests, r.Method+" "+r.URL.Path)
			return http.DefaultTransport.RoundTrip(r)
		})},
	}})
	h := start(t, shown(p), p)
	before := len(requests)
	good := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"x"}]}}}`
	for name, body := range map[string]string{
		"duplicate key":  strings.Replace(good, `"messageId":"1"`, `"messageId":"1","messageId":"2"`, 1),
		"case variant":   strings.Replace(good, `"messageId"`, `"MessageId"`, 1),
		"trailing bytes": good + `{}`,
		"bad UTF-8":      strings.Replace(good, `"x"`, "\"\xff\"", 1),
		"agent's role":   strings.Replace(good, `ROLE_USER`, `ROLE_AGENT`, 1),
		"two contents":   strings.Replace(good, `{"text":"x"}`, `{"text":"x","url":"https://a.example"}`, 1),
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(a2a.VersionHeader, a2a.Version)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.Contains(string(b), `"error"`) {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}
	if len(x.seen()) != 0 || len(requests) != before {
		t.Errorf("bad input got to the remote agent: %q", requests[before:])
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestUnreachable: a remote agent that is gone, and one that refuses the host's credential, are told as such, without
// their addresses.
func TestUnreachable(t *testing.T) {
	x := newActor()
	for _, up := range bindings {
		backend := start(t, parley.Config{}, x)
		fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a connection that breaks is tried again for a minute
		p := front(t, proxy.Config{Card: backend.url, Client: client.Options{HTTP: fresh, Transports: []string{up}}})
		h := start(t, shown(p), p)
		c := dial(t, h, up, client.Options{})
		backend.stop()
		task := send(t, c, message("work"))
		want(t, task, a2a.TaskStateFailed, "The agent behind this host cannot be reached.")
		if s := string(task.AppendJSON(nil)); strings.Contains(s, strings.TrimPrefix(backend.url, "http://")) {
			t.Errorf("the backend's address is told: %s", s)
		}
	}
}

// TestLoop: an agent that calls itself through the proxy is refused (threat A11).
func TestLoop(t *testing.T) {
	x := newActor()
	backend := start(t, parley.Config{}, x)
	p := front(t, proxy.Config{Card: backend.url, Delegation: delegation.Options{Self: "us"}})
	c := dial(t, start(t, shown(p), p), a2a.BindingREST, client.Options{})
	req := message("work")
	req.Message.Metadata = a2a.Struct{}.With(delegation.ChainKey, []string{"a", "us", "b"})
	if _, err := c.SendMessage(t.Context(), req); !errors.Is(err, a2a.ErrPermissionDenied) {
		t.Errorf("got %v, want that it is refused", err)
	}
	if len(x.seen()) != 0 {
		t.Error("it came to the remote agent")
	}
}

// TestCards: a signed card behind the proxy is one of the proxy's own, and names no place behind it (threat B8).
func TestCards(t *testing.T) {
	ours, theirs := newKey(t, "ours"), newKey(t, "theirs")
	set, err := agentcard.JWKS(theirs)
	if err != nil {
		t.Fatal(err)
	}
	backendListener := listen(t)
	addr := backendListener.Addr().String()
	_ = backendListener.Close()
	doc := "http://" + addr + "/docs"
	backend := start(t, parley.Config{
		Name: "Books", Description: "See https://api.books.internal:8443/x or http://" + addr + "/y.", CardKeys: []*agentcard.Key{theirs},
		Provider: &a2a.AgentProvider{Organization: "Books", URL: "https://books.example"}, DocumentationURL: doc,
		PublicURL: "http://api.books.internal:8443",
		Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
			info.Caller = a2a.Caller{Issuer: "i", Subject: "the proxy"}
			return nil
		},
		SecuritySchemes: map[string]a2a.SecurityScheme{"basic": &a2a.HTTPAuthSecurityScheme{Scheme: "basic"}},
		ExtendedCard: func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
			return &a2a.AgentCard{Skills: []*a2a.AgentSkill{{ID: "more", Name: "More", Description: "of api.books.internal", Tags: []string{}}}}, nil
		},
		Skills: []*a2a.AgentSkill{{ID: "s", Name: "S", Description: "at API.books.internal", Tags: []string{"t"}, Examples: []string{"go"}}},
		Extensions: []*a2a.AgentExtension{{
			URI: "https://x.example/ext", Params: a2a.Struct{}.With("at", "http://api.books.internal").With("n", 1),
		}},
	}, newActor())
	at, err := agentcard.Origin("http://api.books.internal:8443")
	if err != nil {
		t.Fatal(err)
	}
	cache := &client.CardCache{Trust: &agentcard.Policy{Enrolled: map[string]agentcard.Enrollment{at: {KeySet: set}}}}
	hc := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, strings.TrimPrefix(backend.url, "http://"))
	}}}
	p := front(t, proxy.Config{Card: at, Client: client.Options{HTTP: hc, Cache: cache, Transports: []string{a2a.BindingJSONRPC}}})
	for _, keys := range [][]*agentcard.Key{nil, {ours}} {
		cfg := shown(p)
		cfg.CardKeys, cfg.ExtendedCard = keys, p.ExtendedCard()
		cfg.Authenticate = func(_ context.Context, info *a2a.CallInfo) error {
			info.Caller = a2a.Caller{Issuer: "i", Subject: "alice"}
			return nil
		}
		cfg.SecuritySchemes = map[string]a2a.SecurityScheme{"basic": &a2a.HTTPAuthSecurityScheme{Scheme: "basic"}}
		h := start(t, cfg, p)
		for _, binding := range bindings {
			card, err := dial(t, h, binding, client.Options{}).GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
			if err != nil {
				t.Fatal(err)
			}
			raw := string(card.AppendJSON(nil))
			if card.Skills[0].ID != "more" || strings.Contains(raw, "books.internal") || strings.Contains(raw, "theirs") {
				t.Errorf("%s: the extended card is %s", binding, raw)
			}
			r := agentcard.Verify(t.Context(), []byte(raw), policy(t, h.url, ours))
			if (r.Outcome == agentcard.Verified) != (keys != nil) {
				t.Errorf("%s: the extended card's signatures: %v %s", binding, r.Outcome, r.Why)
			}
		}
		raw := get(t, h.url+a2a.CardPath)
		for _, hidden := range []string{"books.internal", strings.TrimPrefix(backend.url, "http://"), "theirs"} {
			if strings.Contains(strings.ToLower(raw), hidden) {
				t.Errorf("the card has %q: %s", hidden, raw)
			}
		}
		for _, kept := range []string{"https://books.example", `"name":"Books"`, `"n":1`, `"at "`, "https://x.example/ext"} {
			if kept != `"at "` && !strings.Contains(raw, kept) {
				t.Errorf("the card lacks %q: %s", kept, raw)
			}
		}
		r := agentcard.Verify(t.Context(), []byte(raw), policy(t, h.url, ours))
		if want := map[bool]agentcard.Outcome{false: agentcard.Absent, true: agentcard.Verified}[keys != nil]; r.Outcome != want {
			t.Errorf("%v %s, want %v", r.Outcome, r.Why, want)
		}
		want(t, send(t, dial(t, h, a2a.BindingGRPC, client.Options{}), message("work")), a2a.TaskStateCompleted, "done")
	}
}

func newKey(t *testing.T, id string) *agentcard.Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := agentcard.NewKey(private)
	if err != nil {
		t.Fatal(err)
	}
	k.ID = id
	return k
}

func policy(t *testing.T, origin string, keys ...*agentcard.Key) agentcard.Policy {
	t.Helper()
	set, err := agentcard.JWKS(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return agentcard.Policy{Origin: origin, Enrolled: map[string]agentcard.Enrollment{origin: {KeySet: set}}}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCardChanges: a card that changes is followed, where that is not refused, and otherwise nothing goes there any more.
func TestCardChanges(t *testing.T) {
	x := newActor()
	backend := start(t, parley.Config{}, x)
	var mu sync.Mutex
	card := get(t, backend.url+a2a.CardPath)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(w, card)
	}))
	defer web.Close()
	change := func(from, to string) {
		mu.Lock()
		defer mu.Unlock()
		card = strings.Replace(card, from, to, 1)
	}
	digest, err := agentcard.Digest([]byte(card))
	if err != nil {
		t.Fatal(err)
	}
	trust := &agentcard.Policy{Enrolled: map[string]agentcard.Enrollment{web.URL: {Digest: digest}}}
	free := front(t, proxy.Config{Card: web.URL})
	held := front(t, proxy.Config{Card: web.URL, Client: client.Options{Cache: &client.CardCache{Trust: trust}}})
	c := dial(t, start(t, shown(held), held), a2a.BindingJSONRPC, client.Options{OnlyExtensions: true})
	if free.Refresh(t.Context()) || held.Refresh(t.Context()) {
		t.Error("the card has not changed")
	}
	change(`"name":"Backend"`, `"name":"Another"`)
	if !free.Refresh(t.Context()) || free.Card().Name != "Another" {
		t.Errorf("the card is not followed: %q", free.Card().Name)
	}
	if held.Refresh(t.Context()) {
		t.Error("a card that is not trusted is followed")
	}
	if _, err := c.SendMessage(t.Context(), message("work")); !errors.Is(err, a2a.ErrUnavailable) {
		t.Errorf("got %v, want that it is refused", err)
	}
	change(`"name":"Another"`, `"name":"Backend"`)
	if !held.Refresh(t.Context()) {
		t.Error("the old card is not taken back")
	}
	want(t, send(t, c, message("work")), a2a.TaskStateCompleted, "done")
	if n := len(x.seen()); n != 1 {
		t.Errorf("the remote agent ran %d times, want 1", n)
	}
}

// TestIdentity: the remote agent sees for whom it is called, and never the caller's own token (threat A3).
func TestIdentity(t *testing.T) {
	var exchanged string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchanged = r.FormValue("subject_token") + " by " + r.FormValue("actor_token") + " for " + r.FormValue("audience")
		_, _ = io.WriteString(w, `{"access_token":"for-the-backend","token_type":"Bearer","expires_in":600}`)
	}))
	defer service.Close()
	exchange, err := delegation.NewExchange(t.Context(), delegation.ExchangeOptions{
		Endpoint: service.URL, AllowPrivate: true,
		Actor: delegation.TokenFunc(func(context.Context) (string, error) { return "own", nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, up := range bindings {
		var mu sync.Mutex
		var got []string
		note := func(_ context.Context, info *a2a.CallInfo) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, info.Header.Get("Authorization"))
			info.Caller = a2a.Caller{Issuer: "i", Subject: "s"}
			return nil
		}
		backend := start(t, parley.Config{Authenticate: note}, newActor())
		tokens := new(delegation.Tokens)
		p := front(t, proxy.Config{
			Card: backend.url, Client: client.Options{Transports: []string{up}},
			Identity: &proxy.Identity{Exchange: exchange, Tokens: tokens, Audience: "backend", Origins: origins(backend)},
		})
		cfg := shown(p)
		cfg.Authenticate = func(_ context.Context, info *a2a.CallInfo) error {
			info.Caller = a2a.Caller{Issuer: "i", Subject: "alice"}
			return nil
		}
		cfg.Wrap = tokens.Wrap
		h := start(t, cfg, p)
		creds, err := auth.NewCredentials(auth.Credential{Origins: origins(h), Source: auth.Static(auth.NewSecret("callers-own"))})
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, h, up, client.Options{HTTP: creds.HTTP(nil), GRPC: creds.GRPC()})
		want(t, send(t, c, message("work")), a2a.TaskStateCompleted, "done")
		mu.Lock()
		if exchanged != "callers-own by own for backend" || len(got) == 0 {
			t.Errorf("%s: exchanged %q, the backend was called %d times", up, exchanged, len(got))
		}
		for _, header := range got {
			if header != "Bearer for-the-backend" {
				t.Errorf("%s: the backend got %q", up, header)
			}
		}
		mu.Unlock()
	}
}

// origins are those of a host's interfaces.
func origins(h *host) []string {
	var out []string
	for _, i := range h.Card().SupportedInterfaces {
		u := i.URL
		if i.ProtocolBinding == a2a.BindingGRPC {
			u = "http://" + u
		}
		at, err := agentcard.Origin(u)
		if err != nil {
			panic(err)
		}
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}
