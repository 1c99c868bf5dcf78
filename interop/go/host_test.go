// Package interop runs the official Go SDK's client against the parley binary.
package interop

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
)

var ready = regexp.MustCompile(`^parley: (.+) at (\S+) \(JSON-RPC, REST\), grpc (\S+)$`)

// host is a running "parley serve".
type host struct{ name, url string }

// startHost starts a built-in agent on free ports and stops it when the test ends.
func startHost(t *testing.T, agent string) host {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(binary(t), "serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0",
		"--agent", agent, "--store", "memory:")
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("parley serve was gone before it was stopped: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("parley serve ended with %v\n%s", err, log.Bytes())
		}
	})
	if err != nil {
		t.Fatalf("parley serve said nothing: %v", err)
	}
	m := ready.FindStringSubmatch(line[:len(line)-1])
	if m == nil {
		t.Fatalf("parley serve printed %q instead of its ready line", line)
	}
	return host{name: m[1], url: m[2]}
}

// binary returns the parley binary: PARLEY_BIN, or one that is built for this run.
func binary(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("PARLEY_BIN"); bin != "" {
		return bin
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var buildDir string

var build = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(buildDir, "parley")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/parley")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "parley-interop-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		buildDir = dir
		return m.Run()
	}())
}
