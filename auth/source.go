package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Token is a secret with the time until which it is good.
type Token struct {
	Secret Secret
	Expiry time.Time // zero: not known
}

// good reports whether the token can be used for a while.
func (t Token) good(now time.Time) bool {
	return !t.Secret.Empty() && (t.Expiry.IsZero() || now.Add(skew).Before(t.Expiry))
}

// TokenSource gives tokens. It is asked again when the last one is about to expire or was refused. It is safe for
// concurrent use.
type TokenSource interface {
	Token(context.Context) (Token, error)
}

// TokenFunc is a function as a TokenSource.
type TokenFunc func(context.Context) (Token, error)

// Token implements [TokenSource].
func (f TokenFunc) Token(ctx context.Context) (Token, error) { return f(ctx) }

// Static returns a source of a secret that stays the same, such as an API key.
func Static(secret Secret) TokenSource {
	return TokenFunc(func(context.Context) (Token, error) { return Token{Secret: secret}, nil })
}

// OAuth is a client of an OAuth 2.0 authorization server. URLs of it are the operator's, never a card's. Clients with a
// secret show it by HTTP Basic.
type OAuth struct {
	TokenURL string // required
	// DeviceURL is the device authorization endpoint, for [OAuth.DeviceCode].
	DeviceURL string
	ClientID  string // required
	// ClientSecret is empty for a public client.
	ClientSecret Secret
	Scopes       []string
	// Resource is the URL of the agent that the token is for (RFC 8707), and Audience its name for servers that ask for that
	// instead; empty: not sent.
	Resource, Audience string
	// Client sends the requests; no redirect is followed. Nil: one that reaches public addresses by https only.
	Client *http.Client
}

// check returns an error if the configuration lacks something.
func (o *OAuth) check() error {
	if err := checkURL("OAuth.TokenURL", o.TokenURL); err != nil {
		return err
	}
	if err := checkText("OAuth.ClientID", o.ClientID); err != nil {
		return err
	}
	if o.DeviceURL != "" {
		if err := checkURL("OAuth.DeviceURL", o.DeviceURL); err != nil {
			return err
		}
	}
	return cmp.Or(checkTexts("OAuth.Resource", o.Resource), checkTexts("OAuth.Audience", o.Audience), checkScopes(o.Scopes))
}

// tokenAnswer is an answer of a token endpoint (RFC 6749, section 5.1).
type tokenAnswer struct {
	AccessToken  string  `json:"access_token"`
	TokenType    string  `json:"token_type"`
	ExpiresIn    float64 `json:"expires_in"`
	RefreshToken string  `json:"refresh_token"`
}

// client does the requests of one source.
type oauthClient struct {
	OAuth
	http *http.Client
	now  func() time.Time
}

func (o OAuth) client() (*oauthClient, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &oauthClient{o, issuerClient(o.Client, ""), time.Now}, nil
}

// grant asks the token endpoint. The second result is the refresh token, if there is one.
func (c *oauthClient) grant(ctx context.Context, form url.Values) (Token, Secret, error) {
	var a tokenAnswer
	asked := c.now()
	if err := postForm(ctx, c.http, c.TokenURL, clientID{c.ClientID, c.ClientSecret}, form, &a); err != nil {
		return Token{}, Secret{}, err
	}
	switch {
	case a.AccessToken == "":
		return Token{}, Secret{}, fmt.Errorf("%s answered without an access_token", c.TokenURL)
	case !strings.EqualFold(a.TokenType, bearer):
		return Token{}, Secret{}, fmt.Errorf("%s answered with a token that is not of the type Bearer", c.TokenURL)
	}
	token := Token{Secret: NewSecret(a.AccessToken)}
	if a.ExpiresIn > 0 {
		token.Expiry = asked.Add(time.Duration(min(a.ExpiresIn, 1e9)) * time.Second)
	}
	return token, NewSecret(a.RefreshToken), nil
}

// form returns what a grant sends besides the client's credentials.
func (c *oauthClient) form(grant string) url.Values {
	form := make(url.Values)
	if grant != "" {
		form.Set("grant_type", grant)
	}
	for name, value := range map[string]string{
		"scope": strings.Join(c.Scopes, " "), "resource": c.Resource, "audience": c.Audience,
	} {
		if value != "" {
			form.Set(name, value)
		}
	}
	return form
}

// ClientCredentials returns a source of tokens that the client gets for itself (RFC 6749, section 4.4).
func (o OAuth) ClientCredentials() (TokenSource, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	if o.ClientSecret.Empty() {
		return nil, errors.New("auth: OAuth.ClientSecret is required for client credentials")
	}
	return TokenFunc(func(ctx context.Context) (Token, error) {
		token, _, err := c.grant(ctx, c.form("client_credentials"))
		return token, err
	}), nil
}

// Refresh returns a source of tokens for a refresh token (RFC 6749, section 6). Save, if it is not nil, gets each new
// refresh token that takes the place of the last.
func (o OAuth) Refresh(refresh Secret, save func(Secret) error) (TokenSource, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	if refresh.Empty() {
		return nil, errors.New("auth: the refresh token is empty")
	}
	return &refresher{oauthClient: c, save: save, refresh: refresh}, nil
}

type refresher struct {
	*oauthClient
	save func(Secret) error

	mu      sync.Mutex
	refresh Secret
}

// Token implements [TokenSource].
func (r *refresher) Token(ctx context.Context) (Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renew(ctx)
}

// renew is Token for who holds the lock.
func (r *refresher) renew(ctx context.Context) (Token, error) {
	form := r.form("refresh_token")
	form.Set("refresh_token", r.refresh.Reveal())
	token, next, err := r.grant(ctx, form)
	if err != nil {
		return Token{}, err
	}
	return token, r.rotate(next)
}

// rotate keeps a new refresh token.
func (r *refresher) rotate(next Secret) error {
	if next.Empty() {
		return nil
	}
	r.refresh = next
	if r.save == nil {
		return nil
	}
	return r.save(next)
}

// DevicePrompt is what a person is asked to do.
type DevicePrompt struct {
	UserCode    string
	URL         string // where to enter the code
	CompleteURL string // where the code is entered already; may be empty
	Expiry      time.Time
}

// DeviceCode returns a source of tokens that a person grants on another device (RFC 8628). Prompt tells the person, and
// returns at once. Later tokens come by the refresh token; when the server no longer takes that, the person is asked
// again. Save is as for Refresh.
func (o OAuth) DeviceCode(prompt func(context.Context, DevicePrompt) error, save func(Secret) error) (TokenSource, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	if err := checkURL("OAuth.DeviceURL", o.DeviceURL); err != nil {
		return nil, err
	}
	if prompt == nil {
		return nil, errors.New("auth: a device code needs a prompt")
	}
	return &device{refresher: refresher{oauthClient: c, save: save}, prompt: prompt}, nil
}

type device struct {
	refresher
	prompt func(context.Context, DevicePrompt) error
}

// Token implements [TokenSource].
func (d *device) Token(ctx context.Context) (Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.refresh.Empty() {
		token, err := d.renew(ctx)
		if e, ok := errors.AsType[*issuerError](err); !ok || e.code != "invalid_grant" {
			return token, err
		}
	}
	return d.ask(ctx)
}

// deviceAnswer is an answer of a device authorization endpoint (RFC 8628, section 3.2).
type deviceAnswer struct {
	DeviceCode string  `json:"device_code"`
	UserCode   string  `json:"user_code"`
	URL        string  `json:"verification_uri"`
	Complete   string  `json:"verification_uri_complete"`
	ExpiresIn  float64 `json:"expires_in"`
	Interval   float64 `json:"interval"`
}

func (d *device) ask(ctx context.Context) (Token, error) {
	var a deviceAnswer
	if err := postForm(ctx, d.http, d.DeviceURL, clientID{d.ClientID, d.ClientSecret}, d.form(""), &a); err != nil {
		return Token{}, err
	}
	if a.DeviceCode == "" || a.UserCode == "" || a.ExpiresIn <= 0 || checkURL("verification_uri", a.URL) != nil {
		return Token{}, fmt.Errorf("%s answered without what a device needs (RFC 8628, section 3.2)", d.DeviceURL)
	}
	if checkURL("verification_uri_complete", a.Complete) != nil {
		a.Complete = ""
	}
	left := time.Duration(min(a.ExpiresIn, 3600)) * time.Second
	err := d.prompt(ctx, DevicePrompt{UserCode: a.UserCode, URL: a.URL, CompleteURL: a.Complete, Expiry: d.now().Add(left)})
	if err != nil {
		return Token{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left, errors.New("nobody entered the code in time"))
	defer cancel()
	interval := 5 * time.Second
	if a.Interval > 0 {
		interval = time.Duration(min(a.Interval, 60) * float64(time.Second))
	}
	return d.poll(ctx, NewSecret(a.DeviceCode), interval)
}

// poll asks until the person has answered (RFC 8628, section 3.5).
func (d *device) poll(ctx context.Context, code Secret, interval time.Duration) (Token, error) {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return Token{}, context.Cause(ctx)
		case <-timer.C:
		}
		form := url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {code.Reveal()},
		}
		token, refresh, err := d.grant(ctx, form)
		if err == nil {
			return token, d.rotate(refresh)
		}
		e, ok := errors.AsType[*issuerError](err)
		if !ok {
			return Token{}, err
		}
		switch e.code {
		case "authorization_pending":
		case "slow_down":
			interval += 5 * time.Second
		default:
			return Token{}, err
		}
		timer.Reset(interval)
	}
}
