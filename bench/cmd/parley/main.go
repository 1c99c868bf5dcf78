// Command parley serves the workloads of the load generator with Parley's server and bindings, its tasks in memory or
// in a file, with limits out of the way and nothing else changed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // on loopback, for profiles
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/binding/rest"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

// workload is the agent of the workloads: the first letter of the text says which.
type workload struct {
	mu   sync.Mutex
	gate chan struct{}
}

func (w *workload) wait() <-chan struct{} { w.mu.Lock(); defer w.mu.Unlock(); return w.gate }

func (w *workload) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gate)
	w.gate = make(chan struct{})
}

// Handle implements agent.Agent.
func (w *workload) Handle(_ context.Context, r *agent.Request, u *agent.Updater) error {
	text := r.Text()
	switch {
	case strings.HasPrefix(text, "F:"):
		<-w.wait()
		fallthrough
	case strings.HasPrefix(text, "S:"):
		return stream(strings.Split(text, ":"), u)
	case strings.HasPrefix(text, "B:"):
		return big(u)
	}
	return u.Begin("").Last(a2a.TextPart(text))
}

func stream(f []string, u *agent.Updater) error {
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	size := 32
	if len(f) > 3 {
		if size, err = strconv.Atoi(f[3]); err != nil {
			return err
		}
	}
	chunk := strings.Repeat("x", size)
	out := u.Begin("")
	for range n {
		if f[2] == "s" {
			err = u.Progress()
		} else {
			err = out.WriteText(chunk)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func big(u *agent.Updater) error {
	for range 19 {
		if err := u.Message(a2a.TextPart(strings.Repeat("h", 100))); err != nil {
			return err
		}
	}
	for range 5 {
		if err := u.Artifact(a2a.Artifact{Name: "result", Parts: []*a2a.Part{a2a.TextPart(strings.Repeat("a", 200))}}); err != nil {
			return err
		}
	}
	return nil
}

// many is a limit that nothing reaches.
const many = 1 << 30

func open(path string, durability sqlite.Durability) (taskstore.Store, error) {
	if path == "" {
		return taskstore.NewMemory(taskstore.MemoryOptions{MaxTasks: many}), nil
	}
	return sqlite.Open(context.Background(), path, sqlite.Options{Durability: durability})
}

// prepare fills a store before it is served; a file is closed then, for servers to come.
func prepare(path string, tasks int) error {
	s, err := open(path, sqlite.Normal)
	if err != nil {
		return err
	}
	return errors.Join(fill(s, tasks), s.Close())
}

func main() {
	httpAddr := flag.String("http", "127.0.0.1:7001", "")
	grpcAddr := flag.String("grpc", "127.0.0.1:7002", "")
	adminAddr := flag.String("admin", "127.0.0.1:7003", "")
	path := flag.String("file", "", "keep the tasks in this file, with every commit on the disk; empty: in memory")
	tasks := flag.Int("fill", 0, "store so many finished tasks first; with -file, and end")
	flag.Parse()
	if *tasks > 0 && *path != "" {
		if err := prepare(*path, *tasks); err != nil {
			log.Fatal(err)
		}
		return
	}
	store, err := open(*path, sqlite.Full)
	if err == nil {
		err = fill(store, *tasks)
	}
	if err != nil {
		log.Fatal(err)
	}
	yes := true
	card := &a2a.AgentCard{Name: "bench", DefaultInputModes: []string{"*/*"}, Capabilities: a2a.AgentCapabilities{Streaming: &yes}}
	w := &workload{gate: make(chan struct{})}
	s, err := server.New(server.Config{
		Agent: w, Name: "bench", Card: func() *a2a.AgentCard { return card },
		Store:  store,
		Limits: server.Limits{Running: many, Parked: many, Waiting: many},
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/rpc", jsonrpc.NewHandler(s, jsonrpc.Options{}))
	mux.Handle("/rest/", rest.NewHandler(s, rest.Options{Prefix: "/rest"}))
	go func() { log.Fatal(http.ListenAndServe(*httpAddr, mux)) }() //nolint:gosec // a benchmark on loopback
	go func() {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", *grpcAddr)
		if err != nil {
			log.Fatal(err)
		}
		g := grpc.NewServer(grpcbinding.ServerOptions()...)
		grpcbinding.NewHandler(s, grpcbinding.HandlerOptions{}).Register(g)
		log.Fatal(g.Serve(l))
	}()
	http.HandleFunc("/admin/go", func(http.ResponseWriter, *http.Request) { w.open() })
	http.HandleFunc("/admin/gc", func(rw http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(rw).Encode(map[string]any{"heap": m.HeapAlloc, "mallocs": m.Mallocs, "total_alloc": m.TotalAlloc, "goroutines": runtime.NumGoroutine()})
	})
	log.Fatal(http.ListenAndServe(*adminAddr, nil)) //nolint:gosec // a benchmark on loopback
}
