// Command testrunner serves an agent that runs the unit tests of a repository at a commit: its card, JSON-RPC and REST at
// http://127.0.0.1:41251, gRPC at 127.0.0.1:41252. README.md has the commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testrunner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	t := &testRunner{repositories: map[string]string{}}
	cfg := parley.Config{
		Name:        "test-runner",
		Description: "Runs the unit tests of a repository at a commit, and counts them.",
		Version:     "1.0.0",
		Skills: []*a2a.AgentSkill{{
			ID: "run-tests", Name: "Run tests", Tags: []string{"test", "ci"},
			Description: "Opens a repository at a commit and runs its unit tests: go test, pytest or npm test.",
			Examples:    []string{"run the tests of payments-api at 9f3c2e1", `{"repository":"payments-api","commit":"9f3c2e1"}`},
		}},
		DefaultOutputModes: []string{"application/json", "text/plain"},
	}
	var state string
	f := flag.NewFlagSet("testrunner", flag.ContinueOnError)
	f.Func("repository", "a repository that may be tested, `NAME=SOURCE`, where SOURCE is what git clones; repeatable", func(v string) error {
		name, source, ok := strings.Cut(v, "=")
		if !ok || !isName(name) || source == "" {
			return errors.New("want NAME=SOURCE")
		}
		t.repositories[name] = source
		return nil
	})
	f.DurationVar(&t.limits.time, "time", 15*time.Minute, "that a run may take")
	f.Int64Var(&t.limits.memory, "memory", 4<<30, "`bytes` that a run may have resident")
	f.IntVar(&t.limits.log, "log", 1<<20, "`bytes` of output that are kept in log.txt")
	f.StringVar(&state, "state", "testrunner-state", "`folder` of the tasks")
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:41251", "`address` of HTTP")
	f.StringVar(&cfg.GRPCListen, "grpc-listen", "127.0.0.1:41252", "`address` of gRPC")
	f.SetOutput(io.Discard) // main says what is wrong
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(out)
		f.PrintDefaults()
		return nil
	case err != nil:
		return err
	}
	if len(t.repositories) == 0 {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		t.repositories[filepath.Base(dir)] = dir
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	tasks, err := sqlite.Open(ctx, filepath.Join(state, "tasks.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = tasks.Close() }()
	cfg.Store = tasks
	return parley.ListenAndServe(ctx, cfg, t)
}

// names returns the repositories that may be tested.
func (t *testRunner) names() string {
	return strings.Join(slices.Sorted(maps.Keys(t.repositories)), ", ")
}
