package telemetry_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/telemetry"
)

// BenchmarkGetTask is what a call costs: bare, behind the decorators of a program that set up nothing, behind those
// of one with metrics, and of one that also keeps every span. Once as the engine answers it, and once as a client
// has it over a socket.
func BenchmarkGetTask(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	none := telemetry.Options{Log: quiet}
	metrics := telemetry.Options{Log: quiet, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}
	all := metrics
	all.TracerProvider = sdktrace.NewTracerProvider() // samples all
	for _, c := range []struct {
		name string
		opts *telemetry.Options
	}{{"bare", nil}, {"none", &none}, {"metrics", &metrics}, {"all", &all}} {
		var store taskstore.Store = taskstore.NewMemory(taskstore.MemoryOptions{})
		if c.opts != nil {
			store = telemetry.Store(store, *c.opts)
		}
		var svc a2a.Service = newServer(b, agent.Func(func(context.Context, *agent.Request, *agent.Updater) error { return nil }), store)
		if c.opts != nil {
			svc = telemetry.Service(svc, *c.opts)
		}
		b.Run("engine/"+c.name, func(b *testing.B) {
			info := &a2a.CallInfo{Binding: a2a.BindingJSONRPC, Version: a2a.Version, Header: http.Header{"Content-Type": {"application/json"}}}
			benchGetTask(a2a.WithCallInfo(b.Context(), info), b, svc)
		})
		b.Run("socket/"+c.name, func(b *testing.B) { benchGetTask(b.Context(), b, dial(b, svc)[a2a.BindingJSONRPC]) })
	}
}

func benchGetTask(ctx context.Context, b *testing.B, svc a2a.Service) {
	b.Helper()
	res, err := svc.SendMessage(ctx, hello())
	if err != nil {
		b.Fatal(err)
	}
	req := &a2a.GetTaskRequest{ID: res.(*a2a.Task).ID}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := svc.GetTask(ctx, req); err != nil {
			b.Fatal(err)
		}
	}
}
