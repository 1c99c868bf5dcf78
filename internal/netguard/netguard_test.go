package netguard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// listen returns the port of a listener on all local addresses and how many connections it got.
func listen(t *testing.T) (port string, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	l, err := net.Listen("tcp", ":0") // every form of a local address can reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			c.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, conns
}

// names returns a resolver that asks a real server on loopback, which answers every question for a name's
// address with the next of the addresses, the last of them for ever.
func names(t *testing.T, addrs ...string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addrs[0]).As4()},
				}}
				if len(addrs) > 1 {
					addrs = addrs[1:]
				}
			}
			if b, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(b, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func get(t *testing.T, g *Guard, u string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g.Transport().RoundTrip(req)
}

// privateHosts are the forms that an address which is not public can have (docs/threats.md, B2).
var privateHosts = []string{
	"127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255",
	"[::]", "[::1]", "[fe80::1]", "[fe80::1%25lo]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]",
	"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:8.8.8.8]", "[::127.0.0.1]",
	"[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001::1]", "[2001:db8::1]", "[100::1]",
	"0", "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "127.000.000.001",
	"localhost", "LocalHost", "localhost.", "a.localhost", "１２７.0.0.1", "ⓛocalhost",
}

func TestPrivateAddresses(t *testing.T) {
	port, conns := listen(t)
	g := New(Options{AnyPort: true})
	for _, host := range privateHosts {
		u := "https://" + host + ":" + port + "/"
		if _, err := g.Check(t.Context(), u); !errors.Is(err, ErrRefused) {
			t.Errorf("Check(%s) = %v", u, err)
		}
		if strings.HasPrefix(host, "[::ffff:8") {
			continue // harmless once connected to: it is that public address
		}
		if res, err := get(t, g, u); err == nil {
			res.Body.Close()
			t.Errorf("%s was requested", u)
		}
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	if c, err := net.Dial("tcp", "127.0.0.1:"+port); err != nil {
		t.Error("the listener cannot be reached at all:", err)
	} else {
		c.Close()
	}
}

func TestCheck(t *testing.T) {
	g, dev := New(Options{Resolver: names(t, "8.8.8.8")}), New(Options{AllowPrivate: true})
	for _, u := range []string{"https://8.8.8.8/a?b=c", "https://8.8.8.8:443", "https://[2606:4700::1]/", "https://client.example/hook", "HTTPS://client.example"} {
		if _, err := g.Check(t.Context(), u); err != nil {
			t.Errorf("Check(%s) = %v", u, err)
		}
	}
	for _, u := range []string{"http://127.0.0.1:80/", "https://[::1]/", "http://10.0.0.1", "http://localhost:8080/x"} {
		if _, err := dev.Check(t.Context(), u); err != nil {
			t.Errorf("with AllowPrivate: Check(%s) = %v", u, err)
		}
	}
	const secret = "hunter2"
	for u, want := range map[string]string{
		"":                                               "https://",
		"client.example/hook":                            "https://",
		"http://client.example/":                         "https://",
		"ftp://client.example/":                          "https://",
		"file:///etc/passwd":                             "https://",
		"https:///" + secret:                             "no host",
		"https:client.example":                           "no host",
		"https://:443/":                                  "no host",
		"https://" + secret + "@client.example":          "user name",
		"https://u:" + secret + "@8.8.8.8/":              "user name",
		"https://8.8.8.8/#" + secret:                     "fragment",
		"https://8.8.8.8/#":                              "fragment",
		"https://8.8.8.8:0/":                             "port",
		"https://8.8.8.8:65536/":                         "port",
		"https://8.8.8.8:8443/":                          "443",
		"https://8.8.8.8:" + secret:                      "not a URL",
		"https://8.8.8.8/%zz" + secret:                   "not a URL",
		"https://8.8.8.8/" + strings.Repeat("a", maxURL): "2048",
	} {
		_, err := g.Check(t.Context(), u)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("Check(%.60s) = %v, want an error with %q", u, err, want)
		}
	}
	for _, u := range []string{"http://169.254.169.254/", "http://0.0.0.0/", "http://100.64.0.1/", "http://[fe80::1]/", "ftp://127.0.0.1/", "http://2130706433/"} {
		if _, err := dev.Check(t.Context(), u); !errors.Is(err, ErrRefused) {
			t.Errorf("with AllowPrivate: Check(%s) = %v", u, err)
		}
	}
}

// TestPort: other ports are for URLs that an operator named, and are no way around the check at the dial.
func TestPort(t *testing.T) {
	port, conns := listen(t)
	if res, err := get(t, New(Options{}), "https://127.0.0.1:"+port); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "443") {
		t.Errorf("got %v, %v", res, err)
	}
	if _, err := New(Options{AnyPort: true}).Check(t.Context(), "https://8.8.8.8:8443"); err != nil {
		t.Errorf("with AnyPort: %v", err)
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestNameThatResolvesAnew(t *testing.T) {
	port, conns := listen(t)
	g := New(Options{AnyPort: true, Resolver: names(t, "8.8.8.8", "127.0.0.1")})
	u := "https://client.example:" + port + "/"
	if _, err := g.Check(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if res, err := get(t, g, u); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, %v", res, err)
	}
	if _, err := g.Check(t.Context(), u); !errors.Is(err, ErrRefused) {
		t.Errorf("a name that now leads to loopback: %v", err)
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestUnknownNameIsNoObjection(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	g := New(Options{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", silent.LocalAddr().String())
	}}})
	start := time.Now()
	if _, err := g.Check(t.Context(), "https://client.example/"); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestPlainHTTP(t *testing.T) {
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer srv.Close()
	if _, err := get(t, New(Options{}), srv.URL); !errors.Is(err, ErrRefused) || hits.Load() != 0 {
		t.Errorf("got %v after %d hits", err, hits.Load())
	}
	if _, err := get(t, New(Options{}), "http://8.8.8.8/"); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("got %v", err)
	}
	res, err := get(t, New(Options{AllowPrivate: true}), srv.URL)
	if err != nil || hits.Load() != 1 {
		t.Fatalf("got %v after %d hits", err, hits.Load())
	}
	res.Body.Close()
}

// What is let through works as usual: TLS, and HTTP/2 where the other end has it.
func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	rt := New(Options{AllowPrivate: true}).Transport().(transport)
	rt.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.ProtoMajor != 2 {
		t.Errorf("got %s", res.Proto)
	}
}

func TestRedirect(t *testing.T) {
	var hits atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer target.Close()
	srv := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	res, err := New(Options{AllowPrivate: true}).Client(10 * time.Second).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusTemporaryRedirect || hits.Load() != 0 {
		t.Errorf("got %d, the target had %d hits", res.StatusCode, hits.Load())
	}
}

// The environment's proxies are read once in a process, so a test of what is asked proves nothing.
func TestNoProxy(t *testing.T) {
	if New(Options{}).Transport().(transport).Proxy != nil {
		t.Error("there is a proxy")
	}
}

func TestOrigin(t *testing.T) {
	for raw, want := range map[string]string{
		"https://Client.Example/hook?k=secret": "https://client.example",
		"https://client.example:443/":          "https://client.example",
		"https://client.example:8443/":         "https://client.example:8443",
		"http://127.0.0.1:80/":                 "http://127.0.0.1",
		"https://[2606:4700::1]/":              "https://[2606:4700::1]",
		"https://[2606:4700::1]:8443/":         "https://[2606:4700::1]:8443",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := Origin(u); got != want {
			t.Errorf("Origin(%s) = %s, want %s", raw, got, want)
		}
	}
}
