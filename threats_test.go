package parley_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/internal/golden"
	"github.com/parley-a2a/parley/limits"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

// The rows of docs/threats.md that a host on sockets shows, one test each, on every binding. Other rows, and other sides
// of these, have their tests nearer to the control: the page names them.

// eachWith is each with a host whose configuration is changed.
func eachWith(t *testing.T, change func(*parley.Config), f func(t *testing.T, h *host, conn golden.Conn)) {
	t.Helper()
	each(t, hostOptions{}, func(t *testing.T, h *host, _ golden.Conn) {
		h.stop()
		change(&h.cfg)
		h.start()
		f(t, h, h.dial(t, bindingOf(t)))
	})
}

// bindingOf returns the binding of a test by each.
func bindingOf(t *testing.T) string {
	for _, b := range golden.Bindings {
		if strings.HasSuffix(t.Name(), "/"+b) {
			return b
		}
	}
	t.Fatalf("%s is not a test of one binding", t.Name())
	return ""
}

// callAs is call for a caller.
func callAs(t *testing.T, conn golden.Conn, caller, op, request string) *a2a.Task {
	t.Helper()
	raw, err := golden.Call(t.Context(), conn, golden.Request{Op: op, JSON: request, Header: as(caller)})
	if err != nil {
		t.Fatalf("%s as %s: %v", op, caller, err)
	}
	return taskOf(t, raw)
}

// reason returns the reason of the error that a host answered with, or what else came of a call. (The reply to what is no
// JSON has no id, which the connection takes for a mistake: the reason is in its words.)
func reason(err error) string {
	var e *golden.Error
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &e) && e.Reason != "":
		return e.Reason
	case errors.As(err, &e):
		return e.GRPC
	}
	return err.Error()
}

// frames collects what comes back, as one text.
func frames(t *testing.T, conn golden.Conn, r golden.Request) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var b strings.Builder
	for raw, err := range conn.Do(ctx, r) {
		if err != nil {
			fmt.Fprintf(&b, "ERROR %v\n", err)
		} else {
			fmt.Fprintf(&b, "%s\n", compactJSON(raw))
		}
	}
	return b.String()
}

// compactJSON returns JSON without the spaces that protojson puts in at random.
func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// TestThreatA1: with the context and a task of Alice's, Bob gets what he gets with ids that never were, and Alice has
// nothing of his.
func TestThreatA1(t *testing.T) {
	each(t, hostOptions{}, func(t *testing.T, _ *host, conn golden.Conn) {
		send := func(op, contextID, task string) string {
			request := message(`{"recall":true},{"references":true},{"remember":"his"}`, `"contextId":"`+contextID+`"`, `"referenceTaskIds":["`+task+`"]`)
			got := frames(t, conn, golden.Request{Op: op, JSON: request, Header: as("bob")})
			return golden.Mask(strings.NewReplacer(contextID, uuid.Nil.String(), task, uuid.Max.String()).Replace(got))
		}
		for _, op := range []string{"SendMessage", "SendStreamingMessage"} {
			hers := callAs(t, conn, "alice", "SendMessage", message(`{"remember":"hers"},{"recall":true},{"artifact":{"id":"a","text":"private"}}`))
			got := send(op, hers.ContextID, hers.ID)
			want := send(op, uuid.NewString(), uuid.NewString())
			if got != want || strings.Contains(got, "ERROR") || strings.Contains(got, "hers") || strings.Contains(got, "private") {
				t.Errorf("%s\ngot  %s\nwant %s", op, got, want)
			}
			task := callAs(t, conn, "alice", "SendMessage", message(`{"recall":true}`, `"contextId":"`+hers.ContextID+`"`))
			if note := task.Artifacts[0].Text(); note != "hers" {
				t.Errorf("Alice's note is now %q", note)
			}
		}
	})
}

// TestThreatA5: a task that nobody answers fails with a reason when its time is over, and takes no late answer. (The
// bound on their number: testdata/wire/parked-limit.txtar.)
func TestThreatA5(t *testing.T) {
	const ttl = 300 * time.Millisecond
	eachWith(t, func(c *parley.Config) { c.Times.Answer = ttl }, func(t *testing.T, _ *host, conn golden.Conn) {
		begin := time.Now()
		task := call(t, conn, "SendMessage", message(`{"park":"?"}`))
		events := frames(t, conn, golden.Request{Op: "SubscribeToTask", JSON: `{"id":"` + task.ID + `"}`})
		if d := time.Since(begin); !strings.Contains(events, "TASK_STATE_FAILED") || !strings.Contains(events, "Nobody answered") || d < ttl || d > ttl+3*time.Second {
			t.Errorf("after %v: %s", d, events)
		}
		_, err := golden.Call(t.Context(), conn, golden.Request{Op: "SendMessage", JSON: message(`{"echo":true}`, `"taskId":"`+task.ID+`"`)})
		if reason(err) != "UNSUPPORTED_OPERATION" {
			t.Errorf("a late answer: %v", err)
		}
	})
}

// patience is how long a test waits for what must end: longer than a revocation may take.
const patience = 35 * time.Second

// openStream opens a stream and returns what ends it, once its first frame is here.
func openStream(t *testing.T, conn golden.Conn, r golden.Request) <-chan error {
	t.Helper()
	first, end := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	go func() {
		defer cancel()
		var last error
		n := 0
		for _, err := range conn.Do(ctx, r) {
			if n++; n == 1 {
				first <- err
			}
			last = err
		}
		end <- last
	}()
	select {
	case err := <-first:
		if err != nil {
			t.Fatalf("a stream ended at once: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a stream does not begin")
	}
	return end
}

// TestThreatA8: a stream and a blocking call end when the credential expires or is revoked, by an error that says so;
// the credential opens no other; the task goes on.
func TestThreatA8(t *testing.T) {
	challenge := []string{`Bearer realm="script", error="invalid_token"`}
	each(t, hostOptions{}, func(t *testing.T, h *host, _ golden.Conn) {
		t.Parallel()
		var expiry atomic.Int64 // of the credential "brief"
		check := func(ctx context.Context, info *a2a.CallInfo) error {
			end := time.Unix(0, expiry.Load())
			switch {
			case info.Header.Get(golden.CallerHeader) != "brief":
				return authenticate(ctx, info)
			case !time.Now().Before(end):
				return &a2a.Error{Code: a2a.ErrUnauthenticated, Message: "the credential is no longer accepted", Challenge: challenge}
			}
			info.Caller = a2a.Caller{Issuer: "test", Subject: "alice", Expiry: end}
			return nil
		}
		h.stop()
		h.cfg.Authenticate = check
		h.cfg.Rates.Check = func(ctx context.Context) error { return check(ctx, a2a.CallInfoFrom(ctx)) }
		h.start()
		conn := h.dial(t, bindingOf(t))

		for how, end := range map[string]func(){
			"expired": func() {},
			"revoked": func() { expiry.Store(time.Now().UnixNano()) },
		} {
			life := 500 * time.Millisecond
			if how == "revoked" {
				if testing.Short() { // it takes 10 s; package limits shows the same with a clock of its own
					continue
				}
				life = time.Hour
			}
			expiry.Store(time.Now().Add(life).UnixNano())
			task := callAs(t, conn, "alice", "SendMessage", immediately(`{"wait":"`+how+`"}`))
			subscribe := golden.Request{Op: "SubscribeToTask", JSON: `{"id":"` + task.ID + `"}`, Header: as("brief")}
			ends := openStream(t, conn, subscribe)
			stays := openStream(t, conn, golden.Request{Op: "SubscribeToTask", JSON: subscribe.JSON, Header: as("alice")})
			blocking := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() {
				_, err := golden.Call(ctx, conn, golden.Request{Op: "SendMessage", JSON: message(`{"wait":"` + how + `2"}`), Header: as("brief")})
				blocking <- err
			}()
			<-h.Reached(how + "2")
			end()
			begin := time.Now()
			var e *golden.Error
			if err := <-ends; !errors.As(err, &e) || e.Reason != "UNAUTHENTICATED" || !e.InStream {
				t.Errorf("%s: the stream ended with %v", how, err)
			}
			if err := <-blocking; reason(err) != "UNAUTHENTICATED" {
				t.Errorf("%s: the blocking call ended with %v", how, err)
			}
			if d := time.Since(begin); d > 30*time.Second {
				t.Errorf("%s: they ended after %v", how, d)
			}
			var err error
			for _, err = range conn.Do(t.Context(), subscribe) {
				break
			}
			if !errors.As(err, &e) || e.Reason != "UNAUTHENTICATED" || e.InStream || !slices.Equal(e.Challenge, challenge) {
				t.Errorf("%s: resubscribed: %v", how, err)
			}
			h.Open(how)
			h.Open(how + "2")
			if err := <-stays; err != nil {
				t.Errorf("%s: the other credential's stream ended with %v", how, err)
			}
			if got := callAs(t, conn, "alice", "GetTask", `{"id":"`+task.ID+`"}`); got.Status.State != a2a.TaskStateCompleted {
				t.Errorf("%s: the task is %v", how, got.Status.State)
			}
		}
	})
}

// withPush has a host take webhooks. They are not delivered: nothing of a task leaves it by another way.
func withPush(t *testing.T) func(*parley.Config) {
	return func(c *parley.Config) {
		p, err := push.New(push.Options{Store: c.Store, Agent: "script", AllowPrivate: true, Log: c.Log})
		if err != nil {
			t.Fatal(err)
		}
		c.Push = p
	}
}

// TestThreatB1: TestForeignTasks for webhooks, on a host that has them.
func TestThreatB1(t *testing.T) {
	nowhere := uuid.NewString()
	eachWith(t, withPush(t), func(t *testing.T, h *host, conn golden.Conn) {
		for state, script := range map[string]string{"running": `{"wait":"gate"}`, "parked": `{"park":"?"}`, "finished": `{"complete":"done"}`} {
			request := message(script)
			if state == "running" {
				request = immediately(script)
			}
			task := callAs(t, conn, "alice", "SendMessage", request)
			_, err := golden.Call(t.Context(), conn, golden.Request{
				Op: "CreateTaskPushNotificationConfig", JSON: `{"taskId":"` + task.ID + `","id":"1","url":"http://127.0.0.1:1/"}`, Header: as("alice"),
			})
			if err != nil {
				t.Fatal(err)
			}
			never := requests(nowhere, nowhere)
			for op, request := range requests(task.ID, task.ContextID) {
				got := strings.NewReplacer(task.ID, nowhere, task.ContextID, nowhere).Replace(reply(t, conn, op, request))
				want := reply(t, conn, op, never[op])
				about := strings.Contains(op, "Push") && !strings.Contains(got, "TaskNotFoundError")
				if got != want || about || strings.HasPrefix(got, "FRAME") {
					t.Errorf("%s of a %s task\ngot  %s\nwant %s", op, state, got, want)
				}
			}
			list := `{"taskId":"` + task.ID + `"}`
			raw, err := golden.Call(t.Context(), conn, golden.Request{Op: "ListTaskPushNotificationConfigs", JSON: list, Header: as("alice")})
			if err != nil || strings.Count(string(raw), `"url"`) != 1 {
				t.Errorf("Alice's webhooks of a %s task: %s, %v", state, raw, err)
			}
		}
		h.Open("gate")
	})
}

// lines is a log that a test reads.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestThreatB4: what stands where credentials stand comes back in no answer and in no line of the log, however wrong the
// request is.
func TestThreatB4(t *testing.T) {
	const canary = "CANARY7b1f"
	log := new(lines)
	change := func(c *parley.Config) {
		c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		withPush(t)(c)
	}
	secrets := http.Header{
		"Authorization": {"Bearer " + canary}, "X-Api-Key": {canary}, "Cookie": {"session=" + canary}, "Proxy-Authorization": {"Basic " + canary},
	}
	eachWith(t, change, func(t *testing.T, h *host, conn golden.Conn) {
		binding := bindingOf(t)
		look := func(what, got string) {
			t.Helper()
			if strings.Contains(got, canary) {
				t.Errorf("%s: %s", what, got)
			}
		}
		try := func(what, op, request string, header http.Header) {
			t.Helper()
			all := maps.Clone(secrets)
			maps.Copy(all, header)
			look(what, frames(t, conn, golden.Request{Op: op, JSON: request, Header: all}))
		}
		task := call(t, conn, "SendMessage", message(`{"park":"?"}`))
		for op, request := range requests(task.ID, task.ContextID) {
			if op == "SubscribeToTask" || op == "CancelTask" {
				continue // the one does not end, the other ends the task
			}
			try(op, op, request, nil)
			try(op+" by nobody", op, request, as("nobody"))
			try(op+" of another version", op, request, http.Header{golden.VersionHeader: {"0.3"}})
		}
		webhook := func(members string) string { return `{"taskId":"` + task.ID + `",` + members + `}` }
		const url = `"url":"http://127.0.0.1:1/"`
		configs := []string{
			webhook(url + `,"id":"1","token":"` + canary + `","authentication":{"scheme":"Bearer","credentials":"` + canary + `"}`),
			webhook(url + `,"token":"` + canary + strings.Repeat("x", 5000) + `"`),
			webhook(url + `,"token":"` + canary + `\u0007"`),
			webhook(url + `,"authentication":{"scheme":"","credentials":"` + canary + `"}`),
			webhook(url + `,"authentication":{"scheme":"Bearer","credentials":" ` + canary + `"}`),
			webhook(url + `,"authentication":{"scheme":"Bearer","credentials":"` + canary + `\r\n"}`),
			webhook(url + `,"authentication":{"scheme":"Bearer","credentials":"` + canary + strings.Repeat("x", 9000) + `"}`),
			webhook(`"url":"ftp://user:` + canary + `@example.org/` + canary + `"`),
			webhook(`"url":"https://user:` + canary + `@example.org/?key=` + canary + `"`),
			webhook(`"url":"http://169.254.169.254/` + canary + `"`),
			webhook(`"url":"://` + canary + `"`),
		}
		for _, request := range configs {
			try("a webhook", "CreateTaskPushNotificationConfig", request, nil)
			inline := strings.TrimSuffix(message(`{"echo":true}`), "}") + `,"configuration":{"taskPushNotificationConfig":{` +
				strings.TrimPrefix(request, `{"taskId":"`+task.ID+`",`) + `}}`
			try("a webhook with a message", "SendMessage", inline, nil)
		}
		try("Get", "GetTaskPushNotificationConfig", webhook(`"id":"1"`), nil)
		try("List", "ListTaskPushNotificationConfigs", `{"taskId":"`+task.ID+`"}`, nil)
		h.store.broken.Store(true)
		try("a store that fails", "CreateTaskPushNotificationConfig", configs[0], nil)
		h.store.broken.Store(false)
		if binding != golden.GRPC { // whose client writes what it sends
			for _, body := range []string{
				webhook(url + `,"token":"` + canary),
				webhook(url + `,"token":["` + canary + `"]`),
				webhook(url + `,"token":"` + canary + `","token":"` + canary + `"`),
				webhook(url + `,"authentication":"` + canary + `"`),
				webhook(url + `,"authentication":{"scheme":["Bearer"],"credentials":{"` + canary + `":1}}`),
				webhook(url + `,"token":"` + canary + "\xff" + `"`),
				webhook(url+`,"token":"`+canary+`"`) + "x",
				`"` + canary + `"`, canary, `[` + webhook(`"token":"`+canary+`"`) + `]`,
			} {
				for _, media := range []string{"application/json", "text/plain"} {
					look("a body", exchange(t, h, binding, "CreateTaskPushNotificationConfig", body, task.ID, media, secrets))
				}
			}
		}
	})
	if got := log.String(); got == "" || strings.Contains(got, canary) {
		t.Errorf("the log: %s", got)
	}
}

// exchange sends a body as it is and returns all of the answer.
func exchange(t *testing.T, h *host, binding, op, body, task, media string, header http.Header) string {
	t.Helper()
	url := h.url + "/"
	if binding == golden.REST {
		url += "a2a/rest/tasks/" + task + "/pushNotificationConfigs"
	} else {
		body = `{"jsonrpc":"2.0","id":1,"method":"` + op + `","params":` + body + `}`
	}
	res := post(t, url, body, append(flat(header), "Content-Type", media, "A2A-Version", "1.0")...)
	var b strings.Builder
	fmt.Fprintln(&b, res.Status, res.Header)
	if _, err := io.Copy(&b, res.Body); err != nil {
		t.Error(err)
	}
	return b.String()
}

func flat(h http.Header) (out []string) {
	for name, values := range h {
		for _, v := range values {
			out = append(out, name, v)
		}
	}
	return out
}

// post sends a body with the given headers.
func post(t *testing.T, url, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// TestThreatB9Size: a request over a limit is refused before the agent hears of it; the host goes on.
func TestThreatB9Size(t *testing.T) {
	const limit = 20_000
	each(t, hostOptions{MaxBody: limit}, func(t *testing.T, h *host, conn golden.Conn) {
		nested := func(n int) string {
			return strings.TrimSuffix(message(`{"echo":true}`), "}") + `,"metadata":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
		}
		long := func(n int) string { return message(`{"complete":"` + strings.Repeat("x", n) + `"}`) }
		for what, c := range map[string]struct {
			request string
			reasons []string
		}{
			"a body below the limit": {long(limit - 1000), []string{"no error"}},
			"a body over the limit":  {long(limit + 1), []string{"TOO_LARGE", "RESOURCE_EXHAUSTED"}}, // the latter is gRPC's own
			"62 levels more":         {nested(62), []string{"no error"}},
			"65 levels more":         {nested(65), []string{"JSON_PARSE_ERROR", "INVALID_PARAMS"}},
			"1,000 levels more":      {nested(1000), []string{"JSON_PARSE_ERROR", "INVALID_PARAMS"}},
		} {
			raw, err := golden.Call(t.Context(), conn, golden.Request{Op: "SendMessage", JSON: c.request, Header: as("alice")})
			got := reason(err)
			if !slices.ContainsFunc(c.reasons, func(want string) bool { return strings.Contains(got, want) }) {
				t.Errorf("%s: %.200s, %v", what, raw, err)
			}
		}
		_, err := golden.Call(t.Context(), conn, golden.Request{Op: "SendMessage", JSON: long(1), Header: http.Header{"X-Long": {strings.Repeat("x", 100_000)}}})
		if err == nil || bindingOf(t) != golden.GRPC && !strings.Contains(err.Error(), "HTTP 431") {
			t.Errorf("a header of 100 KB: %v", err)
		}
		if list := tasksOf(t, h, "alice"); list != 2 {
			t.Errorf("%d tasks were made", list)
		}
	})
}

// tasksOf returns how many tasks a caller has.
func tasksOf(t *testing.T, h *host, caller string) int {
	t.Helper()
	raw, err := golden.Call(t.Context(), h.dial(t, golden.JSONRPC), golden.Request{Op: "ListTasks", JSON: `{}`, Header: as(caller)})
	var list struct{ TotalSize int }
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list.TotalSize
}

// TestThreatB9Streams: the 101st stream of a caller is refused, another caller's is not, and neither is the caller's
// own once one has ended.
func TestThreatB9Streams(t *testing.T) {
	each(t, hostOptions{}, func(t *testing.T, h *host, conn golden.Conn) {
		task := callAs(t, conn, "alice", "SendMessage", immediately(`{"wait":"gate"}`))
		subscribe := golden.Request{Op: "SubscribeToTask", JSON: `{"id":"` + task.ID + `"}`, Header: as("alice")}
		var ends []<-chan error
		for range 100 {
			ends = append(ends, openStream(t, conn, subscribe))
		}
		var err error
		for _, err = range conn.Do(t.Context(), subscribe) {
			break
		}
		var e *golden.Error
		if !errors.As(err, &e) || e.Reason != "RESOURCE_EXHAUSTED" || e.HTTP != 429 || e.InStream || !strings.Contains(err.Error(), `"limit":"streams"`) {
			t.Errorf("stream 101: %v", err)
		}
		his := callAs(t, conn, "bob", "SendMessage", immediately(`{"wait":"gate"}`))
		ends = append(ends, openStream(t, conn, golden.Request{Op: "SubscribeToTask", JSON: `{"id":"` + his.ID + `"}`, Header: as("bob")}))
		h.Open("gate")
		for _, end := range ends {
			if err := <-end; err != nil {
				t.Fatal(err)
			}
		}
		<-openStream(t, conn, golden.Request{Op: "SendStreamingMessage", JSON: message(`{"echo":true}`), Header: as("alice")})
	})
}

// TestThreatB9Rate: requests over the rate are refused before anything is looked up, and every answer says what is left,
// be it a result, an error or a stream.
func TestThreatB9Rate(t *testing.T) {
	change := func(c *parley.Config) { c.Rates = limits.Options{Rate: 0.5, Burst: 4} }
	const policy = `"requests";q=4;w=8, "streams";q=100;qu="concurrent-requests"`
	eachWith(t, change, func(t *testing.T, h *host, _ golden.Conn) {
		for i, c := range []struct{ op, request, left string }{
			{"SendMessage", message(`{"complete":"x"}`), `"requests";r=3;t=2`},
			{"GetTask", `{"id":"x"}`, `"requests";r=2;t=2`},
			{"SendStreamingMessage", message(`{"complete":"x"}`), `"requests";r=1;t=2, "streams";r=99`},
			{"SubscribeToTask", `{"id":"x"}`, `"requests";r=0;t=2, "streams";r=99`},
			{"GetTask", `{"id":"x"}`, `"requests";r=0;t=2`},
			{"SendStreamingMessage", message(`{"complete":"x"}`), `"requests";r=0;t=2`},
		} {
			header, body, code := said(t, h, bindingOf(t), c.op, c.request, "alice")
			if header.Get("RateLimit-Policy") != policy || header.Get("RateLimit") != c.left {
				t.Errorf("%d %s: RateLimit-Policy %s, RateLimit %s, want %s", i, c.op, header.Get("RateLimit-Policy"), header.Get("RateLimit"), c.left)
			}
			if over := i > 3; over != (code == "429" || code == "ResourceExhausted") || over != strings.Contains(body, "limit requests") {
				t.Errorf("%d %s: %s %s", i, c.op, code, body)
			} else if over && header.Get("Retry-After") != "2" {
				t.Errorf("%d %s: Retry-After %q", i, c.op, header.Get("Retry-After"))
			}
		}
		if header, _, code := said(t, h, bindingOf(t), "GetTask", `{"id":"x"}`, "bob"); header.Get("RateLimit") != `"requests";r=3;t=2` {
			t.Errorf("Bob: %s, %v", code, header)
		}
		if header, _, code := said(t, h, bindingOf(t), "GetTask", `{"id":"x"}`, ""); header.Get("RateLimit") != "" {
			t.Errorf("nobody in particular, on this machine: %s, %v", code, header)
		}
	})
}

// TestThreatB9Refused: whatever a caller is refused for once it is known who calls counts as a request, and the answer says what is
// left: a rule, a body that is none or too large, a path, a method or a version that there is not.
func TestThreatB9Refused(t *testing.T) {
	change := func(c *parley.Config) {
		bob, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: []auth.APIKey{{Name: "bob"}}})
		if err != nil {
			t.Fatal(err)
		}
		c.Auth, err = auth.Any(auth.Options{Rules: auth.Rules{Operations: map[string][]string{"CancelTask": {"no-one-has-it"}}}}, bob)
		if err != nil {
			t.Fatal(err)
		}
		c.Rates, c.MaxBody = limits.Options{Rate: 0.01, Burst: 3}, 1000
	}
	big := strings.Repeat("x", 2000)
	type request struct{ name, method, path, body, header, value, want string }
	post := func(name, body, want string) request { return request{name: name, body: body, want: want} }
	of := map[string][]request{
		golden.JSONRPC: {
			post("a rule", `{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"x"}}`, "PERMISSION_DENIED"),
			post("no JSON", `{`, "-32700"),
			post("no request", `[]`, "-32600"),
			post("an unknown method", `{"jsonrpc":"2.0","id":1,"method":"x"}`, "-32601"),
			post("bad params", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}`, "-32602"),
			post("too large", `"`+big+`"`, "413"),
			{name: "a media type", body: `{}`, header: "Content-Type", value: "text/plain", want: "415"},
			{name: "a version", body: `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`, header: "A2A-Version", value: "0.1", want: "-32009"},
			{name: "an HTTP method", method: "GET", want: "405"},
		},
		golden.REST: {
			{name: "a rule", path: "/tasks/x:cancel", body: `{}`, want: "403"},
			{name: "no JSON", path: "/message:send", body: `{`, want: "400"},
			{name: "an unknown path", path: "/tusks", body: `{}`, want: "404"},
			{name: "too large", path: "/message:send", body: `"` + big + `"`, want: "413"},
			{name: "a media type", path: "/message:send", body: `{}`, header: "Content-Type", value: "text/plain", want: "415"},
			{name: "a version", method: "GET", path: "/tasks/x", header: "A2A-Version", value: "0.1", want: "400"},
			{name: "an HTTP method", method: "PUT", path: "/tasks/x", want: "405"},
		},
		golden.GRPC: {
			{name: "a rule", path: "CancelTask", body: "\x12\x01x", want: "PermissionDenied"},
			{name: "no message", path: "GetTask", body: "\xff", want: "InvalidArgument"},
			{name: "a field", path: "GetTask", body: "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", want: "InvalidArgument"},
			{name: "too large", path: "SendMessage", body: big, want: "ResourceExhausted"},
			{name: "a version", path: "GetTask", header: "A2A-Version", value: "0.1", want: "FailedPrecondition"},
		},
	}
	eachWith(t, change, func(t *testing.T, h *host, _ golden.Conn) {
		for i, r := range of[bindingOf(t)] {
			head := as(fmt.Sprintf("caller-%d", i))
			head.Set("A2A-Version", "1.0")
			head.Set("Content-Type", "application/json")
			if r.header != "" {
				head.Set(r.header, r.value)
			}
			for n := range 5 {
				var header http.Header
				var said string
				switch bindingOf(t) {
				case golden.GRPC:
					header, said = bytesByGRPC(t, h, r.path, r.body, head)
				case golden.REST:
					header, said = bytesByHTTP(t, cmp.Or(r.method, "POST"), h.url+"/a2a/rest"+r.path, r.body, head)
				default:
					header, said = bytesByHTTP(t, cmp.Or(r.method, "POST"), h.url+"/", r.body, head)
				}
				want, over := r.want, n > 2
				if over {
					want = "limit requests"
				}
				left := fmt.Sprintf(`"requests";r=%d;`, max(0, 2-n))
				if r.body == big && bindingOf(t) == golden.GRPC && !over { // gRPC answers by itself: it counts, without our headers
					left = ""
					header.Set("RateLimit-Policy", "none")
				}
				if !strings.Contains(said, want) || strings.Contains(said, "limit requests") != over || !strings.HasPrefix(header.Get("RateLimit"), left) || header.Get("RateLimit-Policy") == "" {
					t.Errorf("%s, request %d: RateLimit %q, want %s; %s, want %s", r.name, n+1, header.Get("RateLimit"), left, said, want)
				}
			}
		}
	})
}

// bytesByHTTP sends a request as it is, and returns the answer's headers, and its status and body.
func bytesByHTTP(t *testing.T, method, url, body string, head http.Header) (header http.Header, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = head.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header, fmt.Sprint(res.StatusCode, " ", string(b))
}

// asItIs is a codec for messages that are bytes.
type asItIs struct{}

func (asItIs) Marshal(v any) ([]byte, error)   { return []byte(*v.(*string)), nil }     //nolint:forcetypeassert // of this file only
func (asItIs) Unmarshal(b []byte, v any) error { *v.(*string) = string(b); return nil } //nolint:forcetypeassert // of this file only
func (asItIs) Name() string                    { return "proto" }

// bytesByGRPC is the same on gRPC.
func bytesByGRPC(t *testing.T, h *host, op, body string, head http.Header) (header http.Header, said string) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+h.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	head = head.Clone()
	head.Del("Content-Type")
	ctx := metadata.AppendToOutgoingContext(t.Context(), flat(head)...)
	var md metadata.MD
	var answer string
	err = conn.Invoke(ctx, "/lf.a2a.v1.A2AService/"+op, &body, &answer, grpc.Header(&md), grpc.ForceCodec(asItIs{}))
	header = http.Header{}
	for name, values := range md {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return header, fmt.Sprint(err)
}

// said returns what a host says beside a message: its headers, with Retry-After on every binding, and its status.
func said(t *testing.T, h *host, binding, op, request, caller string) (header http.Header, body, code string) {
	t.Helper()
	head := append(flat(as(caller)), "A2A-Version", "1.0", "Content-Type", "application/json")
	var res *http.Response
	switch {
	case binding == golden.GRPC:
		return saidByGRPC(t, h, op, request, caller)
	case binding == golden.JSONRPC:
		res = post(t, h.url+"/", `{"jsonrpc":"2.0","id":1,"method":"`+op+`","params":`+request+`}`, head...)
	case op == "GetTask":
		var err error
		if res, err = get(t.Context(), h.url+"/a2a/rest/tasks/x", head...); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
	default:
		path := map[string]string{"SendMessage": "message:send", "SendStreamingMessage": "message:stream", "SubscribeToTask": "tasks/x:subscribe"}
		if op == "SubscribeToTask" {
			request = ""
		}
		res = post(t, h.url+"/a2a/rest/"+path[op], request, head...)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header, string(b), fmt.Sprint(res.StatusCode)
}

func saidByGRPC(t *testing.T, h *host, op, request, caller string) (header http.Header, body, code string) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+h.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), append(flat(as(caller)), "A2A-Version", "1.0")...)
	c := pb.NewA2AServiceClient(conn)
	send := new(pb.SendMessageRequest)
	if op != "GetTask" && op != "SubscribeToTask" {
		send.Message = &pb.Message{MessageId: "m", Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "x"}}}}
	}
	var md metadata.MD
	var stream grpc.ServerStreamingClient[pb.StreamResponse]
	switch op {
	case "SendMessage":
		_, err = c.SendMessage(ctx, send, grpc.Header(&md))
	case "GetTask":
		_, err = c.GetTask(ctx, &pb.GetTaskRequest{Id: "x"}, grpc.Header(&md))
	case "SendStreamingMessage":
		stream, err = c.SendStreamingMessage(ctx, send)
	case "SubscribeToTask":
		stream, err = c.SubscribeToTask(ctx, &pb.SubscribeToTaskRequest{Id: "x"})
	}
	if stream != nil {
		_, err = stream.Recv()
		md, _ = stream.Header()
		for e := err; e == nil; {
			_, e = stream.Recv()
		}
	}
	header = http.Header{}
	for name, values := range md {
		header[http.CanonicalHeaderKey(name)] = values
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			header.Set("Retry-After", fmt.Sprint(math.Ceil(retry.GetRetryDelay().AsDuration().Seconds())))
		}
	}
	return header, st.Message(), st.Code().String()
}

// TestThreatB10: of two agents with one store, neither lists nor reads the other's tasks, and the name of the other, or
// the caller's own tenant, is on the wire like any name that nobody has.
func TestThreatB10(t *testing.T) {
	each(t, hostOptions{}, func(t *testing.T, a *host, connA golden.Conn) {
		b := startHost(t, hostOptions{store: a.cfg.Store})
		b.stop()
		b.cfg.AgentName = "other"
		b.start()
		connB := b.dial(t, bindingOf(t))
		task := callAs(t, connA, "alice@t1", "SendMessage", message(`{"park":"?"}`))
		nowhere := uuid.NewString()
		never := requests(nowhere, nowhere)
		for op, request := range requests(task.ID, task.ContextID) {
			at := func(conn golden.Conn, caller, request string) string {
				got := golden.Mask(frames(t, conn, golden.Request{Op: op, JSON: request, Header: as(caller)}))
				return strings.NewReplacer(task.ID, nowhere, task.ContextID, nowhere).Replace(got)
			}
			if got, want := at(connB, "alice@t1", request), at(connB, "alice@t1", never[op]); got != want {
				t.Errorf("%s at the other agent\ngot  %s\nwant %s", op, got, want)
			}
			if got, want := at(connA, "alice@t2", request), at(connA, "alice@t2", never[op]); got != want {
				t.Errorf("%s in another tenant\ngot  %s\nwant %s", op, got, want)
			}
			named := func(tenant string) string { return `{"tenant":"` + tenant + `",` + strings.TrimPrefix(request, "{") }
			if request == "{}" {
				named = func(tenant string) string { return `{"tenant":"` + tenant + `"}` }
			}
			want := at(connA, "alice@t1", named("nobody"))
			for _, tenant := range []string{"other", "t1", "t2"} {
				if got := at(connA, "alice@t1", named(tenant)); got != want || !strings.HasPrefix(got, "ERROR InvalidParamsError") {
					t.Errorf("%s for %s\ngot  %s\nwant %s", op, tenant, got, want)
				}
			}
		}
		if got := callAs(t, connA, "alice@t1", "GetTask", `{"id":"`+task.ID+`"}`); got.Status.State != a2a.TaskStateInputRequired {
			t.Errorf("the task is now %v", got.Status.State)
		}
	})
}

// TestThreatB11: what a web page can have a browser send drives no agent: not under a name that was bound anew, not
// from another origin, not as a form.
func TestThreatB11(t *testing.T) {
	h := startHost(t, hostOptions{})
	call := func(method string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + message(`{"echo":true}`) + `}`
	}
	t.Run(golden.JSONRPC, func(t *testing.T) {
		fromPage(t, h, "/", call("SendMessage"))
		fromPage(t, h, "/a2a/jsonrpc", call("SendStreamingMessage"))
	})
	t.Run(golden.REST, func(t *testing.T) {
		fromPage(t, h, "/a2a/rest/message:send", message(`{"echo":true}`))
		fromPage(t, h, "/a2a/rest/message:stream", message(`{"echo":true}`))
	})
	t.Run(golden.GRPC, func(t *testing.T) { // HTTP/2 with prior knowledge only, which no page can have a browser do
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.grpc)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "POST /lf.a2a.v1.A2AService/SendMessage HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n")
		if answer, _ := io.ReadAll(conn); bytes.Contains(answer, []byte("HTTP/1")) {
			t.Errorf("the gRPC port answered a page: %q", answer)
		}
	})
	if n := tasksOf(t, h, ""); n != 0 {
		t.Errorf("the agent ran %d times", n)
	}
}

// fromPage sends a body in all the ways that a page can have a browser do it.
func fromPage(t *testing.T, h *host, path, body string) {
	t.Helper()
	const media = "application/json"
	for _, c := range []struct {
		host, origin, media string
		status              int
	}{
		{"evil.example", "", media, 403},
		{"evil.example:80", "http://evil.example", media, 403},
		{"127.0.0.1.evil.example", "", media, 403},
		{"", "https://evil.example", media, 403},
		{"", "null", media, 403},
		{"", "http://localhost:1", media, 403},
		{"", "", "text/plain", 415},
		{"", "", "text/plain; application/json", 415},
		{"", "", "application/x-www-form-urlencoded", 415},
		{"", "", "multipart/form-data; boundary=x", 415},
		{"", "", "", 415},
	} {
		header := []string{"A2A-Version", "1.0"}
		for name, value := range map[string]string{"Host": c.host, "Origin": c.origin, "Content-Type": c.media} {
			if value != "" {
				header = append(header, name, value)
			}
		}
		res := post(t, h.url+path, body, header...)
		if res.StatusCode != c.status || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s with %+v: %d, %v", path, c, res.StatusCode, res.Header)
		}
	}
}

// TestSecureTransport: behind TLS every answer over HTTP says so, and none is kept, guessed at or shown to another origin.
func TestSecureTransport(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate and a client that trusts it
	defer certified.Close()
	h := startHost(t, hostOptions{})
	h.stop()
	h.cfg.TLS = &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS13}
	h.start()
	base := strings.Replace(h.url, "http://", "https://", 1)
	for path, body := range map[string]string{
		a2a.CardPath: "", "/a2a/rest/tasks/x": "", "/a2a/rest/message:send": message(`{"complete":"x"}`), "/nowhere": "", "/healthz": "",
		"/": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + message(`{"complete":"x"}`) + `}`,
	} {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
		res, err := certified.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		kept := res.Header.Get("Cache-Control") != "no-store" && path != a2a.CardPath && path != "/nowhere"
		if res.Header.Get("Strict-Transport-Security") != "max-age=31536000" || res.Header.Get("X-Content-Type-Options") != "nosniff" && path != "/healthz" ||
			kept || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s %v", path, res.Status, res.Header)
		}
	}
	if res, err := http.Get(h.url + "/healthz"); err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("the port answers without TLS")
		}
	}
}

// TestSameTime: a foreign task takes as long to be refused as one that never was, and so does a wrong API key that
// begins like a right one: time tells nobody what there is.
func TestSameTime(t *testing.T) {
	nowhere := uuid.NewString()
	lite, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lite.Close() }()
	for name, store := range map[string]taskstore.Store{"memory": taskstore.NewMemory(taskstore.MemoryOptions{}), "sqlite": lite} {
		t.Run(name, func(t *testing.T) {
			each(t, hostOptions{store: store}, func(t *testing.T, h *host, _ golden.Conn) {
				h.stop()
				h.cfg.Rates.Rate = -1
				h.start()
				conn := h.dial(t, bindingOf(t))
				hers := callAs(t, conn, "alice", "SendMessage", message(`{"complete":"`+strings.Repeat("x", 10_000)+`"}`)).ID
				get := func(id string) func() {
					r := golden.Request{Op: "GetTask", JSON: `{"id":"` + id + `"}`, Header: as("bob")}
					return func() {
						if _, err := golden.Call(t.Context(), conn, r); reason(err) != "TASK_NOT_FOUND" {
							t.Fatal(err)
						}
					}
				}
				sameTime(t, "GetTask", get(hers), get(nowhere))
			})
		})
	}
	t.Run("keys", func(t *testing.T) {
		const right = "right-0123456789abcdef"
		var list []auth.APIKey
		for i := range 100 {
			key, err := auth.ParseAPIKey(fmt.Sprintf("caller-%d=%s%d", i, right, i))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, key)
		}
		keys, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: list})
		if err != nil {
			t.Fatal(err)
		}
		a, err := auth.Any(auth.Options{Failures: -1, Log: slog.New(slog.DiscardHandler)}, keys)
		if err != nil {
			t.Fatal(err)
		}
		try := func(key string) func() {
			return func() {
				if err := a.Authenticate(t.Context(), &a2a.CallInfo{Header: http.Header{"X-Api-Key": {key}}}); !errors.Is(err, a2a.ErrUnauthenticated) {
					t.Fatal(err)
				}
			}
		}
		sameTime(t, "a wrong API key", try(right+"1x"), try(strings.Repeat("y", len(right)+2)))
	})
}

// sameTime fails the test if the two do not take about the same time, by the medians of many calls, taken in turns. The
// machine has other work: of several attempts one is enough. The race detector changes what takes long: there is no
// measuring under it.
func sameTime(t *testing.T, what string, known, unknown func()) {
	t.Helper()
	if build, ok := debug.ReadBuildInfo(); ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Log("not measured under the race detector")
		return
	}
	const most = 1.3
	var ratio float64
	for range 5 {
		var times [2][]float64
		for i := range 600 {
			k := i % 2
			f := known
			if k == 1 {
				f = unknown
			}
			begin := time.Now()
			f()
			if i >= 100 { // the first ones warm up
				times[k] = append(times[k], float64(time.Since(begin)))
			}
		}
		for _, list := range times {
			slices.Sort(list)
		}
		ratio = times[0][len(times[0])/2] / times[1][len(times[1])/2]
		if ratio < most && ratio > 1/most {
			t.Logf("%s: %.2f times as long", what, ratio)
			return
		}
	}
	t.Errorf("%s: %.2f times as long", what, ratio)
}
