package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/examples/internal/issuer"
	"github.com/parley-a2a/parley/internal/golden"
)

// wrongTokens are tokens that must not be taken, by what is wrong with them.
func wrongTokens(t *testing.T, h *host) map[string]string {
	t.Helper()
	key, err := issuer.LoadKey(filepath.Join(h.state, "issuer.key"))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := os.ReadFile(filepath.Join(h.state, "issuer.jwks.json"))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	good := h.changed(t, nil)
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	kid := func(kid string) string { return signed(t, jose.ES256, key, "at+jwt", kid, claims(nil)) }
	tokens := map[string]string{
		"alg none":                      part(map[string]string{"alg": "none", "typ": "at+jwt"}) + "." + payload + ".",
		"alg none, signed":              part(map[string]string{"alg": "none", "typ": "at+jwt"}) + "." + payload + "." + signature,
		"no signature":                  head + "." + payload + ".",
		"HS256 with the public key":     signed(t, jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "at+jwt", issuer.KeyID, claims(nil)),
		"HS256 with the key set":        signed(t, jose.HS256, set, "at+jwt", issuer.KeyID, claims(nil)),
		"a foreign key":                 signed(t, jose.ES256, foreign, "at+jwt", issuer.KeyID, claims(nil)),
		"other claims":                  head + "." + part(claims(map[string]any{"partner": "globex"})) + "." + signature,
		"no typ":                        signed(t, jose.ES256, key, "", issuer.KeyID, claims(nil)),
		"the typ of an id token":        signed(t, jose.ES256, key, "id+jwt", issuer.KeyID, claims(nil)),
		"the typ of a proof":            signed(t, jose.ES256, key, "dpop+jwt", issuer.KeyID, claims(nil)),
		"a kid with a path":             kid("../../issuer.key"),
		"a kid with a path and a NUL":   kid("test\x00/../../etc/passwd"),
		"a kid with a line break":       kid("test\r\nX: y"),
		"a kid of 10 KB":                kid(strings.Repeat("k", 10<<10)),
		"half a token":                  good[:len(good)/2],
		"three dots":                    "...",
		"not base64":                    "a.b.c",
		"100 KB":                        strings.Repeat("a", 100<<10),
		"100 KB in a claim":             h.changed(t, map[string]any{"pad": strings.Repeat("a", 75<<10)}),
		"a partner with a line break":   h.changed(t, map[string]any{"partner": "acme\r\nglobex"}),
		"a partner that is no text":     h.changed(t, map[string]any{"partner": []string{"acme"}}),
		"an expiry that is text":        h.changed(t, map[string]any{"exp": "tomorrow"}),
		"a subject that is a number":    h.changed(t, map[string]any{"sub": 7}),
		"not valid yet":                 h.changed(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"expired":                       h.changed(t, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"another issuer":                h.changed(t, map[string]any{"iss": "https://issuer.example"}),
		"another audience":              h.changed(t, map[string]any{"aud": "billing-agent"}),
		"an audience that only begins":  h.changed(t, map[string]any{"aud": "stock-agent-2"}),
		"the issuer with another case":  h.changed(t, map[string]any{"iss": strings.ToUpper(testIssuer)}),
		"an audience with another case": h.changed(t, map[string]any{"aud": "Stock-Agent"}),
	}
	for _, name := range []string{"exp", "sub", "aud", "iss", "partner"} {
		tokens["without "+name] = h.changed(t, map[string]any{name: nil})
	}
	return tokens
}

// TestWrongTokens: no operation takes a wrong token, and no answer and no line of the log repeats one.
func TestWrongTokens(t *testing.T) {
	each(t, func(t *testing.T, h *host, conn golden.Conn) {
		refused := func(what string, header http.Header, secret string) {
			t.Helper()
			request := text("BRG-10422 in SBY-01")
			got := answer(t, conn, "SendMessage", request, header)
			long := len(secret) > 60<<10 // the transport may refuse such a header by itself
			if !strings.HasPrefix(got, "ERROR") || !long && (!strings.Contains(got, "UnauthenticatedError") || !strings.Contains(got, "challenge Bearer")) {
				t.Errorf("%s: %.300s", what, got)
			}
			if len(secret) > 3 && strings.Contains(got+h.Log(), secret) {
				t.Errorf("%s: the token is repeated", what)
			}
		}
		for what, token := range wrongTokens(t, h) {
			refused(what, bearer(token), token)
		}
		good := h.changed(t, nil)
		refused("no token", nil, "")
		refused("an empty token", bearer(""), "")
		refused("another scheme", http.Header{"Authorization": {"Basic " + good}}, good)
		refused("no scheme", http.Header{"Authorization": {good}}, good)
		refused("the token twice", http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, good)
		refused("two tokens in a line", bearer(good+", Bearer "+good), good)
		refused("another token in front", http.Header{"Authorization": {"Bearer x", "Bearer " + good}}, good)
		for op, request := range map[string]string{
			"SendStreamingMessage": text("BRG-10422"), "GetTask": `{"id":"x"}`, "ListTasks": `{}`, "CancelTask": `{"id":"x"}`,
			"SubscribeToTask": `{"id":"x"}`, "GetExtendedAgentCard": `{}`, "ListTaskPushNotificationConfigs": `{"taskId":"x"}`,
		} {
			if got := answer(t, conn, op, request, nil); !strings.Contains(got, "UnauthenticatedError") {
				t.Errorf("%s without a token: %s", op, got)
			}
		}
		wantState(t, send(t, conn, bearer(good), text("BRG-10422")), a2a.TaskStateInputRequired, "")
		if words := bearer(good); strings.Contains(h.Log(), strings.TrimPrefix(words.Get("Authorization"), "Bearer ")) {
			t.Error("a good token is in the log")
		}
	})
}

// TestManyWrongTokens: after five wrong tokens an address waits, whatever the sixth says.
func TestManyWrongTokens(t *testing.T) {
	for _, b := range golden.Bindings {
		t.Run(b, func(t *testing.T) {
			h := start(t, "-failures", "5")
			conn := h.dial(t, b)
			for range 5 {
				if got := answer(t, conn, "ListTasks", `{}`, bearer("a.b.c")); !strings.Contains(got, "UnauthenticatedError") {
					t.Fatal(got)
				}
			}
			if got := answer(t, conn, "ListTasks", `{}`, bearer("a.b.c")); !strings.Contains(got, "ResourceExhaustedError") {
				t.Errorf("the sixth: %s", got)
			}
		})
	}
}

// TestRevoked: a partner that is put on the denylist gets nothing more, on streams that it has either.
func TestRevoked(t *testing.T) {
	if testing.Short() {
		t.Skip("a revocation takes up to 30 s")
	}
	list := filepath.Join(t.TempDir(), "denied")
	if err := os.WriteFile(list, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := start(t, "-denylist", list)
	acme, globex := bearer(h.token(t, "acme")), bearer(h.token(t, "globex"))
	ends := make(chan string, len(golden.Bindings))
	for _, b := range golden.Bindings {
		conn := h.dial(t, b)
		id := send(t, conn, acme, text("BRG-10422")).ID
		frames := make(chan error)
		go func() {
			for _, err := range conn.Do(t.Context(), golden.Request{Op: "SubscribeToTask", JSON: `{` + member("id", id) + `}`, Header: acme}) {
				frames <- err
			}
			close(frames)
		}()
		if err := <-frames; err != nil {
			t.Fatal(err)
		}
		go func() {
			got := b + " ended without an error"
			for err := range frames {
				got = b + " " + err.Error()
			}
			ends <- got
		}()
	}
	if err := os.WriteFile(list, []byte(testIssuer+" purchasing@acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	late := time.After(35 * time.Second)
	for range golden.Bindings {
		select {
		case got := <-ends:
			if !strings.Contains(got, "UnauthenticatedError") {
				t.Error(got)
			}
		case <-late:
			t.Fatal("a stream goes on")
		}
	}
	for _, b := range golden.Bindings {
		conn := h.dial(t, b)
		if got := answer(t, conn, "ListTasks", `{}`, acme); !strings.Contains(got, "UnauthenticatedError") {
			t.Errorf("%s: %s", b, got)
		}
		wantState(t, send(t, conn, globex, text("BRG-10422")), a2a.TaskStateInputRequired, "")
	}
}

// TestWrongSettings: what cannot be served is refused at the start, and says why.
func TestWrongSettings(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"control character", []string{"-audience", "stock\r\nX: y"}},
		{"control character", []string{"-issuer", "https://issuer.example/\r\n"}},
		{"public URL", []string{"-public-url", "https://stock.example/\r\nX: y"}},
		{"public URL", []string{"-public-url", "ftp://stock.example"}},
		{"TLS", []string{"-listen", "0.0.0.0:0"}},
		{"TLS", []string{"-grpc-listen", "0.0.0.0:0"}},
		{"no-such-file", []string{"-tls-cert", "no-such-file", "-tls-key", "no-such-file"}},
		{"no flag", []string{"serve"}},
		{"not defined", []string{"-anonymous"}},
		{"does not know", []string{"-token", "initech\n"}},
	} {
		state := t.TempDir()
		args := append([]string{"-state", state, "-listen", "127.0.0.1:0", "-grpc-listen", "127.0.0.1:0"}, c.args...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := run(ctx, args, io.Discard)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "issuer.key"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-state", state}, io.Discard); err == nil || !strings.Contains(err.Error(), "issuer.key is no key") {
		t.Errorf("a damaged key: %v", err)
	}
}

// TestTokenFlag: the command prints a token that the host takes, and the keys are their owner's alone.
func TestTokenFlag(t *testing.T) {
	h := start(t)
	var out strings.Builder
	if err := run(t.Context(), []string{"-state", h.state, "-token", "globex"}, &out); err != nil {
		t.Fatal(err)
	}
	task := send(t, h.dial(t, golden.JSONRPC), bearer(strings.TrimSpace(out.String())), text("VLV-3300 in JKT-02"))
	wantState(t, task, a2a.TaskStateCompleted, "")
	for _, name := range []string{"issuer.key", "card.key"} {
		if info, err := os.Stat(filepath.Join(h.state, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestTLS: the same by TLS, with a client that shows its token to the origins that it was given for.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, pool := newCertificate(t, dir)
	h := start(t, "-listen", "127.0.0.1:0", "-grpc-listen", "127.0.0.1:0", // which the certificate is for
		"-tls-cert", cert, "-tls-key", filepath.Join(dir, "key.pem"))
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer hc.CloseIdleConnections()
	creds, err := auth.NewCredentials(auth.Credential{
		Origins: []string{h.URL, "https://" + h.GRPC}, Source: auth.Static(auth.NewSecret(h.token(t, "acme"))), Header: "Authorization",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range golden.Bindings {
		t.Run(b, func(t *testing.T) {
			c, err := client.New(t.Context(), h.URL, client.Options{
				HTTP: creds.HTTP(hc), GRPC: append(creds.GRPC(), grpc.WithTransportCredentials(credentials.NewTLS(config))),
				Transports: []string{b},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			res, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
				Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("BRG-10422 in JKT-02")},
			}})
			if err != nil {
				t.Fatal(err)
			}
			task, _ := res.(*a2a.Task)
			wantData(t, task, `{"sku":"BRG-10422","warehouse":"JKT-02","onHand":15,"reserved":0,"available":15}`)
			if c.Interface().ProtocolBinding != b || !strings.HasPrefix(c.Interface().URL, "https://") {
				t.Errorf("called at %s %s", c.Interface().ProtocolBinding, c.Interface().URL)
			}
		})
	}
}

// newCertificate writes a certificate for 127.0.0.1 and its key, and returns its path and who trusts it.
func newCertificate(t *testing.T, dir string) (string, *x509.CertPool) {
	t.Helper()
	key, err := issuer.LoadKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stock"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "cert.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b)
	return path, pool
}
