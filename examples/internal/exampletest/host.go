// Package exampletest runs the commands of the examples as what they are: processes, which can be killed.
package exampletest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/loopback"
)

// Build builds the command in a folder of the module and returns its path.
func Build(dir, folder string) (string, error) {
	bin := filepath.Join(dir, filepath.Base(folder))
	out, err := exec.Command("go", "build", "-o", bin, folder).CombinedOutput() //nolint:gosec,noctx // of a test
	if err != nil {
		_, _ = os.Stderr.Write(out)
	}
	return bin, err
}

// Host is a running command.
type Host struct {
	URL  string // of the card and the HTTP bindings
	GRPC string // address

	bin       string
	args, env []string
	cmd       *exec.Cmd
	mu        sync.Mutex
	log       strings.Builder
	ended     chan struct{} // closed when the log has
	waited    sync.Once
}

var served = regexp.MustCompile(`binding=(\S+) url=(\S+)`)

// Start runs a command until the test ends. Without -listen and -grpc-listen among args it takes free ports.
func Start(t *testing.T, bin string, env []string, args ...string) *Host {
	t.Helper()
	h := &Host{bin: bin, args: args, env: env}
	h.Run(t)
	t.Cleanup(func() { h.Stop(t) })
	return h
}

// Run starts the command again after Stop or Kill, where it was.
func (h *Host) Run(t *testing.T) {
	t.Helper()
	httpAt, grpcAt := h.URL[strings.LastIndexByte(h.URL, '/')+1:], h.GRPC
	if h.URL == "" {
		httpAt, grpcAt = loopback.Address(t), loopback.Address(t)
	}
	h.cmd = exec.Command(h.bin, append([]string{"-listen", httpAt, "-grpc-listen", grpcAt}, h.args...)...) //nolint:gosec,noctx // Stop ends it, in good order
	h.cmd.Env = append(os.Environ(), h.env...)
	h.waited = sync.Once{}
	out, err := h.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	urls := map[string]string{}
	in := bufio.NewScanner(out)
	for len(urls) < 3 && in.Scan() {
		h.note(in.Text())
		if m := served.FindStringSubmatch(in.Text()); m != nil {
			urls[m[1]] = m[2]
		}
	}
	if len(urls) < 3 {
		_ = h.cmd.Wait()
		t.Fatalf("%s did not start: %s", filepath.Base(h.bin), h.Log())
	}
	h.URL, h.GRPC = strings.TrimSuffix(urls[a2a.BindingJSONRPC], "/"), strings.TrimPrefix(urls[a2a.BindingGRPC], "https://")
	h.ended = make(chan struct{})
	go func() {
		defer close(h.ended)
		for in.Scan() {
			h.note(in.Text())
		}
	}()
}

func (h *Host) note(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.WriteString(line + "\n")
}

// Log returns what the command has logged.
func (h *Host) Log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

// Stop ends the command as an operator does.
func (h *Host) Stop(t *testing.T) {
	t.Helper()
	h.waited.Do(func() {
		_ = h.cmd.Process.Signal(os.Interrupt)
		<-h.ended
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("%s, after SIGINT: %v\n%s", filepath.Base(h.bin), err, h.Log())
		}
	})
}

// Kill ends the command as a lost machine does.
func (h *Host) Kill() {
	h.waited.Do(func() {
		_ = h.cmd.Process.Kill()
		<-h.ended
		_ = h.cmd.Wait()
	})
}
