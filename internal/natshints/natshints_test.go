package natshints

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
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
		h, err := Dial("nats://me:s3cret@"+s.Addr().String(), slog.New(slog.DiscardHandler))
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

// TestRefused: a server that refuses the node is in the log once, without the password, and is tried until it takes it.
func TestRefused(t *testing.T) {
	serve := func(port int, password string) *server.Server {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, Username: "me", Password: password})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(s.Shutdown)
		if !s.ReadyForConnections(10 * time.Second) {
			t.Fatal("the server does not start")
		}
		return s
	}
	s := serve(-1, "other")
	addr := s.Addr().(*net.TCPAddr)
	var log lines
	h, err := Dial("nats://me:s3cret@"+addr.String(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	wait := func(what string, done func() bool) {
		t.Helper()
		for late := time.After(15 * time.Second); !done(); {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-late:
				t.Fatalf("%s: not within 15 s; the log: %s", what, log.String())
			}
		}
	}
	wait("a warning", func() bool { return strings.Contains(log.String(), "level=WARN") })
	<-time.After(3500 * time.Millisecond) // three tries more
	s.Shutdown()
	s.WaitForShutdown()
	serve(addr.Port, "s3cret")
	wait("a connection", func() bool { return h.conn.IsConnected() && strings.Contains(log.String(), "level=INFO") })
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || strings.Contains(text, "s3cret") {
		t.Errorf("the log: %s", text)
	}
}

// lines is a log that others may read meanwhile.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestURL keeps passwords out of errors.
func TestURL(t *testing.T) {
	_, err := Dial("nats://me:s3cret@%zz", slog.New(slog.DiscardHandler))
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Dial: %v", err)
	}
}

// TestCheck: what is no server is refused, in place of being looked up in DNS for ever.
func TestCheck(t *testing.T) {
	for _, bad := range []string{"", "foo", "nats://", "http://x", "nats://x/y", "nats://x?y=s3cret", "nats://x,foo", "127.0.0.1:4222", "nats://me:s3cret@x:port"} {
		h, err := Dial(bad, slog.New(slog.DiscardHandler))
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "nats://HOST:PORT") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"nats://me:s3cret@nats.internal:4222", "tls://a:1, tls://b:2", "nats://nats"} {
		if err := Check(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
