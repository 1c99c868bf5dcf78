package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// Identity is what a [Method] makes of a credential.
type Identity struct {
	a2a.Caller
	// Credential is the id of this credential, such as the jti of a token, by which a [Denylist] can name it; empty: it
	// can be denied by its subject only.
	Credential string
}

// Method is one kind of credential.
type Method interface {
	// Header is the canonical name of the header that the credential is in; empty for one that belongs to the connection.
	Header() string
	// Identify returns who the credential of a request vouches for, ErrNone if the request has none of this kind, an
	// ErrUnauthenticated error if it has a wrong one, and an ErrUnavailable error if that cannot be known now. It only
	// reads info, is safe for concurrent use, and is asked again while a stream is open. What it returns must not hold
	// anything secret.
	Identify(ctx context.Context, info *a2a.CallInfo) (Identity, error)
	// Scheme is what the agent's card says of the method: the name there, and how callers authenticate.
	Scheme() (name string, scheme a2a.SecurityScheme)
	// Challenge is the scheme of the method in WWW-Authenticate, such as Bearer, with its parameters other than realm.
	Challenge() (scheme string, params []string)
}

// Options are the choices of [Any]. The zero value is good.
type Options struct {
	// Rules say which scopes operations and skills need, for [Authenticator.Service].
	Rules Rules
	// Denylist has the credentials that no longer count; nil: none.
	Denylist *Denylist
	// Failures is how many wrong credentials an address may send in a minute before it gets ErrResourceExhausted: 5.
	// Negative: any number. A request without a credential is no failure, nor is one with a credential that has expired, was
	// revoked, or is in a header that no method reads, nor one with several: that is no guess. Until the minute is over only
	// what nobody can guess is let in from there, a good [JWT] or certificate: to look at others would tell a guesser which is right.
	Failures int
	// Address returns the address that failures are counted for. Nil: that of the connection, which is the proxy's where
	// there is one: then read the header that the proxy sets, and only that one.
	Address func(*a2a.CallInfo) string
	// Anonymous lets requests through that have no credential at all. A wrong one is refused as ever.
	Anonymous bool
	// Realm is in every challenge: "a2a".
	Realm string
	// Log hears of failed authentications, at Warn, without the credential. Nil: slog.Default.
	Log *slog.Logger
}

// Authenticator finds out who calls. It is safe for concurrent use.
type Authenticator struct {
	methods []Method
	headers []string // that a credential may be in: those of the methods, and Authorization, which is for nothing else
	opts    Options
	slow    *throttle
	now     func() time.Time
}

// Any returns an authenticator for callers that have a credential of any of the methods. A request has one credential:
// two in its headers are refused, whatever they are, and a client certificate counts only where the headers have none.
// The headers are those of the methods and Authorization, which no other credential may stand beside even if no method
// reads it.
// Methods that read the same header are asked in the given order, until one knows the credential; [Introspection] knows
// every token, so it comes last.
func Any(opts Options, methods ...Method) (*Authenticator, error) {
	if len(methods) == 0 {
		return nil, errors.New("auth: no method to authenticate by: give at least one")
	}
	opts.Realm = cmp.Or(opts.Realm, "a2a")
	if err := checkText("Options.Realm", opts.Realm); err != nil {
		return nil, err
	}
	if strings.ContainsAny(opts.Realm, `"\`) {
		return nil, errors.New(`auth: Options.Realm must not have " or \`)
	}
	if err := opts.Rules.Check(); err != nil {
		return nil, err
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Address == nil {
		opts.Address = func(info *a2a.CallInfo) string { return network(info.Peer) }
	}
	headers := []string{"Authorization"}
	opts.Rules.tokens = no
	names := make(map[string]bool)
	for _, m := range methods {
		if scheme, _ := m.Challenge(); scheme == bearer {
			opts.Rules.tokens = yes
		}
		if h := m.Header(); h != "" && !slices.Contains(headers, h) {
			headers = append(headers, h)
		}
		if h := m.Header(); h != "" && h != "Authorization" {
			if err := checkHeader(h); err != nil {
				return nil, err
			}
		}
		name, _ := m.Scheme()
		if err := checkText("the name of a security scheme", name); err != nil {
			return nil, err
		}
		if names[name] {
			return nil, fmt.Errorf("auth: two methods are called %q in the card: name one of them otherwise", name)
		}
		names[name] = true
	}
	a := &Authenticator{methods: methods, headers: headers, opts: opts, now: time.Now}
	if opts.Failures >= 0 {
		a.slow = newThrottle(cmp.Or(opts.Failures, 5))
	}
	return a, nil
}

var _ a2a.Authenticate = (*Authenticator)(nil).Authenticate

// Authenticate is an [a2a.Authenticate]. Its errors are ErrUnauthenticated with a challenge of every method (RFC 9110,
// section 11.6.1, and RFC 6750, section 3), ErrResourceExhausted for an address that failed too often, and ErrUnavailable
// while an issuer cannot be asked.
func (a *Authenticator) Authenticate(ctx context.Context, info *a2a.CallInfo) error {
	var addr string
	var wait time.Duration
	if a.slow != nil {
		addr = a.opts.Address(info)
		wait = a.slow.wait(addr)
	}
	id, err := a.identify(ctx, info, wait > 0)
	switch {
	case err == nil:
		info.Caller = id.Caller
		return nil
	case wait > 0:
		return tooMany(wait)
	case errors.Is(err, ErrNone) && a.opts.Anonymous:
		info.Caller = a2a.Caller{}
		return nil
	case errors.Is(err, ErrNone):
		return a.challenge(a2a.AsError(refused(whyMissing, "a credential is required: %s", a.wanted())), false)
	case !errors.Is(err, a2a.ErrUnauthenticated):
		return err
	}
	e, why := a2a.AsError(err), refusalOf(err)
	guess := !slices.Contains([]string{whyExpired, whyRevoked, whyUnread, whySeveral}, why.why)
	if a.slow != nil && guess {
		a.slow.failed(addr)
	}
	attrs := []any{"peer", info.Peer, "binding", info.Binding, "reason", e.Message}
	if why.who.Subject != "" {
		attrs = append(attrs, "issuer", why.who.Issuer, "subject", why.who.Subject)
	}
	a.opts.Log.WarnContext(ctx, "authentication failed", attrs...)
	return a.challenge(e, true)
}

func tooMany(wait time.Duration) error {
	e := &a2a.Error{
		Code: a2a.ErrResourceExhausted, RetryAfter: wait,
		Message: "too many failed authentications from this address: wait before the next attempt",
	}
	return e.WithCause(&refusal{why: whyThrottled})
}

// Valid returns nil if the credential of the call in ctx is still good: it has not expired, was not revoked, and still
// vouches for the same caller. Otherwise the error is ErrUnauthenticated, with a challenge; ErrUnavailable says that it
// cannot be known now. An anonymous call is always valid. It does what Authenticate did, but counts no failures. It is
// for limits.Options.Check, which ends streams by it: its answer is at most 10 seconds old.
func (a *Authenticator) Valid(ctx context.Context) error {
	info := a2a.CallInfoFrom(ctx)
	if info == nil || info.Caller.Anonymous() {
		return nil
	}
	err := a.valid(ctx, info)
	if errors.Is(err, a2a.ErrUnauthenticated) {
		return a.challenge(a2a.AsError(err), true)
	}
	return err
}

func (a *Authenticator) valid(ctx context.Context, info *a2a.CallInfo) error {
	was := info.Caller
	if !was.Expiry.IsZero() && !a.now().Before(was.Expiry) {
		return expired(was)
	}
	id, err := a.identify(ctx, info, false)
	switch {
	case errors.Is(err, ErrNone):
		return refusedOf(was, whyRevoked, "the credential is no longer accepted")
	case err != nil:
		return err
	case id.Tenant != was.Tenant || id.Issuer != was.Issuer || id.Subject != was.Subject:
		return refused(whyChanged, "the credential is now somebody else's")
	}
	return nil
}

// identify returns who calls, or an error that wraps ErrNone where the request has no credential. If it is to be sure it
// looks at nothing that could be a guess.
func (a *Authenticator) identify(ctx context.Context, info *a2a.CallInfo, sure bool) (Identity, error) {
	header, err := a.credentialHeader(info.Header)
	if err != nil {
		return Identity{}, err
	}
	for _, m := range a.methods {
		if m.Header() != header || sure && !sureOf(m) {
			continue
		}
		id, err := m.Identify(ctx, info)
		if errors.Is(err, ErrNone) {
			continue
		}
		if err == nil {
			err = a.check(id)
		}
		if err != nil {
			return Identity{}, err
		}
		return id, nil
	}
	if header != "" {
		why := whyUnread
		if slices.ContainsFunc(a.methods, func(m Method) bool { return m.Header() == header }) {
			why = whyKind
		}
		return Identity{}, refused(why, "the credential in %s is none that is accepted here", header)
	}
	return Identity{}, ErrNone
}

// sureOf reports whether nobody can guess a credential of the method: a signature makes it.
func sureOf(m Method) bool {
	switch m.(type) {
	case *JWT, *Certificates:
		return true
	}
	return false
}

// credentialHeader returns the header that the credential of a request is in; empty: none is.
func (a *Authenticator) credentialHeader(h http.Header) (string, error) {
	var found string
	for _, name := range a.headers {
		switch values := h[name]; {
		case len(values) == 0:
		case len(values) > 1:
			return "", refused(whySeveral, "the header %s is there more than once: send one credential", name)
		case len(values[0]) > maxToken:
			return "", refused(whyMalformed, "the credential in %s is longer than %d bytes", name, maxToken)
		case found != "":
			return "", refused(whySeveral, "there are credentials in %s and in %s: send one", found, name)
		default:
			found = name
		}
	}
	return found, nil
}

// check is what holds for the credentials of every method.
func (a *Authenticator) check(id Identity) error {
	switch {
	case id.Issuer == "", checkText("subject", id.Subject) != nil:
		return refused(whySubject, "the credential does not name a caller")
	case a.opts.Denylist.denies(id):
		return revoked(id.Caller)
	}
	return nil
}

// wanted says what credentials there are.
func (a *Authenticator) wanted() string {
	var ways []string
	for _, m := range a.methods {
		way := "a client certificate"
		switch header := m.Header(); header {
		case "":
		case "Authorization":
			scheme, _ := m.Challenge()
			way = "Authorization: " + scheme
		default:
			way = header
		}
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	return strings.Join(ways, ", or ")
}

// challenge returns e with a challenge of every method. That of a bearer token says what was wrong with the one that was
// sent, if any was.
func (a *Authenticator) challenge(e *a2a.Error, sent bool) error {
	out := *e
	for _, m := range a.methods {
		scheme, params := m.Challenge()
		params = append([]string{param("realm", a.opts.Realm)}, params...)
		if sent && scheme == bearer {
			params = append(params, param("error", "invalid_token"), param("error_description", e.Error()))
		}
		if c := scheme + " " + strings.Join(params, ", "); !slices.Contains(out.Challenge, c) {
			out.Challenge = append(out.Challenge, c)
		}
	}
	return &out
}

// param returns a parameter of a challenge. What cannot stand between quotes is left out.
func param(name, value string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, value)
	return name + `="` + clean + `"`
}

// SecuritySchemes is how callers authenticate, as the agent's card says it (specification 4.5).
func (a *Authenticator) SecuritySchemes() map[string]a2a.SecurityScheme {
	schemes := make(map[string]a2a.SecurityScheme, len(a.methods))
	for _, m := range a.methods {
		name, scheme := m.Scheme()
		schemes[name] = scheme
	}
	return schemes
}

// SecurityRequirements says in the agent's card that one of the schemes is required, or none if anonymous callers are let
// through.
func (a *Authenticator) SecurityRequirements() []*a2a.SecurityRequirement {
	if a.opts.Anonymous {
		return nil
	}
	var list []*a2a.SecurityRequirement
	for _, m := range a.methods {
		name, _ := m.Scheme()
		list = append(list, &a2a.SecurityRequirement{Schemes: map[string][]string{name: {}}})
	}
	return list
}
