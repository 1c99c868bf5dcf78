package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
)

// The test issuer stands in for the identity provider that gives partners their tokens: a key in the state folder. Its
// tokens are like those of a real one, and the host treats them alike.
const (
	testIssuer = "urn:example:stock-test-issuer"
	testKeyID  = "test"
)

// testPartners are the claims of the partners that the test issuer knows.
var testPartners = map[string]map[string]any{
	"acme":   {"partner": "acme", "scope": "stock.read stock.reserve", "warehouses": []string{"SBY-01", "JKT-02"}},
	"globex": {"partner": "globex", "scope": "stock.read", "warehouses": []string{"JKT-02"}},
}

// testToken returns a token for a partner's purchasing agent, good for an hour.
func testToken(state, audience, partner string) (string, error) {
	claims, ok := testPartners[partner]
	if !ok {
		return "", fmt.Errorf("the test issuer does not know the partner %q: it knows acme and globex", partner)
	}
	key, err := loadKey(filepath.Join(state, "issuer.key"))
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", testKeyID))
	if err != nil {
		return "", err
	}
	now := time.Now()
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: testIssuer, Subject: "purchasing@" + partner, Audience: jwt.Audience{audience}, ID: uuid.NewString(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
	}).Claims(claims).Serialize()
}

// testKeys writes the test issuer's key set and returns its path.
func testKeys(state string) (string, error) {
	key, err := loadKey(filepath.Join(state, "issuer.key"))
	if err != nil {
		return "", err
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &key.PublicKey, KeyID: testKeyID, Algorithm: string(jose.ES256), Use: "sig"},
	}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(state, "issuer.jwks.json")
	return path, os.WriteFile(path, set, 0o600)
}

// loadKey reads a private key, and makes it if there is none.
func loadKey(path string) (*ecdsa.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(path)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s is no key in PEM: take it away for a new one", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is no ECDSA key", path)
	}
	return private, nil
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
