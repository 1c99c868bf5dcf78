package parley

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/limits"
)

// front is what callers meet: a host under one configuration, at one pair of addresses. It does not change: another
// configuration or address makes another one, and calls that are under way go on behind the one that they came by.
type front struct {
	given Config // by who made or changed the host
	cfg   Config // with what Auth stands for
	place place
	svc   a2a.Service      // the server behind limits, perhaps wrapped
	admit a2a.Authenticate // finds out who calls and counts the request
	mux   http.Handler

	limiter *limits.Limiter
	card    *a2a.AgentCard
	json    *document // the card
	catalog *document
	hosts   map[string]bool // Host headers that are ours
}

// place is where a host is called: the addresses that are listened at, and in a group the agent's word on gRPC.
type place struct{ http, grpc, tenant string }

// Card returns the agent's card. It must not be changed.
func (h *Host) Card() *a2a.AgentCard { return h.front.Load().card }

// open makes the front for a configuration and a place, with a card that is signed with all of the keys.
func (h *Host) open(cfg Config, at place) (*front, error) {
	f := &front{given: cfg, cfg: cfg.withAuth(), place: at}
	if err := f.announce(); err != nil {
		return nil, err
	}
	f.limiter = h.limited(f.cfg.Rates, cfg.Public)
	f.svc = f.limiter.Service(h.server)
	f.admit = f.cfg.wrapAuthenticate(f.limiter.Authenticate(f.cfg.Authenticate))
	if cfg.Auth != nil {
		f.svc = cfg.Auth.Service(f.svc)
	}
	if cfg.Wrap != nil {
		f.svc = cfg.Wrap(f.svc)
	}
	if err := f.routes(h.serveReady); err != nil {
		return nil, err
	}
	return f, nil
}

// move makes the card for the addresses that are listened at.
func (h *Host) move(at place) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.replace(h.front.Load().given, at)
}

func (h *Host) replace(cfg Config, at place) error {
	f, err := h.open(cfg, at)
	if err == nil {
		h.front.Store(f)
	}
	return err
}

// announce makes the card.
func (f *front) announce() error {
	card, hosts, err := f.buildCard()
	if err != nil {
		return err
	}
	if err := f.sign(card); err != nil {
		return err
	}
	f.card, f.hosts = card, hosts
	f.json = newDocument("application/json", card.AppendJSON(nil))
	f.catalog = newCatalog(listed{base: f.cfg.base(f.place.http), card: card})
	return nil
}

// sign signs a card unless there is nothing to sign with.
func (f *front) sign(card *a2a.AgentCard) error {
	if len(f.cfg.CardKeys) == 0 {
		return nil
	}
	return agentcard.Sign(card, f.cfg.CardKeys...)
}

// base returns the URL below which the host is reached over HTTP, without a slash at its end; empty if it is not.
func (c *Config) base(httpAddr string) string {
	switch {
	case c.PublicURL != "":
		return strings.TrimRight(c.PublicURL, "/")
	case httpAddr != NoListen:
		return scheme(c.TLS) + reachable(httpAddr)
	}
	return ""
}

// grpcTarget returns how a card names a gRPC listener.
func (c *Config) grpcTarget(addr string) string {
	if addr == "" {
		return ""
	}
	target := reachable(addr)
	if host, _, _ := net.SplitHostPort(target); c.TLS != nil && isLoopback(host) {
		return "https://" + target // by itself a loopback address means plaintext
	}
	return target
}

func (f *front) buildCard() (*a2a.AgentCard, map[string]bool, error) {
	c, httpAddr, grpcAddr := &f.cfg, f.place.http, f.place.grpc
	streaming, push, extended := !c.NoStreaming, c.Push != nil, c.ExtendedCard != nil
	card := &a2a.AgentCard{
		Name: c.Name, Description: c.Description, Version: c.Version, Provider: c.Provider,
		Capabilities: a2a.AgentCapabilities{
			Streaming: &streaming, PushNotifications: &push, ExtendedAgentCard: &extended,
			Extensions: append(c.extensions(), c.Extensions...),
		},
		SecuritySchemes: c.SecuritySchemes, SecurityRequirements: c.SecurityRequirements,
		DefaultInputModes: c.DefaultInputModes, DefaultOutputModes: c.DefaultOutputModes, Skills: c.Skills,
	}
	if c.DocumentationURL != "" {
		card.DocumentationURL = &c.DocumentationURL
	}
	if c.IconURL != "" {
		card.IconURL = &c.IconURL
	}
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	if base := c.base(httpAddr); base != "" {
		u, err := publicURL(base, "http", "https")
		if err != nil {
			return nil, nil, err
		}
		hosts[u.Hostname()] = true
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2a.AgentInterface{URL: base + "/", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: a2a.Version},
			&a2a.AgentInterface{URL: base + "/a2a/rest", ProtocolBinding: a2a.BindingREST, ProtocolVersion: a2a.Version})
	}
	grpcURL := c.PublicGRPCURL
	if grpcURL != "" {
		if err := checkTarget(grpcURL); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case grpcURL == "" && grpcAddr != NoListen:
		grpcURL = c.grpcTarget(grpcAddr)
	case !strings.Contains(grpcURL, "://"):
		grpcURL = c.grpcTarget(grpcURL)
	}
	if grpcURL != "" {
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2a.AgentInterface{URL: grpcURL, ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: a2a.Version, Tenant: f.place.tenant})
	}
	if len(card.SupportedInterfaces) == 0 {
		return nil, nil, errors.New("parley: nothing to serve: neither Listen nor GRPCListen is an address")
	}
	if host, _, err := net.SplitHostPort(httpAddr); err == nil && !isUnspecified(host) {
		hosts[host] = true
	}
	return card, hosts, nil
}

// publicURL reads a URL that everybody will read in the card. What may hold a secret is not repeated in the error.
func publicURL(s string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err == nil && u.User != nil, err != nil && strings.Contains(s, "@"):
		return nil, errors.New("parley: the public URL has a user name or a password in it, and everybody reads it in the card: leave it out")
	case strings.ContainsAny(s, "?#"):
		return nil, errors.New("parley: the public URL has a query or a fragment, and what is called stands below it: leave it out")
	case err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "":
		return nil, fmt.Errorf("parley: the public URL %q is not an absolute %s URL", s, strings.Join(schemes, " or "))
	}
	return u, nil
}

// checkTarget returns an error for what cannot be the public address of gRPC: host:port, or a URL.
func checkTarget(target string) error {
	if !strings.Contains(target, "://") {
		target = "grpc://" + target
	}
	_, err := publicURL(target, "grpc", "http", "https")
	return err
}

func scheme(c *tls.Config) string {
	if c != nil {
		return "https://"
	}
	return "http://"
}

// reachable returns an address that a caller on this machine can dial, for one that may be 0.0.0.0.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !isUnspecified(host) {
		return addr
	}
	return net.JoinHostPort("127.0.0.1", port)
}

func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// extendedCard returns the card for a caller (specification 3.1.11): what Config.ExtendedCard says, filled up from the
// public card, and signed.
func (h *Host) extendedCard(ctx context.Context, caller a2a.Caller) (*a2a.AgentCard, error) {
	if caller.Anonymous() { // 13.3
		return nil, a2a.Errorf(a2a.ErrUnauthenticated,
			"the extended agent card is for callers who authenticate, by one of the card's securitySchemes")
	}
	f := h.front.Load()
	if f.cfg.ExtendedCard == nil {
		return nil, a2a.ErrExtendedAgentCardNotConfigured
	}
	card, err := f.cfg.ExtendedCard(ctx, caller)
	if err != nil {
		return nil, err
	}
	if card == nil {
		return nil, a2a.ErrExtendedAgentCardNotConfigured
	}
	out := fillUp(*card, f.card)
	if err := f.sign(out); err != nil {
		return nil, err
	}
	return out, nil
}

// fillUp returns an extended card that has what it leaves empty from the public one, but for its signatures.
func fillUp(c a2a.AgentCard, public *a2a.AgentCard) *a2a.AgentCard {
	orElse(&c.Name, public.Name)
	orElse(&c.Description, public.Description)
	orElse(&c.Version, public.Version)
	orElse(&c.Provider, public.Provider)
	orElse(&c.DocumentationURL, public.DocumentationURL)
	orElse(&c.IconURL, public.IconURL)
	if p := &c.Capabilities; p.Streaming == nil && p.PushNotifications == nil && p.ExtendedAgentCard == nil && p.Extensions == nil {
		*p = public.Capabilities
	}
	if c.SecuritySchemes == nil {
		c.SecuritySchemes = public.SecuritySchemes
	}
	listOrElse(&c.SupportedInterfaces, public.SupportedInterfaces)
	listOrElse(&c.SecurityRequirements, public.SecurityRequirements)
	listOrElse(&c.DefaultInputModes, public.DefaultInputModes)
	listOrElse(&c.DefaultOutputModes, public.DefaultOutputModes)
	listOrElse(&c.Skills, public.Skills)
	return &c
}

func orElse[T comparable](v *T, other T) {
	var zero T
	if *v == zero {
		*v = other
	}
}

func listOrElse[T any](v *[]T, other []T) {
	if *v == nil {
		*v = other
	}
}

// ScopedSkill is a skill that not every caller is told of.
type ScopedSkill struct {
	*a2a.AgentSkill
	Scopes []string // all of which a caller must have; none: every caller who authenticates is told
}

// SkillsByScope returns a Config.ExtendedCard that differs from the public card only in the skills: a caller is told of
// those of the list whose scopes the credential has, in the order of the list. Skills of the public card have to be
// listed too. A caller to whom that leaves none is told of the public ones.
func SkillsByScope(skills ...ScopedSkill) func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
	return func(_ context.Context, caller a2a.Caller) (*a2a.AgentCard, error) {
		lacks := func(scope string) bool { return !slices.Contains(caller.Scopes, scope) }
		card := new(a2a.AgentCard)
		for _, s := range skills {
			if !slices.ContainsFunc(s.Scopes, lacks) {
				card.Skills = append(card.Skills, s.AgentSkill)
			}
		}
		return card, nil
	}
}

// document is what everybody may read, with what HTTP says of it. It does not change.
type document struct {
	mediaType string
	link      string // the Link header; empty for none
	body      []byte
	etag      string
	since     time.Time
}

func newDocument(mediaType string, body []byte) *document {
	sum := sha256.Sum256(body)
	return &document{mediaType: mediaType, body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, since: time.Now()}
}

// ServeHTTP answers GET and HEAD, with the conditions and ranges of RFC 9110.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		plain(w, http.StatusMethodNotAllowed, "this is read with GET")
		return
	}
	hd := w.Header()
	hd.Set("Content-Type", d.mediaType)
	hd.Set("Cache-Control", "public, max-age=300")
	hd.Set("ETag", d.etag)
	hd.Set("X-Content-Type-Options", "nosniff")
	if d.link != "" {
		hd.Set("Link", d.link)
	}
	http.ServeContent(w, r, "", d.since, bytes.NewReader(d.body))
}

// guard keeps browsers from driving a host: the Host header must be one of ours, so that a name that was
// bound anew reaches nothing, and a page of another origin is refused. Probes name the host by an address of their own
// choice, or not at all: who asks whether it lives and is ready gets an answer by any name.
func (f *front) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; !probe && !f.ours(r.Host) {
			plain(w, http.StatusForbidden, "this host does not answer to that Host header; set the public URL (PUBLIC_URL) to the name it is reached by")
			return
		}
		if o := r.Header.Get("Origin"); o != "" {
			u, err := url.Parse(o)
			if err != nil || u.Host != r.Host { // a page of another port is another origin
				plain(w, http.StatusForbidden, "requests from web pages of other origins are refused")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (f *front) ours(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return f.hosts[strings.ToLower(host)]
}

// RoutingWord makes an agent's routing word from its name, as Config.AgentName has by default: what is no letter, digit, -
// or _ becomes -.
func RoutingWord(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "agent"
}
