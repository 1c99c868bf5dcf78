package httpx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
	"github.com/parley-a2a/parley/internal/room"
	"github.com/parley-a2a/parley/internal/sse"
)

// Call is one request as its binding sees it: how the operation is found, and how answers look.
type Call interface {
	// Serve finds the operation and its input in the exchange and runs it, see [Exchange.Run]. An error
	// that it returns becomes the answer.
	Serve(x *Exchange) error
	// Envelope returns what stands around a result, in an answer and in a stream's event.
	Envelope() (before, after []byte)
	// AppendError appends the body that says e, in an answer and in a stream's event.
	AppendError(b []byte, e *a2a.Error) []byte
	// ErrorStatus returns the HTTP status of an answer that says e.
	ErrorStatus(e *a2a.Error) int
	// MediaType returns the Content-Type of an answer: of a result, where e is nil, or of an error.
	MediaType(e *a2a.Error) string
}

type handler struct {
	svc     a2a.Service
	opts    Options
	binding string
	call    func() Call
}

// NewHandler returns the handler of a binding; call makes an empty Call.
func NewHandler(svc a2a.Service, opts Options, binding string, call func() Call) http.Handler {
	return &handler{svc: svc, opts: opts.withDefaults(), binding: binding, call: call}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &Exchange{Request: r, w: w, rc: *http.NewResponseController(w), svc: h.svc, opts: &h.opts, call: h.call()}
	x.Info = a2a.CallInfo{
		Binding: h.binding, Version: version(r), Extensions: a2a.ParseExtensions(r.Header[extensionsHeader]),
		Header: r.Header, Peer: r.RemoteAddr, TLS: r.TLS,
	}
	x.ctx = a2a.WithCallInfo(r.Context(), &x.Info)
	defer x.FreeBody()
	header := w.Header()
	header["X-Content-Type-Options"] = noSniff
	header["Cache-Control"] = noStore
	x.limitBody()
	if err := x.try(x.serve); err != nil {
		x.fail(err)
	}
}

// The names of the service parameters as http.Header has them.
var (
	versionHeader    = http.CanonicalHeaderKey(a2a.VersionHeader)
	extensionsHeader = http.CanonicalHeaderKey(a2a.ExtensionsHeader)
)

// Header values of every answer, shared: net/http does not change them.
var (
	noSniff = []string{"nosniff"}
	noStore = []string{"no-store"}

	typeJSON = []string{MediaTypeJSON}
	typeA2A  = []string{MediaTypeA2A}
)

// contentType is a media type as a header value.
func contentType(mediaType string) []string {
	switch mediaType {
	case MediaTypeJSON:
		return typeJSON
	case MediaTypeA2A:
		return typeA2A
	}
	return []string{mediaType}
}

// counted is how many bytes an answer may have for net/http to write its Content-Length by itself.
const counted = 1 << 10

// version returns the A2A-Version of a request: the header, or the query parameter (specification 3.6.1).
// Versions that contradict each other come out as one that nobody speaks.
func version(r *http.Request) string {
	if v := r.Header[versionHeader]; len(v) > 1 || len(v) == 1 && v[0] != "" {
		return strings.Join(v, ",")
	}
	if r.URL.RawQuery == "" {
		return ""
	}
	query, _ := url.ParseQuery(r.URL.RawQuery)
	for name, v := range query {
		if strings.EqualFold(name, a2a.VersionHeader) {
			return strings.Join(v, ",")
		}
	}
	return ""
}

// Exchange is one request on its way through a handler.
type Exchange struct {
	Request *http.Request
	Info    a2a.CallInfo

	ctx     context.Context // of the request, with Info
	w       http.ResponseWriter
	rc      http.ResponseController
	svc     a2a.Service
	opts    *Options
	call    Call
	body    *[]byte
	unread  bool // there is a body, or may be one, that was not read to its end
	replied bool
}

func (x *Exchange) serve() error { return x.call.Serve(x) }

// Authenticate finds out who calls. It comes first, before the body is read and before any other reason to refuse the
// request, so that whatever a known caller is told counts as one of its requests.
func (x *Exchange) Authenticate() error {
	if x.opts.Authenticate == nil {
		return nil
	}
	return x.opts.Authenticate(x.ctx, &x.Info)
}

// MethodNotAllowed returns the error for a request whose HTTP method is none of the allowed.
func (x *Exchange) MethodNotAllowed(allowed ...string) error {
	allow := strings.Join(allowed, ", ")
	x.w.Header().Set("Allow", allow)
	return a2a.Errorf(a2a.ErrMethodNotAllowed, "HTTP method %s is not allowed here, use %s", clip(x.Request.Method), allow)
}

// Begin settles that the request is for o, and checks its protocol version.
func (x *Exchange) Begin(o *op.Op) error {
	x.Info.Operation = o.Name
	return a2a.CheckVersion(x.Info.Version)
}

// Run runs the operation and answers with what it returns.
func (x *Exchange) Run(o *op.Op, req op.Message) error {
	if o.Stream != nil {
		return x.stream(o.Stream(x.ctx, x.svc, req))
	}
	res, err := o.Call(x.ctx, x.svc, req)
	if err != nil {
		return err
	}
	hold, err := room.Answers.Take(x.ctx, &x.Info, res)
	if err != nil {
		return err
	}
	defer hold.Give()
	b := getBuffer()
	defer putBuffer(b)
	before, after := x.call.Envelope()
	*b = append(*b, before...)
	*b = res.AppendJSON(*b)
	*b = append(*b, after...)
	hold.Encoded(len(*b))
	x.reply(http.StatusOK, x.call.MediaType(nil), *b)
	return nil
}

// RunUnheard runs the operation for a caller that wants no answer (a notification of JSON-RPC) and sends an
// empty one. A stream is left after its first event; the task goes on.
func (x *Exchange) RunUnheard(o *op.Op, req op.Message) {
	err := x.try(func() error {
		if o.Call != nil {
			_, err := o.Call(x.ctx, x.svc, req)
			return err
		}
		for _, err := range o.Stream(x.ctx, x.svc, req) {
			return err
		}
		return nil
	})
	x.Unheard(err)
}

// Unheard sends an empty answer in the place of err, which is only logged, if it must be.
func (x *Exchange) Unheard(err error) {
	if err != nil {
		_ = x.report(err)
	}
	x.replied = true
	x.announce(x.w.Header().Set)
	x.w.WriteHeader(http.StatusNoContent)
}

func (x *Exchange) stream(entries iter.Seq2[a2a.Entry, error]) error {
	out := sse.NewWriter(x.w, sse.Options{KeepAlive: x.opts.KeepAlive, WriteTimeout: x.opts.WriteTimeout})
	defer func() { _ = out.Close() }() // a reader that went away needs no answer
	err := x.try(func() error { return x.copy(out, entries) })
	if err == nil {
		x.replied = true
		return nil
	}
	if out.Cancel() {
		return err
	}
	x.replied = true
	_ = out.Write(0, false, x.call.AppendError(nil, x.report(err)))
	return nil
}

// copy sends the entries until they end or their reader is gone. What it returns is an error of the stream
// itself.
func (x *Exchange) copy(out *sse.Writer, entries iter.Seq2[a2a.Entry, error]) error {
	before, after := x.call.Envelope()
	send := func(e a2a.Entry) (sent bool, err error) {
		hold, err := room.Answers.Take(x.ctx, &x.Info, e.Event)
		if err != nil {
			return false, err
		}
		defer hold.Give()
		data := e.JSON()
		hold.Encoded(len(data))
		return out.Write(e.Generation, e.More, before, data, after) == nil, nil
	}
	first := true
	for e, err := range entries {
		if err != nil {
			return err
		}
		if first {
			x.announce(out.SetHeader)
		}
		first = false
		if sent, err := send(e); err != nil || !sent {
			return err
		}
	}
	return nil
}

// panicError is a panic on its way to the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// try calls f and makes its panic an error.
func (x *Exchange) try(f func() error) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default:
			err = &panicError{v, debug.Stack()}
		}
	}()
	return f()
}

func (x *Exchange) fail(err error) {
	e := x.report(err)
	if x.replied {
		panic(http.ErrAbortHandler) // too late for an answer; the caller must see that this one is broken
	}
	header := x.w.Header()
	if x.unread && x.Request.ProtoMajor == 1 {
		header.Set("Connection", "close") // or net/http would wait for the rest of the body before it answers
	}
	for _, c := range e.Challenge {
		header.Add("WWW-Authenticate", c)
	}
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = x.call.AppendError(*b, e)
	x.reply(x.call.ErrorStatus(e), x.call.MediaType(e), *b)
}

func (x *Exchange) reply(status int, mediaType string, body []byte) {
	x.replied = true
	header := x.w.Header()
	x.announce(header.Set)
	header["Content-Type"] = contentType(mediaType)
	if len(body) > counted {
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.w.WriteHeader(status)
	_ = sse.Send(x.w, &x.rc, x.opts.WriteTimeout, body) // a reader that went away needs no answer
}

// announce sets the headers by which the answer says what is beside its message.
func (x *Exchange) announce(set func(name, value string)) {
	for name, values := range x.Info.Reply {
		set(name, strings.Join(values, ", "))
	}
	if len(x.Info.Activated) > 0 {
		set(a2a.ExtensionsHeader, strings.Join(x.Info.Activated, ","))
	}
}

// ErrorID is the metadata of an internal error by which the log can be asked about it.
const ErrorID = "errorId"

// report returns what the caller reads of err, and logs what it does not read. An internal error gets an id
// that stands in both.
func (x *Exchange) report(err error) *a2a.Error {
	e := a2a.AsError(err)
	if x.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return &a2a.Error{Code: a2a.ErrCanceled}
	}
	level := slog.LevelDebug
	switch {
	case e.Code == a2a.ErrInternal || !e.Code.Known():
		level = slog.LevelError
		if e.Metadata[ErrorID] == "" {
			c := *e
			c.Metadata = maps.Clone(e.Metadata)
			if c.Metadata == nil {
				c.Metadata = make(map[string]string, 1)
			}
			c.Metadata[ErrorID] = rand.Text()[:10]
			e = &c
		}
	case e.Cause() == nil:
		return e
	case e.Code.HTTP() >= http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("binding", x.Info.Binding), slog.String("operation", x.Info.Operation),
		slog.Int("code", int(e.Code)), slog.String("error", e.Error()),
	}
	if id := e.Metadata[ErrorID]; id != "" {
		attrs = append(attrs, slog.String(ErrorID, id))
	}
	if cause := e.Cause(); cause != nil {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	x.opts.Log.LogAttrs(x.ctx, level, "a request failed", attrs...)
	return e
}
