package delegation

import (
	"context"
	"iter"
	"net/http"

	"github.com/parley-a2a/parley/a2a"
)

// TokenSource returns the token for a call: that of an [Exchange] for the next agent, or the agent's own.
type TokenSource interface {
	// Token returns a token that is good for now.
	Token(ctx context.Context) (string, error)
}

// TokenFunc makes a function a TokenSource.
type TokenFunc func(ctx context.Context) (string, error)

// Token calls f.
func (f TokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

// Client returns the operations of another agent as a run behind [Guard] is to call them: messages carry the chain and
// the deadline (see [Request]), no header that says who calls goes along, and the token of the source goes with each
// call as the bearer token. A nil source leaves the credential to next.
//
// Tokens of [Exchange.Source] go to no other address than that agent's: where next is a client of package client, a
// call to another is refused before it is made. Of any other next its maker knows where it leads.
func Client(next a2a.Service, tokens TokenSource) a2a.Service {
	return &caller{next: next, tokens: tokens}
}

// bound is a TokenSource whose tokens are for some addresses only.
type bound interface{ allows(address string) error }

// addressed is a client that says where it calls.
type addressed interface{ Interface() *a2a.AgentInterface }

// check refuses to hand a token to where it does not belong.
func (c *caller) check() error {
	b, ok := c.tokens.(bound)
	if to, known := c.next.(addressed); ok && known {
		return b.allows(to.Interface().URL)
	}
	return nil
}

// caller is another agent as a run calls it.
type caller struct {
	next   a2a.Service
	tokens TokenSource
}

// with returns the context of a call. back gives the caller the answer's side.
func (c *caller) with(ctx context.Context) (out context.Context, back func(), err error) {
	given := a2a.CallInfoFrom(ctx)
	info := &a2a.CallInfo{Header: http.Header{}, Extensions: declared(nil)}
	if given != nil {
		info.Version, info.Extensions = given.Version, declared(given.Extensions)
		if given.Peer == "" { // otherwise its headers are those of a request to us
			info.Header = stripped(given.Header)
		}
	}
	if c.tokens != nil {
		if err := c.check(); err != nil {
			return nil, nil, err
		}
		token, err := c.tokens.Token(ctx)
		if err != nil {
			return nil, nil, err
		}
		info.Header.Set("Authorization", "Bearer "+token)
	}
	return a2a.WithCallInfo(ctx, info), func() {
		if given != nil {
			given.Activated = info.Activated
		}
	}, nil
}

func call[Req, Res any](ctx context.Context, c *caller, req Req,
	f func(a2a.Service, context.Context, Req) (Res, error),
) (Res, error) {
	ctx, back, err := c.with(ctx)
	if err != nil {
		var none Res
		return none, err
	}
	defer back()
	return f(c.next, ctx, req)
}

func stream[Req any](ctx context.Context, c *caller, req Req, refused error,
	f func(a2a.Service, context.Context, Req) iter.Seq2[a2a.Entry, error],
) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		if refused != nil {
			yield(a2a.Entry{}, refused)
			return
		}
		ctx, back, err := c.with(ctx)
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		for e, err := range f(c.next, ctx, req) {
			back()
			if !yield(e, err) {
				return
			}
		}
	}
}

// SendMessage implements a2a.Service.
func (c *caller) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	out, err := Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return call(ctx, c, out, a2a.Service.SendMessage)
}

// SendStreamingMessage implements a2a.Service.
func (c *caller) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	out, err := Request(ctx, req)
	return stream(ctx, c, out, err, a2a.Service.SendStreamingMessage)
}

// SubscribeToTask implements a2a.Service.
func (c *caller) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return stream(ctx, c, req, nil, a2a.Service.SubscribeToTask)
}

// GetTask implements a2a.Service.
func (c *caller) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return call(ctx, c, req, a2a.Service.GetTask)
}

// ListTasks implements a2a.Service.
func (c *caller) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return call(ctx, c, req, a2a.Service.ListTasks)
}

// CancelTask implements a2a.Service.
func (c *caller) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return call(ctx, c, req, a2a.Service.CancelTask)
}

// CreateTaskPushNotificationConfig implements a2a.Service.
func (c *caller) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return call(ctx, c, req, a2a.Service.CreateTaskPushNotificationConfig)
}

// GetTaskPushNotificationConfig implements a2a.Service.
func (c *caller) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return call(ctx, c, req, a2a.Service.GetTaskPushNotificationConfig)
}

// ListTaskPushNotificationConfigs implements a2a.Service.
func (c *caller) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return call(ctx, c, req, a2a.Service.ListTaskPushNotificationConfigs)
}

// DeleteTaskPushNotificationConfig implements a2a.Service.
func (c *caller) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return call(ctx, c, req, a2a.Service.DeleteTaskPushNotificationConfig)
}

// GetExtendedAgentCard implements a2a.Service.
func (c *caller) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return call(ctx, c, req, a2a.Service.GetExtendedAgentCard)
}
