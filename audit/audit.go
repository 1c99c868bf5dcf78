// Package audit keeps a record of who did what that matters for security: failed authentications, denials, webhooks
// and cancels. It has no content and no credential of anybody.
//
// It is a decorator, like package telemetry: around the authenticator of a host and around its service.
package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"

	"github.com/parley-a2a/parley/a2a"
)

// Log writes the record, one line of JSON for each thing that happened.
type Log struct{ log *slog.Logger }

// Open appends to the file at path, which is made with mode 0600 if there is none. Close the file when the host has
// ended.
func Open(path string) (*Log, *os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("audit: %w", err)
	}
	return New(slog.NewJSONHandler(f, nil)), f, nil
}

// New returns a log that writes to a handler.
func New(h slog.Handler) *Log { return &Log{slog.New(h)} }

// Decisions about a call.
const (
	allowed = "allowed"
	denied  = "denied"
	failed  = "failed" // for another reason than who calls
)

func decision(err error) string {
	switch {
	case err == nil:
		return allowed
	case refuses(err):
		return denied
	}
	return failed
}

// refuses reports whether an error is about who calls.
func refuses(err error) bool {
	return errors.Is(err, a2a.ErrUnauthenticated) || errors.Is(err, a2a.ErrPermissionDenied)
}

// refusal is an error that says why a credential was refused, in a word, and whose it is, where that is beyond doubt.
// Those of package auth do.
type refusal interface {
	error
	Refusal() (reason string, who a2a.Caller)
}

// Authenticate returns next with a record of each call that it refuses: where it came from and for which operation, and what
// is known of its credential. That is why it was refused (otherwise the reason of the error's code) and whose it is if the
// error says so, by a cause with the method Refusal() (reason string, who a2a.Caller).
func (l *Log) Authenticate(next a2a.Authenticate) a2a.Authenticate {
	return func(ctx context.Context, info *a2a.CallInfo) error {
		err := next(ctx, info)
		if err != nil {
			reason, who := a2a.AsError(err).ErrorReason(), a2a.Caller{}
			if r, ok := errors.AsType[refusal](err); ok {
				reason, who = r.Refusal()
			}
			l.log.LogAttrs(ctx, slog.LevelWarn, "authentication", slog.String("decision", denied), slog.String("operation", info.Operation),
				slog.String("binding", info.Binding), slog.String("peer", info.Peer), slog.String("tenant", who.Tenant),
				slog.String("issuer", who.Issuer), slog.String("subject", who.Subject), slog.String("reason", reason))
		}
		return err
	}
}

// CertificateRefused records a connection that was refused because of the client's certificate.
func (l *Log) CertificateRefused(peer string) {
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "authentication", slog.String("decision", denied), slog.String("peer", peer),
		slog.String("reason", "client-certificate"))
}

// write records an operation of a caller.
func (l *Log) write(ctx context.Context, what, task string, err error, more ...slog.Attr) {
	attrs := []slog.Attr{slog.String("decision", decision(err))}
	if info := a2a.CallInfoFrom(ctx); info != nil {
		attrs = append(attrs, slog.String("operation", info.Operation), slog.String("binding", info.Binding), slog.String("peer", info.Peer),
			slog.String("tenant", info.Caller.Tenant), slog.String("issuer", info.Caller.Issuer), slog.String("subject", info.Caller.Subject))
	}
	if task != "" {
		attrs = append(attrs, slog.String("task", task))
	}
	if err != nil {
		attrs = append(attrs, slog.String("reason", a2a.AsError(err).ErrorReason()))
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, what, append(attrs, more...)...) //nolint:sloglint // one of the constants of the callers
}

// denial records a call that was refused because of who calls.
func (l *Log) denial(ctx context.Context, task string, err error) {
	if err != nil && refuses(err) {
		l.write(ctx, "denial", task, err)
	}
}

// origin is where a webhook goes, without what may be a secret in its path.
func origin(raw string) slog.Attr {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return slog.String("origin", "")
	}
	return slog.String("origin", u.Scheme+"://"+u.Host)
}

// Service returns next with a record of webhooks and cancels, and of every refusal.
func (l *Log) Service(next a2a.Service) a2a.Service { return &service{next, l} }

type service struct {
	a2a.Service
	log *Log
}

// CancelTask implements a2a.Service.
func (s *service) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	task, err := s.Service.CancelTask(ctx, req)
	s.log.write(ctx, "cancel", req.ID, err)
	return task, err
}

// CreateTaskPushNotificationConfig implements a2a.Service.
func (s *service) CreateTaskPushNotificationConfig(
	ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	c, err := s.Service.CreateTaskPushNotificationConfig(ctx, req)
	s.log.write(ctx, "webhook", req.TaskID, err, origin(req.URL))
	return c, err
}

// DeleteTaskPushNotificationConfig implements a2a.Service.
func (s *service) DeleteTaskPushNotificationConfig(
	ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	out, err := s.Service.DeleteTaskPushNotificationConfig(ctx, req)
	s.log.write(ctx, "webhook removed", req.TaskID, err, slog.String("webhook", req.ID))
	return out, err
}

// inline records the webhook that comes with a message.
func (s *service) inline(ctx context.Context, req *a2a.SendMessageRequest, err error) {
	task := ""
	if req.Message != nil {
		task = req.Message.TaskID
	}
	if req.Configuration != nil && req.Configuration.TaskPushNotificationConfig != nil {
		s.log.write(ctx, "webhook", task, err, origin(req.Configuration.TaskPushNotificationConfig.URL))
		return
	}
	s.log.denial(ctx, task, err)
}

// SendMessage implements a2a.Service.
func (s *service) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	res, err := s.Service.SendMessage(ctx, req)
	s.inline(ctx, req, err)
	return res, err
}

// SendStreamingMessage implements a2a.Service.
func (s *service) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return s.stream(s.Service.SendStreamingMessage(ctx, req), func(err error) { s.inline(ctx, req, err) }, func(err error) { s.log.denial(ctx, "", err) })
}

// SubscribeToTask implements a2a.Service.
func (s *service) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	deny := func(err error) { s.log.denial(ctx, req.ID, err) }
	return s.stream(s.Service.SubscribeToTask(ctx, req), deny, deny)
}

// stream hears how a stream began, and of an error in it.
func (s *service) stream(entries iter.Seq2[a2a.Entry, error], began, later func(error)) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		first := true
		for e, err := range entries {
			switch {
			case first:
				began(err)
			case err != nil:
				later(err)
			}
			first = false
			if !yield(e, err) {
				return
			}
		}
	}
}

// GetTask implements a2a.Service.
func (s *service) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	task, err := s.Service.GetTask(ctx, req)
	s.log.denial(ctx, req.ID, err)
	return task, err
}

// ListTasks implements a2a.Service.
func (s *service) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	res, err := s.Service.ListTasks(ctx, req)
	s.log.denial(ctx, "", err)
	return res, err
}

// GetTaskPushNotificationConfig implements a2a.Service.
func (s *service) GetTaskPushNotificationConfig(
	ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	c, err := s.Service.GetTaskPushNotificationConfig(ctx, req)
	s.log.denial(ctx, req.TaskID, err)
	return c, err
}

// ListTaskPushNotificationConfigs implements a2a.Service.
func (s *service) ListTaskPushNotificationConfigs(
	ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	res, err := s.Service.ListTaskPushNotificationConfigs(ctx, req)
	s.log.denial(ctx, req.TaskID, err)
	return res, err
}

// GetExtendedAgentCard implements a2a.Service.
func (s *service) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	card, err := s.Service.GetExtendedAgentCard(ctx, req)
	s.log.denial(ctx, "", err)
	return card, err
}
