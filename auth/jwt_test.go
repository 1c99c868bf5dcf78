package auth_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
)

// newJWT returns a method with the issuer's keys by discovery.
func (i *issuer) newJWT(t *testing.T, change func(*auth.JWTOptions)) *auth.JWT {
	t.Helper()
	opts := auth.JWTOptions{Issuer: i.srv.URL, Audience: []string{"stock"}, TenantClaim: "org", Client: i.srv.Client()}
	if change != nil {
		change(&opts)
	}
	j, err := auth.NewJWT(opts)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestJWT(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	for _, tt := range []struct {
		name   string
		change func(*auth.JWTOptions)
	}{
		{"discovery", nil},
		{"url", func(o *auth.JWTOptions) { o.KeysURL = iss.srv.URL + "/jwks" }},
		{"jwks file", func(o *auth.JWTOptions) {
			o.KeysFile = filepath.Join(t.TempDir(), "jwks.json")
			writeFile(o.KeysFile, must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})))
		}},
		{"pem file", func(o *auth.JWTOptions) {
			o.KeysFile = filepath.Join(t.TempDir(), "key.pem")
			der := must(x509.MarshalPKIXPublicKey(key.Public().Key))
			writeFile(o.KeysFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := must(auth.Any(quiet(), iss.newJWT(t, func(o *auth.JWTOptions) {
				o.Claims = []string{"warehouses", "roles"}
				if tt.change != nil {
					tt.change(o)
				}
			})))
			info := withToken(iss.token(key, map[string]any{"scp": []string{"extra"}, "warehouses": []string{"SBY-01"}}))
			if err := a.Authenticate(t.Context(), info); err != nil {
				t.Fatal(err)
			}
			c := info.Caller
			if c.Issuer != iss.srv.URL || c.Subject != "alice" || c.Tenant != "acme" ||
				!slices.Equal(c.Scopes, []string{"tasks.read", "tasks.write", "extra"}) || time.Until(c.Expiry) < 50*time.Minute {
				t.Errorf("caller = %+v", c)
			}
			if fmt.Sprint(c.Claims) != "map[warehouses:[SBY-01]]" {
				t.Errorf("claims = %v", c.Claims)
			}
		})
	}
}

// header returns a token with a header and claims that no signer would make, and a signature by sign.
func rawToken(header string, claims any, sign func(string) []byte) string {
	enc := base64.RawURLEncoding.EncodeToString
	input := enc([]byte(header)) + "." + enc(must(json.Marshal(claims)))
	return input + "." + enc(sign(input))
}

func none(string) []byte { return nil }

// badTokens are tokens that must be refused, by why.
func badTokens(iss *issuer, key jose.JSONWebKey) map[string]string {
	now := time.Now()
	claims := iss.claims(now, nil)
	public := must(x509.MarshalPKIXPublicKey(key.Public().Key))
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	stranger := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	weak := must(rsa.GenerateKey(rand.Reader, 2048))
	good := iss.token(key, nil)
	parts := strings.Split(good, ".")
	jwk := string(must(json.Marshal(jose.JSONWebKey{Key: stranger.Public()})))
	signES := func(input string) []byte {
		obj := must(must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: stranger}, nil)).Sign([]byte(input)))
		return obj.Signatures[0].Signature
	}
	return map[string]string{
		"alg none":             rawToken(`{"alg":"none","typ":"JWT"}`, claims, none),
		"alg none in capitals": rawToken(`{"alg":"NONE","typ":"JWT"}`, claims, none),
		"no alg":               rawToken(`{"typ":"JWT"}`, claims, none),
		"HS256 by public PEM":  sign(publicPEM, jose.HS256, "k1", "JWT", claims),
		"HS256 by public DER":  sign(public, jose.HS256, "k1", "JWT", claims),
		"RS256 for an EC key":  sign(weak, jose.RS256, "k1", "JWT", claims),
		"typ missing":          sign(key.Key, jose.ES256, "k1", "", claims),
		"typ of an ID token":   sign(key.Key, jose.ES256, "k1", "id+jwt", claims),
		"typ of a request":     sign(key.Key, jose.ES256, "k1", "dpop+jwt", claims),
		"typ not text":         rawToken(`{"alg":"ES256","kid":"k1","typ":["JWT"]}`, claims, signES),
		"another key":          sign(stranger, jose.ES256, "k1", "JWT", claims),
		"unknown kid":          sign(stranger, jose.ES256, "k2", "JWT", claims),
		"kid is a path":        sign(stranger, jose.ES256, "../../../../dev/null", "JWT", claims),
		"kid is SQL":           sign(stranger, jose.ES256, "' UNION SELECT 'x", "JWT", claims),
		"kid is a URL":         sign(stranger, jose.ES256, "https://evil.example/key", "JWT", claims),
		"own jwk":              rawToken(`{"alg":"ES256","typ":"JWT","jwk":`+jwk+`}`, claims, signES),
		"own jku":              rawToken(`{"alg":"ES256","typ":"JWT","jku":"https://evil.example/jwks"}`, claims, signES),
		"unknown crit":         rawToken(`{"alg":"ES256","typ":"JWT","crit":["x"],"x":1}`, claims, signES),
		"duplicate alg":        rawToken(`{"alg":"none","alg":"ES256","typ":"JWT"}`, claims, signES),
		"header is an array":   rawToken(`["alg","ES256"]`, claims, signES),
		"expired":              iss.token(key, map[string]any{"exp": now.Add(-31 * time.Second).Unix()}),
		"no exp":               iss.token(key, map[string]any{"exp": nil}),
		"exp is text":          iss.token(key, map[string]any{"exp": "tomorrow"}),
		"not yet":              iss.token(key, map[string]any{"nbf": now.Add(5 * time.Minute).Unix()}),
		"issued in the future": iss.token(key, map[string]any{"iat": now.Add(time.Hour).Unix()}),
		"other audience":       iss.token(key, map[string]any{"aud": "billing"}),
		"no audience":          iss.token(key, map[string]any{"aud": nil}),
		"other issuer":         iss.token(key, map[string]any{"iss": "https://evil.example"}),
		"issuer with a slash":  iss.token(key, map[string]any{"iss": iss.srv.URL + "/"}),
		"no subject":           iss.token(key, map[string]any{"sub": nil}),
		"subject with NUL":     iss.token(key, map[string]any{"sub": "alice\x00"}),
		"no tenant":            iss.token(key, map[string]any{"org": nil}),
		"tenant a number":      iss.token(key, map[string]any{"org": 7}),
		"100 KB":               iss.token(key, map[string]any{"x": strings.Repeat("x", 100<<10)}),
		"signature cut":        strings.TrimRight(good[:len(good)-4], "="),
		"signature missing":    parts[0] + "." + parts[1] + ".",
		"two parts":            parts[0] + "." + parts[1],
		"four parts":           good + "." + parts[2],
		"payload changed":      parts[0] + "." + base64.RawURLEncoding.EncodeToString(must(json.Marshal(iss.claims(now, map[string]any{"sub": "root"})))) + "." + parts[2],
		"padded":               good + "==",
		"with a comma":         good + "," + good,
		"empty":                "",
		"JSON serialization":   `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
	}
}

func TestJWTRefused(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	var out log
	opts := quiet()
	opts.Log = out.logger()
	a := must(auth.Any(opts, iss.newJWT(t, nil)))
	if err := a.Authenticate(t.Context(), withToken(iss.token(key, nil))); err != nil {
		t.Fatalf("the good token: %v", err)
	}
	for name, token := range badTokens(iss, key) {
		t.Run(name, func(t *testing.T) {
			info := withToken(token)
			err := a.Authenticate(t.Context(), info)
			if codeOf(err) != a2a.ErrUnauthenticated || !info.Caller.Anonymous() {
				t.Fatalf("err = %v, caller = %+v", err, info.Caller)
			}
			challenge := a2a.AsError(err).Challenge
			if len(challenge) != 1 || !strings.HasPrefix(challenge[0], `Bearer realm="a2a", error="invalid_token", error_description="`) {
				t.Errorf("challenge = %q", challenge)
			}
			for part := range strings.SplitSeq(token, ".") {
				if len(part) > 8 && strings.Contains(format(a2a.AsError(err))+out.String(), part) {
					t.Errorf("a part of the token is in the error or the log: %v", err)
				}
			}
		})
	}
}

// Tokens that clocks a little off make are good, and no more than that.
func TestJWTSkew(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	a := must(auth.Any(quiet(), iss.newJWT(t, nil)))
	for _, change := range []map[string]any{
		{"exp": time.Now().Add(-20 * time.Second).Unix()},
		{"nbf": time.Now().Add(20 * time.Second).Unix()},
		{"aud": []string{"other", "stock"}},
	} {
		if err := a.Authenticate(t.Context(), withToken(iss.token(key, change))); err != nil {
			t.Errorf("%v: %v", change, err)
		}
	}
	for _, typ := range []string{"JWT", "jwt", "application/at+jwt", "AT+JWT"} {
		token := sign(key.Key, jose.ES256, "k1", typ, iss.claims(time.Now(), nil))
		if err := a.Authenticate(t.Context(), withToken(token)); err != nil {
			t.Errorf("typ %s: %v", typ, err)
		}
	}
}

// The key set is fetched when it is 10 minutes old or lacks a key, at most every 30 seconds, and outlives its server by an
// hour.
func TestKeySet(t *testing.T) {
	iss := newIssuer(t)
	k1 := iss.newKey("k1")
	var c clock
	j := iss.newJWT(t, nil)
	a := must(auth.Any(quiet(), j))
	a.SetClock(c.now)
	year := map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}
	try := func(key jose.JSONWebKey) a2a.ErrorCode {
		return codeOf(a.Authenticate(t.Context(), withToken(iss.token(key, year))))
	}
	step := func(name string, wait time.Duration, key jose.JSONWebKey, want a2a.ErrorCode, fetches int) {
		t.Helper()
		c.advance(wait)
		if got := try(key); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		iss.set(func() {
			if iss.fetches != fetches {
				t.Errorf("%s: the key set was fetched %d times, want %d", name, iss.fetches, fetches)
			}
		})
	}
	step("first", 0, k1, 0, 1)
	step("cached", 9*time.Minute, k1, 0, 1)
	k2 := iss.newKey("k2")
	step("a new key", 0, k2, 0, 2)
	k3 := jose.JSONWebKey{Key: k1.Key, KeyID: "k3"}
	step("an unknown key", 29*time.Second, k3, a2a.ErrUnauthenticated, 2)
	step("an unknown key, later", time.Second, k3, a2a.ErrUnauthenticated, 3)
	iss.set(func() { iss.keys = iss.keys[1:] })
	step("withdrawn, cached", time.Minute, k1, 0, 3)
	step("withdrawn", 10*time.Minute, k1, a2a.ErrUnauthenticated, 4)
	iss.set(func() { iss.down = true })
	step("issuer down", 11*time.Minute, k2, 0, 5)
	step("issuer down for 59 minutes", 48*time.Minute, k2, 0, 6)
	step("issuer down for an hour", 2*time.Minute, k2, a2a.ErrUnavailable, 7)
	iss.set(func() { iss.down = false })
	step("issuer back", time.Minute, k2, 0, 8)
}

func TestDiscoveryOfAnotherIssuer(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	j := iss.newJWT(t, func(o *auth.JWTOptions) { o.Issuer = iss.srv.URL + "/" })
	a := must(auth.Any(quiet(), j))
	err := a.Authenticate(t.Context(), withToken(iss.token(key, map[string]any{"iss": iss.srv.URL + "/"})))
	if codeOf(err) != a2a.ErrUnavailable {
		t.Errorf("err = %v: the document names another issuer", err)
	}
}

// Without a client of its own the method reaches public https addresses only.
func TestKeySetGuarded(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	a := must(auth.Any(quiet(), iss.newJWT(t, func(o *auth.JWTOptions) { o.Client = nil })))
	if err := a.Authenticate(t.Context(), withToken(iss.token(key, nil))); codeOf(err) != a2a.ErrUnavailable {
		t.Errorf("err = %v", err)
	}
	if iss.fetches != 0 {
		t.Error("a private address was asked for keys")
	}
}

// A key set that redirects is not followed.
func TestKeySetRedirect(t *testing.T) {
	iss := newIssuer(t)
	key := iss.newKey("k1")
	j := iss.newJWT(t, func(o *auth.JWTOptions) {
		c := *iss.srv.Client()
		c.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/jwks" || r.URL.RawQuery != "" {
				return iss.srv.Client().Transport.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: http.StatusTemporaryRedirect, Header: http.Header{"Location": {iss.srv.URL + "/jwks?moved"}}, Body: http.NoBody, Request: r,
			}, nil
		})
		o.Client = &c
	})
	a := must(auth.Any(quiet(), j))
	if err := a.Authenticate(t.Context(), withToken(iss.token(key, nil))); codeOf(err) != a2a.ErrUnavailable {
		t.Errorf("err = %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestJWTOptions(t *testing.T) {
	good := auth.JWTOptions{Issuer: "https://issuer.example", Audience: []string{"stock"}}
	if _, err := auth.NewJWT(good); err != nil {
		t.Fatal(err)
	}
	for _, loopback := range []string{"http://127.0.0.1:1/jwks", "http://localhost/jwks", "http://[::1]:8080/jwks"} {
		opts := good
		opts.KeysURL = loopback
		if _, err := auth.NewJWT(opts); err != nil {
			t.Errorf("%s: %v", loopback, err)
		}
	}
	for name, change := range map[string]func(*auth.JWTOptions){
		"no issuer":         func(o *auth.JWTOptions) { o.Issuer = "" },
		"issuer with CRLF":  func(o *auth.JWTOptions) { o.Issuer = "https://issuer.example\r\nX: y" },
		"no audience":       func(o *auth.JWTOptions) { o.Audience = nil },
		"empty audience":    func(o *auth.JWTOptions) { o.Audience = []string{""} },
		"HS256":             func(o *auth.JWTOptions) { o.Algorithms = []string{"ES256", "HS256"} },
		"none":              func(o *auth.JWTOptions) { o.Algorithms = []string{"none"} },
		"both sources":      func(o *auth.JWTOptions) { o.KeysURL, o.KeysFile = "https://a.example", "x" },
		"no such file":      func(o *auth.JWTOptions) { o.KeysFile = "/does/not/exist" },
		"keys not a URL":    func(o *auth.JWTOptions) { o.KeysURL = "issuer.example/jwks" },
		"nothing to find":   func(o *auth.JWTOptions) { o.Issuer = "issuer" },
		"token URL by file": func(o *auth.JWTOptions) { o.TokenURL = "file:///token" },
		"issuer by http":    func(o *auth.JWTOptions) { o.Issuer = "http://issuer.example" },
		"keys by http":      func(o *auth.JWTOptions) { o.KeysURL = "http://10.0.0.1/jwks" },
		"keys by a name":    func(o *auth.JWTOptions) { o.KeysURL = "http://127.0.0.1.issuer.example/jwks" },
		"tokens by http":    func(o *auth.JWTOptions) { o.TokenURL = "http://issuer.example/token" },
		"audience, CRLF":    func(o *auth.JWTOptions) { o.Audience = []string{"stock\r\nX: y"} },
		"keys, CRLF":        func(o *auth.JWTOptions) { o.KeysURL = "https://issuer.example/\r\nX: y" },
	} {
		opts := good
		change(&opts)
		if _, err := auth.NewJWT(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzToken: whatever stands behind Bearer, only a token that the issuer signed is good, and nothing of it is told.
func FuzzToken(f *testing.F) {
	iss := newIssuer(f)
	key := iss.newKey("k1")
	file := filepath.Join(f.TempDir(), "jwks.json")
	writeFile(file, must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})))
	j := must(auth.NewJWT(auth.JWTOptions{Issuer: "https://issuer.example", Audience: []string{"stock"}, KeysFile: file}))
	a := must(auth.Any(quiet(), j))
	good := sign(key.Key, jose.ES256, "k1", "JWT", iss.claims(time.Now(), map[string]any{"iss": "https://issuer.example", "exp": 1 << 40}))
	body := good[:strings.LastIndexByte(good, '.')]
	for _, token := range badTokens(iss, key) {
		f.Add("Bearer " + token)
	}
	f.Add("Bearer " + good)
	f.Add("Basic " + good)
	f.Fuzz(func(t *testing.T, value string) {
		info := with("Authorization", value)
		err := a.Authenticate(t.Context(), info)
		if err == nil {
			// A signature of ES256 may be written in several ways; what it is over may not.
			_, token, _ := strings.Cut(value, " ")
			if strings.TrimLeft(token, " ")[:min(len(strings.TrimLeft(token, " ")), len(body))] != body {
				t.Fatalf("%q is a caller: %+v", value, info.Caller)
			}
			return
		}
		if codeOf(err) != a2a.ErrUnauthenticated {
			t.Fatalf("%q: %v", value, err)
		}
		for _, c := range a2a.AsError(err).Challenge {
			if bytes.ContainsAny([]byte(c), "\r\n\x00") {
				t.Fatalf("challenge %q", c)
			}
		}
	})
}

// Keys that are too weak, of the wrong kind or for another use verify nothing, though they are in the issuer's set.
func TestUnsuitedKeys(t *testing.T) {
	weak := must(rsa.GenerateKey(rand.Reader, 1024))
	strong := must(rsa.GenerateKey(rand.Reader, 2048))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	secret := []byte(strings.Repeat("s", 64))
	set := must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: weak.Public(), KeyID: "weak"},
		{Key: strong.Public(), KeyID: "strong"},
		{Key: strong.Public(), KeyID: "ps", Algorithm: "PS256"},
		{Key: strong.Public(), KeyID: "enc", Use: "enc"},
		{Key: p384.Public(), KeyID: "p384"},
		{Key: secret, KeyID: "oct"},
	}}))
	set = bytes.Replace(set, []byte(`"keys":[`), []byte(`"keys":[{"kty":"unknown","kid":"x"},7,`), 1)
	file := filepath.Join(t.TempDir(), "jwks.json")
	writeFile(file, set)
	j := must(auth.NewJWT(auth.JWTOptions{Issuer: "issuer", Audience: []string{"stock"}, KeysFile: file}))
	a := must(auth.Any(quiet(), j))
	claims := map[string]any{"iss": "issuer", "aud": "stock", "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	for _, tt := range []struct {
		key  any
		alg  jose.SignatureAlgorithm
		kid  string
		good bool
	}{
		{strong, jose.RS256, "strong", true},
		{strong, jose.RS256, "", true},
		{strong, jose.PS256, "ps", true},
		{strong, jose.RS256, "ps", false},
		{strong, jose.RS256, "enc", false},
		{strong, jose.RS512, "strong", false},
		{weak, jose.RS256, "weak", false},
		{p384, jose.ES384, "p384", false},
		{secret, jose.HS256, "oct", false},
	} {
		err := a.Authenticate(t.Context(), withToken(sign(tt.key, tt.alg, tt.kid, "JWT", claims)))
		if (err == nil) != tt.good || err != nil && codeOf(err) != a2a.ErrUnauthenticated {
			t.Errorf("%s with the key %q: %v", tt.alg, tt.kid, err)
		}
	}
}

// FuzzAuthorization: whatever credentials a request has in its headers, only one that is right and alone names a caller;
// what is wrong is refused, never more than that, and is told to nobody.
func FuzzAuthorization(f *testing.F) {
	iss := newIssuer(f)
	key := iss.newKey("k1")
	file := filepath.Join(f.TempDir(), "jwks.json")
	writeFile(file, must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})))
	j := must(auth.NewJWT(auth.JWTOptions{Issuer: "https://issuer.example", Audience: []string{"stock"}, KeysFile: file}))
	bob := must(auth.NewAPIKeys(auth.APIKeyOptions{Keys: []auth.APIKey{must(auth.ParseAPIKey("bob=" + bobsKey))}}))
	opts := quiet()
	var out log
	opts.Log = out.logger()
	a := must(auth.Any(opts, bob, j, auth.NewCertificates(auth.CertificateOptions{})))
	token := sign(key.Key, jose.ES256, "k1", "JWT", iss.claims(time.Now(), map[string]any{"iss": "https://issuer.example", "exp": 1 << 40}))
	good := "Bearer " + token
	for _, lines := range []string{
		good, good + "\n" + good, good + "\n", "\n" + good, "Bearer", "Bearer ", "bearer  " + token, "Bearer\t" + token, "Basic Ym9iOng=",
		good + ", " + good, good + "\r\nX: y", `Digest username="bob"`, strings.Repeat("Bearer ", 5000),
	} {
		f.Add(true, lines, false, "")
		f.Add(true, lines, true, bobsKey)
	}
	f.Add(false, "", true, bobsKey)
	f.Add(false, "", true, bobsKey+"\n"+bobsKey)
	f.Fuzz(func(t *testing.T, hasTokens bool, tokens string, hasKeys bool, keys string) {
		h := http.Header{}
		if hasTokens {
			h["Authorization"] = strings.Split(tokens, "\n")
		}
		if hasKeys {
			h["X-Api-Key"] = strings.Split(keys, "\n")
		}
		sent := slices.Concat(h["Authorization"], h["X-Api-Key"])
		info := &a2a.CallInfo{Header: h}
		err := a.Authenticate(t.Context(), info)
		if err == nil {
			right := info.Caller.Subject == "alice" && hasTokens || info.Caller.Subject == "bob" && sent[0] == bobsKey
			if len(sent) != 1 || !right {
				t.Fatalf("%q is %+v", h, info.Caller)
			}
			return
		}
		if codeOf(err) != a2a.ErrUnauthenticated || !info.Caller.Anonymous() {
			t.Fatalf("%q: %v, %+v", h, err, info.Caller)
		}
		challenge := strings.Join(a2a.AsError(err).Challenge, "")
		if strings.ContainsFunc(challenge, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("challenge %q", challenge)
		}
		told := challenge + err.Error() + out.String()
		for _, s := range sent {
			if len(s) > 32 && strings.Contains(told, strings.TrimPrefix(s, "Bearer ")) {
				t.Fatalf("%q is told: %s", s, told)
			}
		}
		out.reset()
	})
}
