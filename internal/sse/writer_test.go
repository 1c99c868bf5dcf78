package sse_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/internal/sse"
)

// get answers one request with h over a real socket and returns the response.
func get(t *testing.T, h http.HandlerFunc) *http.Response {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestWriter(t *testing.T) {
	res := get(t, func(w http.ResponseWriter, _ *http.Request) {
		s := sse.NewWriter(w, sse.Options{})
		s.SetHeader("A2A-Extensions", "u")
		_ = s.Write(1, false, []byte(`{"a":`), []byte("1"), []byte("}"))
		s.SetHeader("Too-Late", "x")
		_ = s.Write(0, true, []byte("{}"))
		_ = s.Write(1<<62, false, []byte("a\nb\r\nc\rd"))
		_ = s.Close()
		if err := s.Write(2, false, []byte("{}")); err == nil {
			t.Error("a write after the end has no error")
		}
	})
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := "id: 1\ndata: {\"a\":1}\n\ndata: {}\n\nid: 4611686018427387904\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
	if string(body) != want {
		t.Errorf("got  %q\nwant %q", body, want)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no",
		"A2a-Extensions": "u", "Too-Late": "",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestWriterEmpty(t *testing.T) {
	res := get(t, func(w http.ResponseWriter, _ *http.Request) { _ = sse.NewWriter(w, sse.Options{}).Close() })
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != sse.MediaType || len(body) != 0 {
		t.Errorf("got %v %q", res, body)
	}
}

func TestWriterCancel(t *testing.T) {
	res := get(t, func(w http.ResponseWriter, _ *http.Request) {
		s := sse.NewWriter(w, sse.Options{})
		defer s.Close()
		if !s.Cancel() {
			t.Error("a stream with nothing sent cannot be canceled")
		}
		http.Error(w, "no", http.StatusTeapot)
	})
	if res.StatusCode != http.StatusTeapot || strings.HasPrefix(res.Header.Get("Content-Type"), sse.MediaType) {
		t.Errorf("got %v", res)
	}
	get(t, func(w http.ResponseWriter, _ *http.Request) {
		s := sse.NewWriter(w, sse.Options{})
		defer s.Close()
		_ = s.Write(1, false, []byte("{}"))
		if s.Cancel() {
			t.Error("a stream that has begun was canceled")
		}
	})
}

// recorder notes each write and flush.
type recorder struct {
	header http.Header
	calls  []string
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) FlushError() error   { r.calls = append(r.calls, "flush"); return nil }
func (r *recorder) Write(p []byte) (int, error) {
	r.calls = append(r.calls, fmt.Sprintf("write %d", len(p)))
	return len(p), nil
}

func TestWriterGathers(t *testing.T) {
	r := &recorder{header: http.Header{}}
	s := sse.NewWriter(r, sse.Options{})
	small, big := []byte("{}"), make([]byte, 600<<10)
	for range 9 {
		_ = s.Write(0, true, small)
	}
	_ = s.Write(0, false, small)
	if want := []string{"write 100", "flush"}; !slices.Equal(r.calls, want) {
		t.Errorf("small ones: got %q, want %q", r.calls, want)
	}
	r.calls = nil
	_ = s.Write(0, true, small)
	_ = s.Write(0, false, small, big, small)
	// A big one is written in pieces from where it lies.
	want := []string{"write 18", "write 262144", "write 262144", "write 90112", "write 4", "flush"}
	if !slices.Equal(r.calls, want) {
		t.Errorf("a big one: got %q, want %q", r.calls, want)
	}
	r.calls = nil
	for range 10_000 {
		_ = s.Write(0, true, small)
	}
	if n := len(r.calls); n < 2 || n > 4 {
		t.Errorf("without an end: got %q", r.calls)
	}
	_ = s.Close()
}

// pipeServer serves h on the ends of pipes, for tests in a bubble where time is fake.
type pipeServer struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipeServer) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipeServer) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipeServer) Addr() net.Addr { return &net.TCPAddr{} }

// servePipe returns a connection to a server with the handler h.
func servePipe(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	p := &pipeServer{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = srv.Serve(p) }()
	client, server := net.Pipe()
	p.conns <- server
	t.Cleanup(func() {
		_ = client.Close()
		_ = srv.Close()
		<-stopped
	})
	_, err := io.WriteString(client, "GET / HTTP/1.0\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		conn := servePipe(t, func(w http.ResponseWriter, _ *http.Request) {
			s := sse.NewWriter(w, sse.Options{KeepAlive: 15 * time.Second, WriteTimeout: 30 * time.Second})
			defer s.Close()
			_ = s.Write(1, false, []byte("first"))
			<-time.After(10 * time.Second)
			_ = s.Write(2, false, []byte("second"))
			<-time.After(47 * time.Second)
			_ = s.Write(3, false, []byte("third"))
		})
		var got []string
		for sc := bufio.NewScanner(conn); sc.Scan(); {
			if line := sc.Text(); line == ":" || strings.HasPrefix(line, "data") {
				got = append(got, fmt.Sprint(line, " ", time.Since(start)))
			}
		}
		want := []string{"data: first 0s", "data: second 10s", ": 25s", ": 40s", ": 55s", "data: third 57s"}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// A stream whose first event takes long begins with a comment.
func TestKeepAliveBeforeTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := servePipe(t, func(w http.ResponseWriter, _ *http.Request) {
			s := sse.NewWriter(w, sse.Options{KeepAlive: 15 * time.Second})
			defer s.Close()
			<-time.After(20 * time.Second)
			if s.Cancel() {
				t.Error("the stream has begun and was canceled")
			}
			_ = s.Write(1, false, []byte("x"))
		})
		all, err := io.ReadAll(conn)
		if err != nil || !strings.HasSuffix(string(all), "\r\n\r\n:\n\nid: 1\ndata: x\n\n") {
			t.Errorf("got %q, %v", all, err)
		}
	})
}

// A reader that stops is dropped after the write timeout, also when only comments are written.
func TestWriteTimeout(t *testing.T) {
	for _, write := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ended := make(chan time.Duration, 1)
			conn := servePipe(t, func(w http.ResponseWriter, r *http.Request) {
				opts := sse.Options{KeepAlive: 15 * time.Second, WriteTimeout: 30 * time.Second}
				if write {
					opts.KeepAlive = 0 // a goroutine that waits for a mutex stops the time of the bubble
				}
				s := sse.NewWriter(w, opts)
				defer s.Close()
				if write {
					for s.Write(1, false, []byte("x")) == nil {
					}
				} else {
					<-r.Context().Done()
				}
				ended <- time.Since(start)
			})
			if write {
				_, _ = bufio.NewReader(conn).ReadString('\n') // begin, then read no more
			}
			want := 30 * time.Second
			if !write {
				want = 45 * time.Second
			}
			if got := <-ended; got != want {
				t.Errorf("write %v: ended after %v, want %v", write, got, want)
			}
		})
	}
}

// One reader that stops, over a real socket, holds up nobody else.
func TestStoppedReader(t *testing.T) {
	dropped := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := sse.NewWriter(w, sse.Options{WriteTimeout: 100 * time.Millisecond})
		defer s.Close()
		data := make([]byte, 64<<10)
		if r.URL.Path == "/good" {
			for range 200 {
				_ = s.Write(1, false, data)
			}
			return
		}
		for {
			if err := s.Write(1, false, data); err != nil {
				dropped <- err
				return
			}
		}
	}))
	defer srv.Close()
	stopped, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	_, _ = io.WriteString(stopped, "GET /stopped HTTP/1.1\r\nHost: x\r\n\r\n")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/good", nil)
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	n := 0
	for _, err := range sse.Read(res.Body, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 200 {
		t.Errorf("the other reader got %d of 200 events", n)
	}
	<-dropped
}
