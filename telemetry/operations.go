package telemetry

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-a2a/parley/a2a"
)

// operations is an a2a.Service that watches another, at either end of a call.
type operations struct {
	next   a2a.Service
	server bool
	tracer trace.Tracer
	kind   []trace.SpanStartOption
	log    *slog.Logger // of a server

	duration metric.Float64Histogram
	streams  metric.Int64UpDownCounter
	events   metric.Int64Counter
	sets     sets
}

var _ a2a.Service = (*operations)(nil)

// call is one call of an operation.
type call struct {
	o     *operations
	ctx   context.Context // for next
	name  string
	start time.Time
	span  trace.Span
	about subject
	info  *a2a.CallInfo // of whoever calls; may be nil
	sent  *a2a.CallInfo // a client's, in its place

	labels metric.MeasurementOption // of a stream that is counted
}

func (o *operations) begin(ctx context.Context, name string, req any) call {
	c := call{o: o, name: name, start: time.Now(), about: subjectOf(req), info: a2a.CallInfoFrom(ctx)}
	if o.server {
		c.ctx, c.span = o.tracer.Start(extract(ctx, c.info), name, o.kind...)
		return c
	}
	ctx, c.span = o.tracer.Start(ctx, name, o.kind...)
	c.ctx, c.sent = inject(ctx, c.info)
	return c
}

// answered brings back what the answer put into the CallInfo that was sent.
func (c *call) answered() {
	if c.sent != nil && c.info != nil {
		c.info.Activated = c.sent.Activated
	}
}

// attributes are those of the call that a metric has too. A stream that goes on has no outcome.
func (c *call) attributes(outcome string) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 8), operationKey.String(c.name))
	if c.o.server {
		attrs = append(attrs, bindingKey.String(c.binding()))
	}
	if outcome != "" {
		attrs = append(attrs, outcomeKey.String(outcome))
	}
	return attrs
}

// set is the attributes as metrics take them.
func (c *call) set(outcome string) metric.MeasurementOption {
	return c.o.sets.of([3]string{c.name, c.binding(), outcome}, func() []attribute.KeyValue { return c.attributes(outcome) })
}

// binding names the way that a call came by; one from within the process came by none.
func (c *call) binding() string {
	if c.info == nil || c.info.Binding == "" {
		return "none"
	}
	return c.info.Binding
}

func (c *call) caller() a2a.Caller {
	if c.info == nil {
		return a2a.Caller{}
	}
	return c.info.Caller
}

// end records how the call ended.
func (c *call) end(err error) {
	took := time.Since(c.start)
	code, outcome := a2a.ErrorCode(0), outcomeOK
	if err != nil {
		code = codeOf(c.ctx, err)
		outcome = code.Reason()
	}
	if c.o.duration.Enabled(c.ctx) {
		c.o.duration.Record(c.ctx, took.Seconds(), c.set(outcome))
	}
	if c.span.IsRecording() {
		attrs := identity(c.attributes(outcome), c.about, c.caller())
		if err != nil {
			attrs = append(attrs, errorTypeKey.String(outcome))
		}
		if err != nil && (!c.o.server || code.HTTP() >= http.StatusInternalServerError) {
			c.span.SetStatus(codes.Error, "") // what a caller did wrong is no fault of a server
		}
		c.span.SetAttributes(attrs...)
	}
	c.span.End()
	if c.o.server {
		c.write(code, outcome, took)
	}
}

// write writes the call's line into the log.
func (c *call) write(code a2a.ErrorCode, outcome string, took time.Duration) {
	level := slog.LevelDebug
	if code == a2a.ErrInternal {
		level = slog.LevelWarn
	}
	if !c.o.log.Enabled(c.ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 9), slog.String("operation", c.name),
		slog.String("binding", c.binding()), slog.String("outcome", outcome), slog.Duration("duration", took))
	caller := c.caller()
	for _, a := range [...]struct{ key, value string }{
		{"task", c.about.task}, {"context", c.about.context}, {"issuer", caller.Issuer}, {"subject", caller.Subject},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, clip(a.value)))
		}
	}
	if sc := c.span.SpanContext(); sc.HasTraceID() {
		attrs = append(attrs, slog.String("traceId", sc.TraceID().String()))
	}
	c.o.log.LogAttrs(c.ctx, level, "a call ended", attrs...)
}

// errUnwound stands for what did not return: a panic is on its way through.
var errUnwound = errors.New("telemetry: the operation panicked")

// unary watches an operation that has one answer.
func unary[Req, Res any](ctx context.Context, o *operations, name string, req Req,
	f func(a2a.Service, context.Context, Req) (Res, error),
) (Res, error) {
	c := o.begin(ctx, name, req)
	err := errUnwound
	defer func() { c.end(err) }()
	var res Res
	res, err = f(o.next, c.ctx, req)
	c.answered()
	if err == nil {
		c.about.learn(res)
	}
	return res, err
}

// stream watches an operation from when its entries are asked for until there are no more.
func stream[Req any](ctx context.Context, o *operations, name string, req Req,
	f func(a2a.Service, context.Context, Req) iter.Seq2[a2a.Entry, error],
) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		c := o.begin(ctx, name, req)
		err := errUnwound
		defer func() { c.end(err) }()
		if o.streams.Enabled(c.ctx) {
			c.labels = c.set("")
			o.streams.Add(c.ctx, 1, c.labels)
			defer o.streams.Add(c.ctx, -1, c.labels)
		}
		err = c.pass(f(o.next, c.ctx, req), yield)
	}
}

// pass hands the entries on and returns the stream's error. A reader that leaves a task before it has come to
// rest has canceled the call, and so has one whose context ends.
func (c *call) pass(entries iter.Seq2[a2a.Entry, error], yield func(a2a.Entry, error) bool) error {
	rests := false
	for e, err := range entries {
		c.answered()
		if err == nil {
			c.about.learn(e.Event)
			rests = atRest(e.Event)
			if c.labels != nil {
				c.o.events.Add(c.ctx, 1, c.labels)
			}
		}
		switch more := yield(e, err); {
		case err != nil:
			return err
		case !more && !rests:
			return a2a.ErrCanceled
		case !more:
			return nil
		}
	}
	if !rests {
		return c.ctx.Err()
	}
	return nil
}

// atRest reports whether nothing follows the event for now.
func atRest(ev a2a.Event) bool {
	var st a2a.TaskState
	switch ev := ev.(type) {
	case *a2a.Message:
		return true
	case *a2a.Task:
		st = ev.Status.State
	case *a2a.TaskStatusUpdateEvent:
		st = ev.Status.State
	case *a2a.TaskArtifactUpdateEvent:
	}
	return st.Terminal() || st.Interrupted()
}

// SendMessage implements a2a.Service.
func (o *operations) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return unary(ctx, o, "SendMessage", req, a2a.Service.SendMessage)
}

// SendStreamingMessage implements a2a.Service.
func (o *operations) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return stream(ctx, o, "SendStreamingMessage", req, a2a.Service.SendStreamingMessage)
}

// GetTask implements a2a.Service.
func (o *operations) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	return unary(ctx, o, "GetTask", req, a2a.Service.GetTask)
}

// ListTasks implements a2a.Service.
func (o *operations) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return unary(ctx, o, "ListTasks", req, a2a.Service.ListTasks)
}

// CancelTask implements a2a.Service.
func (o *operations) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return unary(ctx, o, "CancelTask", req, a2a.Service.CancelTask)
}

// SubscribeToTask implements a2a.Service.
func (o *operations) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return stream(ctx, o, "SubscribeToTask", req, a2a.Service.SubscribeToTask)
}

// CreateTaskPushNotificationConfig implements a2a.Service.
func (o *operations) CreateTaskPushNotificationConfig(ctx context.Context, req *a2a.TaskPushNotificationConfig,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary(ctx, o, "CreateTaskPushNotificationConfig", req, a2a.Service.CreateTaskPushNotificationConfig)
}

// GetTaskPushNotificationConfig implements a2a.Service.
func (o *operations) GetTaskPushNotificationConfig(ctx context.Context, req *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return unary(ctx, o, "GetTaskPushNotificationConfig", req, a2a.Service.GetTaskPushNotificationConfig)
}

// ListTaskPushNotificationConfigs implements a2a.Service.
func (o *operations) ListTaskPushNotificationConfigs(ctx context.Context, req *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return unary(ctx, o, "ListTaskPushNotificationConfigs", req, a2a.Service.ListTaskPushNotificationConfigs)
}

// GetExtendedAgentCard implements a2a.Service.
func (o *operations) GetExtendedAgentCard(ctx context.Context, req *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return unary(ctx, o, "GetExtendedAgentCard", req, a2a.Service.GetExtendedAgentCard)
}

// DeleteTaskPushNotificationConfig implements a2a.Service.
func (o *operations) DeleteTaskPushNotificationConfig(ctx context.Context, req *a2a.DeleteTaskPushNotificationConfigRequest,
) (*a2a.Empty, error) {
	return unary(ctx, o, "DeleteTaskPushNotificationConfig", req, a2a.Service.DeleteTaskPushNotificationConfig)
}
