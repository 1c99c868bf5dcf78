package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/auth"
)

const (
	clientName   = "cli"
	clientSecret = "cl1ent-s3cret"
	audience     = "https://agent.test"
)

// issuer is an authorization server with the flows that parley knows.
type issuer struct {
	*httptest.Server
	key              *ecdsa.PrivateKey
	caFile, keysFile string

	mu       sync.Mutex
	lifetime int               // of tokens, in seconds
	device   []string          // the errors that a device is answered with before it gets its token
	codes    map[string]string // code to challenge
	refresh  map[string]bool   // refresh tokens that are good
	grants   []string          // types of the grants that were asked for
	forms    []url.Values
	n        int
	override http.HandlerFunc // in place of the token endpoint
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	is, err := startIssuer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(is.Close)
	return is
}

// startIssuer starts an authorization server and writes into a folder ca.pem, with its certificate, and keys.json, with
// the key of its tokens.
func startIssuer(dir string) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	is := &issuer{
		key: key, lifetime: 3600, codes: map[string]string{}, refresh: map[string]bool{},
		caFile: filepath.Join(dir, "ca.pem"), keysFile: filepath.Join(dir, "keys.json"),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{
			"issuer": is.URL, "token_endpoint": is.URL + "/token", "device_authorization_endpoint": is.URL + "/device",
			"authorization_endpoint": is.URL + "/authorize", "jwks_uri": is.URL + "/keys",
		})
	})
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, r *http.Request) {
		is.note(r)
		writeJSON(w, map[string]any{
			"device_code": "the-device-code", "user_code": "WDJB-MJHT", "verification_uri": is.URL + "/activate", "expires_in": 600, "interval": 0.01,
		})
	})
	mux.HandleFunc("GET /authorize", is.authorize)
	mux.HandleFunc("POST /token", is.token)
	is.Server = httptest.NewUnstartedServer(mux)
	is.Config.ErrorLog = log.New(io.Discard, "", 0) // that a call does not trust it
	is.StartTLS()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Use: "sig", Algorithm: "ES256"}}})
	if err != nil {
		return nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: is.Certificate().Raw})
	for file, content := range map[string][]byte{is.caFile: ca, is.keysFile: set} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, err
		}
	}
	return is, nil
}

// issuerCmd is the command of scripts that starts an authorization server: $ISSUER is its URL, and ca.pem and keys.json
// are written. Its client is cli, with the secret cl1ent-s3cret.
func issuerCmd(ts *testscript.TestScript, _ bool, _ []string) {
	is, err := startIssuer(ts.MkAbs("."))
	ts.Check(err)
	ts.Defer(is.Close)
	ts.Setenv("ISSUER", is.URL)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (is *issuer) note(r *http.Request) {
	_ = r.ParseForm()
	is.mu.Lock()
	defer is.mu.Unlock()
	is.forms = append(is.forms, r.PostForm)
}

// set changes how it answers from now on.
func (is *issuer) set(f func()) {
	is.mu.Lock()
	defer is.mu.Unlock()
	f()
}

func refuse(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code})
}

// authorize is a person who signs in at once.
func (is *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	is.set(func() { is.codes["the-code"] = q.Get("code_challenge") })
	back := url.Values{"state": {q.Get("state")}, "code": {"the-code"}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (is *issuer) token(w http.ResponseWriter, r *http.Request) {
	is.note(r)
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.override != nil {
		is.override(w, r)
		return
	}
	grant := r.PostForm.Get("grant_type")
	is.grants = append(is.grants, grant)
	id, secret, basic := r.BasicAuth()
	if basic && (id != clientName || secret != clientSecret) || !basic && r.PostForm.Get("client_id") != clientName {
		refuse(w, "invalid_client")
		return
	}
	out := map[string]any{"token_type": "Bearer", "expires_in": is.lifetime}
	switch grant {
	case "client_credentials":
		if !basic {
			refuse(w, "unauthorized_client")
			return
		}
	case "urn:ietf:params:oauth:grant-type:device_code":
		if len(is.device) > 0 {
			code := is.device[0]
			is.device = is.device[1:]
			refuse(w, code)
			return
		}
		out["refresh_token"] = is.nextRefresh()
	case "authorization_code":
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if want := is.codes[r.PostForm.Get("code")]; want == "" || want != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse(w, "invalid_grant")
			return
		}
		out["refresh_token"] = is.nextRefresh()
	case "refresh_token":
		if old := r.PostForm.Get("refresh_token"); !is.refresh[old] {
			refuse(w, "invalid_grant")
			return
		} else {
			delete(is.refresh, old) // each is good once
		}
		out["refresh_token"] = is.nextRefresh()
	default:
		refuse(w, "unsupported_grant_type")
		return
	}
	out["access_token"] = is.sign()
	writeJSON(w, out)
}

func (is *issuer) nextRefresh() string {
	is.n++
	s := fmt.Sprintf("refresh-%d-%s", is.n, rand.Text())
	is.refresh[s] = true
	return s
}

// sign returns an access token (RFC 9068).
func (is *issuer) sign() string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: is.key, KeyID: "k1"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		panic(err)
	}
	is.n++
	now := time.Now()
	s, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": is.URL, "aud": audience, "sub": "person", "client_id": clientName, "iat": now.Unix(), "jti": fmt.Sprint(is.n),
		"exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		panic(err)
	}
	return s
}

// asked returns the types of the grants so far.
func (is *issuer) asked() string {
	is.mu.Lock()
	defer is.mu.Unlock()
	return strings.ReplaceAll(strings.Join(is.grants, " "), "urn:ietf:params:oauth:grant-type:", "")
}

// guarded serves an agent that takes the issuer's tokens, and whose card declares the schemes.
func guarded(t *testing.T, is *issuer, schemes map[string]a2a.SecurityScheme) *peer {
	t.Helper()
	method, err := auth.NewJWT(auth.JWTOptions{Issuer: is.URL, Audience: []string{audience}, KeysFile: is.keysFile})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.Any(auth.Options{}, method)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, says("hi"), func(info *a2a.CallInfo) bool { return a.Authenticate(context.Background(), info) == nil }, schemes)
}

// deviceScheme and the others are what cards say of the issuer.
func (is *issuer) deviceScheme() a2a.SecurityScheme {
	return &a2a.OAuth2SecurityScheme{Flows: &a2a.DeviceCodeOAuthFlow{
		DeviceAuthorizationURL: is.URL + "/device", TokenURL: is.URL + "/token", Scopes: map[string]string{"read": "read"},
	}}
}

func (is *issuer) clientScheme() a2a.SecurityScheme {
	return &a2a.OAuth2SecurityScheme{Flows: &a2a.ClientCredentialsOAuthFlow{TokenURL: is.URL + "/token", Scopes: map[string]string{}}}
}

func (is *issuer) openID() a2a.SecurityScheme {
	return &a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: is.URL + "/.well-known/openid-configuration"}
}

func one(s a2a.SecurityScheme) map[string]a2a.SecurityScheme {
	return map[string]a2a.SecurityScheme{"login": s}
}

// home gives the test a folder for configuration of its own, and returns the one of the logins.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	return filepath.Join(dir, "parley", "logins")
}

// onlyLogin returns the path and the content of the only login.
func onlyLogin(t *testing.T, dir string) (string, login) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of logins: %q, %v", files, err)
	}
	f, err := readLoginFile(files[0])
	if err != nil || len(f.Logins) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	return files[0], f.Logins[0]
}

// expire lets the token of the only login expire.
func expire(t *testing.T, dir string) {
	t.Helper()
	path, l := onlyLogin(t, dir)
	f, err := readLoginFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Expiry = time.Now().Add(-time.Minute)
	f.Logins[0] = l
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// noSecrets fails if one of the tokens or the secret was printed.
func (r result) noSecrets(t *testing.T, l login) {
	t.Helper()
	for _, s := range []string{l.Access, l.Refresh, clientSecret, "the-device-code"} {
		if s != "" && strings.Contains(r.stdout+r.stderr, s) {
			t.Errorf("a secret was printed:\n%s\n%s", r.stdout, r.stderr)
		}
	}
}

func TestLoginByDevice(t *testing.T) {
	dir := home(t)
	is := newIssuer(t)
	is.device = []string{"authorization_pending", "authorization_pending"}
	p := guarded(t, is, one(is.deviceScheme()))
	p.change(func(card *a2a.AgentCard) {
		card.SecurityRequirements = []*a2a.SecurityRequirement{{Schemes: map[string][]string{"login": {"read"}}}}
	})
	ca := []string{"-a", p.URL, "--ca-cert", is.caFile, "--debug"}

	got := parleyRun(append([]string{"send", "x", "-o", "json"}, ca...)...)
	got.wants(t, 4, `"code":"A2ACLI_ERR_CREDENTIALS_MISSING"`, "")
	got.wants(t, 4, `parley auth login -a `+p.URL+` --client-id ID`, "")

	got = parleyRun(append([]string{"auth", "login", "--client-id", clientName}, ca...)...)
	got.wants(t, 0, "Login: "+p.URL+"\nScheme: login\nIssuer: "+is.URL+"/token\nScopes: read\nExpires: ", "Open "+is.URL+"/activate and enter the code WDJB-MJHT\n")
	if scope := is.forms[0].Get("scope"); scope != "read" {
		t.Errorf("the scope was %q", scope)
	}
	path, l := onlyLogin(t, dir)
	got.noSecrets(t, l)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	for range 2 {
		got = parleyRun(append([]string{"send", "x"}, ca...)...)
		got.wants(t, 0, "State: COMPLETED", "login origin="+p.URL)
		got.noSecrets(t, l)
	}
	if asked := is.asked(); asked != "device_code device_code device_code" {
		t.Errorf("grants: %s", asked)
	}
	expire(t, dir)
	got = parleyRun(append([]string{"send", "x"}, ca...)...)
	got.wants(t, 0, "State: COMPLETED", "")
	_, renewed := onlyLogin(t, dir)
	if renewed.Access == l.Access || renewed.Refresh == l.Refresh || !strings.HasSuffix(is.asked(), " refresh_token") {
		t.Errorf("the token was not renewed: %s", is.asked())
	}
	got.noSecrets(t, renewed)

	// A refresh token that is no longer good ends the login.
	expire(t, dir)
	is.set(func() { clear(is.refresh) })
	got = parleyRun(append([]string{"send", "x", "-o", "json"}, ca...)...)
	got.wants(t, 4, `"code":"A2ACLI_ERR_AUTH_FAILED","message":"the login could not be renewed: `+is.URL+`/token answered invalid_grant`, "")

	shown := parleyRun("config", "show")
	shown.wants(t, 0, "Login: "+p.URL+"\nScheme: login\n", "")
	shown.noSecrets(t, renewed)
	parleyRun("auth", "logout", "-a", p.URL).wants(t, 0, "Removed: 1\n", "")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}

func TestLoginByClientCredentials(t *testing.T) {
	dir := home(t)
	is := newIssuer(t)
	p := guarded(t, is, one(is.clientScheme()))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(clientSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	common := []string{"auth", "login", "-a", p.URL, "--ca-cert", is.caFile, "--client-id", clientName, "--debug"}
	parleyRun(common...).wants(t, 2, "", "needs the client's secret")
	t.Setenv("A2ACLI_CLIENT_SECRET", "wr0ng-secret")
	got := parleyRun(common...)
	got.wants(t, 4, "", "answered invalid_client (HTTP status 400)\nHint: check --client-id")
	if strings.Contains(got.stderr, "wr0ng") {
		t.Error("the secret was printed")
	}
	t.Setenv("A2ACLI_CLIENT_SECRET", "")
	got = parleyRun(append(common, "--client-secret-file", secret, "--audience", "a", "--resource", "https://r.example", "--scope", "s1,s2", "-o", "json")...)
	got.wants(t, 0, `{"origin":"`+p.URL+`","scheme":"login"`, "")
	form := is.forms[len(is.forms)-1]
	if form.Get("audience") != "a" || form.Get("resource") != "https://r.example" || form.Get("scope") != "s1 s2" {
		t.Errorf("the form was %v", form)
	}
	path, l := onlyLogin(t, dir)
	got.noSecrets(t, l)
	if b, _ := os.ReadFile(path); strings.Contains(string(b), clientSecret) {
		t.Error("the secret was kept")
	}
	expire(t, dir)
	got = parleyRun("send", "-a", p.URL, "--ca-cert", is.caFile, "x", "--debug")
	got.wants(t, 0, "State: COMPLETED", "")
	_, next := onlyLogin(t, dir)
	if next.Access == l.Access {
		t.Error("the token was not renewed")
	}
	got.noSecrets(t, next)
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	parleyRun(append(common, "--client-secret-file", secret)...).wants(t, 2, "", "others can read it (mode 0644)")
}

// TestRefusedToken: a token that the agent refuses before its time is renewed, once.
func TestRefusedToken(t *testing.T) {
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		t.Run(binding, func(t *testing.T) {
			dir := home(t)
			is := newIssuer(t)
			url := guardedHost(t, is)
			t.Setenv("A2ACLI_CLIENT_SECRET", clientSecret)
			run := func(args ...string) result {
				return parleyRun(append(args, "-a", url, "--ca-cert", is.caFile, "--transport", binding, "--debug")...)
			}
			run("auth", "login", "--client-id", clientName).wants(t, 0, "Login: ", "")
			path, l := onlyLogin(t, dir)
			f := loginFile{url, []login{l}}
			f.Logins[0].Access = "revoked-" + l.Access
			b, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			run("task", "list").wants(t, 0, "Total: 0", "")
			run("send", "x").wants(t, 0, "State: COMPLETED", "")
			_, next := onlyLogin(t, dir)
			if next.Access == f.Logins[0].Access {
				t.Error("the token was not renewed")
			}
		})
	}
}

// guardedHost serves an agent by itself, with all bindings, that takes the issuer's tokens, and returns its URL.
func guardedHost(t *testing.T, is *issuer) string {
	t.Helper()
	method, err := auth.NewJWT(auth.JWTOptions{Issuer: is.URL, Audience: []string{audience}, KeysFile: is.keysFile, TokenURL: is.URL + "/token", Scheme: "login"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.Any(auth.Options{}, method)
	if err != nil {
		t.Fatal(err)
	}
	return serveUntilEnd(t, parley.Config{
		Name: "Guarded", Authenticate: a.Authenticate, SecuritySchemes: a.SecuritySchemes(), SecurityRequirements: a.SecurityRequirements(),
	}, says("hi"))
}

func TestLoginByOpenID(t *testing.T) {
	dir := home(t)
	is := newIssuer(t)
	p := guarded(t, is, one(is.openID()))
	run := func(args ...string) result { return parleyRun(append(args, "-a", p.URL, "--ca-cert", is.caFile)...) }
	run("auth", "login", "--client-id", clientName).wants(t, 0, "Scopes: openid\n", "enter the code WDJB-MJHT")
	run("send", "x").wants(t, 0, "State: COMPLETED", "")
	expire(t, dir)
	run("send", "x").wants(t, 0, "State: COMPLETED", "")
	t.Setenv("A2ACLI_CLIENT_SECRET", clientSecret)
	run("auth", "login", "--client-id", clientName, "--flow", "client-credentials").wants(t, 0, "Login: ", "")
	if asked := is.asked(); asked != "device_code refresh_token client_credentials" {
		t.Errorf("grants: %s", asked)
	}
	// The card of another issuer: the login is not used.
	p.change(func(card *a2a.AgentCard) {
		card.SecuritySchemes = one(&a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: "https://other.example"})
	})
	run("send", "x").wants(t, 4, "", "its card no longer asks for it: it is not used")
	if h := p.last(t).Header.Get("Authorization"); h != "" {
		t.Errorf("the token was sent: %s", h)
	}
}

// browser is who reads what parley says, and opens the address in it.
type browser struct {
	said bytes.Buffer
	open func(string)
}

var address = regexp.MustCompile(`(?m)^https://\S+/authorize\?\S+$`)

func (b *browser) Write(p []byte) (int, error) {
	if to := address.Find(p); to != nil {
		go b.open(string(to))
	}
	return b.said.Write(p)
}

func TestLoginByCode(t *testing.T) {
	dir := home(t)
	is := newIssuer(t)
	p := guarded(t, is, one(&a2a.OAuth2SecurityScheme{Flows: &a2a.AuthorizationCodeOAuthFlow{
		AuthorizationURL: is.URL + "/authorize", TokenURL: is.URL + "/token", PKCERequired: true, Scopes: map[string]string{},
	}}))
	var stdout bytes.Buffer
	page := make(chan string, 1)
	stderr := &browser{open: func(to string) {
		res, err := is.Client().Get(to)
		if err != nil {
			page <- err.Error()
			return
		}
		defer res.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		page <- b.String()
	}}
	code := Main([]string{"auth", "login", "-a", p.URL, "--ca-cert", is.caFile, "--client-id", clientName}, strings.NewReader(""), &stdout, stderr)
	result{code, stdout.String(), stderr.said.String()}.wants(t, 0, "Login: "+p.URL, "sign in")
	if got := <-page; !strings.HasPrefix(got, "Done.") {
		t.Errorf("the browser shows %q", got)
	}
	parleyRun("send", "-a", p.URL, "x").wants(t, 0, "State: COMPLETED", "")
	if _, l := onlyLogin(t, dir); l.Refresh == "" {
		t.Error("there is no refresh token")
	}
}

// TestBadIssuer: whatever an authorization server does there is an error that says so, and no login.
func TestBadIssuer(t *testing.T) {
	dir := home(t)
	for _, tt := range []struct {
		name   string
		device []string
		token  http.HandlerFunc
		code   int
		stderr string
	}{
		{"denied", []string{"access_denied"}, nil, 4, "answered access_denied (HTTP status 400)\nHint: whoever was asked said no"},
		{"too late", []string{"authorization_pending", "expired_token"}, nil, 4, "Hint: run it again, and enter the code in time"},
		{"a page", nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) }, 4, "something else than the expected JSON"},
		{"a redirect", nil, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 4, "answered with HTTP status 307"},
		{"no token", nil, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]string{}) }, 4, "without an access_token"},
		{"another kind of token", nil, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, map[string]string{"access_token": "t", "token_type": "DPoP"})
		}, 4, "not of the type Bearer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := newIssuer(t)
			is.device, is.override = tt.device, tt.token
			p := guarded(t, is, one(is.deviceScheme()))
			got := parleyRun("auth", "login", "-a", p.URL, "--ca-cert", is.caFile, "--client-id", clientName)
			got.wants(t, tt.code, "", tt.stderr)
		})
	}
	is := newIssuer(t)
	p := guarded(t, is, one(is.deviceScheme()))
	login := []string{"auth", "login", "-a", p.URL, "--client-id", clientName}
	parleyRun(login...).wants(t, 3, "", "Error: no login: Post \""+is.URL+"/device\"") // its certificate is not trusted
	is.device = make([]string, 1000)
	for i := range is.device {
		is.device[i] = "authorization_pending"
	}
	parleyRun(append(login, "--ca-cert", is.caFile, "--timeout", "300ms")...).wants(t, 5, "", "no end within 300ms")
	is.Close()
	parleyRun(append(login, "--ca-cert", is.caFile, "-o", "json")...).wants(t, 3, `"code":"A2ACLI_ERR_UNREACHABLE"`, "")
	if files, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(files) > 0 {
		t.Errorf("there are logins: %q", files)
	}
}

func TestLoginChoice(t *testing.T) {
	home(t)
	is := newIssuer(t)
	p := guarded(t, is, map[string]a2a.SecurityScheme{"a": is.deviceScheme(), "b": is.openID(), "c": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}})
	run := func(args ...string) result {
		return parleyRun(append([]string{"auth", "login", "-a", p.URL, "--ca-cert", is.caFile}, args...)...)
	}
	run("--client-id", clientName).wants(t, 2, "", "--scheme: which of the card's schemes, a, b?")
	run("--client-id", clientName, "--scheme", "c").wants(t, 2, "", `--scheme "c": the schemes of the card are a, b`)
	run("--scheme", "a").wants(t, 2, "", "--client-id: under which name")
	run("--scheme", "a", "--client-id", clientName, "--flow", "code").wants(t, 2, "", "offer no such flow")
	run("--scheme", "a", "--client-id", clientName, "--flow", "x").wants(t, 2, "", "the flows are device, client-credentials and code")
	run("--scheme", "b", "--client-id", clientName).wants(t, 0, "Scheme: b", "")
	p.change(func(card *a2a.AgentCard) {
		card.SecuritySchemes = one(&a2a.APIKeySecurityScheme{Location: "header", Name: "X-Key"})
	})
	run("--client-id", clientName).wants(t, 4, "", "the agent's card declares API key in header X-Key\nHint: pass --api-key")
	p.change(func(card *a2a.AgentCard) { card.SecuritySchemes = nil })
	run("--client-id", clientName).wants(t, 4, "", "the agent's card declares no security scheme")
}

// TestLoginStaysAtHome: the token goes to the interfaces of the agent's own origin only.
func TestLoginStaysAtHome(t *testing.T) {
	home(t)
	is := newIssuer(t)
	p := guarded(t, is, one(is.deviceScheme()))
	elsewhere := newPeer(t, says("hi"), nil, nil)
	parleyRun("auth", "login", "-a", p.URL, "--ca-cert", is.caFile, "--client-id", clientName).wants(t, 0, "Login: ", "")
	foreign := onNetwork(t, elsewhere.Config.Handler)
	p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].URL = foreign })
	parleyRun("send", "-a", p.URL, "x").wants(t, 0, "State: COMPLETED", "the login for "+p.URL+" is not used: its card names the interface "+foreign)
	if h := elsewhere.last(t).Header.Get("Authorization"); h != "" {
		t.Errorf("the token was sent: %q", h)
	}
	// Another agent that declares the same scheme gets nothing.
	other := newPeer(t, says("hi"), nil, one(is.deviceScheme()))
	parleyRun("send", "-a", other.URL, "x").wants(t, 0, "State: COMPLETED", "")
	if h := other.last(t).Header.Get("Authorization"); h != "" {
		t.Errorf("the token was sent: %q", h)
	}
	// One that is asked for a login beyond this machine without encryption is not logged in to.
	far := onNetwork(t, p.Config.Handler)
	parleyRun("auth", "login", "-a", far, "--client-id", clientName).wants(t, 2, "", "its tokens would be sent without encryption")
}

// TestTokenOrigin: a request elsewhere, such as one that a redirect leads to, has no token.
func TestTokenOrigin(t *testing.T) {
	seen := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	n := newNetwork(new(clientFlags), slog.New(slog.DiscardHandler))
	get := func(context.Context, string) (string, error) { return "t0ken", nil }
	for origin, want := range map[string]string{elsewhere.URL: "Bearer t0ken", "http://127.0.0.1:1": ""} {
		n.login = &boundToken{origin, get}
		res, err := (&http.Client{Transport: n}).Get(elsewhere.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := <-seen; got != want {
			t.Errorf("%s: the credential is %q, want %q", origin, got, want)
		}
	}
}

func TestBadLoginFile(t *testing.T) {
	dir := home(t)
	is := newIssuer(t)
	p := guarded(t, is, one(is.deviceScheme()))
	login := []string{"auth", "login", "-a", p.URL, "--ca-cert", is.caFile, "--client-id", clientName}
	parleyRun(login...).wants(t, 0, "Login: ", "")
	path, _ := onlyLogin(t, dir)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"others can read it (mode 0644)": func() error { return os.Chmod(path, 0o644) },
		"it is damaged":                  func() error { return os.WriteFile(path, good[:len(good)/2], 0o600) },
		"it is not a file":               func() error { return os.Symlink("/etc/passwd", path) },
		"it is for https://other": func() error {
			return os.WriteFile(path, bytes.ReplaceAll(good, []byte(p.URL), []byte("https://other")), 0o600)
		},
	} {
		_ = os.Remove(path)
		if name != "it is not a file" {
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		got := parleyRun("send", "-a", p.URL, "x", "-o", "json")
		got.wants(t, 4, `"code":"A2ACLI_ERR_AUTH_FAILED","message":"the login in `+path+` is not used: `+name, "")
		if name != "it is for https://other" {
			parleyRun("config", "show").wants(t, 0, "Problem: the login in "+path+" is not used: "+name, "")
		}
		parleyRun(login...).wants(t, 0, "Login: ", "")
		parleyRun("send", "-a", p.URL, "x").wants(t, 0, "State: COMPLETED", "")
	}
}

// TestLoginsAtOnce: nothing of many logins and renewals at the same time is lost.
func TestLoginsAtOnce(t *testing.T) {
	home(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := changeLogins("https://agent.test:443", false, func(f *loginFile) error {
				f.set(login{Scheme: fmt.Sprint("s", i), Issuer: "i", Access: "a"})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := readLogins("https://agent.test:443")
	if err != nil || len(f.Logins) != 20 {
		t.Errorf("%d logins, %v", len(f.Logins), err)
	}
	// Two commands that find the token expired renew it once: the second would find its refresh token spent.
	dir := home(t)
	is := newIssuer(t)
	p := guarded(t, is, one(is.deviceScheme()))
	parleyRun("auth", "login", "-a", p.URL, "--ca-cert", is.caFile, "--client-id", clientName).wants(t, 0, "Login: ", "")
	expire(t, dir)
	for range 5 {
		all.Go(func() {
			parleyRun("send", "-a", p.URL, "--ca-cert", is.caFile, "x").wants(t, 0, "State: COMPLETED", "")
		})
	}
	all.Wait()
	if asked := is.asked(); strings.Count(asked, "refresh_token") != 1 {
		t.Errorf("grants: %s", asked)
	}
}

// serveUntilEnd serves an agent by itself until the test ends, and returns its URL.
func serveUntilEnd(t *testing.T, cfg parley.Config, a agent.Agent) string {
	t.Helper()
	var listeners [2]net.Listener
	for i := range listeners {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
	}
	cfg.Listen, cfg.GRPCListen = listeners[0].Addr().String(), listeners[1].Addr().String()
	cfg.Grace, cfg.Log = time.Second, slog.New(slog.DiscardHandler)
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	h, err := parley.New(cfg, a)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, listeners[0], listeners[1]) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return scheme + cfg.Listen
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	cert, key := a.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.file = cert
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// issue writes a certificate and its key, and returns the files.
func (a *authority) issue(t *testing.T, template *x509.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestMutualTLS: --client-cert names the caller where the agent asks for a certificate, on every binding.
func TestMutualTLS(t *testing.T) {
	home(t)
	ca := newAuthority(t)
	cert, key := ca.issue(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	mine, myKey := ca.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "me"}, DNSNames: []string{"me"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	config, err := auth.ServerTLS(auth.ServerTLSOptions{CertFile: cert, KeyFile: key, ClientCAFile: ca.file})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.Any(auth.Options{}, auth.NewCertificates(auth.CertificateOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	url := serveUntilEnd(t, parley.Config{
		Name: "Guarded", Authenticate: a.Authenticate, TLS: config,
		SecuritySchemes: a.SecuritySchemes(), SecurityRequirements: a.SecurityRequirements(),
	}, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		return u.Complete(a2a.TextPart("hello " + r.Caller.Subject))
	}))
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		run := func(args ...string) result {
			return parleyRun(append([]string{"send", "-a", url, "--transport", binding, "x"}, args...)...)
		}
		run("--ca-cert", ca.file, "--client-cert", mine, "--client-key", myKey).wants(t, 0, "hello ", "")
		run("--ca-cert", ca.file).wants(t, 4, "", "its card declares mutual TLS")
		run("--insecure", "--client-cert", mine, "--client-key", myKey).wants(t, 0, "hello ", "Warning: TLS certificates are not verified")
		run().wants(t, 3, "", "certificate")
	}
	parleyRun("send", "-a", url, "x", "--client-cert", mine).wants(t, 2, "", "--client-cert and --client-key belong together")
	parleyRun("send", "-a", url, "x", "--ca-cert", myKey).wants(t, 2, "", "there is no certificate in PEM")
}
