package cli

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/acp"
	"github.com/parley-a2a/parley/command"
	"github.com/parley-a2a/parley/internal/agents"
)

// custom is the value of --acp where a command follows.
const custom = "command"

// program is the agent of parley serve --exec -- PROGRAM ARGS….
func (c *agentConfig) program() (*built, error) {
	a, err := command.New(command.Config{Args: c.Exec, Dir: c.Dir, Env: c.Env, Events: c.Events, Stream: c.Stream})
	if err != nil {
		return nil, about("exec", bridgeError(err))
	}
	return &built{Agent: agents.Agent{
		Agent: a, Name: a.Name(), Version: "1", Description: "Runs the program " + a.Name() + " on the text of a message.",
		Skills: []*a2a.AgentSkill{{
			ID: "run", Name: "Run " + a.Name(), Tags: []string{"program"},
			Description: "Gives the text to the program " + a.Name() + " and returns what it writes.",
		}},
		InputModes: []string{"text/plain"}, OutputModes: []string{"text/plain", "application/json", "application/octet-stream"},
	}, word: parley.RoutingWord(a.Name()), end: func() {}}, nil
}

// editorAgent is the agent of parley serve --acp.
func (c *agentConfig) editorAgent(log *slog.Logger) (*built, error) {
	cfg := acp.Config{Args: c.Command, Dir: c.Dir, Env: c.Env, Mode: c.Mode, Log: log}
	if c.Mode != "" {
		cfg.Unguarded = []string{c.Mode}
	}
	var err error
	if cfg.Policy, err = acp.ParsePolicy(cmp.Or(c.Permissions, "ask")); err != nil {
		return nil, wrong("permissions", "%s", bridgeText(err))
	}
	name, word := "", "acp-"+c.ACP
	if c.ACP != custom {
		p, err := acp.PresetByWord(c.ACP)
		if err != nil {
			return nil, wrong("acp", "%s", bridgeText(err))
		}
		if err := p.Missing(); err != nil {
			return nil, about("acp", bridgeError(err))
		}
		cfg.Args, cfg.Env, name = p.Args, append(p.Env, c.Env...), p.Name()
	}
	a, err := acp.New(cfg)
	if err != nil {
		return nil, about("acp", bridgeError(err))
	}
	if name == "" {
		name = a.Name()
	}
	return &built{Agent: agents.Agent{
		Agent: a, Name: name, Version: "1", Description: "A coding agent that works in a directory of its host. It asks before it acts.",
		Skills: []*a2a.AgentSkill{{
			ID: "prompt", Name: "Work on a prompt", Tags: []string{"coding", "acp"},
			Description: "Reads, explains and changes what is in its directory. What it wants to be allowed it asks.",
			Examples:    []string{"What does this project do?"},
		}},
		InputModes: []string{"*/*"}, OutputModes: []string{"text/plain", "text/x-diff", "application/json"},
	}, word: word, extensions: []*a2a.AgentExtension{acp.Declaration()}, end: a.Close}, nil
}

// bridgeText is an error of a bridge without the name of the package, and with the option in place of the field.
func bridgeText(err error) string {
	text := err.Error()
	for _, p := range []string{"acp: ", "command: "} {
		text = strings.TrimPrefix(text, p)
	}
	return strings.Replace(text, "Config.Dir ", "--dir: ", 1)
}

func bridgeError(err error) error { return fail(errInternal, "", "%s", bridgeText(err)) }

// acpCommand is an agent for editors: an ACP agent on stdin and stdout that is an A2A agent.
type acpCommand struct{ app *app }

func (a *app) acp() *cobra.Command {
	return a.client(&cobra.Command{
		Use:     "acp",
		Short:   "Put an A2A agent into editors that speak ACP, on stdin and stdout",
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
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // which would end the process before the tasks of an editor that is gone are canceled
	defer signal.Stop(broken)
	log := s.log
	if !s.flags.debug { // stderr is all that tells what became of them
		log = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return acp.Serve(ctx, s.Client, c.app.in, c.app.out, acp.ServeOptions{Card: s.Card().AgentCard, Log: log})
}

// withCommand returns the arguments, where --acp right before the -- of a command stands for --acp command: the flag would
// take the -- for its value. The result is never nil, which cobra would take for those of the process.
func withCommand(args []string) []string {
	out := append([]string{}, args...)
	if end := slices.Index(out, "--"); end > 0 && out[end-1] == "--acp" {
		return slices.Insert(out, end, custom)
	}
	return out
}
