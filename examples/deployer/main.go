// Command deployer serves an agent that deploys a commit of a service, once exactly that was approved: its card, JSON-RPC
// and REST at http://127.0.0.1:41261, gRPC at 127.0.0.1:41262. Every call needs a Bearer token with the scope deploy.
// README.md has the commands.
package main

import (
	"cmp"
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
	"github.com/parley-a2a/parley/examples/internal/issuer"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

const (
	testIssuer = "urn:example:deployer-test-issuer"
	scope      = "deploy"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "deployer:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	state, releases    string
	token              string
	issuer, audience   string
	listen, grpcListen string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("deployer", flag.ContinueOnError)
	f.StringVar(&o.state, "state", "deployer-state", "`folder` of the tasks and keys")
	f.StringVar(&o.releases, "releases", "", "`folder` that says what is deployed where (default: releases in -state)")
	f.StringVar(&o.token, "token", "", "print a token of the test issuer for a `subject`, such as planner, and exit")
	f.StringVar(&o.issuer, "issuer", "", "take the tokens of the OpenID Connect issuer at this `URL`, not those of the test issuer")
	f.StringVar(&o.audience, "audience", "deployer", "the `name` by which the issuer knows this agent")
	f.StringVar(&o.listen, "listen", "127.0.0.1:41261", "`address` of HTTP")
	f.StringVar(&o.grpcListen, "grpc-listen", "127.0.0.1:41262", "`address` of gRPC")
	f.SetOutput(io.Discard) // main says what is wrong
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(out)
		f.PrintDefaults()
		return nil
	case err != nil:
		return err
	}
	if err := os.MkdirAll(o.state, 0o700); err != nil {
		return err
	}
	if o.token != "" {
		token, err := o.tokens().Token(o.token, o.audience, map[string]any{"scope": scope})
		if err == nil {
			_, err = fmt.Fprintln(out, token)
		}
		return err
	}
	return serve(ctx, &o)
}

func (o *options) tokens() issuer.Issuer { return issuer.Issuer{Name: testIssuer, Folder: o.state} }

// serve serves the agent until ctx ends or the process is told to end.
func serve(ctx context.Context, o *options) error {
	callers, err := o.authenticator()
	if err != nil {
		return err
	}
	tasks, err := sqlite.Open(ctx, filepath.Join(o.state, "tasks.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = tasks.Close() }()
	return parley.ListenAndServe(ctx, parley.Config{
		Name:        "deployer",
		Description: "Deploys a commit of a service to an environment, once exactly that was approved.",
		Version:     "1.0.0",
		Skills: []*a2a.AgentSkill{{
			ID: "deploy", Name: "Deploy", Tags: []string{"deploy"},
			Description: "Deploys a commit of a service to an environment, once exactly that was approved.",
			Examples:    []string{"deploy payments-api at 9f3c2e1 to staging"},
		}},
		DefaultOutputModes: []string{"application/json"},
		Extensions:         []*a2a.AgentExtension{extension.Declaration(extension.Approval)},
		Store:              tasks,
		Listen:             o.listen,
		GRPCListen:         o.grpcListen,
		Auth:               callers,
	}, &deployer{releases: cmp.Or(o.releases, filepath.Join(o.state, "releases")), audience: o.audience})
}

// authenticator takes the tokens of one issuer that have the scope, for every operation.
func (o *options) authenticator() (*auth.Authenticator, error) {
	tokens := auth.JWTOptions{Issuer: cmp.Or(o.issuer, testIssuer), Audience: []string{o.audience}}
	if o.issuer == "" {
		file, err := o.tokens().KeysFile()
		if err != nil {
			return nil, err
		}
		tokens.KeysFile = file
	}
	method, err := auth.NewJWT(tokens)
	if err != nil {
		return nil, err
	}
	return auth.Any(auth.Options{Rules: auth.Rules{Operations: map[string][]string{auth.AnyOperation: {scope}}}}, method)
}
