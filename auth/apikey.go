package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// APIKeyIssuer is the Issuer of callers with an API key; their Subject is the key's name.
const APIKeyIssuer = "api-key"

// minAPIKey is how many characters a key must have: it is kept as a plain hash, so it must not be guessable.
const minAPIKey = 16

// APIKey is a key that a caller may have.
type APIKey struct {
	Name   string // who the caller is; two keys may have one name while one replaces the other
	Hash   [sha256.Size]byte
	Tenant string
	Scopes []string
	Expiry time.Time // zero: never
}

// ParseAPIKey reads a key from NAME=SECRET, or NAME=sha256:HEX for one whose secret is not to be written down, and after
// that, each behind a space, scope=A,B and tenant=T and expires=TIME (RFC 3339). A secret has at least 16 characters.
// Make one with a random generator: it is kept as its SHA-256. No error repeats the text.
func ParseAPIKey(text string) (APIKey, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return APIKey{}, errors.New("auth: an API key is written as NAME=SECRET")
	}
	name, secret, ok := strings.Cut(fields[0], "=")
	if !ok || name == "" {
		return APIKey{}, errors.New("auth: an API key is written as NAME=SECRET")
	}
	key := APIKey{Name: name}
	if sum, ok := strings.CutPrefix(secret, "sha256:"); ok {
		b, err := hex.DecodeString(sum)
		if err != nil || len(b) != sha256.Size {
			return APIKey{}, errors.New("auth: behind sha256: stand the 64 hexadecimal digits of the secret's SHA-256")
		}
		key.Hash = [sha256.Size]byte(b)
	} else {
		if len(secret) < minAPIKey {
			return APIKey{}, fmt.Errorf("auth: the secret of an API key needs at least %d characters: take random ones", minAPIKey)
		}
		key.Hash = sha256.Sum256([]byte(secret))
	}
	for _, f := range fields[1:] {
		what, value, _ := strings.Cut(f, "=")
		switch what {
		case "scope":
			key.Scopes = append(key.Scopes, strings.Split(value, ",")...)
		case "tenant":
			key.Tenant = value
		case "expires":
			t, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return APIKey{}, errors.New("auth: expires= of an API key takes a time such as 2030-01-31T00:00:00Z")
			}
			key.Expiry = t
		default:
			return APIKey{}, errors.New("auth: behind the secret of an API key may stand scope=, tenant= and expires=, nothing else")
		}
	}
	return key, key.check()
}

func (k *APIKey) check() error {
	if err := checkText("the name of an API key", k.Name); err != nil {
		return err
	}
	if k.Tenant != "" {
		if err := checkText("the tenant of an API key", k.Tenant); err != nil {
			return err
		}
	}
	return checkScopes(k.Scopes)
}

// APIKeyOptions are the choices of [NewAPIKeys]. There must be keys or a file.
type APIKeyOptions struct {
	Header string // that the key is in; default X-API-Key
	Keys   []APIKey
	// File has a key on each line, as [ParseAPIKey] reads it; empty lines and those that begin with # do not count. A
	// change is in effect within 5 seconds.
	File   string
	Scheme string       // the name in the card; default apiKey
	Log    *slog.Logger // hears of a file that is wrong after a change; nil: slog.Default
}

// APIKeys is the [Method] for API keys.
type APIKeys struct {
	opts APIKeyOptions
	file *watched[keyFile]
	now  func() time.Time
}

// keyFile is what a file of keys says, and what it has said.
type keyFile struct {
	keys []APIKey
	gone []APIKey // were in it since this process began, and are no longer: whoever has one does not guess
}

// maxGone is how many keys are remembered that are no longer in a file, the latest.
const maxGone = 1000

// after returns the keys in the place of those of an earlier reading.
func (f keyFile) after(was keyFile) keyFile {
	all := append(slices.Clip(was.gone), was.keys...)
	f.gone = slices.DeleteFunc(all, func(k APIKey) bool { return find(f.keys, k.Hash[:]) != nil })
	f.gone = f.gone[max(0, len(f.gone)-maxGone):]
	return f
}

// NewAPIKeys returns the method.
func NewAPIKeys(opts APIKeyOptions) (*APIKeys, error) {
	opts.Header = http.CanonicalHeaderKey(cmp.Or(opts.Header, "X-API-Key"))
	opts.Scheme = cmp.Or(opts.Scheme, "apiKey")
	if err := checkHeader(opts.Header); err != nil {
		return nil, err
	}
	if opts.Header == "Authorization" {
		return nil, errors.New("auth: an API key has a header of its own, not Authorization")
	}
	for i := range opts.Keys {
		if err := opts.Keys[i].check(); err != nil {
			return nil, err
		}
	}
	k := &APIKeys{opts: opts, now: time.Now}
	if opts.File == "" {
		if len(opts.Keys) == 0 {
			return nil, errors.New("auth: no API keys: give APIKeyOptions.Keys or a File")
		}
		return k, checkKeys(opts.Keys)
	}
	var err error
	var was keyFile
	k.file, err = watch(opts.Log, func(files [][]byte) (keyFile, error) {
		keys, err := parseAPIKeys(files[0])
		if err != nil {
			return was, err
		}
		if err := checkKeys(append(slices.Clip(keys), opts.Keys...)); err != nil {
			return was, err
		}
		was = keyFile{keys: keys}.after(was)
		return was, nil
	}, opts.File)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func parseAPIKeys(b []byte) ([]APIKey, error) {
	var keys []APIKey
	n := 0
	for line := range bytes.Lines(b) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		key, err := ParseAPIKey(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// checkKeys refuses keys that are not one caller's.
func checkKeys(keys []APIKey) error {
	names := make(map[[sha256.Size]byte]string, len(keys))
	for i := range keys {
		if name, ok := names[keys[i].Hash]; ok && name != keys[i].Name {
			return fmt.Errorf("auth: %q and %q have the same API key", name, keys[i].Name)
		}
		names[keys[i].Hash] = keys[i].Name
	}
	return nil
}

// Header implements [Method].
func (k *APIKeys) Header() string { return k.opts.Header }

// Identify implements [Method]. It compares with every key, whichever fits.
func (k *APIKeys) Identify(_ context.Context, info *a2a.CallInfo) (Identity, error) {
	values := info.Header[k.opts.Header]
	if len(values) == 0 {
		return Identity{}, ErrNone
	}
	sum := sha256.Sum256([]byte(values[0]))
	found := find(k.opts.Keys, sum[:])
	var gone *APIKey
	if k.file != nil {
		file := k.file.get()
		if f := find(file.keys, sum[:]); f != nil {
			found = f
		}
		gone = find(file.gone, sum[:])
	}
	switch {
	case found == nil && gone != nil:
		return Identity{}, revoked(gone.caller())
	case found == nil:
		return Identity{}, refused(whyKey, "the API key is not valid")
	case !found.Expiry.IsZero() && !k.now().Before(found.Expiry):
		return Identity{}, expired(found.caller())
	}
	return Identity{Caller: found.caller()}, nil
}

func (k *APIKey) caller() a2a.Caller {
	return a2a.Caller{Tenant: k.Tenant, Issuer: APIKeyIssuer, Subject: k.Name, Scopes: k.Scopes, Expiry: k.Expiry}
}

func find(keys []APIKey, sum []byte) (found *APIKey) {
	for i := range keys {
		if subtle.ConstantTimeCompare(keys[i].Hash[:], sum) == 1 {
			found = &keys[i]
		}
	}
	return found
}

// Scheme implements [Method].
func (k *APIKeys) Scheme() (string, a2a.SecurityScheme) {
	return k.opts.Scheme, &a2a.APIKeySecurityScheme{Location: "header", Name: k.opts.Header}
}

// Challenge implements [Method]. There is no registered scheme for API keys.
func (k *APIKeys) Challenge() (string, []string) {
	return "ApiKey", []string{param("header", k.opts.Header)}
}
