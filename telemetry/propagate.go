package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-a2a/parley/a2a"
)

// traceContext is all that crosses between hosts.
var traceContext propagation.TraceContext

// extract returns the context of a request with the span that its headers name, as the remote parent.
func extract(ctx context.Context, info *a2a.CallInfo) context.Context {
	if info == nil || info.Header.Get("Traceparent") == "" {
		return ctx
	}
	return traceContext.Extract(ctx, propagation.HeaderCarrier(info.Header))
}

// inject returns a context whose CallInfo tells the other end of the span. It is a copy of info, which others may
// share; nil: there is no span to tell of.
func inject(ctx context.Context, info *a2a.CallInfo) (context.Context, *a2a.CallInfo) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, nil
	}
	out := new(a2a.CallInfo)
	if info != nil {
		*out = *info
	}
	if out.Header = out.Header.Clone(); out.Header == nil || out.Peer != "" {
		out.Header, out.Peer = make(http.Header, 2), ""
	}
	traceContext.Inject(ctx, propagation.HeaderCarrier(out.Header))
	return a2a.WithCallInfo(ctx, out), out
}
