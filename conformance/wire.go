package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/internal/op"
	"github.com/parley-a2a/parley/rules"
)

// Bounds of what is read of an agent.
const (
	maxAnswer = 8 << 20
	maxFrames = 2000
)

// call is a request to be made.
type call struct {
	op     string
	params string // the operation's request as JSON

	header     http.Header // instead of the run's
	version    *string     // instead of 1.0; "": none
	inQuery    bool        // the version goes there
	extensions string      // "": those that the card requires; "-": none

	id   string // of the JSON-RPC request, as JSON; "": the next number
	body string // instead of what is made of op and params

	wrong bool // the message is not one: an answer that repeats it is not held to be better
}

// conn is one interface of the agent.
type conn struct {
	iface   *a2a.AgentInterface
	header  http.Header // with the credential
	hc      *http.Client
	grpc    *grpc.ClientConn
	settle  time.Duration // how long a stream may stay open after the terminal state
	patient time.Duration // how long a call may take

	mu     sync.Mutex
	lastID int
	tls    uint16 // of the last connection
}

func newConn(iface *a2a.AgentInterface, o *Options) (*conn, error) {
	c := &conn{iface: iface, header: o.Header, hc: o.HTTP, settle: o.Settle, patient: o.Patience}
	if iface.ProtocolBinding != a2a.BindingGRPC {
		u, err := url.Parse(iface.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("conformance: the %s interface: %q is no http or https URL", iface.ProtocolBinding, iface.URL)
		}
		return c, nil
	}
	var err error
	c.grpc, err = grpcbinding.Dial(iface.URL, o.GRPC...)
	return c, err
}

func (c *conn) close() {
	if c.grpc != nil {
		_ = c.grpc.Close() // the run has what it wants
	}
}

func (c *conn) nextID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return strconv.Itoa(c.lastID)
}

// stream is a call that goes on. Its exchange may be read after end.
type stream struct {
	x      *rules.Exchange
	cancel context.CancelFunc
	done   chan struct{} // closed at the end
	first  chan struct{} // closed at the first frame, or the end

	mu     sync.Mutex
	once   sync.Once
	gotOne sync.Once
	seen   chan struct{} // gets a value for each frame, if there is room
	over   *time.Timer   // runs after a terminal state
	settle time.Duration
}

// open makes a call in the background.
func (c *conn) open(ctx context.Context, k call) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{
		x: &rules.Exchange{Binding: c.iface.ProtocolBinding, Op: k.op}, cancel: cancel, settle: c.settle,
		done: make(chan struct{}), first: make(chan struct{}), seen: make(chan struct{}, 1),
	}
	go func() {
		defer close(s.done)
		defer s.gotOne.Do(func() { close(s.first) })
		defer cancel()
		var err error
		if c.grpc != nil {
			err = c.doGRPC(ctx, k, s)
		} else {
			err = c.doHTTP(ctx, k, s)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.over != nil {
			s.over.Stop()
		}
		if err != nil && !s.x.Open {
			if errors.As(err, new(notSent)) {
				*s.x = rules.Exchange{Binding: s.x.Binding, Op: s.x.Op}
			}
			s.x.Err = clean(err)
		}
	}()
	return s
}

// notSent is the error of a call that found no connection: nothing of it reached the agent.
type notSent struct{ error }

// Unwrap returns the reason.
func (e notSent) Unwrap() error { return e.error }

func clean(err error) string {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // the rest may have a secret in its query
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// stop ends a call from this side.
func (s *stream) stop() {
	s.mu.Lock()
	s.x.Open = true
	s.mu.Unlock()
	s.cancel()
}

// end waits for the end of a call, at most for d, and returns the exchange.
func (s *stream) end(d time.Duration) *rules.Exchange {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.x
	case <-timer.C:
	}
	s.mu.Lock()
	if s.x.Stream {
		s.x.Open = true
	} else {
		s.x.Err = fmt.Sprintf("no answer within %v", d)
	}
	s.mu.Unlock()
	s.cancel()
	<-s.done
	return s.x
}

// until waits for a frame with the given state, the end, or d. It reports whether the state was seen.
func (s *stream) until(d time.Duration, state func(string) bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		s.mu.Lock()
		events, _ := s.x.Events()
		s.mu.Unlock()
		for _, e := range events {
			if state(stateOf(e)) {
				return true
			}
		}
		select {
		case <-s.seen:
		case <-s.done:
			select {
			case <-s.seen: // look at what came last
			default:
				return false
			}
		case <-timer.C:
			return false
		}
	}
}

// frame keeps a frame. It reports whether more are wanted.
func (s *stream) frame(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x.Stream = true
	s.x.Frames = append(s.x.Frames, data)
	if s.over == nil {
		one := rules.Exchange{Binding: s.x.Binding, Op: s.x.Op, Stream: true, Frames: [][]byte{data}}
		events, _ := one.Events()
		last := len(events) == 1 && (rules.Terminal(stateOf(events[0])) || bytes.HasPrefix(events[0], []byte(`{"message"`)))
		if last {
			s.over = time.AfterFunc(s.settle, s.stop)
		}
	}
	s.gotOne.Do(func() { close(s.first) })
	select {
	case s.seen <- struct{}{}:
	default:
	}
	return len(s.x.Frames) < maxFrames
}

// stateOf returns the task state in an event, or "".
func stateOf(event json.RawMessage) string {
	var e struct {
		Task, StatusUpdate struct{ Status struct{ State string } }
	}
	_ = json.Unmarshal(event, &e) // what is malformed has none
	if e.Task.Status.State != "" {
		return e.Task.Status.State
	}
	return e.StatusUpdate.Status.State
}

// parameters returns the headers of a call.
func (c *conn) parameters(k *call) http.Header {
	h := c.header.Clone()
	if k.header != nil {
		h = k.header.Clone()
	}
	if h == nil {
		h = http.Header{}
	}
	version := a2a.Version
	if k.version != nil {
		version = *k.version
	}
	if version != "" && !k.inQuery {
		h.Set(a2a.VersionHeader, version)
	}
	if k.extensions != "" {
		h.Set(a2a.ExtensionsHeader, k.extensions)
	}
	return h
}

func (c *conn) request(ctx context.Context, k *call, x *rules.Exchange) (*http.Request, error) {
	var body string
	var err error
	if c.iface.ProtocolBinding == a2a.BindingJSONRPC {
		x.Method, x.URL, body = http.MethodPost, c.iface.URL, c.rpcBody(k)
	} else if x.Method, x.URL, body, err = c.restRequest(k); err != nil {
		return nil, err
	}
	if k.inQuery {
		sep := "?"
		if strings.Contains(x.URL, "?") {
			sep = "&"
		}
		x.URL += sep + "A2A-Version=" + a2a.Version
	}
	x.Body = []byte(body)
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, x.Method, x.URL, content)
	if err != nil {
		return nil, err
	}
	r.Header = c.parameters(k)
	media := "application/json"
	if c.iface.ProtocolBinding == a2a.BindingREST {
		media = "application/a2a+json"
	}
	accept := media
	if rules.Streams(k.op) {
		accept = "text/event-stream, " + media
	}
	r.Header.Set("Accept", accept)
	if body != "" {
		r.Header.Set("Content-Type", media)
	}
	x.Sent = r.Header
	return r, nil
}

func (c *conn) rpcBody(k *call) string {
	if k.body != "" {
		return k.body
	}
	id := k.id
	if id == "" {
		id = c.nextID()
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":` + strconv.Quote(k.op) + `,"params":` + c.withTenant(k.params) + `}`
}

func (c *conn) withTenant(params string) string {
	if c.iface.Tenant == "" {
		return params
	}
	tenant, _ := json.Marshal(c.iface.Tenant)
	rest := strings.TrimPrefix(strings.TrimSpace(params), "{")
	if strings.TrimSpace(rest) == "}" {
		return `{"tenant":` + string(tenant) + rest
	}
	return `{"tenant":` + string(tenant) + "," + rest
}

// restRequest says an operation in HTTP (specification 11.3).
func (c *conn) restRequest(k *call) (method, address, body string, err error) {
	o := op.ByName(k.op)
	address = strings.TrimRight(c.iface.URL, "/")
	if c.iface.Tenant != "" {
		address += "/" + url.PathEscape(c.iface.Tenant)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(k.params), &fields); err != nil {
		return "", "", "", err
	}
	path := o.Path
	for name, value := range fields {
		if at := "{" + name + "}"; strings.Contains(path, at) {
			path = strings.Replace(path, at, url.PathEscape(word(value)), 1)
			delete(fields, name)
		}
	}
	address += path
	if o.Method == http.MethodPost {
		if body = k.body; body == "" {
			b, _ := json.Marshal(fields) // of what was JSON
			body = string(b)
		}
		return o.Method, address, body, nil
	}
	query := url.Values{}
	for name, value := range fields {
		query.Set(name, word(value))
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return o.Method, address, "", nil
}

// word returns a JSON value as a path or a query has it.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func (c *conn) doHTTP(ctx context.Context, k call, s *stream) error {
	r, err := c.request(ctx, &k, s.x)
	if err != nil {
		return err
	}
	connected := false
	res, err := c.hc.Do(r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})))
	switch {
	case err != nil && !connected:
		return notSent{err}
	case err != nil:
		return err
	}
	defer res.Body.Close()
	s.mu.Lock()
	s.x.Status, s.x.Header = res.StatusCode, res.Header
	asked := rules.Streams(k.op) && res.StatusCode == http.StatusOK
	s.x.Stream = strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	s.mu.Unlock()
	if res.TLS != nil {
		c.mu.Lock()
		c.tls = res.TLS.Version
		c.mu.Unlock()
	}
	if s.x.Stream {
		return s.events(res.Body)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x.Answer = body; asked && looksLikeStream(body) {
		s.x.Stream, s.x.Answer = true, nil // under another media type, which is a finding
		s.x.Bad = "events that are not text/event-stream"
		for block := range strings.SplitSeq(string(body), "\n\n") {
			if data, ok := strings.CutPrefix(strings.TrimSpace(block), "data:"); ok {
				s.x.Frames = append(s.x.Frames, []byte(strings.TrimSpace(data)))
			}
		}
	}
	return err
}

func looksLikeStream(body []byte) bool {
	body = bytes.TrimSpace(body)
	return bytes.HasPrefix(body, []byte("data:")) || bytes.HasPrefix(body, []byte("event:")) || bytes.HasPrefix(body, []byte("id:"))
}

// fieldNames are those that server-sent events have.
var fieldNames = []string{"data", "event", "id", "retry", ""}

// events reads server-sent events, and notes what is not framed as it should be.
func (s *stream) events(body io.Reader) error {
	in := bufio.NewReaderSize(io.LimitReader(body, maxAnswer), 64<<10)
	var data []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if len(data) > 0 || strings.TrimSpace(line) != "" {
				s.bad("the stream ends within an event: " + strings.Join(append(data, line), "\n"))
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if data != nil && !s.frame([]byte(strings.Join(data, "\n"))) {
				return errors.New("too many frames")
			}
			data = nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		switch {
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		case !slices.Contains(fieldNames, name):
			s.bad("a line that is no field: " + line)
		}
	}
}

func (s *stream) bad(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x.Bad == "" && !s.x.Open {
		s.x.Bad = rules.Clip(what, 200)
	}
}

// rawCodec passes the bytes of messages through.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func (rawCodec) Name() string                       { return "proto" }

const grpcService = "/lf.a2a.v1.A2AService/"

func (c *conn) doGRPC(ctx context.Context, k call, s *stream) error {
	x := s.x
	x.Method, x.URL = k.op, c.iface.URL+grpcService+k.op
	m := rules.NewMessage(k.op, false)
	if m == nil {
		return fmt.Errorf("no operation %q", k.op)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(c.withTenant(k.params)), m); err != nil {
		return fmt.Errorf("the request: %w", err)
	}
	var err error
	if x.Body, err = proto.Marshal(m); err != nil {
		return err
	}
	x.Sent = c.parameters(&k)
	md := metadata.MD{}
	for name, values := range x.Sent {
		md.Append(name, values...)
	}
	s.mu.Lock()
	x.Stream = rules.Streams(k.op)
	s.mu.Unlock()
	call, err := c.grpc.NewStream(metadata.NewOutgoingContext(ctx, md), &grpc.StreamDesc{ServerStreams: true},
		grpcService+k.op, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return notSent{errors.New(status.Convert(err).Message())}
	}
	if err := call.SendMsg(&x.Body); err != nil && !errors.Is(err, io.EOF) {
		return s.status(ctx, err, nil)
	}
	if err := call.CloseSend(); err != nil {
		return err
	}
	for {
		var data []byte
		if err := call.RecvMsg(&data); err != nil {
			return s.status(ctx, err, call)
		}
		if !rules.Streams(k.op) {
			s.mu.Lock()
			x.Frames = append(x.Frames, data)
			s.mu.Unlock()
		} else if !s.frame(data) {
			return errors.New("too many frames")
		}
	}
}

// local are the statuses that gRPC makes on this side.
func local(ctx context.Context, err error) bool {
	return ctx.Err() != nil || strings.Contains(err.Error(), "connection error") || strings.Contains(err.Error(), "dial tcp")
}

// status keeps how a gRPC call ended.
func (s *stream) status(ctx context.Context, err error, call grpc.ClientStream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if local(ctx, err) {
		return err
	}
	st, _ := status.FromError(err)
	s.x.Status, s.x.Message = int(st.Code()), st.Message()
	if s.x.Stream && len(s.x.Frames) == 0 {
		s.x.Stream = false
	}
	if len(st.Proto().GetDetails()) > 0 {
		s.x.Answer, _ = proto.Marshal(st.Proto()) // it came as one
	}
	s.x.Header = http.Header{}
	if call != nil {
		for name, values := range call.Trailer() {
			if name == "www-authenticate" {
				s.x.Header["Www-Authenticate"] = values
			}
		}
	}
	return nil
}
