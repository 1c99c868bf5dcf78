package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// Denylist says which credentials no longer count though they are otherwise good. A credential is denied by its issuer
// and either its own id (the jti of a token, the SHA-256 fingerprint of a certificate in lower-case hex) or its subject,
// which denies all credentials of that subject.
type Denylist struct {
	file *watched[map[denied]bool]

	mu    sync.RWMutex
	added map[denied]bool
}

type denied struct{ issuer, id string }

// NewDenylist returns a list that is empty but for what Deny adds to it.
func NewDenylist() *Denylist { return &Denylist{} }

// OpenDenylist returns a list that is kept in a file. A line is an issuer, a space, and an id or a subject; empty lines
// and those that begin with # do not count. A change is in effect within 5 seconds.
func OpenDenylist(path string, log *slog.Logger) (*Denylist, error) {
	file, err := watch(log, parseDenylist, path)
	if err != nil {
		return nil, err
	}
	return &Denylist{file: file}, nil
}

func parseDenylist(files [][]byte) (map[denied]bool, error) {
	list := make(map[denied]bool)
	n := 0
	for line := range bytes.Lines(files[0]) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		issuer, id, ok := strings.Cut(text, " ")
		id = strings.TrimSpace(id)
		if !ok || id == "" {
			return nil, fmt.Errorf("line %d: write an issuer, a space, and an id or a subject", n)
		}
		list[denied{issuer, id}] = true
	}
	return list, nil
}

// Deny adds a credential or a subject for as long as the process lives.
func (d *Denylist) Deny(issuer, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.added == nil {
		d.added = make(map[denied]bool)
	}
	d.added[denied{issuer, id}] = true
}

// denies reports whether the list has the identity.
func (d *Denylist) denies(id Identity) bool {
	if d == nil {
		return false
	}
	subject, credential := denied{id.Issuer, id.Subject}, denied{id.Issuer, id.Credential}
	if d.file != nil {
		if list := d.file.get(); list[subject] || list[credential] {
			return true
		}
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.added[subject] || d.added[credential]
}
