package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-a2a/parley/a2a"
)

// Service returns next with a server's signals around every operation:
//
//   - a span, named like the operation, whose parent is the traceparent and tracestate (W3C Trace Context) of
//     the request. Its status is an error only where the fault is the host's. Baggage is not read: it holds
//     whatever callers like.
//   - a2a.server.operation.duration: how long, by operation, binding and outcome. Its count is the number of
//     calls. A stream's time ends with the stream.
//   - a2a.server.active_streams and a2a.server.stream.events: streams that are open, entries sent on them, by
//     operation and binding.
//   - a line in the log, at the debug level, and at warn for internal errors. The cause of such an error is in
//     the line that the binding writes.
//
// An outcome is "ok" or the reason of the error's code, such as TASK_NOT_FOUND, never one that an agent made
// up. CANCELED: the caller left. A request that a binding refuses by itself, such as one that is no JSON, never gets
// here; for those without a valid credential there is [Authenticate].
func Service(next a2a.Service, opts Options) a2a.Service {
	o := newOperations(next, opts, "a2a.server.", trace.SpanKindServer)
	o.server, o.log = true, opts.log()
	return o
}

// Authenticate returns next, an authenticator of a host's bindings, with a counter a2a.server.authentications of
// what it says, by binding and outcome. UNAUTHENTICATED: there was no credential, or a wrong one. RESOURCE_EXHAUSTED: the
// caller is over its limit of requests, where that is counted in next, as in what a host's Config.WrapAuthenticate gets.
func Authenticate(next a2a.Authenticate, opts Options) a2a.Authenticate {
	count := made(opts.meter().Int64Counter("a2a.server.authentications",
		metric.WithUnit("{authentication}"), metric.WithDescription("Requests, by whether they were let in.")))
	var kept sets
	return func(ctx context.Context, info *a2a.CallInfo) error {
		err := next(ctx, info)
		if count.Enabled(ctx) {
			outcome := outcomeOK
			if err != nil {
				outcome = codeOf(ctx, err).Reason()
			}
			count.Add(ctx, 1, kept.of([3]string{info.Binding, outcome}, func() []attribute.KeyValue {
				return []attribute.KeyValue{bindingKey.String(info.Binding), outcomeKey.String(outcome)}
			}))
		}
		return err
	}
}

// Client returns next, a service at another host, with a client's signals around every operation: a span named
// like the operation, which the other host sees as the parent of its own by the headers traceparent and
// tracestate, and the metrics of [Service] with a2a.client in the place of a2a.server and without the binding.
//
// The headers are added to a copy of the context's CallInfo. If that came with a request to this host, which
// then is passed on, its other headers are left behind, as the clients of all bindings do.
func Client(next a2a.Service, opts Options) a2a.Service {
	return newOperations(next, opts, "a2a.client.", trace.SpanKindClient)
}

func newOperations(next a2a.Service, opts Options, prefix string, kind trace.SpanKind) *operations {
	m := opts.meter()
	return &operations{
		next: next, tracer: opts.tracer(), kind: []trace.SpanStartOption{trace.WithSpanKind(kind)},
		duration: made(m.Float64Histogram(prefix+"operation.duration", longBuckets,
			metric.WithUnit("s"), metric.WithDescription("Duration of calls of operations, streams until their end."))),
		streams: made(m.Int64UpDownCounter(prefix+"active_streams",
			metric.WithUnit("{stream}"), metric.WithDescription("Streams that are open."))),
		events: made(m.Int64Counter(prefix+"stream.events",
			metric.WithUnit("{event}"), metric.WithDescription("Events that went out on streams."))),
	}
}
