package agentcard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// Policy says whose signatures count. The zero Policy trusts nobody.
type Policy struct {
	// Origin is where the card was fetched from, such as https://agent.example; a path after it does not matter. Only
	// what is enrolled for it counts.
	Origin string

	// Enrolled holds what is known of origins, by their names as [Origin] returns them.
	Enrolled map[string]Enrollment

	// Algorithms narrows the four algorithms down; empty takes all of them. What is none of them is never taken.
	Algorithms []string

	// Fetch reads a key set from the URL that was enrolled for it. It must refuse redirects to other origins, and bound
	// what it reads. Without it, only key sets in hand count.
	Fetch func(ctx context.Context, url string) ([]byte, error)
}

// Enrollment is what an operator found out about an origin by another way than from its card.
type Enrollment struct {
	KeySet []byte // JWK Set (RFC 7517) in JSON; empty: read from URL
	URL    string // of the key set, https; the jku of a signature, if there is one, must be exactly this
	Digest string // as [Digest] returns it, of the card that was approved; empty: none is pinned
}

// Outcome is what a card's signatures are worth.
type Outcome int

// The outcomes of [Verify]. What is not [Verified] must not be taken for the work of the origin.
const (
	Unverifiable Outcome = iota // there is something in the place of signatures, or no canonical form: Result.Why says what
	Absent                      // the card is not signed
	Verified                    // one signature is by a key that is enrolled for the origin
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Absent:
		return "absent"
	case Verified:
		return "verified"
	case Unverifiable:
	}
	return "unverifiable"
}

// Result is what [Verify] found.
type Result struct {
	Outcome   Outcome
	KeyID     string // Verified: the key's kid
	Algorithm string // Verified: of the signature
	Origin    string // Verified: for which the key is enrolled
	Why       string // Unverifiable: the reason, on one line; one for each signature
	Digest    string // of the card's canonical form; empty if it has none
	Drift     bool   // a digest is pinned, and the card's is another
}

// Trusted reports whether the card is signed by its origin, and is the one that was pinned if one was.
func (r Result) Trusted() bool { return r.Outcome == Verified && !r.Drift }

// maxSignatures bounds the work that a card can cause.
const maxSignatures = 32

// Verify checks the signatures of a card as it was received (specification 8.4.3). One good signature is enough, however
// many others are broken: a rotation leaves signatures that a caller has no key for.
//
// The card chooses nothing but the key's kid among those enrolled: keys and certificates in a signature's header are
// passed over, a jku other than the enrolled URL is refused, and so are algorithms that are not allowed or do not suit
// the key, crit with whatever name, b64 false, and a header that is not one JSON object with each name once.
func Verify(ctx context.Context, raw []byte, p Policy) Result {
	var r Result
	origin, originErr := Origin(p.Origin)
	var enrolled Enrollment
	if originErr == nil {
		enrolled = p.Enrolled[origin]
	}
	pinned := enrolled.Digest != ""
	r.Drift = pinned
	card, err := parse(raw)
	if err != nil {
		r.Why = "the card: " + err.Error()
		return r
	}
	form, err := canonical(card)
	if err != nil {
		r.Why = err.Error()
		return r
	}
	r.Digest = digest(form)
	r.Drift = pinned && r.Digest != enrolled.Digest

	list := card.get(signatures)
	switch {
	case list == nil || list.kind == '[' && len(list.items) == 0:
		r.Outcome = Absent
	case list.kind != '[':
		r.Why = "signatures must be an array, not " + kindName(list.kind)
	case len(list.items) > maxSignatures:
		r.Why = fmt.Sprintf("there are %d signatures, at most %d are looked at", len(list.items), maxSignatures)
	case originErr != nil:
		r.Why = originErr.Error()
	case len(enrolled.KeySet) == 0 && enrolled.URL == "":
		r.Why = "no key is enrolled for " + origin
	default:
		r.verify(list.items, form, &check{
			enrolled: &enrolled, algorithms: p.Algorithms,
			keys: sync.OnceValues(func() ([]*verifier, error) { return enrolled.keys(ctx, p.Fetch) }),
		})
		if r.Outcome == Verified {
			r.Origin = origin
		}
	}
	return r
}

func (r *Result) verify(list []value, form []byte, c *check) {
	var why []string
	for i := range list {
		h, err := c.signature(&list[i], form)
		if err == nil {
			r.Outcome, r.KeyID, r.Algorithm = Verified, h.kid, h.alg
			return
		}
		why = append(why, fmt.Sprintf("signatures[%d]: %v", i, err))
	}
	r.Why = strings.Join(why, "; ")
}

// Origin returns the origin of an http or https URL in its one form: scheme, host and port in lower case, the port left
// out where it is the scheme's own.
func Origin(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" {
		return "", fmt.Errorf("%q is not an http or https URL", clip(rawURL, 128))
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := u.Port()
	if port == "" || port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		return u.Scheme + "://" + host, nil
	}
	return u.Scheme + "://" + host + ":" + port, nil
}

// keys returns the keys that are enrolled.
func (e *Enrollment) keys(ctx context.Context, fetch func(context.Context, string) ([]byte, error)) ([]*verifier, error) {
	set := e.KeySet
	if len(set) == 0 {
		u, err := url.Parse(e.URL)
		switch {
		case err != nil || !secure(u):
			return nil, fmt.Errorf("the enrolled URL %q is not an https URL", clip(e.URL, 128))
		case fetch == nil:
			return nil, errors.New("the key set is not in hand, and there is nothing to fetch it with")
		}
		if set, err = fetch(ctx, e.URL); err != nil {
			return nil, fmt.Errorf("fetch the key set: %w", err)
		}
	}
	return parseJWKS(set)
}

// check is the policy for the signatures of one card.
type check struct {
	enrolled   *Enrollment
	algorithms []string // allowed; empty: all that are known
	keys       func() ([]*verifier, error)
}

// signature returns the header of a signature that is good, and otherwise why it is not.
func (c *check) signature(v *value, form []byte) (header, error) {
	protected, signature := v.str("protected"), v.str("signature")
	if protected == "" || signature == "" {
		return header{}, errors.New("protected and signature must be there, as strings")
	}
	h, err := readHeader(protected, v.get("header"))
	if err != nil {
		return header{}, err
	}
	if _, err := decodeBase64(signature); err != nil {
		return header{}, errors.New("the signature is not base64url")
	}
	if !slices.Contains(algorithms, h.alg) || len(c.algorithms) > 0 && !slices.Contains(c.algorithms, h.alg) {
		return header{}, fmt.Errorf("alg %q is not allowed", clip(h.alg, 32))
	}
	if h.jku != "" && h.jku != c.enrolled.URL {
		return header{}, fmt.Errorf("jku %q is not the URL that is enrolled for the origin", clip(h.jku, 128))
	}
	keys, err := c.keys()
	if err != nil {
		return header{}, err
	}
	return h, verifyJWS(protected+".."+signature, form, h, keys)
}

// verifyJWS tries the keys that the header's kid selects: a set should have one, and may have more.
func verifyJWS(compact string, form []byte, h header, keys []*verifier) error {
	alg := []jose.SignatureAlgorithm{jose.SignatureAlgorithm(h.alg)}
	jws, err := jose.ParseDetached(compact, form, alg)
	if err != nil {
		return fmt.Errorf("not a JWS: %w", err)
	}
	err = fmt.Errorf("no enrolled key has kid %q", clip(h.kid, 64))
	for _, k := range keys {
		switch {
		case k.kid != h.kid:
		case !k.takes(h.alg):
			err = fmt.Errorf("key %q is not for alg %s", clip(h.kid, 64), h.alg)
		case jws.DetachedVerify(form, k.key) == nil:
			return nil
		default:
			err = fmt.Errorf("the signature is not by key %q over this card", clip(h.kid, 64))
		}
	}
	return err
}

// header is what counts of a JWS protected header.
type header struct{ alg, typ, kid, jku string }

// readHeader reads a protected header, and refuses what would change what the signature means (RFC 7515 4.1, RFC 7797).
// The unprotected header, which may be nil, is looked at only for what must not be there.
func readHeader(protected string, unprotected *value) (header, error) {
	var h header
	raw, err := decodeBase64(protected)
	if err != nil {
		return h, errors.New("the protected header is not base64url")
	}
	v, err := parse(raw)
	if err != nil {
		return h, fmt.Errorf("the protected header: %w", err)
	}
	if v.kind != '{' {
		return h, fmt.Errorf("the protected header must be an object, not %s", kindName(v.kind))
	}
	for i, name := range v.names {
		item := &v.items[i]
		field := map[string]*string{"alg": &h.alg, "typ": &h.typ, "kid": &h.kid, "jku": &h.jku}[name]
		switch {
		case name == "crit":
			return h, errors.New("the protected header has crit, and no extension of JWS is understood here")
		case name == "b64" && item.kind != 't':
			return h, errors.New("the protected header has b64, and a card's payload is always base64url")
		case field != nil && item.kind != '"':
			return h, fmt.Errorf("%s in the protected header must be a string, not %s", name, kindName(item.kind))
		case field != nil:
			*field = item.text
		}
	}
	if h.alg == "" || h.kid == "" {
		return h, errors.New("the protected header must have alg and kid")
	}
	return h, checkUnprotected(unprotected, v)
}

func checkUnprotected(unprotected, protected *value) error {
	if unprotected == nil {
		return nil
	}
	if unprotected.kind != '{' {
		return fmt.Errorf("the unprotected header must be an object, not %s", kindName(unprotected.kind))
	}
	for _, name := range unprotected.names {
		if name == "crit" || name == "b64" || slices.Contains(protected.names, name) {
			return fmt.Errorf("%q must not be in the unprotected header", clip(name, 32))
		}
	}
	return nil
}
