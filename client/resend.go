package client

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

// sending is one message on its way, however often it takes to send it.
type sending struct {
	c     *Client
	ctx   context.Context
	info  *a2a.CallInfo // of ctx: what is in effect
	req   *a2a.SendMessageRequest
	began time.Time // of the last try
	retry retry
}

func (c *Client) sending(ctx context.Context, req *a2a.SendMessageRequest) *sending {
	s := &sending{c: c, req: identified(req), began: time.Now(), retry: retry{c: c}}
	s.ctx, s.info = withInfo(ctx)
	return s
}

// identified returns the request with an id for its message: req, or a copy.
func identified(req *a2a.SendMessageRequest) *a2a.SendMessageRequest {
	if req.Message == nil || req.Message.MessageID != "" {
		return req
	}
	out, m := *req, *req.Message
	m.MessageID = uuid.NewString()
	out.Message = &m
	return &out
}

// again waits until the message can be sent again, or returns the error that ends it.
func (s *sending) again(lost error) error {
	switch {
	case !transient(lost), s.ctx.Err() != nil, !s.c.declares(s.ctx, extension.SafeRetry):
		return lost
	case unreachable(lost) && s.retry.since.IsZero() && !s.c.reached.Load():
		return lost // it is not known to be there at all
	}
	held := time.Since(s.began) >= s.c.timing.most
	active := s.info.Activated
	for err := lost; ; {
		if s.retry.pause(s.ctx, taskOf(s.req), err) != nil {
			if s.ctx.Err() != nil {
				return s.ctx.Err()
			}
			return lost
		}
		asked := len(active) == 0
		if asked {
			if active, err = s.active(); err != nil && transient(err) {
				continue
			}
		}
		if !slices.Contains(active, extension.SafeRetry) {
			return lost
		}
		if asked && held { // a call that waited long and was cut, and an agent that is there: it may take longer
			s.retry.reset()
		}
		s.began = time.Now()
		return nil
	}
}

// active asks the agent which extensions are in effect for this caller, by a call that changes nothing. The card does
// not know: some callers do not get safe-retry.
func (s *sending) active() ([]string, error) {
	one, none := int32(1), int32(0)
	_, err := s.c.ListTasks(s.ctx, &a2a.ListTasksRequest{PageSize: &one, HistoryLength: &none})
	return s.info.Activated, err
}
