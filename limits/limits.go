// Package limits keeps one caller from using up a host, and a call from outliving the credential that it was made with:
// requests by a token bucket, streams by their number, and both by the clock. What a caller's tasks may use (how many
// run, wait and are parked) is for package server; how large a request may be, for the bindings.
package limits

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// Options say how much one caller may ask for. Zero means the default.
//
// A caller is who it was authenticated as, by tenant, issuer and subject, whatever its address. Anonymous callers are
// told apart by their address, those of IPv6 by their network of 64 bits.
type Options struct {
	// Rate is how many requests a second a caller may make for long: 100. Negative: any number.
	Rate float64
	// Burst is how many it may make at once: two seconds' worth.
	Burst int
	// Streams is how many streams of a caller may be open at once: 100. Negative: any number.
	Streams int
	// Callers is how many callers are remembered: 10,000. Beyond, those that were silent for longest are forgotten and
	// begin anew. A caller with a stream is not forgotten.
	Callers int
	// Loopback limits anonymous callers at loopback addresses, too. Without it they are left alone: they are whoever
	// works on this machine. Set it where a proxy on this machine brings in strangers.
	Loopback bool
	// Check returns nil while the credential of the call in ctx is good. ErrUnauthenticated or ErrPermissionDenied ends
	// the call; any other error says that it cannot be known now. It is asked about every call of a named caller that
	// lasts, every 10 s and with 10 s for the answer, and the CallInfo in ctx is a copy. An answer that is itself at
	// most 10 s old has a call end within 30 s of a revocation. Nil: only [a2a.Caller.Expiry] ends calls.
	Check func(ctx context.Context) error
}

func (o *Options) defaults() {
	if o.Rate == 0 {
		o.Rate = 100
	}
	if o.Burst <= 0 {
		o.Burst = int(math.Max(1, math.Ceil(2*o.Rate)))
	}
	if o.Streams == 0 {
		o.Streams = 100
	}
	if o.Callers <= 0 {
		o.Callers = 10_000
	}
}

// Limiter keeps callers within Options, wherever they are met: where they become known by Authenticate, and in front of what
// is looked up by Service.
type Limiter struct {
	check   func(context.Context) error
	callers *callers
}

// New returns a limiter.
func New(opts Options) *Limiter {
	opts.defaults()
	return &Limiter{check: opts.Check, callers: newCallers(opts)}
}

// Authenticate returns next, an authenticator or nil for none, and counts the request once it is known who calls. Whatever
// then becomes of it, also where it is no call at all, it is counted, its answer says what is left, and
// [Limiter.Service] does not count it again.
func (l *Limiter) Authenticate(next a2a.Authenticate) a2a.Authenticate {
	return func(ctx context.Context, info *a2a.CallInfo) error {
		if next != nil {
			if err := next(ctx, info); err != nil {
				return err
			}
		}
		return l.Count(info)
	}
}

// Count counts a request whose caller is known, or returns an error if it is over the limit.
func (l *Limiter) Count(info *a2a.CallInfo) error {
	if info == nil {
		return nil
	}
	info.Counted = l
	return l.callers.count(info, time.Now())
}

// Uncount takes back that a request was counted, for one that another limiter is to count.
func (l *Limiter) Uncount(info *a2a.CallInfo) {
	if info != nil && info.Counted == l {
		info.Counted = nil
		l.callers.uncount(info, time.Now())
	}
}

// Service returns New(opts).Service(next).
func Service(next a2a.Service, opts Options) a2a.Service { return New(opts).Service(next) }

// Service returns next within the limits. It stands in front of everything that is looked up, and counts the requests that
// [Limiter.Authenticate] has not.
//
// A call over a limit is refused with ErrResourceExhausted, whose metadata has the limit's name: requests or streams.
// What is left is said in the headers RateLimit-Policy and RateLimit of every answer.
//
// A call ends with ErrUnauthenticated when its caller's credential does: at its expiry, when Check says so, or when
// Check could not tell for 15 minutes. A stream has that error as its last. Nothing happens to the task.
//
// Calls within the process, without a CallInfo or an address, are not limited.
func (l *Limiter) Service(next a2a.Service) a2a.Service { return &service{next, l} }

type service struct {
	next a2a.Service
	*Limiter
}

// count counts a call unless it is.
func (l *Limiter) count(info *a2a.CallInfo) error {
	if info != nil && info.Counted == l {
		info.Counted = nil // an agent that calls the host again with what it was called with makes another request
		return nil
	}
	return l.callers.count(info, time.Now())
}

// unary is a call of one answer.
func unary[Req, Res any](ctx context.Context, s *service, req Req, call func(a2a.Service, context.Context, Req) (Res, error)) (Res, error) {
	var none Res
	if err := s.count(a2a.CallInfoFrom(ctx)); err != nil {
		return none, err
	}
	ctx, stop := s.watch(ctx)
	defer stop()
	res, err := call(s.next, ctx, req)
	if err == nil {
		return res, nil
	}
	if over := ended(ctx); over != nil {
		return none, over
	}
	return none, err
}

// stream is a call of many.
func stream[Req any](ctx context.Context, s *service, req Req, call func(a2a.Service, context.Context, Req) iter.Seq2[a2a.Entry, error]) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		info := a2a.CallInfoFrom(ctx)
		if err := s.count(info); err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		leave, err := s.callers.open(info)
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		defer leave()
		ctx, stop := s.watch(ctx)
		defer stop()
		for e, err := range call(s.next, ctx, req) {
			if ended(ctx) != nil {
				break // what is in hand came too late
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		if over := ended(ctx); over != nil {
			yield(a2a.Entry{}, over)
		}
	}
}

func (s *service) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return unary(ctx, s, req, a2a.Service.SendMessage)
}

func (s *service) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return stream(ctx, s, req, a2a.Service.SendStreamingMessage)
}

func (s *service) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return unary(ctx, s, req, a2a.Service.GetTask)
}

func (s *service) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return unary(ctx, s, req, a2a.Service.ListTasks)
}

func (s *service) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return unary(ctx, s, req, a2a.Service.CancelTask)
}

func (s *service) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return stream(ctx, s, req, a2a.Service.SubscribeToTask)
}

func (s *service) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary(ctx, s, req, a2a.Service.CreateTaskPushNotificationConfig)
}

func (s *service) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary(ctx, s, req, a2a.Service.GetTaskPushNotificationConfig)
}

func (s *service) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return unary(ctx, s, req, a2a.Service.ListTaskPushNotificationConfigs)
}

func (s *service) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return unary(ctx, s, req, a2a.Service.GetExtendedAgentCard)
}

func (s *service) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return unary(ctx, s, req, a2a.Service.DeleteTaskPushNotificationConfig)
}
