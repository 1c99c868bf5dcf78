package httpx_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/sse"
)

// answers is a server that answers every request the same, and notes what it was asked.
func answers(t *testing.T, status int, contentType, body string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return srv.URL, asked
}

// result wraps a result, or an error, as the binding's answer to the first request of a client.
func (b binding) result(json string) string {
	if b.name == a2a.BindingJSONRPC {
		return `{"jsonrpc":"2.0","id":1,"result":` + json + `}`
	}
	return json
}

func (b binding) failure(code a2a.ErrorCode) string {
	details := `[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + code.Reason() + `","domain":"a2a-protocol.org"}]`
	if b.name == a2a.BindingJSONRPC {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m","data":%s}}`, code, details)
	}
	return fmt.Sprintf(`{"error":{"code":%d,"status":%q,"message":"m","details":%s}}`, code.HTTP(), code.Status(), details)
}

const taskJSON = `{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}}}`

// A streaming call may be answered by plain JSON: an error, or all there is.
func TestStreamAnsweredByJSON(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		for _, status := range []int{200, 400} {
			url, _ := answers(t, status, "application/json", b.failure(a2a.ErrUnsupportedOperation))
			got, err := invoke(t.Context(), b.client(url, httpx.ClientOptions{}), "SendStreamingMessage", request("x"))
			if !errors.Is(err, a2a.ErrUnsupportedOperation) || err.Error() != "m" || got != nil {
				t.Errorf("an error: got %q, %v", got, err)
			}
		}
		url, _ := answers(t, 200, "application/json", b.result(taskJSON))
		got, err := invoke(t.Context(), b.client(url, httpx.ClientOptions{}), "SendStreamingMessage", request("x"))
		if err != nil || len(got) != 1 {
			t.Errorf("a result: got %q, %v", got, err)
		}
	})
}

// The whole of the event-stream format, through a client.
func TestStreamFormat(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		r := b.result(taskJSON)
		half := strings.Index(r, ":") + 1
		stream := "\ufeff: hi\n\nid: 5\n\nretry: 10\n\ndata:" + r + "\n\n" +
			"id: 6\r\ndata: " + r[:half] + "\r\ndata: " + r[half:] + "\r\n\r\n" +
			"event: x\rid: none\rdata:" + r + "\r\rdata:\n\n"
		url, _ := answers(t, 200, "text/event-stream; charset=utf-8", stream)
		var got []int64
		for e, err := range b.client(url, httpx.ClientOptions{}).SendStreamingMessage(t.Context(), request("x")) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Generation)
		}
		if fmt.Sprint(got) != "[0 6 0]" {
			t.Errorf("got %v", got)
		}
	})
}

func TestBrokenStream(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", sse.MediaType)
			_, _ = fmt.Fprintf(w, "data: %s\n\n", b.result(taskJSON))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		defer srv.Close()
		got, err := invoke(t.Context(), b.client(srv.URL, httpx.ClientOptions{}), "SendStreamingMessage", request("x"))
		if !errors.Is(err, a2a.ErrUnavailable) || errors.Is(err, httpx.ErrUnreachable) || len(got) != 1 {
			t.Errorf("got %q, %v", got, err)
		}
		for _, bad := range []string{"{", `{"x":1}`, `[]`, `{"task":5}`} {
			url, _ := answers(t, 200, sse.MediaType, "data: "+bad+"\n\ndata: "+b.result(taskJSON)+"\n\n")
			got, err := invoke(t.Context(), b.client(url, httpx.ClientOptions{}), "SendStreamingMessage", request("x"))
			if !errors.Is(err, a2a.ErrInvalidAgentResponse) || got != nil {
				t.Errorf("%s: got %q, %v", bad, got, err)
			}
		}
	})
}

// A redirect is not followed: what the request carries is for the address it was sent to.
func TestRedirect(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		target, asked := answers(t, 200, "application/json", b.result(taskJSON))
		for _, status := range []int{301, 302, 307, 308} {
			srv := httptest.NewServer(http.RedirectHandler(target, status))
			defer srv.Close()
			for _, hc := range []*http.Client{nil, srv.Client()} {
				s := b.client(srv.URL, httpx.ClientOptions{HTTP: hc})
				_, err := s.SendMessage(t.Context(), request("x"))
				if !errors.Is(err, a2a.ErrInvalidAgentResponse) || !strings.Contains(err.Error(), target) {
					t.Errorf("%d: got %v", status, err)
				}
				if _, err = invoke(t.Context(), s, "SendStreamingMessage", request("x")); !errors.Is(err, a2a.ErrInvalidAgentResponse) {
					t.Errorf("%d: got %v", status, err)
				}
			}
		}
		if asked.Load() != 0 {
			t.Error("the redirect was followed")
		}
	})
}

// What is no error of the protocol is known by its HTTP status and told with the beginning of its body.
func TestPlainErrors(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		for status, want := range map[int]a2a.ErrorCode{
			400: a2a.ErrInvalidParams, 401: a2a.ErrUnauthenticated, 403: a2a.ErrPermissionDenied, 404: a2a.ErrMethodNotFound,
			405: a2a.ErrMethodNotAllowed, 413: a2a.ErrTooLarge, 418: a2a.ErrInvalidRequest, 429: a2a.ErrResourceExhausted,
			500: a2a.ErrInternal, 502: a2a.ErrUnavailable, 503: a2a.ErrUnavailable, 504: a2a.ErrUnavailable,
		} {
			url, _ := answers(t, status, "text/html", "<html>\n\x1b[31mbad\xff"+strings.Repeat("x", 1<<20))
			_, err := b.client(url, httpx.ClientOptions{}).SendMessage(t.Context(), request("x"))
			if !errors.Is(err, want) || httpx.HasInfo(err) {
				t.Errorf("%d: got %v", status, err)
			}
			if msg := err.Error(); len(msg) > 400 || !strings.Contains(msg, `"<html>\n\x1b[31mbad`) || !strings.Contains(msg, fmt.Sprint(status)) {
				t.Errorf("%d: the message is %q", status, msg)
			}
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		defer srv.Close()
		_, err := b.client(srv.URL, httpx.ClientOptions{}).SendMessage(t.Context(), request("x"))
		if e := a2a.AsError(err); e.RetryAfter != 2*time.Minute || len(e.Challenge) != 1 {
			t.Errorf("got %+v", e)
		}
	})
}

func TestAnswerLimit(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		big := b.result(`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"` + strings.Repeat("x", 1000) + `"}]}}`)
		for limit, ok := range map[int]bool{len(big): true, len(big) - 1: false} {
			url, _ := answers(t, 200, "application/json", big)
			_, err := b.client(url, httpx.ClientOptions{MaxResponse: int64(limit)}).SendMessage(t.Context(), request("x"))
			if (err == nil) != ok || !ok && !errors.Is(err, a2a.ErrInvalidAgentResponse) {
				t.Errorf("limit %d of %d: got %v", limit, len(big), err)
			}
		}
	})
}

// Nothing was sent: such a call can be made again.
func TestUnreachable(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		tls := httptest.NewUnstartedServer(http.NotFoundHandler())
		tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		tls.StartTLS()
		defer tls.Close()
		plain := httptest.NewServer(http.NotFoundHandler())
		defer plain.Close()
		for url, why := range map[string]string{
			"http://" + l.Addr().String(): "connection refused",
			tls.URL:                       "its certificate is not trusted",
			strings.Replace(plain.URL, "http", "https", 1): "it does not speak TLS",
			"http://nowhere.invalid":                       "its name could not be resolved",
		} {
			_, err := b.client(url, httpx.ClientOptions{}).SendMessage(t.Context(), request("x"))
			if !errors.Is(err, a2a.ErrUnavailable) || !errors.Is(err, httpx.ErrUnreachable) || !strings.HasSuffix(err.Error(), why) {
				t.Errorf("%s: got %v", url, err)
			}
		}
		// One that breaks after the request may have done something.
		srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		defer srv.Close()
		_, err = b.client(srv.URL, httpx.ClientOptions{}).SendMessage(t.Context(), request("x"))
		if !errors.Is(err, a2a.ErrUnavailable) || errors.Is(err, httpx.ErrUnreachable) {
			t.Errorf("a broken one: got %v", err)
		}
		_, err = b.client("http://bad url\x7f", httpx.ClientOptions{}).SendMessage(t.Context(), request("x"))
		if !errors.Is(err, a2a.ErrInvalidParams) {
			t.Errorf("a bad URL: got %v", err)
		}
	})
}

// The client's own timeout is one, whoever set it.
func TestClientTimeout(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		done := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-done:
			}
		}))
		defer srv.Close()
		defer close(done)
		s := b.client(srv.URL, httpx.ClientOptions{HTTP: &http.Client{Timeout: 20 * time.Millisecond}})
		if _, err := s.SendMessage(t.Context(), request("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
