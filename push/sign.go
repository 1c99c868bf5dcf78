package push

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ChallengeHeader has the word that a receiver is to echo, as all of its answer's body, to show that it wants the
// deliveries of a webhook. It comes with a GET and the other headers of a delivery; what is signed in the place of the
// body is the word.
const ChallengeHeader = "webhook-challenge"

// Headers of a delivery. The last three are those of the Standard Webhooks specification.
const (
	TokenHeader     = "X-A2A-Notification-Token" //nolint:gosec // a name, not a token
	IDHeader        = "webhook-id"
	TimestampHeader = "webhook-timestamp"
	SignatureHeader = "webhook-signature"
)

// Prefixes of keys, as Standard Webhooks writes them, and of signatures.
const (
	privatePrefix = "whsk_"
	publicPrefix  = "whpk_"
	secretPrefix  = "whsec_"
	ed25519Prefix = "v1a,"
	hmacPrefix    = "v1,"
)

// signer signs deliveries with what it has.
type signer struct {
	key    ed25519.PrivateKey
	secret []byte
}

// sign sets the headers of a delivery of this id.
func (s *signer) sign(h http.Header, id string, at time.Time, body []byte) {
	ts := strconv.FormatInt(at.Unix(), 10)
	h.Set(IDHeader, id)
	h.Set(TimestampHeader, ts)
	if s.key == nil && s.secret == nil {
		return
	}
	content := signed(id, ts, body)
	var out []string
	if s.key != nil {
		out = append(out, ed25519Prefix+base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, content)))
	}
	if s.secret != nil {
		out = append(out, hmacPrefix+base64.StdEncoding.EncodeToString(mac(s.secret, content)))
	}
	h.Set(SignatureHeader, strings.Join(out, " "))
}

// signed returns what a signature is made of.
func signed(id, ts string, body []byte) []byte {
	b := make([]byte, 0, len(id)+len(ts)+len(body)+2)
	b = append(b, id...)
	b = append(b, '.')
	b = append(b, ts...)
	b = append(b, '.')
	return append(b, body...)
}

func mac(secret, content []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(content)
	return h.Sum(nil)
}

// parseSecret reads a shared secret.
func parseSecret(s string) ([]byte, error) {
	b, err := parseKey(s, secretPrefix)
	if err != nil || len(b) < 24 || len(b) > 64 {
		return nil, errors.New("must be whsec_ and 24 to 64 bytes in base64")
	}
	return b, nil
}

func parsePublic(s string) (ed25519.PublicKey, error) {
	b, err := parseKey(s, publicPrefix)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, errors.New("must be whpk_ and the 32 bytes of an Ed25519 public key in base64")
	}
	return b, nil
}

func parseKey(s, prefix string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return nil, errors.New("not a key of this kind")
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

// PublicKey returns the public half of a key as receivers take it: whpk_ and base64.
func PublicKey(key ed25519.PrivateKey) string {
	public := key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is never anything else
	return publicPrefix + base64.StdEncoding.EncodeToString(public)
}

// KeyFile returns the key in a file, and makes one there, readable only by its owner, if there is no file. The
// file holds one line: whsk_ and the 64 bytes of the key in base64.
func KeyFile(path string) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeKeyFile(path); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("push: making the key file: %w", err)
		}
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("push: reading the key file: %w", err)
	}
	key, err := parseKey(string(bytes.TrimSpace(b)), privatePrefix)
	if err == nil && len(key) == ed25519.PrivateKeySize {
		if k := ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]); bytes.Equal(k, key) {
			return k, nil
		}
	}
	return nil, fmt.Errorf("push: %s holds no key (whsk_ and 64 bytes in base64): restore it, or remove it to have a new one made, which receivers must then be told", path)
}

// makeKeyFile makes a key and a file for it. The file appears whole: its name is given to it last.
func makeKeyFile(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".webhook-key-*") // readable only by its owner
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(privatePrefix + base64.StdEncoding.EncodeToString(key) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	err = os.Link(f.Name(), path)                   // unlike Rename, leaves alone what another process has put there
	if err != nil && !errors.Is(err, os.ErrExist) { // a file system without links
		err = os.Rename(f.Name(), path)
	}
	return err
}
