package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/parley-a2a/parley/internal/netguard"
)

// Credential is what a client shows to an agent.
type Credential struct {
	// Origins are the scheme, host and port, such as https://agent.example, of the places that the credential is for: one,
	// or several where the same agent has its bindings at several ports. They are what the operator names, never what a card
	// says.
	Origins []string
	// Source gives the secret.
	Source TokenSource
	// Header that the secret goes into: Authorization, behind the word Bearer, or another, such as X-API-Key, by itself.
	Header string
	// Cleartext lets an origin be http beyond loopback, where everybody on the way can read the secret.
	Cleartext bool
}

// Credentials adds credentials to requests: each to those for its origins only, never to one that a redirect caused. A
// request for another origin goes out without. It is for client.Options:
//
//	opts := client.Options{HTTP: creds.HTTP(nil), GRPC: creds.GRPC()}
type Credentials struct {
	byOrigin map[string][]*bound
}

// bound is a credential at one of its origins.
type bound struct {
	origin, header string
	kept           *kept
}

// NewCredentials returns the credentials. An origin may have several, in different headers.
func NewCredentials(list ...Credential) (*Credentials, error) {
	c := &Credentials{byOrigin: make(map[string][]*bound)}
	for _, cred := range list {
		header := http.CanonicalHeaderKey(cmp.Or(cred.Header, "Authorization"))
		if err := checkHeader(header); err != nil {
			return nil, err
		}
		if cred.Source == nil || len(cred.Origins) == 0 {
			return nil, errors.New("auth: a credential needs Origins and a Source")
		}
		token := &kept{source: cred.Source, now: time.Now}
		for _, o := range cred.Origins {
			origin, err := parseOrigin(o, cred.Cleartext)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(c.byOrigin[origin], func(b *bound) bool { return b.header == header }) {
				return nil, fmt.Errorf("auth: two credentials for %s are in %s: give one", origin, header)
			}
			c.byOrigin[origin] = append(c.byOrigin[origin], &bound{origin, header, token})
		}
	}
	return c, nil
}

// parseOrigin returns the origin in its one form.
func parseOrigin(s string, cleartext bool) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return "", errors.New("auth: an origin is a scheme, a host and perhaps a port, such as https://agent.example:8443")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return "", fmt.Errorf("auth: an origin begins with https:// or http://, not with %q", u.Scheme)
	case !cleartext && !isLoopback(u.Hostname()):
		return "", fmt.Errorf("auth: %s is not encrypted: name an https origin, or set Credential.Cleartext", netguard.Origin(u))
	}
	return netguard.Origin(u), nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// value returns what goes into the header.
func (b *bound) value(ctx context.Context) (string, Token, error) {
	token, err := b.kept.token(ctx)
	if err != nil {
		return "", token, fmt.Errorf("auth: the credential for %s: %w", b.origin, err)
	}
	text := token.Secret.Reveal()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", token, fmt.Errorf("auth: the credential for %s is empty or not printable ASCII", b.origin)
	}
	if b.header == "Authorization" {
		text = bearer + " " + text
	}
	return text, token, nil
}

// HTTP returns a client like base that shows the credentials and follows no redirect. A nil base is one over a copy of
// http.DefaultTransport.
func (c *Credentials) HTTP(base *http.Client) *http.Client {
	if base == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // a compressed stream waits in buffers on its way
		base = &http.Client{Transport: t}
	}
	out := *base
	out.Transport = c.Transport(base.Transport)
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// Transport returns base, or http.DefaultTransport, with the credentials.
func (c *Credentials) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{c, base}
}

type transport struct {
	creds *Credentials
	base  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	list := t.creds.byOrigin[netguard.Origin(r.URL)]
	if len(list) == 0 || r.Response != nil { // a request that a redirect caused has the response that did
		return t.base.RoundTrip(r)
	}
	out := r.Clone(r.Context())
	used := make([]Token, len(list))
	for i, b := range list {
		value, token, err := b.value(r.Context())
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // RoundTrip always does
			}
			return nil, err
		}
		out.Header[b.header] = []string{value}
		used[i] = token
	}
	res, err := t.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusUnauthorized {
		for i, b := range list {
			b.kept.drop(used[i])
		}
	}
	res.Request = r // which has no secret
	return res, nil
}

// GRPC returns the options for gRPC connections that show the credentials. Those for an https origin go over TLS only.
func (c *Credentials) GRPC() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithPerRPCCredentials(perRPC{c})}
}

type perRPC struct{ creds *Credentials }

// RequireTransportSecurity implements credentials.PerRPCCredentials. GetRequestMetadata sees to it, as it depends on the
// origin.
func (perRPC) RequireTransportSecurity() bool { return false }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (p perRPC) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	if len(uri) == 0 {
		return nil, nil
	}
	u, err := url.Parse(uri[0])
	if err != nil {
		return nil, nil //nolint:nilerr // what is no URL is no origin that a credential is for
	}
	// The URI says https whatever the connection is, and leaves out the port 443.
	info, _ := credentials.RequestInfoFromContext(ctx)
	if u.Port() == "" {
		u.Host += ":443"
	}
	if credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity) != nil {
		u.Scheme = "http"
	}
	md := make(map[string]string)
	for _, b := range p.creds.byOrigin[netguard.Origin(u)] {
		value, _, err := b.value(ctx)
		if err != nil {
			return nil, err
		}
		md[strings.ToLower(b.header)] = value
	}
	return md, nil
}

// kept is a token that is used until shortly before its expiry.
type kept struct {
	source TokenSource
	now    func() time.Time

	mu    sync.Mutex
	busy  chan struct{} // closed when the fetch that runs is over; nil: none runs
	value Token
}

// token returns the token, and fetches one if there is none. Callers wait for one fetch.
func (k *kept) token(ctx context.Context) (Token, error) {
	for {
		k.mu.Lock()
		if k.value.good(k.now()) {
			defer k.mu.Unlock()
			return k.value, nil
		}
		busy := k.busy
		if busy == nil {
			k.busy = make(chan struct{})
			k.mu.Unlock()
			return k.fetch(ctx)
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return Token{}, ctx.Err()
		}
	}
}

func (k *kept) fetch(ctx context.Context) (Token, error) {
	token, err := k.source.Token(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.value = token
	}
	close(k.busy)
	k.busy = nil
	return token, err
}

// drop forgets a token that was refused.
func (k *kept) drop(token Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.value.Secret.Reveal() == token.Secret.Reveal() {
		k.value = Token{}
	}
}
