package push

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/loopback"
	"github.com/parley-a2a/parley/taskstore"
)

func memory() *taskstore.Memory { return taskstore.NewMemory(taskstore.MemoryOptions{}) }

// Cases 25 and 27: a configuration that came with the message gets the Task and then every entry, the terminal
// one included, each exactly the bytes of a StreamResponse.
func TestInlineConfiguration(t *testing.T) {
	s, r := memory(), newRecorder(t)
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	h := prepared(t, p, key, a2a.TaskPushNotificationConfig{
		URL: r.URL + "/hook?k=v", Token: "tok", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "c"},
	})
	if h.Config.ID == "" || h.Config.TaskID != key.Task {
		t.Errorf("prepared %+v", h.Config)
	}
	want := bodies(create(t, s, key, h))
	want = append(want, bodies(write(t, s, key, status("t1", a2a.TaskStateWorking), chunk("t1", 1), chunk("t1", 2), status("t1", a2a.TaskStateCompleted)))...)
	got := r.take(t, len(want))
	wantBodies(t, got, want...)
	for _, q := range got {
		for name, want := range map[string]string{
			"Content-Type": "application/a2a+json", "Authorization": "Bearer c", TokenHeader: "tok", SignatureHeader: "",
		} {
			if v := q.header.Get(name); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
	}
	hook := hookWhen(t, s, key, h.Config.ID, done)
	if hook.Failure != "" || hook.Delivered != int64(len(want)) {
		t.Errorf("recorded %+v", hook)
	}
	r.quiet(t)
	until(t, func() bool { return p.count() == 0 }) // the end is recorded a moment before
}

// A registration of its own gets the Task as it is then, and every later entry; that of a finished task the Task.
func TestLateConfiguration(t *testing.T) {
	s, r := memory(), newRecorder(t)
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	create(t, s, key, nil)
	write(t, s, key, status("t1", a2a.TaskStateWorking), chunk("t1", 1))
	snap, err := s.Task(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := string(a2a.AppendStreamResponse(nil, snap.Task))
	id := register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
	wantBodies(t, r.take(t, 1), first)
	want := bodies(write(t, s, key, chunk("t1", 2), status("t1", a2a.TaskStateFailed)))
	wantBodies(t, r.take(t, 2), want...)
	hookWhen(t, s, key, id, done)

	snap, err = s.Task(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	late := register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
	wantBodies(t, r.take(t, 1), string(a2a.AppendStreamResponse(nil, snap.Task)))
	hookWhen(t, s, key, late, done)
	r.quiet(t)
}

// Case 26: the receiver that is slow delays nobody else.
func TestSlowReceiver(t *testing.T) {
	s, slow, quick := memory(), newRecorder(t), newRecorder(t)
	release := make(chan struct{})
	slow.do(func(http.ResponseWriter, *http.Request) bool { <-release; return false })
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	want := bodies(create(t, s, key, nil))
	register(t, p, key, a2a.TaskPushNotificationConfig{URL: slow.URL})
	register(t, p, key, a2a.TaskPushNotificationConfig{URL: quick.URL})
	for i := range 5 {
		want = append(want, bodies(write(t, s, key, chunk("t1", i)))...)
	}
	want = append(want, bodies(write(t, s, key, status("t1", a2a.TaskStateCompleted)))...)
	got := quick.take(t, len(want)) // all of them, while the slow one has not answered the first
	close(release)
	wantBodies(t, got[1:], want[1:]...)
	wantBodies(t, slow.take(t, len(want))[1:], want[1:]...)
}

// However many receivers do not answer, one that does is served.
func TestManySlowReceivers(t *testing.T) {
	s, quick := memory(), newRecorder(t)
	p := newPush(t, s, Options{})
	release := make(chan struct{})
	defer close(release)
	var held atomic.Int64
	all := make(chan struct{})
	for i := range maxTurns {
		slow := newRecorder(t)
		slow.do(func(http.ResponseWriter, *http.Request) bool {
			if held.Add(1) == int64(maxOfClass[newClass]) {
				close(all)
			}
			<-release
			return false
		})
		key := keyOf(fmt.Sprintf("slow%d", i))
		create(t, s, key, nil)
		register(t, p, key, a2a.TaskPushNotificationConfig{URL: slow.URL})
		if i == 0 {
			key := keyOf("quick")
			create(t, s, key, nil)
			register(t, p, key, a2a.TaskPushNotificationConfig{URL: quick.URL})
			quick.take(t, 1)
			// From here on the limit of unproven origins, which are all on one host, is not what is tested.
			p.mu.Lock()
			p.limit("127.0.0.1").SetBurst(1000)
			p.limit("127.0.0.1").SetLimit(1e6)
			p.mu.Unlock()
		}
	}
	<-all
	for i := range 20 {
		write(t, s, keyOf("quick"), chunk("quick", i))
		quick.take(t, 1)
	}
	if n := held.Load(); n != int64(maxOfClass[newClass]) {
		t.Errorf("%d turns are held by receivers that do not answer, want %d", n, maxOfClass[newClass])
	}
}

// Receivers that are known to fail are not in the way of one of whom nothing is known yet.
func TestManyFailedReceivers(t *testing.T) {
	s, fresh := memory(), newRecorder(t)
	p := newPush(t, s, Options{})
	p.mu.Lock()
	p.limit("127.0.0.1").SetBurst(1000)
	p.limit("127.0.0.1").SetLimit(1e6)
	p.mu.Unlock()
	release := make(chan struct{})
	defer close(release)
	var held atomic.Int64
	all := make(chan struct{})
	for i := range maxTurns {
		bad := newRecorder(t)
		var tries atomic.Int64
		bad.do(func(w http.ResponseWriter, _ *http.Request) bool {
			if tries.Add(1) > 1 { // it is known by now
				if held.Add(1) == int64(maxOfClass[failedClass]) {
					close(all)
				}
				<-release
			}
			w.WriteHeader(http.StatusInternalServerError)
			return false
		})
		key := keyOf(fmt.Sprintf("bad%d", i))
		create(t, s, key, nil)
		register(t, p, key, a2a.TaskPushNotificationConfig{URL: bad.URL})
	}
	<-all
	key := keyOf("fresh")
	create(t, s, key, nil)
	register(t, p, key, a2a.TaskPushNotificationConfig{URL: fresh.URL})
	fresh.take(t, 1)
}

// Case 28: the receiver is down, the host is started anew, and then the receiver is back: it gets every entry in
// order.
func TestDownAcrossRestart(t *testing.T) {
	s := memory()
	addr := loopback.Address(t) // nobody listens there for now
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	h := prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: "http://" + addr})
	want := bodies(create(t, s, key, h))
	want = append(want, bodies(write(t, s, key, chunk("t1", 1)))...)
	failed := hookWhen(t, s, key, h.Config.ID, func(h taskstore.Webhook) bool { return h.Attempts > 0 })
	if !strings.Contains(failed.Failure, "refused") || failed.Begun {
		t.Errorf("recorded %+v", failed)
	}
	crash(p)
	want = append(want, bodies(write(t, s, key, chunk("t1", 2), status("t1", a2a.TaskStateCompleted)))...)

	l := loopback.Listen(t, addr)
	r := &recorder{got: make(chan request, 100)}
	r.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: r}}
	r.Start()
	defer r.Close()
	newPush(t, s, Options{})
	wantBodies(t, r.take(t, len(want)), want...)
	hookWhen(t, s, key, h.Config.ID, done)
}

// deaf is a store that stops recording deliveries, as if the process ended before it could.
type deaf struct {
	taskstore.Store
	after atomic.Int64
}

func (s *deaf) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if c.Delivered != nil && s.after.Add(-1) < 0 {
		return taskstore.Receipt{}, errors.New("crashed")
	}
	return s.Store.Commit(ctx, c)
}

// After a crash what was not recorded is sent again, under the same ids, and at most a batch of it.
func TestCrash(t *testing.T) {
	s, r := memory(), newRecorder(t)
	key := keyOf("t1")
	p := idlePush(t, s, Options{})
	h := prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
	want := bodies(create(t, s, key, h))
	for i := range 40 {
		want = append(want, bodies(write(t, s, key, chunk("t1", i)))...)
	}
	lame := &deaf{Store: s}
	lame.after.Store(2) // the first turn is the Task, the second a batch; the third is lost
	p = newPush(t, lame, Options{})
	r.take(t, 1+2*batch)
	crash(p)
	want = append(want, bodies(write(t, s, key, status("t1", a2a.TaskStateCompleted)))...)
	newPush(t, s, Options{})
	hookWhen(t, s, key, h.Config.ID, done)

	all := r.requests()
	if n := len(all) - len(want); n != batch {
		t.Errorf("%d were repeated, want %d", n, batch)
	}
	ids := map[string]string{}
	var once []string
	for _, q := range all {
		id := q.header.Get(IDHeader)
		if body, ok := ids[id]; ok {
			if body != q.body {
				t.Errorf("the id %s stands for two events", id)
			}
			continue
		}
		ids[id] = q.body
		once = append(once, q.body)
	}
	if !slices.Equal(once, want) {
		t.Errorf("got %d different deliveries, want %d in order", len(once), len(want))
	}
}

func TestGone(t *testing.T) {
	s, r := memory(), newRecorder(t)
	r.do(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusGone); return true })
	var log lines
	reader := metric.NewManualReader()
	p := newPush(t, s, Options{Log: log.logger(), Meter: metric.NewMeterProvider(metric.WithReader(reader)).Meter("")})
	key := keyOf("t1")
	create(t, s, key, nil)
	id := register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL + "/path"})
	h := hookWhen(t, s, key, id, done)
	if !strings.Contains(h.Failure, "410") || h.Attempts != 1 {
		t.Errorf("recorded %+v", h)
	}
	write(t, s, key, status("t1", a2a.TaskStateCompleted))
	if n := len(r.requests()); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n := strings.Count(log.String(), "level=WARN msg=\"a webhook was given up\""); n != 1 || strings.Contains(log.String(), "/path") {
		t.Errorf("the log:\n%s", &log)
	}
	want := map[string]int64{"a2a.push.deliveries{refused}": 1, "a2a.push.duration{refused}": 1, "a2a.push.dead{}": 1, "a2a.push.waiting{}": 0}
	if got := measured(t, reader); !equalMaps(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}

func equalMaps(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || w != v {
			return false
		}
	}
	return true
}

// measured returns the values of the instruments, by name and outcome; of histograms the count.
func measured(t *testing.T, reader *metric.ManualReader) map[string]int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, d := range data.DataPoints {
					v, _ := d.Attributes.Value("outcome")
					out[m.Name+"{"+v.AsString()+"}"] += d.Value
				}
			case metricdata.Gauge[int64]:
				for _, d := range data.DataPoints {
					out[m.Name+"{}"] += d.Value
				}
			case metricdata.Histogram[float64]:
				for _, d := range data.DataPoints {
					v, _ := d.Attributes.Value("outcome")
					out[m.Name+"{"+v.AsString()+"}"] += int64(d.Count)
				}
			}
		}
	}
	return out
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Secrets stand in no log line, error or answer, also when the receiver says them (docs/threats.md, B4).
func TestSecretsStayHere(t *testing.T) {
	const canary = "CaNaRy"
	s := memory()
	var log lines
	p := newPush(t, s, Options{Log: log.logger(), MaxFailures: 1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers with what it got, as no HTTP server would
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			n, _ := c.Read(buf)
			_, _ = c.Write([]byte(strings.ReplaceAll(string(buf[:n]), "\r\n", " ") + "\r\n\r\n"))
			c.Close()
		}
	}()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://"+r.Header.Get("Authorization"))
		w.Header().Set("Retry-After", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write([]byte(r.Header.Get("Authorization")))
	}))
	defer echo.Close()
	for i, base := range []string{"http://" + l.Addr().String(), echo.URL, "http://127.0.0.1:1"} {
		key := keyOf(fmt.Sprintf("t%d", i))
		create(t, s, key, nil)
		c := a2a.TaskPushNotificationConfig{
			ID: "h", URL: base + "/" + canary + "?" + canary, Token: canary,
			Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: canary},
		}
		made, err := p.Create(t.Context(), key, &c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Get(t.Context(), key, "h")
		if err != nil {
			t.Fatal(err)
		}
		list, err := p.List(t.Context(), key, 0, "")
		if err != nil || len(list.Configs) != 1 {
			t.Fatal(list, err)
		}
		for _, c := range []*a2a.TaskPushNotificationConfig{made, got, list.Configs[0]} {
			if c.Token != "" || c.Authentication == nil || c.Authentication.Scheme != "Bearer" || c.Authentication.Credentials != "" {
				t.Errorf("got %+v, %+v", c, c.Authentication)
			}
		}
		h := hookWhen(t, s, key, "h", done)
		if strings.Contains(h.Failure, canary) {
			t.Errorf("recorded %q", h.Failure)
		}
		if h.Config.Token != canary {
			t.Error("the token was lost")
		}
	}
	bad := []a2a.TaskPushNotificationConfig{
		{URL: "https://" + canary + "@x.example"},
		{URL: canary},
		{URL: "https://8.8.8.8/#" + canary},
		{URL: "http://127.0.0.1", Token: canary + "\n"},
		{URL: "http://127.0.0.1", Token: strings.Repeat(canary, 1000)},
		{URL: "http://127.0.0.1", Authentication: &a2a.AuthenticationInfo{Credentials: canary}},
		{URL: "http://127.0.0.1", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: canary + "\x00"}},
		{URL: "http://127.0.0.1", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer " + canary, Credentials: canary}},
	}
	for _, c := range bad {
		if _, err := p.Create(t.Context(), keyOf("t0"), &c); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log:\n%s", &log)
	}
	if n := strings.Count(log.String(), "given up"); n != 3 {
		t.Errorf("%d webhooks were given up, want 3:\n%s", n, &log)
	}
}

// Addresses that are not public get no connection, also when the registration let them pass (docs/threats.md, B2).
func TestPrivateReceivers(t *testing.T) {
	l, err := net.Listen("tcp", ":0") // every form of a local address can reach it
	if err != nil {
		t.Fatal(err)
	}
	var conns atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			c.Close()
		}
	}()
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := memory()
	p, err := New(Options{Store: s, Agent: alice.Agent, MaxFailures: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p.limit("") // one of each host below: the limit of a host is not reached
	start(t, p)
	for i, host := range []string{
		"127.0.0.1", "169.254.169.254", "100.64.0.1", "10.0.0.1", "0.0.0.0", "0", "2130706433", "0177.0.0.1", "localhost",
		"[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fd00::1]",
	} {
		key := keyOf(fmt.Sprintf("t%d", i))
		url := "https://" + host + ":" + port + "/"
		_, err := p.Create(t.Context(), key, &a2a.TaskPushNotificationConfig{URL: url})
		wantField(t, err, "url")
		h := &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: "h", URL: url}, Registration: "r"}
		p.expect(key.Task, "r")
		create(t, s, key, h)
		hookWhen(t, s, key, "h", done)
	}
	for _, u := range []string{"http://8.8.8.8/", "http://client.example/"} {
		_, err := p.Create(t.Context(), keyOf("t0"), &a2a.TaskPushNotificationConfig{URL: u})
		wantField(t, err, "url")
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var e *a2a.Error
	if !errors.As(err, &e) || e.Code != a2a.ErrInvalidParams || len(e.Violations) != 1 || e.Violations[0].Field != field {
		t.Errorf("got %v, want an error about %s", err, field)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	s, target := memory(), newRecorder(t)
	srv := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	p := newPush(t, s, Options{MaxFailures: 1})
	create(t, s, keyOf("t1"), nil)
	id := register(t, p, keyOf("t1"), a2a.TaskPushNotificationConfig{URL: srv.URL})
	h := hookWhen(t, s, keyOf("t1"), id, done)
	if !strings.Contains(h.Failure, "307") || len(target.requests()) != 0 {
		t.Errorf("recorded %q, the target had %d requests", h.Failure, len(target.requests()))
	}
}

func TestAllowPrivateIsLoud(t *testing.T) {
	var log lines
	idlePush(t, memory(), Options{Log: log.logger()})
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("the log:\n%s", &log)
	}
}

func TestNewRefuses(t *testing.T) {
	s := memory()
	for _, opts := range []Options{
		{Agent: "a"},
		{Store: s},
		{Store: s, Agent: "a", Key: ed25519.PrivateKey("short")},
		{Store: s, Agent: "a", Secret: "whsec_c2hvcnQ="},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("New(%+v) took it", opts)
		}
	}
}

// Delete ends what runs and what would follow.
func TestDeleteDuringAttempt(t *testing.T) {
	s, r := memory(), newRecorder(t)
	begun, ended := make(chan struct{}), make(chan struct{})
	r.do(func(_ http.ResponseWriter, req *http.Request) bool {
		close(begun)
		<-req.Context().Done()
		close(ended)
		return true
	})
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	create(t, s, key, nil)
	id := register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
	<-begun
	if err := p.Delete(t.Context(), key, id); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience): // less than an attempt may take
		t.Error("the attempt went on")
	}
	write(t, s, key, status("t1", a2a.TaskStateCompleted))
	until(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.running == 0 })
	if n := len(r.requests()); n != 1 {
		t.Errorf("%d attempts", n)
	}
	until(t, func() bool { return p.count() == 0 })
}

// A registration that replaces another begins anew, and nothing more goes to the old receiver.
func TestReplace(t *testing.T) {
	s, old, fresh := memory(), newRecorder(t), newRecorder(t)
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	create(t, s, key, nil)
	c := a2a.TaskPushNotificationConfig{ID: "h", URL: old.URL}
	register(t, p, key, c)
	hookWhen(t, s, key, "h", func(h taskstore.Webhook) bool { return h.Begun })
	c.URL = fresh.URL
	register(t, p, key, c)
	fresh.take(t, 1)
	write(t, s, key, chunk("t1", 1))
	fresh.take(t, 1)
	hookWhen(t, s, key, "h", func(h taskstore.Webhook) bool { return h.Delivered == 2 })

	third := newRecorder(t) // with a message, this time
	c.URL = third.URL
	h := prepared(t, p, key, c)
	commit(t, s, taskstore.Change{Key: key, Records: []taskstore.Record{chunk("t1", 2)}, Webhook: h})
	third.take(t, 1)
	write(t, s, key, status("t1", a2a.TaskStateCompleted))
	third.take(t, 1)
	hookWhen(t, s, key, "h", done)
	if len(old.requests()) != 1 || len(fresh.requests()) > 3 {
		t.Errorf("the old receivers got %d and %d", len(old.requests()), len(fresh.requests()))
	}
	if q := fresh.requests(); strings.Contains(q[len(q)-1].body, "COMPLETED") {
		t.Error("the replaced receiver got the end")
	}
}

// Shutdown lets an attempt end that ends in time, records it, and begins no other.
func TestShutdown(t *testing.T) {
	s, r := memory(), newRecorder(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	r.do(func(http.ResponseWriter, *http.Request) bool {
		if n.Add(1) == 3 {
			close(begun)
			<-release
		}
		return false
	})
	p := idlePush(t, s, Options{})
	key := keyOf("t1")
	h := prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
	create(t, s, key, h)
	for i := range 5 {
		write(t, s, key, chunk("t1", i))
	}
	start(t, p)
	<-begun // the second of a turn that has five
	ended := make(chan struct{})
	go func() { p.Shutdown(context.WithoutCancel(t.Context())); close(ended) }()
	until(t, p.ends)
	close(release)
	<-ended
	if h := one(t, s, key); !h.Begun || h.Delivered != 3 || h.Attempts != 0 || n.Load() != 3 {
		t.Errorf("recorded %+v after %d requests", h, n.Load())
	}
}

// An attempt that Shutdown breaks off is no failure.
func TestShutdownBreaksOff(t *testing.T) {
	s, r := memory(), newRecorder(t)
	begun := make(chan struct{})
	r.do(func(_ http.ResponseWriter, req *http.Request) bool {
		close(begun)
		<-req.Context().Done()
		return true
	})
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	create(t, s, key, nil)
	id := register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
	<-begun
	crash(p)
	if h := hookWhen(t, s, key, id, func(taskstore.Webhook) bool { return true }); h.Attempts != 0 || h.Begun {
		t.Errorf("recorded %+v", h)
	}
}

// trimmed is a store whose logs are gone.
type trimmed struct {
	taskstore.Store
	mu sync.RWMutex // no read falls between the end of the logs and the commit with which it comes
	on atomic.Bool
}

// Commit trims the logs with the task's end.
func (s *trimmed) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if len(c.Records) == 0 || c.Create {
		return s.Store.Commit(ctx, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on.Store(true)
	return s.Store.Commit(ctx, c)
}

func (s *trimmed) Entries(ctx context.Context, key taskstore.Key, after int64, limit int) ([]taskstore.Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.on.Load() {
		return nil, taskstore.ErrTrimmed
	}
	return s.Store.Entries(ctx, key, after, limit)
}

func (s *trimmed) Task(ctx context.Context, key taskstore.Key, at int64) (taskstore.Snapshot, error) {
	if s.on.Load() && at != 0 {
		return taskstore.Snapshot{}, taskstore.ErrTrimmed
	}
	return s.Store.Task(ctx, key, at)
}

func TestTrimmed(t *testing.T) {
	for _, begun := range []bool{false, true} {
		s, r := &trimmed{Store: memory()}, newRecorder(t)
		p := newPush(t, s, Options{})
		key := keyOf("t1")
		h := prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
		create(t, s, key, h)
		r.take(t, 1)
		if !begun {
			crash(p)
			h = prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
			commit(t, s, taskstore.Change{Key: key, Webhook: h})
		}
		write(t, s, key, status("t1", a2a.TaskStateCompleted))
		if !begun {
			newPush(t, s, Options{})
		}
		snap, err := s.Task(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantBodies(t, r.take(t, 1), string(a2a.AppendStreamResponse(nil, snap.Task)))
		hookWhen(t, s, key, h.Config.ID, done)
	}
}

// A receiver that closes a connection which it had kept open, as the next delivery comes, has not failed.
func TestStaleConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
				_, _ = http.ReadRequest(r) // is not answered
			}()
		}
	}()
	s := memory()
	reader := metric.NewManualReader()
	p := newPush(t, s, Options{Meter: metric.NewMeterProvider(metric.WithReader(reader)).Meter("")})
	key := keyOf("t1")
	h := prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: "http://" + l.Addr().String()})
	create(t, s, key, h)
	write(t, s, key, chunk("t1", 1), chunk("t1", 2), status("t1", a2a.TaskStateCompleted))
	hookWhen(t, s, key, h.Config.ID, done)
	if got := measured(t, reader); got["a2a.push.deliveries{failed}"] != 0 || got["a2a.push.deliveries{accepted}"] != 4 || conns.Load() != 4 {
		t.Errorf("measured %v on %d connections", got, conns.Load())
	}
}
