package cli

import (
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/acp"
	"github.com/parley-a2a/parley/command"
	"github.com/parley-a2a/parley/internal/agents"
)

// bridgeFlags choose a program as the agent that parley serve serves, instead of a built-in one.
type bridgeFlags struct {
	exec   bool
	events bool
	stream bool
	acp    string // a preset's word; custom: the command after --
	dir    string
	env    []string
	policy string
	mode   string
}

// custom is the value of --acp where a command follows.
const custom = "command"

func (b *bridgeFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&b.exec, "exec", false, "serve the program after --, which reads text and writes text")
	fs.BoolVar(&b.events, "exec-events", false, "with --exec: the program writes events, one JSON object a line")
	fs.BoolVar(&b.stream, "exec-stream", false, "with --exec: hand its output on as it comes")
	fs.StringVar(&b.acp, "acp", "", "serve an ACP agent: claude, codex, gemini, opencode, or command, which is after -- (`AGENT`)")
	fs.StringVar(&b.dir, "dir", "", "where the program runs (default: here) (`DIR`)")
	fs.StringArrayVar(&b.env, "env", nil, "variable that the program may see, or NAME=VALUE; repeatable (`NAME`)")
	fs.StringVar(&b.policy, "permissions", "ask", "what becomes of an ACP agent's requests for permission: ask, allow or reject (`WORD`)")
	fs.StringVar(&b.mode, "mode", "", "an ACP agent's mode; one that asks for no permission is allowed by this (`MODE`)")
}

// used reports whether a program is to be served.
func (b *bridgeFlags) used() bool { return b.exec || b.acp != "" }

// agent returns the program as an agent, the word under which its tasks are kept, and what ends its processes. args are
// those after --.
func (b *bridgeFlags) agent(args []string, log *slog.Logger) (built agents.Agent, word string, end func(), err error) {
	switch {
	case b.exec && b.acp != "":
		return built, "", nil, usage("--exec and --acp contradict each other")
	case b.exec && len(args) == 0:
		return built, "", nil, usage("--exec: which program? Give it and its arguments after --")
	case b.acp == custom && len(args) == 0:
		return built, "", nil, usage("--acp command: which command? Give it and its arguments after --")
	case b.acp != "" && b.acp != custom && len(args) > 0:
		return built, "", nil, usage("--acp %s has its own command: for another, say --acp command -- COMMAND", b.acp)
	case b.exec:
		return b.program(args)
	}
	return b.editorAgent(args, log)
}

// program is the agent of parley serve --exec -- PROGRAM ARGS….
func (b *bridgeFlags) program(args []string) (built agents.Agent, word string, end func(), err error) {
	a, err := command.New(command.Config{Args: args, Dir: b.dir, Env: b.env, Events: b.events, Stream: b.stream})
	if err != nil {
		return built, "", nil, bridgeError(err)
	}
	return agents.Agent{
		Agent: a, Name: a.Name(), Version: "1", Description: "Runs the program " + a.Name() + " on the text of a message.",
		Skills: []*a2a.AgentSkill{{
			ID: "run", Name: "Run " + a.Name(), Tags: []string{"program"},
			Description: "Gives the text to the program " + a.Name() + " and returns what it writes.",
		}},
		InputModes: []string{"text/plain"}, OutputModes: []string{"text/plain", "application/json", "application/octet-stream"},
	}, "exec", func() {}, nil
}

// editorAgent is the agent of parley serve --acp.
func (b *bridgeFlags) editorAgent(args []string, log *slog.Logger) (built agents.Agent, word string, end func(), err error) {
	cfg := acp.Config{Args: args, Dir: b.dir, Env: b.env, Mode: b.mode, Log: log}
	if b.mode != "" {
		cfg.Unguarded = []string{b.mode}
	}
	if cfg.Policy, err = acp.ParsePolicy(b.policy); err != nil {
		return built, "", nil, usage("--permissions: %s", bridgeText(err))
	}
	name := ""
	if b.acp != custom {
		p, err := acp.PresetByWord(b.acp)
		if err != nil {
			return built, "", nil, usage("--acp: %s", bridgeText(err))
		}
		if err := p.Missing(); err != nil {
			return built, "", nil, bridgeError(err)
		}
		cfg.Args, cfg.Env, name = p.Args, append(p.Env, b.env...), p.Name()
	}
	a, err := acp.New(cfg)
	if err != nil {
		return built, "", nil, bridgeError(err)
	}
	if name == "" {
		name = a.Name()
	}
	return agents.Agent{
		Agent: a, Name: name, Version: "1", Description: "A coding agent that works in a directory of its host. It asks before it acts.",
		Skills: []*a2a.AgentSkill{{
			ID: "prompt", Name: "Work on a prompt", Tags: []string{"coding", "acp"},
			Description: "Reads, explains and changes what is in its directory. What it wants to be allowed it asks.",
			Examples:    []string{"What does this project do?"},
		}},
		InputModes: []string{"*/*"}, OutputModes: []string{"text/plain", "text/x-diff", "application/json"},
	}, "acp-" + b.acp, a.Close, nil
}

// bridgeText is an error of a bridge without the name of the package.
func bridgeText(err error) string {
	text := err.Error()
	for _, p := range []string{"acp: ", "command: "} {
		text = strings.TrimPrefix(text, p)
	}
	return text
}

func bridgeError(err error) error { return fail(errInternal, "", "%s", bridgeText(err)) }

// acpCommand is an agent for editors: an ACP agent on stdin and stdout that is an A2A agent.
type acpCommand struct{ app *app }

func (a *app) acp() *cobra.Command {
	return a.client(&cobra.Command{
		Use:     "acp",
		Short:   "Be an ACP agent on stdin and stdout, for editors such as Zed, that is an A2A agent",
		Example: "  parley acp -a https://agent.example.com",
	}, &acpCommand{a})
}

func (c *acpCommand) check(_ *cobra.Command, f *clientFlags, args []string) error {
	switch {
	case len(args) > 0:
		return usage("parley acp takes no argument, got %q", args[0])
	case f.output != "text" || f.stream:
		return usage("parley acp has stdout for the editor: --output and --stream do not apply")
	}
	return nil
}

func (c *acpCommand) run(ctx context.Context, s *session) error {
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	return acp.Serve(ctx, s.Client, c.app.in, c.app.out, acp.ServeOptions{Card: s.Card().AgentCard, Log: s.log})
}
