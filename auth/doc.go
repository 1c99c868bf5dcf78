// Package auth is who may do what. On a server it makes an [a2a.Caller] of a credential: an API key, a JSON Web Token,
// a token that its issuer is asked about, or a client certificate, several kinds at once ([Any]). It says the same in the
// agent's card, says later whether the credential still counts ([Authenticator.Valid]), and knows which scopes an operation
// or a skill needs ([Rules]). On a client it adds a credential to the requests for the one origin that it was given for
// ([Credentials]). For both it makes TLS configurations whose files may change ([ServerTLS], [ClientTLS]).
//
// No error and no log line of this package holds a secret, a token or a part of one.
package auth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parley-a2a/parley/a2a"
)

// Times of this package. With those of package limits the first two keep the end of a stream under 30 seconds after a
// revocation.
const (
	introspectionAge = 10 * time.Second // an introspection is believed
	fileAge          = 5 * time.Second  // a file is believed
	skew             = 30 * time.Second // clocks may differ
)

// lifeEnd returns when a token ends that says it ends at exp. In the leeway for clocks that came late, it ends with that:
// streams end at exp itself, but a token that is still taken is not over at once.
func lifeEnd(exp, now time.Time) time.Time {
	if now.Before(exp) {
		return exp
	}
	return exp.Add(skew)
}

// maxToken is the longest credential that is looked at, in bytes.
const maxToken = 16 << 10

// ErrNone says that a request has no credential that a [Method] knows; another one may.
var ErrNone = errors.New("no credential of this kind")

// Why a credential is refused, in a word for whoever keeps a record, see docs/security.md.
const (
	whyMissing   = "missing"
	whyExpired   = "expired"
	whyRevoked   = "revoked"
	whyKey       = "unknown-key"
	whySeveral   = "several-credentials"
	whyKind      = "unknown-kind" // of what is read
	whyUnread    = "not-taken"
	whyMalformed = "malformed"
	whySignature = "signature"
	whyIssuer    = "issuer"
	whyAudience  = "audience"
	whyEarly     = "not-yet-valid"
	whyInactive  = "inactive"
	whyTenant    = "no-tenant"
	whySubject   = "no-subject"
	whyForbidden = "not-allowed"
	whyChanged   = "changed"
	whyThrottled = "too-many-failures"
)

// refusal is the cause of an error about a credential. Callers do not get to see it; package audit does.
type refusal struct {
	why string
	who a2a.Caller // whose credential it is, if that is beyond doubt
}

func (r *refusal) Error() string { return "refused: " + r.why }

// Refusal returns why a credential was refused, and whose it is, as far as that is known.
func (r *refusal) Refusal() (reason string, who a2a.Caller) { return r.why, r.who }

// refused returns the error for a credential that is wrong. The message is for the caller and for the log: it must not
// hold anything of the credential.
func refused(why, format string, args ...any) error {
	return refusedOf(a2a.Caller{}, why, format, args...)
}

// refusedOf is refused for a credential that is beyond doubt somebody's.
func refusedOf(who a2a.Caller, why, format string, args ...any) error {
	e := &a2a.Error{Code: a2a.ErrUnauthenticated, Message: fmt.Sprintf(format, args...)}
	return e.WithCause(&refusal{why, who})
}

func expired(who a2a.Caller) error { return refusedOf(who, whyExpired, "the credential has expired") }

func revoked(who a2a.Caller) error { return refusedOf(who, whyRevoked, "the credential was revoked") }

// refusalOf returns what is known of a refused credential.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	return new(refusal)
}

// unavailable returns the error for a credential that nobody can judge at the moment.
func unavailable(cause error) error {
	e := &a2a.Error{
		Code: a2a.ErrUnavailable, Message: "the issuer of the credential cannot be reached: try again later",
		RetryAfter: 30 * time.Second,
	}
	return e.WithCause(cause)
}

// checkText returns an error if a configured string is empty or has a character that could break a header or a log.
func checkText(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("auth: %s is required", what)
	case len(s) > 2048:
		return fmt.Errorf("auth: %s is longer than 2048 bytes", what)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("auth: %s has a control character, such as a line break", what)
	}
	return nil
}

// checkTexts is checkText for texts that may be left out.
func checkTexts(what string, texts ...string) error {
	for _, s := range texts {
		if s != "" {
			if err := checkText(what, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOffer returns an error if scopes with their descriptions cannot stand in a card.
func checkOffer(what string, scopes map[string]string) error {
	return cmp.Or(checkScopes(slices.Collect(maps.Keys(scopes))), checkTexts(what, slices.Collect(maps.Values(scopes))...))
}

// checkScopes returns an error if one of the scopes could not stand in a challenge (RFC 6749, section 3.3).
func checkScopes(scopes []string) error {
	for _, s := range scopes {
		bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
		if s == "" || strings.ContainsFunc(s, bad) {
			return fmt.Errorf("auth: %q is not a scope: use printable ASCII without spaces, quotes and backslashes", s)
		}
	}
	return nil
}

// taken are headers that mean something else, so that no credential is read from or written to them.
var taken = map[string]bool{
	"Host": true, "Connection": true, "Content-Length": true, "Content-Type": true, "Content-Encoding": true, "Accept": true,
	"Transfer-Encoding": true, "Te": true, "Trailer": true, "Upgrade": true, "Expect": true, "Cookie": true, "Origin": true,
	"Referer": true, "Forwarded": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
	"Keep-Alive": true, "Last-Event-Id": true, "User-Agent": true, "A2a-Version": true, "A2a-Extensions": true,
}

// checkHeader returns an error if name, in its canonical form, is not one for a credential.
func checkHeader(name string) error {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	switch {
	case name == "" || strings.ContainsFunc(name, bad):
		return fmt.Errorf("auth: %q is not a header for a credential: use letters, digits, - and _", name)
	case taken[name], strings.HasPrefix(name, "Proxy-"), strings.HasPrefix(name, "Grpc-"), strings.HasSuffix(name, "-Bin"):
		return fmt.Errorf("auth: the header %s has another meaning: choose one such as X-API-Key", name)
	}
	return nil
}
