package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// Times of a key set that is fetched.
const (
	keysAge      = 10 * time.Minute // it is believed
	keysStale    = time.Hour        // it is used while no other can be fetched
	keysInterval = 30 * time.Second // it is asked for at most
)

// maxKeys is how many keys of a set are looked at.
const maxKeys = 64

// suits reports whether a key verifies signatures of an algorithm.
func suits(key any, alg string) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return alg == "ES256" && key.Curve == elliptic.P256() || alg == "ES384" && key.Curve == elliptic.P384() ||
			alg == "ES512" && key.Curve == elliptic.P521()
	case ed25519.PublicKey:
		return alg == "EdDSA"
	case *rsa.PublicKey:
		return (alg[:2] == "RS" || alg[:2] == "PS") && key.N.BitLen() >= 2048 && key.N.BitLen() <= 8192
	}
	return false
}

// parseKeys reads a JWK set, or public keys in PEM. Keys of unknown or symmetric kinds are left out.
func parseKeys(b []byte) ([]jose.JSONWebKey, error) {
	if block, rest := pem.Decode(b); block != nil {
		return parsePEM(block, rest)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &set); err != nil || set.Keys == nil {
		return nil, errors.New("neither a JWK set (RFC 7517) nor public keys in PEM")
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the JWK set has no public key for signatures")
	}
	return keys, nil
}

func parsePEM(block *pem.Block, rest []byte) ([]jose.JSONWebKey, error) {
	var keys []jose.JSONWebKey
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("a PEM block is a %q: only PUBLIC KEY is taken", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, errors.New("a PEM block holds no public key")
		}
		keys = append(keys, jose.JSONWebKey{Key: key})
	}
	return keys, nil
}

// keySet finds the keys that may verify a token. The kid only selects; one that the set does not know may be newer than
// the set.
type keySet interface {
	keys(ctx context.Context, kid string) ([]jose.JSONWebKey, error)
}

type fileKeys struct{ *watched[[]jose.JSONWebKey] }

func (f fileKeys) keys(context.Context, string) ([]jose.JSONWebKey, error) { return f.get(), nil }

// remoteKeys is a key set that its issuer serves.
type remoteKeys struct {
	issuer string // for discovery, where url is empty
	url    string
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	set     []jose.JSONWebKey
	fetched time.Time     // when set was
	tried   time.Time     // when the last fetch began
	running chan struct{} // closed when the fetch that runs is over; nil: none runs
	err     error         // of the last fetch
}

func (r *remoteKeys) keys(ctx context.Context, kid string) ([]jose.JSONWebKey, error) {
	if running := r.refresh(ctx, kid); running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil || r.now().Sub(r.fetched) > keysStale {
		return nil, unavailable(fmt.Errorf("the key set of %s: %w", r.issuer, r.err))
	}
	return r.set, nil
}

// refresh starts a fetch if there is a reason and the last one is long enough ago. It returns what tells its end, or nil
// if there is nothing to wait for.
func (r *remoteKeys) refresh(ctx context.Context, kid string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.set != nil && now.Sub(r.fetched) < keysAge && hasKey(r.set, kid) {
		return nil
	}
	if r.running != nil {
		return r.running
	}
	if !r.tried.IsZero() && now.Sub(r.tried) < keysInterval {
		return nil
	}
	r.tried, r.running = now, make(chan struct{})
	go r.fetch(context.WithoutCancel(ctx), r.running)
	return r.running
}

func hasKey(set []jose.JSONWebKey, kid string) bool {
	if kid == "" {
		return true
	}
	for i := range set {
		if set[i].KeyID == kid {
			return true
		}
	}
	return false
}

func (r *remoteKeys) fetch(ctx context.Context, done chan struct{}) {
	set, err := r.load(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; err == nil {
		r.set, r.fetched = set, r.now()
	}
	r.running = nil
	close(done)
}

func (r *remoteKeys) load(ctx context.Context) ([]jose.JSONWebKey, error) {
	from := r.url
	if from == "" {
		var err error
		if from, err = discover(ctx, r.client, r.issuer); err != nil {
			return nil, err
		}
	}
	b, err := getJSON(ctx, r.client, from)
	if err != nil {
		return nil, err
	}
	return parseKeys(b)
}

// discoveryURL is where an issuer describes itself (OpenID Connect Discovery 1.0, section 4).
func discoveryURL(issuer string) string {
	for issuer[len(issuer)-1] == '/' {
		issuer = issuer[:len(issuer)-1]
	}
	return issuer + "/.well-known/openid-configuration"
}

// discover returns the URL of an issuer's key set.
func discover(ctx context.Context, client *http.Client, issuer string) (string, error) {
	b, err := getJSON(ctx, client, discoveryURL(issuer))
	if err != nil {
		return "", err
	}
	var doc struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return "", fmt.Errorf("%s is not a discovery document", discoveryURL(issuer))
	}
	if doc.Issuer != issuer {
		return "", fmt.Errorf("%s is the document of another issuer, %q", discoveryURL(issuer), doc.Issuer)
	}
	if err := checkURL("jwks_uri of "+issuer, doc.JWKSURI); err != nil {
		return "", err
	}
	if issuer[:6] == "https:" && doc.JWKSURI[:6] != "https:" {
		return "", fmt.Errorf("jwks_uri of %s is not https", issuer)
	}
	return doc.JWKSURI, nil
}
