package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// screen is how many lines a person sees at once, and reads.
const screen = 40

// firstScreen is how many lines the smallest usual terminal has: what parley itself says has to fit above the next prompt.
const firstScreen = 24

// TestHelpFits has every command's help on one screen of 80 columns, where longer lines are broken.
func TestHelpFits(t *testing.T) {
	var stdout bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &stdout, err: &stdout}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		stdout.Reset()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range strings.Lines(stdout.String()) {
			lines += 1 + (len([]rune(strings.TrimRight(line, "\n")))-1)/width
			if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
				t.Errorf("%s: blanks at the end of %q", cmd.CommandPath(), line)
			}
		}
		if lines > screen || lines < 3 || cmd.Parent() == nil && lines > firstScreen-1 {
			t.Errorf("the help of %q has %d lines", cmd.CommandPath(), lines)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > width-14 {
			t.Errorf("%q: its line in the list of commands is empty, too long or a sentence: %q", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				visit(sub)
			}
		}
	}
	root := a.root()
	root.InitDefaultHelpCmd()
	visit(root)
}

func TestHelpAll(t *testing.T) {
	some, all := parleyRun("serve", "--help"), parleyRun("serve", "--help-all")
	some.wants(t, 0, "--help-all", "")
	all.wants(t, 0, "--durability", "")
	if strings.Contains(some.stdout, "--durability") || !strings.Contains(some.stdout, "--listen") {
		t.Errorf("serve --help:\n%s", some.stdout)
	}
}
