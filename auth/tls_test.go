package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
)

func localhost() *x509.Certificate {
	return &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

// tlsServer serves who is at the other end.
func tlsServer(t *testing.T, opts auth.ServerTLSOptions) *httptest.Server {
	t.Helper()
	config, err := auth.ServerTLS(opts)
	if err != nil {
		t.Fatal(err)
	}
	c := auth.NewCertificates(auth.CertificateOptions{Allow: func(subject string, _ *x509.Certificate) (string, []string, bool) {
		return "acme", []string{"s"}, subject != "dns:banned"
	}})
	a := must(auth.Any(quiet(), c))
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := &a2a.CallInfo{Header: r.Header, TLS: r.TLS}
		if err := a.Authenticate(r.Context(), info); err != nil {
			w.WriteHeader(a2a.AsError(err).Code.HTTP())
			return
		}
		_, _ = io.WriteString(w, info.Caller.Tenant+" "+info.Caller.Subject)
	}))
	srv.TLS = config
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// who connects anew and returns what the server says, and its certificate.
func who(url string, config *tls.Config) (string, *x509.Certificate, error) {
	tr := &http.Transport{TLSClientConfig: config}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		return "", nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		b = fmt.Appendf(nil, "HTTP %d", res.StatusCode)
	}
	return string(b), res.TLS.PeerCertificates[0], err
}

func TestCertificates(t *testing.T) {
	dir, ca, rogue := t.TempDir(), newAuthority(), newAuthority()
	ca.write(dir, "server", ca.issue(localhost()))
	ca.writeCA(filepath.Join(dir, "ca.pem"))
	srv := tlsServer(t, auth.ServerTLSOptions{
		CertFile: filepath.Join(dir, "server.pem"), KeyFile: filepath.Join(dir, "server.key"), ClientCAFile: filepath.Join(dir, "ca.pem"),
	})
	spiffe := certificate("spiffe://acme/a")
	spiffe.DNSNames = []string{"a.example"}
	for want, cert := range map[string]*tls.Certificate{
		"acme uri:spiffe://acme/a":  ca.issue(spiffe),
		"acme dns:b.example":        ca.issue(&x509.Certificate{DNSNames: []string{"b.example", "c.example"}}),
		"acme email:c@acme.example": ca.issue(&x509.Certificate{EmailAddresses: []string{"c@acme.example"}}),
		"acme dn:CN=d,O=Acme":       ca.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "d", Organization: []string{"Acme"}}}),
		"HTTP 401":                  ca.issue(&x509.Certificate{DNSNames: []string{"banned"}}),
		"":                          rogue.issue(spiffe),
	} {
		got, _, err := who(srv.URL, &tls.Config{RootCAs: ca.pool(), GetClientCertificate: present(cert)})
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	nameless := ca.issue(&x509.Certificate{})
	if got, _, _ := who(srv.URL, &tls.Config{RootCAs: ca.pool(), GetClientCertificate: present(nameless)}); got != "HTTP 401" {
		t.Errorf("a certificate without a name: %q", got)
	}
	if got, _, _ := who(srv.URL, &tls.Config{RootCAs: ca.pool()}); got != "HTTP 401" {
		t.Errorf("no certificate: %q", got)
	}
	if _, _, err := who(srv.URL, &tls.Config{RootCAs: ca.pool(), MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 was spoken")
	}
}

// A certificate that the server asked for but did not verify is nobody's.
func TestUnverifiedCertificate(t *testing.T) {
	ca := newAuthority()
	a := must(auth.Any(quiet(), auth.NewCertificates(auth.CertificateOptions{})))
	var code a2a.ErrorCode
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		code = codeOf(a.Authenticate(r.Context(), &a2a.CallInfo{Header: r.Header, TLS: r.TLS}))
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{*ca.issue(localhost())}}
	srv.StartTLS()
	defer srv.Close()
	cert := ca.issue(certificate("spiffe://acme/a"))
	_, _, err := who(srv.URL, &tls.Config{RootCAs: ca.pool(), GetClientCertificate: present(cert)})
	if err != nil || code != a2a.ErrUnauthenticated {
		t.Errorf("%v, %v", err, code)
	}
}

func TestServerTLS(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority()
	ca.write(dir, "server", ca.issue(localhost()))
	ca.writeCA(filepath.Join(dir, "ca.pem"))
	files := auth.ServerTLSOptions{
		CertFile: filepath.Join(dir, "server.pem"), KeyFile: filepath.Join(dir, "server.key"), ClientCAFile: filepath.Join(dir, "ca.pem"),
	}
	opts := files
	opts.RequireClient, opts.TLS12 = true, true
	srv := tlsServer(t, opts)
	if _, _, err := who(srv.URL, &tls.Config{RootCAs: ca.pool()}); err == nil {
		t.Error("a connection without the certificate that is required")
	}
	cert := ca.issue(certificate("spiffe://acme/a"))
	if got, _, err := who(srv.URL, &tls.Config{RootCAs: ca.pool(), GetClientCertificate: present(cert), MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2, let in: %q, %v", got, err)
	}
	for name, change := range map[string]func(*auth.ServerTLSOptions){
		"no certificate": func(o *auth.ServerTLSOptions) { o.CertFile = "" },
		"no key":         func(o *auth.ServerTLSOptions) { o.KeyFile = "" },
		"no such file":   func(o *auth.ServerTLSOptions) { o.CertFile += "x" },
		"not a pair":     func(o *auth.ServerTLSOptions) { o.CertFile = o.ClientCAFile },
		"no authority":   func(o *auth.ServerTLSOptions) { o.ClientCAFile = o.KeyFile },
		"require of no authority": func(o *auth.ServerTLSOptions) {
			o.ClientCAFile, o.RequireClient = "", true
		},
	} {
		opts := files
		change(&opts)
		if _, err := auth.ServerTLS(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ca.write(dir, "old", ca.issue(&x509.Certificate{NotAfter: time.Now().Add(-time.Minute)}))
	opts = auth.ServerTLSOptions{CertFile: filepath.Join(dir, "old.pem"), KeyFile: filepath.Join(dir, "old.key")}
	if _, err := auth.ServerTLS(opts); err == nil {
		t.Error("an expired certificate was taken")
	}
}

// Changed files are in effect for new connections, half a change never is, and an authority that is taken away no longer
// lets anybody in. The files' own pace (5 s) is waited for, since tls has no other clock.
func TestTLSReload(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for files to be read again")
	}
	dir, ca, second := t.TempDir(), newAuthority(), newAuthority()
	first := ca.issue(localhost())
	ca.write(dir, "server", first)
	ca.writeCA(filepath.Join(dir, "ca.pem"))
	var out log
	srv := tlsServer(t, auth.ServerTLSOptions{
		CertFile: filepath.Join(dir, "server.pem"), KeyFile: filepath.Join(dir, "server.key"), ClientCAFile: filepath.Join(dir, "ca.pem"),
		Log: out.logger(),
	})
	ca.write(dir, "client", ca.issue(certificate("spiffe://acme/a")))
	client := must(auth.ClientTLS(auth.ClientTLSOptions{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "client.key"),
	}))
	until := func(what string, good func(string, *x509.Certificate, error) bool) {
		t.Helper()
		deadline := time.After(15 * time.Second)
		for {
			body, cert, err := who(srv.URL, client)
			if good(body, cert, err) {
				return
			}
			select {
			case <-deadline:
				t.Fatalf("%s: %q, %v", what, body, err)
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	until("at first", func(body string, cert *x509.Certificate, _ error) bool {
		return body == "acme uri:spiffe://acme/a" && cert.Equal(first.Leaf)
	})
	next := ca.issue(localhost())
	ca.write(dir, "server", next)
	ca.write(dir, "client", ca.issue(certificate("spiffe://acme/b")))
	until("changed", func(body string, cert *x509.Certificate, _ error) bool {
		return body == "acme uri:spiffe://acme/b" && cert.Equal(next.Leaf)
	})
	second.writeCA(filepath.Join(dir, "ca.pem"))
	until("another authority", func(_ string, _ *x509.Certificate, err error) bool { return err != nil })
}

func TestClientTLS(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority()
	ca.writeCA(filepath.Join(dir, "ca.pem"))
	if c, err := auth.ClientTLS(auth.ClientTLSOptions{}); err != nil || c.MinVersion != tls.VersionTLS13 || c.InsecureSkipVerify {
		t.Errorf("%v", err)
	}
	for _, opts := range []auth.ClientTLSOptions{
		{CAFile: filepath.Join(dir, "none")},
		{CertFile: filepath.Join(dir, "ca.pem")},
		{KeyFile: filepath.Join(dir, "ca.pem")},
		{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "ca.pem"), KeyFile: filepath.Join(dir, "ca.pem")},
	} {
		if _, err := auth.ClientTLS(opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
}
