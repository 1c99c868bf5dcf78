package parley_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/internal/cli"
	"github.com/parley-a2a/parley/internal/golden"
)

// cardKey returns a new key for cards: Ed25519, or ECDSA on P-256.
func cardKey(t testing.TB, ec bool) *agentcard.Key {
	t.Helper()
	var private any
	var err error
	if ec {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		_, private, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	k, err := agentcard.NewKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// serveHost serves a host on real sockets and returns its URL.
func serveHost(t testing.TB, cfg parley.Config, a agent.Agent) string {
	t.Helper()
	cfg.Name, cfg.Listen, cfg.GRPCListen, cfg.Grace = "Test", "127.0.0.1:0", "127.0.0.1:0", time.Millisecond
	cfg.Log = slog.New(slog.DiscardHandler)
	h, err := parley.New(cfg, a)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	httpL, grpcL, err := h.Listeners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, httpL, grpcL) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + httpL.Addr().String()
}

// read makes a request and returns the answer and its body.
func read(t testing.TB, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestPublished: what HTTP says of the card, of the list of agents and of the key set (specification 8.6.1).
func TestPublished(t *testing.T) {
	base := serveHost(t, parley.Config{CardKeys: []*agentcard.Key{cardKey(t, false)}}, agent.Func(nil))
	for path, mediaType := range map[string]string{
		a2a.CardPath:       "application/json",
		parley.CatalogPath: `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`,
		parley.KeySetPath:  "application/jwk-set+json",
	} {
		res, body := read(t, http.MethodGet, base+path)
		etag, modified := res.Header.Get("Etag"), res.Header.Get("Last-Modified")
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != mediaType || etag == "" || modified == "" ||
			res.Header.Get("Cache-Control") != "public, max-age=300" || !json.Valid([]byte(body)) {
			t.Errorf("%s: %v %s", path, res, body)
		}
		for _, c := range []struct {
			method string
			header []string
			status int
			body   string
		}{
			{http.MethodHead, nil, 200, ""},
			{http.MethodGet, []string{"If-None-Match", etag}, 304, ""},
			{http.MethodHead, []string{"If-None-Match", etag}, 304, ""},
			{http.MethodGet, []string{"If-None-Match", `"x", W/` + etag}, 304, ""},
			{http.MethodGet, []string{"If-None-Match", "*"}, 304, ""},
			{http.MethodGet, []string{"If-None-Match", `"x"`, "If-Modified-Since", modified}, 200, body},
			{http.MethodGet, []string{"If-Modified-Since", modified}, 304, ""},
			{http.MethodGet, []string{"If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"}, 200, body},
			{http.MethodGet, []string{"If-Match", `"x"`}, 412, ""},
			{http.MethodGet, []string{"Range", "bytes=0-0"}, 206, "{"},
			{http.MethodPost, nil, 405, "this is read with GET\n"},
			{http.MethodDelete, nil, 405, "this is read with GET\n"},
		} {
			res, got := read(t, c.method, base+path, c.header...)
			if res.StatusCode != c.status || got != c.body {
				t.Errorf("%s %s %q: %d %q, want %d %q", c.method, path, c.header, res.StatusCode, got, c.status, c.body)
			}
			if res.StatusCode < 400 && res.Header.Get("Etag") != etag || c.method == http.MethodHead && c.status == 200 && res.ContentLength != int64(len(body)) {
				t.Errorf("%s %s %q: %v", c.method, path, c.header, res.Header)
			}
		}
	}
}

// TestCatalog is RFC 9727: the list leads to the card.
func TestCatalog(t *testing.T) {
	base := serveHost(t, parley.Config{DocumentationURL: "https://agent.example/doc"}, agent.Func(nil))
	res, body := read(t, http.MethodGet, base+parley.CatalogPath)
	want := `{"linkset":[{"anchor":"` + base + `/.well-known/api-catalog","item":[{"href":"` + base + `/","title":"Test"}]},` +
		`{"anchor":"` + base + `/","service-desc":[{"href":"` + base + `/.well-known/agent-card.json","type":"application/json","title":"Test"}],` +
		`"service-doc":[{"href":"https://agent.example/doc"}]}]}`
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	if got := res.Header.Get("Link"); got != "<"+base+`/.well-known/api-catalog>; rel="api-catalog"` {
		t.Errorf("Link: %s", got)
	}
	if res, _ := read(t, http.MethodHead, base+parley.CatalogPath); res.Header.Get("Link") == "" {
		t.Error("HEAD has no Link")
	}
	if res, _ := read(t, http.MethodGet, base+parley.KeySetPath); res.StatusCode != 404 {
		t.Errorf("a key set without keys: %d", res.StatusCode)
	}
}

// TestSignedHost: a host that has keys signs its card with each of them, and what it serves verifies.
func TestSignedHost(t *testing.T) {
	old, next := cardKey(t, false), cardKey(t, true)
	base := serveHost(t, parley.Config{CardKeys: []*agentcard.Key{old, next}}, agent.Func(nil))
	_, set := read(t, http.MethodGet, base+parley.KeySetPath)
	if strings.Contains(set, `"d"`) {
		t.Fatalf("the key set has a private key: %s", set)
	}
	one, err := agentcard.JWKS(next)
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]byte{old.ID: []byte(set), next.ID: one} {
		trust := &agentcard.Policy{Enrolled: map[string]agentcard.Enrollment{base: {KeySet: keys}}}
		card, err := client.FetchCard(t.Context(), base, client.Options{Cache: &client.CardCache{Trust: trust}})
		if err != nil || card.Signed.KeyID != name {
			t.Fatal(card, err)
		}
		if f := agentcard.Validate(card.Raw); f != nil {
			t.Error(f)
		}
	}
	public, err := agentcard.ParseKey(bytes.TrimSuffix(bytes.TrimPrefix(one, []byte(`{"keys":[`)), []byte("]}")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parley.New(parley.Config{Name: "x", CardKeys: []*agentcard.Key{public}}, agent.Func(nil)); err == nil {
		t.Error("a public key was taken for signing")
	}
}

// TestKeySetURL: the key set is where the signatures say, if that is on this host.
func TestKeySetURL(t *testing.T) {
	for url, c := range map[string]struct {
		path string // of the host
		fail bool
	}{
		"https://a.example/base/keys/1.json":             {"/keys/1.json", false},
		"https://a.example/base/.well-known/jwks.json":   {parley.KeySetPath, false},
		"https://b.example/keys.json":                    {"", false},
		"https://a.example/other.json":                   {"", false},
		"https://a.example/base/":                        {"", true},
		"https://a.example/base/healthz":                 {"", true},
		"https://a.example/base/a2a/rest/keys":           {"", true},
		"https://a.example/base/.well-known/api-catalog": {"", true},
		"https://a.example/base/{x}":                     {"", true},
		"https://a.example/base/a/../b":                  {"", true},
		"https://a.example/base/a%2fb":                   {"", true},
		"https://a.example/base/a?b":                     {"", true},
		"http://a.example/base/keys.json":                {"", true},
	} {
		key, twin := cardKey(t, false), cardKey(t, false)
		key.SetURL, twin.SetURL = url, url
		h, err := parley.New(parley.Config{
			Name: "x", PublicURL: "https://a.example/base/", CardKeys: []*agentcard.Key{key, twin},
		}, agent.Func(nil))
		if (err != nil) != c.fail {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil {
			continue
		}
		for _, path := range []string{c.path, parley.KeySetPath} {
			w := httptest.NewRecorder()
			if r := httptest.NewRequest(http.MethodGet, "https://a.example"+path, nil); path != "" {
				h.ServeHTTP(w, r)
				if w.Code != 200 || strings.Count(w.Body.String(), `"kid"`) != 2 {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			}
		}
		h.Shutdown(t.Context())
	}
}

// TestExtendedCard: skills by scope, on every binding, signed (specification 3.1.11, 13.3).
func TestExtendedCard(t *testing.T) {
	skill := func(id string) *a2a.AgentSkill {
		return &a2a.AgentSkill{ID: id, Name: id, Description: id, Tags: []string{id}}
	}
	key := cardKey(t, false)
	base := serveHost(t, parley.Config{
		Skills:   []*a2a.AgentSkill{skill("ask")},
		CardKeys: []*agentcard.Key{key},
		SecuritySchemes: map[string]a2a.SecurityScheme{
			"key": &a2a.APIKeySecurityScheme{Location: "header", Name: "Test-Scopes"},
		},
		Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
			if s := info.Header.Get("Test-Scopes"); s != "" {
				info.Caller = a2a.Caller{Issuer: "test", Subject: "alice", Scopes: strings.Fields(s)}
			}
			return nil
		},
		ExtendedCard: parley.SkillsByScope(
			parley.ScopedSkill{AgentSkill: skill("ask")},
			parley.ScopedSkill{AgentSkill: skill("deploy"), Scopes: []string{"read", "deploy"}},
			parley.ScopedSkill{AgentSkill: skill("log"), Scopes: []string{"read"}},
		),
	}, agent.Func(nil))
	public, err := client.FetchCard(t.Context(), base, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := agentcard.Validate(public.Raw); f != nil {
		t.Error(f)
	}
	set, err := agentcard.JWKS(key)
	if err != nil {
		t.Fatal(err)
	}
	trust := agentcard.Policy{Origin: base, Enrolled: map[string]agentcard.Enrollment{base: {KeySet: set}}}
	for _, b := range allBindings {
		for scopes, want := range map[string]string{"none": "ask", "deploy": "ask", "read": "ask log", "read deploy x": "ask deploy log"} {
			c, err := client.Dial(public, client.Options{Transports: []string{b}, Header: http.Header{"Test-Scopes": {scopes}}})
			if err != nil {
				t.Fatal(err)
			}
			card, err := c.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
			_ = c.Close()
			if err != nil {
				t.Fatalf("%s %s: %v", b, scopes, err)
			}
			var ids []string
			for _, s := range card.Skills {
				ids = append(ids, s.ID)
			}
			if got := strings.Join(ids, " "); got != want || card.Version != public.Version || len(card.SupportedInterfaces) != 3 {
				t.Errorf("%s: with the scopes %q: %s, want %s", b, scopes, got, want)
			}
			if r := agentcard.Verify(t.Context(), card.AppendJSON(nil), trust); !r.Trusted() || r.Digest == public.Signed.Digest {
				t.Errorf("%s: %v", b, r)
			}
		}
		c, err := client.Dial(public, client.Options{Transports: []string{b}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{}); !errors.Is(err, a2a.ErrUnauthenticated) {
			t.Errorf("%s: a caller without a name: %v", b, err)
		}
		_ = c.Close()
	}
	if len(public.Skills) != 1 || len(public.Signatures) != 1 {
		t.Errorf("the public card: %s", public.Raw)
	}
}

// TestExtendedCardCommand: parley card get shows the extended card, and what its signature is worth.
func TestExtendedCardCommand(t *testing.T) {
	base := serveHost(t, parley.Config{
		CardKeys:        []*agentcard.Key{cardKey(t, true)},
		SecuritySchemes: map[string]a2a.SecurityScheme{"key": &a2a.APIKeySecurityScheme{Location: "header", Name: golden.CallerHeader}},
		Authenticate:    authenticate,
		ExtendedCard: parley.SkillsByScope(parley.ScopedSkill{AgentSkill: &a2a.AgentSkill{
			ID: "more", Name: "More", Description: "More.", Tags: []string{"more"},
		}}),
	}, agent.Func(nil))
	set := base + parley.KeySetPath
	for _, c := range []struct {
		args      []string
		exit      int
		has, lack string
	}{
		{[]string{"--extended", "--api-key", "alice", "--jwks", set, "--validate"}, 0, "verified, by key", "Skill: test"},
		{[]string{"--extended", "--api-key", "alice", "--jwks", set, "-o", "json"}, 0, `"id":"more"`, ""},
		{[]string{"--jwks", set, "--validate"}, 0, "verified, by key", "Skill: more"},
		{[]string{"--extended"}, 4, "", "Skill:"},
		{[]string{"--extended", "--bearer", "alice"}, 2, "", "Skill:"},
	} {
		var out, errs strings.Builder
		exit := cli.Main(append([]string{"card", "get", "-a", base}, c.args...), strings.NewReader(""), &out, &errs)
		if exit != c.exit || !strings.Contains(out.String(), c.has) || c.lack != "" && strings.Contains(out.String(), c.lack) {
			t.Errorf("%q: exit code %d\n%s%s", c.args, exit, out.String(), errs.String())
		}
	}
	var out, errs strings.Builder
	if exit := cli.Main([]string{"card", "verify", "-a", base, "--jwks", set}, strings.NewReader(""), &out, &errs); exit != 0 {
		t.Errorf("verify: exit code %d\n%s%s", exit, out.String(), errs.String())
	}
}

// TestExtendedCardErrors: a card that is not there is an error with a name, never an empty card.
func TestExtendedCardErrors(t *testing.T) {
	boom := errors.New("the directory is down: secret")
	for name, c := range map[string]struct {
		f    func(context.Context, a2a.Caller) (*a2a.AgentCard, error)
		want a2a.ErrorCode
	}{
		"none":                {nil, a2a.ErrUnsupportedOperation},
		"none for the caller": {func(context.Context, a2a.Caller) (*a2a.AgentCard, error) { return nil, nil }, a2a.ErrExtendedAgentCardNotConfigured},
		"refused": {func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
			return nil, a2a.ErrPermissionDenied
		}, a2a.ErrPermissionDenied},
		"failed": {func(context.Context, a2a.Caller) (*a2a.AgentCard, error) { return nil, boom }, a2a.ErrInternal},
		"cannot be signed": {func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
			return &a2a.AgentCard{Skills: []*a2a.AgentSkill{nil}}, nil
		}, a2a.ErrInternal},
	} {
		cfg := parley.Config{
			Name: "x", ExtendedCard: c.f, CardKeys: []*agentcard.Key{cardKey(t, false)},
			Authenticate: authenticate,
		}
		base := serveHost(t, cfg, agent.Func(nil))
		conn, err := golden.Dial(golden.JSONRPC, base, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = golden.Call(t.Context(), conn, golden.Request{Op: "GetExtendedAgentCard", JSON: `{}`, Header: as("alice")})
		if err == nil || !strings.Contains(err.Error(), c.want.Name()) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %v", name, err, c.want.Name())
		}
		conn.Close()
	}
}

// TestTLSCard: what a host with TLS says of itself at loopback is a card without a fault, and says that gRPC has TLS.
func TestTLSCard(t *testing.T) {
	h, err := parley.New(parley.Config{
		Name: "Test", Listen: "127.0.0.1:1", GRPCListen: "127.0.0.1:2", TLS: &tls.Config{MinVersion: tls.VersionTLS13},
	}, agent.Func(nil))
	if err != nil {
		t.Fatal(err)
	}
	if f := agentcard.ValidateCard(h.Card()); len(f) > 0 {
		t.Errorf("%v", f)
	}
	if u := h.Card().SupportedInterfaces[2].URL; u != "https://127.0.0.1:2" {
		t.Errorf("gRPC is at %s", u)
	}
}

// TestBehindProxy is case 32: below a prefix and behind TLS that ends before it, each interface of the card is reached at
// the URL that the card says, and nothing that the proxy forwards changes the card.
func TestBehindProxy(t *testing.T) {
	var inner atomic.Pointer[url.URL]
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", inner.Load().Host
			r.Out.URL.Path, _ = strings.CutPrefix(r.In.URL.Path, "/base")
			r.Out.Host = r.In.Host
			r.Out.Header.Set("X-Forwarded-Host", "evil.example")
			r.Out.Header.Set("X-Forwarded-Proto", "gopher")
			r.Out.Header.Set("Forwarded", "host=evil.example")
		},
	})
	t.Cleanup(proxy.Close)
	key := cardKey(t, false)
	key.SetURL = proxy.URL + "/base/keys.json"
	echo := agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		return u.Begin("echo").Last(a2a.TextPart(r.Text()))
	})
	u, err := url.Parse(serveHost(t, parley.Config{PublicURL: proxy.URL + "/base/", CardKeys: []*agentcard.Key{key}}, echo))
	if err != nil {
		t.Fatal(err)
	}
	inner.Store(u)
	trust := &agentcard.Policy{Enrolled: map[string]agentcard.Enrollment{proxy.URL: {URL: key.SetURL}}}
	opts := client.Options{HTTP: proxy.Client(), Cache: &client.CardCache{Trust: trust}}
	card, err := client.FetchCard(t.Context(), proxy.URL+"/base"+a2a.CardPath, opts)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(card.Raw, []byte("evil")) || bytes.Contains(card.Raw, []byte("gopher")) || !card.Signed.Trusted() {
		t.Errorf("%s", card.Raw)
	}
	if n := len(card.SupportedInterfaces); n != 3 {
		t.Errorf("%d interfaces", n)
	}
	for _, i := range card.SupportedInterfaces {
		opts.Transports = []string{i.ProtocolBinding}
		if i.ProtocolBinding != a2a.BindingGRPC && !strings.HasPrefix(i.URL, proxy.URL+"/base/") {
			t.Errorf("the interface is at %s", i.URL)
		}
		c, err := client.Dial(card, opts)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for e, err := range c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
			MessageID: "m", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hello")},
		}}) {
			if err != nil {
				t.Fatalf("%s: %v", i.URL, err)
			}
			if a, ok := e.Event.(*a2a.TaskArtifactUpdateEvent); ok {
				text += a.Artifact.Text()
			}
		}
		_ = c.Close()
		if c.Interface() != i || text != "hello" {
			t.Errorf("%s: %q", i.URL, text)
		}
	}
	catalog, err := proxy.Client().Get(proxy.URL + "/base" + parley.CatalogPath)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(catalog.Body)
	_ = catalog.Body.Close()
	if !bytes.Contains(body, []byte(`"href":"`+proxy.URL+"/base"+a2a.CardPath)) {
		t.Errorf("the catalog: %s", body)
	}
}

// TestRefresh: ten thousand clients, each with a cache of its own, come back for a card that has not changed, and not one
// is sent it again.
func TestRefresh(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	base := serveHost(t, parley.Config{CardKeys: []*agentcard.Key{cardKey(t, false)}}, agent.Func(nil))
	var fresh, unchanged, length atomic.Int64
	hc := &http.Client{Transport: counting(func(res *http.Response) {
		switch res.StatusCode {
		case http.StatusOK:
			fresh.Add(1)
		case http.StatusNotModified:
			unchanged.Add(1)
		}
		length.Add(max(res.ContentLength, 0))
	})}
	caches := make([]client.CardCache, n)
	round := func() time.Duration {
		begin := time.Now()
		const workers = 64
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := w; i < n; i += workers {
					card, err := client.FetchCard(t.Context(), base, client.Options{HTTP: hc, Cache: &caches[i]})
					if err != nil || card.Name != "Test" {
						t.Error(card, err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(begin)
	}
	first := round()
	sent := length.Load()
	second := round()
	t.Logf("%d clients: the card in %v (%v each, %d bytes), unchanged in %v (%v each, %d bytes)", n,
		first.Round(time.Millisecond), first/time.Duration(n), sent, second.Round(time.Millisecond), second/time.Duration(n), length.Load()-sent)
	if fresh.Load() != int64(n) || unchanged.Load() != int64(n) || length.Load() != sent {
		t.Errorf("%d cards were sent, and %d times that it is the same; want %d of each", fresh.Load(), unchanged.Load(), n)
	}
}

// counting is a transport that makes every answer one that has to be asked for again.
func counting(see func(*http.Response)) http.RoundTripper {
	base := &http.Transport{MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64, DisableCompression: true}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := base.RoundTrip(r)
		if err == nil {
			see(res)
			res.Header.Set("Cache-Control", "max-age=0")
		}
		return res, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// BenchmarkCardUnchanged is a 304 against /healthz, each over one connection. The difference is the cost of the card.
func BenchmarkCardUnchanged(b *testing.B) {
	base := serveHost(b, parley.Config{CardKeys: []*agentcard.Key{cardKey(b, false)}}, agent.Func(nil))
	res, _ := read(b, http.MethodGet, base+a2a.CardPath)
	etag := res.Header.Get("Etag")
	for _, c := range []struct{ name, path, header, status string }{
		{"healthz", "/healthz", "", "200"},
		{"card304", a2a.CardPath, "If-None-Match: " + etag + "\r\n", "304"},
		{"card200", a2a.CardPath, "", "200"},
	} {
		b.Run(c.name, func(b *testing.B) {
			host := strings.TrimPrefix(base, "http://")
			conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", host)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			request := []byte(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", c.path, host, c.header))
			in := bufio.NewReader(conn)
			for b.Loop() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				answer(b, in, c.status)
			}
		})
	}
}

// answer reads an answer with the status.
func answer(b *testing.B, in *bufio.Reader, status string) {
	res, err := http.ReadResponse(in, nil)
	if err != nil || !strings.HasPrefix(res.Status, status) {
		b.Fatal(res, err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		b.Fatal(err)
	}
}

func ExampleSkillsByScope() {
	ask := &a2a.AgentSkill{ID: "ask", Name: "Ask", Description: "Answers questions.", Tags: []string{"text"}}
	deploy := &a2a.AgentSkill{ID: "deploy", Name: "Deploy", Description: "Deploys a service.", Tags: []string{"ops"}}
	cfg := parley.Config{
		Name:   "Deployer",
		Skills: []*a2a.AgentSkill{ask},
		ExtendedCard: parley.SkillsByScope(
			parley.ScopedSkill{AgentSkill: ask},
			parley.ScopedSkill{AgentSkill: deploy, Scopes: []string{"deploy:write"}},
		),
	}
	for _, scopes := range [][]string{nil, {"deploy:write"}} {
		card, err := cfg.ExtendedCard(context.Background(), a2a.Caller{Issuer: "idp", Subject: "alice", Scopes: scopes})
		if err != nil {
			fmt.Println(err)
			return
		}
		var ids []string
		for s := range slices.Values(card.Skills) {
			ids = append(ids, s.ID)
		}
		fmt.Println(scopes, ids)
	}
	// Output:
	// [] [ask]
	// [deploy:write] [ask deploy]
}
