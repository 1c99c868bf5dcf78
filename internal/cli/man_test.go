package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMan has a page for every command, which man takes without a complaint where it is installed.
func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	parleyRun("man", dir).wants(t, 0, "", "")
	for page, want := range map[string]string{
		"parley.1": `.BR parley\-send (1)`, "parley-send.1": `.B \-\-media\-type TYPE`, "parley-task-push-config-create.1": ".SH EXAMPLES",
		"parley-serve.1": `\-\-durability`, "parley-demo-server.1": ".SH NAME\nparley\\-demo\\-server \\- Run an agent",
	} {
		b, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %q: %v\n%s", page, want, err, b)
		}
		if mandoc, err := exec.LookPath("mandoc"); err == nil {
			if out, err := exec.CommandContext(t.Context(), mandoc, "-T", "lint", "-W", "error", filepath.Join(dir, page)).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", page, err, out)
			}
		}
	}
	parleyRun("man").wants(t, 2, "", "Give a folder")
}
