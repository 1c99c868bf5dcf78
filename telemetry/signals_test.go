package telemetry_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parley-a2a/parley/telemetry"
)

// signals is a program's own end of its signals.
type signals struct {
	telemetry.Options
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader

	mu  sync.Mutex
	log bytes.Buffer
}

func newSignals() *signals {
	s := &signals{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	s.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	s.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader))
	s.Log = slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return s
}

// Write takes the log.
func (s *signals) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

// lines returns what was logged so far and forgets it.
func (s *signals) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Split(strings.TrimSpace(s.log.String()), "\n")
	s.log.Reset()
	return out
}

// span returns the only span of this name that has ended.
func (s *signals) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, sp := range s.spans.Ended() {
		if sp.Name() == name {
			found = append(found, sp)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %q, want 1", len(found), name)
	}
	return found[0]
}

// attributes returns a list as a map of texts.
func attributes(list []attribute.KeyValue) map[string]string {
	out := make(map[string]string, len(list))
	for _, kv := range list {
		out[string(kv.Key)] = kv.Value.String()
	}
	return out
}

// values returns a metric's sums, of a histogram its counts, by the attribute values in the order of their names.
func (s *signals) values(t *testing.T, name string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					out[joined(p.Attributes)] += p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					out[joined(p.Attributes)] += int64(p.Count)
				}
			default:
				t.Fatalf("%s is a %T", name, data)
			}
		}
	}
	return out
}

func joined(set attribute.Set) string {
	var values []string
	for _, kv := range set.ToSlice() { // sorted
		values = append(values, kv.Value.String())
	}
	return strings.Join(values, " ")
}
