package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/taskstore"
)

// sentFor is how long a message that is sent again is the same message.
const sentFor = 24 * time.Hour

// active reports whether the call is under an extension.
func (c *call) active(uri string) bool { return slices.Contains(c.info.Activated, uri) }

// sends holds the messages that are being taken under safe-retry: the same message waits for the first.
type sends struct {
	mu    sync.Mutex
	under map[sendKey]chan struct{} // closed when the message was taken, or refused
}

type sendKey struct {
	scope     taskstore.Scope
	messageID string
}

// begin waits until nobody else takes the message. end lets the next one in.
func (s *sends) begin(ctx context.Context, k sendKey) (end func(), err error) {
	for {
		s.mu.Lock()
		other := s.under[k]
		if other == nil {
			mine := make(chan struct{})
			if s.under == nil {
				s.under = map[sendKey]chan struct{}{}
			}
			s.under[k] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.under, k)
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// sendOnce takes a message unless it was taken before: then the caller joins what came of it.
func (s *Server) sendOnce(ctx context.Context, c *call, req *a2a.SendMessageRequest) (*turn, error) {
	end, err := s.sends.begin(ctx, sendKey{c.scope, req.Message.MessageID})
	if err != nil {
		return nil, err
	}
	defer end()
	hash, err := sendHash(req)
	if err != nil {
		return nil, internal(err)
	}
	if t, err := s.sentBefore(ctx, c, req, hash); t != nil || err != nil {
		return t, err
	}
	c.sent = &taskstore.Sent{MessageID: req.Message.MessageID, Hash: hash, Expires: time.Now().Add(sentFor)}
	t, err := s.take(ctx, c, req)
	if errors.Is(err, taskstore.ErrSent) { // on another node, at the same moment
		return s.sentBefore(ctx, c, req, hash)
	}
	return t, err
}

// sentBefore returns the turn that the message began when it was first taken, nil if it was not.
func (s *Server) sentBefore(ctx context.Context, c *call, req *a2a.SendMessageRequest, hash [32]byte) (*turn, error) {
	sent, err := s.store.Sent(ctx, c.scope, req.Message.MessageID)
	if err != nil || sent == nil {
		return nil, internal(err)
	}
	if sent.Hash != hash {
		return nil, a2a.InvalidField("message.messageId", "another message was sent with this id: give every message an id of its own (extension safe-retry)")
	}
	if sent.Reply == nil {
		return s.joined(ctx, c.key(sent.Task), sent.Generation)
	}
	reply := new(a2a.Message)
	if err := reply.UnmarshalJSON(sent.Reply); err != nil {
		return nil, internal(err)
	}
	return &turn{message: reply}, nil
}

// keepReply records a direct answer for those who send the message again.
func (s *Server) keepReply(ctx context.Context, c *call, reply *a2a.Message) error {
	if c.sent == nil {
		return nil
	}
	c.sent.Reply = reply.AppendJSON(nil)
	_, err := s.store.Commit(context.WithoutCancel(ctx), taskstore.Change{Key: c.key(""), Sent: c.sent})
	return err
}

// sendHash is the same for messages that mean the same, however a binding wrote them.
func sendHash(req *a2a.SendMessageRequest) ([32]byte, error) {
	said := a2a.SendMessageRequest{Message: req.Message, Metadata: req.Metadata}
	canonical, err := jcs.Transform(said.AppendJSON(nil))
	if err != nil {
		return [32]byte{}, fmt.Errorf("server: the message has no canonical form: %w", err)
	}
	return sha256.Sum256(canonical), nil
}

// generation returns the value of a service parameter of task-log, and whether there is one.
func (c *call) generation(name string) (int64, bool, error) {
	if !c.active(extension.TaskLog) {
		return 0, false, nil
	}
	values := c.info.Header.Values(name)
	if len(values) == 0 {
		return 0, false, nil
	}
	var n int64
	if _, err := fmt.Sscanf(values[0], "%d", &n); err != nil || n < 0 || len(values) > 1 || fmt.Sprint(n) != values[0] {
		return 0, false, a2a.InvalidField(name, "must be one generation, a whole number from 0")
	}
	return n, true, nil
}

// mismatch is the answer to a precondition that does not hold.
func mismatch(task string, want, have int64) error {
	e := a2a.Errorf(a2a.ErrTaskGenerationMismatch, "the task is at generation %d, not %d: read it (GetTask) and decide anew", have, want)
	e.Metadata = map[string]string{"taskId": task, "expectedGeneration": fmt.Sprint(want), "currentGeneration": fmt.Sprint(have)}
	return e
}
