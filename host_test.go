package parley_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/internal/golden"
	"github.com/parley-a2a/parley/internal/op"
)

var allBindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

// TestGreeter holds the smallest agent to its size and calls it on every binding.
func TestGreeter(t *testing.T) {
	source, err := os.ReadFile("examples/greeter/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), "\n"); n > 20 {
		t.Errorf("examples/greeter/main.go has %d lines, the smallest agent at most 20", n)
	}
	bin := filepath.Join(t.TempDir(), "greeter")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./examples/greeter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), bin)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	if !waitReady(t, "http://"+parley.DefaultListen, exited) {
		if strings.Contains(log.String(), "address already in use") {
			t.Skip("the default addresses are taken on this machine: the greeter was built, not run")
		}
		t.Fatalf("the greeter did not start: %s", log.String())
	}
	for _, b := range allBindings {
		c, err := client.New(t.Context(), parley.DefaultListen, client.Options{Transports: []string{b}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
			Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("world")},
		}})
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if task, ok := res.(*a2a.Task); !ok || c.Interface().ProtocolBinding != b || task.Artifacts[0].Text() != "Hello, world!" {
			t.Errorf("%s: %+v", b, res)
		}
		_ = c.Close()
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if err := <-exited; err != nil {
		t.Errorf("after SIGINT: %v\n%s", err, log.String())
	}
}

// waitReady waits until the host at url is ready; it is false if its process exited.
func waitReady(t *testing.T, url string, exited <-chan error) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		select {
		case <-exited:
			return false
		case <-ctx.Done():
			t.Fatal("not ready within 10 s")
		case <-time.After(20 * time.Millisecond):
		}
		if res, err := get(ctx, url+"/readyz"); err == nil {
			_ = res.Body.Close()
			select {
			case <-exited: // another host answered
				return false
			case <-time.After(100 * time.Millisecond):
				return true
			}
		}
	}
}

func get(ctx context.Context, url string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	return http.DefaultClient.Do(r)
}

// TestVersions is case 33: every version on every operation and binding.
func TestVersions(t *testing.T) {
	h := startHost(t, hostOptions{})
	for _, b := range allBindings {
		conn := h.dial(t, b)
		for i := range op.All {
			for version, pass := range map[string]bool{"99.0": false, "1.0.7": true, "1": false, " 1.0 ": true, "": false, "0.3": false} {
				r := golden.Request{Op: op.All[i].Name, JSON: `{"id":"x","taskId":"x"}`, Header: http.Header{"A2a-Version": {version}}}
				if op.All[i].Name == "SendMessage" || op.All[i].Name == "SendStreamingMessage" {
					r.JSON = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}`
				}
				if op.All[i].Name == "GetTask" || op.All[i].Name == "CancelTask" || op.All[i].Name == "SubscribeToTask" {
					r.JSON = `{"id":"x"}`
				}
				if op.All[i].Name == "ListTasks" || op.All[i].Name == "GetExtendedAgentCard" {
					r.JSON = `{}`
				}
				if strings.HasSuffix(op.All[i].Name, "NotificationConfigs") {
					r.JSON = `{"taskId":"x"}`
				}
				_, err := golden.Call(t.Context(), conn, r)
				refused := err != nil && strings.Contains(err.Error(), "VersionNotSupportedError")
				if refused == pass {
					t.Errorf("%s %s with version %q: %v", b, op.All[i].Name, version, err)
				}
			}
		}
	}
}

// TestCard: what HTTP says of the card, and whose requests are taken (specification 8.6, threat B11, case 32).
func TestCard(t *testing.T) {
	h := startHost(t, hostOptions{})
	res, err := get(t.Context(), h.url+a2a.CardPath)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	var card a2a.AgentCard
	if err := card.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	if len(card.SupportedInterfaces) != 3 || card.SupportedInterfaces[0].URL != h.url+"/" || card.SupportedInterfaces[2].URL != h.grpc {
		t.Errorf("interfaces %+v", card.SupportedInterfaces)
	}
	etag := res.Header.Get("ETag")
	if etag == "" || res.Header.Get("Last-Modified") == "" || !strings.Contains(res.Header.Get("Cache-Control"), "max-age") {
		t.Errorf("header %v", res.Header)
	}
	for _, c := range []struct {
		path   string
		header []string
		status int
	}{
		{a2a.CardPath, []string{"If-None-Match", etag}, 304},
		{a2a.CardPath, []string{"If-None-Match", `"other"`}, 200},
		{a2a.CardPath, []string{"Host", "evil.example"}, 403},
		{a2a.CardPath, []string{"Host", "localhost:1"}, 200},
		{a2a.CardPath, []string{"Origin", "https://evil.example"}, 403},
		{a2a.CardPath, []string{"Origin", h.url}, 200},
		{a2a.CardPath, []string{"Origin", "null"}, 403},
		{a2a.CardPath, []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"/healthz", nil, 200},
		{"/readyz", nil, 200},
		{"/healthz", []string{"Host", "10.1.2.3:8080"}, 200}, // as the kubelet asks
		{"/readyz", []string{"Host", "10.1.2.3:8080"}, 200},
		{"/readyz", []string{"Origin", "https://evil.example"}, 403},
		{"/readyz/", []string{"Host", "10.1.2.3:8080"}, 403},
		{"/nothing", nil, 404},
	} {
		res, err := get(t.Context(), h.url+c.path, c.header...)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s %v: %d, want %d", c.path, c.header, res.StatusCode, c.status)
		}
	}
}

func TestPublicURL(t *testing.T) {
	h, err := parley.New(parley.Config{Name: "x", PublicURL: "https://a.example/base/", PublicGRPCURL: "a.example:443"}, agent.Func(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Shutdown(t.Context())
	var urls []string
	for _, i := range h.Card().SupportedInterfaces {
		urls = append(urls, i.URL)
	}
	if got := strings.Join(urls, " "); got != "https://a.example/base/ https://a.example/base/a2a/rest a.example:443" {
		t.Errorf("interfaces %s", got)
	}
	for _, bad := range []string{
		"a.example", "ftp://a.example", "https://a.example/?x=1", "://", "https://me:s3cret@a.example", "https://a.example/#x", "https://:443", "https://a.example/\r\nx",
		"https://me:s3cret@a.example:port",
	} {
		_, err := parley.New(parley.Config{Name: "x", PublicURL: bad}, agent.Func(nil))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the public URL %q: %v", bad, err)
		}
		cfg := parley.Config{PublicURL: bad}
		if cfg.Check() == nil {
			t.Errorf("Check takes the public URL %q", bad)
		}
	}
	for _, bad := range []string{"me:s3cret@a.example:443", "a.example:443?x", "a.example:port", "ftp://a.example", ":443", "a.example\r\nx:443"} {
		_, err := parley.New(parley.Config{Name: "x", PublicGRPCURL: bad}, agent.Func(nil))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the public address of gRPC %q: %v", bad, err)
		}
	}
	for _, good := range []string{"a.example", "https://a.example:443", "[::1]:443"} {
		cfg := parley.Config{PublicGRPCURL: good}
		if err := cfg.Check(); err != nil {
			t.Errorf("the public address of gRPC %q: %v", good, err)
		}
	}
}

// TestCheckPort: a port that does not exist is known before it is listened at.
func TestCheckPort(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:99999": false, "127.0.0.1:-1": false, "127.0.0.1": false, "127.0.0.1:65535": true, "[::1]:0": true} {
		for _, cfg := range []parley.Config{{Listen: addr}, {GRPCListen: addr}} {
			if err := cfg.Check(); (err == nil) != ok {
				t.Errorf("%s: %v", addr, err)
			}
		}
	}
}

// TestListenBeyondLoopback: a host that does not ask who calls does not open itself to a network.
func TestListenBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		cfg parley.Config
		ok  bool
	}{
		{parley.Config{Listen: "0.0.0.0:0", GRPCListen: parley.NoListen}, false},
		{parley.Config{Listen: ":0", GRPCListen: parley.NoListen}, false},
		{parley.Config{Listen: parley.NoListen, GRPCListen: "0.0.0.0:0"}, false},
		{parley.Config{Listen: "0.0.0.0:0", GRPCListen: parley.NoListen, Public: true}, false},
		{parley.Config{Listen: "0.0.0.0:0", GRPCListen: parley.NoListen, BehindTLS: true}, false},
		{parley.Config{Listen: "0.0.0.0:0", GRPCListen: parley.NoListen, Public: true, BehindTLS: true}, true},
		{parley.Config{Listen: "0.0.0.0:0", GRPCListen: parley.NoListen, Public: true, TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, true},
		{parley.Config{Listen: "localhost:0", GRPCListen: "127.0.0.1:0"}, true},
	} {
		c.cfg.Name = "x"
		h, err := parley.New(c.cfg, agent.Func(nil))
		if err != nil {
			t.Fatal(err)
		}
		a, b, err := h.Listeners(t.Context())
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.cfg, err)
		}
		for _, l := range []net.Listener{a, b} {
			if l != nil {
				_ = l.Close()
			}
		}
		h.Shutdown(t.Context())
	}
}

// TestDroppedStreams is case 40: thousands of streams opened, read for a frame and dropped leave nothing.
func TestDroppedStreams(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	h := startHost(t, hostOptions{Running: 1 << 20})
	var dropped atomic.Int64
	transports := []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}
	open := func(total int) {
		const workers = 9
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				c, err := client.New(t.Context(), h.url, client.Options{Transports: []string{transports[w%3]}})
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = c.Close() }()
				for range (total + workers - 1) / workers {
					for _, err := range c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
						Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.DataPart([]map[string]any{{"wait": "gate"}})},
					}}) {
						if err != nil {
							t.Error(err)
							return
						}
						dropped.Add(1)
						break
					}
				}
			})
		}
		wg.Wait()
	}
	open(200) // warm
	h.Open("gate")
	settle(t)
	goroutines, files, heap := level(t)
	dropped.Store(0)
	open(n)
	settle(t)
	g2, f2, h2 := level(t)
	left := (int64(h2) - int64(heap)) / dropped.Load()
	t.Logf("%d streams dropped; goroutines %d → %d, descriptors %d → %d, heap %d → %d MiB, %d bytes of each",
		dropped.Load(), goroutines, g2, files, f2, heap>>20, h2>>20, left)
	if g2 > goroutines+50 || f2 > files+20 || left > 8<<10 { // the tasks are kept
		t.Error("more is left than that")
	}
}

// settle waits until the number of goroutines no longer falls.
func settle(t *testing.T) {
	t.Helper()
	last, same := runtime.NumGoroutine(), 0
	for range 200 {
		<-time.After(20 * time.Millisecond)
		if n := runtime.NumGoroutine(); n < last {
			last, same = n, 0
		} else if same++; same == 10 {
			return
		}
	}
}

func level(t *testing.T) (goroutines, files int, heap uint64) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Logf("no /proc: descriptors are not counted")
	}
	return runtime.NumGoroutine(), len(fds), m.HeapAlloc
}

// TestStoppedReader is case 42 over sockets: a reader that stops reading holds up neither the task nor another
// reader.
func TestStoppedReader(t *testing.T) {
	h := startHost(t, hostOptions{})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	text := strings.Repeat("x", 4096)
	body := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":[{"wait":"gate"},{"chunks":{"texts":["` + text + `"],"times":5000}}]}]}}`
	if _, err := fmt.Fprintf(conn, "POST /a2a/rest/message:stream HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // the head has come; nothing more is read
		t.Fatal(err)
	}
	c, err := client.New(t.Context(), h.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	list, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{})
	if err != nil || len(list.Tasks) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	begin := time.Now()
	n := 0
	for _, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: list.Tasks[0].ID}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 { // not before: the task may end in no time
			h.Open("gate")
		}
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("the other reader needed %v", d)
	}
	task, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: list.Tasks[0].ID})
	if err != nil || task.Status.State != a2a.TaskStateCompleted || len(task.Artifacts[0].Parts) != 5000 || n < 2 {
		t.Errorf("%v, %d frames", err, n)
	}
}
