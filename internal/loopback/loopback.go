// Package loopback gives tests addresses at which servers come, go and come again.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Address returns an address that stays free while nobody listens there. A port of 127.0.0.1 does not: an outgoing
// connection or another test can have it meanwhile. So this one is of another loopback host, where the system has more
// than one, and nobody has tried it: what listens for a moment can live on in a process that is just being started, which has
// all that its parent has open until it is another program.
func Address(t testing.TB) string {
	t.Helper()
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254), 10_000+rand.IntN(20_000)) //nolint:gosec // no secrets
	}
	l := Listen(t, "127.0.0.1:0")
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Listen listens at an address where somebody may have listened just now, see [Address].
func Listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-again.C {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if err == nil {
			return l
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
