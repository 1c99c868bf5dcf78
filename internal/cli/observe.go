package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	nometric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/parley-a2a/parley/telemetry"
)

// observeConfig says whose signals go where. Where OTLP sends to is in the environment, by OpenTelemetry's names.
type observeConfig struct {
	name, version string // of the agent
	listen        string // where /metrics is served; empty: nowhere
	log           *slog.Logger
}

// flushTime is how long the end of the process waits for the last signals to leave.
const flushTime = 5 * time.Second

// observer is where the process's signals go. It has to be closed.
type observer struct {
	telemetry.Options
	flush  time.Duration
	res    *resource.Resource
	listen string                   // where /metrics is to be
	traces *sdktrace.TracerProvider // nil: there are none
	meters *sdkmetric.MeterProvider // nil: there are none
	server *http.Server             // nil: no /metrics
	url    string                   // of /metrics
}

// newObserver starts to send signals as the environment says, and opens no port: meter does. Where nobody asks for any,
// nothing is recorded and nothing leaves.
func newObserver(ctx context.Context, cfg observeConfig) (*observer, error) {
	o := &observer{flush: flushTime, listen: cfg.listen, Options: telemetry.Options{
		TracerProvider: notrace.NewTracerProvider(), MeterProvider: nometric.NewMeterProvider(), Log: cfg.log,
	}}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { cfg.log.Warn("telemetry failed", "err", err) }))
	otel.SetLogger(logr.FromSlogHandler(cfg.log.Handler()))
	o.res = describeProcess(ctx, cfg)
	if err := o.trace(ctx, o.res); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// describeProcess returns who sends: the agent, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES name another.
// The command line is left out; it may hold secrets.
func describeProcess(ctx context.Context, cfg observeConfig) *resource.Resource {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", cfg.name), attribute.String("service.version", cfg.version)),
		resource.WithFromEnv(),
	)
	if err != nil { // of the environment: the rest of it stands
		otel.Handle(err)
	}
	return res
}

// exported reports whether the environment says that a signal is sent, and where to: by OTEL_TRACES_EXPORTER, say,
// or by an OTLP endpoint.
func exported(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	for _, name := range []string{"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

func (o *observer) trace(ctx context.Context, res *resource.Resource) error {
	if !exported("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return usage("the OTEL variables for traces: %s", err.Error())
	}
	if autoexport.IsNoneSpanExporter(exporter) {
		return nil
	}
	o.traces = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	o.TracerProvider = o.traces
	return nil
}

// meter starts to measure, and serves /metrics.
func (o *observer) meter(ctx context.Context) error {
	opts := []sdkmetric.Option{sdkmetric.WithResource(o.res)}
	if o.listen != "" {
		reader, err := o.serve(ctx, o.listen)
		if err != nil {
			return err
		}
		opts = append(opts, sdkmetric.WithReader(reader))
	}
	if exported("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return usage("the OTEL variables for metrics: %s", err.Error())
		}
		if !autoexport.IsNoneMetricReader(reader) {
			opts = append(opts, sdkmetric.WithReader(reader))
		}
	}
	if len(opts) == 1 {
		return nil
	}
	o.meters = sdkmetric.NewMeterProvider(opts...)
	o.MeterProvider = o.meters
	return nil
}

// localAddress returns the address to listen at that a flag names; without a host it is on this machine only.
func localAddress(flag, addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // a number, or a name of this machine's
	}
	if err != nil {
		return "", usage("--%s %q: want HOST:PORT or :PORT", flag, addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serve serves /metrics, with the figures of the Go runtime and the process, and returns the reader behind it.
func (o *observer) serve(ctx context.Context, addr string) (sdkmetric.Reader, error) {
	addr, err := localAddress("metrics-listen", addr)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	reader, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fail(errInternal, "", "%s is in use: take another address with --metrics-listen (port 0: any free one)", addr)
	}
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}))
	o.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 120 * time.Second, MaxHeaderBytes: 16 << 10,
		WriteTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	o.url = "http://" + callable(l) + "/metrics"
	go func() {
		if err := o.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("metrics are no longer served", "err", err)
		}
	}()
	o.Log.Info("metrics are served", "url", o.url)
	return reader, nil
}

// close lets the last signals leave, for five seconds at most, and stops what observe started.
func (o *observer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), o.flush)
	defer cancel()
	var wg sync.WaitGroup
	end := func(shutdown func(context.Context) error) {
		wg.Go(func() {
			if err := shutdown(ctx); err != nil {
				o.Log.Warn("the last signals did not leave", "err", err)
			}
		})
	}
	if o.traces != nil {
		end(o.traces.Shutdown)
	}
	if o.meters != nil {
		end(o.meters.Shutdown)
	}
	wg.Wait()
	if o.server != nil {
		_ = o.server.Close() // a scrape that is under way has nothing left to read
	}
}
