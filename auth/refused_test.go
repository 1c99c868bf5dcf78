package auth_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/audit"
	"github.com/parley-a2a/parley/auth"
)

// raw sends GetTask with exactly the given headers, name and value in turn, and returns the HTTP status, that of gRPC as
// one, and the challenges.
func (h *agentHost) raw(t *testing.T, binding string, cert *tls.Certificate, header ...string) (code int, challenge []string) {
	t.Helper()
	config := &tls.Config{RootCAs: h.ca.pool(), MinVersion: tls.VersionTLS13}
	if cert != nil {
		config.GetClientCertificate = present(cert)
	}
	if binding == a2a.BindingGRPC {
		conn := must(grpc.NewClient(h.grpc, grpc.WithTransportCredentials(credentials.NewTLS(config))))
		defer func() { _ = conn.Close() }()
		ctx := metadata.AppendToOutgoingContext(t.Context(), append(header, "A2A-Version", "1.0")...)
		var trailer metadata.MD
		_, err := pb.NewA2AServiceClient(conn).GetTask(ctx, &pb.GetTaskRequest{Id: "x"}, grpc.Trailer(&trailer))
		statuses := map[codes.Code]int{codes.NotFound: 404, codes.Unauthenticated: 401, codes.PermissionDenied: 403, codes.ResourceExhausted: 429}
		return statuses[status.Code(err)], trailer["www-authenticate"]
	}
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, h.http.URL+"/rest/tasks/x", nil))
	if binding == a2a.BindingJSONRPC {
		body := `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`
		req = must(http.NewRequestWithContext(t.Context(), http.MethodPost, h.http.URL+"/rpc", strings.NewReader(body)))
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("A2A-Version", "1.0")
	for pair := range slices.Chunk(header, 2) {
		req.Header.Add(pair[0], pair[1])
	}
	tr := &http.Transport{TLSClientConfig: config}
	defer tr.CloseIdleConnections()
	res := must((&http.Client{Transport: tr}).Do(req))
	defer func() { _ = res.Body.Close() }()
	if b := must(io.ReadAll(res.Body)); res.StatusCode == http.StatusOK && bytes.Contains(b, []byte("TASK_NOT_FOUND")) {
		return 404, nil
	}
	return res.StatusCode, res.Header.Values("WWW-Authenticate")
}

// Authorization is for a credential whether a method reads it or not: what is in it is never passed over, not beside a good
// key or certificate, and not on a host that lets anonymous callers in.
func TestOneCredential(t *testing.T) {
	opts := quiet()
	opts.Anonymous = true
	h := startHost(t, must(auth.Any(opts, keys(t, "bob="+bobsKey), auth.NewCertificates(auth.CertificateOptions{}))), waiting{})
	cert := h.ca.issue(certificate("spiffe://acme/dave"))
	for _, b := range bindings {
		for _, tt := range []struct {
			name   string
			cert   *tls.Certificate
			header []string
			want   int
		}{
			{"nothing", nil, nil, 404},
			{"a key", nil, []string{"X-API-Key", bobsKey}, 404},
			{"a certificate", cert, nil, 404},
			{"a key over a connection with a certificate", cert, []string{"X-API-Key", bobsKey}, 404},
			{"what a proxy adds", nil, []string{"X-API-Key", bobsKey, "X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1", "Via", "1.1 proxy"}, 404},
			{"a key and a token", nil, []string{"X-API-Key", bobsKey, "Authorization", "Bearer wrong"}, 401},
			{"a key and two tokens", nil, []string{"X-API-Key", bobsKey, "Authorization", "Bearer wrong", "Authorization", "Bearer wrong"}, 401},
			{"a key twice", nil, []string{"X-API-Key", bobsKey, "X-API-Key", bobsKey}, 401},
			{"a token", nil, []string{"Authorization", "Bearer wrong"}, 401},
			{"two tokens", nil, []string{"Authorization", "Bearer wrong", "Authorization", "Bearer wrong"}, 401},
			{"a certificate and a token", cert, []string{"Authorization", "Bearer wrong"}, 401},
		} {
			if got, _ := h.raw(t, b, tt.cert, tt.header...); got != tt.want {
				t.Errorf("%s: %s: %d, want %d", b, tt.name, got, tt.want)
			}
		}
	}
}

// What a refusal says of tokens is true: nothing where none are taken.
func TestForbiddenChallenge(t *testing.T) {
	iss := newIssuer(t)
	opts := quiet()
	opts.Anonymous, opts.Rules = true, auth.Rules{Operations: map[string][]string{auth.AnyOperation: {"tasks.read"}}}
	bob := keys(t, "bob="+bobsKey)
	for _, tt := range []struct {
		name string
		a    *auth.Authenticator
		want int // challenges for an anonymous caller
	}{
		{"keys", must(auth.Any(opts, bob)), 0},
		{"keys and tokens", must(auth.Any(opts, bob, iss.newJWT(t, nil))), 1},
	} {
		h := startHost(t, tt.a, waiting{})
		for _, b := range bindings {
			if code, challenge := h.raw(t, b, nil); code != 403 || len(challenge) != tt.want {
				t.Errorf("%s, %s: nobody: %d %q", tt.name, b, code, challenge)
			}
			if code, challenge := h.raw(t, b, nil, "X-API-Key", bobsKey); code != 403 || len(challenge) != 0 {
				t.Errorf("%s, %s: a key: %d %q", tt.name, b, code, challenge)
			}
		}
	}
}

// A revoked key is no guess, be it on the denylist or no longer in the file, and tokens and certificates, which nobody can
// guess, are let in while an address is slowed down.
func TestThrottleSparesOthers(t *testing.T) {
	iss := newIssuer(t)
	token := iss.token(iss.newKey("k1"), nil)
	file := filepath.Join(t.TempDir(), "keys")
	writeFile(file, []byte("bob="+bobsKey+"\nalice="+alicesKey+"\nold=old-canary-0123456789\n"))
	deny := auth.NewDenylist()
	deny.Deny(auth.APIKeyIssuer, "old")
	a := must(auth.Any(auth.Options{Log: slog.New(slog.DiscardHandler), Denylist: deny},
		must(auth.NewAPIKeys(auth.APIKeyOptions{File: file})), iss.newJWT(t, nil), auth.NewCertificates(auth.CertificateOptions{})))
	var c clock
	a.SetClock(c.now)
	h := startHost(t, a, waiting{})
	cert := h.ca.issue(certificate("spiffe://acme/dave"))
	writeFile(file, []byte("bob="+bobsKey+"\nold=old-canary-0123456789\n"))
	c.advance(5 * time.Second)
	for _, b := range bindings {
		for range 10 {
			for _, key := range []string{alicesKey, "old-canary-0123456789"} {
				if code, _ := h.raw(t, b, nil, "X-API-Key", key); code != 401 {
					t.Fatalf("%s: a revoked key: %d", b, code)
				}
			}
		}
		if code, _ := h.raw(t, b, nil, "X-API-Key", bobsKey); code != 404 {
			t.Errorf("%s: a good key after tries with a revoked one: %d", b, code)
		}
		for i := range 5 {
			if code, _ := h.raw(t, b, nil, "X-API-Key", fmt.Sprintf("wrong-canary-%d", i)); code != 401 {
				t.Fatalf("%s: a wrong key: %d", b, code)
			}
		}
		for name, key := range map[string]string{"a good": bobsKey, "a wrong": "wrong-canary-6", "a revoked": alicesKey} {
			if code, _ := h.raw(t, b, nil, "X-API-Key", key); code != 429 { // all alike, or the answer would tell which is right
				t.Errorf("%s: %s key after five wrong ones: %d", b, name, code)
			}
		}
		if code, _ := h.raw(t, b, nil, "Authorization", "Bearer "+token); code != 404 {
			t.Errorf("%s: a token after five wrong keys: %d", b, code)
		}
		if code, _ := h.raw(t, b, nil, "Authorization", "Bearer "+token[:len(token)-4]+"AAAA"); code != 429 {
			t.Errorf("%s: a forged token after five wrong keys: %d", b, code)
		}
		if code, _ := h.raw(t, b, cert); code != 404 {
			t.Errorf("%s: a certificate after five wrong keys: %d", b, code)
		}
		c.advance(time.Minute)
	}
	writeFile(file, []byte("bob="+bobsKey+"\nalice="+alicesKey+"\nold=old-canary-0123456789\n"))
	c.advance(5 * time.Second)
	if code, _ := h.raw(t, a2a.BindingREST, nil, "X-API-Key", alicesKey); code != 404 {
		t.Errorf("a key that is back: %d", code)
	}
}

// TestUnreadIsNoGuess: what is in a header that no method reads, and what was not looked at because there were two, lock
// nobody out.
func TestUnreadIsNoGuess(t *testing.T) {
	h := startHost(t, must(auth.Any(auth.Options{Log: slog.New(slog.DiscardHandler)},
		must(auth.NewAPIKeys(auth.APIKeyOptions{Keys: []auth.APIKey{must(auth.ParseAPIKey("bob=" + bobsKey))}})))), waiting{})
	for _, b := range bindings {
		for range 10 {
			if code, _ := h.raw(t, b, nil, "Authorization", "Bearer canary"); code != 401 {
				t.Fatalf("%s: a token at a host of keys: %d", b, code)
			}
			if code, _ := h.raw(t, b, nil, "X-API-Key", bobsKey, "Authorization", "Bearer canary"); code != 401 {
				t.Fatalf("%s: two credentials: %d", b, code)
			}
		}
		if code, _ := h.raw(t, b, nil, "X-API-Key", bobsKey); code != 404 {
			t.Errorf("%s: a good key after them: %d", b, code)
		}
	}
}

// TestRefusals: the audit log says why a credential was refused, and whose it is where that is beyond doubt, without it.
func TestRefusals(t *testing.T) {
	iss := newIssuer(t)
	signing := iss.newKey("k1")
	iss.answer["foreign-canary"] = map[string]any{"active": true, "sub": "carol", "aud": "other"}
	i := must(auth.NewIntrospection(auth.IntrospectionOptions{
		Endpoint: iss.srv.URL + "/introspect", ClientID: "agent", ClientSecret: auth.NewSecret("agent-secret-canary"),
		Issuer: iss.srv.URL, Audience: []string{"stock"}, Client: iss.srv.Client(),
	}))
	file := filepath.Join(t.TempDir(), "keys")
	const old, past = "old-canary-0123456789", "past-canary-0123456789"
	writeFile(file, []byte("bob="+bobsKey+"\ndenied="+alicesKey+"\nold="+old+" tenant=acme\npast="+past+" expires=2020-01-01T00:00:00Z\n"))
	deny := auth.NewDenylist()
	deny.Deny(auth.APIKeyIssuer, "denied")
	opts := quiet()
	opts.Denylist = deny
	a := must(auth.Any(opts, must(auth.NewAPIKeys(auth.APIKeyOptions{File: file})), iss.newJWT(t, nil), i))
	var c clock
	a.SetClock(c.now)
	writeFile(file, []byte("bob="+bobsKey+"\ndenied="+alicesKey+"\npast="+past+" expires=2020-01-01T00:00:00Z\n"))
	c.advance(5 * time.Second)
	var out bytes.Buffer
	ask := audit.New(slog.NewJSONHandler(&out, nil)).Authenticate(a.Authenticate)
	forged := iss.token(signing, nil)
	for _, tt := range []struct {
		name   string
		header http.Header
		want   string // reason, tenant, issuer, subject
	}{
		{"none", nil, "missing///"},
		{"unknown key", http.Header{"X-Api-Key": {"wrong-canary"}}, "unknown-key///"},
		{"key on the denylist", http.Header{"X-Api-Key": {alicesKey}}, "revoked//api-key/denied"},
		{"key out of the file", http.Header{"X-Api-Key": {old}}, "revoked/acme/api-key/old"},
		{"expired key", http.Header{"X-Api-Key": {past}}, "expired//api-key/past"},
		{"two", http.Header{"X-Api-Key": {bobsKey}, "Authorization": {"Bearer canary"}}, "several-credentials///"},
		{"another scheme", http.Header{"Authorization": {"Basic canary"}}, "unknown-kind///"},
		{"expired token", withToken(iss.token(signing, map[string]any{"exp": 1})).Header, "expired/acme/ISSUER/alice"},
		{"token for another", withToken(iss.token(signing, map[string]any{"aud": "other"})).Header, "audience/acme/ISSUER/alice"},
		{"forged token", withToken(forged[:len(forged)-4] + "AAAA").Header, "signature///"},
		{"inactive token", withToken("wrong-canary").Header, "inactive///"},
		{"introspected token for another", withToken("foreign-canary").Header, "audience//ISSUER/carol"},
	} {
		out.Reset()
		info := &a2a.CallInfo{Operation: "GetTask", Binding: a2a.BindingREST, Peer: "192.0.2.1:1", Header: tt.header}
		err := ask(t.Context(), info)
		var r struct{ Msg, Operation, Peer, Decision, Reason, Tenant, Issuer, Subject string }
		if e := json.Unmarshal(out.Bytes(), &r); e != nil {
			t.Fatalf("%s: %v %s", tt.name, e, out.String())
		}
		got := strings.ReplaceAll(r.Reason+"/"+r.Tenant+"/"+r.Issuer+"/"+r.Subject, iss.srv.URL, "ISSUER")
		if got != tt.want || r.Decision != "denied" || r.Operation != "GetTask" || r.Peer != "192.0.2.1:1" || !info.Caller.Anonymous() {
			t.Errorf("%s: %s, want %s: %s", tt.name, got, tt.want, out.String())
		}
		if strings.Contains(out.String()+err.Error(), "canary") {
			t.Errorf("%s: a secret in the log: %s", tt.name, out.String())
		}
	}
}
