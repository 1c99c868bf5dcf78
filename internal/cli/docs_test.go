package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var example = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestCLIPage runs the examples of docs/cli.md against the demonstration agent: each block is a script of its lines that
// begin with $, and prints the others, where … is anything.
func TestCLIPage(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there is no sh for the examples")
	}
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	script := "serve --agent demo --store memory: --allow-private-webhooks\nenv A2ACLI_AGENT_CARD=$URL\n"
	files := ""
	for i, m := range example.FindAllSubmatch(page, -1) {
		var commands, prints strings.Builder
		for line := range strings.Lines(string(m[1])) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				commands.WriteString(command)
			} else {
				prints.WriteString(line)
			}
		}
		script += fmt.Sprintf("exec sh %d.sh\nprints %d.want\n", i, i)
		files += fmt.Sprintf("-- %d.sh --\n%s-- %d.want --\n%s", i, &commands, i, &prints)
	}
	if files == "" {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.txtar"), []byte(script+"end\n"+files), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": serveCmd, "end": endCmd,
			"prints": func(ts *testscript.TestScript, _ bool, args []string) {
				want := ts.ReadFile(args[0])
				parts := strings.Split(want, "…")
				for i := range parts {
					parts[i] = regexp.QuoteMeta(parts[i])
				}
				if got := ts.ReadFile("stdout"); !regexp.MustCompile(`\A` + strings.Join(parts, `[^\n]*`) + `\z`).MatchString(got) {
					ts.Fatalf("the page says:\n%s\nit is:\n%s", want, got)
				}
			},
		},
		Setup: func(env *testscript.Env) error {
			env.Values["served"] = new(served)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}
