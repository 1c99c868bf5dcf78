package grpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/parley-a2a/parley/a2a"
)

// MaxResponse is how many bytes a message may have that arrives on a connection of [Dial].
const MaxResponse = 64 << 20

// Dial returns a connection to a target as agent cards name it: host:port, also with http://, https:// or
// grpc:// before it; a port that is missing is 443. It connects when it is first used.
//
// Loopback addresses (127.0.0.0/8, ::1, localhost) are spoken to in plaintext, unless https:// stands before them. All
// others are spoken to over TLS 1.3 with the roots of the system, whatever the prefix says; [WithTLS] has other settings.
// Options in opts win.
func Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	addr, err := address(target)
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS13}
	for _, o := range opts {
		if with, ok := o.(withTLS); ok {
			settings = with.config
		}
	}
	creds := credentials.NewTLS(settings)
	if loopback(addr) && !strings.HasPrefix(strings.ToLower(target), "https://") {
		creds = insecure.NewCredentials()
	}
	return grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxResponse)),
		grpc.WithDisableServiceConfig(), // no retries that whoever answers DNS asks for
	}, opts...)...)
}

// WithTLS returns an option of [Dial], which others ignore: the settings for TLS where a target is spoken to over it,
// such as other roots or a certificate of the client. Which targets those are it does not change.
func WithTLS(config *tls.Config) grpc.DialOption { return withTLS{config: config.Clone()} }

type withTLS struct {
	grpc.EmptyDialOption
	config *tls.Config
}

// address returns the host:port of a target.
func address(target string) (string, error) {
	if !strings.Contains(target, "://") {
		target = "grpc://" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return "", fmt.Errorf("grpc: target %q: want host:port", target)
	}
	port := u.Port()
	switch u.Scheme {
	case "grpc", "http", "https":
	default:
		return "", fmt.Errorf("grpc: target %q: scheme %q is not one of grpc, http and https", target, u.Scheme)
	}
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

func loopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// NewClient returns the service at the other end of a connection.
//
// Of the [a2a.CallInfo] in a call's context it sends Version (empty: [a2a.Version]), Extensions and Header, and
// it fills in Activated. The CallInfo of a request that a handler received, which has a Peer, is sent without
// its Header: what a caller sent to this host, its credentials first of all, is not for the next one.
//
// An error is an [a2a.Error]. When the context of the call ended it, errors.Is finds the context's error.
func NewClient(conn grpc.ClientConnInterface) a2a.Service { return &client{conn} }

type client struct{ conn grpc.ClientConnInterface }

func (c *client) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return invoke(ctx, c, "SendMessage", r, (*encoder).sendMessageRequest, (*decoder).sendMessageResponse)
}

func (c *client) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return open(ctx, c, "SendStreamingMessage", r, (*encoder).sendMessageRequest)
}

func (c *client) GetTask(ctx context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return invoke(ctx, c, "GetTask", r, (*encoder).getTaskRequest, (*decoder).task)
}

func (c *client) ListTasks(ctx context.Context, r *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	res, err := invoke(ctx, c, "ListTasks", r, (*encoder).listTasksRequest, (*decoder).listTasksResponse)
	if err == nil {
		res.WithArtifacts = r.IncludeArtifacts != nil && *r.IncludeArtifacts
	}
	return res, err
}

func (c *client) CancelTask(ctx context.Context, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return invoke(ctx, c, "CancelTask", r, (*encoder).cancelTaskRequest, (*decoder).task)
}

func (c *client) SubscribeToTask(ctx context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return open(ctx, c, "SubscribeToTask", r, (*encoder).subscribeToTaskRequest)
}

func (c *client) CreateTaskPushNotificationConfig(ctx context.Context, r *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	return invoke(ctx, c, "CreateTaskPushNotificationConfig", r, (*encoder).pushConfig, (*decoder).pushConfig)
}

func (c *client) GetTaskPushNotificationConfig(ctx context.Context, r *a2a.GetTaskPushNotificationConfigRequest) (*a2a.TaskPushNotificationConfig, error) {
	return invoke(ctx, c, "GetTaskPushNotificationConfig", r, (*encoder).getPushConfigRequest, (*decoder).pushConfig)
}

func (c *client) ListTaskPushNotificationConfigs(ctx context.Context, r *a2a.ListTaskPushNotificationConfigsRequest) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return invoke(ctx, c, "ListTaskPushNotificationConfigs", r, (*encoder).listPushConfigsRequest, (*decoder).listPushConfigsResponse)
}

func (c *client) GetExtendedAgentCard(ctx context.Context, r *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return invoke(ctx, c, "GetExtendedAgentCard", r, (*encoder).getCardRequest, (*decoder).card)
}

func (c *client) DeleteTaskPushNotificationConfig(ctx context.Context, r *a2a.DeleteTaskPushNotificationConfigRequest) (*a2a.Empty, error) {
	return invoke(ctx, c, "DeleteTaskPushNotificationConfig", r, (*encoder).deletePushConfigRequest, (*decoder).empty)
}

// invoke is a unary call.
func invoke[Req, Res any, Out proto.Message, T any, In message[T]](
	ctx context.Context, c *client, name string, r Req, out func(*encoder, Req) Out, in func(*decoder, at, In) Res,
) (Res, error) {
	var none Res
	req, err := encodeRequest(r, out)
	if err != nil {
		return none, err
	}
	res := In(new(T))
	reply := &incoming{Message: res}
	var header, trailer metadata.MD
	err = c.conn.Invoke(outgoing(ctx), fullMethod(name), req, reply,
		grpc.ForceCodecV2(codec{}), grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		setActivated(ctx, header)
		return none, fromStatus(ctx, err, header, trailer)
	}
	setActivated(ctx, header)
	return decodeReply(reply, res, in)
}

// open is a streaming call.
func open[Req any, Out proto.Message](
	ctx context.Context, c *client, name string, r Req, out func(*encoder, Req) Out,
) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		req, err := encodeRequest(r, out)
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		call, cancel := context.WithCancel(outgoing(ctx))
		defer cancel()
		s, err := c.conn.NewStream(call, &grpc.StreamDesc{StreamName: name, ServerStreams: true}, fullMethod(name), grpc.ForceCodecV2(codec{}))
		if err == nil {
			err = start(s, req)
		}
		if err != nil {
			yield(a2a.Entry{}, fromStatus(ctx, err))
			return
		}
		for first := true; ; first = false {
			res := new(pb.StreamResponse)
			reply := &incoming{Message: res}
			if err := s.RecvMsg(reply); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				header, _ := s.Header()
				if first {
					setActivated(ctx, header)
				}
				yield(a2a.Entry{}, fromStatus(ctx, err, header, s.Trailer()))
				return
			}
			if first {
				header, _ := s.Header() // it is there: a message came after it
				setActivated(ctx, header)
			}
			ev, err := decodeReply(reply, res, (*decoder).streamResponse)
			if !yield(a2a.Entry{Event: ev}, err) || err != nil {
				return
			}
		}
	}
}

// start sends the request of a stream. An io.EOF means that the call has failed; the first receive says why.
func start(s grpc.ClientStream, req proto.Message) error {
	if err := s.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return s.CloseSend()
}

func fullMethod(name string) string { return "/" + service + "/" + name }

func encodeRequest[Req any, Out proto.Message](r Req, out func(*encoder, Req) Out) (Out, error) {
	var e encoder
	req := out(&e, r)
	if e.err != nil {
		return req, a2a.Errorf(a2a.ErrInvalidParams, "the request cannot be sent: %s", e.err.Error())
	}
	return req, nil
}

func decodeReply[In proto.Message, Res any](reply *incoming, m In, in func(*decoder, at, In) Res) (Res, error) {
	var none Res
	if reply.err != nil {
		return none, a2a.Errorf(a2a.ErrInvalidAgentResponse, "the answer is not a valid protobuf message").WithCause(reply.err)
	}
	var d decoder
	res := in(&d, at{}, m)
	if d.err != nil {
		return none, a2a.Errorf(a2a.ErrInvalidAgentResponse, "the answer is not valid: %s", d.err.Error())
	}
	return res, nil
}

// outgoing returns the context of the call with its metadata.
func outgoing(ctx context.Context) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	info := a2a.CallInfoFrom(ctx)
	if info == nil {
		info = new(a2a.CallInfo)
	}
	if info.Peer == "" {
		for name, values := range info.Header {
			if !ofHTTP(name) {
				md.Append(name, values...)
			}
		}
	}
	if len(info.Extensions) > 0 {
		md.Set(a2a.ExtensionsHeader, strings.Join(info.Extensions, ","))
	}
	md.Set(a2a.VersionHeader, cmp.Or(info.Version, a2a.Version))
	return metadata.NewOutgoingContext(ctx, md)
}

// ofHTTP reports whether a header belongs to an HTTP message and not to the call.
func ofHTTP(name string) bool {
	switch strings.ToLower(name) {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
		"keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return true
	}
	return false
}

func setActivated(ctx context.Context, header metadata.MD) {
	if info := a2a.CallInfoFrom(ctx); info != nil {
		info.Activated = a2a.ParseExtensions(header.Get(a2a.ExtensionsHeader))
	}
}
