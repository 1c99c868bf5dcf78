package httpx_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/op"
	"github.com/parley-a2a/parley/internal/sse"
)

func streamOf(entries ...a2a.Entry) *fake {
	return &fake{stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}}
}

func TestGenerations(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		entries := []a2a.Entry{
			a2a.NewEntry(7, task("t1")),
			{Generation: 8, Event: chunk("a"), More: true},
			a2a.NewEntry(9, chunk("b")),
			a2a.NewEntry(0, &a2a.Message{MessageID: "m", Role: a2a.RoleAgent}),
		}
		s, _ := b.serve(t, streamOf(entries...), httpx.Options{})
		var got []int64
		for e, err := range s.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t1"}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Generation)
		}
		if want := []int64{7, 8, 9, 0}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// An error that is known before the first event is an ordinary answer.
func TestEarlyStreamError(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
			yield(a2a.Entry{}, a2a.ErrTaskNotFound)
		}}
		_, srv := b.serve(t, f, httpx.Options{})
		res := b.send(t, srv.URL, true, message)
		body := text(t, res)
		if got := res.Header.Get("Content-Type"); got != "application/json" || !strings.Contains(body, "TASK_NOT_FOUND") {
			t.Errorf("got %s %s", got, body)
		}
	})
}

// Leaving the loop, and the end of the caller's context, end the request at the other end.
func TestLeavingAStream(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		ended := make(chan struct{})
		f := &fake{stream: func(ctx context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
			if yield(a2a.NewEntry(1, task("t1")), nil) {
				<-ctx.Done()
			}
			ended <- struct{}{}
		}}
		s, _ := b.serve(t, f, httpx.Options{})
		for _, err := range s.SendStreamingMessage(t.Context(), request("x")) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		<-ended

		ctx, cancel := context.WithCancel(t.Context())
		var got error
		for _, err := range s.SendStreamingMessage(ctx, request("x")) {
			cancel()
			got = err
		}
		if <-ended; !errors.Is(got, context.Canceled) || !errors.Is(got, a2a.ErrCanceled) {
			t.Errorf("after a cancel: got %v", got)
		}

		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for _, err := range s.SendStreamingMessage(ctx, request("x")) {
			got = err
		}
		if <-ended; !errors.Is(got, context.DeadlineExceeded) || !errors.Is(got, a2a.ErrRequestTimeout) {
			t.Errorf("after the deadline: got %v", got)
		}
	})
}

func TestUnaryContext(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		s, _ := b.serve(t, &fake{call: func(ctx context.Context, _ string, _ op.Message) (op.Message, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, httpx.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := s.SendMessage(ctx, request("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline: got %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := s.SendMessage(ctx, request("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("after a cancel: got %v", err)
		}
	})
}

// Streams that are dropped leave nothing behind at the host.
func TestDroppedStreams(t *testing.T) {
	const n = 300
	forEach(t, func(t *testing.T, b binding) {
		var running sync.WaitGroup
		running.Add(n)
		s, _ := b.serve(t, &fake{stream: func(ctx context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
			defer running.Done()
			if yield(a2a.NewEntry(1, task("t1")), nil) {
				<-ctx.Done()
			}
		}}, httpx.Options{})
		for range n {
			for _, err := range s.SendStreamingMessage(t.Context(), request("x")) {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		running.Wait()
	})
}

func TestBigEvents(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		var entries []a2a.Entry
		for _, n := range []int{1 << 20, 10, 9 << 20, 10} {
			entries = append(entries, a2a.NewEntry(1, chunk(strings.Repeat("é\n", n/4))))
		}
		s, _ := b.serve(t, streamOf(entries...), httpx.Options{})
		i := 0
		for e, err := range s.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t1"}) {
			if err != nil {
				t.Fatal(err)
			}
			if string(e.JSON()) != string(entries[i].JSON()) {
				t.Errorf("event %d came out changed", i)
			}
			i++
		}
		if i != len(entries) {
			t.Errorf("got %d events", i)
		}
	})
}

// A server that never ends its line takes no more memory than the limit allows.
func TestEndlessLine(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		var sent int
		stopped := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(stopped)
			w.Header().Set("Content-Type", sse.MediaType)
			for chunk := make([]byte, 1<<20); sent < 200<<20; {
				n, err := w.Write(chunk)
				if sent += n; err != nil {
					return
				}
			}
		}))
		defer srv.Close()
		s := b.client(srv.URL, httpx.ClientOptions{})
		got, err := invoke(t.Context(), s, "SendStreamingMessage", request("x"))
		<-stopped
		if !errors.Is(err, a2a.ErrInvalidAgentResponse) || !strings.Contains(err.Error(), "the limit of 67108864 bytes") || got != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if sent > 100<<20 {
			t.Errorf("%d MiB were taken", sent>>20)
		}
	})
}

// pipes is a network inside a bubble: a listener and the dialer of its connections.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serveInBubble serves h inside a synctest bubble and returns a client of it.
func (b binding) serveInBubble(t *testing.T, h http.Handler, opts httpx.ClientOptions) a2a.Service {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = srv.Serve(p) }()
	tr := &http.Transport{DialContext: p.dial, DisableKeepAlives: true}
	t.Cleanup(func() { tr.CloseIdleConnections(); _ = srv.Close(); <-stopped })
	opts.HTTP = &http.Client{Transport: tr}
	return b.client("http://bubble", opts)
}

// An agent that takes its time: blocking and streaming calls wait for it, and comments are sound enough for a
// client that does not like silence.
func TestSlowAgent(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{
				call: func(context.Context, string, op.Message) (op.Message, error) {
					<-time.After(70 * time.Second)
					return &a2a.SendMessageResponse{Result: task("t1")}, nil
				},
				stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
					if yield(a2a.NewEntry(1, task("t1")), nil) {
						<-time.After(90 * time.Second)
						yield(a2a.NewEntry(2, chunk("x")), nil)
					}
				},
			}
			s := b.serveInBubble(t, b.handler(f, httpx.Options{}), httpx.ClientOptions{IdleTimeout: 20 * time.Second})
			if _, err := s.SendMessage(t.Context(), request("x")); err != nil {
				t.Error("blocking:", err)
			}
			start := time.Now()
			got, err := invoke(t.Context(), s, "SendStreamingMessage", request("x"))
			if err != nil || len(got) != 2 || time.Since(start) != 90*time.Second {
				t.Errorf("streaming: got %q, %v after %v", got, err, time.Since(start))
			}
		})
	})
}

func TestIdleTimeout(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{stream: func(ctx context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
				if yield(a2a.NewEntry(1, task("t1")), nil) {
					<-ctx.Done()
				}
			}}
			s := b.serveInBubble(t, b.handler(f, httpx.Options{KeepAlive: -1}), httpx.ClientOptions{IdleTimeout: 20 * time.Second})
			start := time.Now()
			n := 0
			for _, err := range s.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "t1"}) {
				if n++; n == 1 {
					<-time.After(time.Minute) // the time of the loop's body is not the server's
					continue
				}
				if !errors.Is(err, a2a.ErrUnavailable) || time.Since(start) != 80*time.Second {
					t.Errorf("got %v after %v", err, time.Since(start))
				}
			}
			if n != 2 {
				t.Errorf("got %d", n)
			}
		})
	})
}

// A stream that is silent from its beginning is kept open, and an error is then an event of it.
func TestSilentBeginning(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
				<-time.After(40 * time.Second)
				yield(a2a.Entry{}, a2a.ErrUnsupportedOperation)
			}}
			s := b.serveInBubble(t, b.handler(f, httpx.Options{}), httpx.ClientOptions{IdleTimeout: 20 * time.Second})
			_, err := invoke(t.Context(), s, "SendStreamingMessage", request("x"))
			if !errors.Is(err, a2a.ErrUnsupportedOperation) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// One reader that stops, and is dropped, holds up neither the log nor another reader.
func TestStoppedReader(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		const n = 2000
		dropped := make(chan struct{})
		big := a2a.NewEntry(1, chunk(strings.Repeat("x", 8<<10)))
		f := &fake{stream: func(ctx context.Context, name string, _ op.Message, yield func(a2a.Entry, error) bool) {
			if name == "SendStreamingMessage" { // the one that stops
				defer close(dropped)
				for yield(big, nil) {
				}
				return
			}
			for range n {
				if !yield(big, nil) {
					return
				}
			}
		}}
		s, srv := b.serve(t, f, httpx.Options{WriteTimeout: 2 * time.Second})
		path, body := "/message:stream", message
		if b.name == a2a.BindingJSONRPC {
			path, body = "/", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":`+message+`}`
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
		req.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
		var raw strings.Builder
		_ = req.Write(&raw)
		_, r := dial(t, srv, raw.String())
		if line, err := bufio.NewReader(io.LimitReader(r, 100)).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Fatalf("got %q, %v", line, err)
		}
		got, err := invoke(t.Context(), s, "SubscribeToTask", &a2a.SubscribeToTaskRequest{ID: "t1"})
		if err != nil || len(got) != n {
			t.Errorf("the other reader got %d events, %v", len(got), err)
		}
		<-dropped
	})
}

// Readers that stop on a big task hold an encoding each, as many as one caller has room for. Who comes then waits until
// one of them is gone.
func TestStoppedReadersOfABigTask(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		big := task("t1")
		big.Artifacts = []*a2a.Artifact{{ArtifactID: "a", Parts: []*a2a.Part{a2a.TextPart(strings.Repeat("x", 22<<20))}}}
		_, srv := b.serve(t, streamOf(a2a.NewEntry(1, big)), httpx.Options{})
		path, body := "/message:stream", message
		if b.name == a2a.BindingJSONRPC {
			path, body = "/", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":`+message+`}`
		}
		open := func() (net.Conn, *bufio.Reader) {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
			req.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
			var raw strings.Builder
			_ = req.Write(&raw)
			return dial(t, srv, raw.String())
		}
		status := func(r *bufio.Reader) (string, error) { return r.ReadString('\n') }
		stopped, r := open()
		if line, err := status(r); err != nil || !strings.Contains(line, "200 OK") {
			t.Fatalf("the first: %q, %v", line, err)
		}
		if _, r := open(); true {
			if line, err := status(r); err != nil || !strings.Contains(line, "200 OK") {
				t.Fatalf("the second: %q, %v", line, err)
			}
		}
		third, r := open()
		_ = third.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if line, err := status(r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the third, for which there is no room: %q, %v", line, err)
		}
		_ = third.SetReadDeadline(time.Time{})
		_ = stopped.Close()
		if line, err := status(r); err != nil || !strings.Contains(line, "200 OK") {
			t.Errorf("the third, when there is room: %q, %v", line, err)
		}
	})
}

// HTTP/2 has deadlines and ends of its own: a refused body ends its request, not the connection.
func TestHTTP2(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := streamOf(a2a.NewEntry(1, task("t1")), a2a.NewEntry(2, chunk(strings.Repeat("x", 1<<20))))
		f.call = echo
		var closed atomic.Int32
		srv := httptest.NewUnstartedServer(b.handler(f, httpx.Options{
			BodyTimeout: 100 * time.Millisecond, KeepAlive: time.Millisecond,
			Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
				if info.Header.Get("Authorization") == "" {
					return a2a.ErrUnauthenticated
				}
				return nil
			},
		}))
		srv.EnableHTTP2 = true
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				closed.Add(1)
			}
		}
		srv.StartTLS()
		defer srv.Close()
		s := b.client(srv.URL, httpx.ClientOptions{HTTP: srv.Client()})
		if _, err := s.SendMessage(t.Context(), request(strings.Repeat("x", 1<<20))); !errors.Is(err, a2a.ErrUnauthenticated) {
			t.Errorf("got %v", err)
		}
		ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Header: http.Header{"Authorization": {"x"}}})
		if _, err := s.SendMessage(ctx, request("x")); err != nil {
			t.Error(err)
		}
		got, err := invoke(ctx, s, "SendStreamingMessage", request("x"))
		if err != nil || len(got) != 2 {
			t.Errorf("got %d events, %v", len(got), err)
		}
		body, rest := io.Pipe() // it never ends
		go func() { _, _ = rest.Write([]byte("{")) }()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/message:send", body)
		req.Header = http.Header{"Authorization": {"x"}, "Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = rest.Close()
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestTimeout || res.ProtoMajor != 2 {
			t.Errorf("a slow body: got %s %s", res.Proto, res.Status)
		}
		if closed.Load() != 0 {
			t.Error("a connection was closed")
		}
	})
}
