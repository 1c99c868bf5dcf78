package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/binding/jsonrpc"
)

// peer is an agent whose card says what a test wants, with what arrived at it.
type peer struct {
	*httptest.Server

	mu       sync.Mutex
	card     *a2a.AgentCard
	requests []*http.Request // without those for the card
	cards    []*http.Request
}

// newPeer serves an agent on JSON-RPC. accepts says whether a request is let in; nil lets all in.
func newPeer(t *testing.T, a agent.Agent, accepts func(*a2a.CallInfo) bool, schemes map[string]a2a.SecurityScheme) *peer {
	t.Helper()
	if os.Getenv("XDG_CONFIG_HOME") == "" {
		t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // nothing of whoever runs the test
	}
	host, err := parley.New(parley.Config{Name: "Peer"}, a)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{card: new(*host.Card())}
	rpc := jsonrpc.NewHandler(host.Service(), jsonrpc.Options{Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
		if accepts != nil && !accepts(info) {
			return a2a.ErrUnauthenticated
		}
		return nil
	}})
	mux := http.NewServeMux()
	mux.HandleFunc(a2a.CardPath, func(w http.ResponseWriter, r *http.Request) {
		p.note(&p.cards, r)
		_, _ = w.Write(p.cardJSON())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.note(&p.requests, r)
		rpc.ServeHTTP(w, r)
	})
	p.Server = httptest.NewServer(mux)
	p.change(func(card *a2a.AgentCard) {
		card.SecuritySchemes = schemes
		card.SupportedInterfaces = []*a2a.AgentInterface{{URL: p.URL + "/", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		host.Shutdown(ctx)
		p.Close()
	})
	return p
}

// change changes what the card says from now on.
func (p *peer) change(f func(*a2a.AgentCard)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.card)
}

func (p *peer) cardJSON() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.card.AppendJSON(nil)
}

// note keeps a request as it arrived.
func (p *peer) note(list *[]*http.Request, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, r)
}

// received returns the requests that arrived, those for the card apart.
func (p *peer) received() (calls, cards []*http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests), slices.Clone(p.cards)
}

func (p *peer) last(t *testing.T) *http.Request {
	t.Helper()
	calls, _ := p.received()
	if len(calls) == 0 {
		t.Fatal("no request arrived")
	}
	return calls[len(calls)-1]
}

type result struct {
	code           int
	stdout, stderr string
}

func parleyRun(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := Main(args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func (r result) wants(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) {
		t.Errorf("exit code %d, want %d with %q and %q\nstdout:\n%s\nstderr:\n%s", r.code, code, stdout, stderr, r.stdout, r.stderr)
	}
}

// says is an agent that completes its task with a message.
func says(text string) agent.Func {
	return func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		return u.Complete(a2a.TextPart(text))
	}
}

func TestBearer(t *testing.T) {
	const token = "s3cret-token"
	bearer := map[string]a2a.SecurityScheme{"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
	p := newPeer(t, says("hi"), func(info *a2a.CallInfo) bool { return info.Header.Get("Authorization") == "Bearer "+token }, bearer)

	got := parleyRun("send", "-a", p.URL, "--bearer", token, "--debug", "x")
	got.wants(t, 0, "State: COMPLETED", "binding=JSONRPC")
	if strings.Contains(got.stderr, token) {
		t.Errorf("the token is in the diagnostics:\n%s", got.stderr)
	}
	t.Setenv("A2ACLI_BEARER", token)
	parleyRun("send", "-a", p.URL, "x").wants(t, 0, "State: COMPLETED", "")
	parleyRun("send", "-a", p.URL, "--bearer", "wrong", "x", "-o", "json").wants(t, 4, `"hint":"check the credential, `, "")
	t.Setenv("A2ACLI_BEARER", "")
	got = parleyRun("send", "-a", p.URL, "x", "-o", "json")
	got.wants(t, 4, `"hint":"its card declares HTTP Bearer: pass --bearer","a2aCode":-31401`, "")
	got.wants(t, 4, `"code":"A2ACLI_ERR_CREDENTIALS_MISSING"`, "")
	p.change(func(card *a2a.AgentCard) { card.SecuritySchemes = nil })
	before, _ := p.received()
	parleyRun("card", "get", "--extended", "-a", p.URL, "--bearer", token).wants(t, 2, "", "its card declares no security scheme")
	if calls, _ := p.received(); len(calls) > len(before) {
		t.Error("the token was sent to an agent that asks for none")
	}
	_, cards := p.received()
	for _, r := range cards {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token was sent for the card")
		}
	}
}

func TestSecretsStayWithTheCard(t *testing.T) {
	bearer := map[string]a2a.SecurityScheme{"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
	p := newPeer(t, says("hi"), nil, bearer)
	elsewhere := newPeer(t, says("hi"), nil, bearer)
	foreign := onNetwork(t, elsewhere.Config.Handler)
	p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].URL = foreign })
	for _, tt := range []struct {
		code  int
		what  string
		flags []string
	}{
		{4, "the credential is not sent", []string{"--bearer", "t0ken"}},
		{4, "the credential is not sent", []string{"--api-key", "t0ken"}},
		{4, "what the credential and --svc-param say is not sent", []string{"--svc-param", "Authorization: Basic dDprZXk="}},
		{4, "what the credential and --svc-param say is not sent", []string{"--svc-param", "x-trace: 1", "--bearer", "t0ken"}},
		{2, "what --svc-param says is not sent", []string{"--svc-param", "x-trace: 1"}},
	} {
		got := parleyRun(append([]string{"send", "-a", p.URL, "x", "-o", "json"}, tt.flags...)...)
		got.wants(t, tt.code, tt.what+": the card of "+p.URL, "")
		got.wants(t, tt.code, "save the card to a file", "")
	}
	if calls, _ := elsewhere.received(); len(calls) > 0 {
		t.Errorf("%d requests went to the other host", len(calls))
	}
	// Without them it may be called, and with a card that the operator has put into a file.
	parleyRun("send", "-a", p.URL, "x").wants(t, 0, "State: COMPLETED", "")
	file := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(file, p.cardJSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	parleyRun("send", "-a", file, "--bearer", "t0ken", "--svc-param", "x-trace: 1", "x").wants(t, 0, "State: COMPLETED", "")
	if h := elsewhere.last(t).Header; h.Get("Authorization") != "Bearer t0ken" || h.Get("X-Trace") != "1" {
		t.Errorf("headers %v", h)
	}
	// Another port of this machine may be another user's.
	p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].URL = elsewhere.URL + "/" })
	before, _ := elsewhere.received()
	parleyRun("send", "-a", p.URL, "--bearer", "t0ken", "x").wants(t, 4, "", "the credential is not sent")
	if calls, _ := elsewhere.received(); len(calls) > len(before) {
		t.Error("the credential went to another port of this machine")
	}
}

// onNetwork serves h at an address of this machine that is not its loopback's.
func onNetwork(t *testing.T, h http.Handler) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		ip, ok := addr.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		return s.URL + "/"
	}
	t.Skip("this machine has no network")
	return ""
}

func TestBelongs(t *testing.T) {
	for _, tt := range []struct {
		card, binding, url string
		want               bool
	}{
		{"https://a.example/card", a2a.BindingJSONRPC, "https://a.example/rpc", true},
		{"https://a.example/card", a2a.BindingREST, "https://A.example:443/rpc", true},
		{"https://a.example/card", a2a.BindingJSONRPC, "http://a.example/rpc", false},
		{"https://a.example/card", a2a.BindingJSONRPC, "https://a.example:8443/rpc", false},
		{"https://a.example/card", a2a.BindingJSONRPC, "https://b.a.example/rpc", false},
		{"https://a.example/card", a2a.BindingJSONRPC, "http://127.0.0.1/rpc", false},
		{"https://a.example/card", a2a.BindingGRPC, "a.example:50051", true},
		{"https://a.example/card", a2a.BindingGRPC, "b.example:443", false},
		{"https://a.example/card", a2a.BindingGRPC, "https://a.example:50051", true},
		{"http://127.0.0.1:1/card", a2a.BindingJSONRPC, "http://127.0.0.1:2/", false},
		{"http://127.0.0.1:1/card", a2a.BindingJSONRPC, "http://localhost:1/rpc", true},
		{"http://[::1]:1/card", a2a.BindingREST, "http://localhost:1/", true},
		{"http://127.0.0.1:1/card", a2a.BindingGRPC, "127.0.0.2:2", false},
		{"http://127.0.0.1:1/card", a2a.BindingGRPC, "localhost:2", true},
		{"http://127.0.0.1:1/card", a2a.BindingJSONRPC, "http://a.example/", false},
		{"file:///card.json", a2a.BindingJSONRPC, "https://b.example/", true},
	} {
		if got := belongs(tt.card, &a2a.AgentInterface{URL: tt.url, ProtocolBinding: tt.binding}); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestAPIKey(t *testing.T) {
	const key = "k3y=&value"
	for _, tt := range []struct {
		scheme a2a.APIKeySecurityScheme
		find   func(*http.Request) string
	}{
		{a2a.APIKeySecurityScheme{Location: "header", Name: "x-key"}, func(r *http.Request) string { return r.Header.Get("X-Key") }},
		{a2a.APIKeySecurityScheme{Location: "query", Name: "key"}, func(r *http.Request) string { return r.URL.Query().Get("key") }},
		{a2a.APIKeySecurityScheme{Location: "cookie", Name: "key"}, func(r *http.Request) string {
			c, err := r.Cookie("key")
			if err != nil {
				return err.Error()
			}
			return c.Value
		}},
	} {
		t.Run(tt.scheme.Location, func(t *testing.T) {
			p := newPeer(t, says("hi"), nil, map[string]a2a.SecurityScheme{"key": &tt.scheme})
			got := parleyRun("send", "-a", p.URL, "--api-key", key, "--debug", "x")
			got.wants(t, 0, "State: COMPLETED", "")
			if found := tt.find(p.last(t)); found != key {
				t.Errorf("the key arrived as %q", found)
			}
			if strings.Contains(got.stderr, "k3y") {
				t.Errorf("the key is in the diagnostics:\n%s", got.stderr)
			}
			_, cards := p.received()
			for _, r := range cards {
				if r.URL.RawQuery != "" || r.Header.Get("X-Key") != "" || len(r.Cookies()) > 0 {
					t.Errorf("the key was sent for the card: %s %v", r.URL, r.Header)
				}
			}
		})
	}
	for name, s := range map[string]a2a.SecurityScheme{
		"takes no API key; its card declares HTTP Bearer": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"},
		"the header Host, which is not for keys":          &a2a.APIKeySecurityScheme{Location: "header", Name: "host"},
		"the header A2a-Version, which is not for keys":   &a2a.APIKeySecurityScheme{Location: "header", Name: "a2a-version"},
	} {
		p := newPeer(t, says("hi"), nil, map[string]a2a.SecurityScheme{"s": s})
		parleyRun("send", "-a", p.URL, "--api-key", key, "x").wants(t, 2, "", name)
		if calls, _ := p.received(); len(calls) > 0 {
			t.Errorf("%s: a request was made", name)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	s := new(app).session(new(clientFlags))
	f := failureOf(s.explain(t.Context(), &a2a.Error{Code: a2a.ErrResourceExhausted, RetryAfter: 30 * time.Second}))
	if !strings.HasSuffix(f.hint, "try again in 30s") {
		t.Errorf("the hint is %q", f.hint)
	}
}

func TestServiceParameters(t *testing.T) {
	p := newPeer(t, says("hi"), nil, nil)
	got := parleyRun("task", "list", "-a", p.URL, "--svc-param", "x-trace:abcdefgh:1", "--svc-param", "A2A-Extensions: https://x.example/e",
		"--a2a-version", "1.0.3", "--debug")
	got.wants(t, 0, "Total: 0", "")
	h := p.last(t).Header
	if h.Get("X-Trace") != "abcdefgh:1" || !strings.HasPrefix(h.Get("A2A-Extensions"), "https://x.example/e,") || h.Get("A2A-Version") != "1.0.3" {
		t.Errorf("headers %v", h)
	}
	if strings.Contains(got.stderr, "abcdefgh") {
		t.Errorf("a service parameter is in the diagnostics:\n%s", got.stderr)
	}
}

func TestTenant(t *testing.T) {
	p := newPeer(t, says("hi"), nil, nil)
	p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].Tenant = "elsewhere" })
	parleyRun("task", "list", "-a", p.URL).wants(t, 1, "", "Error: ")
}

func TestInsecure(t *testing.T) {
	p := newPeer(t, says("hi"), nil, map[string]a2a.SecurityScheme{"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}})
	s := httptest.NewUnstartedServer(p.Config.Handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // that the first call does not trust it
	s.StartTLS()
	t.Cleanup(s.Close)
	p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].URL = s.URL + "/" })
	parleyRun("send", "-a", s.URL, "x", "-o", "json").wants(t, 3, `"code":"A2ACLI_ERR_UNREACHABLE"`, "")
	parleyRun("send", "-a", s.URL, "--insecure", "x").wants(t, 0, "State: COMPLETED", "Warning: TLS certificates are not verified")
	parleyRun("send", "-a", s.URL, "--insecure", "--bearer", "t0ken", "x").wants(t, 0, "State: COMPLETED", "the credential included")
}

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name, stdout, stderr string
		agent                agent.Func
	}{
		{
			"failed", "State: FAILED\nMessage:\n  no paper\n\n", "Warning: the task failed\n",
			func(context.Context, *agent.Request, *agent.Updater) error { return agent.Errorf("no paper") },
		},
		{
			"authorization", "State: AUTH_REQUIRED\nResume: parley send -a ", "Warning: the agent needs an authorization",
			func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
				return u.ParkAuth(a2a.TextPart("May I?"))
			},
		},
		{
			"waiting for an authorization", "State: AUTH_REQUIRED\nResume: parley send -a ", "Warning: the agent needs an authorization",
			func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
				_, err := u.AskAuth(ctx, a2a.TextPart("May I?"))
				return err
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t, tt.agent, nil, nil)
			parleyRun("send", "-a", p.URL, "x").wants(t, 0, tt.stdout, tt.stderr)
			parleyRun("send", "-a", p.URL, "x", "--stream").wants(t, 0, tt.stdout, tt.stderr)
			got := parleyRun("send", "-a", p.URL, "x", "-o", "json")
			got.wants(t, 0, `{"task":{`, tt.stderr)
			if strings.Contains(tt.stdout, "Resume") {
				got.wants(t, 0, "", "Resume: parley send -a "+p.URL+" --task-id ")
			}
		})
	}
}

func TestFollow(t *testing.T) {
	const (
		working   = a2a.TaskStateWorking
		input     = a2a.TaskStateInputRequired
		auth      = a2a.TaskStateAuthRequired
		unknown   = a2a.TaskStateUnspecified
		completed = a2a.TaskStateCompleted
	)
	for _, tt := range []struct {
		name    string
		resumes bool
		states  []a2a.TaskState // the first is that of a Task, the others of updates
		read    int             // of the states
		ok      bool
	}{
		{"to the end", false, []a2a.TaskState{working, working, completed}, 3, true},
		{"to a question", false, []a2a.TaskState{working, input, working, completed}, 2, true},
		{"to an authorization", false, []a2a.TaskState{auth, completed}, 1, true},
		{"past the question that is answered", true, []a2a.TaskState{input, working, completed}, 3, true},
		{"to the next question", true, []a2a.TaskState{working, input, completed}, 2, true},
		{"to a question that nothing follows", true, []a2a.TaskState{input}, 1, true},
		{"past what is no state", false, []a2a.TaskState{unknown, unknown, completed}, 3, true},
		{"cut short", false, []a2a.TaskState{working, working}, 2, false},
		{"nothing", false, nil, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			read := 0
			events := func(yield func(a2a.Entry, error) bool) {
				for i, state := range tt.states {
					var ev a2a.Event = &a2a.TaskStatusUpdateEvent{TaskID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: state}}
					if i == 0 {
						ev = &a2a.Task{ID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: state}}
					}
					read++
					if !yield(a2a.NewEntry(0, ev), nil) {
						return
					}
				}
			}
			var stdout, stderr bytes.Buffer
			s := &session{output: output{w: &stdout}, flags: new(clientFlags), err: &stderr}
			result, err := s.follow(events, tt.resumes)
			if read != tt.read || (err == nil) != tt.ok {
				t.Fatalf("%d events read, want %d; error %v", read, tt.read, err)
			}
			if task, ok := result.(*a2a.Task); tt.ok && (!ok || task.Status.State != tt.states[tt.read-1] || task.ID != "t1") {
				t.Errorf("got %+v", result)
			}
			if n := strings.Count(stderr.String(), "Waiting for task t1"); n > 1 || n == 0 && read > 1 {
				t.Errorf("stderr %q", stderr.String())
			}
		})
	}
}

// TestRepeatingStreams: an agent whose streams all break does not have the same printed again and again, and the person
// learns why nothing comes.
func TestRepeatingStreams(t *testing.T) {
	home(t)
	const working = `"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}`
	var asked atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == a2a.CardPath {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"name":"x","description":"x","version":"1","capabilities":{"streaming":true},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],`+
				`"supportedInterfaces":[{"url":"http://`+r.Host+`","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`)
			return
		}
		var call struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		answer := func(result string) string {
			return `{"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":` + result + `}`
		}
		if call.Method == "GetTask" {
			w.Header().Set("Content-Type", "application/json")
			state := working
			if asked.Add(1) > 3 {
				state = strings.Replace(working, "WORKING", "COMPLETED", 1)
			}
			_, _ = io.WriteString(w, answer(`{`+state+`}`))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+answer(`{"task":{`+working+`}}`)+"\n\n"+
			"data: "+answer(`{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}`)+"\n\n")
	}))
	defer front.Close()
	r := parleyRun("send", "-a", front.URL, "--stream", "-o", "json", "--timeout", "30s", "--poll-interval", "10ms", "x")
	r.wants(t, 0, `{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`, "")
	if n := strings.Count(r.stdout, "\n"); n != 3 {
		t.Errorf("%d lines, want the task, its update, and its end:\n%s", n, r.stdout)
	}
	if want := "Warning: the agent was lost, trying again: the stream ended before the task did\n"; r.stderr != want {
		t.Errorf("stderr %q", r.stderr)
	}
}

// A process that is told to stop leaves the task alone and says how to come back to it.
func TestInterrupt(t *testing.T) {
	p := newPeer(t, agent.Func(func(ctx context.Context, _ *agent.Request, _ *agent.Updater) error {
		<-ctx.Done()
		return ctx.Err()
	}), nil, nil)
	cmd := exec.CommandContext(t.Context(), "parley", "send", "-a", p.URL, "-o", "json", "x")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	id, ok := strings.CutPrefix(strings.TrimSpace(line), "Waiting for task ")
	if err != nil || !ok {
		t.Fatalf("stderr %q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code says it
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), ""}
	r.wants(t, 1, `{"error":{"code":"A2ACLI_ERR_INTERNAL","message":"interrupted; task `+id+` goes on","hint":"parley task get -a `+p.URL+` --wait `+id+`"`, "")
	parleyRun("task", "get", "-a", p.URL, id).wants(t, 0, "State: WORKING", "")
}

func TestUntrustedText(t *testing.T) {
	p := newPeer(t, says("\x1b]0;owned\x07\u202etxt\nTask: forged\r\n\u009b31m"), nil, nil)
	p.change(func(card *a2a.AgentCard) { card.Name = "Evil\x1b[2J\nState: COMPLETED" })
	got := parleyRun("send", "-a", p.URL, "x")
	got.wants(t, 0, "Message:\n  \\x1b]0;owned\\x07\\u202etxt\n  Task: forged\n  \\u009b31m\n\n", "")
	got = parleyRun("send", "-a", p.URL, "x", "-o", "json")
	got.wants(t, 0, `\u001b]0;owned\u0007\u202etxt\nTask: forged\r\n\u009b31m`, "")
	if strings.ContainsFunc(got.stdout, func(r rune) bool { return r != '\n' && hidden(r) }) {
		t.Errorf("raw control characters in %q", got.stdout)
	}
	got = parleyRun("card", "get", "-a", p.URL)
	got.wants(t, 0, "Agent: Evil\\x1b[2J\\nState: COMPLETED\n", "")
}

func TestEnvelopeFields(t *testing.T) {
	got := parleyRun("send", "-o", "json")
	var e map[string]map[string]any
	if err := json.Unmarshal([]byte(got.stdout), &e); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"code", "message", "hint", "a2aCode"} {
		if _, ok := e["error"][name]; !ok {
			t.Errorf("no %s in %s", name, got.stdout)
		}
	}
	if got.code != 2 || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
}

// Where the result cannot be written, neither can the error be there.
func TestNowhereToWrite(t *testing.T) {
	for _, args := range [][]string{{"config", "show", "-o", "json"}, {"config", "show", "-o", "text"}} {
		r, w := io.Pipe()
		_ = r.Close()
		var stderr bytes.Buffer
		if code := Main(args, strings.NewReader(""), w, &stderr); code != 1 || !strings.Contains(stderr.String(), "could not be written") {
			t.Errorf("%v: %d, %q", args, code, stderr.String())
		}
	}
}

// A file may say that there is no gRPC: the environment does not make an address of it.
func TestListenAddressesOfAFile(t *testing.T) {
	for _, host := range []string{"", "0.0.0.0"} {
		t.Setenv("HOST", host)
		t.Setenv("PORT", "")
		c := &serveCommand{app: new(app)}
		cmd := c.command()
		c.cfg.GRPCListen = parley.NoListen
		if err := c.fromEnvironment(cmd); err != nil {
			t.Fatal(err)
		}
		if c.cfg.GRPCListen != parley.NoListen {
			t.Errorf("HOST=%s: gRPC at %q", host, c.cfg.GRPCListen)
		}
	}
}

func TestListenAddresses(t *testing.T) {
	for _, tt := range []struct {
		host, port string
		args       []string
		http, grpc string
	}{
		{"", "", nil, "127.0.0.1:41241", "127.0.0.1:41242"},
		{"0.0.0.0", "", nil, "0.0.0.0:41241", "0.0.0.0:41242"},
		{"", "8080", nil, "127.0.0.1:8080", "127.0.0.1:41242"},
		{"::1", "0", nil, "[::1]:0", "[::1]:41242"},
		{"[::1]", "0", []string{"--listen", "localhost:1"}, "localhost:1", "[::1]:41242"},
		{"::1", "0", []string{"--grpc-listen", "none"}, "[::1]:0", "none"},
	} {
		t.Setenv("HOST", tt.host)
		t.Setenv("PORT", tt.port)
		c := &serveCommand{app: new(app)}
		cmd := c.command()
		if err := cmd.ParseFlags(tt.args); err != nil {
			t.Fatal(err)
		}
		if err := c.fromEnvironment(cmd); err != nil {
			t.Fatal(err)
		}
		if c.cfg.Listen != tt.http || c.cfg.GRPCListen != tt.grpc {
			t.Errorf("%+v: %s and %s", tt, c.cfg.Listen, c.cfg.GRPCListen)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"": "''", "a-b_c./:@%+=,": "a-b_c./:@%+=,", "your answer": "'your answer'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "ü": "'ü'",
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
