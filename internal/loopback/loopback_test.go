package loopback

import (
	"os/exec"
	"sync"
	"testing"
)

// TestListen listens again and again while processes are started, which have for a moment what their parent has open.
func TestListen(t *testing.T) {
	stop := make(chan struct{})
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.CommandContext(t.Context(), "go", "env", "GOOS").Run()
				}
			}
		})
	}
	addr := Address(t)
	for range 500 {
		if err := Listen(t, addr).Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	starting.Wait()
}
