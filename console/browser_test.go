package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/console"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/tap"
	"github.com/parley-a2a/parley/taskstore"
)

// wait is how long the page may take for one thing on a busy machine.
const wait = 10 * time.Second

// chrome starts one browser for all tests of this process.
var chrome = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return nil, fmt.Errorf("no chromium is installed (apt install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 800))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ = chromedp.NewContext(ctx)
	stopChrome = stop
	return ctx, chromedp.Do(ctx)
})

var stopChrome = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stopChrome()
	os.Exit(code)
}

// tab is a page of the console in a browser. At the end of its test it has asked nobody but the console for anything,
// broken no rule of its policy, and thrown nothing.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu    sync.Mutex
	wrong []string
}

// open opens a page of the console in a tab of its own.
func open(t *testing.T, where string) *tab {
	t.Helper()
	browser, err := chrome()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t, ctx: ctx, url: where}
	if err := chromedp.Listen(ctx, func(ev any) { b.hear(ev, u.Host) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.wrong {
			t.Error(w)
		}
	})
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.Navigate(where))
	return b
}

// hear notes what a page must not do.
func (b *tab) hear(ev any, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := func(format string, args ...any) { b.wrong = append(b.wrong, fmt.Sprintf(format, args...)) }
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(ev.Request.URL)
		if err != nil || u.Host != host && u.Scheme != "blob" && u.Scheme != "data" && u.Scheme != "about" {
			note("the page asked for %s", ev.Request.URL)
		}
	case *log.EventEntryAdded:
		if ev.Entry.Source != log.EntrySourceNetwork {
			note("the browser complains (%s): %s", ev.Entry.Source, ev.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		note("the page threw %s %+v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
	case *page.EventJavascriptDialogOpening:
		note("the page opened a dialog: %s", ev.Message)
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.state())
	}
}

// state is what is on the page, for the message of a failure.
func (b *tab) state() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	s, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.hash + "\n" + document.body.innerText.slice(0, 3000)`))
	b.mu.Lock()
	defer b.mu.Unlock()
	return s + "\n" + strings.Join(b.wrong, "\n")
}

// until waits for a JavaScript expression to be true.
func (b *tab) until(expr string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait)
	defer cancel()
	look := fmt.Sprintf(`new Promise((done) => { (function look() {
		try { if (%s) { done(true); return; } } catch {}
		setTimeout(look, 20);
	})(); })`, expr)
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](look, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatalf("never: %s (%v)\n%s", expr, err, b.state())
	}
}

// shows waits for an element with the text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))`, js(selector), js(text)))
}

// eval returns the value of a JavaScript expression.
func eval[T any](b *tab, expr string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expr, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", expr, err, b.state())
	}
	return v
}

// click clicks, as a mouse does, on the first visible element with the selector whose text begins with the words.
func (b *tab) click(selector, words string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(%s)].find((e) => e.checkVisibility() && (e.innerText || "").trim().startsWith(%s))`, js(selector), js(words))
	b.until("!!" + find)
	box := eval[[2]float64](b, fmt.Sprintf(`(() => { const e = %s; e.scrollIntoView({block: "nearest", inline: "nearest"});
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`, find))
	b.run(chromedp.MouseClickXY(box[0], box[1]))
}

// typeIn puts text into a field by the keyboard's way of doing it.
func (b *tab) typeIn(label, text string) {
	b.t.Helper()
	selector := fmt.Sprintf(`:is(input, textarea)[aria-label=%s]`, js(label))
	b.until(fmt.Sprintf(`document.querySelector(%s)?.checkVisibility()`, js(selector)))
	eval[bool](b, fmt.Sprintf(`(document.querySelector(%s).focus(), document.execCommand("insertText", false, %s))`, js(selector), js(text)))
}

func (b *tab) press(keys string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(keys))
}

func (b *tab) view(name string) {
	b.t.Helper()
	b.click("#views a", name)
	b.until(fmt.Sprintf(`document.querySelector("#views a[aria-current]")?.innerText === %s`, js(name)))
}

func js(v any) string {
	s, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(s)
}

// stage is a host, a recorder in front of it, and a console.
type stage struct {
	host  *parley.Host
	store taskstore.Store
	wire  *tap.Recorder
	url   string // of the agent
	page  string // the address that opens the console
	base  string // of the console
	token string
	agent console.Agent

	authenticate a2a.Authenticate // nil: the host asks nobody who calls
}

// operator is who the console is to a host that asks.
var operator = a2a.Caller{Issuer: "console", Subject: "operator"}

const scope = "agent" // the routing word of every agent here

// play serves an agent, and the console of it as parley serve shows one.
func play(t *testing.T, a agent.Agent, change func(*parley.Config)) *stage {
	t.Helper()
	s := &stage{store: taskstore.NewMemory(taskstore.MemoryOptions{})}
	deliveries := new(console.Deliveries)
	s.store = deliveries.Watch(s.store)
	hooks, err := push.New(push.Options{Store: s.store, Agent: scope, AllowPrivate: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	s.url = "http://" + l.Addr().String()
	cfg := parley.Config{
		Name: "Stage agent", AgentName: scope, Description: "Plays what it is told.", Store: s.store, Push: hooks, PublicURL: s.url,
		GRPCListen: parley.NoListen, Version: "1.2.3", MaxBody: 32 << 20,
		DefaultInputModes: []string{"*/*"}, DefaultOutputModes: []string{"*/*"},
	}
	if change != nil {
		change(&cfg)
	}
	s.authenticate = cfg.Authenticate
	if s.host, err = parley.New(cfg, a); err != nil {
		t.Fatal(err)
	}
	if err := hooks.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.wire, err = tap.NewRecorder(tap.Options{Card: s.host.Card()}); err != nil {
		t.Fatal(err)
	}
	serve(t, l, s.wire.Handler(s.host))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.host.Shutdown(ctx)
		hooks.Shutdown(ctx)
		_ = s.wire.Close()
	})
	shown := console.Agent{Name: scope, Card: s.card, Service: s.host.Service(), Store: s.store, Deliveries: deliveries}
	if s.authenticate != nil {
		shown.Caller = operator
	}
	s.show(t, shown)
	return s
}

// afar serves the console of an agent elsewhere, as parley tap shows one.
func afar(t *testing.T, agentURL string, handler http.Handler, l net.Listener) *stage {
	t.Helper()
	s := &stage{url: agentURL}
	var err error
	if s.wire, err = tap.NewRecorder(tap.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.wire.Close() })
	serve(t, l, s.wire.Handler(handler))
	c, err := client.New(t.Context(), agentURL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.show(t, console.Agent{Name: scope, Card: s.card, Service: c})
	return s
}

func (s *stage) card(ctx context.Context) (console.Card, error) {
	c, err := client.FetchCard(ctx, s.url, client.Options{})
	if err != nil {
		return console.Card{}, err
	}
	return console.Card{Raw: c.Raw, URL: c.URL, Signed: agentcard.Verify(ctx, c.Raw, agentcard.Policy{})}, nil
}

// show serves the console of an agent.
func (s *stage) show(t *testing.T, a console.Agent) {
	t.Helper()
	s.agent = a
	s.showAll(t, func() []console.Agent { return []console.Agent{a} })
}

// showAll serves the console of the agents that there are.
func (s *stage) showAll(t *testing.T, agents func() []console.Agent) {
	t.Helper()
	s.token = console.NewToken()
	s.base = s.serveConsole(t, console.Options{Agents: agents, Token: s.token, Authenticate: s.authenticate})
	s.page = s.base + "#token=" + s.token
}

// serveConsole serves a console, of the one agent where the options name none, and returns where.
func (s *stage) serveConsole(t *testing.T, opts console.Options) string {
	t.Helper()
	if opts.Agents == nil {
		opts.Agents = func() []console.Agent { return []console.Agent{s.agent} }
	}
	opts.Wire = s.wire
	c, err := console.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	return srv.URL + console.Path
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serve(t *testing.T, l net.Listener, h http.Handler) {
	t.Helper()
	srv := &http.Server{Handler: h, ReadHeaderTimeout: wait}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
}

// recorded waits for the recorder to have an exchange to its end.
func (s *stage) recorded(t *testing.T, id int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	for {
		changed := s.wire.Changed()
		if x := s.wire.Exchange(id); x != nil && x.Done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("exchange %d was not recorded", id)
		}
	}
}

// say sends a message over the wire, past the page.
func (s *stage) say(t *testing.T, parts ...*a2a.Part) *a2a.Task {
	t.Helper()
	return s.sayAs(t, "", "", parts...)
}

// sayAs does so for a caller with this key, in a new task or as the answer to one.
func (s *stage) sayAs(t *testing.T, key, answers string, parts ...*a2a.Part) *a2a.Task {
	t.Helper()
	c := s.client(t, key)
	res, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{TaskID: answers, Role: a2a.RoleUser, Parts: parts}})
	if err != nil {
		t.Fatal(err)
	}
	task, ok := res.(*a2a.Task)
	if !ok {
		t.Fatalf("got %+v, want a task", res)
	}
	return task
}

// client returns a client of the agent for a caller with this key; empty: one that shows none.
func (s *stage) client(t *testing.T, key string) *client.Client {
	t.Helper()
	header := http.Header{}
	if key != "" {
		header.Set("X-API-Key", key)
	}
	c, err := client.New(t.Context(), s.url, client.Options{Header: header})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *tab) allowClipboard() {
	b.t.Helper()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if _, err := chromedp.CallBrowser(b.ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
		}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// runs runs a command that was copied, as it is. Where there is no curl, nothing.
func (b *tab) runs(command string) {
	b.t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		return
	}
	cmd := exec.CommandContext(b.t.Context(), "sh", "-c", command)
	cmd.Env = append(os.Environ(), "AUTHORIZATION=Bearer x")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "TASK_STATE_COMPLETED") {
		b.t.Errorf("%v: %s", err, out)
	}
}

// waitForFile waits for a download to be complete.
func waitForFile(t *testing.T, path string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		data, err := os.ReadFile(path)
		if err == nil && len(data) > 0 {
			tick.Stop()
			return data
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the download did not come: %v", err)
		}
	}
}
