package httpx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/op"
)

// padded is a request body of exactly n bytes, envelope and all.
func (b binding) padded(n int) (path, body string) {
	format := `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"%s"}]}}`
	path = "/message:send"
	if b.name == a2a.BindingJSONRPC {
		path, format = "/", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+format+`}`
	}
	return path, fmt.Sprintf(format, strings.Repeat("x", n-len(format)+2))
}

func echo(context.Context, string, op.Message) (op.Message, error) {
	return &a2a.SendMessageResponse{Result: task("t1")}, nil
}

func TestBodyLimit(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{call: echo}
		_, srv := b.serve(t, f, httpx.Options{MaxBody: 1000})
		for _, chunked := range []bool{false, true} {
			for n, want := range map[int]int{1000: http.StatusOK, 1001: http.StatusRequestEntityTooLarge, 1 << 20: http.StatusRequestEntityTooLarge} {
				path, body := b.padded(n)
				var r io.Reader = strings.NewReader(body)
				if chunked {
					r = io.MultiReader(r) // of a length that is not known
				}
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, r)
				req.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
				before := f.calls()
				res := do(t, req)
				got := text(t, res)
				if res.StatusCode != want || (f.calls() > before) != (want == http.StatusOK) {
					t.Errorf("%d bytes, chunked %v: got %d %s", n, chunked, res.StatusCode, got)
				}
				if want != http.StatusOK && (!strings.Contains(got, "the limit of 1000 bytes") || !strings.Contains(got, "TOO_LARGE")) {
					t.Errorf("got %s", got)
				}
			}
		}
	})
}

// A request may be as deep on one binding as on the other.
func TestDepth(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{call: echo}
		_, srv := b.serve(t, f, httpx.Options{})
		for arrays, ok := range map[int]bool{62: true, 63: false, 100_000: false} { // two objects are around them
			before := f.calls()
			body := `{"metadata":{"a":` + strings.Repeat("[", arrays) + strings.Repeat("]", arrays) + `}}`
			got := text(t, b.send(t, srv.URL, false, body))
			if (f.calls() > before) != ok || strings.Contains(got, "JSON_PARSE_ERROR") == ok {
				t.Errorf("%d arrays: got %s", arrays, got)
			}
		}
	})
}

// A body that comes too slowly is given up, whether its length was announced or not, and so is one that nobody
// wanted.
func TestSlowBody(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{call: echo}
		_, srv := b.serve(t, f, httpx.Options{BodyTimeout: 50 * time.Millisecond})
		const head = "POST /message:send HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n"
		for request, want := range map[string]int{
			head + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{":                 http.StatusRequestTimeout,
			head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n": http.StatusRequestTimeout,
			head + "Content-Type: text/plain\r\nContent-Length: 100\r\n\r\n{":                       http.StatusUnsupportedMediaType,
		} {
			_, r := dial(t, srv, request)
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body := text(t, res)
			if res.StatusCode != want {
				t.Errorf("%q: got %d %s, want %d", request, res.StatusCode, body, want)
			}
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) { // the connection ends, too
				t.Errorf("%q: after the answer: %v", request, err)
			}
		}
		if f.calls() != 0 {
			t.Error("the operation ran")
		}
	})
}

func TestMediaTypes(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{call: echo}
		_, srv := b.serve(t, f, httpx.Options{})
		path, body := b.padded(200)
		for contentType, want := range map[string]int{
			"application/json":                     200,
			"application/a2a+json":                 200,
			"application/json; charset=utf-8":      200,
			`Application/A2A+JSON;charset="UTF-8"`: 200,
			"application/json; charset=latin1":     415,
			"text/plain":                           415,
			"application/x-www-form-urlencoded":    415,
			"application/jsonp":                    415,
			"application/json, text/plain":         415,
			"":                                     415,
		} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
			req.Header.Set("A2A-Version", "1.0")
			if contentType != "" {
				req.Header.Set("Content-Type", contentType)
			}
			before := f.calls()
			res := do(t, req)
			got := text(t, res)
			if res.StatusCode != want || (f.calls() > before) != (want == 200) {
				t.Errorf("%q: got %d %s", contentType, res.StatusCode, got)
			}
			if want != 200 && !strings.Contains(got, "UNSUPPORTED_MEDIA_TYPE") {
				t.Errorf("%q: got %s", contentType, got)
			}
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
		req.Header = http.Header{"A2a-Version": {"1.0"}, "Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
		if res := do(t, req); res.StatusCode != 415 {
			t.Errorf("gzip: got %d", res.StatusCode)
		}
	})
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// What goes wrong inside is told by an id that the log has too, and the host lives on.
func TestInternalErrors(t *testing.T) {
	id := regexp.MustCompile(`"errorId":"([A-Z2-7]{10})"`)
	failures := map[string]func() error{
		"error":     func() error { return errors.New("the secret cause") },
		"panic":     func() error { panic("the secret cause") },
		"nil map":   func() error { var m map[string]int; m["the secret cause"] = 1; return nil }, //nolint:govet,staticcheck // the panic is wanted
		"our error": func() error { return a2a.Errorf(a2a.ErrInternal, "for people: %w", errors.New("the secret cause")) },
	}
	forEach(t, func(t *testing.T, b binding) {
		for name, failure := range failures {
			for _, when := range []string{"unary", "early", "late"} {
				var log syncBuffer
				f := &fake{
					call: func(context.Context, string, op.Message) (op.Message, error) { return nil, failure() },
					stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
						if when == "late" && !yield(a2a.NewEntry(1, task("t1")), nil) {
							return
						}
						if err := failure(); err != nil {
							yield(a2a.Entry{}, err)
						}
					},
				}
				_, srv := b.serve(t, f, httpx.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				res := b.send(t, srv.URL, when != "unary", message)
				body := text(t, res)
				m := id.FindStringSubmatch(body)
				if m == nil || strings.Contains(body, "secret") || strings.Contains(body, "goroutine") {
					t.Fatalf("%s %s: got %s", name, when, body)
				}
				if got := log.String(); !strings.Contains(got, m[1]) || name != "nil map" && !strings.Contains(got, "the secret cause") {
					t.Errorf("%s %s: the log is %s", name, when, got)
				}
				want := http.StatusOK
				if b.name == a2a.BindingREST && when != "late" {
					want = http.StatusInternalServerError
				}
				if res.StatusCode != want {
					t.Errorf("%s %s: got %d", name, when, res.StatusCode)
				}
				if res := b.send(t, srv.URL, false, message); res.StatusCode == 0 {
					t.Error("the host is gone")
				}
			}
		}
	})
}

func TestAbort(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		var log syncBuffer
		s, _ := b.serve(t, &fake{call: func(context.Context, string, op.Message) (op.Message, error) {
			panic(http.ErrAbortHandler)
		}}, httpx.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		_, err := s.SendMessage(t.Context(), request("x"))
		if !errors.Is(err, a2a.ErrUnavailable) || log.String() != "" {
			t.Errorf("got %v, log %q", err, log.String())
		}
	})
}

// Ordinary errors leave the connection as it is.
func TestConnectionIsKept(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		s, _ := b.serve(t, &fake{call: func(context.Context, string, op.Message) (op.Message, error) {
			return nil, a2a.ErrTaskNotFound
		}}, httpx.Options{})
		for i := range 3 {
			var reused bool
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
			})
			if _, err := s.SendMessage(ctx, request("x")); !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Fatal(err)
			}
			if reused != (i > 0) {
				t.Errorf("call %d: reused %v", i, reused)
			}
		}
	})
}
