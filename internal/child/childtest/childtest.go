// Package childtest checks that tests leave no process and no goroutine behind.
package childtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Mark returns an environment variable, NAME=VALUE, by which [Processes] finds a program and all that it starts, and
// checks at the end of the test that none of them is left.
func Mark(t *testing.T) string {
	t.Helper()
	mark := "PARLEY_TEST_MARK=" + uuid.NewString()
	t.Cleanup(func() { Eventually(t, "no process is left", func() bool { return len(Processes(t, mark)) == 0 }) })
	return mark
}

// Processes returns the numbers of the living processes with the mark. It needs Linux.
func Processes(t *testing.T, mark string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range dirs {
		// A process that ends meanwhile, and one that waits to be reaped, has no environment.
		if env, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil && bytes.Contains(env, []byte(mark)) {
			found = append(found, filepath.Base(dir))
		}
	}
	return found
}

// Goroutines checks at the end of the test that no goroutine is left whose stack has one of the words.
func Goroutines(t *testing.T, words ...string) {
	t.Helper()
	t.Cleanup(func() {
		Eventually(t, "no goroutine is left", func() bool { return len(stacks(words)) == 0 })
		for _, s := range stacks(words) {
			t.Logf("left:\n%s", s)
		}
	})
}

func stacks(words []string) []string {
	buf := make([]byte, 4<<20)
	var found []string
	for s := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, w := range words {
			if strings.Contains(s, w) && !strings.Contains(s, "testing.tRunner") {
				found = append(found, s)
				break
			}
		}
	}
	return found
}

// Eventually waits until what is said is true, and fails the test when it is not after 10 s.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Errorf("after 10 s it does not hold that %s", what)
			return
		}
	}
}

// Starting starts processes, one after the other on several goroutines, until stop is called. Until it is another program, each
// has what its parent has open.
func Starting(t *testing.T) (stop func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					_ = exec.CommandContext(t.Context(), "go", "env", "GOOS").Run()
				}
			}
		})
	}
	return func() { close(over); all.Wait() }
}
