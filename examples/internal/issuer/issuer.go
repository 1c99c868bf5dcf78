// Package issuer stands in for the identity provider of the examples: a key in a folder, and tokens that it signs. They
// are like those of a real issuer, and a host treats them alike.
package issuer

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

// KeyID is the kid of the key in tokens and in the key set.
const KeyID = "test"

// Issuer signs tokens with the key in a folder.
type Issuer struct {
	Name   string // the tokens' iss
	Folder string // of the key, which is made when there is none
}

// Token returns a token for a subject at an audience, good for an hour, with claims such as scope.
func (i Issuer) Token(subject, audience string, claims map[string]any) (string, error) {
	key, err := LoadKey(filepath.Join(i.Folder, "issuer.key"))
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", KeyID))
	if err != nil {
		return "", err
	}
	now := time.Now()
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: i.Name, Subject: subject, Audience: jwt.Audience{audience}, ID: uuid.NewString(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
	}).Claims(claims).Serialize()
}

// KeysFile writes the key set by which the tokens are verified, and returns its path.
func (i Issuer) KeysFile() (string, error) {
	key, err := LoadKey(filepath.Join(i.Folder, "issuer.key"))
	if err != nil {
		return "", err
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &key.PublicKey, KeyID: KeyID, Algorithm: string(jose.ES256), Use: "sig"},
	}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(i.Folder, "issuer.jwks.json")
	return path, os.WriteFile(path, set, 0o600)
}

// LoadKey reads a private key, and makes it if there is none.
func LoadKey(path string) (*ecdsa.PrivateKey, error) {
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
