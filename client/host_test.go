package client_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/binding/rest"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

func ptr[T any](v T) *T { return &v }

// host serves a Service on all bindings, each port behind a proxy that can fail.
type host struct {
	svc        a2a.Service
	card       *a2a.AgentCard
	url        string
	http, grpc *proxy
	closers    []func()

	mu    sync.Mutex
	calls []a2a.CallInfo // of every operation that arrived
}

// serve starts a host of svc. The card is complete but for what change does to it.
func serve(svc a2a.Service, card *a2a.AgentCard) *host {
	h := &host{svc: svc, card: card}
	auth := func(_ context.Context, info *a2a.CallInfo) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls = append(h.calls, *info)
		return nil
	}
	quiet := slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	mux.HandleFunc(a2a.CardPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(card.AppendJSON(nil)) })
	mux.Handle("/rpc", jsonrpc.NewHandler(svc, jsonrpc.Options{Authenticate: auth, Log: quiet}))
	mux.Handle("/rest/", rest.NewHandler(svc, rest.Options{Prefix: "/rest", Authenticate: auth, Log: quiet}))
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	gs := grpc.NewServer(grpcbinding.ServerOptions()...)
	grpcbinding.NewHandler(svc, grpcbinding.HandlerOptions{Authenticate: auth, Log: quiet}).Register(gs)
	hl, gl := listen(), listen()
	go hs.Serve(hl) //nolint:errcheck // it ends with the test
	go gs.Serve(gl) //nolint:errcheck // as above
	h.http, h.grpc = newProxy(hl.Addr().String()), newProxy(gl.Addr().String())
	h.closers = append(h.closers, h.http.close, h.grpc.close, func() { _ = hs.Close() }, gs.Stop)
	h.url = "http://" + h.http.addr()
	card.SupportedInterfaces = []*a2a.AgentInterface{
		{URL: h.url + "/rpc", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"},
		{URL: h.url + "/rest", ProtocolBinding: a2a.BindingREST, ProtocolVersion: "1.0"},
		{URL: h.grpc.addr(), ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: "1.0"},
	}
	return h
}

func newCard() *a2a.AgentCard {
	return &a2a.AgentCard{
		Name: "Test", Version: "1", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: a2a.AgentCapabilities{Streaming: ptr(true)},
	}
}

// serveAgent starts a host of an agent.
func serveAgent(a agent.Agent, change ...func(*a2a.AgentCard)) *host {
	return serveConfig(server.Config{Agent: a}, change...)
}

// serveConfig starts a host of cfg, of which it fills in the name, the store and the card.
func serveConfig(cfg server.Config, change ...func(*a2a.AgentCard)) *host {
	card := newCard()
	for _, f := range change {
		f(card)
	}
	cfg.Name, cfg.Store = "test", taskstore.NewMemory(taskstore.MemoryOptions{})
	cfg.Card = func() *a2a.AgentCard { return card }
	s, err := server.New(cfg)
	if err != nil {
		panic(err)
	}
	h := serve(s, card)
	h.closers = append(h.closers, func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what still runs is cut short
		s.Shutdown(ctx)
	})
	return h
}

func (h *host) close() {
	for _, f := range h.closers {
		f()
	}
}

func newHost(t *testing.T, a agent.Agent, change ...func(*a2a.AgentCard)) *host {
	t.Helper()
	h := serveAgent(a, change...)
	t.Cleanup(h.close)
	return h
}

func newScripted(t *testing.T, svc a2a.Service) *host {
	t.Helper()
	h := serve(svc, newCard())
	t.Cleanup(h.close)
	return h
}

// dial returns a client of the host without fetching its card.
func (h *host) dial(t *testing.T, opts client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(&client.Card{AgentCard: h.card}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.SetTiming(time.Millisecond, 20*time.Millisecond, time.Minute)
	return c
}

func (h *host) received() []a2a.CallInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// onEach runs a test over each binding.
func onEach(t *testing.T, f func(t *testing.T, binding string)) {
	for _, b := range bindings {
		t.Run(b, func(t *testing.T) { f(t, b) })
	}
}

// proxyOf returns the proxy before the port of a binding.
func (h *host) proxyOf(binding string) *proxy {
	if binding == a2a.BindingGRPC {
		return h.grpc
	}
	return h.http
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l
}

// proxy forwards TCP connections until it is told to fail.
type proxy struct {
	l      net.Listener
	target string

	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
	isDown   bool // connections are dropped at once
	mute     bool // the first byte of an answer resets the connection
	mutes    int  // as mute, so often
}

func newProxy(target string) *proxy {
	p := &proxy{l: listen(), target: target, conns: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := p.l.Accept()
			if err != nil {
				return
			}
			go p.forward(c)
		}
	}()
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) close() {
	_ = p.l.Close()
	p.down()
}

// cut resets all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

func (p *proxy) down() { p.set(func() { p.isDown = true }); p.cut() }
func (p *proxy) up()   { p.set(func() { p.isDown = false }) }

func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// add notes a connection unless there are to be none.
func (p *proxy) add(c net.Conn, counts int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted += counts
	if !p.isDown {
		p.conns[c] = true
	}
	return !p.isDown
}

func (p *proxy) remove(c net.Conn) { p.set(func() { delete(p.conns, c) }); _ = c.Close() }

func (p *proxy) forward(in net.Conn) {
	if !p.add(in, 1) {
		reset(in)
		return
	}
	defer p.remove(in)
	out, err := net.Dial("tcp", p.target)
	if err != nil || !p.add(out, 0) {
		reset(in)
		return
	}
	defer p.remove(out)
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(answers{p, in}, out)
}

// answers is the way of a proxy's answers.
type answers struct {
	p *proxy
	net.Conn
}

func (a answers) Write(b []byte) (int, error) {
	a.p.mu.Lock()
	mute := a.p.mute || a.p.mutes > 0
	a.p.mutes--
	a.p.mu.Unlock()
	if mute {
		reset(a.Conn)
		return 0, net.ErrClosed
	}
	return a.Conn.Write(b)
}

// scripted is a Service of which a test says what it answers.
type scripted struct {
	a2a.Service
	send      func() iter.Seq2[a2a.Entry, error]
	subscribe func() iter.Seq2[a2a.Entry, error]
	get       func() (*a2a.Task, error)
	now       func() (a2a.SendMessageResult, error)
}

func (s *scripted) SendMessage(context.Context, *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return s.now()
}

func (s *scripted) SendStreamingMessage(context.Context, *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return s.send()
}

func (s *scripted) SubscribeToTask(context.Context, *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return s.subscribe()
}

func (s *scripted) GetTask(context.Context, *a2a.GetTaskRequest) (*a2a.Task, error) {
	if s.get == nil {
		return nil, a2a.Errorf(a2a.ErrUnavailable, "broken")
	}
	return s.get()
}

// says is a stream of the events, which then ends, with err if it is one.
func says(err error, events ...a2a.Event) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		for _, ev := range events {
			if !yield(a2a.NewEntry(0, ev), nil) {
				return
			}
		}
		if err != nil {
			yield(a2a.Entry{}, err)
		}
	}
}

func task(s a2a.TaskState) *a2a.Task {
	return &a2a.Task{ID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: s}}
}

func status(s a2a.TaskState) *a2a.TaskStatusUpdateEvent {
	return &a2a.TaskStatusUpdateEvent{TaskID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: s}}
}

func chunk(text string) *a2a.TaskArtifactUpdateEvent {
	return &a2a.TaskArtifactUpdateEvent{
		TaskID: "t1", ContextID: "c1", Artifact: &a2a.Artifact{ArtifactID: "a", Parts: []*a2a.Part{a2a.TextPart(text)}}, Append: true,
	}
}

func text(s string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(s)},
	}}
}

func to(task, s string) *a2a.SendMessageRequest {
	r := text(s)
	r.Message.TaskID = task
	return r
}

// told turns an event into a word.
func told(ev a2a.Event) string {
	switch ev := ev.(type) {
	case *a2a.Task:
		s := "task " + short(ev.Status.State)
		for _, a := range ev.Artifacts {
			s += " " + a.Text()
		}
		return s
	case *a2a.Message:
		return "message " + ev.Text()
	case *a2a.TaskStatusUpdateEvent:
		return short(ev.Status.State)
	case *a2a.TaskArtifactUpdateEvent:
		return "+" + ev.Artifact.Text()
	}
	return "?"
}

func short(s a2a.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

// all returns what a stream said, an error last.
func all(entries iter.Seq2[a2a.Entry, error]) (out []string, last error) {
	for e, err := range entries {
		if err != nil {
			return out, err
		}
		out = append(out, told(e.Event))
	}
	return out, nil
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// stepper is an agent that writes the chunks 0 to n-1 of one artifact, each when it is told to.
type stepper struct {
	n    int
	step chan struct{}

	mu   sync.Mutex
	runs int
}

func newStepper(n int) *stepper { return &stepper{n: n, step: make(chan struct{})} }

func (s *stepper) Handle(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
	s.mu.Lock()
	s.runs++
	s.mu.Unlock()
	w := u.Begin("out")
	for i := range s.n {
		select {
		case <-s.step:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := w.WriteText(fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

// steps lets the agent write n chunks.
func (s *stepper) steps(n int) {
	for range n {
		s.step <- struct{}{}
	}
}

func (s *stepper) ran() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}
