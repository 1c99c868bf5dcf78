package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/telemetry"
)

// collector is a receiver of OTLP over HTTP that keeps what it gets as protobuf's text.
type collector struct {
	*httptest.Server

	mu                       sync.Mutex
	traces, metrics, trouble strings.Builder
	header                   http.Header
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var req, res proto.Message
	var text *strings.Builder
	switch r.URL.Path {
	case "/v1/traces":
		req, res, text = new(collectortrace.ExportTraceServiceRequest), new(collectortrace.ExportTraceServiceResponse), &c.traces
	case "/v1/metrics":
		req, res, text = new(collectormetrics.ExportMetricsServiceRequest), new(collectormetrics.ExportMetricsServiceResponse), &c.metrics
	default:
		fmt.Fprintln(&c.trouble, r.Method, r.URL)
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, req)
	}
	if err != nil {
		fmt.Fprintln(&c.trouble, r.URL, err)
	}
	c.header = r.Header.Clone()
	fmt.Fprintln(text, req)
	out, _ := proto.Marshal(res)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

// received returns what has come, without the double blanks with which protobuf keeps its text from being parsed.
func (c *collector) received() (traces, metrics, trouble string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	single := func(s string) string { return strings.ReplaceAll(s, "  ", " ") }
	return single(c.traces.String()), single(c.metrics.String()), c.trouble.String()
}

// journal is a log that several goroutines write.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// noEnvironment keeps the variables of the one who runs the tests away from them.
func noEnvironment(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
}

// observed serves the scripted agent on a socket, with its signals going to o, and returns a client.
func observed(t *testing.T, o *observer, log *slog.Logger) a2a.Service {
	t.Helper()
	host, err := parley.New(parley.Config{
		Name: "Watched", Log: log, DefaultInputModes: []string{"text/plain", "application/json", "application/octet-stream"},
		Store: telemetry.Store(taskstore.NewMemory(taskstore.MemoryOptions{}), o.Options),
	}, telemetry.Agent(new(script.Agent), o.Options))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(jsonrpc.NewHandler(telemetry.Service(host.Service(), o.Options), jsonrpc.Options{
		Log: log,
		Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
			info.Caller = a2a.Caller{Tenant: "canary-tenant", Issuer: "https://issuer.example", Subject: "ann", Scopes: []string{"canary-scope"}}
			return nil
		},
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		host.Shutdown(ctx)
		server.Close()
	})
	return jsonrpc.NewClient(server.URL, jsonrpc.ClientOptions{})
}

// observe does what serve does: the ports last.
func observe(t *testing.T, cfg observeConfig) (*observer, error) {
	t.Helper()
	o, err := newObserver(t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	if err := o.meter(t.Context()); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func startObserver(t *testing.T, cfg observeConfig) *observer {
	t.Helper()
	cfg.name, cfg.version = "Watched", "1.2.3"
	if cfg.log == nil {
		cfg.log = new(journal).logger()
	}
	o, err := observe(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return o
}

func scripted(steps string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m", Role: a2a.RoleUser, Parts: []*a2a.Part{{Content: a2a.Data(steps)}},
	}}
}

// scrape reads /metrics over a socket.
func scrape(t *testing.T, o *observer) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", res.Status, err)
	}
	return string(body)
}

// TestMetricsEndpoint scrapes after real calls.
func TestMetricsEndpoint(t *testing.T) {
	noEnvironment(t)
	o := startObserver(t, observeConfig{listen: ":0"})
	svc := observed(t, o, new(journal).logger())
	res, err := svc.SendMessage(t.Context(), scripted(`[{"artifact":{"text":"x"}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := svc.GetTask(t.Context(), &a2a.GetTaskRequest{ID: res.(*a2a.Task).ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "nothing"}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Fatal(err)
	}
	n := 0
	for _, err := range svc.SendStreamingMessage(t.Context(), scripted(`[{"artifact":{"text":"x"}},{"fail":"no"}]`)) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	text := scrape(t, o)
	for _, want := range []string{
		`a2a_server_operation_duration_seconds_count{a2a_binding="JSONRPC",a2a_operation="SendMessage",a2a_outcome="ok"} 1`,
		`a2a_server_operation_duration_seconds_count{a2a_binding="JSONRPC",a2a_operation="GetTask",a2a_outcome="ok"} 1`,
		`a2a_server_operation_duration_seconds_count{a2a_binding="JSONRPC",a2a_operation="GetTask",a2a_outcome="TASK_NOT_FOUND"} 1`,
		`a2a_server_operation_duration_seconds_bucket{a2a_binding="JSONRPC",a2a_operation="GetTask",a2a_outcome="ok",le="3600"} 1`,
		fmt.Sprintf(`a2a_server_stream_events_total{a2a_binding="JSONRPC",a2a_operation="SendStreamingMessage"} %d`, n),
		`a2a_server_active_streams{a2a_binding="JSONRPC",a2a_operation="SendStreamingMessage"} 0`,
		`a2a_agent_run_duration_seconds_count{a2a_outcome="ok"} `,
		`a2a_agent_active_runs `,
		`a2a_store_operation_duration_seconds_count{a2a_outcome="ok",a2a_store_method="Commit"} `,
		`a2a_store_operation_duration_seconds_count{a2a_outcome="NOT_FOUND",a2a_store_method="Task"} 1`,
		`a2a_task_created_total 2`,
		`a2a_task_ended_total{a2a_task_state="TASK_STATE_COMPLETED"} 1`,
		`a2a_task_ended_total{a2a_task_state="TASK_STATE_FAILED"} 1`,
		`service_name="Watched",service_version="1.2.3"`,
		"go_goroutines ", "process_cpu_seconds_total ", "go_build_info{",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "a2a_") && !strings.Contains(line, "_bucket") {
				t.Log(line)
			}
		}
	}
	o.close()
	if _, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(o.url, "http://"), "/metrics")); err == nil {
		t.Error("/metrics is still there after the end")
	}
}

// TestOTLP: spans and metrics arrive at a receiver, at the end at the latest.
func TestOTLP(t *testing.T) {
	noEnvironment(t)
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=9.9,deployment.environment.name=test")
	log := new(journal)
	o := startObserver(t, observeConfig{log: log.logger()})
	svc := observed(t, o, log.logger())
	res, err := svc.SendMessage(t.Context(), scripted(`[{"artifact":{"text":"x"}}]`))
	if err != nil {
		t.Fatal(err)
	}
	o.close()
	traces, metrics, trouble := c.received()
	if trouble != "" {
		t.Errorf("the receiver had trouble: %s", trouble)
	}
	task := res.(*a2a.Task)
	for _, want := range []string{
		`name:"SendMessage" kind:SPAN_KIND_SERVER`, `name:"Handle" kind:SPAN_KIND_INTERNAL`,
		`key:"a2a.task.id" value:{string_value:"` + task.ID + `"}`,
		`key:"a2a.caller.subject" value:{string_value:"ann"}`, `key:"a2a.binding" value:{string_value:"JSONRPC"}`,
		`key:"service.name" value:{string_value:"Watched"}`, `key:"service.version" value:{string_value:"9.9"}`,
		`key:"deployment.environment.name" value:{string_value:"test"}`,
	} {
		if !strings.Contains(traces, want) {
			t.Errorf("the traces have no %s:\n%s", want, traces)
		}
	}
	for _, want := range []string{
		`name:"a2a.server.operation.duration"`, `name:"a2a.agent.run.duration"`, `name:"a2a.store.operation.duration"`,
		`name:"a2a.task.created"`, `unit:"s"`, `key:"service.name" value:{string_value:"Watched"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s:\n%s", want, metrics)
		}
	}
	if strings.Contains(metrics, task.ID) || strings.Contains(metrics, `"ann"`) {
		t.Errorf("the metrics have the task's id or the caller:\n%s", metrics)
	}
	if got := c.header.Get("Authorization"); got != "Bearer canary" {
		t.Errorf("the receiver got the authorization %q", got)
	}
	if strings.Contains(log.String(), "canary") {
		t.Errorf("the receiver's credential is in the log:\n%s", log)
	}
	if !strings.Contains(log.String(), "operation=SendMessage") {
		t.Errorf("the log has no line about the call:\n%s", log)
	}
}

// TestNothingIsSent: without the environment's word there are no signals, and each signal has its own word.
func TestNothingIsSent(t *testing.T) {
	for name, c := range map[string]struct {
		env             [][2]string
		traces, metrics bool
	}{
		"nothing":             {},
		"an endpoint":         {env: [][2]string{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}}, traces: true, metrics: true},
		"one for traces":      {env: [][2]string{{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1"}}, traces: true},
		"one for metrics":     {env: [][2]string{{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1"}}, metrics: true},
		"an exporter":         {env: [][2]string{{"OTEL_TRACES_EXPORTER", "otlp"}}, traces: true},
		"no metrics":          {env: [][2]string{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, {"OTEL_METRICS_EXPORTER", "none"}}, traces: true},
		"switched off":        {env: [][2]string{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, {"OTEL_SDK_DISABLED", "true"}}},
		"a header, no target": {env: [][2]string{{"OTEL_EXPORTER_OTLP_HEADERS", "a=b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			noEnvironment(t)
			for _, kv := range c.env {
				t.Setenv(kv[0], kv[1])
			}
			o := startObserver(t, observeConfig{})
			if traces, metrics := o.traces != nil, o.meters != nil; traces != c.traces || metrics != c.metrics {
				t.Errorf("traces %v, metrics %v; want %v, %v", traces, metrics, c.traces, c.metrics)
			}
			if o.url != "" {
				t.Errorf("metrics are served at %s", o.url)
			}
		})
	}
}

func TestMetricsAddress(t *testing.T) {
	for addr, want := range map[string]string{":9464": "127.0.0.1:9464", "0.0.0.0:1": "0.0.0.0:1", "[::1]:1": "[::1]:1", "localhost:0": "localhost:0"} {
		if got, err := localAddress("metrics-listen", addr); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", addr, got, err, want)
		}
	}
}

func TestObserveRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		listen string
		env    [][2]string
	}{
		"an address without a port": {listen: "localhost"},
		"an unknown exporter":       {env: [][2]string{{"OTEL_TRACES_EXPORTER", "pigeon"}}},
		"unknown metrics":           {listen: ":0", env: [][2]string{{"OTEL_METRICS_EXPORTER", "pigeon"}}},
		"an unknown protocol":       {env: [][2]string{{"OTEL_TRACES_EXPORTER", "otlp"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "pigeon"}}},
	} {
		t.Run(name, func(t *testing.T) {
			noEnvironment(t)
			for _, kv := range c.env {
				t.Setenv(kv[0], kv[1])
			}
			o, err := observe(t, observeConfig{name: "x", listen: c.listen, log: new(journal).logger()})
			var f *failure
			if !errors.As(err, &f) || f.code != errUsage || o != nil {
				t.Errorf("observe: %v, %v", o, err)
			}
		})
	}
	noEnvironment(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := observe(t, observeConfig{listen: l.Addr().String(), log: new(journal).logger()}); !strings.Contains(fmt.Sprint(err), "in use: take another address with --metrics-listen") {
		t.Errorf("an address that is taken: %v", err)
	}
}

// TestBadResource: attributes that cannot be read are a warning, and the agent runs.
func TestBadResource(t *testing.T) {
	noEnvironment(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "no equals sign")
	log := new(journal)
	o := startObserver(t, observeConfig{listen: ":0", log: log.logger()})
	if text := scrape(t, o); !strings.Contains(text, `service_name="Watched"`) || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the log:\n%s\n/metrics:\n%s", log, text)
	}
}

// TestFlushIsBounded: a receiver that never answers does not keep the process, and the log says what was lost.
func TestFlushIsBounded(t *testing.T) {
	noEnvironment(t)
	hang := make(chan struct{})
	asked := make(chan struct{}, 8)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-hang }))
	defer server.Close()
	defer close(hang)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	log := new(journal)
	o := startObserver(t, observeConfig{log: log.logger()})
	if o.flush != 5*time.Second {
		t.Errorf("the last signals have %v", o.flush)
	}
	o.flush = 100 * time.Millisecond
	svc := observed(t, o, new(journal).logger())
	if _, err := svc.SendMessage(t.Context(), scripted(`[]`)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	o.close()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("close took %v", took)
	}
	<-asked
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the log says nothing of the loss:\n%s", log)
	}
}

// TestCanary puts secrets and content into every field that a caller, an agent and an error have, and looks for them
// in every signal (threat B4).
func TestCanary(t *testing.T) {
	noEnvironment(t)
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	log := new(journal)
	o := startObserver(t, observeConfig{listen: "127.0.0.1:0", log: log.logger()})
	svc := observed(t, o, new(journal).logger())

	const canary = "canary-7f3a"
	n := 0
	secret := func() string { n++; return fmt.Sprintf("%s-%d", canary, n) }
	metadata := func() a2a.Struct { return a2a.Struct{secret(): []byte(`"` + secret() + `"`)} }
	message := func(steps string) *a2a.SendMessageRequest {
		r := scripted(steps)
		m := r.Message
		m.MessageID, m.Metadata, m.Extensions, m.ReferenceTaskIDs = secret(), metadata(), []string{secret()}, []string{secret()}
		for _, content := range []a2a.Content{a2a.Text(secret()), a2a.Raw(secret()), a2a.URL("https://" + secret()), a2a.Data(`{"` + secret() + `":"` + secret() + `"}`)} {
			m.Parts = append(m.Parts, &a2a.Part{Content: content, Metadata: metadata(), Filename: secret()})
		}
		r.Metadata = metadata()
		r.Configuration = &a2a.SendMessageConfiguration{AcceptedOutputModes: []string{secret()}}
		return r
	}
	hook := func() *a2a.TaskPushNotificationConfig {
		return &a2a.TaskPushNotificationConfig{
			TaskID: "t1", ID: secret(), URL: "https://user:" + secret() + "@hooks.example/" + secret(), Token: secret(),
			Authentication: &a2a.AuthenticationInfo{Scheme: secret(), Credentials: secret()},
		}
	}
	call := func() context.Context {
		return a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Extensions: []string{"urn:" + secret()}, Header: http.Header{
			"Authorization": {"Bearer " + secret()}, "Cookie": {"session=" + secret()}, "X-Api-Key": {secret()},
			"Baggage": {"user=" + secret()}, "User-Agent": {secret()}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		}})
	}
	for _, steps := range []string{
		`[{"echo":true}]`, `[{"progress":"%s"},{"message":"%s"},{"artifact":{"id":"%s","name":"%s","text":"%s"}},{"complete":"%s"}]`,
		`[{"fail":"%s"}]`, `[{"reject":"%s"}]`, `[{"error":"%s"}]`, `[{"secret":"%s"}]`, `[{"panic":"%s"}]`, `[{"park":"%s"}]`,
		`[{"remember":"%s"},{"recall":true}]`, `[{"reply":"%s"}]`, `[{"refuse":"%s","as":"CONTENT_TYPE_NOT_SUPPORTED"}]`, `[{"refuse":"%s","as":"%s"}]`,
	} {
		for strings.Contains(steps, "%s") {
			steps = strings.Replace(steps, "%s", secret(), 1)
		}
		_, _ = svc.SendMessage(call(), message(steps))
		for _, err := range svc.SendStreamingMessage(call(), message(steps)) {
			_ = err // whatever it says
		}
	}
	withHook := message(`[]`)
	withHook.Configuration.TaskPushNotificationConfig = hook()
	_, _ = svc.SendMessage(call(), withHook)
	_, _ = svc.CreateTaskPushNotificationConfig(call(), hook())
	_, _ = svc.GetTaskPushNotificationConfig(call(), &a2a.GetTaskPushNotificationConfigRequest{TaskID: "t1", ID: secret()})
	_, _ = svc.GetTask(call(), &a2a.GetTaskRequest{Tenant: secret(), ID: "t1"})
	_, _ = svc.ListTasks(call(), &a2a.ListTasksRequest{PageToken: secret()})
	_, _ = svc.CancelTask(call(), &a2a.CancelTaskRequest{ID: "t1", Metadata: metadata()})

	page := scrape(t, o)
	o.close()
	traces, metrics, trouble := c.received()
	if trouble != "" {
		t.Errorf("the receiver had trouble: %s", trouble)
	}
	for name, signal := range map[string]string{"the traces": traces, "the metrics": metrics, "/metrics": page, "the log": log.String()} {
		if i := strings.Index(signal, "canary"); i >= 0 {
			t.Errorf("%s have what a caller or an agent said: …%s…", name, signal[max(0, i-200):min(len(signal), i+100)])
		}
		if !strings.Contains(signal, "INVALID_PARAMS") || !strings.Contains(signal, "INTERNAL_ERROR") {
			t.Errorf("%s have nothing of calls that failed", name)
		}
	}
	for _, state := range []string{"COMPLETED", "FAILED", "REJECTED"} {
		if !strings.Contains(page, "TASK_STATE_"+state) {
			t.Errorf("no task was %s", state)
		}
	}
	if !strings.Contains(traces, "trace_id:") || !strings.Contains(log.String(), "traceId=0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("the caller's trace is not gone on with")
	}
}
