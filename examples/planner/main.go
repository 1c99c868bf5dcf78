// Command planner serves an agent that has other agents do the work: it has the tests of a commit run, and what passed
// deployed. Its card, JSON-RPC and REST are at http://127.0.0.1:41271, gRPC at 127.0.0.1:41272. README.md has the commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/delegation"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "planner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg := parley.Config{
		Name:        "planner",
		Description: "Has the tests of a commit run and, if they pass, the commit deployed, by agents that it did not write.",
		Version:     "1.0.0",
		Skills: []*a2a.AgentSkill{{
			ID: "release", Name: "Release", Tags: []string{"plan", "release"},
			Description: "Runs the tests of a repository at a commit, and deploys it when they pass.",
			Examples:    []string{"test payments-api at 9f3c2e1", "test payments-api at 9f3c2e1 and deploy to staging"},
		}},
		DefaultOutputModes: []string{"application/json", "text/plain"},
		Extensions:         []*a2a.AgentExtension{extension.Declaration(extension.Approval), extension.Declaration(extension.Delegation)},
	}
	var state, runner, deployer string
	f := flag.NewFlagSet("planner", flag.ContinueOnError)
	f.StringVar(&runner, "test-runner", "http://127.0.0.1:41251", "the test-runner's `card`")
	f.StringVar(&deployer, "deployer", "", "the deployer's `card`; its token is in DEPLOYER_TOKEN")
	f.StringVar(&state, "state", "planner-state", "`folder` of the tasks")
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:41271", "`address` of HTTP")
	f.StringVar(&cfg.GRPCListen, "grpc-listen", "127.0.0.1:41272", "`address` of gRPC")
	f.SetOutput(io.Discard) // main says what is wrong
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(out)
		f.PrintDefaults()
		return nil
	case err != nil:
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	p := &planner{runner: remote{ref: runner}, deployer: remote{ref: deployer, token: auth.NewSecret(os.Getenv("DEPLOYER_TOKEN"))}}
	tasks, err := sqlite.Open(ctx, filepath.Join(state, "tasks.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = tasks.Close() }()
	cfg.Store = tasks
	return parley.ListenAndServe(ctx, cfg, delegation.Guard(p, delegation.Options{Self: "planner"}))
}

// remote is an agent that the planner calls. It is dialed for each task, so that it need not be there before.
type remote struct {
	ref   string
	token auth.Secret // empty: it does not ask who calls
}

// dial finds the agent by its card. The token is bound to the origin that the operator named: no card can send it elsewhere.
func (r remote) dial(ctx context.Context) (*client.Client, error) {
	opts := client.Options{Extensions: []string{extension.Approval, extension.Delegation}}
	if !r.token.Empty() {
		creds, err := auth.NewCredentials(auth.Credential{Origins: []string{r.ref}, Source: auth.Static(r.token), Header: "Authorization"})
		if err != nil {
			return nil, err
		}
		opts.HTTP = creds.HTTP(nil)
		opts.Transports = []string{a2a.BindingJSONRPC, a2a.BindingREST} // those of the origin
	}
	return client.New(ctx, r.ref, opts)
}
