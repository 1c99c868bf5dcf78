// Package loopback gives tests addresses at which servers come, go and come again.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Address returns an address that stays free while nobody listens there. A port of 127.0.0.1 does not: an outgoing
// connection or another test can have it meanwhile. So this one is of another loopback host, where the system has more than
// one.
func Address(t testing.TB) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)) //nolint:gosec // no secret
	for _, host := range []string{host, "127.0.0.1"} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host+":0")
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }()
		return l.Addr().String()
	}
	t.Fatal("no loopback address is free")
	return ""
}
