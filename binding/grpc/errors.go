package grpc

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/parley-a2a/parley/a2a"
)

// A status travels in a header block, which some peers refuse beyond 8 KiB: what is for people is cut.
const (
	maxMessage    = 1024 // bytes of a message or a description
	maxViolations = 8
)

// challengeKey is the metadata key of a challenge.
const challengeKey = "www-authenticate"

// transportError is an error of a stream that gRPC made and has dealt with itself.
type transportError struct{ error }

// toStatus returns an error as the status that crosses the wire (specification 10.6).
func toStatus(e *a2a.Error) *status.Status {
	st := status.New(codes.Code(e.Code.Status()), clip(e.Error()))
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Reason: e.ErrorReason(), Domain: a2a.ErrorDomain, Metadata: e.Metadata},
	}
	if len(e.Violations) > 0 {
		bad := new(errdetails.BadRequest)
		for _, v := range e.Violations[:min(len(e.Violations), maxViolations)] {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: clip(v.Field), Description: clip(v.Description),
			})
		}
		details = append(details, bad)
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	for i, d := range details {
		details[i] = protoadapt.MessageV1Of(valid(protoadapt.MessageV2Of(d)))
	}
	if full, err := st.WithDetails(details...); err == nil {
		return full
	}
	return st
}

func clip(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
	}
	return validString(s)
}

// fromStatus returns the error of a call that was made with ctx as an [a2a.Error] whose cause is what gRPC
// said or, if it ended the call, the error of ctx.
func fromStatus(ctx context.Context, err error, md ...metadata.MD) error {
	st := status.Convert(err)
	e := &a2a.Error{Code: a2a.CodeOfStatus(a2a.Status(st.Code())), Message: st.Message()}
	known := false
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != a2a.ErrorDomain || known {
				continue
			}
			known = true
			e.Metadata = d.GetMetadata()
			if code, ok := a2a.CodeOfReason(d.GetReason()); ok {
				e.Code = code
			} else {
				e.Reason = d.GetReason()
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, a2a.FieldViolation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	for _, m := range md {
		e.Challenge = append(e.Challenge, m.Get(challengeKey)...)
	}
	if known {
		return e.WithCause(err)
	}
	switch _, limited := ctx.Deadline(); {
	case st.Code() == codes.Canceled && ctx.Err() != nil:
		err = ctx.Err()
	case st.Code() == codes.DeadlineExceeded && limited:
		err = context.DeadlineExceeded // the other end's clock may be ahead of ctx
	case st.Code() == codes.ResourceExhausted && strings.Contains(st.Message(), "larger than max"):
		e.Code = a2a.ErrTooLarge // what gRPC itself says about a message over the limit, on either end
	case st.Code() == codes.Unavailable:
		e.Message = "the agent cannot be reached: " + reason(st.Message())
	}
	return e.WithCause(err)
}

// reason returns the end of what gRPC says about a broken connection. The addresses before it, which may be
// inner ones, stay in the cause.
func reason(message string) string {
	if i := strings.LastIndex(message, ": "); i >= 0 {
		message = message[i+2:]
	}
	return strings.Trim(message, `"`)
}

// errorIDKey is the metadata of an internal error by which the log can be asked about it.
const errorIDKey = "errorId"

// publish returns what a caller reads of err, and logs what it does not read. An internal error gets a random
// id that stands in both.
func publish(ctx context.Context, log *slog.Logger, operation string, err error) *a2a.Error {
	e := a2a.AsError(err)
	level := slog.LevelDebug
	switch {
	case e.Code == a2a.ErrInternal || !e.Code.Known():
		level = slog.LevelError
		e = withErrorID(e)
	case e.Cause() == nil:
		return e
	case e.Code.HTTP() >= http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("binding", a2a.BindingGRPC), slog.String("operation", operation),
		slog.Int("code", int(e.Code)), slog.String("error", e.Error()),
	}
	if id := e.Metadata[errorIDKey]; id != "" {
		attrs = append(attrs, slog.String(errorIDKey, id))
	}
	if cause := e.Cause(); cause != nil {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	log.LogAttrs(ctx, level, "a request failed", attrs...)
	return e
}

// withErrorID returns e with an id, its own if it came from another host with one.
func withErrorID(e *a2a.Error) *a2a.Error {
	if e.Metadata[errorIDKey] != "" {
		return e
	}
	out := *e
	out.Metadata = map[string]string{errorIDKey: rand.Text()[:10]}
	maps.Copy(out.Metadata, e.Metadata)
	return &out
}

// ended reports whether err is what a call says whose context has ended.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
