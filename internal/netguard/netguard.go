// Package netguard makes requests to addresses that somebody else chose: webhooks, cards, key sets. It
// keeps them away from what is not public: the check stands at the dial, on the address that is connected
// to, so that no name, form or redirect gets around it.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// ErrRefused is in every error that says that an address or a URL is not to be requested.
var ErrRefused = errors.New("refused")

// maxURL is the longest URL that is taken, in bytes.
const maxURL = 2048

// lookupTime is how long a check waits for the addresses of a name.
const lookupTime = time.Second

// Options are what a guard lets through. The zero value lets only https to port 443 of public addresses through.
type Options struct {
	// AnyPort lets other ports through, for URLs that an operator named or allows.
	AnyPort bool
	// AllowPrivate lets plain http, any port, loopback and private addresses through, for development. Link-local
	// addresses, where clouds keep their credentials, stay closed.
	AllowPrivate bool
	// Resolver finds the addresses of names; nil: net.DefaultResolver.
	Resolver *net.Resolver
}

// Guard decides which addresses may be requested. It is safe for concurrent use.
type Guard struct {
	private  bool
	anyPort  bool
	resolver *net.Resolver
	addrs    *ssrf.Guardian
}

// New returns a guard.
func New(opts Options) *Guard {
	rules := []ssrf.Option{ssrf.WithAnyPort()}
	if opts.AllowPrivate {
		rules = append(rules, ssrf.WithAllowedV4Prefixes(
			netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"),
			netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		), ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7")))
	}
	g := &Guard{private: opts.AllowPrivate, anyPort: opts.AnyPort || opts.AllowPrivate, resolver: opts.Resolver, addrs: ssrf.New(rules...)}
	if g.resolver == nil {
		g.resolver = net.DefaultResolver
	}
	return g
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// control is asked with the address of every connection before it is made.
func (g *Guard) control(network, address string, c syscall.RawConn) error {
	if err := g.addrs.Safe(network, address, c); err != nil {
		return refused("%s is not a public address", address)
	}
	return nil
}

// transport is an http.Transport that knows which schemes it serves.
type transport struct {
	*http.Transport
	guard *Guard
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.guard.door(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // RoundTrip always does
		}
		return nil, err
	}
	return t.Transport.RoundTrip(r)
}

// Transport returns a new transport behind the guard. It uses no proxy and, as it is used without a client, follows no
// redirect. Its requests are bounded only by their contexts.
func (g *Guard) Transport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Resolver: g.resolver, Control: g.control}
	return transport{guard: g, Transport: &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // a small answer must not become a big one
	}}
}

// Client returns a client behind the guard that follows no redirect: it returns the response that asks for one.
func (g *Guard) Client(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport:     g.Transport(),
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Check returns the URL, or an error that says what is wrong with it and what to do, as far as that can be
// known before a connection is made. It looks the host's name up once; no answer within a second is no
// objection. The error does not repeat the URL, which may hold a secret.
func (g *Guard) Check(ctx context.Context, raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, refused("at most %d bytes are taken, got %d", maxURL, len(raw))
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refused("not a URL: give an absolute one, such as https://client.example/hook")
	}
	if err := g.door(u); err != nil {
		return nil, err
	}
	switch {
	case u.Hostname() == "":
		return nil, refused("no host: give an absolute URL, such as https://client.example/hook")
	case u.User != nil:
		return nil, refused("a user name or password in a URL is not taken: use the fields for credentials")
	case strings.Contains(raw, "#"):
		return nil, refused("a fragment is never sent: leave out # and what follows")
	case !validPort(u.Port()):
		return nil, refused("the port must be a number from 1 to 65535")
	}
	return u, g.host(ctx, u.Hostname())
}

// door checks the scheme and the port.
func (g *Guard) door(u *url.URL) error {
	switch {
	case u.Scheme != "https" && !g.private:
		return refused("must begin with https://")
	case u.Scheme != "https" && u.Scheme != "http":
		return refused("must begin with https:// or http://")
	case u.Port() != "" && u.Port() != "443" && !g.anyPort:
		return refused("the port must be 443, unless the operator allows another")
	}
	return nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n != 0
}

func (g *Guard) host(ctx context.Context, host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.literal(addr)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r > 0x7e }):
		return refused("write the host in ASCII, a name of other letters as xn--…")
	case endsInNumber(name):
		return refused("the host is neither a name nor an address in the usual form: write four decimal numbers, or a name")
	case !g.private && (name == "localhost" || strings.HasSuffix(name, ".localhost")):
		return refused("localhost is not public: give a URL that this host can reach over the internet")
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil || len(addrs) == 0 {
		return nil
	}
	for _, a := range addrs {
		if g.addrs.SafeAddr(a.Unmap()) == nil {
			return nil
		}
	}
	return refused("the host's name leads to no public address: give a URL that this host can reach over the internet")
}

func (g *Guard) literal(addr netip.Addr) error {
	if g.addrs.SafeAddr(addr) != nil {
		return refused("%s is not a public address: give a URL that this host can reach over the internet", addr)
	}
	return nil
}

// endsInNumber reports whether some resolver would take the host for an IPv4 address: its last label is a
// number, decimal or hexadecimal.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// Origin returns the scheme, host and port of a URL, without what it may keep secret.
func Origin(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" || u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return u.Scheme + "://" + host
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port)
}
