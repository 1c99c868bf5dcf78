// Package telemetry makes traces, metrics and log lines of what a host and a client do. It stands around the
// seams that are there anyway and changes nothing that passes through them: [Service] around a host's
// operations, [Agent] around the agent, [Store] around its tasks, [Client] around a service at another host.
//
// It knows the API of OpenTelemetry only. Where its signals go is the program's choice: by the providers in
// [Options], or by those that it registers with package otel. Until it does, nothing is recorded and a call
// costs next to nothing more.
//
// What it writes down of a call are names of this host's own choice (operation, binding, outcome, state) and
// who and what the call is about: the issuer and subject of the caller, the ids of the task and the context.
// Never in any signal: what a message, an artifact or an error says, metadata, file names, headers and
// credentials, the address or the secrets of a webhook, a caller's tenant and scopes. The ids and the caller
// are on spans and in the log; a metric has none of them, so that their number does not become its size.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-a2a/parley/a2a"
)

// scope names who makes these signals.
const scope = "github.com/parley-a2a/parley/telemetry"

// Options say where signals go. The zero value takes the providers that the program registers with package
// otel, before or after, and the default logger.
type Options struct {
	TracerProvider trace.TracerProvider // nil: otel.GetTracerProvider
	MeterProvider  metric.MeterProvider // nil: otel.GetMeterProvider
	Log            *slog.Logger         // nil: slog.Default
}

func (o *Options) tracer() trace.Tracer {
	p := o.TracerProvider
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return p.Tracer(scope)
}

func (o *Options) meter() metric.Meter {
	p := o.MeterProvider
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return p.Meter(scope)
}

func (o *Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}

// Attributes of metrics and spans.
const (
	operationKey = attribute.Key("a2a.operation")    // such as SendMessage
	bindingKey   = attribute.Key("a2a.binding")      // such as JSONRPC
	outcomeKey   = attribute.Key("a2a.outcome")      // see outcome
	methodKey    = attribute.Key("a2a.store.method") // such as Commit
	stateKey     = attribute.Key("a2a.task.state")   // such as TASK_STATE_COMPLETED
)

// Attributes of spans only.
const (
	taskKey      = attribute.Key("a2a.task.id")
	contextKey   = attribute.Key("a2a.context.id")
	issuerKey    = attribute.Key("a2a.caller.issuer")
	subjectKey   = attribute.Key("a2a.caller.subject")
	errorTypeKey = attribute.Key("error.type") // the outcome of what went wrong
)

// Outcomes besides the reasons of package a2a's errors.
const (
	outcomeOK          = "ok"
	outcomeInterrupted = "INTERRUPTED" // a run that the host ended: a restart, silence, a task lost to another node
)

// Boundaries of histograms, in seconds. Calls and runs may take as long as the work; a commit may not.
var (
	longBuckets  = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
	shortBuckets = metric.WithExplicitBucketBoundaries(.00001, .000025, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
)

// sets keeps the attribute sets that a metric is recorded with: there are few, and making one costs more than the
// record. Its zero value is ready.
type sets struct {
	mu  sync.RWMutex
	all map[[3]string]metric.MeasurementOption
}

// of returns the set of the key, made by attrs when it is new.
func (s *sets) of(key [3]string, attrs func() []attribute.KeyValue) metric.MeasurementOption {
	s.mu.RLock()
	set := s.all[key]
	s.mu.RUnlock()
	if set != nil {
		return set
	}
	set = metric.WithAttributeSet(attribute.NewSet(attrs()...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[3]string]metric.MeasurementOption{}
	}
	s.all[key] = set
	return set
}

// made returns an instrument. A meter gives one even with an error, which is about its name or description.
func made[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

// codeOf returns the code of a call's error as its caller gets it; the end of the call's own context is the
// caller's doing.
func codeOf(ctx context.Context, err error) a2a.ErrorCode {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return a2a.ErrCanceled
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return a2a.ErrRequestTimeout
	}
	if code := a2a.AsError(err).Code; code.Known() {
		return code
	}
	return a2a.ErrInternal
}

// subject is the task and the context that something is about, as far as it says.
type subject struct{ task, context string }

// subjectOf reads a request, a result or an event.
func subjectOf(v any) subject {
	switch v := v.(type) {
	case *a2a.SendMessageRequest:
		return subjectOf(v.Message)
	case *a2a.Message:
		if v != nil {
			return subject{v.TaskID, v.ContextID}
		}
	case *a2a.Task:
		return subject{v.ID, v.ContextID}
	case *a2a.TaskStatusUpdateEvent:
		return subject{v.TaskID, v.ContextID}
	case *a2a.TaskArtifactUpdateEvent:
		return subject{v.TaskID, v.ContextID}
	case *a2a.GetTaskRequest:
		return subject{task: v.ID}
	case *a2a.CancelTaskRequest:
		return subject{task: v.ID}
	case *a2a.SubscribeToTaskRequest:
		return subject{task: v.ID}
	case *a2a.ListTasksRequest:
		return subject{context: v.ContextID}
	case *a2a.TaskPushNotificationConfig:
		return subject{task: v.TaskID}
	case *a2a.GetTaskPushNotificationConfigRequest:
		return subject{task: v.TaskID}
	case *a2a.ListTaskPushNotificationConfigsRequest:
		return subject{task: v.TaskID}
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		return subject{task: v.TaskID}
	}
	return subject{}
}

// learn adds what v says and s does not know yet. An answer knows the ids better than the request.
func (s *subject) learn(v any) {
	found := subjectOf(v)
	if found.task != "" {
		s.task = found.task
	}
	if found.context != "" {
		s.context = found.context
	}
}

// identity appends the attributes of who and what a span is about.
func identity(attrs []attribute.KeyValue, s subject, c a2a.Caller) []attribute.KeyValue {
	for _, a := range [...]struct {
		key   attribute.Key
		value string
	}{{taskKey, s.task}, {contextKey, s.context}, {issuerKey, c.Issuer}, {subjectKey, c.Subject}} {
		if a.value != "" {
			attrs = append(attrs, a.key.String(clip(a.value)))
		}
	}
	return attrs
}

// clip bounds what a caller's words take up in a signal, and leaves only what its encodings can carry.
func clip(s string) string {
	const limit = 128
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
