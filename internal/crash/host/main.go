// Command host is what the crash tests kill: a host of the script agent with its tasks in a file, or in a database that
// it shares with others, and webhooks. It says "ready" on the standard output when it can be called, and ends when its
// standard input does, so that it does not outlive the test.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/golden"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/postgres"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

func main() {
	cfg := parley.Config{Name: "Script", AgentName: "script", Authenticate: authenticate}
	flag.StringVar(&cfg.Listen, "listen", "", "address for HTTP")
	flag.StringVar(&cfg.GRPCListen, "grpc-listen", "", "address for gRPC")
	flag.StringVar(&cfg.PublicURL, "public-url", "", "where a balancer takes HTTP")
	flag.StringVar(&cfg.PublicGRPCURL, "public-grpc-url", "", "where a balancer takes gRPC")
	flag.IntVar(&cfg.Limits.Running, "running", 0, "tasks of a caller that run at once")
	flag.DurationVar(&cfg.Grace, "grace", 0, "for tasks to finish at an orderly end")
	store := flag.String("store", "", "file of the tasks, or what names a database")
	restartable := flag.Bool("restartable", false, "run again what was cut")
	var wrap wrapping
	flag.IntVar(&wrap.drop, "drop", 0, "percentage of hints to lose")
	flag.DurationVar(&wrap.skew, "skew", 0, "how much the clock is ahead")
	flag.StringVar(&wrap.fault, "fault", "", "plant a fault: hasty, deaf or unfenced")
	flag.Parse()
	var a agent.Agent = new(script.Agent)
	if *restartable {
		a = again{a}
	}
	if err := serve(cfg, *store, &wrap, a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// again is an agent whose turns run again when they were cut.
type again struct{ agent.Agent }

// Restartable implements agent.Restartable.
func (again) Restartable() bool { return true }

func serve(cfg parley.Config, store string, wrap *wrapping, a agent.Agent) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	tasks, err := open(ctx, store, cfg.Log)
	if err != nil {
		return err
	}
	defer func() { _ = tasks.Close() }()
	cfg.Store = wrap.around(tasks)
	hooks, err := push.New(push.Options{Store: cfg.Store, Agent: cfg.AgentName, AllowPrivate: true, Log: cfg.Log})
	if err != nil {
		return err
	}
	cfg.Push = hooks
	host, err := parley.New(cfg, a)
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

func open(ctx context.Context, store string, log *slog.Logger) (taskstore.Store, error) {
	if strings.HasPrefix(store, "host=") {
		return postgres.Open(ctx, store, postgres.Options{Log: log})
	}
	return sqlite.Open(ctx, store, sqlite.Options{Log: log})
}

// authenticate believes the header that names the caller.
func authenticate(_ context.Context, info *a2a.CallInfo) error {
	info.Caller = a2a.Caller{Issuer: "test", Subject: info.Header.Get(golden.CallerHeader)}
	return nil
}
