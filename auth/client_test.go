package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/limits"
)

// recorder is a server that keeps what it was sent, all of it.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
	status   int
	location string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{status: http.StatusOK}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var b strings.Builder
		b.WriteString(req.Host + " ")
		_ = req.Header.Write(&b)
		_, _ = io.Copy(&b, req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, req.URL.String()+"\n"+b.String())
		if r.location != "" {
			w.Header().Set("Location", r.location)
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.requests, "\n")
}

func static(secret string) auth.TokenSource { return auth.Static(auth.NewSecret(secret)) }

// A credential is in requests for its origin, in its header, and nowhere else (threat B3).
func TestCredentialOrigin(t *testing.T) {
	home, foreign := newRecorder(t), newRecorder(t)
	creds := must(auth.NewCredentials(
		auth.Credential{Origins: []string{home.URL}, Source: static("token-canary")},
		auth.Credential{Origins: []string{home.URL}, Header: "x-api-key", Source: static("key-canary")},
	))
	pool := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	plain := &http.Client{Transport: creds.Transport(pool)} // follows redirects
	strict := creds.HTTP(&http.Client{Transport: pool})
	get := func(c *http.Client, url string) *http.Response {
		t.Helper()
		res, err := c.Do(must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if strings.Contains(format(res.Request.Header), "canary") {
			t.Error("the secret is in the response's request")
		}
		return res
	}
	get(strict, home.URL+"/a")
	if s := home.all(); !strings.Contains(s, "Authorization: Bearer token-canary") || !strings.Contains(s, "X-Api-Key: key-canary") {
		t.Fatalf("the origin got %s", s)
	}
	for _, u := range []string{
		foreign.URL + "/b", strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1), foreign.URL + "/?x=" + url.QueryEscape(home.URL),
	} {
		get(plain, u)
		get(strict, u)
	}
	home.status, home.location = http.StatusTemporaryRedirect, foreign.URL+"/c"
	get(plain, home.URL+"/redirected")
	if res := get(strict, home.URL+"/redirected"); res.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("a redirect was followed: %d", res.StatusCode)
	}
	if s := foreign.all(); strings.Contains(s, "canary") || !strings.Contains(s, "/c\n") {
		t.Errorf("the foreign origin got %s", s)
	}
	// Back home by way of a redirect there is no credential either: where it leads is not the operator's word.
	before := len(home.requests)
	home.status, home.location = http.StatusOK, ""
	foreign.status, foreign.location = http.StatusTemporaryRedirect, home.URL+"/back"
	get(plain, foreign.URL)
	if s := strings.Join(home.requests[before:], ""); !strings.Contains(s, "/back") || strings.Contains(s, "canary") {
		t.Errorf("home got, by a redirect, %s", s)
	}
}

// A card cannot have the credential: not by an interface elsewhere, nor by the name of its header.
func TestCardInventsOrigin(t *testing.T) {
	home, foreign := newRecorder(t), newRecorder(t)
	gl := must(net.Listen("tcp", "127.0.0.1:0"))
	var mu sync.Mutex
	var got []metadata.MD
	gs := grpc.NewServer(
		grpc.Creds(credentials.NewServerTLSFromCert(&foreign.TLS.Certificates[0])),
		grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			md, _ := metadata.FromIncomingContext(s.Context())
			mu.Lock()
			defer mu.Unlock()
			got = append(got, md)
			return nil
		}))
	go gs.Serve(gl) //nolint:errcheck // it ends with the test
	defer gs.Stop()

	pool := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	creds := must(auth.NewCredentials(
		auth.Credential{Origins: []string{home.URL}, Source: static("token-canary")},
		auth.Credential{Origins: []string{home.URL}, Header: "X-API-Key", Source: static("key-canary")},
	))
	for _, iface := range []*a2a.AgentInterface{
		{URL: foreign.URL, ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"},
		{URL: foreign.URL + "/rest", ProtocolBinding: a2a.BindingREST, ProtocolVersion: "1.0"},
		{URL: gl.Addr().String(), ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: "1.0"},
	} {
		t.Run(iface.ProtocolBinding, func(t *testing.T) {
			foreign.requests, got = nil, nil
			card := &client.Card{URL: home.URL, Signed: agentcard.Result{}, AgentCard: &a2a.AgentCard{
				Name: "evil", SupportedInterfaces: []*a2a.AgentInterface{iface},
				SecuritySchemes: map[string]a2a.SecurityScheme{"k": &a2a.APIKeySecurityScheme{Location: "header", Name: "Host"}},
			}}
			tlsConf := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
			c := must(client.Dial(card, client.Options{
				HTTP: creds.HTTP(&http.Client{Transport: pool}), GRPC: append(creds.GRPC(), grpc.WithTransportCredentials(tlsConf)),
			}))
			_, _ = c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "x"})
			_ = c.Close()
			mu.Lock()
			defer mu.Unlock()
			if s := foreign.all() + format(got); strings.Contains(s, "canary") || len(foreign.requests)+len(got) != 1 {
				t.Errorf("the foreign origin got %s", s)
			}
		})
	}
}

// Over a connection without TLS a credential for an https origin is not sent, even to the same host and port.
func TestCleartextGRPC(t *testing.T) {
	gl := must(net.Listen("tcp", "127.0.0.1:0"))
	got := make(chan metadata.MD, 1)
	gs := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		got <- md
		return nil
	}))
	go gs.Serve(gl) //nolint:errcheck // it ends with the test
	defer gs.Stop()
	for _, scheme := range []string{"https://", "http://"} {
		creds := must(auth.NewCredentials(auth.Credential{Origins: []string{scheme + gl.Addr().String()}, Source: static("canary")}))
		conn := must(grpc.NewClient(gl.Addr().String(), append(creds.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))...))
		s := must(conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/x/y"))
		_ = s.CloseSend()
		if sent := strings.Contains(format(<-got), "canary"); sent != (scheme == "http://") {
			t.Errorf("%s: sent = %t", scheme, sent)
		}
		_ = conn.Close()
	}
}

func TestCredentialOptions(t *testing.T) {
	good := auth.Credential{Origins: []string{"https://agent.example"}, Source: static("x")}
	for name, change := range map[string]func(*auth.Credential){
		"no origin":          func(c *auth.Credential) { c.Origins = nil },
		"no source":          func(c *auth.Credential) { c.Source = nil },
		"a path":             func(c *auth.Credential) { c.Origins = []string{"https://agent.example/a"} },
		"a user":             func(c *auth.Credential) { c.Origins = []string{"https://u:p@agent.example"} },
		"no scheme":          func(c *auth.Credential) { c.Origins = []string{"agent.example"} },
		"http":               func(c *auth.Credential) { c.Origins = []string{"http://agent.example"} },
		"http to a name":     func(c *auth.Credential) { c.Origins = []string{"http://127.0.0.1.evil.example"} },
		"file":               func(c *auth.Credential) { c.Origins = []string{"file://agent.example"} },
		"header Host":        func(c *auth.Credential) { c.Header = "host" },
		"header with a line": func(c *auth.Credential) { c.Header = "X\r\nY" },
		"twice":              func(c *auth.Credential) { c.Origins = append(c.Origins, "https://AGENT.example:443/") },
	} {
		c := good
		change(&c)
		if _, err := auth.NewCredentials(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	good.Cleartext, good.Origins = true, []string{"http://agent.example", "http://127.0.0.1:1", "http://localhost"}
	if _, err := auth.NewCredentials(good); err != nil {
		t.Error(err)
	}
	r := newRecorder(t)
	for _, secret := range []string{"", "canary\r\nX: y", "canary\x00", "canäry"} {
		creds := must(auth.NewCredentials(auth.Credential{Origins: []string{r.URL}, Source: static(secret)}))
		_, err := creds.HTTP(r.Client()).Get(r.URL)
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", secret, err)
		}
	}
	if len(r.requests) != 0 {
		t.Error("a credential that cannot be sent was, or nothing was sent in its place")
	}
}

// oauth returns a client of the issuer.
func (i *issuer) oauth() auth.OAuth {
	return auth.OAuth{
		TokenURL: i.srv.URL + "/token", DeviceURL: i.srv.URL + "/device", ClientID: "id", ClientSecret: auth.NewSecret("client-canary"),
		Scopes: []string{"a", "b"}, Resource: "https://agent.example", Client: i.srv.Client(),
	}
}

// Tokens are kept until shortly before they expire or until they are refused, and fetched once for all who wait.
func TestClientCredentials(t *testing.T) {
	iss, agent := newIssuer(t), newRecorder(t)
	n := 0
	iss.grant = func(url.Values) (int, map[string]any) {
		n++
		return http.StatusOK, map[string]any{"access_token": "token-" + string(rune('0'+n)), "token_type": "bearer", "expires_in": 300}
	}
	creds := must(auth.NewCredentials(auth.Credential{Origins: []string{agent.URL}, Source: must(iss.oauth().ClientCredentials())}))
	var c clock
	creds.SetClock(c.now)
	hc := creds.HTTP(agent.Client())
	get := func() {
		t.Helper()
		if res, err := hc.Get(agent.URL); err != nil {
			t.Error(err)
		} else {
			res.Body.Close()
		}
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(get)
	}
	wg.Wait()
	if len(iss.forms) != 1 {
		t.Fatalf("ten requests fetched %d tokens", len(iss.forms))
	}
	want := url.Values{
		"grant_type": {"client_credentials"}, "scope": {"a b"}, "resource": {"https://agent.example"}, "path": {"/token"},
		"basic": {"id client-canary"},
	}
	if got := iss.forms[0]; got.Encode() != want.Encode() {
		t.Errorf("form %v", got)
	}
	c.advance(4 * time.Minute)
	get()
	c.advance(35 * time.Second)
	get()
	if len(iss.forms) != 2 || !strings.Contains(agent.all(), "Bearer token-2") {
		t.Errorf("%d tokens, %s", len(iss.forms), agent.all())
	}
	c.advance(-4*time.Minute - 35*time.Second) // the issuer's clock is the real one
	agent.status = http.StatusUnauthorized
	get()
	agent.status = http.StatusOK
	get()
	if len(iss.forms) != 3 || !strings.Contains(agent.all(), "Bearer token-3") {
		t.Errorf("after a 401: %d tokens", len(iss.forms))
	}
}

// Errors of a token endpoint say its code, and nothing that is secret.
func TestTokenErrors(t *testing.T) {
	iss := newIssuer(t)
	source := must(iss.oauth().ClientCredentials())
	for name, tt := range map[string]struct {
		status int
		answer map[string]any
		want   string
	}{
		"refused":      {400, map[string]any{"error": "invalid_client", "error_description": "client-canary is wrong"}, "invalid_client"},
		"a bad code":   {400, map[string]any{"error": "canary is\r\nwrong"}, "400"},
		"no token":     {200, map[string]any{"token_type": "Bearer"}, "access_token"},
		"another type": {200, map[string]any{"access_token": "canary", "token_type": "mac"}, "Bearer"},
		"wrong JSON":   {200, map[string]any{"access_token": 7, "token_type": "canary"}, "JSON"},
	} {
		iss.grant = func(url.Values) (int, map[string]any) { return tt.status, tt.answer }
		_, err := source.Token(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(format(err), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]auth.OAuth{
		"no URL": {ClientID: "x"}, "no id": {TokenURL: "https://a.example"}, "CRLF": {TokenURL: "https://a.example", ClientID: "x\r\n"},
		"scope": {TokenURL: "https://a.example", ClientID: "x", Scopes: []string{"a b"}},
	} {
		o.ClientSecret = auth.NewSecret("x")
		if _, err := o.ClientCredentials(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRefresh(t *testing.T) {
	iss := newIssuer(t)
	refresh := "refresh-1"
	iss.grant = func(form url.Values) (int, map[string]any) {
		if form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != refresh {
			return http.StatusBadRequest, map[string]any{"error": "invalid_grant"}
		}
		refresh += "x"
		return http.StatusOK, map[string]any{"access_token": "t", "token_type": "Bearer", "refresh_token": refresh}
	}
	var saved []string
	source := must(iss.oauth().Refresh(auth.NewSecret("refresh-1"), func(s auth.Secret) error {
		saved = append(saved, s.Reveal())
		return nil
	}))
	for range 3 {
		if _, err := source.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(saved, " ") != "refresh-1x refresh-1xx refresh-1xxx" {
		t.Errorf("saved %q", saved)
	}
	refresh = "another"
	if _, err := source.Token(t.Context()); err == nil || strings.Contains(err.Error(), "refresh-1") {
		t.Errorf("%v", err)
	}
}

// A device code is polled as RFC 8628 says; then the refresh token serves, and when it no longer does the person is asked
// again. The clock is a bubble's, the issuer a round tripper.
func TestDeviceCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var polls []time.Duration
		answers := []string{"authorization_pending", "slow_down", "authorization_pending", ""}
		refreshed := false
		answer := func(status int, body string) *http.Response {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		}
		o := auth.OAuth{TokenURL: "https://issuer.example/token", DeviceURL: "https://issuer.example/device", ClientID: "id"}
		o.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if err := r.ParseForm(); err != nil {
				return nil, err
			}
			switch {
			case r.PostForm.Get("client_id") != "id":
				return answer(400, `{"error":"invalid_client"}`), nil
			case r.URL.Path == "/device":
				return answer(200, `{"device_code":"canary","user_code":"ABCD","verification_uri":"https://issuer.example/go","expires_in":600,"interval":4}`), nil
			case r.PostForm.Get("grant_type") == "refresh_token":
				if refreshed {
					return answer(400, `{"error":"invalid_grant"}`), nil
				}
				refreshed = true
				return answer(200, `{"access_token":"second","token_type":"Bearer"}`), nil
			case r.PostForm.Get("device_code") != "canary":
				return answer(400, `{"error":"invalid_request"}`), nil
			}
			polls = append(polls, time.Since(start))
			next := answers[0]
			answers = answers[1:]
			if next != "" {
				return answer(400, `{"error":"`+next+`"}`), nil
			}
			return answer(200, `{"access_token":"first","token_type":"Bearer","refresh_token":"r","expires_in":60}`), nil
		})}
		var prompts []auth.DevicePrompt
		source := must(o.DeviceCode(func(_ context.Context, p auth.DevicePrompt) error {
			prompts = append(prompts, p)
			return nil
		}, nil))
		token, err := source.Token(t.Context())
		if err != nil || token.Secret.Reveal() != "first" {
			t.Fatalf("%v", err)
		}
		want := []time.Duration{4 * time.Second, 8 * time.Second, 17 * time.Second, 26 * time.Second}
		if format(polls) != format(want) {
			t.Errorf("polled at %v, want %v", polls, want)
		}
		if token, err := source.Token(t.Context()); err != nil || token.Secret.Reveal() != "second" || len(prompts) != 1 {
			t.Errorf("refreshed: %v, %d prompts", err, len(prompts))
		}
		answers = []string{"access_denied"}
		if _, err := source.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "access_denied") || len(prompts) != 2 {
			t.Errorf("denied: %v, %d prompts", err, len(prompts))
		}
		answers = make([]string, 1000)
		for i := range answers {
			answers[i] = "authorization_pending"
		}
		if _, err := source.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody entered") || strings.Contains(err.Error(), "canary") {
			t.Errorf("nobody: %v", err)
		}
	})
}

// endless is a service whose streams go on until they are no longer read.
type endless struct{ a2a.Service }

func (endless) SubscribeToTask(context.Context, *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		for n := int64(1); yield(a2a.Entry{Generation: n}, nil); n++ {
			<-time.After(time.Second)
		}
	}
}

// Behind package limits a stream ends with its credential (threat A8): with an expiry at once, and within 30 seconds of a
// revocation. The clock is a bubble's.
func TestStreamsEnd(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	file := filepath.Join(t.TempDir(), "jwks.json")
	writeFile(file, must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}})))
	token := func(lives time.Duration) *a2a.CallInfo {
		return withToken(sign(key, jose.ES256, "", "JWT", map[string]any{
			"iss": "issuer", "aud": "stock", "sub": "bob", "exp": time.Now().Add(lives).Unix(),
		}))
	}
	for name, tt := range map[string]struct {
		info        func() *a2a.CallInfo
		least, most time.Duration
	}{
		"revoked key":          {func() *a2a.CallInfo { return with("X-Api-Key", bobsKey) }, time.Hour, time.Hour + 30*time.Second},
		"token":                {func() *a2a.CallInfo { return token(17 * time.Second) }, 17 * time.Second, 18 * time.Second},
		"token in its leeway":  {func() *a2a.CallInfo { return token(-20 * time.Second) }, 10 * time.Second, 11 * time.Second},
		"token, later revoked": {func() *a2a.CallInfo { return token(2 * time.Hour) }, time.Hour, time.Hour + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := quiet()
				opts.Denylist = auth.NewDenylist()
				jwt := must(auth.NewJWT(auth.JWTOptions{Issuer: "issuer", Audience: []string{"stock"}, KeysFile: file}))
				a := must(auth.Any(opts, keys(t, "bob="+bobsKey), jwt))
				info := tt.info()
				if err := a.Authenticate(t.Context(), info); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Hour, func() {
					opts.Denylist.Deny(auth.APIKeyIssuer, "bob")
					opts.Denylist.Deny("issuer", "bob")
				})
				svc := a.Service(limits.Service(endless{}, limits.Options{Check: a.Valid}))
				begin := time.Now()
				var last error
				for _, err := range svc.SubscribeToTask(a2a.WithCallInfo(t.Context(), info), &a2a.SubscribeToTaskRequest{ID: "t"}) {
					if last = err; time.Since(begin) > 3*time.Hour {
						break
					}
				}
				if d := time.Since(begin); codeOf(last) != a2a.ErrUnauthenticated || d < tt.least || d > tt.most {
					t.Errorf("ended after %v with %v", d, last)
				}
			})
		})
	}
}
