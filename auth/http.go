package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json" // keeps to the case of names and refuses duplicates

	"github.com/parley-a2a/parley/internal/netguard"
)

// maxAnswer is how much an issuer may answer, in bytes.
const maxAnswer = 1 << 20

const issuerTimeout = 10 * time.Second

// issuerClient returns the client for an issuer's URLs: that of the options, or one that reaches public addresses over
// https only, unless the URL that a host is configured with, if any, is one of http at loopback. Either way no redirect is followed.
func issuerClient(given *http.Client, configured string) *http.Client {
	if given == nil {
		u, err := url.Parse(configured)
		local := err == nil && u.Scheme == "http" && isLoopback(u.Hostname())
		return netguard.New(netguard.Options{AllowPrivate: local, AnyPort: true}).Client(issuerTimeout)
	}
	c := *given
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// checkURL returns an error if a URL of an issuer is not absolute, or not encrypted: http is for loopback only.
func checkURL(what, s string) error {
	if err := checkText(what, s); err != nil {
		return err
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("auth: %s is not an absolute https URL without a user name and a fragment", what)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("auth: %s is not encrypted: name an https URL (http is taken at loopback addresses only)", what)
	}
	return nil
}

// getJSON fetches JSON from an issuer.
func getJSON(ctx context.Context, client *http.Client, from string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	status, b, err := send(client, r)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answered with HTTP status %d", from, status)
	}
	return b, err
}

// issuerError is an error that a token endpoint answers with (RFC 6749, section 5.2).
type issuerError struct {
	url    string
	status int
	code   string // such as invalid_grant; empty: it gave none
}

func (e *issuerError) Error() string {
	if e.code == "" {
		return fmt.Sprintf("%s answered with HTTP status %d", e.url, e.status)
	}
	return fmt.Sprintf("%s answered %s (HTTP status %d)", e.url, e.code, e.status)
}

// clientID is how a client makes itself known to an issuer (RFC 6749, section 2.3.1).
type clientID struct {
	id     string
	secret Secret // empty for a public client
}

// postForm sends a form to an issuer and decodes the JSON that it answers with into out. Errors hold neither the form nor
// the answer, but for the code of an error.
func postForm(ctx context.Context, client *http.Client, to string, who clientID, form url.Values, out any) error {
	if who.secret.Empty() {
		form.Set("client_id", who.id)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if !who.secret.Empty() {
		r.SetBasicAuth(url.QueryEscape(who.id), url.QueryEscape(who.secret.Reveal()))
	}
	status, b, err := send(client, r)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		var answer struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(b, &answer) // what is not JSON has no code
		return &issuerError{to, status, errorCode(answer.Error)}
	}
	if json.Unmarshal(b, out) != nil {
		return fmt.Errorf("%s answered with something else than the expected JSON", to)
	}
	return nil
}

// errorCode returns s if it can be a code of an error, and otherwise "".
func errorCode(s string) string {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	if len(s) > 64 || strings.ContainsFunc(s, bad) {
		return ""
	}
	return s
}

func send(client *http.Client, r *http.Request) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), issuerTimeout)
	defer cancel()
	res, err := client.Do(r.WithContext(ctx))
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, err
	case len(b) > maxAnswer:
		return 0, nil, errors.New(r.URL.Redacted() + " answered with more than 1 MiB")
	}
	return res.StatusCode, b, nil
}
