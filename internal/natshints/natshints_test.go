package natshints

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// TestHints sends lines over a real server, to all but the sender.
func TestHints(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, Username: "me", Password: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	dial := func() *Hints {
		h, err := Dial("nats://me:s3cret@" + s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		return h
	}
	a, b := dial(), dial()
	heard := map[*Hints]chan string{a: make(chan string, 1000), b: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for h, lines := range heard {
		go func() { ended <- h.Hear(ctx, func(line string) { lines <- line }) }()
	}
	tick, late := time.NewTicker(10*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for got := ""; got == ""; { // the first are lost while nobody listens
		if err := a.Tell("x\ny"); err != nil {
			t.Fatal(err)
		}
		select {
		case got = <-heard[b]:
			if got != "x\ny" {
				t.Errorf("heard %q", got)
			}
		case <-tick.C:
		case <-late:
			t.Fatal("nothing was heard")
		}
	}
	if len(heard[a]) > 0 {
		t.Error("the sender heard itself")
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestURL keeps passwords out of errors.
func TestURL(t *testing.T) {
	_, err := Dial("nats://me:s3cret@%zz")
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Dial: %v", err)
	}
}
