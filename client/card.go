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
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// MaxCard is how many bytes a card may have: 256 KiB.
const MaxCard = 256 << 10

// cardTimeout is how long a card may take to arrive.
const cardTimeout = 30 * time.Second

const maxRedirects = 5

// Card is an agent card as it came. It may be shared and must not be changed.
type Card struct {
	*a2a.AgentCard
	Raw []byte // the card's own bytes
	URL string // where it came from: what was asked for, http, https or file
}

// FetchCard reads the agent card that ref names (specification 8.2):
//
//   - a file, by its path or as a file:// URL. An existing file wins over a host of the same name.
//   - a host, with or without a port, or an origin: the card is at [a2a.CardPath] there. A loopback host without a
//     scheme is asked over http, any other over https.
//   - the full URL of a card, which is used as it is.
//
// The card must be JSON of at most [MaxCard] bytes and arrive within 30 s; its media type does not matter. Redirects
// are followed within the same origin. Of the options HTTP and Cache are used.
//
// The error is ErrUnreachable when no answer came, ErrCardNotFound when it was not a card but an HTTP status or a
// redirect to another origin, and ErrCardInvalid when it cannot be read as a card.
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
	if u.Path == "" || u.Path == "/" {
		u.Path = a2a.CardPath
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
		return nil, fmt.Errorf("client: agent card %q: %w: it has more than %d bytes", from, ErrCardInvalid, MaxCard)
	}
	card := new(a2a.AgentCard)
	if err := card.UnmarshalJSON(raw); err != nil {
		if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
			err = errors.New("it is a page for people, not JSON: the card has another address")
		}
		return nil, fmt.Errorf("client: agent card %q: %w: %w", from, ErrCardInvalid, err)
	}
	if card.Name == "" && len(card.SupportedInterfaces) == 0 {
		return nil, fmt.Errorf("client: agent card %q: %w: it is JSON, but has neither a name nor interfaces", from, ErrCardInvalid)
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
	r, err := http.NewRequestWithContext(limited, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("client: agent card %q: %w: %w", from, ErrCardNotFound, err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set(a2a.VersionHeader, a2a.Version)
	kept.askFor(r)
	hc := *opts.http()
	hc.CheckRedirect = sameOriginOnly
	res, err := hc.Do(r)
	if err != nil {
		return nil, noCard(ctx, from, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && kept != nil:
		return opts.Cache.renew(from, kept, res.Header), nil
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("client: agent card %q: %w: HTTP status %d %s; if the card has another address, give its full URL",
			from, ErrCardNotFound, res.StatusCode, http.StatusText(res.StatusCode))
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxCard+1))
	if err != nil {
		return nil, noCard(ctx, from, err)
	}
	card, err := parseCard(from, raw)
	if err != nil {
		return nil, err
	}
	opts.Cache.store(from, card, res.Header)
	return card, nil
}

func sameOriginOnly(r *http.Request, via []*http.Request) error {
	if origin(r.URL) != origin(via[0].URL) {
		return fmt.Errorf("%w: it redirects to %q, another origin: name that address if it is the right one",
			ErrCardNotFound, r.URL.Redacted())
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", ErrCardNotFound, maxRedirects)
	}
	return nil
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
