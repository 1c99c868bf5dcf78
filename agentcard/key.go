package agentcard

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// The algorithms that cards are signed with, by their JWS names.
const (
	ES256 = "ES256" // ECDSA on P-256 with SHA-256
	EdDSA = "EdDSA" // Ed25519
	RS256 = "RS256" // RSA PKCS #1 v1.5 with SHA-256
	PS256 = "PS256" // RSA PSS with SHA-256
)

var algorithms = []string{ES256, EdDSA, RS256, PS256}

// RSA keys shorter than this are too weak; longer ones cost whoever verifies too much.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// Key is a key that signs cards, or only the public half of one, which [JWKS] still publishes after a rotation.
type Key struct {
	ID        string // the kid of its signatures; set by [NewKey] and [ParseKey]
	Algorithm string // one of the four; set by [NewKey] and [ParseKey], for RSA it may be changed to the other one
	SetURL    string // the jku of its signatures: where the key set is served; empty leaves it out

	key any // *ecdsa.PrivateKey, ed25519.PrivateKey, *rsa.PrivateKey or the public key of one
}

// NewKey returns a key for a private or a public key: ECDSA on P-256, Ed25519, or RSA of 2048 to 8192 bits. The ID is
// the key's thumbprint (RFC 7638); the algorithm of an RSA key is RS256.
func NewKey(key any) (*Key, error) {
	if ed, ok := key.(ed25519.PrivateKey); ok && len(ed) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("agentcard: an Ed25519 private key has %d bytes, not %d", ed25519.PrivateKeySize, len(ed))
	}
	k := jose.JSONWebKey{Key: key}
	i := slices.IndexFunc(algorithms, func(alg string) bool { return suits(k.Public().Key, alg) })
	if i < 0 {
		return nil, fmt.Errorf("agentcard: a %T does not sign cards: use ECDSA on P-256, Ed25519, or RSA of 2048 to 8192 bits", key)
	}
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("agentcard: thumbprint of the key: %w", err)
	}
	return &Key{ID: base64.RawURLEncoding.EncodeToString(sum), Algorithm: algorithms[i], key: key}, nil
}

// suits reports whether a public key is one that an algorithm takes.
func suits(key any, alg string) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return alg == ES256 && key != nil && key.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return alg == EdDSA && len(key) == ed25519.PublicKeySize
	case *rsa.PublicKey:
		return (alg == RS256 || alg == PS256) && key != nil && key.N != nil &&
			key.N.BitLen() >= minRSABits && key.N.BitLen() <= maxRSABits
	}
	return false
}

// ParseKey reads a key file: PEM with a PKCS #8 private key ("PRIVATE KEY") or a public key ("PUBLIC KEY"), or a JWK. A
// JWK keeps its kid and its alg.
func ParseKey(b []byte) (*Key, error) {
	if block, rest := pem.Decode(b); block != nil {
		k, err := parsePEM(block)
		if next, _ := pem.Decode(rest); err == nil && next != nil {
			return nil, errors.New("agentcard: the file holds more than one PEM block: keep one key to a file")
		}
		return k, err
	}
	v, err := parse(b)
	if err != nil || v.kind != '{' {
		return nil, errors.New("agentcard: the key is neither PEM nor a JWK")
	}
	return parseJWK(b)
}

func parsePEM(block *pem.Block) (*Key, error) {
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("agentcard: the key is encrypted: decrypt it with openssl pkcs8 -in FILE -out NEW")
	default:
		return nil, fmt.Errorf("agentcard: PEM holds %q, not a PKCS #8 key: convert it with "+
			"openssl pkcs8 -topk8 -nocrypt -in FILE -out NEW", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("agentcard: the PEM key: %w", err)
	}
	return NewKey(key)
}

func parseJWK(b []byte) (*Key, error) {
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(b); err != nil {
		return nil, fmt.Errorf("agentcard: the JWK: %w", err)
	}
	k, err := NewKey(jwk.Key)
	if err != nil {
		return nil, err
	}
	if jwk.KeyID != "" {
		k.ID = jwk.KeyID
	}
	if jwk.Algorithm != "" {
		k.Algorithm = jwk.Algorithm
	}
	if err := k.check(); err != nil {
		return nil, err
	}
	return k, nil
}

// check reports what keeps a key from being used.
func (k *Key) check() error {
	switch {
	case k == nil || k.key == nil:
		return errors.New("agentcard: no key")
	case k.ID == "":
		return errors.New("agentcard: the key has no ID")
	case !suits(k.public().Key, k.Algorithm):
		return fmt.Errorf("agentcard: key %q does not sign with %q", clip(k.ID, 64), clip(k.Algorithm, 32))
	}
	return nil
}

func (k *Key) public() jose.JSONWebKey {
	private := jose.JSONWebKey{Key: k.key, KeyID: k.ID, Algorithm: k.Algorithm, Use: "sig"}
	return private.Public()
}

// JWKS returns the JWK Set of the keys' public halves (RFC 7517): what is served at the keys' SetURL, and what others
// enrol. It never holds a private key.
func JWKS(keys ...*Key) ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, k.public())
	}
	b, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("agentcard: write the key set: %w", err)
	}
	return b, nil
}

// parseJWKS returns the public keys of a set that can verify a card. As RFC 7517 has it, others are passed over; so are
// keys that are not for signatures, and private ones, which whoever reads the set could sign with (and which are not
// even read: checking one costs much).
func parseJWKS(b []byte) ([]*verifier, error) {
	v, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("the key set: %w", err)
	}
	if keys := v.get("keys"); v.kind != '{' || keys == nil || keys.kind != '[' {
		return nil, errors.New("the key set is not a JWK Set: it has no list of keys")
	}
	var out []*verifier
	for _, item := range v.elems("keys") {
		if k := newVerifier(&item); k != nil {
			out = append(out, k)
		}
	}
	return out, nil
}

// verifier is a public key of a set.
type verifier struct {
	kid string
	alg string // the only one the key is for; empty for each that suits it
	key any
}

func newVerifier(v *value) *verifier {
	if v.kind != '{' || v.get("d") != nil || v.get("k") != nil || v.get("priv") != nil {
		return nil
	}
	if use := v.get("use"); use != nil && use.text != "sig" {
		return nil
	}
	verifies := func(op value) bool { return op.text == "verify" }
	if ops := v.get("key_ops"); ops != nil && !slices.ContainsFunc(ops.items, verifies) {
		return nil
	}
	var w writer
	w.value(v)
	var jwk jose.JSONWebKey
	if w.err != nil || jwk.UnmarshalJSON(w.b) != nil {
		return nil
	}
	k := &verifier{kid: jwk.KeyID, alg: jwk.Algorithm, key: jwk.Key}
	if !slices.ContainsFunc(algorithms, k.takes) {
		return nil
	}
	return k
}

// takes reports whether the key verifies an algorithm's signatures.
func (k *verifier) takes(alg string) bool { return (k.alg == "" || k.alg == alg) && suits(k.key, alg) }
