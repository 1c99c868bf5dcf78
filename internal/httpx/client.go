package httpx

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
	"github.com/parley-a2a/parley/internal/sse"
)

// ClientOptions are the settings of a client. The zero value of each is its default.
type ClientOptions struct {
	// HTTP sends the requests. Its Timeout bounds whole streams, so it should have none. Redirects are not
	// followed, whatever it says. Nil: a client whose connections must stand within 10 s and that waits for
	// answers without limit.
	HTTP *http.Client
	// MaxResponse is the size of an answer, or of one event of a stream, in bytes: 64 MiB. A larger one is
	// an ErrInvalidAgentResponse.
	MaxResponse int64
	// IdleTimeout is how long a stream may be silent, comments counted as sound, before it ends with
	// ErrUnavailable. Zero: for ever; TCP finds out about a host that went away.
	IdleTimeout time.Duration
}

// ErrUnreachable is in the cause of an error that came before a request was sent: no connection could be
// made, and nothing has happened at the other end.
var ErrUnreachable = errors.New("no connection")

var defaultClient = &http.Client{
	CheckRedirect: noRedirect,
	Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // a compressed stream waits in buffers on its way
	},
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Binding is what the client of one binding knows.
type Binding interface {
	// Request makes the request that asks for o. The function that comes with it returns the result within
	// an answer or an event of a stream, or the error that is in its place.
	Request(ctx context.Context, o *op.Op, req op.Message) (*http.Request, Unwrap, error)
}

// Unwrap returns the result within a body or an event that came with res.
type Unwrap func(res *http.Response, data []byte) (result []byte, err error)

// service is a client: the operations of a2a.Service, sent over HTTP.
type service struct {
	binding Binding
	hc      *http.Client
	max     int64
	idle    time.Duration
}

// NewClient returns the Service at the other end of a binding.
//
// Of the CallInfo in a call's context it sends Version (empty: a2a.Version), Extensions and Header, and it fills
// in Activated. The CallInfo of a request that a handler received, which has a Peer, is sent without its
// Header: what a caller sent to this host, its credentials first of all, is not for the next one.
func NewClient(b Binding, opts ClientOptions) a2a.Service {
	s := &service{binding: b, hc: defaultClient, max: opts.MaxResponse, idle: opts.IdleTimeout}
	if opts.HTTP != nil {
		hc := *opts.HTTP
		hc.CheckRedirect = noRedirect
		s.hc = &hc
	}
	if s.max <= 0 {
		s.max = sse.DefaultMaxEvent
	}
	return s
}

// call runs a unary operation and reads its result into res.
func (s *service) call(ctx context.Context, o *op.Op, req, res op.Message) error {
	answer, unwrap, err := s.send(ctx, o, req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b := getBuffer()
	defer putBuffer(b)
	if *b, err = s.readAll(ctx, *b, answer.Body); err != nil {
		return err
	}
	result, err := unwrap(answer, *b)
	if err != nil {
		return err
	}
	if err := res.UnmarshalJSON(result); err != nil {
		return invalidResult(o, err)
	}
	return nil
}

// stream runs a streaming operation. Leaving the loop ends the request.
func (s *service) stream(ctx context.Context, o *op.Op, req op.Message) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		answer, unwrap, err := s.send(ctx, o, req)
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		defer answer.Body.Close()
		if !isEventStream(answer) {
			yield(s.single(ctx, o, answer, unwrap))
			return
		}
		for ev, err := range sse.Read(s.watch(answer.Body, cancel), int(s.max)) {
			if err != nil {
				yield(a2a.Entry{}, netError(ctx, err))
				return
			}
			if len(ev.Data) == 0 {
				continue // some servers keep a stream alive so
			}
			e, err := entry(o, ev, answer, unwrap)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// single reads the answer to a streaming call that is no stream: an error, or the only event.
func (s *service) single(ctx context.Context, o *op.Op, answer *http.Response, unwrap Unwrap) (a2a.Entry, error) {
	b := getBuffer()
	defer putBuffer(b)
	var err error
	if *b, err = s.readAll(ctx, *b, answer.Body); err != nil {
		return a2a.Entry{}, err
	}
	return entry(o, sse.Event{Data: *b}, answer, unwrap)
}

// entry reads an event of a stream. Its id is the generation where it is a number.
func entry(o *op.Op, ev sse.Event, answer *http.Response, unwrap Unwrap) (a2a.Entry, error) {
	result, err := unwrap(answer, ev.Data)
	if err != nil {
		return a2a.Entry{}, err
	}
	event, err := a2a.ParseStreamResponse(result)
	if err != nil {
		return a2a.Entry{}, invalidResult(o, err)
	}
	generation, err := strconv.ParseUint(ev.ID, 10, 63)
	if err != nil {
		generation = 0
	}
	return a2a.NewEntry(int64(generation), event), nil
}

func invalidResult(o *op.Op, err error) error {
	return InvalidAnswer("the result of %s: %s", o.Name, err.Error()).WithCause(err)
}

// send sends the request for o and returns the answer, whatever its status.
func (s *service) send(ctx context.Context, o *op.Op, req op.Message) (*http.Response, Unwrap, error) {
	r, unwrap, err := s.binding.Request(ctx, o, req)
	if err != nil {
		return nil, nil, err
	}
	info := a2a.CallInfoFrom(ctx)
	if info == nil {
		info = new(a2a.CallInfo)
	}
	setHeaders(r, o, info)
	answer, err := s.hc.Do(r)
	if err != nil {
		return nil, nil, netError(ctx, err)
	}
	info.Activated = a2a.ParseExtensions(answer.Header.Values(a2a.ExtensionsHeader))
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		answer.Body.Close()
		return nil, nil, InvalidAnswer("a redirect (HTTP status %d) to %q, which is not followed: call that address if it is the right one",
			answer.StatusCode, clip(answer.Header.Get("Location")))
	}
	return answer, unwrap, nil
}

func setHeaders(r *http.Request, o *op.Op, info *a2a.CallInfo) {
	if info.Peer == "" {
		for name, values := range info.Header {
			name = http.CanonicalHeaderKey(name)
			if _, ours := r.Header[name]; !ours {
				r.Header[name] = values
			}
		}
	}
	if o.Stream != nil {
		r.Header.Set("Accept", sse.MediaType+", "+r.Header.Get("Accept"))
	}
	r.Header.Set(a2a.VersionHeader, cmp.Or(info.Version, a2a.Version))
	r.Header.Del(a2a.ExtensionsHeader)
	if len(info.Extensions) > 0 {
		r.Header.Set(a2a.ExtensionsHeader, strings.Join(info.Extensions, ","))
	}
}

func isEventStream(answer *http.Response) bool {
	t, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return err == nil && t == sse.MediaType && answer.StatusCode < 300
}

func (s *service) readAll(ctx context.Context, b []byte, r io.Reader) ([]byte, error) {
	b, err := appendAll(b, io.LimitReader(r, s.max+1), -1)
	if err != nil {
		return b, netError(ctx, err)
	}
	if int64(len(b)) > s.max {
		return b, InvalidAnswer("it is over the limit of %d bytes", s.max)
	}
	return b, nil
}

var errIdle = errors.New("the stream was silent for too long")

// watch returns r as a reader that ends the request when it has waited for bytes for the idle time.
func (s *service) watch(r io.Reader, cancel context.CancelCauseFunc) io.Reader {
	if s.idle <= 0 {
		return r
	}
	timer := time.AfterFunc(s.idle, func() { cancel(errIdle) })
	timer.Stop()
	return &watched{r: r, idle: s.idle, timer: timer}
}

type watched struct {
	r     io.Reader
	idle  time.Duration
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.idle)
	defer w.timer.Stop()
	return w.r.Read(p)
}

// netError returns the error for a request or an answer that did not get through. The end of the caller's own
// context is found in it with errors.Is, and so is ErrUnreachable.
func netError(ctx context.Context, err error) error {
	var tooLarge *sse.TooLargeError
	switch {
	case errors.Is(context.Cause(ctx), errIdle):
		return a2a.Errorf(a2a.ErrUnavailable, "%s", errIdle.Error()).WithCause(errIdle)
	case errors.Is(ctx.Err(), context.Canceled):
		return a2a.Errorf(a2a.ErrCanceled, "the call was canceled").WithCause(ctx.Err())
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return a2a.Errorf(a2a.ErrRequestTimeout, "the call took longer than it was given").WithCause(context.DeadlineExceeded)
	case errors.As(err, &tooLarge):
		return InvalidAnswer("%s", tooLarge.Error()).WithCause(err)
	case unreachable(err):
		return a2a.Errorf(a2a.ErrUnavailable, "could not connect to the agent%s", why(err)).
			WithCause(errors.Join(ErrUnreachable, err))
	}
	return a2a.Errorf(a2a.ErrUnavailable, "the connection to the agent broke%s", why(err)).WithCause(err)
}

func unreachable(err error) bool {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &network) && (network.Op == "dial" || network.Op == "proxyconnect") ||
		errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch)
}

// why returns what may be said of a network error: its kind, and no address, which might be an inner one.
func why(err error) string {
	var errno syscall.Errno
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.As(err, &errno):
		return ": " + errno.Error()
	case errors.As(err, &dns):
		return ": its name could not be resolved"
	case errors.As(err, &certificate):
		return ": its certificate is not trusted"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return ": it does not speak TLS"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ": it was closed before the end"
	case errors.As(err, &timeout) && timeout.Timeout():
		return ": it timed out"
	}
	return ""
}
