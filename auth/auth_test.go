package auth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
)

const (
	alicesKey = "alice-canary-0123456789"
	bobsKey   = "bob-canary-0123456789"
)

func keys(t *testing.T, lines ...string) *auth.APIKeys {
	t.Helper()
	var list []auth.APIKey
	for _, l := range lines {
		k, err := auth.ParseAPIKey(l)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, k)
	}
	k, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: list})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAPIKeys(t *testing.T) {
	sum := sha256.Sum256([]byte(bobsKey))
	a := must(auth.Any(quiet(), keys(
		t, "alice="+alicesKey+" scope=tasks.read,tasks.write tenant=acme", "bob=sha256:"+hex.EncodeToString(sum[:]),
		"old="+strings.Repeat("o", 20)+" expires=2020-01-01T00:00:00Z",
	)))
	info := with("X-Api-Key", alicesKey)
	if err := a.Authenticate(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	want := a2a.Caller{Tenant: "acme", Issuer: "api-key", Subject: "alice", Scopes: []string{"tasks.read", "tasks.write"}}
	if format(info.Caller) != format(want) {
		t.Errorf("caller = %+v", info.Caller)
	}
	info = with("X-Api-Key", bobsKey)
	if err := a.Authenticate(t.Context(), info); err != nil || info.Caller.Subject != "bob" {
		t.Errorf("bob: %v, %+v", err, info.Caller)
	}
	for name, info := range map[string]*a2a.CallInfo{
		"none":        {Header: http.Header{}},
		"wrong":       with("X-Api-Key", alicesKey+"x"),
		"cut":         with("X-Api-Key", alicesKey[:len(alicesKey)-1]),
		"empty":       with("X-Api-Key", ""),
		"hash":        with("X-Api-Key", hex.EncodeToString(sum[:])),
		"expired":     with("X-Api-Key", strings.Repeat("o", 20)),
		"as bearer":   with("Authorization", "Bearer "+alicesKey),
		"two":         {Header: http.Header{"X-Api-Key": {alicesKey, alicesKey}}},
		"with spaces": with("X-Api-Key", " "+alicesKey),
		"100 KB":      with("X-Api-Key", strings.Repeat("k", 100<<10)),
	} {
		err := a.Authenticate(t.Context(), info)
		if codeOf(err) != a2a.ErrUnauthenticated || !info.Caller.Anonymous() {
			t.Errorf("%s: %v, %+v", name, err, info.Caller)
			continue
		}
		if c := a2a.AsError(err).Challenge; !slices.Equal(c, []string{`ApiKey realm="a2a", header="X-Api-Key"`}) {
			t.Errorf("%s: challenge %q", name, c)
		}
	}
}

func TestParseAPIKey(t *testing.T) {
	for _, bad := range []string{
		"", " ", "alice", "=" + alicesKey, "alice=short", "alice=sha256:00", "alice=" + alicesKey + " scope=a\"b",
		"alice=" + alicesKey + " colour=red", "alice=" + alicesKey + " expires=tomorrow", "al\x00ice=" + alicesKey,
		"alice=" + alicesKey + " tenant=a\x01b",
	} {
		if _, err := auth.ParseAPIKey(bad); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, header := range []string{"Host", "Authorization", "Content-Length", "X Key", "X-Key\r\nX", "Cookie", "Grpc-Timeout", "Key-Bin"} {
		_, err := auth.NewAPIKeys(auth.APIKeyOptions{Header: header, Keys: []auth.APIKey{must(auth.ParseAPIKey("a=" + alicesKey))}})
		if err == nil {
			t.Errorf("header %q was taken", header)
		}
	}
	same := []auth.APIKey{must(auth.ParseAPIKey("a=" + alicesKey)), must(auth.ParseAPIKey("b=" + alicesKey))}
	if _, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: same}); err == nil {
		t.Error("one key for two names was taken")
	}
}

// A file of keys is read again; one that is wrong after a change is not used.
func TestAPIKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	writeFile(path, []byte("# keys\n\nalice="+alicesKey+"\n"))
	var out log
	k := must(auth.NewAPIKeys(auth.APIKeyOptions{File: path, Log: out.logger()}))
	a := must(auth.Any(quiet(), k))
	var c clock
	a.SetClock(c.now)
	expect := func(what string, alice, bob a2a.ErrorCode) {
		t.Helper()
		c.advance(5 * time.Second)
		if got := codeOf(a.Authenticate(t.Context(), with("X-Api-Key", alicesKey))); got != alice {
			t.Errorf("%s: alice: %v", what, got)
		}
		if got := codeOf(a.Authenticate(t.Context(), with("X-Api-Key", bobsKey))); got != bob {
			t.Errorf("%s: bob: %v", what, got)
		}
	}
	expect("at first", 0, a2a.ErrUnauthenticated)
	writeFile(path, []byte("bob="+bobsKey+"\n"))
	expect("changed", a2a.ErrUnauthenticated, 0)
	writeFile(path, []byte("alice="+alicesKey+"\nnonsense canary\n"))
	expect("wrong", a2a.ErrUnauthenticated, 0)
	expect("still wrong", a2a.ErrUnauthenticated, 0)
	if n := strings.Count(out.String(), "line 2"); n != 1 || strings.Contains(out.String(), "canary") {
		t.Errorf("log: %s", out.String())
	}
	writeFile(path, []byte("alice="+alicesKey+"\n"))
	expect("right again", 0, a2a.ErrUnauthenticated)
}

// An issuer at http and loopback, which the options take, is asked by the client that there is without a choice.
func TestIssuerAtLoopback(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"active":true,"sub":"me","aud":"agent"}`)
	}))
	t.Cleanup(issuer.Close)
	i := must(auth.NewIntrospection(auth.IntrospectionOptions{
		Endpoint: issuer.URL, ClientID: "agent", Issuer: issuer.URL, Audience: []string{"agent"},
	}))
	id, err := i.Identify(t.Context(), &a2a.CallInfo{Header: http.Header{"Authorization": {"Bearer t"}}})
	if err != nil || id.Caller.Subject != "me" {
		t.Errorf("%+v, %v", id, err)
	}
}

func TestIntrospection(t *testing.T) {
	iss := newIssuer(t)
	active := func(changes map[string]any) map[string]any {
		m := iss.claims(time.Now(), changes)
		if _, ok := changes["active"]; !ok {
			m["active"] = true
		}
		return m
	}
	iss.answer = map[string]any{
		"good":       active(nil),
		"aud-list":   active(map[string]any{"aud": []string{"x", "stock"}}),
		"no-exp":     active(map[string]any{"exp": nil}),
		"client":     active(map[string]any{"sub": nil, "client_id": "svc"}),
		"inactive":   active(map[string]any{"active": false}),
		"other-iss":  active(map[string]any{"iss": "https://evil.example"}),
		"other-aud":  active(map[string]any{"aud": "billing"}),
		"no-aud":     active(map[string]any{"aud": nil}),
		"expired":    active(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"early":      active(map[string]any{"nbf": time.Now().Add(time.Minute).Unix()}),
		"nobody":     active(map[string]any{"sub": nil}),
		"no-tenant":  active(map[string]any{"org": nil}),
		"text-true":  active(map[string]any{"active": "true"}),
		"sub-number": active(map[string]any{"sub": 7}),
	}
	i := must(auth.NewIntrospection(auth.IntrospectionOptions{
		Endpoint: iss.srv.URL + "/introspect", ClientID: "agent", ClientSecret: auth.NewSecret("agent-secret-canary"),
		Issuer: iss.srv.URL, Audience: []string{"stock"}, TenantClaim: "org", Client: iss.srv.Client(),
	}))
	a := must(auth.Any(quiet(), i))
	var c clock
	a.SetClock(c.now)
	try := func(token string) (a2a.Caller, a2a.ErrorCode) {
		info := withToken(token)
		err := a.Authenticate(t.Context(), info)
		if err != nil && strings.Contains(format(err), "canary") {
			t.Errorf("a secret is in the error %v", err)
		}
		return info.Caller, codeOf(err)
	}
	for token, subject := range map[string]string{"good": "alice", "aud-list": "alice", "no-exp": "alice", "client": "svc"} {
		caller, code := try(token)
		if code != 0 || caller.Subject != subject || caller.Tenant != "acme" || caller.Issuer != iss.srv.URL || len(caller.Scopes) != 2 {
			t.Errorf("%s: %v, %+v", token, code, caller)
		}
	}
	for _, token := range []string{"inactive", "other-iss", "other-aud", "no-aud", "expired", "early", "nobody", "no-tenant", "unknown"} {
		if _, code := try(token); code != a2a.ErrUnauthenticated {
			t.Errorf("%s: %v", token, code)
		}
	}
	for _, token := range []string{"text-true", "sub-number"} {
		if _, code := try(token); code != a2a.ErrUnavailable {
			t.Errorf("%s: %v", token, code)
		}
	}
	before := iss.asked
	try("good")
	if iss.asked != before {
		t.Error("an answer of the last 10 seconds was asked for again")
	}
	iss.set(func() { delete(iss.answer, "good") })
	c.advance(11 * time.Second)
	if _, code := try("good"); code != a2a.ErrUnauthenticated {
		t.Errorf("revoked: %v", code)
	}
	iss.set(func() { iss.down = true })
	if _, code := try("another"); code != a2a.ErrUnavailable {
		t.Errorf("issuer down: %v", code)
	}
}

// Several methods at once: the credential decides, and there is one.
func TestAny(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	iss.answer["opaque"] = func() map[string]any {
		m := iss.claims(time.Now(), map[string]any{"sub": "carol"})
		m["active"] = true
		return m
	}()
	i := must(auth.NewIntrospection(auth.IntrospectionOptions{
		Endpoint: iss.srv.URL + "/introspect", ClientID: "agent", ClientSecret: auth.NewSecret("agent-secret-canary"),
		Issuer: iss.srv.URL, Audience: []string{"stock"}, Client: iss.srv.Client(), TokenURL: iss.srv.URL + "/token",
	}))
	a := must(auth.Any(quiet(), keys(t, "bob="+bobsKey), iss.newJWT(t, nil), i, auth.NewCertificates(auth.CertificateOptions{})))
	token := iss.token(key, nil)
	for _, tt := range []struct {
		name   string
		header http.Header
		want   string // subject; empty: refused
	}{
		{"key", http.Header{"X-Api-Key": {bobsKey}}, "bob"},
		{"jwt", http.Header{"Authorization": {"Bearer " + token}}, "alice"},
		{"lower case", http.Header{"Authorization": {"bearer " + token}}, "alice"},
		{"opaque", http.Header{"Authorization": {"Bearer opaque"}}, "carol"},
		{"nothing", http.Header{}, ""},
		{"key and token", http.Header{"X-Api-Key": {bobsKey}, "Authorization": {"Bearer " + token}}, ""},
		{"key and rubbish", http.Header{"X-Api-Key": {bobsKey}, "Authorization": {"x"}}, ""},
		{"two tokens", http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, ""},
		{"basic", http.Header{"Authorization": {"Basic dTpw"}}, ""},
		{"no token", http.Header{"Authorization": {"Bearer"}}, ""},
		{"a JWT with a broken signature is not asked about", http.Header{"Authorization": {"Bearer " + token[:len(token)-4] + "AAAA"}}, ""},
	} {
		info := &a2a.CallInfo{Header: tt.header}
		err := a.Authenticate(t.Context(), info)
		if info.Caller.Subject != tt.want || (tt.want == "") != (codeOf(err) == a2a.ErrUnauthenticated) {
			t.Errorf("%s: %v, %+v", tt.name, err, info.Caller)
		}
		if err != nil && len(a2a.AsError(err).Challenge) != 3 {
			t.Errorf("%s: challenge %q", tt.name, a2a.AsError(err).Challenge)
		}
	}
	err := a2a.AsError(a.Authenticate(t.Context(), &a2a.CallInfo{}))
	if strings.Contains(strings.Join(err.Challenge, ""), "error=") {
		t.Errorf("challenge %q for no credential at all (RFC 6750, section 3.1)", err.Challenge)
	}

	card := &a2a.AgentCard{SecuritySchemes: a.SecuritySchemes(), SecurityRequirements: a.SecurityRequirements()}
	var got map[string]any
	if err := json.Unmarshal(card.AppendJSON(nil), &got); err != nil {
		t.Fatal(err)
	}
	schemes := string(must(json.Marshal(got["securitySchemes"])))
	for _, want := range []string{
		`"apiKey":{"apiKeySecurityScheme":{"location":"header","name":"X-Api-Key"}}`,
		`"oidc":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"` + iss.srv.URL + `/.well-known/openid-configuration"}}`,
		`"tokenUrl":"` + iss.srv.URL + `/token"`, `"mtls":{"mtlsSecurityScheme":{}}`,
	} {
		if !strings.Contains(schemes, want) {
			t.Errorf("the card lacks %s: %s", want, schemes)
		}
	}
	if len(card.SecurityRequirements) != 4 {
		t.Errorf("requirements = %s", must(json.Marshal(got["securityRequirements"])))
	}
}

func TestAnonymous(t *testing.T) {
	opts := quiet()
	opts.Anonymous = true
	a := must(auth.Any(opts, keys(t, "bob="+bobsKey)))
	info := &a2a.CallInfo{}
	if err := a.Authenticate(t.Context(), info); err != nil || !info.Caller.Anonymous() {
		t.Errorf("no credential: %v", err)
	}
	if err := a.Authenticate(t.Context(), with("X-Api-Key", "wrong")); codeOf(err) != a2a.ErrUnauthenticated {
		t.Errorf("a wrong credential: %v", err)
	}
	if a.SecurityRequirements() != nil {
		t.Error("the card requires a credential")
	}
}

func TestDenylist(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	path := filepath.Join(t.TempDir(), "denied")
	writeFile(path, []byte("# revoked\n"))
	opts := quiet()
	opts.Denylist = must(auth.OpenDenylist(path, slog.New(slog.DiscardHandler)))
	a := must(auth.Any(opts, keys(t, "bob="+bobsKey), iss.newJWT(t, nil)))
	var c clock
	a.SetClock(c.now)
	one, two := withToken(iss.token(key, nil)), withToken(iss.token(key, map[string]any{"jti": "jti-2"}))
	bob := with("X-Api-Key", bobsKey)
	expect := func(what string, want ...a2a.ErrorCode) {
		t.Helper()
		c.advance(5 * time.Second)
		for i, info := range []*a2a.CallInfo{one, two, bob} {
			if got := codeOf(a.Authenticate(t.Context(), info)); got != want[i] {
				t.Errorf("%s: %d: %v", what, i, got)
			}
		}
	}
	expect("empty", 0, 0, 0)
	writeFile(path, []byte(iss.srv.URL+" jti-1\nhttps://other.example jti-2\n"))
	expect("one token", a2a.ErrUnauthenticated, 0, 0)
	writeFile(path, []byte("api-key bob\n"+iss.srv.URL+" alice\n"))
	expect("subjects", a2a.ErrUnauthenticated, a2a.ErrUnauthenticated, a2a.ErrUnauthenticated)
	writeFile(path, []byte("bob\n"))
	expect("a broken file", a2a.ErrUnauthenticated, a2a.ErrUnauthenticated, a2a.ErrUnauthenticated)
	writeFile(path, []byte("\n"))
	opts.Denylist.Deny("api-key", "bob")
	expect("by the program", 0, 0, a2a.ErrUnauthenticated)
}

func TestThrottle(t *testing.T) {
	a := must(auth.Any(auth.Options{Log: slog.New(slog.DiscardHandler)}, keys(t, "bob="+bobsKey, "old="+alicesKey+" expires=2020-01-01T00:00:00Z")))
	var c clock
	a.SetClock(c.now)
	call := func(peer, key string) error {
		info := &a2a.CallInfo{Peer: peer, Header: http.Header{}}
		if key != "" {
			info.Header.Set("X-API-Key", key)
		}
		return a.Authenticate(t.Context(), info)
	}
	for range 20 {
		if err := call("192.0.2.1:1", ""); codeOf(err) != a2a.ErrUnauthenticated {
			t.Fatalf("no credential is no failure: %v", err)
		}
		if err := call("192.0.2.1:1", alicesKey); codeOf(err) != a2a.ErrUnauthenticated {
			t.Fatalf("an expired one is no guess: %v", err)
		}
	}
	for i := range 5 {
		if err := call(fmt.Sprintf("192.0.2.1:%d", i+1), "wrong"); codeOf(err) != a2a.ErrUnauthenticated {
			t.Fatalf("failure %d: %v", i+1, err)
		}
	}
	for _, key := range []string{"wrong", "", bobsKey} {
		err := call("192.0.2.1:9", key)
		if codeOf(err) != a2a.ErrResourceExhausted || a2a.AsError(err).RetryAfter <= 0 || a2a.AsError(err).RetryAfter > time.Minute {
			t.Errorf("after five failures: %v", err)
		}
	}
	if err := call("192.0.2.2:1", bobsKey); err != nil {
		t.Errorf("another address: %v", err)
	}
	if err := call("[::ffff:192.0.2.1]:1", bobsKey); codeOf(err) != a2a.ErrResourceExhausted {
		t.Errorf("the same address written otherwise: %v", err)
	}
	c.advance(time.Minute)
	if err := call("192.0.2.1:9", bobsKey); err != nil {
		t.Errorf("a minute later: %v", err)
	}
	for i := range 6 {
		_ = call(fmt.Sprintf("[2001:db8::%x]:1", i+1), "wrong")
	}
	if err := call("[2001:db8::ffff]:1", bobsKey); codeOf(err) != a2a.ErrResourceExhausted {
		t.Errorf("another address of a /64: %v", err)
	}
	for i := range 2 * auth.MaxAddresses {
		_ = call(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), "wrong")
	}
	if n := a.Addresses(); n != auth.MaxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}

func TestRules(t *testing.T) {
	r := auth.Rules{
		Operations: map[string][]string{"SendMessage": {"tasks.write", "tasks.read"}, auth.AnyOperation: {"tasks.read"}, "GetExtendedAgentCard": nil},
		Skills:     map[string][]string{"stock": {"stock.read"}},
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	reader := a2a.Caller{Issuer: "https://issuer.example", Subject: "alice", Scopes: []string{"tasks.read"}}
	for name, allowed := range map[string]bool{"SendMessage": false, "GetTask": true, "GetExtendedAgentCard": true} {
		if err := r.Operation(reader, name); (err == nil) != allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Operation(a2a.Caller{}, "GetExtendedAgentCard"); err != nil {
		t.Errorf("no scope is needed: %v", err)
	}
	e := a2a.AsError(r.Operation(reader, "SendMessage"))
	if e.Code != a2a.ErrPermissionDenied || e.Metadata["missingScopes"] != "tasks.write" ||
		!slices.Equal(e.Challenge, []string{`Bearer error="insufficient_scope", scope="tasks.write tasks.read"`}) {
		t.Errorf("%+v", e)
	}
	if err := r.Skill(reader, "stock"); codeOf(err) != a2a.ErrPermissionDenied {
		t.Errorf("skill: %v", err)
	}
	if err := r.Skill(reader, "another"); err != nil {
		t.Errorf("a skill without a rule: %v", err)
	}
	r.Skills[auth.AnySkill] = []string{"stock.admin"}
	for _, id := range []string{"another", ""} {
		if err := r.Skill(reader, id); codeOf(err) != a2a.ErrPermissionDenied || !strings.Contains(err.Error(), "stock.admin") {
			t.Errorf("the skill %q: %v", id, err)
		}
	}
	for _, bad := range []auth.Rules{
		{Operations: map[string][]string{"SendMesage": nil}},
		{Operations: map[string][]string{"GetTask": {"a b"}}},
		{Skills: map[string][]string{"stock": {"\r\n"}}},
		{Skills: map[string][]string{"": {"x"}}},
	} {
		if _, err := auth.Any(auth.Options{Rules: bad}, keys(t, "bob="+bobsKey)); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// The rule of the skill that a message names in its metadata holds on every binding, for streams too.
func TestSkillIn(t *testing.T) {
	opts := quiet()
	opts.Rules = auth.Rules{
		Skills:  map[string][]string{"stock": {"stock.read"}, auth.AnySkill: {"stock.admin"}},
		SkillOf: auth.SkillIn("skill"),
	}
	a := must(auth.Any(opts, keys(t, "alice="+alicesKey+" scope=stock.read", "bob="+bobsKey+" scope=stock.read,stock.admin")))
	work := waiting{make(chan struct{})}
	close(work.release)
	h := startHost(t, a, work)
	for _, b := range bindings {
		for _, tt := range []struct{ skill, key, missing string }{
			{`"stock"`, alicesKey, ""},
			{`"order"`, alicesKey, "stock.admin"},
			{`["stock"]`, alicesKey, "stock.admin"},
			{"", alicesKey, "stock.admin"},
			{`"order"`, bobsKey, ""},
			{"", bobsKey, ""},
		} {
			svc, req := h.client(t, b, h.key(tt.key), nil), hello()
			if tt.skill != "" {
				req.Message.Metadata = a2a.Struct{"skill": json.RawMessage(tt.skill)}
			}
			_, err := svc.SendMessage(t.Context(), req)
			var inStream error
			for _, inStream = range svc.SendStreamingMessage(t.Context(), req) {
				if inStream != nil {
					break
				}
			}
			for how, err := range map[string]error{"SendMessage": err, "SendStreamingMessage": inStream} {
				if (tt.missing == "") != (err == nil) || err != nil && a2a.AsError(err).Metadata["missingScopes"] != tt.missing {
					t.Errorf("%s, %s, skill %s: %v", b, how, tt.skill, err)
				}
			}
		}
	}
}

func TestSecret(t *testing.T) {
	s := auth.NewSecret("canary")
	type holder struct {
		Public auth.Secret
		hidden auth.Secret
		Ptr    *auth.Secret
	}
	h := holder{s, s, &s}
	_ = h.hidden
	texts := []string{
		format(s), format(&s), format(h), format(&h), format([]auth.Secret{s}), format(map[string]auth.Secret{"k": s}),
		string(must(json.Marshal(h))), fmt.Sprint(s, &s), s.String(), fmt.Errorf("%w: %v", errTest, s).Error(),
	}
	var b bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).Info("x", "secret", s, "ptr", &s, "holder", h, "group", slog.GroupValue(slog.Any("s", s)))
	}
	for _, text := range append(texts, b.String()) {
		if strings.Contains(text, "canary") || strings.Contains(text, hex.EncodeToString([]byte("canary"))) {
			t.Errorf("the secret shows itself: %s", text)
		}
	}
	var read holder
	if err := json.Unmarshal([]byte(`{"Public":"canary"}`), &read); err != nil || read.Public.Reveal() != "canary" {
		t.Errorf("%v, %q", err, read.Public.Reveal())
	}
	if s.Reveal() != "canary" || s.Empty() || !(auth.Secret{}).Empty() {
		t.Error("the secret is not what it was made of")
	}
}

// The bindings say what the authenticator says, and callers are who they are, on all three.
func TestBindings(t *testing.T) {
	iss := newIssuer(t)
	signing := iss.newKey("k1")
	var out log
	rules := auth.Rules{Operations: map[string][]string{"SendMessage": {"tasks.write"}}}
	a := must(auth.Any(auth.Options{Log: out.logger(), Failures: -1, Rules: rules},
		keys(t, "alice="+alicesKey+" scope=tasks.read,tasks.write", "bob="+bobsKey+" scope=tasks.read"),
		iss.newJWT(t, nil), auth.NewCertificates(auth.CertificateOptions{})))
	work := waiting{make(chan struct{})}
	h := startHost(t, a, work)
	defer close(work.release)
	rogue := newAuthority()
	for _, b := range bindings {
		t.Run(b, func(t *testing.T) {
			ctx := t.Context()
			res, err := h.client(t, b, h.key(alicesKey), nil).SendMessage(ctx, hello())
			if err != nil {
				t.Fatal(err)
			}
			id := res.(*a2a.Task).ID
			get := func(creds *auth.Credentials) a2a.ErrorCode {
				_, err := h.client(t, b, creds, nil).GetTask(ctx, &a2a.GetTaskRequest{ID: id})
				return codeOf(err)
			}
			if code := get(h.key(alicesKey)); code != 0 {
				t.Errorf("alice: %v", code)
			}
			if code := get(h.key(bobsKey)); code != a2a.ErrTaskNotFound {
				t.Errorf("bob reads alice's task: %v", code)
			}
			token := func(changes map[string]any) *auth.Credentials {
				return must(auth.NewCredentials(auth.Credential{
					Origins: h.origins(), Source: auth.Static(auth.NewSecret(iss.token(signing, changes))),
				}))
			}
			if code := get(token(nil)); code != a2a.ErrTaskNotFound {
				t.Errorf("another alice reads alice's task: %v", code)
			}
			for name, creds := range map[string]*auth.Credentials{
				"none": nil, "wrong key": h.key("wrong-canary-0123456789"), "expired": token(map[string]any{"exp": 1}),
			} {
				_, err := h.client(t, b, creds, nil).GetTask(ctx, &a2a.GetTaskRequest{ID: id})
				e := a2a.AsError(err)
				if e.Code != a2a.ErrUnauthenticated || len(e.Challenge) != 3 {
					t.Errorf("%s: %v, challenge %q", name, err, e.Challenge)
				}
				if bearerError := strings.Contains(strings.Join(e.Challenge, " "), "invalid_token"); bearerError != (creds != nil) {
					t.Errorf("%s: challenge %q", name, e.Challenge)
				}
			}
			_, err = h.client(t, b, h.key(bobsKey), nil).SendMessage(ctx, hello())
			if e := a2a.AsError(err); e.Code != a2a.ErrPermissionDenied || e.Metadata["missingScopes"] != "tasks.write" {
				t.Errorf("bob sends: %v %v", err, e.Metadata)
			}
			_, err = h.client(t, b, token(map[string]any{"scope": "x"}), nil).SendMessage(ctx, hello())
			if e := a2a.AsError(err); e.Code != a2a.ErrPermissionDenied || len(e.Challenge) != 1 {
				t.Errorf("a token without the scope: %v %q", err, e.Challenge)
			}

			spiffe := h.ca.issue(certificate("spiffe://acme/dave"))
			if _, err := h.client(t, b, nil, spiffe).GetTask(ctx, &a2a.GetTaskRequest{ID: id}); codeOf(err) != a2a.ErrTaskNotFound {
				t.Errorf("a certificate: %v", err)
			}
			if _, err := h.client(t, b, nil, rogue.issue(certificate("spiffe://acme/dave"))).GetTask(ctx, &a2a.GetTaskRequest{ID: id}); err == nil ||
				codeOf(err) == a2a.ErrTaskNotFound {
				t.Errorf("a certificate of another authority: %v", err)
			}
			if _, err := h.client(t, b, h.key(alicesKey), spiffe).GetTask(ctx, &a2a.GetTaskRequest{ID: id}); err != nil {
				t.Errorf("alice's key over a connection with a certificate: %v", err)
			}
			if _, err := h.client(t, b, h.key("wrong-canary-0123456789"), spiffe).GetTask(ctx, &a2a.GetTaskRequest{ID: id}); codeOf(err) != a2a.ErrUnauthenticated {
				t.Errorf("a wrong key is not mended by a certificate: %v", err)
			}
			if _, err := h.client(t, b, token(map[string]any{"iss": "x"}), spiffe).GetTask(ctx, &a2a.GetTaskRequest{ID: id}); codeOf(err) != a2a.ErrUnauthenticated {
				t.Errorf("a token that nobody knows is not mended by a certificate: %v", err)
			}
		})
	}
	if s := out.String(); strings.Contains(s, "canary") || !strings.Contains(s, "authentication failed") {
		t.Errorf("log: %s", s)
	}
}

// Every kind of credential can be taken back, and Valid says so, with a challenge, as Authenticate does; before it is, and
// while nobody can be asked, it says otherwise. What then happens to streams is for package limits.
func TestTakenBack(t *testing.T) {
	iss := newIssuer(t)
	signing := iss.newKey("k1")
	iss.answer["opaque"] = func() map[string]any {
		m := iss.claims(time.Now(), map[string]any{"sub": "carol", "exp": nil})
		m["active"] = true
		return m
	}()
	cert := newAuthority().issue(certificate("spiffe://acme/dave")).Leaf
	withCert := &a2a.CallInfo{Header: http.Header{}, TLS: &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}},
	}}
	for name, tt := range map[string]struct {
		info *a2a.CallInfo
		back func(*auth.Denylist, string, *clock)
		want a2a.ErrorCode
	}{
		"key out of the file": {with("X-Api-Key", alicesKey), func(_ *auth.Denylist, file string, _ *clock) {
			writeFile(file, []byte("bob="+bobsKey+"\n"))
		}, a2a.ErrUnauthenticated},
		"key that is now somebody else's": {with("X-Api-Key", alicesKey), func(_ *auth.Denylist, file string, _ *clock) {
			writeFile(file, []byte("mallory="+alicesKey+"\n"))
		}, a2a.ErrUnauthenticated},
		"key of another tenant": {with("X-Api-Key", alicesKey), func(_ *auth.Denylist, file string, _ *clock) {
			writeFile(file, []byte("alice="+alicesKey+" tenant=other\n"))
		}, a2a.ErrUnauthenticated},
		"key on the denylist": {with("X-Api-Key", alicesKey), func(d *auth.Denylist, _ string, _ *clock) {
			d.Deny(auth.APIKeyIssuer, "alice")
		}, a2a.ErrUnauthenticated},
		"token on the denylist": {withToken(iss.token(signing, nil)), func(d *auth.Denylist, _ string, _ *clock) {
			d.Deny(iss.srv.URL, "jti-1")
		}, a2a.ErrUnauthenticated},
		"token that expires": {withToken(iss.token(signing, map[string]any{"exp": time.Now().Add(time.Hour).Unix()})), func(_ *auth.Denylist, _ string, c *clock) {
			c.advance(time.Hour)
		}, a2a.ErrUnauthenticated},
		"introspected token": {withToken("opaque"), func(*auth.Denylist, string, *clock) {
			iss.set(func() { delete(iss.answer, "opaque") })
		}, a2a.ErrUnauthenticated},
		"introspected token, the issuer is down": {withToken("opaque"), func(*auth.Denylist, string, *clock) {
			iss.set(func() { iss.down = true })
		}, a2a.ErrUnavailable},
		"certificate on the denylist": {withCert, func(d *auth.Denylist, _ string, _ *clock) {
			sum := sha256.Sum256(cert.Raw)
			d.Deny(auth.CertificateIssuer, hex.EncodeToString(sum[:]))
		}, a2a.ErrUnauthenticated},
		"holder of certificates on the denylist": {withCert, func(d *auth.Denylist, _ string, _ *clock) {
			d.Deny(auth.CertificateIssuer, "uri:spiffe://acme/dave")
		}, a2a.ErrUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			answer := iss.answer["opaque"]
			defer iss.set(func() { iss.down, iss.answer["opaque"] = false, answer })
			file := filepath.Join(t.TempDir(), "keys")
			writeFile(file, []byte("alice="+alicesKey+"\n"))
			opts := quiet()
			opts.Denylist = auth.NewDenylist()
			i := must(auth.NewIntrospection(auth.IntrospectionOptions{
				Endpoint: iss.srv.URL + "/introspect", ClientID: "agent", ClientSecret: auth.NewSecret("agent-secret-canary"),
				Issuer: iss.srv.URL, Audience: []string{"stock"}, Client: iss.srv.Client(),
			}))
			a := must(auth.Any(
				opts, must(auth.NewAPIKeys(auth.APIKeyOptions{File: file})), iss.newJWT(t, nil), i,
				auth.NewCertificates(auth.CertificateOptions{}),
			))
			var c clock
			a.SetClock(c.now)
			info := *tt.info
			if err := a.Authenticate(t.Context(), &info); err != nil {
				t.Fatal(err)
			}
			ctx := a2a.WithCallInfo(t.Context(), &info)
			if err := a.Valid(ctx); err != nil {
				t.Errorf("before: %v", err)
			}
			tt.back(opts.Denylist, file, &c)
			c.advance(15 * time.Second)
			err := a2a.AsError(a.Valid(ctx))
			if err.Code != tt.want || (len(err.Challenge) == 3) != (tt.want == a2a.ErrUnauthenticated) {
				t.Errorf("after: %v, challenge %q", err, err.Challenge)
			}
		})
	}
	a := must(auth.Any(quiet(), keys(t, "bob="+bobsKey)))
	for _, ctx := range []context.Context{t.Context(), a2a.WithCallInfo(t.Context(), &a2a.CallInfo{})} {
		if err := a.Valid(ctx); err != nil {
			t.Errorf("nobody in particular: %v", err)
		}
	}
}

func TestAnyOptions(t *testing.T) {
	bob := keys(t, "bob="+bobsKey)
	for name, try := range map[string]func() (*auth.Authenticator, error){
		"no method":     func() (*auth.Authenticator, error) { return auth.Any(auth.Options{}) },
		"realm, CRLF":   func() (*auth.Authenticator, error) { return auth.Any(auth.Options{Realm: "a\r\nX: y"}, bob) },
		"realm, quotes": func() (*auth.Authenticator, error) { return auth.Any(auth.Options{Realm: `a", x="`}, bob) },
		"one name twice": func() (*auth.Authenticator, error) {
			return auth.Any(auth.Options{}, bob, keys(t, "alice="+alicesKey))
		},
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// withBreaks gives each text of good options a line break, one after the other, and returns the fields that use took.
// Names of files are left out: there are no such files.
func withBreaks[T any](t *testing.T, good T, use func(T) error) (taken []string) {
	t.Helper()
	if err := use(good); err != nil {
		t.Fatalf("%T: %v", good, err)
	}
	const bad = "https://x.example/\r\nX-Injected: y"
	for i := range reflect.TypeFor[T]().NumField() {
		field := reflect.TypeFor[T]().Field(i)
		c := good
		to := reflect.ValueOf(&c).Elem().Field(i)
		switch to.Interface().(type) {
		case string:
			to.SetString(bad)
		case []string:
			to.Set(reflect.ValueOf([]string{bad}))
		case map[string]string:
			to.Set(reflect.ValueOf(map[string]string{bad: ""}))
		default:
			continue
		}
		if use(c) == nil && !strings.HasSuffix(field.Name, "File") {
			taken = append(taken, fmt.Sprintf("%T.%s", good, field.Name))
		}
	}
	return taken
}

// TestControlCharacters: no configured text takes a line break, which could become part of a header, a form or a line of
// the log.
func TestControlCharacters(t *testing.T) {
	key := must(auth.ParseAPIKey("bob=" + bobsKey))
	alone := func(m auth.Method, err error) error {
		if err == nil {
			_, err = auth.Any(quiet(), m)
		}
		return err
	}
	taken := slices.Concat(
		withBreaks(t, key, func(k auth.APIKey) error {
			_, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: []auth.APIKey{k}})
			return err
		}),
		withBreaks(t, auth.APIKeyOptions{Keys: []auth.APIKey{key}}, func(o auth.APIKeyOptions) error {
			m, err := auth.NewAPIKeys(o)
			return alone(m, err)
		}),
		withBreaks(t, auth.JWTOptions{Issuer: "https://issuer.example", Audience: []string{"stock"}}, func(o auth.JWTOptions) error {
			m, err := auth.NewJWT(o)
			return alone(m, err)
		}),
		withBreaks(t, auth.IntrospectionOptions{
			Endpoint: "https://issuer.example/i", ClientID: "agent", Issuer: "https://issuer.example", Audience: []string{"stock"},
		}, func(o auth.IntrospectionOptions) error {
			m, err := auth.NewIntrospection(o)
			return alone(m, err)
		}),
		withBreaks(t, auth.Options{}, func(o auth.Options) error {
			_, err := auth.Any(o, keys(t, "bob="+bobsKey))
			return err
		}),
		withBreaks(t, auth.CertificateOptions{}, func(o auth.CertificateOptions) error {
			return alone(auth.NewCertificates(o), nil)
		}),
		withBreaks(t, auth.Credential{Origins: []string{"https://agent.example"}, Source: static("x")}, func(c auth.Credential) error {
			_, err := auth.NewCredentials(c)
			return err
		}),
		withBreaks(t, auth.OAuth{
			TokenURL: "https://issuer.example/token", DeviceURL: "https://issuer.example/device", ClientID: "id", ClientSecret: auth.NewSecret("x"),
		}, func(o auth.OAuth) error {
			_, err := o.ClientCredentials()
			return err
		}),
	)
	if len(taken) > 0 {
		t.Errorf("a line break was taken in %v", taken)
	}
}
