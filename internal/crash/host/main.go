// Command host is what the crash tests kill: a host of the script agent with its tasks in a file and webhooks. It
// says "ready" on the standard output when it can be called, and ends when its standard input does, so that it does
// not outlive the test.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/golden"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

func main() {
	cfg := parley.Config{Name: "Script", AgentName: "script", Authenticate: authenticate}
	flag.StringVar(&cfg.Listen, "listen", "", "address for HTTP")
	flag.StringVar(&cfg.GRPCListen, "grpc-listen", "", "address for gRPC")
	flag.IntVar(&cfg.Limits.Running, "running", 0, "tasks of a caller that run at once")
	path := flag.String("store", "", "file of the tasks")
	hasty := flag.Bool("hasty", false, "plant the fault: acknowledge new tasks before they are committed")
	flag.Parse()
	if err := serve(cfg, *path, *hasty); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(cfg parley.Config, path string, hasty bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	file, err := sqlite.Open(ctx, path, sqlite.Options{Log: cfg.Log})
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	cfg.Store = file
	if hasty {
		cfg.Store = &hastyStore{Store: file, pending: map[string]chan struct{}{}}
	}
	hooks, err := push.New(push.Options{Store: cfg.Store, Agent: cfg.AgentName, AllowPrivate: true, Log: cfg.Log})
	if err != nil {
		return err
	}
	cfg.Push = hooks
	host, err := parley.New(cfg, new(script.Agent))
	if err != nil {
		return err
	}
	httpL, grpcL, err := host.Listeners(ctx)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if _, err := fmt.Fprintln(os.Stdout, "ready"); err != nil {
		return err
	}
	err = host.Serve(ctx, httpL, grpcL)
	return err
}

// authenticate believes the header that names the caller.
func authenticate(_ context.Context, info *a2a.CallInfo) error {
	info.Caller = a2a.Caller{Issuer: "test", Subject: info.Header.Get(golden.CallerHeader)}
	return nil
}

// hastyStore is the fault that the crash test must find: new tasks are acknowledged up to 20 ms before they are
// committed. Whoever asks for such a task waits until it is there, so that nothing else goes wrong.
type hastyStore struct {
	taskstore.Store

	mu      sync.Mutex
	pending map[string]chan struct{} // closed when the task is committed
}

func (s *hastyStore) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if !c.Create {
		s.await(c.Key.Task)
		return s.Store.Commit(ctx, c)
	}
	receipt := taskstore.Receipt{Generation: int64(len(c.Records))}
	if c.Claim != "" {
		receipt.Epoch = 1
	}
	for i, r := range c.Records {
		r.Entry = a2a.NewEntry(int64(i+1), r.Event)
		receipt.Records = append(receipt.Records, r)
	}
	done := make(chan struct{})
	s.mu.Lock()
	s.pending[c.Key.Task] = done
	s.mu.Unlock()
	go func() {
		<-time.After(rand.N(20 * time.Millisecond)) //nolint:gosec // any time will do
		_, _ = s.Store.Commit(context.WithoutCancel(ctx), c)
		s.mu.Lock()
		delete(s.pending, c.Key.Task)
		s.mu.Unlock()
		close(done)
	}()
	return receipt, nil
}

func (s *hastyStore) Task(ctx context.Context, key taskstore.Key, at int64) (taskstore.Snapshot, error) {
	s.await(key.Task)
	return s.Store.Task(ctx, key, at)
}

func (s *hastyStore) Entries(ctx context.Context, key taskstore.Key, after int64, limit int) ([]taskstore.Record, error) {
	s.await(key.Task)
	return s.Store.Entries(ctx, key, after, limit)
}

// await waits for the task to be committed, if it is one that was acknowledged before.
func (s *hastyStore) await(task string) {
	s.mu.Lock()
	done := s.pending[task]
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}
