package auth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/auth"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/binding/rest"
	"github.com/parley-a2a/parley/limits"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// log collects what is logged.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *log) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func (l *log) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// clock is a clock that is set by hand.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// issuer is an authorization server.
type issuer struct {
	srv *httptest.Server

	mu      sync.Mutex
	keys    []jose.JSONWebKey // of the JWK set
	fetches int               // of the JWK set
	down    bool
	answer  map[string]any // of introspection, by token
	asked   int            // introspections
	forms   []url.Values   // of the token endpoint
	grant   func(url.Values) (int, map[string]any)
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{answer: make(map[string]any)}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.srv.URL, "jwks_uri": i.srv.URL + "/jwks"})
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.fetches++
		if i.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		set := jose.JSONWebKeySet{}
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	})
	mux.HandleFunc("/introspect", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.asked++
		id, secret, _ := r.BasicAuth()
		if i.down || id != "agent" || secret != "agent-secret-canary" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer, ok := i.answer[r.PostFormValue("token")]
		if !ok {
			answer = map[string]any{"active": false}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	token := func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		i.mu.Lock()
		defer i.mu.Unlock()
		form := r.PostForm
		form.Set("path", r.URL.Path)
		if id, secret, ok := r.BasicAuth(); ok {
			form.Set("basic", id+" "+secret)
		}
		i.forms = append(i.forms, form)
		status, answer := i.grant(form)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
	mux.HandleFunc("/token", token)
	mux.HandleFunc("/device", token)
	i.srv = httptest.NewTLSServer(mux)
	i.srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	t.Cleanup(i.srv.Close)
	return i
}

// newKey adds a key to the issuer's set.
func (i *issuer) newKey(kid string) jose.JSONWebKey {
	k := jose.JSONWebKey{Key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), KeyID: kid, Algorithm: "ES256", Use: "sig"}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, k)
	return k
}

func (i *issuer) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

// claims returns those of a good token for Alice, with changes; nil takes a claim away.
func (i *issuer) claims(now time.Time, changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": i.srv.URL, "sub": "alice", "aud": "stock", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"jti": "jti-1", "scope": "tasks.read tasks.write", "org": "acme",
	}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func sign(key any, alg jose.SignatureAlgorithm, kid, typ string, claims any) string {
	opts := &jose.SignerOptions{}
	if typ != "" {
		opts = opts.WithType(jose.ContentType(typ))
	}
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts))
	return must(jwt.Signed(signer).Claims(claims).Serialize())
}

// token returns a good token with changed claims.
func (i *issuer) token(key jose.JSONWebKey, changes map[string]any) string {
	return sign(key.Key, jose.ES256, key.KeyID, "at+jwt", i.claims(time.Now(), changes))
}

func with(header, value string) *a2a.CallInfo {
	return &a2a.CallInfo{Binding: "test", Peer: "192.0.2.1:1234", Header: http.Header{header: {value}}}
}

func withToken(token string) *a2a.CallInfo { return with("Authorization", "Bearer "+token) }

// quiet are options that neither slow down nor log.
func quiet() auth.Options { return auth.Options{Failures: -1, Log: slog.New(slog.DiscardHandler)} }

// agentHost is a real host on TLS: the three bindings over one service.
type agentHost struct {
	http *httptest.Server
	grpc string
	ca   *authority
}

// waiting is an agent that works until its context ends or it is released.
type waiting struct{ release chan struct{} }

func (w waiting) Handle(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
	if err := u.Progress(a2a.TextPart("working")); err != nil {
		return err
	}
	select {
	case <-w.release:
	case <-ctx.Done():
	}
	return nil
}

func startHost(t *testing.T, a *auth.Authenticator, ag agent.Agent) *agentHost {
	t.Helper()
	quietly := slog.New(slog.DiscardHandler)
	streaming := true
	card := &a2a.AgentCard{
		Name: "Test", Version: "1", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: a2a.AgentCapabilities{Streaming: &streaming},
	}
	srv := must(server.New(server.Config{
		Agent: ag, Name: "test", Store: taskstore.NewMemory(taskstore.MemoryOptions{}), Log: quietly,
		Card: func() *a2a.AgentCard { return card },
	}))
	svc := a.Service(limits.Service(srv, limits.Options{Check: a.Valid}))
	h := &agentHost{ca: newAuthority()}
	dir := t.TempDir()
	h.ca.write(dir, "server", h.ca.issue(&x509.Certificate{DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}))
	h.ca.writeCA(filepath.Join(dir, "ca.pem"))
	config := must(auth.ServerTLS(auth.ServerTLSOptions{
		CertFile: filepath.Join(dir, "server.pem"), KeyFile: filepath.Join(dir, "server.key"), ClientCAFile: filepath.Join(dir, "ca.pem"),
	}))

	opts := jsonrpc.Options{Authenticate: a.Authenticate, Log: quietly}
	mux := http.NewServeMux()
	mux.Handle("/rpc", jsonrpc.NewHandler(svc, opts))
	mux.Handle("/rest/", http.StripPrefix("/rest", rest.NewHandler(svc, opts)))
	h.http = httptest.NewUnstartedServer(mux)
	h.http.TLS = config
	h.http.EnableHTTP2 = true
	h.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	h.http.StartTLS()
	gs := grpc.NewServer(append(grpcbinding.ServerOptions(), grpc.Creds(credentials.NewTLS(config)))...)
	grpcbinding.NewHandler(svc, grpcbinding.HandlerOptions{Authenticate: a.Authenticate, Log: quietly}).Register(gs)
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	go gs.Serve(l) //nolint:errcheck // it ends with the test
	h.grpc = l.Addr().String()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		srv.Shutdown(ctx)
		gs.Stop()
		h.http.CloseClientConnections()
		h.http.Close()
	})
	return h
}

// client returns the host's service over a binding, called with the credentials and the certificate, both optional.
func (h *agentHost) client(t *testing.T, binding string, creds *auth.Credentials, cert *tls.Certificate) a2a.Service {
	t.Helper()
	config := &tls.Config{RootCAs: h.ca.pool(), MinVersion: tls.VersionTLS13}
	if cert != nil {
		config.GetClientCertificate = present(cert)
	}
	if creds == nil {
		creds = must(auth.NewCredentials())
	}
	if binding == a2a.BindingGRPC {
		opts := append(creds.GRPC(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
		conn := must(grpc.NewClient(h.grpc, opts...))
		t.Cleanup(func() { _ = conn.Close() })
		return grpcbinding.NewClient(conn)
	}
	tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	hc := creds.HTTP(&http.Client{Transport: tr})
	if binding == a2a.BindingREST {
		return rest.NewClient(h.http.URL+"/rest", rest.ClientOptions{HTTP: hc})
	}
	return jsonrpc.NewClient(h.http.URL+"/rpc", jsonrpc.ClientOptions{HTTP: hc})
}

// origins are those of the host.
func (h *agentHost) origins() []string { return []string{h.http.URL, "https://" + h.grpc} }

// key returns credentials with an API key.
func (h *agentHost) key(secret string) *auth.Credentials {
	return must(auth.NewCredentials(auth.Credential{
		Origins: h.origins(), Header: "X-API-Key", Source: auth.Static(auth.NewSecret(secret)),
	}))
}

func hello() *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{
		Message:       &a2a.Message{MessageID: rand.Text(), Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hello")}},
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
	}
}

func codeOf(err error) a2a.ErrorCode {
	if err == nil {
		return 0
	}
	return a2a.AsError(err).Code
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority() *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA " + rand.Text()[:4]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key))
	return &authority{must(x509.ParseCertificate(der)), key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) issue(tmpl *x509.Certificate) *tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	tmpl.SerialNumber = must(rand.Int(rand.Reader, big.NewInt(1<<62)))
	tmpl.NotBefore = time.Now().Add(-time.Hour)
	if tmpl.NotAfter.IsZero() {
		tmpl.NotAfter = time.Now().Add(time.Hour)
	}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der := must(x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key))
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: must(x509.ParseCertificate(der))}
}

// present shows a certificate to every server that asks, whichever authorities it names.
func present(c *tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
}

// write writes NAME.pem and NAME.key.
func (*authority) write(dir, name string, c *tls.Certificate) {
	key := must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))
	writeFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	writeFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

func (a *authority) writeCA(path string) {
	writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

func writeFile(path string, b []byte) {
	if err := os.WriteFile(path, b, 0o600); err != nil {
		panic(err)
	}
}

var errTest = errors.New("test")

func format(v any) string { return fmt.Sprintf("%v %+v %#v %s %q %x", v, v, v, v, v, v) }

// certificate is a client's with a URI.
func certificate(uri string) *x509.Certificate {
	return &x509.Certificate{URIs: []*url.URL{must(url.Parse(uri))}}
}
