package client_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/loopback"
	"github.com/parley-a2a/parley/taskstore"
)

// machine is a place for hosts, one after the other: the ports and the store stay, the process does not.
type machine struct {
	cfg   parley.Config
	agent agent.Agent
	card  *a2a.AgentCard // that of the first host, and of all

	mu  sync.Mutex
	end func() // of what serves now
}

func newMachine(t *testing.T, a agent.Agent) *machine {
	t.Helper()
	m := &machine{agent: a, cfg: parley.Config{
		Name: "test", Store: taskstore.NewMemory(taskstore.MemoryOptions{}), Log: slog.New(slog.DiscardHandler),
		Listen: loopback.Address(t), GRPCListen: loopback.Address(t),
	}}
	m.card = m.start(m.listeners()).Card()
	t.Cleanup(m.stop)
	return m
}

// start starts the next host on the listeners.
func (m *machine) start(hl, gl net.Listener) *parley.Host {
	host, err := parley.New(m.cfg, m.agent)
	if err != nil {
		panic(err)
	}
	gs := grpc.NewServer(host.GRPCServerOptions()...)
	host.RegisterGRPC(gs)
	m.serve(hl, gl, host, gs, func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what still runs is cut short
		host.Shutdown(ctx)
	})
	return host
}

func (m *machine) serve(hl, gl net.Listener, h http.Handler, gs *grpc.Server, more func()) {
	hs := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go hs.Serve(hl) //nolint:errcheck // it ends with the test
	go gs.Serve(gl) //nolint:errcheck // as above
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = func() {
		_ = hs.Close()
		gs.Stop()
		more()
	}
}

// stop takes away what serves.
func (m *machine) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
}

// listeners opens the machine's ports.
func (m *machine) listeners() (hl, gl net.Listener) {
	open := func(addr string) net.Listener {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			panic(err)
		}
		return l
	}
	return open(m.cfg.Listen), open(m.cfg.GRPCListen)
}

// restart takes the host away, lets the client find nobody, then somebody who says that there is nothing, and then
// the next host.
func (m *machine) restart(tries tries) {
	m.stop()
	tries.wait(3)
	hl, gl := m.listeners()
	m.serve(hl, gl,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
		grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			return grpcstatus.Error(codes.Unavailable, "not now")
		})), func() {})
	tries.wait(3)
	m.stop()
	m.start(m.listeners())
}

// tries hears of the tries of a client, from its log.
type tries chan struct{}

func (c tries) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("trying again")) {
		c <- struct{}{}
	}
	return len(line), nil
}

// wait waits until the client has tried n times from now on.
func (c tries) wait(n int) {
	for len(c) > 0 {
		<-c
	}
	for range n {
		<-c
	}
}

func (m *machine) dial(t *testing.T, binding string) (*client.Client, tries) {
	t.Helper()
	log := make(tries, 1<<16)
	c, err := client.Dial(&client.Card{AgentCard: m.card}, client.Options{
		Transports: []string{binding}, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.SetTiming(time.Millisecond, 20*time.Millisecond, time.Minute)
	return c, log
}

// counter writes numbers, each a chunk, and goes on with the next one in the next process.
type counter struct {
	most, stop int // it waits at stop in its first run
	runs       atomic.Int32
	stopped    chan struct{} // has a place for who waits at stop
}

func (*counter) Restartable() bool { return true }

func (a *counter) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	a.runs.Add(1)
	w, first := u.BeginArtifact(a2a.Artifact{ArtifactID: "out"}), 0
	if len(r.Task.Artifacts) > 0 {
		w, first = u.Open("out"), len(r.Task.Artifacts[0].Parts)
	}
	for i := first; i < a.most; i++ {
		if r.Attempt == 1 && i == a.stop {
			a.stopped <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		if err := w.WriteText(fmt.Sprintf("%d,", i)); err != nil {
			return err
		}
	}
	return nil
}

// TestRestartedHost follows a task through the end of its host and the next one on the same port: every chunk comes
// once, in its order.
func TestRestartedHost(t *testing.T) {
	const most, stop = 200, 120
	var want []string
	for i := range most {
		want = append(want, fmt.Sprintf("+%d,", i))
	}
	onEach(t, func(t *testing.T, binding string) {
		for _, lostAt := range []string{"+60,", "+119,"} { // with more in the log than was read, and with nothing more
			t.Run(lostAt, func(t *testing.T) {
				a := &counter{most: most, stop: stop, stopped: make(chan struct{}, 1)}
				m := newMachine(t, a)
				c, tries := m.dial(t, binding)
				var chunks, other []string
				last := int64(0)
				for e, err := range c.Send(t.Context(), text("x")) {
					if err != nil {
						t.Fatalf("after %d chunks: %v", len(chunks), err)
					}
					if e.Generation != last+1 || extension.Generation(e.Event) != e.Generation {
						t.Fatalf("generation %d after %d", e.Generation, last)
					}
					last = e.Generation
					word := told(e.Event)
					if word[0] != '+' {
						other = append(other, word)
						continue
					}
					if chunks = append(chunks, word); word == lostAt {
						<-a.stopped
						go m.restart(tries)
					}
				}
				equal(t, other, "task SUBMITTED", "WORKING", "WORKING", "COMPLETED")
				if !slices.Equal(chunks, want) {
					t.Errorf("got %d chunks: %q", len(chunks), chunks)
				}
				if n := a.runs.Load(); n != 2 {
					t.Errorf("the agent ran %d times, want once in each process", n)
				}
			})
		}
	})
}

// TestSendToRestartedHost waits for the end of a task with one call, whose connection is lost and whose host is
// restarted meanwhile.
func TestSendToRestartedHost(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		a := &counter{most: 3, stop: 2, stopped: make(chan struct{}, 1)}
		m := newMachine(t, a)
		c, tries := m.dial(t, binding)
		go func() {
			<-a.stopped
			m.restart(tries)
		}()
		res, err := c.SendMessage(t.Context(), text("x"))
		if err != nil {
			t.Fatal(err)
		}
		if told(res) != "task COMPLETED 0,1,2," {
			t.Errorf("%s", told(res))
		}
		list, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{})
		if err != nil || list.TotalSize != 1 || a.runs.Load() != 2 {
			t.Errorf("%+v, %v, %d runs", list, err, a.runs.Load())
		}
	})
}
