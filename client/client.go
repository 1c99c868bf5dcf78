// Package client finds an agent by its card and calls it: card, then interface, then [a2a.Service].
//
// A [Client] is the agent's operations, as every binding offers them, with what the card adds to a call: the
// interface's tenant, the extensions to declare, and the check of what the agent can do before anything is sent.
// Above the operations it has what callers want of tasks that take their time: [Client.Send] and [Client.Follow]
// are streams that outlive a lost connection, [Client.Wait] waits for a task's end or question, and
// [Client.Tasks] goes through all pages.
//
// Where the card offers Parley's extensions (package extension), a Client uses them by itself, on every binding:
// under task-log entries have their generation, and a lost stream is taken up where it broke; under safe-retry a
// message whose answer was lost is sent again; under chunk-integrity an artifact that was damaged on its way is not
// taken for whole. Without them nothing else changes, and no message is sent twice.
//
// Text of a card, an error or a task is an agent's words: data, which may hold anything.
package client

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/op"
)

// Errors of this package; the others are [*a2a.Error]. All are found with errors.Is.
var (
	// ErrCardNotFound: there is no agent card at the place that was named.
	ErrCardNotFound = errors.New("no agent card there")
	// ErrCardInvalid: what is there is not an agent card, or offers nothing that can be called.
	ErrCardInvalid = errors.New("not a usable agent card")
	// ErrUnreachable: no connection could be made (dial, DNS, TLS), so that a call did nothing at the other
	// end. Of a card it says that no answer came at all.
	ErrUnreachable = httpx.ErrUnreachable
)

// Options say how to find and call an agent. The zero value is good.
type Options struct {
	// HTTP sends the requests for cards and those of the HTTP bindings. Its Timeout would bound whole streams,
	// so it should have none; its CheckRedirect is not used. Nil: a client whose connections must stand within
	// 10 s and that waits for answers without limit.
	HTTP *http.Client
	// Transports are bindings in the order of preference, such as [a2a.BindingGRPC]. One that the card does
	// not offer is skipped; where none is left, and where none is given, the card's order decides.
	Transports []string
	// Extensions are the URIs to declare on every call (A2A-Extensions).
	Extensions []string
	// OnlyExtensions says that no others are declared. Otherwise the client adds task-log, safe-retry and
	// chunk-integrity where the card offers them, and makes use of them. With it, name in Extensions which of the three
	// are to be used. Who passes on what other clients ask for sets it.
	OnlyExtensions bool
	// Header are service parameters to send with every call: HTTP headers, or gRPC metadata. They go to
	// whatever address the card names, so they are no place for credentials.
	Header http.Header
	// GRPC are options for the connection of the gRPC binding, which win over those of this package.
	GRPC []grpc.DialOption
	// Poll is how often Wait and Follow ask where there is no stream: 2 s. While nothing changes the pause
	// grows by half each time, up to five times Poll.
	Poll time.Duration
	// Cache keeps cards. Nil: every card is fetched.
	Cache *CardCache
	// Log hears, at Debug, of retries, reconnects and fallbacks, and at Warn of the first one after all went well and of
	// streams that were damaged on their way.
	// Nil: nobody does.
	Log *slog.Logger
}

func (o *Options) http() *http.Client {
	if o.HTTP != nil {
		return o.HTTP
	}
	return defaultHTTP
}

// defaultHTTP bounds how long a connection takes to stand, and nothing after that: an agent may be silent for as
// long as it likes, and TCP finds out about a host that went away.
var defaultHTTP = &http.Client{Transport: &http.Transport{
	Proxy:               http.ProxyFromEnvironment,
	DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
	TLSHandshakeTimeout: connectTimeout,
	ForceAttemptHTTP2:   true,
	MaxIdleConns:        256,
	MaxIdleConnsPerHost: 64,
	IdleConnTimeout:     90 * time.Second,
	DisableCompression:  true, // a compressed stream waits in buffers on its way
}}

const connectTimeout = 10 * time.Second

// Client calls an agent through one interface of its card. It implements [a2a.Service] and is safe for use by
// several goroutines.
//
// Of the [a2a.CallInfo] in a call's context it sends Version, Extensions and Header in addition to those of the
// Options, and it fills in Activated: the extensions that were in effect, whatever the card says. The tenant of every request is the interface's, whatever the request says
// (specification 8.3.2).
//
// What the card rules out is refused before anything is sent (specification 3.3.4), with the error that the agent
// would answer with.
type Client struct {
	card  *Card
	iface *a2a.AgentInterface
	where string // the interface and the card's others, for errors
	svc   a2a.Service
	close func() error

	extensions []string
	header     http.Header
	poll       time.Duration
	timing     timing
	log        *slog.Logger

	reached atomic.Bool // a call was answered
}

var _ a2a.Service = (*Client)(nil)

// New fetches the card that ref names, see [FetchCard], and returns a client for it, see [Dial].
func New(ctx context.Context, ref string, opts Options) (*Client, error) {
	card, err := FetchCard(ctx, ref, opts)
	if err != nil {
		return nil, err
	}
	return Dial(card, opts)
}

// Dial returns a client for the first interface in the card's order, or in that of Options.Transports, which can
// be used: its binding is one of the three, its protocol version 1.0, its URL an address to call. If there is none
// the error says of each why. It is ErrVersionNotSupported if another protocol version was the reason for any, and
// ErrCardInvalid otherwise.
//
// No connection is made yet, and a call that cannot make one does not go to another interface: its error names the
// others, to be chosen with Options.Transports.
func Dial(card *Card, opts Options) (*Client, error) {
	c := &Client{
		card:       card,
		extensions: slices.Clone(opts.Extensions),
		header:     opts.Header.Clone(),
		poll:       cmp.Or(max(opts.Poll, 0), 2*time.Second),
		timing:     defaultTiming,
		log:        opts.Log,
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if !opts.OnlyExtensions {
		c.extensions = union(c.extensions, c.known())
	}
	if err := c.connect(&opts); err != nil {
		return nil, err
	}
	if len(opts.Transports) > 0 && !slices.Contains(opts.Transports, c.iface.ProtocolBinding) {
		c.log.Debug("no preferred transport can be used", "preferred", opts.Transports, "instead", c.iface.ProtocolBinding)
	}
	return c, nil
}

// Card returns the card that the client was made for.
func (c *Client) Card() *Card { return c.card }

// Interface returns the interface in use.
func (c *Client) Interface() *a2a.AgentInterface { return c.iface }

// Close gives up the connection of the gRPC binding, which ends its calls. With the HTTP bindings it does nothing:
// their connections belong to Options.HTTP.
func (c *Client) Close() error { return c.close() }

// SendMessage implements [a2a.Service].
//
// Where the card offers safe-retry and the call declares it, the message is sent again after a lost connection and
// after ErrUnavailable and ErrResourceExhausted, with the pauses of [Client.Send] or those that the agent asks for
// (at most a minute), until that has failed for a minute. Before that the client makes sure, by an answer of the
// agent, that the extension is in effect for this caller. The agent takes the message once: a call that waited for
// the end of the task waits for that of the same task. All other errors are answers, and final. Without safe-retry
// the message is sent once. With it or without, an agent that this client has never reached is an error
// (ErrUnreachable) at once.
//
// A message without an id is sent with a new one; the request is not changed.
func (c *Client) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	if err := c.checkSend(ctx, req); err != nil {
		return nil, err
	}
	s := c.sending(ctx, req)
	for {
		res, err := call(s.ctx, c, s.req, a2a.Service.SendMessage)
		task, ok := res.(*a2a.Task)
		if ok && err == nil {
			err = checkTask(task, taskOf(req))
		}
		if err == nil {
			return res, nil
		}
		if ok && damaged(err) {
			return c.mended(s.ctx, task, historyLength(req), err)
		}
		if err := s.again(err); err != nil {
			return nil, err
		}
	}
}

// SendStreamingMessage implements [a2a.Service]. It is one stream as the agent sends it; see [Client.Send] for one
// that is taken up again when it is lost. Before the first entry the message is sent again as by
// [Client.SendMessage].
func (c *Client) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		s := c.sending(ctx, req)
		for {
			var lost error
			begun := false
			for e, err := range stream(s.ctx, c, s.req, c.checkSend(ctx, req), taskOf(req), a2a.Service.SendStreamingMessage) {
				if err != nil && !begun {
					lost = err
					break
				}
				begun = true
				if !yield(e, err) {
					return
				}
			}
			if lost == nil {
				return
			}
			if err := s.again(lost); err != nil {
				yield(a2a.Entry{}, err)
				return
			}
		}
	}
}

// GetTask implements [a2a.Service].
func (c *Client) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return checked(req.ID)(call(ctx, c, req, a2a.Service.GetTask))
}

// ListTasks implements [a2a.Service].
func (c *Client) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return call(ctx, c, req, a2a.Service.ListTasks)
}

// CancelTask implements [a2a.Service].
func (c *Client) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return checked(req.ID)(call(ctx, c, req, a2a.Service.CancelTask))
}

// SubscribeToTask implements [a2a.Service]. It is one stream as the agent sends it; see [Client.Follow] for one
// that is taken up again when it is lost.
func (c *Client) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return stream(ctx, c, req, nil, req.ID, a2a.Service.SubscribeToTask)
}

// CreateTaskPushNotificationConfig implements [a2a.Service].
func (c *Client) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	if err := c.checkPush(); err != nil {
		return nil, err
	}
	return call(ctx, c, req, a2a.Service.CreateTaskPushNotificationConfig)
}

// GetTaskPushNotificationConfig implements [a2a.Service].
func (c *Client) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	if err := c.checkPush(); err != nil {
		return nil, err
	}
	return call(ctx, c, req, a2a.Service.GetTaskPushNotificationConfig)
}

// ListTaskPushNotificationConfigs implements [a2a.Service].
func (c *Client) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	if err := c.checkPush(); err != nil {
		return nil, err
	}
	return call(ctx, c, req, a2a.Service.ListTaskPushNotificationConfigs)
}

// DeleteTaskPushNotificationConfig implements [a2a.Service].
func (c *Client) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	if err := c.checkPush(); err != nil {
		return nil, err
	}
	return call(ctx, c, req, a2a.Service.DeleteTaskPushNotificationConfig)
}

// GetExtendedAgentCard implements [a2a.Service].
func (c *Client) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	if !offered(c.card.Capabilities.ExtendedAgentCard) {
		return nil, a2a.Errorf(a2a.ErrUnsupportedOperation,
			"the agent's card offers no extended card (capabilities.extendedAgentCard): what it says to all is all it says")
	}
	return call(ctx, c, req, a2a.Service.GetExtendedAgentCard)
}

// Tasks returns the tasks that req asks for, those of all pages, fetched as they are needed. An error is the last
// yield. PageToken says where to begin; the request is not changed.
func (c *Client) Tasks(ctx context.Context, req *a2a.ListTasksRequest) iter.Seq2[*a2a.Task, error] {
	return func(yield func(*a2a.Task, error) bool) {
		page := *req
		for {
			res, err := c.ListTasks(ctx, &page)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, task := range res.Tasks {
				if !yield(task, nil) {
					return
				}
			}
			switch res.NextPageToken {
			case "":
				return
			case page.PageToken:
				yield(nil, a2a.Errorf(a2a.ErrInvalidAgentResponse, "a page of ListTasks names itself as the next one"))
				return
			}
			page.PageToken = res.NextPageToken
		}
	}
}

func offered(capability *bool) bool { return capability != nil && *capability }

func (c *Client) streams() bool { return offered(c.card.Capabilities.Streaming) }

func (c *Client) checkStreaming() error {
	if c.streams() {
		return nil
	}
	return a2a.Errorf(a2a.ErrUnsupportedOperation,
		"the agent's card offers no streams (capabilities.streaming): use SendMessage and GetTask")
}

func (c *Client) checkPush() error {
	if offered(c.card.Capabilities.PushNotifications) {
		return nil
	}
	return a2a.Errorf(a2a.ErrPushNotificationNotSupported,
		"the agent's card offers no push notifications (capabilities.pushNotifications): follow the task instead")
}

func (c *Client) checkSend(ctx context.Context, req *a2a.SendMessageRequest) error {
	if err := c.checkPrecondition(ctx); err != nil {
		return err
	}
	if req.Configuration == nil || req.Configuration.TaskPushNotificationConfig == nil {
		return nil
	}
	return c.checkPush()
}

type message[T any] interface {
	*T
	op.Message
}

// call makes a unary call.
func call[T any, P message[T], Res any](ctx context.Context, c *Client, req P, f func(a2a.Service, context.Context, P) (Res, error)) (Res, error) {
	ctx, x, err := c.begin(ctx)
	if err != nil {
		var none Res
		return none, err
	}
	defer x.answered()
	res, err := f(c.svc, ctx, addressed(c, req))
	if err == nil {
		c.reached.Store(true)
	}
	if task, ok := any(res).(*a2a.Task); ok && err == nil && task != nil {
		err = x.intact(new(extension.Digests), task)
	}
	return res, c.explain(err)
}

// taskOf returns the id of the task that a message continues, or "".
func taskOf(req *a2a.SendMessageRequest) string {
	if req.Message == nil {
		return ""
	}
	return req.Message.TaskID
}

// checked passes on a task if it is the one with the id.
func checked(id string) func(*a2a.Task, error) (*a2a.Task, error) {
	return func(task *a2a.Task, err error) (*a2a.Task, error) {
		if err == nil {
			err = checkTask(task, id)
		}
		if err != nil {
			return nil, err
		}
		return task, nil
	}
}

// stream makes a streaming call about the task with the id, if there is one yet, unless refused is an error.
func stream[T any, P message[T]](ctx context.Context, c *Client, req P, refused error, id string,
	f func(a2a.Service, context.Context, P) iter.Seq2[a2a.Entry, error],
) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		ctx, x, err := c.begin(ctx)
		if err := cmp.Or(refused, c.checkStreaming(), err); err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		check := streamCheck{id: id}
		var digests extension.Digests
		for e, err := range f(c.svc, ctx, addressed(c, req)) {
			x.answered()
			if err == nil {
				err = check.check(e.Event)
			}
			if err == nil {
				err = x.intact(&digests, e.Event)
			}
			if err != nil {
				yield(a2a.Entry{}, c.explain(err))
				return
			}
			c.reached.Store(true)
			if !yield(x.numbered(e), nil) {
				return
			}
		}
	}
}

// addressed returns a copy of req for the interface in use.
func addressed[T any, P message[T]](c *Client, req P) P {
	out := P(new(T))
	*out = *req
	*op.Field(out, "tenant") = c.iface.Tenant
	return out
}

// exchange is what goes beside one call, and comes back.
type exchange struct {
	given *a2a.CallInfo // the caller's, nil if there is none
	info  *a2a.CallInfo // the call's own
}

// answered gives the answer's side to whoever wants it.
func (x *exchange) answered() {
	if x.given != nil {
		x.given.Activated = x.info.Activated
	}
}

// begin returns the context of a call, with what goes beside the message.
func (c *Client) begin(ctx context.Context) (context.Context, *exchange, error) {
	given := a2a.CallInfoFrom(ctx)
	info := &a2a.CallInfo{Extensions: c.extensions, Header: c.header}
	if given != nil {
		info.Version = given.Version
		info.Extensions = union(c.extensions, given.Extensions)
		if given.Peer == "" { // otherwise it is of a request to us, whose headers are not for the next agent
			info.Header = merge(c.header, given.Header)
		}
	}
	if p := parameters(ctx); len(p) > 0 {
		info.Header = merge(info.Header, p)
	}
	for _, x := range c.card.Capabilities.Extensions {
		if x.Required && !slices.Contains(info.Extensions, x.URI) {
			err := a2a.Errorf(a2a.ErrExtensionSupportRequired,
				"the agent requires the extension %q: declare it (Options.Extensions) if this caller does what it says", x.URI)
			err.Metadata = map[string]string{"extension": x.URI}
			return nil, nil, err
		}
	}
	return a2a.WithCallInfo(ctx, info), &exchange{given, info}, nil
}

func union(a, b []string) []string {
	out := slices.Clip(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// merge returns the headers of both; those of b win.
func merge(a, b http.Header) http.Header {
	out := make(http.Header, len(a)+len(b))
	for _, h := range []http.Header{a, b} {
		for name, values := range h {
			out[http.CanonicalHeaderKey(name)] = values
		}
	}
	return out
}

// explain says of a call that found no connection where it was to go, and where else there is.
func (c *Client) explain(err error) error {
	if !unreachable(err) {
		return err
	}
	e := *a2a.AsError(err)
	e.Message = e.Error() + c.where
	return e.WithCause(errors.Join(ErrUnreachable, e.Cause()))
}
