package grpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
	"github.com/parley-a2a/parley/internal/room"
)

// MaxRequest is how many bytes a request may have on a server with [ServerOptions].
const MaxRequest = 10 << 20

// service is the name of the service, such as it stands in front of a method.
var service = string(pb.File_a2av1_proto.Services().ByName("A2AService").FullName())

// HandlerOptions are the choices of a [Handler]. The zero value serves every caller as anonymous.
type HandlerOptions struct {
	Authenticate a2a.Authenticate // run before the request is read; nil: every caller is anonymous
	Log          *slog.Logger     // nil: slog.Default()
	ReadTimeout  time.Duration    // for a request to arrive; zero: 30 s
	WriteTimeout time.Duration    // for one entry of a stream to leave; zero: 30 s
}

// Handler serves an [a2a.Service] over gRPC (specification section 10).
type Handler struct {
	svc  a2a.Service
	opts HandlerOptions
}

// NewHandler returns a handler that serves svc.
func NewHandler(svc a2a.Service, opts HandlerOptions) *Handler {
	const timeout = 30 * time.Second
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.ReadTimeout == 0 {
		opts.ReadTimeout = timeout
	}
	if opts.WriteTimeout == 0 {
		opts.WriteTimeout = timeout
	}
	return &Handler{svc: svc, opts: opts}
}

// ServerOptions returns what a grpc.Server needs to serve a [Handler]. Options that follow them replace
// their values: requests of at most [MaxRequest] bytes (grpc.MaxRecvMsgSize), 64 KiB of metadata, 1000
// streams on a connection, 10 s for a connection to be made, 120 s for one without a call to be closed; a peer that is
// silent for 30 s is asked whether it lives, and may ask every 10 s. A tap handle cannot be added.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}),
		grpc.InTapHandle(newCallContext),
		grpc.MaxRecvMsgSize(MaxRequest),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.MaxConcurrentStreams(1000),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 120 * time.Second, Time: 30 * time.Second, Timeout: 20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
}

// OverHTTP returns a server that was made with [ServerOptions] as what a server of net/http serves over HTTP/2: for those
// who want to stand in between. It costs more than the server's own listener.
func OverHTTP(s *grpc.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, _ := newCallContext(r.Context(), nil)
		s.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Register makes a server that was made with [ServerOptions] serve the handler.
//
// All operations are registered as streams, which look the same on the wire: only there the handler reads
// the request itself, after the caller was authenticated. Interceptors of a server must therefore be those
// for streams.
func (h *Handler) Register(r grpc.ServiceRegistrar) {
	desc := &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Metadata: pb.File_a2av1_proto.Path()}
	for _, m := range methods {
		desc.Streams = append(desc.Streams, grpc.StreamDesc{
			StreamName:    m.op.Name,
			Handler:       func(_ any, s grpc.ServerStream) error { return h.serve(m, s) },
			ServerStreams: m.op.Stream != nil,
		})
	}
	r.RegisterService(desc, h)
}

// method is an operation with the conversions of its request and its answer.
type method struct {
	op  *op.Op
	req func() proto.Message
	in  func(*decoder, proto.Message) op.Message
	out func(*encoder, op.Message) proto.Message // nil for a stream: its answers are events
}

var methods = []method{
	unary("SendMessage", (*decoder).sendMessageRequest, (*encoder).sendMessageResponse),
	stream("SendStreamingMessage", (*decoder).sendMessageRequest),
	unary("GetTask", (*decoder).getTaskRequest, (*encoder).task),
	unary("ListTasks", (*decoder).listTasksRequest, (*encoder).listTasksResponse),
	unary("CancelTask", (*decoder).cancelTaskRequest, (*encoder).task),
	stream("SubscribeToTask", (*decoder).subscribeToTaskRequest),
	unary("CreateTaskPushNotificationConfig", (*decoder).pushConfig, (*encoder).pushConfig),
	unary("GetTaskPushNotificationConfig", (*decoder).getPushConfigRequest, (*encoder).pushConfig),
	unary("ListTaskPushNotificationConfigs", (*decoder).listPushConfigsRequest, (*encoder).listPushConfigsResponse),
	unary("GetExtendedAgentCard", (*decoder).getCardRequest, (*encoder).card),
	unary("DeleteTaskPushNotificationConfig", (*decoder).deletePushConfigRequest, (*encoder).empty),
}

// message is a pointer to a generated message.
type message[T any] interface {
	*T
	proto.Message
}

func stream[T any, P message[T], Req op.Message](name string, in func(*decoder, at, P) Req) method {
	return method{
		op:  op.ByName(name),
		req: func() proto.Message { return P(new(T)) },
		in:  func(d *decoder, m proto.Message) op.Message { return in(d, at{}, m.(P)) },
	}
}

func unary[T any, P message[T], Req, Res op.Message, Out proto.Message](
	name string, in func(*decoder, at, P) Req, out func(*encoder, Res) Out,
) method {
	m := stream(name, in)
	m.out = func(e *encoder, res op.Message) proto.Message { return out(e, res.(Res)) }
	return m
}

// serve is the whole of a call: what goes wrong in call leaves here as a status.
func (h *Handler) serve(m method, s grpc.ServerStream) (err error) {
	ctx := s.Context()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		if err == nil {
			return
		}
		if t, ok := errors.AsType[transportError](err); ok {
			err = t.error
			return
		}
		if ended(ctx, err) {
			err = status.FromContextError(ctx.Err()).Err()
			return
		}
		e := publish(ctx, h.opts.Log, m.op.Name, err)
		if len(e.Challenge) > 0 {
			s.SetTrailer(metadata.MD{challengeKey: e.Challenge})
		}
		err = toStatus(e).Err()
	}()
	info := callInfo(ctx, m.op.Name)
	if err = h.call(a2a.WithCallInfo(ctx, info), m, s); err != nil {
		_ = announce(s, info) // an error after the first message is too late for a header
	}
	return err
}

func (h *Handler) call(ctx context.Context, m method, s grpc.ServerStream) error {
	c, ok := ctx.Value(callContextKey{}).(*callContext)
	if !ok {
		return errors.New("the grpc.Server was made without ServerOptions")
	}
	info := a2a.CallInfoFrom(ctx)
	if h.opts.Authenticate != nil { // first: whatever a known caller is told counts as one of its requests
		if err := h.opts.Authenticate(ctx, info); err != nil {
			return err
		}
	}
	if err := a2a.CheckVersion(info.Version); err != nil {
		return err
	}
	req, err := h.receive(m, s, c)
	if err != nil {
		return err
	}
	if m.op.Stream != nil {
		return h.stream(ctx, m, s, c, req)
	}
	res, err := m.op.Call(ctx, h.svc, req)
	if err != nil {
		return err
	}
	hold, err := room.Answers.Take(ctx, info, res)
	if err != nil {
		return err
	}
	defer hold.Give()
	var e encoder
	out := m.out(&e, res)
	if e.err != nil {
		return e.err
	}
	return h.send(s, info, out)
}

// receive reads the request.
func (h *Handler) receive(m method, s grpc.ServerStream, c *callContext) (op.Message, error) {
	timer := time.AfterFunc(h.opts.ReadTimeout, c.expire)
	defer timer.Stop()
	in := &incoming{Message: m.req()}
	if err := s.RecvMsg(in); err != nil {
		return nil, transportError{err}
	}
	if in.err != nil {
		return nil, a2a.Errorf(a2a.ErrParse, "the request is not a valid protobuf message of its type, with strings in UTF-8").WithCause(in.err)
	}
	var d decoder
	req := m.in(&d, in.Message)
	if d.err != nil {
		return nil, a2a.InvalidField(d.err.path, "%s", d.err.what)
	}
	return req, nil
}

// stream sends the entries. Nothing is sent before the first, so that an early error is the whole answer.
// An entry that does not leave in time ends the stream; the log's writer never waits for it.
func (h *Handler) stream(ctx context.Context, m method, s grpc.ServerStream, c *callContext, req op.Message) error {
	var timer *time.Timer
	for entry, err := range m.op.Stream(ctx, h.svc, req) {
		if err != nil {
			return err
		}
		first := timer == nil
		if first {
			timer = time.AfterFunc(h.opts.WriteTimeout, c.expire)
			defer timer.Stop()
		} else {
			timer.Reset(h.opts.WriteTimeout)
		}
		if err := h.sendEntry(ctx, s, entry, first); err != nil {
			return err
		}
		timer.Stop()
	}
	return nil
}

func (h *Handler) sendEntry(ctx context.Context, s grpc.ServerStream, entry a2a.Entry, first bool) error {
	info := a2a.CallInfoFrom(ctx)
	hold, err := room.Answers.Take(ctx, info, entry.Event)
	if err != nil {
		return err
	}
	defer hold.Give()
	b, err := entry.Wire(a2a.WireProto, encodeEvent)
	if err != nil {
		return err
	}
	if !first {
		info = nil
	}
	return h.send(s, info, frame(b))
}

// send sends a message and, before the first, what info says.
func (h *Handler) send(s grpc.ServerStream, info *a2a.CallInfo, m any) error {
	if info != nil {
		if err := announce(s, info); err != nil {
			return err
		}
	}
	if err := s.SendMsg(m); err != nil {
		return transportError{err}
	}
	return nil
}

// announce says in the header what is beside the message: which extensions are in effect, and what else the answer
// carries.
func announce(s grpc.ServerStream, info *a2a.CallInfo) error {
	if len(info.Activated) == 0 && len(info.Reply) == 0 {
		return nil
	}
	md := make(metadata.MD, len(info.Reply)+1)
	for name, values := range info.Reply {
		md.Append(name, values...)
	}
	if len(info.Activated) > 0 {
		md.Set(a2a.ExtensionsHeader, strings.Join(info.Activated, ","))
	}
	return s.SetHeader(md)
}

// encodeEvent returns a StreamResponse that holds the event.
func encodeEvent(ev a2a.Event) ([]byte, error) {
	var e encoder
	m := e.streamResponse(ev)
	if e.err != nil {
		return nil, e.err
	}
	return marshal(m)
}

func callInfo(ctx context.Context, operation string) *a2a.CallInfo {
	md, _ := metadata.FromIncomingContext(ctx)
	header := make(http.Header, len(md))
	for k, v := range md {
		if !strings.HasPrefix(k, ":") {
			header[http.CanonicalHeaderKey(k)] = v
		}
	}
	info := &a2a.CallInfo{
		Binding:    a2a.BindingGRPC,
		Operation:  operation,
		Version:    strings.Join(header.Values(a2a.VersionHeader), ","), // two of them are none that is known
		Extensions: a2a.ParseExtensions(header.Values(a2a.ExtensionsHeader)),
		Header:     header,
	}
	if p, ok := peer.FromContext(ctx); ok {
		info.Peer = p.Addr.String()
		if secure, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			info.TLS = &secure.State
		}
	}
	return info
}

// callContext is the context of a call that the handler can end itself when the other end is too slow: that
// is the only way to get a read or a write of a stream back.
type callContext struct {
	context.Context

	cancel  context.CancelFunc
	expired atomic.Bool
}

type callContextKey struct{}

func newCallContext(ctx context.Context, _ *tap.Info) (context.Context, error) {
	c := new(callContext)
	c.Context, c.cancel = context.WithCancel(ctx) // ctx ends with the call
	return c, nil
}

func (c *callContext) expire() {
	c.expired.Store(true)
	c.cancel()
}

// Err says that the call took too long, where the context below only says that it was canceled.
func (c *callContext) Err() error {
	err := c.Context.Err()
	if err != nil && c.expired.Load() {
		return context.DeadlineExceeded
	}
	return err
}

func (c *callContext) Value(key any) any {
	if key == (callContextKey{}) {
		return c
	}
	return c.Context.Value(key)
}
