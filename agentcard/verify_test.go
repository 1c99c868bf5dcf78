package agentcard

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-a2a/parley/a2a"
)

const (
	home   = "https://agent.example"
	setURL = "https://agent.example/.well-known/jwks.json"
)

// testKeys has a key for each algorithm, made once: RSA keys take their time.
var testKeys = sync.OnceValue(func() map[string]*Key {
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	out := map[string]*Key{}
	for alg, private := range map[string]any{ES256: ec, EdDSA: ed, RS256: rs, PS256: rs} {
		k, err := NewKey(private)
		if err != nil {
			panic(err)
		}
		k.Algorithm, k.ID = alg, strings.ToLower(alg)
		out[alg] = k
	}
	return out
})

func sampleCard(t *testing.T) *a2a.AgentCard {
	t.Helper()
	var card a2a.AgentCard
	if err := card.UnmarshalJSON([]byte(sample)); err != nil {
		t.Fatal(err)
	}
	card.Signatures = nil
	return &card
}

func signedCard(t *testing.T, keys ...*Key) []byte {
	t.Helper()
	card := sampleCard(t)
	if err := Sign(card, keys...); err != nil {
		t.Fatal(err)
	}
	return card.AppendJSON(nil)
}

func jwks(t *testing.T, keys ...*Key) []byte {
	t.Helper()
	set, err := JWKS(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// enrolled is the policy that has the keys enrolled for home.
func enrolled(t *testing.T, keys ...*Key) Policy {
	t.Helper()
	return Policy{Origin: home, Enrolled: map[string]Enrollment{home: {KeySet: jwks(t, keys...), URL: setURL}}}
}

func TestSignVerify(t *testing.T) {
	for alg, k := range testKeys() {
		raw := signedCard(t, k)
		want := Result{Outcome: Verified, KeyID: k.ID, Algorithm: alg, Origin: home}
		want.Digest, _ = Digest(raw)
		if got := Verify(t.Context(), raw, enrolled(t, k)); got != want || !got.Trusted() {
			t.Errorf("%s: got %+v, want %+v", alg, got, want)
		}
		var card a2a.AgentCard
		if err := card.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		head, err := base64.RawURLEncoding.DecodeString(card.Signatures[0].Protected)
		if want := fmt.Sprintf(`{"alg":"%s","kid":"%s","typ":"JOSE"}`, alg, k.ID); err != nil || string(head) != want {
			t.Errorf("%s: protected header %s, want %s", alg, head, want)
		}
		if got := Verify(t.Context(), card.AppendJSON(nil), enrolled(t, k)); got.Outcome != Verified {
			t.Errorf("%s, read and written again: %+v", alg, got)
		}
		if findings := Validate(raw); len(findings) > 1 { // the sample has an https URL for gRPC
			t.Errorf("%s: %v", alg, findings)
		}
	}
}

// TestEveryByte: no byte of a signed card can change without the signature noticing, unless the card still says the same.
func TestEveryByte(t *testing.T) {
	k := testKeys()[EdDSA]
	raw := signedCard(t, k)
	p := enrolled(t, k)
	want, err := Digest(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		got := Verify(t.Context(), changed, p)
		if got.Outcome == Verified && got.Digest != want {
			t.Fatalf("byte %d: verified\n%s", i, changed)
		}
		if got.Outcome == Unverifiable && got.Why == "" || got.Outcome != Unverifiable && got.Why != "" {
			t.Fatalf("byte %d: %+v", i, got)
		}
	}
}

func TestRotation(t *testing.T) {
	old, next := testKeys()[ES256], testKeys()[EdDSA]
	old.SetURL, next.SetURL = setURL, setURL
	defer func() { old.SetURL, next.SetURL = "", "" }()
	raw := signedCard(t, old, next)
	for _, k := range []*Key{old, next} {
		if got := Verify(t.Context(), raw, enrolled(t, k)); got.Outcome != Verified || got.KeyID != k.ID {
			t.Errorf("%s: %+v", k.ID, got)
		}
	}
	if got := Verify(t.Context(), raw, enrolled(t, testKeys()[RS256])); got.Outcome != Unverifiable || strings.Count(got.Why, "no enrolled key") != 2 {
		t.Errorf("another key: %+v", got)
	}
	var card a2a.AgentCard
	if err := card.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	if head, err := decodeBase64(card.Signatures[1].Protected); err != nil ||
		string(head) != `{"alg":"EdDSA","jku":"`+setURL+`","kid":"eddsa","typ":"JOSE"}` {
		t.Errorf("protected header %s, %v", head, err)
	}
	before, _ := Digest(signedCard(t, old))
	if after, _ := Digest(raw); before != after {
		t.Error("another signature changed the digest")
	}
}

// TestManySignatures: 32 are looked at, and a card with more is not taken for its first.
func TestManySignatures(t *testing.T) {
	k := testKeys()[ES256]
	card := sampleCard(t)
	if err := Sign(card, k); err != nil {
		t.Fatal(err)
	}
	for range 31 {
		card.Signatures = append([]*a2a.AgentCardSignature{{Protected: "e30", Signature: "AA"}}, card.Signatures...)
	}
	if got := Verify(t.Context(), card.AppendJSON(nil), enrolled(t, k)); got.Outcome != Verified {
		t.Errorf("32 signatures: %+v", got)
	}
	card.Signatures = append(card.Signatures, card.Signatures[31])
	if got := Verify(t.Context(), card.AppendJSON(nil), enrolled(t, k)); got.Outcome != Unverifiable {
		t.Errorf("33 signatures: %+v", got)
	}
}

// jws makes a signature by hand, over whatever header.
func jws(t *testing.T, k *Key, protected string, payload []byte) *a2a.AgentCardSignature {
	t.Helper()
	head := base64.RawURLEncoding.EncodeToString([]byte(protected))
	sum := sha256.Sum256([]byte(head + "." + base64.RawURLEncoding.EncodeToString(payload)))
	var sig []byte
	var err error
	switch private := k.key.(type) {
	case *ecdsa.PrivateKey:
		r, s, e := ecdsa.Sign(rand.Reader, private, sum[:])
		if e != nil {
			t.Fatal(e)
		}
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case *rsa.PrivateKey:
		sig, err = rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:])
	default:
		t.Fatalf("%T", private)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &a2a.AgentCardSignature{Protected: head, Signature: base64.RawURLEncoding.EncodeToString(sig)}
}

func withSignatures(t *testing.T, s ...*a2a.AgentCardSignature) []byte {
	t.Helper()
	card := sampleCard(t)
	card.Signatures = s
	return card.AppendJSON(nil)
}

// TestRefused has what threat A7 names: each of these signatures is by the enrolled key over the right card, except where
// that is the point, and none verifies.
func TestRefused(t *testing.T) {
	k := testKeys()[ES256]
	p := enrolled(t, k, testKeys()[RS256])
	form, err := Canonical(sampleCard(t))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(header string) *a2a.AgentCardSignature { return jws(t, k, header, form) }
	good := sign(`{"alg":"ES256","kid":"es256","typ":"JOSE"}`)
	if got := Verify(t.Context(), withSignatures(t, good), p); got.Outcome != Verified {
		t.Fatalf("the yardstick does not verify: %+v", got)
	}
	if got := Verify(t.Context(), withSignatures(t, sign(`{"alg":"ES256","kid":"es256","jku":"`+setURL+`"}`)), p); got.Outcome != Verified {
		t.Fatalf("the enrolled jku: %+v", got)
	}
	plainNone := &a2a.AgentCardSignature{Protected: base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"es256"}`))}
	hs := &a2a.AgentCardSignature{Protected: base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"es256"}`))}
	spki, err := x509.MarshalPKIXPublicKey(k.public().Key)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}))
	mac.Write([]byte(hs.Protected + "." + base64.RawURLEncoding.EncodeToString(form)))
	hs.Signature = base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	with := func(s *a2a.AgentCardSignature, header a2a.Struct) *a2a.AgentCardSignature {
		s.Header = header
		return s
	}
	for name, c := range map[string]struct {
		s   *a2a.AgentCardSignature
		why string
	}{
		"alg none, no signature":   {plainNone, "must be there"},
		"alg none, some signature": {sign(`{"alg":"none","kid":"es256"}`), `alg "none" is not allowed`},
		"HS256 by the public key":  {hs, `alg "HS256" is not allowed`},
		"ES384":                    {sign(`{"alg":"ES384","kid":"es256"}`), "is not allowed"},
		"another alg, same type":   {sign(`{"alg":"RS256","kid":"es256"}`), `key "es256" is not for alg RS256`},
		"PS256 on an RS256 key":    {jws(t, testKeys()[RS256], `{"alg":"PS256","kid":"rs256"}`, form), `key "rs256" is not for alg PS256`},
		"alg in lower case":        {sign(`{"alg":"es256","kid":"es256"}`), "is not allowed"},
		"no alg":                   {sign(`{"kid":"es256"}`), "must have alg and kid"},
		"alg of two kinds":         {sign(`{"alg":["ES256"],"kid":"es256"}`), "must be a string"},
		"alg null":                 {sign(`{"alg":null,"kid":"es256"}`), "must be a string"},
		"alg unprotected":          {with(sign(`{"kid":"es256"}`), a2a.Struct{"alg": json.RawMessage(`"ES256"`)}), "must have alg and kid"},
		"alg in both headers":      {with(sign(`{"alg":"ES256","kid":"es256"}`), a2a.Struct{"alg": json.RawMessage(`"none"`)}), "must not be in the unprotected"},
		"crit unprotected":         {with(sign(`{"alg":"ES256","kid":"es256"}`), a2a.Struct{"crit": json.RawMessage(`["x"]`)}), "must not be in the unprotected"},
		"no kid":                   {sign(`{"alg":"ES256"}`), "must have alg and kid"},
		"another kid":              {sign(`{"alg":"ES256","kid":"x"}`), "no enrolled key has kid"},
		"a kid to draw on screens": {sign(`{"alg":"ES256","kid":"\u001b[2J"}`), `kid "\x1b[2J"`},
		"kid that is a number":     {sign(`{"alg":"ES256","kid":1}`), "must be a string"},
		"foreign jku":              {sign(`{"alg":"ES256","kid":"es256","jku":"https://evil.example/jwks.json"}`), "is not the URL that is enrolled"},
		"jku, a path more":         {sign(`{"alg":"ES256","kid":"es256","jku":"` + setURL + `/"}`), "is not the URL that is enrolled"},
		"jku, in upper case":       {sign(`{"alg":"ES256","kid":"es256","jku":"` + strings.ToUpper(setURL) + `"}`), "is not the URL that is enrolled"},
		"unknown crit":             {sign(`{"alg":"ES256","kid":"es256","crit":["x"],"x":1}`), "has crit"},
		"empty crit":               {sign(`{"alg":"ES256","kid":"es256","crit":[]}`), "has crit"},
		"crit b64":                 {sign(`{"alg":"ES256","kid":"es256","crit":["b64"],"b64":true}`), "has crit"},
		"b64 false":                {sign(`{"alg":"ES256","kid":"es256","b64":false}`), "has b64"},
		"b64 as a string":          {sign(`{"alg":"ES256","kid":"es256","b64":"true"}`), "has b64"},
		"alg twice":                {sign(`{"alg":"none","alg":"ES256","kid":"es256"}`), "twice"},
		"kid twice, escaped":       {sign(`{"alg":"ES256","kid":"x","k\u0069d":"es256"}`), "twice"},
		"array header":             {sign(`["alg","ES256"]`), "must be an object, not an array"},
		"string header":            {sign(`"ES256"`), "must be an object"},
		"null header":              {sign(`null`), "must be an object"},
		"no JSON":                  {sign(`{`), "invalid JSON"},
		"bytes after the header":   {sign(`{"alg":"ES256","kid":"es256"} x`), "invalid JSON"},
		"padding":                  {&a2a.AgentCardSignature{Protected: good.Protected + "=", Signature: good.Signature}, "not base64url"},
		"a line break":             {&a2a.AgentCardSignature{Protected: good.Protected + "\n", Signature: good.Signature}, "not base64url"},
		"padded signature":         {&a2a.AgentCardSignature{Protected: good.Protected, Signature: good.Signature + "=="}, "not base64url"},
		"space in the signature":   {&a2a.AgentCardSignature{Protected: good.Protected, Signature: good.Signature + " "}, "not base64url"},
		"a dot in the signature":   {&a2a.AgentCardSignature{Protected: good.Protected, Signature: "." + good.Signature}, "not base64url"},
		"loose bits":               {&a2a.AgentCardSignature{Protected: good.Protected, Signature: loosen(good.Signature)}, "not base64url"},
		"truncated signature":      {&a2a.AgentCardSignature{Protected: good.Protected, Signature: good.Signature[:80]}, "is not by key"},
		"zeros":                    {&a2a.AgentCardSignature{Protected: good.Protected, Signature: base64.RawURLEncoding.EncodeToString(make([]byte, 64))}, "is not by key"},
		"over another card":        {jws(t, k, `{"alg":"ES256","kid":"es256"}`, []byte(`{}`)), "is not by key"},
		"over the JSON":            {jws(t, k, `{"alg":"ES256","kid":"es256"}`, sampleCard(t).AppendJSON(nil)), "is not by key"},
		"empty":                    {&a2a.AgentCardSignature{}, "must be there"},
	} {
		got := Verify(t.Context(), withSignatures(t, c.s), p)
		if got.Outcome != Unverifiable || got.KeyID != "" || got.Origin != "" || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %+v, want %s", name, got, c.why)
		}
		if got := Verify(t.Context(), withSignatures(t, c.s, good), p); got.Outcome != Verified || got.KeyID != "es256" {
			t.Errorf("%s, and a good one: %+v", name, got)
		}
	}
}

// loosen sets a bit at the end of base64url that stands for nothing.
func loosen(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, s[len(s)-1])
	return s[:len(s)-1] + alphabet[last|1:][:1]
}

// TestEmbeddedKey: a key in the header is not looked at, neither a true one nor a forged one.
func TestEmbeddedKey(t *testing.T) {
	form, err := Canonical(sampleCard(t))
	if err != nil {
		t.Fatal(err)
	}
	private, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	forger, err := NewKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := forger.public()
	jwk, err := public.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	raw := withSignatures(t, jws(t, forger, `{"alg":"ES256","kid":"es256","jwk":`+string(jwk)+`}`, form))
	if got := Verify(t.Context(), raw, enrolled(t, testKeys()[ES256])); got.Outcome != Unverifiable {
		t.Errorf("%+v", got)
	}
}

// TestCardChanged: what says something else is refused, and what says the same is not.
func TestCardChanged(t *testing.T) {
	k := testKeys()[ES256]
	good := string(signedCard(t, k))
	front := func(member string) string { return "{" + member + "," + good[1:] }
	replace := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("there is no %s in %s", old, good)
		}
		return strings.Replace(good, old, with, 1)
	}
	for name, c := range map[string]struct {
		raw  string
		want Outcome
	}{
		"a name twice":            {front(`"name":"x"`), Unverifiable},
		"a name twice, escaped":   {front(`"n\u0061me":"x"`), Unverifiable},
		"the proto's name too":    {front(`"supported_interfaces":[{"url":"https://evil.example"}]`), Unverifiable},
		"an unknown field":        {front(`"x":1`), Unverifiable},
		"an unknown field, null":  {front(`"x":null`), Unverifiable},
		"the old name":            {front(`"security":[{}]`), Unverifiable},
		"an element less":         {replace(`"tags":["maps",`, `"tags":[`), Unverifiable},
		"another order":           {replace(`["application/json","text/plain"]`, `["text/plain","application/json"]`), Unverifiable},
		"a flag turned":           {replace(`"extendedAgentCard":true`, `"extendedAgentCard":false`), Unverifiable},
		"a flag taken out":        {replace(`,"extendedAgentCard":true`, ``), Unverifiable},
		"cut off":                 {good[:len(good)-1], Unverifiable},
		"signatures an object":    {`{"signatures":{"a":1}}`, Unverifiable},
		"signatures of a string":  {`{"signatures":["x"]}`, Unverifiable},
		"33 signatures":           {`{"signatures":[` + strings.Repeat(`{},`, 32) + `{}]}`, Unverifiable},
		"spaces":                  {replace(`{`, " {\n\t"), Verified},
		"an escape":               {replace(`Planner`, `Pl\u0061nner`), Verified},
		"a default":               {replace(`"protocolBinding":"GRPC"`, `"protocolBinding":"GRPC","tenant":""`), Verified},
		"null for what is absent": {replace(`"protocolBinding":"GRPC"`, `"protocolBinding":"GRPC","tenant":null`), Verified},
		"the proto's name":        {replace(`"supportedInterfaces"`, `"supported_interfaces"`), Verified},
		"no signatures":           {`{}`, Absent},
		"null":                    {`{"signatures":null}`, Absent},
		"an empty list":           {`{"signatures":[]}`, Absent},
	} {
		if got := Verify(t.Context(), []byte(c.raw), enrolled(t, k)); got.Outcome != c.want || (got.Why != "") != (c.want == Unverifiable) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOrigins(t *testing.T) {
	k, other := testKeys()[ES256], testKeys()[EdDSA]
	raw := signedCard(t, k)
	p := enrolled(t, k)
	p.Enrolled["https://other.example"] = Enrollment{KeySet: jwks(t, other)}
	for origin, want := range map[string]Outcome{
		"https://agent.example": Verified, "HTTPS://Agent.Example:443/x?y": Verified,
		"http://agent.example": Unverifiable, "https://agent.example:8443": Unverifiable, "https://other.example": Unverifiable,
		"https://agent.example.evil.example": Unverifiable, "https://agent.example@evil.example": Unverifiable,
		"": Unverifiable, "agent.example": Unverifiable, "://": Unverifiable,
	} {
		p.Origin = origin
		if got := Verify(t.Context(), raw, p); got.Outcome != want {
			t.Errorf("%s: %+v", origin, got)
		}
	}
	if got := Verify(t.Context(), raw, Policy{}); got.Outcome != Unverifiable {
		t.Errorf("the zero policy: %+v", got)
	}
	for in, want := range map[string]string{
		"https://[::1]:443/": "https://[::1]", "http://H:80": "http://h", "http://h:443": "http://h:443",
	} {
		if got, err := Origin(in); err != nil || got != want {
			t.Errorf("Origin(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
}

func TestAllowedAlgorithms(t *testing.T) {
	raw := signedCard(t, testKeys()[ES256])
	p := enrolled(t, testKeys()[ES256])
	for _, c := range []struct {
		allowed []string
		want    Outcome
	}{{nil, Verified}, {[]string{ES256}, Verified}, {[]string{EdDSA, RS256}, Unverifiable}, {[]string{"none", "HS256"}, Unverifiable}} {
		p.Algorithms = c.allowed
		if got := Verify(t.Context(), raw, p); got.Outcome != c.want {
			t.Errorf("%v: %+v", c.allowed, got)
		}
	}
	none := &a2a.AgentCardSignature{Protected: base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"es256"}`)), Signature: "AA"}
	p.Algorithms = []string{"none"}
	if got := Verify(t.Context(), withSignatures(t, none), p); got.Outcome != Unverifiable {
		t.Errorf("none, allowed: %+v", got)
	}
}

func TestFetch(t *testing.T) {
	k := testKeys()[ES256]
	set := jwks(t, k)
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		_, _ = w.Write(set)
	}))
	defer srv.Close()
	k.SetURL = srv.URL + "/jwks.json"
	defer func() { k.SetURL = "" }()
	raw := signedCard(t, testKeys()[EdDSA], k)
	p := Policy{
		Origin: srv.URL, Enrolled: map[string]Enrollment{srv.URL: {URL: k.SetURL}},
		Fetch: func(ctx context.Context, url string) ([]byte, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return nil, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			return io.ReadAll(resp.Body)
		},
	}
	if got := Verify(t.Context(), raw, p); got.Outcome != Verified || got.Origin != srv.URL || calls != 1 {
		t.Errorf("%+v after %d fetches", got, calls)
	}
	if got := Verify(t.Context(), []byte(`{}`), p); got.Outcome != Absent || calls != 1 {
		t.Errorf("%+v after %d fetches", got, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Verify(ctx, raw, p); got.Outcome != Unverifiable || !strings.Contains(got.Why, "fetch the key set") {
		t.Errorf("canceled: %+v", got)
	}
	p.Fetch = func(context.Context, string) ([]byte, error) { return nil, errors.New("verified") }
	if got := Verify(t.Context(), raw, p); got.Outcome != Unverifiable {
		t.Errorf("fetch fails: %+v", got)
	}
	p.Fetch = nil
	if got := Verify(t.Context(), raw, p); got.Outcome != Unverifiable || !strings.Contains(got.Why, "nothing to fetch it with") {
		t.Errorf("no fetch: %+v", got)
	}
	p.Enrolled[srv.URL] = Enrollment{URL: "http://agent.example/jwks.json"}
	p.Fetch = func(context.Context, string) ([]byte, error) { t.Error("fetched over http"); return set, nil }
	if got := Verify(t.Context(), signedCard(t, testKeys()[RS256]), p); got.Outcome != Unverifiable {
		t.Errorf("http: %+v", got)
	}
}

func TestKeySets(t *testing.T) {
	k := testKeys()[ES256]
	raw := signedCard(t, k)
	public := k.public()
	good, err := public.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	private := must(json.Marshal(privateJWK(k)))
	with := func(more string) string {
		return `{"keys":[` + strings.TrimSuffix(string(good), "}") + `,` + more + `}]}`
	}
	without := func(member string) string { return `{"keys":[` + strings.Replace(string(good), member, "", 1) + `]}` }
	for name, c := range map[string]struct {
		set  string
		want Outcome
	}{
		"as published":          {`{"keys":[` + string(good) + `]}`, Verified},
		"unknown types beside":  {`{"keys":[{"kty":"AKP"},{"kty":"OKP","crv":"X25519","x":"AA"},{"kty":"new"},{},null,5,` + string(good) + `],"x":1}`, Verified},
		"the kid twice":         {`{"keys":[{"kty":"RSA","kid":"es256","n":"AQAB","e":"AQAB"},` + string(good) + `]}`, Verified},
		"no alg":                {without(`"alg":"ES256",`), Verified},
		"no use":                {without(`"use":"sig",`), Verified},
		"to verify":             {with(`"key_ops":["verify"]`), Verified},
		"to encrypt":            {strings.Replace(with(`"x":1`), `"use":"sig"`, `"use":"enc"`, 1), Unverifiable},
		"only to sign":          {with(`"key_ops":["sign"]`), Unverifiable},
		"another alg":           {strings.Replace(with(`"z":1`), `"alg":"ES256"`, `"alg":"ES384"`, 1), Unverifiable},
		"private":               {`{"keys":[` + string(private) + `]}`, Unverifiable},
		"symmetric":             {`{"keys":[{"kty":"oct","kid":"es256","k":"AAAA"}]}`, Unverifiable},
		"a name twice":          {with(`"kid":"es256"`), Unverifiable},
		"a point off the curve": {`{"keys":[{"kty":"EC","crv":"P-256","kid":"es256","x":"` + strings.Repeat("A", 42) + `E","y":"` + strings.Repeat("A", 42) + `E"}]}`, Unverifiable},
		"empty":                 {`{"keys":[]}`, Unverifiable},
		"no list":               {`{"keys":{}}`, Unverifiable},
		"a key":                 {string(good), Unverifiable},
		"an array":              {`[` + string(good) + `]`, Unverifiable},
		"no JSON":               {`verified`, Unverifiable},
	} {
		p := Policy{Origin: home, Enrolled: map[string]Enrollment{home: {KeySet: []byte(c.set)}}}
		if got := Verify(t.Context(), raw, p); got.Outcome != c.want {
			t.Errorf("%s: %+v\n%s", name, got, c.set)
		}
	}
}

func TestDrift(t *testing.T) {
	k := testKeys()[ES256]
	raw := signedCard(t, k)
	pin, err := Digest(raw)
	if err != nil {
		t.Fatal(err)
	}
	p := enrolled(t, k)
	pinned := func(digest string) Policy {
		p.Enrolled[home] = Enrollment{KeySet: p.Enrolled[home].KeySet, Digest: digest}
		return p
	}
	if got := Verify(t.Context(), raw, pinned(pin)); got.Drift || !got.Trusted() {
		t.Errorf("unchanged: %+v", got)
	}
	changed := sampleCard(t)
	changed.Skills[0].Description = "now does something else"
	if err := Sign(changed, k); err != nil {
		t.Fatal(err)
	}
	if got := Verify(t.Context(), changed.AppendJSON(nil), pinned(pin)); got.Outcome != Verified || !got.Drift || got.Trusted() {
		t.Errorf("changed by its owner: %+v", got)
	}
	changed.Signatures = nil
	if got := Verify(t.Context(), changed.AppendJSON(nil), pinned(pin)); got.Outcome != Absent || !got.Drift {
		t.Errorf("changed, without a signature: %+v", got)
	}
	if got := Verify(t.Context(), []byte(`{`), pinned(pin)); !got.Drift {
		t.Errorf("no card: %+v", got)
	}
	if got := Verify(t.Context(), raw, pinned("sha256:"+pin)); !got.Drift {
		t.Errorf("a pin of another form: %+v", got)
	}
	if got := Verify(t.Context(), changed.AppendJSON(nil), pinned("")); got.Drift {
		t.Errorf("no pin: %+v", got)
	}
}

func TestSignRefused(t *testing.T) {
	k := testKeys()[ES256]
	public := *k
	public.key = k.public().Key
	wrong, far, nameless := *k, *k, *k
	wrong.Algorithm, far.SetURL, nameless.ID = RS256, "http://agent.example/jwks.json", ""
	lossy := sampleCard(t)
	lossy.Capabilities.Extensions = []*a2a.AgentExtension{{URI: "u", Params: a2a.Struct{"n": json.RawMessage("9007199254740993")}}}
	for name, c := range map[string]struct {
		card *a2a.AgentCard
		keys []*Key
	}{
		"no key":         {sampleCard(t), nil},
		"nil key":        {sampleCard(t), []*Key{nil}},
		"zero key":       {sampleCard(t), []*Key{{ID: "x", Algorithm: ES256}}},
		"public half":    {sampleCard(t), []*Key{&public}},
		"wrong alg":      {sampleCard(t), []*Key{&wrong}},
		"no ID":          {sampleCard(t), []*Key{&nameless}},
		"an http jku":    {sampleCard(t), []*Key{&far}},
		"one ID twice":   {sampleCard(t), []*Key{k, k}},
		"no card":        {nil, []*Key{k}},
		"a lossy number": {lossy, []*Key{k}},
	} {
		if err := Sign(c.card, c.keys...); err == nil {
			t.Errorf("%s: signed", name)
		} else if c.card != nil && c.card.Signatures != nil {
			t.Errorf("%s: the card was changed", name)
		}
	}
	if _, err := JWKS(&public); err != nil {
		t.Errorf("a retired key cannot be published: %v", err)
	}
	if set := string(jwks(t, k, &public)); strings.Contains(set, `"d":`) {
		t.Errorf("a private key is published: %s", set)
	}
	if set := jwks(t); string(set) != `{"keys":[]}` {
		t.Errorf("the empty set: %s", set)
	}
}

func TestParseKey(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) []byte {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for alg, k := range testKeys() {
		der, err := x509.MarshalPKCS8PrivateKey(k.key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseKey(file("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
		if err != nil || got.ID == "" || got.Algorithm != strings.Replace(alg, PS256, RS256, 1) {
			t.Errorf("%s: PEM: %+v, %v", alg, got, err)
			continue
		}
		raw := signedCard(t, got)
		spki, err := x509.MarshalPKIXPublicKey(k.public().Key)
		if err != nil {
			t.Fatal(err)
		}
		half, err := ParseKey(file("key.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})))
		if err != nil || half.ID != got.ID {
			t.Fatalf("%s: public PEM: %+v, %v", alg, half, err)
		}
		if r := Verify(t.Context(), raw, enrolled(t, half)); r.Outcome != Verified || r.KeyID != got.ID {
			t.Errorf("%s: by the public PEM: %+v", alg, r)
		}
		b, err := json.Marshal(privateJWK(k))
		if err != nil {
			t.Fatal(err)
		}
		got, err = ParseKey(file("key.jwk", b))
		if err != nil || got.ID != k.ID || got.Algorithm != alg {
			t.Errorf("%s: JWK: %+v, %v", alg, got, err)
		}
	}
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	p384DER, _ := x509.MarshalPKCS8PrivateKey(p384)
	sec1, _ := x509.MarshalECPrivateKey(testKeys()[ES256].key.(*ecdsa.PrivateKey))
	one := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1})
	pkcs8 := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(testKeys()[ES256].key))})
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":      {nil, "neither PEM nor a JWK"},
		"text":       {[]byte("hello"), "neither PEM nor a JWK"},
		"P-384":      {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p384DER}), "does not sign cards"},
		"SEC 1":      {one, "openssl pkcs8 -topk8"},
		"encrypted":  {pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY"}), "decrypt it"},
		"two blocks": {append(pkcs8, pkcs8...), "more than one"},
		"broken DER": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "the PEM key"},
		"symmetric":  {[]byte(`{"kty":"oct","k":"AAAA"}`), "does not sign cards"},
		"no kty":     {[]byte(`{}`), "the JWK"},
		"wrong alg":  {[]byte(strings.Replace(string(must(json.Marshal(privateJWK(testKeys()[ES256])))), `"ES256"`, `"RS256"`, 1)), "does not sign with"},
		"twice":      {[]byte(`{"kty":"EC","kty":"RSA"}`), "neither PEM nor a JWK"},
	} {
		if k, err := ParseKey(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}
	if _, err := NewKey(ed25519.PrivateKey{1}); err == nil {
		t.Error("a short Ed25519 key is taken")
	}
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	if _, err := NewKey(weak); err == nil {
		t.Error("an RSA key of 1024 bits is taken")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func privateJWK(k *Key) jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.key, KeyID: k.ID, Algorithm: k.Algorithm}
}
