package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/console"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/taskstore"
)

// visitor sends requests to a console as a browser with a session does.
type visitor struct {
	t      *testing.T
	base   string
	cookie *http.Cookie
}

// do sends a request; header has names and values in turn.
func (v *visitor) do(method, path, body string, header ...string) (*http.Response, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	if v.cookie != nil {
		r.AddCookie(v.cookie)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return res, string(b)
}

// signIn opens a session.
func (v *visitor) signIn(token string, header ...string) *http.Response {
	v.t.Helper()
	res, _ := v.do("POST", "api/session", `{"token":"`+token+`"}`, append(header, "Content-Type", "application/json")...)
	for _, c := range res.Cookies() {
		v.cookie = c
	}
	return res
}

func TestSession(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	v := &visitor{t: t, base: s.base}
	for _, path := range []string{
		"api/agents", "api/events", "api/wire", "api/wire/1", "api/agents/agent/card", "api/agents/agent/a2a/tasks",
		"api/agents/agent/tasks/x/log", "api/agents/agent/webhooks",
	} {
		if res, _ := v.do("GET", path, "", "A2A-Version", "1.0"); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a session: %s", path, res.Status)
		}
	}
	for _, token := range []string{"", "wrong", s.token + "x", s.token[:25]} {
		if res := v.signIn(token); res.StatusCode != http.StatusUnauthorized || v.cookie != nil {
			t.Errorf("the token %q: %s", token, res.Status)
		}
	}
	if res := v.signIn(s.token); res.StatusCode != http.StatusNoContent {
		t.Fatalf("the token: %s", res.Status)
	}
	if c := v.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/console" || strings.Contains(c.Value, s.token) {
		t.Errorf("the cookie is %v", c)
	}
	if res, body := v.do("GET", "api/agents", ""); res.StatusCode != http.StatusOK || !strings.Contains(body, `"operator":true`) {
		t.Errorf("with a session: %s %s", res.Status, body)
	}
	v.do("DELETE", "api/session", "")
	if res, _ := v.do("GET", "api/agents", ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the session was closed: %s", res.Status)
	}
}

// A page of another origin drives nothing, with a session or without (row B11 of docs/threats.md).
func TestForeignPages(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	own := strings.TrimSuffix(s.base, "/console/")
	for name, tt := range map[string]struct {
		method, path string
		header       []string
		want         int
	}{
		"our own page":      {"GET", "api/agents", []string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, 200},
		"no browser":        {"GET", "api/agents", nil, 200},
		"another Host":      {"GET", "api/agents", []string{"Host", "evil.example"}, 403},
		"the page too":      {"GET", "", []string{"Host", "evil.example"}, 403},
		"another Origin":    {"GET", "api/agents", []string{"Origin", "https://evil.example"}, 403},
		"another port":      {"GET", "api/agents", []string{"Origin", "http://127.0.0.1:1"}, 403},
		"null":              {"POST", "api/agents/agent/a2a/message:send", []string{"Origin", "null"}, 403},
		"the same site":     {"GET", "api/agents", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		"a link to the API": {"GET", "api/agents", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		"a link to us":      {"GET", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		"a form":            {"POST", "api/session", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"text":              {"POST", "api/agents/agent/a2a/message:send", []string{"A2A-Version", "1.0", "Content-Type", "text/plain"}, 415},
	} {
		if res, body := v.do(tt.method, tt.path, "{}", tt.header...); res.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d: %.200s", name, res.Status, tt.want, body)
		}
	}
}

func TestHeaders(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	v := &visitor{t: t, base: s.base}
	for _, path := range []string{"", "main.js", "style.css", "api/agents", "nothing"} {
		res, _ := v.do("GET", path, "")
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%q: the policy %q has no %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%q: headers %v", path, res.Header)
		}
	}
	if res, _ := v.do("POST", "main.js", ""); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST of a file: %s", res.Status)
	}
}

// A body on the wire is a file to be kept, whatever it says it is.
func TestBodyIsADownload(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	s.say(t, a2a.TextPart("<script>alert(1)</script>"))
	s.recorded(t, 2)
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	res, body := v.do("GET", "api/wire/2/request", "")
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "alert(1)") || res.Header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment;") {
		t.Errorf("%s %v\n%s", res.Status, res.Header, body)
	}
	for path, want := range map[string]int{"api/wire/999": 404, "api/wire/x": 404, "api/wire?after=-1": 400, "api/wire/2/frames?after=x": 400} {
		if res, _ := v.do("GET", path, ""); res.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, res.Status, want)
		}
	}
}

// Whoever comes with a caller's credential sees what is that caller's, and neither the wire nor other callers' tasks.
func TestCallers(t *testing.T) {
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	authenticate := func(_ context.Context, info *a2a.CallInfo) error {
		name := info.Header.Get("X-API-Key")
		if name != "alice" && name != "bob" {
			return a2a.Errorf(a2a.ErrUnauthenticated, "who are you?")
		}
		info.Caller = a2a.Caller{Issuer: "api-key", Subject: name}
		if name == "bob" {
			info.Caller.Expiry = time.Now().Add(-time.Second)
		}
		return nil
	}
	host, err := parley.New(parley.Config{Name: "x", AgentName: scope, Store: store, Authenticate: authenticate}, new(script.Agent))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Shutdown(context.Background()) })
	send := func(subject string) string {
		ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Caller: a2a.Caller{Issuer: "api-key", Subject: subject}})
		res, err := host.Service().SendMessage(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{
			MessageID: "m", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("of " + subject)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return res.(*a2a.Task).ID
	}
	own, foreign := send("alice"), send("carol")
	c, err := console.New(console.Options{
		Agents:       func() []console.Agent { return []console.Agent{{Name: scope, Service: host.Service(), Store: store}} },
		Authenticate: authenticate, Hosts: []string{"console.example"}, Secure: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	v := &visitor{t: t, base: srv.URL + console.Path}
	if res := v.signIn("", "X-API-Key", "mallory"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong credential: %s", res.Status)
	}
	if res := v.signIn("", "X-API-Key", "bob"); res.StatusCode != http.StatusNoContent {
		t.Fatal(res.Status)
	}
	if res, _ := v.do("GET", "api/agents", ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the credential's end: %s", res.Status)
	}
	if res := v.signIn("", "X-API-Key", "alice", "Host", "console.example"); res.StatusCode != http.StatusNoContent || !v.cookie.Secure {
		t.Fatalf("a good credential: %s, %v", res.Status, v.cookie)
	}
	v.signIn("", "X-API-Key", "alice")
	here := "api/agents/" + scope
	for path, want := range map[string]int{
		here + "/a2a/tasks/" + own: 200, here + "/a2a/tasks/" + foreign: 404, here + "/tasks/" + own + "/log": 200,
		here + "/tasks/" + foreign + "/log": 404, "api/wire": 403, here + "/webhooks": 200, here + "/webhooks?task=" + foreign: 404,
	} {
		res, body := v.do("GET", path, "", "A2A-Version", "1.0")
		if res.StatusCode != want || strings.Contains(body, "carol") {
			t.Errorf("%s: %s, want %d: %.200s", path, res.Status, want, body)
		}
	}
	_, list := v.do("GET", here+"/a2a/tasks", "", "A2A-Version", "1.0")
	if !strings.Contains(list, own) || strings.Contains(list, foreign) {
		t.Errorf("the list is %s", list)
	}
}

func TestNewRefuses(t *testing.T) {
	agents := func() []console.Agent { return nil }
	for name, o := range map[string]console.Options{
		"no agent":        {Token: console.NewToken()},
		"nobody can open": {Agents: agents},
		"a short token":   {Agents: agents, Token: "short"},
	} {
		if _, err := console.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// unsafe is what would make somebody else's words part of the page, or reach beyond it.
var unsafe = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://[a-z]|style="|\son\w+="|import\(`)

func TestAssets(t *testing.T) {
	assets := os.DirFS("assets")
	total := 0
	err := fs.WalkDir(assets, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(assets, name)
		total += len(b)
		text := strings.ReplaceAll(strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", ""), "https://hooks.example", "")
		text = strings.ReplaceAll(text, "'http://x'", "")
		for _, m := range unsafe.FindAllString(text, -1) {
			t.Errorf("%s has %q", name, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if total > 128<<10 {
		t.Errorf("the page has %d bytes", total)
	}
}

// TestContrast holds the palette to WCAG 2.2 AA: 4.5 for text, 3 for what is no text.
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`).FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	grounds := []string{"bg", "panel", "raised", "chosen"}
	pairs := map[[2]string]float64{{"on-accent", "accent"}: 4.5, {"bg", "text"}: 4.5}
	for _, g := range grounds {
		for _, c := range []string{"text", "muted", "accent", "good", "warn", "bad"} {
			pairs[[2]string{c, g}] = 4.5
		}
	}
	for _, g := range []string{"bg", "panel", "raised"} {
		pairs[[2]string{"edge", g}] = 3
	}
	for pair, want := range pairs {
		for i, theme := range []string{"light", "dark"} {
			a, b := colours[pair[0]][i], colours[pair[1]][i]
			if got := contrast(t, a, b); got < want {
				t.Errorf("%s: %s %s on %s %s has %.2f, want %.1f", theme, pair[0], a, pair[1], b, got, want)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance is the relative luminance of WCAG 2.2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(fmt.Sprintf("%.2s", hex[min(1+2*i, len(hex)):]), 16, 8)
		if err != nil {
			t.Fatalf("the colour %q: %v", hex, err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Hints of changes come as they happen.
func TestEvents(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(v.cookie)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	want := map[string]bool{"event: hello": true, "event: tasks": true, "event: wire": true}
	sent := false
	for buf := make([]byte, 4096); len(want) > 0; {
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatalf("%v; still wanted: %v", err, want)
		}
		for line := range strings.SplitSeq(string(buf[:n]), "\n") {
			delete(want, line)
		}
		if !sent {
			sent = true
			s.say(t, a2a.TextPart("x"))
		}
	}
}

// A large event is left out of a timeline, and says so.
func TestLogLeavesOut(t *testing.T) {
	s := play(t, echo(), nil)
	task := s.say(t, a2a.TextPart(strings.Repeat("x", 300<<10)))
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	_, body := v.do("GET", "api/agents/agent/tasks/"+task.ID+"/log?after=0", "")
	var log struct {
		Records []struct {
			Generation int64
			Size       int
			Cut        bool
		}
	}
	if err := json.Unmarshal([]byte(body), &log); err != nil {
		t.Fatal(err)
	}
	cut := 0
	for i, r := range log.Records {
		if r.Generation != int64(i+1) {
			t.Errorf("record %d has generation %d", i, r.Generation)
		}
		if r.Cut {
			cut++
		}
	}
	if cut == 0 || len(body) > 10<<10 {
		t.Errorf("%d of %d records are cut, in %d bytes", cut, len(log.Records), len(body))
	}
}

// vouching is a service that hears with which key it is called.
type vouching struct {
	a2a.Service
	key string
}

func (s *vouching) ListTasks(ctx context.Context, _ *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	s.key = a2a.CallInfoFrom(ctx).Header.Get("X-API-Key")
	return &a2a.ListTasksResponse{}, nil
}

// TestCredentialOfSession: whoever serves gets the credential that opened the session, to ask for it again while a stream
// lasts, and the session ends when the credential does.
func TestCredentialOfSession(t *testing.T) {
	var revoked atomic.Bool
	good := func(_ context.Context, info *a2a.CallInfo) error {
		if info.Header.Get("X-API-Key") != "alice" || revoked.Load() {
			return a2a.Errorf(a2a.ErrUnauthenticated, "who are you?")
		}
		info.Caller = a2a.Caller{Issuer: "api-key", Subject: "alice"}
		return nil
	}
	svc := &vouching{}
	c, err := console.New(console.Options{
		Agents:       func() []console.Agent { return []console.Agent{{Name: scope, Service: svc}} },
		Authenticate: good, Valid: func(ctx context.Context) error { return good(ctx, a2a.CallInfoFrom(ctx)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	v := &visitor{t: t, base: srv.URL + console.Path}
	v.signIn("", "X-API-Key", "alice")
	list := func() int {
		res, _ := v.do("GET", "api/agents/"+scope+"/a2a/tasks", "", "A2A-Version", "1.0")
		return res.StatusCode
	}
	if got := list(); got != http.StatusOK || svc.key != "alice" {
		t.Errorf("%d, called with %q", got, svc.key)
	}
	revoked.Store(true)
	if got := list(); got != http.StatusUnauthorized {
		t.Errorf("after the credential was revoked: %d", got)
	}
	revoked.Store(false)
	if got := list(); got != http.StatusUnauthorized {
		t.Errorf("the session that ended: %d", got)
	}
}
