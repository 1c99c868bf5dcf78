package cli

import (
	"context"
	"errors"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// clientCommand is a command that talks to an agent.
type clientCommand interface {
	// check reads the flags and arguments, before anything is sent.
	check(cmd *cobra.Command, f *clientFlags, args []string) error
	// run does the work.
	run(ctx context.Context, s *session) error
}

var errTimeLimit = errors.New("the time of --timeout is over")

// client makes cmd run c.
func (a *app) client(cmd *cobra.Command, c clientCommand) *cobra.Command {
	f := new(clientFlags)
	f.register(cmd.Flags())
	cmd.Args = cobra.ArbitraryArgs // check has them
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.runClient(cmd, c, f, args) }
	return cmd
}

func (a *app) runClient(cmd *cobra.Command, c clientCommand, f *clientFlags, args []string) error {
	if err := fromEnvironment(cmd.Flags()); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	a.json = f.output == "json"
	if err := c.check(cmd, f, args); err != nil {
		return err
	}
	ctx := cmd.Context()
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, errTimeLimit)
		defer cancel()
	}
	s := a.session(f)
	defer s.close()
	if err := s.viaCatalog(ctx, func() error { return c.run(ctx, s) }); err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// oneID returns the id of a task that is a command's only argument.
func oneID(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case len(args) == 0 || args[0] == "":
		return "", usage("%s: which task? Give its id", cmd.CommandPath())
	case len(args) > 1:
		return "", usage("%s takes one task, got %q too", cmd.CommandPath(), args[1])
	}
	return args[0], nil
}

// isTerminal reports whether a person is at the other end of f, a stream of the process.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
