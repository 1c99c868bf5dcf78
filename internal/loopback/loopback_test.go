package loopback

import (
	"testing"

	"github.com/parley-a2a/parley/internal/child/childtest"
)

// TestListen listens again and again while processes are started, which have for a moment what their parent has open.
func TestListen(t *testing.T) {
	defer childtest.Starting(t)()
	addr := Address(t)
	for range 500 {
		if err := Listen(t, addr).Close(); err != nil {
			t.Fatal(err)
		}
	}
}
