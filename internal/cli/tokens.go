package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
)

// login is what parley auth login leaves for later calls: a token for the agents of one origin, under one scheme of their
// card, and how to get the next one.
type login struct {
	Scheme string `json:"scheme"`
	// Issuer is what the card said of the scheme: its token URL, or its discovery document. A card that says something else
	// by now is another scheme, whatever its name.
	Issuer   string `json:"issuer"`
	Flow     string `json:"flow"`
	TokenURL string `json:"tokenUrl"`
	ClientID string `json:"clientId"`
	// SecretFile is where the client's secret is. The secret itself is not kept.
	SecretFile string   `json:"clientSecretFile,omitempty"`
	Scopes     []string `json:"scopes,omitempty"`
	Resource   string   `json:"resource,omitempty"`
	Audience   string   `json:"audience,omitempty"`

	Access  string    `json:"accessToken"`
	Refresh string    `json:"refreshToken,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"` // zero: not known
}

// loginFile is the file of an origin.
type loginFile struct {
	Origin string  `json:"origin"`
	Logins []login `json:"logins"`
}

// maxLoginFile bounds what is read of a file, in bytes.
const maxLoginFile = 1 << 20

// configHome is where configuration is: $XDG_CONFIG_HOME, or ~/.config.
func configHome() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".config"), nil
}

// loginDir is where the files of logins are.
func loginDir() (string, error) {
	dir, err := configHome()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "parley", "logins"), nil
}

// loginPath returns the file for an origin.
func loginPath(origin string) (string, error) {
	dir, err := loginDir()
	if err != nil {
		return "", err
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.Replace(origin, "://", "_", 1))
	return filepath.Join(dir, name+".json"), nil
}

// loginFileError says that a file cannot be used as it is.
type loginFileError struct{ *failure }

// Unwrap returns the failure.
func (e loginFileError) Unwrap() error { return e.failure }

func badLogin(path, format string, args ...any) error {
	return loginFileError{fail(errAuthFailed, "remove it and log in again with parley auth login",
		"the login in %s is not used: %s", path, fmt.Sprintf(format, args...))}
}

// readLogins reads the file for an origin. Without one there is no login, and no error.
func readLogins(origin string) (*loginFile, error) {
	path, err := loginPath(origin)
	if err != nil {
		return nil, err
	}
	file, err := readLoginFile(path)
	if err == nil && file.Origin != origin && len(file.Logins) > 0 {
		return nil, badLogin(path, "it is for %s", file.Origin)
	}
	return file, err
}

func readLoginFile(path string) (*loginFile, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return new(loginFile), nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxLoginFile:
		return nil, badLogin(path, "it is not a file that parley auth login wrote")
	case othersRead(info) || ownedByOther(info):
		return nil, badLogin(path, "others can read it (mode %04o), so its tokens may be known", info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := new(loginFile)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil || out.Origin == "" || d.More() {
		return nil, badLogin(path, "it is damaged")
	}
	return out, nil
}

// changeLogins changes the file for an origin, for this process alone. A file that cannot be used is replaced if anew is
// set. Where change returns an error nothing is written; a file without logins is removed.
func changeLogins(origin string, anew bool, change func(*loginFile) error) error {
	path, err := loginPath(origin)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which ends the lock
	file, err := readLogins(origin)
	if _, bad := errors.AsType[loginFileError](err); bad && anew {
		file, err = new(loginFile), nil
	}
	if err != nil {
		return err
	}
	file.Origin = origin
	if err := change(file); err != nil {
		return err
	}
	if len(file.Logins) == 0 {
		return ignoreNotExist(os.Remove(path))
	}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(path, append(b, '\n'))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// writeWhole puts a file in place that only its owner can read: whoever reads sees the old one or the new one.
func writeWhole(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".login-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// set puts in a login in the place of the one under the same scheme.
func (file *loginFile) set(l login) {
	file.remove(l.Scheme)
	file.Logins = append(file.Logins, l)
}

func (file *loginFile) remove(scheme string) {
	file.Logins = slices.DeleteFunc(file.Logins, func(l login) bool { return l.Scheme == scheme })
}

// find returns the login that a card takes, nil if there is none: its scheme is declared, by the same issuer.
func (file *loginFile) find(card *a2a.AgentCard) *login {
	for i, l := range file.Logins {
		if s, ok := card.SecuritySchemes[l.Scheme]; ok && issuerOf(s) == l.Issuer && l.Issuer != "" {
			return &file.Logins[i]
		}
	}
	return nil
}

// issuerOf returns what a card says of where the tokens of a scheme come from, "" if parley cannot get one.
func issuerOf(s a2a.SecurityScheme) string {
	switch s := s.(type) {
	case *a2a.OpenIDConnectSecurityScheme:
		return s.OpenIDConnectURL
	case *a2a.OAuth2SecurityScheme:
		switch f := s.Flows.(type) {
		case *a2a.DeviceCodeOAuthFlow:
			return f.TokenURL
		case *a2a.ClientCredentialsOAuthFlow:
			return f.TokenURL
		case *a2a.AuthorizationCodeOAuthFlow:
			return f.TokenURL
		default:
			return ""
		}
	default:
		return ""
	}
}

// early is how long before its end a token is taken for expired.
const early = 30 * time.Second

func (l *login) good() bool {
	return l.Access != "" && (l.Expiry.IsZero() || time.Now().Add(early).Before(l.Expiry))
}

// renews reports whether the login outlives its token.
func (l *login) renews() bool { return l.Refresh != "" || l.Flow == flowClient }

// oauth returns the client that gets tokens for the login.
func (l *login) oauth(s *session) (auth.OAuth, error) {
	secret, err := s.flags.secretOf(l.SecretFile)
	return auth.OAuth{
		TokenURL: l.TokenURL, ClientID: l.ClientID, ClientSecret: secret, Scopes: l.Scopes,
		Resource: l.Resource, Audience: l.Audience, Client: s.net.issuers(),
	}, err
}

// renew gets the next token.
func (l *login) renew(ctx context.Context, s *session) error {
	o, err := l.oauth(s)
	if err != nil {
		return err
	}
	var source auth.TokenSource
	switch {
	case l.Refresh != "":
		source, err = o.Refresh(auth.NewSecret(l.Refresh), func(next auth.Secret) error { l.Refresh = next.Reveal(); return nil })
	case l.Flow == flowClient:
		source, err = o.ClientCredentials()
	default:
		return errors.New("the token has expired, and there is no refresh token")
	}
	if err != nil {
		return err
	}
	token, err := source.Token(ctx)
	if err == nil {
		l.Access, l.Expiry = token.Secret.Reveal(), token.Expiry
	}
	return err
}

// token returns the token of a login, which is renewed if it has expired, or is the one that was refused.
func (s *session) token(ctx context.Context, origin, scheme, refused string) (string, error) {
	good := func(l *login) bool { return l.good() && l.Access != refused }
	file, err := readLogins(origin)
	if err != nil {
		return "", err
	}
	if i := file.index(scheme); i >= 0 && good(&file.Logins[i]) {
		return s.keep(&file.Logins[i]), nil
	}
	var token string
	err = changeLogins(origin, false, func(file *loginFile) error {
		i := file.index(scheme)
		if i < 0 {
			return s.loggedOut(nil)
		}
		l := &file.Logins[i]
		if !good(l) { // it may have been renewed meanwhile
			if err := l.renew(ctx, s); err != nil {
				return s.loggedOut(err)
			}
		}
		token = s.keep(l)
		return nil
	})
	return token, err
}

func (file *loginFile) index(scheme string) int {
	return slices.IndexFunc(file.Logins, func(l login) bool { return l.Scheme == scheme })
}

// keep returns a login's token, which is blotted out from here on.
func (s *session) keep(l *login) string {
	s.secret.add(l.Access, l.Refresh)
	return l.Access
}

// loggedOut says that there is no token to be had without a new login.
func (s *session) loggedOut(cause error) error {
	if cause == nil {
		return fail(errCredentialsMissing, s.loginCommand(), "the login is gone")
	}
	if unreached(cause) {
		return fail(errUnreachable, "check the connection, or log in again: "+s.loginCommand(), "the login could not be renewed: %s", cause.Error())
	}
	return fail(errAuthFailed, s.loginCommand(), "the login could not be renewed: %s", cause.Error())
}
