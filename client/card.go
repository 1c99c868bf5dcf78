package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
)

// MaxCard is how many bytes a card may have: 256 KiB.
const MaxCard = 256 << 10

// cardTimeout is how long a card may take to arrive.
const cardTimeout = 30 * time.Second

const maxRedirects = 3

// Card is an agent card as it came. It may be shared and must not be changed.
type Card struct {
	*a2a.AgentCard
	Raw []byte // the card's own bytes
	URL string // where it came from: what was asked for, http, https or file

	// Signed is what the card's signatures are worth, where cards are held to a policy ([CardCache.Trust]).
	Signed agentcard.Result
}

// ErrCardNotTrusted says that a card is not one that the policy takes; nothing was sent to where it leads.
var ErrCardNotTrusted = errors.New("an agent card that is not trusted")

// InvalidCardError is ErrCardInvalid of what was read and cannot be understood as a card.
type InvalidCardError struct {
	URL string
	Raw []byte // what was read; nil if it was too much
	err error
}

// Error implements error.
func (e *InvalidCardError) Error() string {
	return fmt.Sprintf("client: agent card %q: %v: %v", e.URL, ErrCardInvalid, e.err)
}

// Unwrap returns ErrCardInvalid and the reason.
func (e *InvalidCardError) Unwrap() []error { return []error{ErrCardInvalid, e.err} }

// FetchCard reads the agent card that ref names (specification 8.2):
//
//   - a file, by its path or as a file:// URL. An existing file wins over a host of the same name.
//   - a host, with or without a port, an origin, or an address that ends in a slash, such as that of one of several
//     agents of a host: the card is at [a2a.CardPath] below it. A loopback host without a scheme is asked over http, any
//     other over https.
//   - the full URL of a card, which is used as it is.
//
// The card must be JSON of at most [MaxCard] bytes and arrive within 30 s; its media type does not matter. At most three
// redirects are followed, within the same origin or to https. Of the options HTTP and Cache are used.
//
// The error is ErrUnreachable when no answer came, ErrCardNotFound when it was not a card but an HTTP status or a
// redirect elsewhere, ErrCardInvalid when it cannot be read as a card (an [*InvalidCardError]), and ErrCardNotTrusted
// when it can, and the cache's Trust does not take it. A card in a file is not held to that: whoever named it has it in
// hand.
func FetchCard(ctx context.Context, ref string, opts Options) (*Card, error) {
	u, err := resolve(ref)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return readCard(u)
	}
	return download(ctx, u, &opts)
}

// resolve returns the URL of the card that ref names.
func resolve(ref string) (*url.URL, error) {
	if info, err := os.Stat(ref); err == nil && !info.IsDir() || strings.HasPrefix(ref, ".") || filepath.IsAbs(ref) {
		path, err := filepath.Abs(ref)
		if err != nil {
			return nil, fmt.Errorf("client: agent card %q: %w: %w", ref, ErrCardNotFound, err)
		}
		return &url.URL{Scheme: "file", Path: filepath.ToSlash(path)}, nil
	}
	full := ref
	if !strings.Contains(ref, "://") {
		full = "https://" + ref
	}
	u, err := url.Parse(full)
	wrong := ""
	switch {
	case err != nil:
		wrong = errors.Unwrap(err).Error()
	case u.User != nil:
		return nil, fmt.Errorf("client: agent card: %w: an address is no place for credentials", ErrCardNotFound)
	case u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && u.Path != "":
		return u, nil
	case u.Scheme != "http" && u.Scheme != "https":
		wrong = "the scheme is none of https, http and file"
	case u.Hostname() == "":
		wrong = "it names neither a host nor a file"
	}
	if wrong != "" {
		return nil, fmt.Errorf("client: agent card %q: %w: %s", ref, ErrCardNotFound, wrong)
	}
	if full != ref && thisMachine(u.Hostname()) {
		u.Scheme = "http"
	}
	if u.Path == "" || strings.HasSuffix(u.Path, "/") {
		u.Path = strings.TrimSuffix(u.Path, "/") + a2a.CardPath
	}
	u.Fragment = ""
	return u, nil
}

func thisMachine(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback() || ip.IsUnspecified()
	}
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func readCard(u *url.URL) (*Card, error) {
	f, err := os.Open(filepath.FromSlash(u.Path)) //nolint:gosec // whoever runs the program named the file
	if err != nil {
		return nil, fmt.Errorf("client: agent card: %w: %w", ErrCardNotFound, err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, MaxCard+1))
	if err != nil {
		return nil, fmt.Errorf("client: agent card: %w: %w", ErrCardNotFound, err)
	}
	return parseCard(u.String(), raw)
}

func parseCard(from string, raw []byte) (*Card, error) {
	if len(raw) > MaxCard {
		return nil, &InvalidCardError{URL: from, err: fmt.Errorf("it has more than %d bytes", MaxCard)}
	}
	card := new(a2a.AgentCard)
	if err := card.UnmarshalJSON(raw); err != nil {
		if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
			err = errors.New("it is a page for people, not JSON: the card has another address")
		}
		return nil, &InvalidCardError{URL: from, Raw: raw, err: err}
	}
	if card.Name == "" && len(card.SupportedInterfaces) == 0 {
		return nil, &InvalidCardError{URL: from, Raw: raw, err: errors.New("it is JSON, but has neither a name nor interfaces")}
	}
	return &Card{AgentCard: card, Raw: raw, URL: from}, nil
}

// download returns the card at u from the cache or from its host.
func download(ctx context.Context, u *url.URL, opts *Options) (*Card, error) {
	from := u.String()
	kept := opts.Cache.lookup(from)
	if opts.Cache.fresh(kept) {
		return kept.card, nil
	}
	limited, cancel := context.WithTimeout(ctx, cardTimeout)
	defer cancel()
	asked := opts.Cache.time()
	res, err := get(limited, from, opts, kept)
	if err != nil {
		return nil, noCard(ctx, from, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && kept.revalidates():
		card, err := opts.held(limited, kept.card)
		if err != nil {
			opts.Cache.forget(from)
			return nil, err
		}
		opts.Cache.renew(from, card, kept, asked, res.Header)
		return card, nil
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("client: agent card %q: %w: HTTP status %d %s; if the card has another address, give its full URL",
			from, ErrCardNotFound, res.StatusCode, http.StatusText(res.StatusCode))
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxCard+1))
	if err != nil {
		return nil, noCard(ctx, from, err)
	}
	card, err := parseCard(from, raw)
	if err == nil {
		card, err = opts.held(limited, card)
	}
	if err != nil || res.Request.URL.String() != from { // the next redirect may lead to another card
		opts.Cache.forget(from)
		return card, err
	}
	opts.Cache.store(from, card, asked, res.Header)
	return card, nil
}

// get asks for what is at a URL, or whether it is still what is kept.
func get(ctx context.Context, from string, opts *Options, kept *keptCard) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCardNotFound, err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set(a2a.VersionHeader, a2a.Version)
	kept.askFor(r)
	hc := *opts.http()
	hc.CheckRedirect = checkRedirect
	return hc.Do(r)
}

// checkRedirect follows a redirect within the origin, and one to where nobody on the way can change what is read.
func checkRedirect(r *http.Request, via []*http.Request) error {
	for _, name := range conditions { // they are about what was kept from the first address
		r.Header.Del(name)
	}
	if r.URL.Scheme != "https" && origin(r.URL) != origin(via[0].URL) {
		return fmt.Errorf("%w: it redirects to %q, another origin without TLS: name that address if it is the right one",
			ErrCardNotFound, r.URL.Redacted())
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", ErrCardNotFound, maxRedirects)
	}
	return nil
}

// trust returns the policy for cards from the network; nil: all are taken.
func (o *Options) trust() *agentcard.Policy {
	if o.Cache == nil {
		return nil
	}
	return o.Cache.Trust
}

// held returns a card if the policy takes it, with what its signatures are worth: one that is signed by a key that is
// enrolled for its origin, where keys are, and that has not changed, where it is pinned.
func (o *Options) held(ctx context.Context, card *Card) (*Card, error) {
	trust := o.trust()
	if trust == nil {
		return card, nil
	}
	p := *trust
	p.Origin = card.URL
	if p.Fetch == nil {
		p.Fetch = func(ctx context.Context, url string) ([]byte, error) { return FetchKeySet(ctx, url, *o) }
	}
	out := *card
	out.Signed = agentcard.Verify(ctx, card.Raw, p)
	from, err := agentcard.Origin(card.URL)
	if err != nil {
		return nil, fmt.Errorf("client: agent card: %w: %w", ErrCardNotTrusted, err)
	}
	if ctx.Err() != nil { // perhaps in the middle of reading the keys
		return nil, noCard(ctx, card.URL, ctx.Err())
	}
	e, enrolled := p.Enrolled[from]
	keys := len(e.KeySet) > 0 || e.URL != ""
	why := ""
	switch r := out.Signed; {
	case !enrolled || !keys && e.Digest == "":
		why = "nothing is enrolled for " + from
	case r.Drift:
		why = fmt.Sprintf("it has changed: its digest is %q, approved is %s", r.Digest, e.Digest)
	case keys && r.Outcome == agentcard.Absent:
		why = "it is not signed, and keys are enrolled for " + from
	case keys && r.Outcome != agentcard.Verified:
		why = r.Why
	default:
		return &out, nil
	}
	return nil, fmt.Errorf("client: agent card %q: %w: %s", card.URL, ErrCardNotTrusted, why)
}

// FetchKeySet reads the JWK Set at a URL, as an [agentcard.Policy] wants it read: at most 256 KiB, within 30 s, and no
// redirect to another origin is followed. Of the options HTTP is used. What is read is not looked at.
func FetchKeySet(ctx context.Context, from string, opts Options) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cardTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	hc := *opts.http()
	hc.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if origin(r.URL) != origin(via[0].URL) {
			return fmt.Errorf("it redirects to %q, another origin", r.URL.Redacted())
		}
		return checkRedirect(r, via)
	}
	res, err := hc.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxCard+1))
	if len(raw) > MaxCard {
		err = fmt.Errorf("it has more than %d bytes", MaxCard)
	}
	return raw, err
}

// Doubt says why callers elsewhere than the agent cannot reach an interface, or should not: its address is one of the
// agent's own machine or network, and the card came from outside of that; or the card came by TLS and calls would not.
// It is empty where the card gives no reason to think so.
func (card *Card) Doubt(i *a2a.AgentInterface) string {
	from, err := url.Parse(card.URL)
	target := i.URL
	if !strings.Contains(target, "://") {
		target = "//" + target
	}
	to, err2 := url.Parse(target)
	if err != nil || err2 != nil || from.Scheme == "file" {
		return ""
	}
	switch reach := reachOf(to.Hostname()); {
	case reach < reachOf(from.Hostname()):
		return fmt.Sprintf("%q is a name or an address of %s: whoever runs the agent has to set its public address",
			to.Hostname(), [...]string{"the agent's own machine", "the agent's own network"}[reach])
	case from.Scheme == "https" && to.Scheme == "http":
		return "calls are not encrypted there, though the card came by TLS"
	}
	return ""
}

// From how far away a host is reached.
const (
	fromMachine = iota
	fromNetwork
	fromAnywhere
)

var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

func reachOf(host string) int {
	if thisMachine(host) {
		return fromMachine
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip = ip.Unmap(); ip.IsPrivate() || ip.IsLinkLocalUnicast() || carrierNAT.Contains(ip) {
			return fromNetwork
		}
		return fromAnywhere
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	inside := func(suffix string) bool { return strings.HasSuffix(host, suffix) }
	if !strings.Contains(host, ".") || slices.ContainsFunc([]string{".internal", ".local", ".lan", ".home.arpa", ".intranet", ".svc"}, inside) {
		return fromNetwork
	}
	return fromAnywhere
}

// origin returns scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// noCard returns the error for a request that got no answer, or not all of one.
func noCard(ctx context.Context, from string, err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // the rest of it says once more what was asked for
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("client: agent card %q: %w", from, ctx.Err())
	case errors.Is(err, ErrCardNotFound):
		return fmt.Errorf("client: agent card %q: %w", from, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("client: agent card %q: %w: it did not arrive within %v", from, ErrUnreachable, cardTimeout)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("client: agent card %q: %w: the host does not speak TLS at that port: try http://", from, ErrUnreachable)
	}
	return fmt.Errorf("client: agent card %q: %w: %w", from, ErrUnreachable, err)
}
