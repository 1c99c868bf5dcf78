package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

// Endpoints are where an authorization server says that it can be reached.
type Endpoints struct {
	Issuer           string
	TokenURL         string
	AuthorizationURL string // empty: it has none
	DeviceURL        string // empty: it has none
}

// discoverySuffix is the path of a discovery document (OpenID Connect Discovery 1.0, section 4).
const discoverySuffix = "/.well-known/openid-configuration"

// Discover reads the discovery document of an OpenID provider (OpenID Connect Discovery 1.0, section 4) at its URL, or at
// that of its issuer. The document has to be the issuer's own, and all that it names https if its URL is. Client is as in
// OAuth.
func Discover(ctx context.Context, client *http.Client, from string) (*Endpoints, error) {
	if err := checkURL("the discovery URL", from); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(from, discoverySuffix) {
		from = discoveryURL(from)
	}
	b, err := getJSON(ctx, issuerClient(client, ""), from)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Issuer           string `json:"issuer"`
		TokenURL         string `json:"token_endpoint"`
		AuthorizationURL string `json:"authorization_endpoint"`
		DeviceURL        string `json:"device_authorization_endpoint"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || checkURL("issuer", doc.Issuer) != nil {
		return nil, fmt.Errorf("%s is not a discovery document", from)
	}
	if discoveryURL(doc.Issuer) != from {
		return nil, fmt.Errorf("%s is the document of another issuer, %q", from, doc.Issuer)
	}
	for name, s := range map[string]string{
		"token_endpoint": doc.TokenURL, "authorization_endpoint": doc.AuthorizationURL, "device_authorization_endpoint": doc.DeviceURL,
	} {
		if s == "" && name != "token_endpoint" {
			continue
		}
		if err := checkURL(name+" of "+doc.Issuer, s); err != nil {
			return nil, err
		}
		if strings.HasPrefix(from, "https:") && !strings.HasPrefix(s, "https:") {
			return nil, fmt.Errorf("%s of %s is not https", name, doc.Issuer)
		}
	}
	return &Endpoints{doc.Issuer, doc.TokenURL, doc.AuthorizationURL, doc.DeviceURL}, nil
}

// ErrorCode returns the code of the error that an authorization server answered with (RFC 6749, section 5.2), such as
// invalid_grant, and "" if err is none.
func ErrorCode(err error) string {
	e, ok := errors.AsType[*issuerError](err)
	if !ok {
		return ""
	}
	return e.code
}

// codeTime is how long a person has to sign in.
const codeTime = 10 * time.Minute

// AuthorizationCode gets a token by the authorization code flow with PKCE (RFC 6749, section 4.1; RFC 7636): show tells a
// person which URL to open in a browser on this machine, and returns at once; the browser comes back to a loopback port
// (RFC 8252, section 7.3) within 10 minutes. The second result is the refresh token, empty if there is none.
func (o OAuth) AuthorizationCode(ctx context.Context, authorizationURL string, show func(context.Context, string) error) (Token, Secret, error) {
	c, err := o.client()
	if err != nil {
		return Token{}, Secret{}, err
	}
	if err := checkURL("the authorization URL", authorizationURL); err != nil {
		return Token{}, Secret{}, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Token{}, Secret{}, fmt.Errorf("auth: no port for the browser to come back to: %w", err)
	}
	verifier, state := random(), random()
	redirect := "http://" + l.Addr().String() + "/callback"
	got := make(chan callback, 1)
	srv := &http.Server{Handler: catch(state, got), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = srv.Serve(l) }() // ends with Shutdown
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the browser's page is on its way
		defer cancel()
		if srv.Shutdown(stop) != nil {
			_ = srv.Close()
		}
	}()
	if err := show(ctx, c.authorization(authorizationURL, redirect, state, verifier)); err != nil {
		return Token{}, Secret{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, codeTime, errors.New("nobody signed in in time"))
	defer cancel()
	select {
	case <-ctx.Done():
		return Token{}, Secret{}, context.Cause(ctx)
	case b := <-got:
		if b.err != "" {
			return Token{}, Secret{}, &issuerError{authorizationURL, http.StatusFound, b.err}
		}
		return c.grant(ctx, url.Values{
			"grant_type": {"authorization_code"}, "code": {b.code.Reveal()}, "redirect_uri": {redirect}, "code_verifier": {verifier},
		})
	}
}

// authorization returns the URL that a person opens.
func (c *oauthClient) authorization(to, redirect, state, verifier string) string {
	q := c.form("")
	challenge := sha256.Sum256([]byte(verifier))
	q.Set("response_type", "code")
	q.Set("client_id", c.ClientID)
	q.Set("redirect_uri", redirect)
	q.Set("state", state)
	q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(challenge[:]))
	q.Set("code_challenge_method", "S256")
	sep := "?"
	if strings.Contains(to, "?") {
		sep = "&"
	}
	return to + sep + q.Encode()
}

func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// callback is what the browser comes back with.
type callback struct {
	code Secret
	err  string
}

// catch takes the first request that knows the state.
func catch(state string, got chan<- callback) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/callback" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			http.NotFound(w, r)
			return
		}
		b := callback{code: NewSecret(q.Get("code")), err: errorCode(q.Get("error"))}
		if b.code.Empty() && b.err == "" {
			b.err = "invalid_request"
		}
		select {
		case got <- b:
		default: // it came again
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write([]byte("Done. You can close this page and go back to the terminal.\n")) // for the person, if it is still there
	})
}
