package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// man writes the manual's pages, for packages of the program.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual's pages, one for each command",
		Example: "  parley man /usr/local/share/man/man1",
		Args:    cobra.ArbitraryArgs,
		RunE: a.local(func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s: where to? Give a folder", cmd.CommandPath())
			}
			if err := os.MkdirAll(args[0], 0o750); err != nil {
				return usage("%s", err.Error())
			}
			return writePages(cmd.Root(), args[0])
		}),
	}
}

// writePages writes the page of cmd and those of its commands into a folder.
func writePages(cmd *cobra.Command, dir string) error {
	if cmd.Hidden {
		return nil
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(page(cmd)), 0o644); err != nil { //nolint:gosec // everybody may read it
		return fail(errInternal, "", "%s", err.Error())
	}
	for _, sub := range cmd.Commands() {
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// page returns the page of a command for man(1).
func page(cmd *cobra.Command) string {
	var b strings.Builder
	title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(title)), roff(`"`+version()+`"`), roff(title), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(useLine(cmd)))
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(about), "\n\n") {
		b.WriteString(".PP\n" + lines(paragraph))
	}
	flags := cmd.NonInheritedFlags()
	if flags.HasAvailableFlags() {
		b.WriteString(".SH OPTIONS\n")
		flags.VisitAll(func(f *pflag.Flag) { writeOption(&b, f) })
	}
	if cmd.HasExample() {
		b.WriteString(".SH EXAMPLES\n.nf\n" + lines(cmd.Example) + ".fi\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(title+"-"+sub.Name()), roff(sub.Short))
			}
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 done, 1 failed, 2 usage, 3 unreachable, 4 credentials, 5 timeout.\n")
	return b.String()
}

func writeOption(b *strings.Builder, f *pflag.Flag) {
	value, about := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	about = strings.TrimSuffix(about, " ("+value+")") // a usage names its value so where no word of it does
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(name+" "+value)), roff(about))
}

// lines returns lines of text as they are.
func lines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s + "\n") {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	return b.String()
}

// roff returns a line so that nothing in it is a command to man.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
