// Package js runs the official JavaScript SDK's client against the parley binary.
package js

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	// The host is another process: this makes go test see when its code has changed.
	_ "github.com/parley-a2a/parley/internal/cli"
)

// TestSDK runs the suite in this folder with node --test. PARLEY_BIN names the binary to test; without it
// one is built. Without node the test is skipped, but not on CI.
func TestSDK(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is not installed: CI must run this suite")
		}
		t.Skip("node is not installed: install Node 20 or newer to run this suite")
	}
	readSuite(t)

	bin := os.Getenv("PARLEY_BIN")
	if bin == "" {
		bin = filepath.Join(t.TempDir(), "parley")
		run(t, "go", "build", "-o", bin, "github.com/parley-a2a/parley/cmd/parley")
	}
	if !installed() {
		run(t, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	}
	t.Setenv("PARLEY_BIN", bin)
	run(t, "node", "--test", "--test-reporter=spec")
}

// installed reports whether npm has installed what package-lock.json says now.
func installed() bool {
	have, err := os.Stat(filepath.Join("node_modules", ".package-lock.json"))
	if err != nil {
		return false
	}
	want, err := os.Stat("package-lock.json")
	return err == nil && !have.ModTime().Before(want.ModTime())
}

// readSuite reads what node will, so that go test sees when it has changed.
func readSuite(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"*.mjs", "package*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s beside this test: %v", pattern, err)
		}
		for _, name := range files {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}
