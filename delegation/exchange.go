package delegation

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/netguard"
)

// ErrNoToken says that the token with which a message came is not there any more, or never was.
var ErrNoToken = errors.New("delegation: the caller's token is not at hand, so there is nothing to exchange")

// Names of RFC 8693.
const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT       = "urn:ietf:params:oauth:token-type:jwt"
)

// Limits of an Exchange.
const (
	exchangeTime  = 10 * time.Second
	maxAnswer     = 64 << 10 // bytes
	maxExchanged  = 10_000   // tokens that are kept
	exchangeEarly = 30 * time.Second
)

// ExchangeOptions say where tokens are exchanged. Endpoint and Actor are required.
type ExchangeOptions struct {
	// Endpoint is the token service's URL: https at a public address.
	Endpoint string
	// AllowPrivate also takes http, and loopback and private addresses.
	AllowPrivate bool
	// Actor returns this agent's own token, which says who acts.
	Actor TokenSource
	// ClientID and ClientSecret authenticate this agent at the token service (HTTP Basic), if it wants that.
	ClientID, ClientSecret string
	// Scopes are those to ask for; none: the token service decides. A token with fewer is as good.
	Scopes []string
}

// Exchange trades the token of a caller, at a token service (RFC 8693), for one by which the next agent sees the same
// subject, this agent as the actor, and itself as the audience. The caller's own token goes to nobody else. It is safe
// for use by several goroutines.
type Exchange struct {
	opts ExchangeOptions
	http *http.Client

	mu sync.Mutex
	m  map[exchangeKey]*exchanged
}

type exchangeKey struct {
	subject  [sha256.Size]byte // of the token
	audience string
}

// exchanged is one token. Who holds the place in turn asks for it, the others wait.
type exchanged struct {
	turn    chan struct{}
	token   string
	expires time.Time // zero: it is not to be kept
}

// NewExchange returns an Exchange. The endpoint's URL is checked now, its address at every connection.
func NewExchange(ctx context.Context, opts ExchangeOptions) (*Exchange, error) {
	if opts.Actor == nil {
		return nil, errors.New("delegation: ExchangeOptions.Actor is required: the agent's own token says who acts")
	}
	guard := netguard.New(netguard.Options{AllowPrivate: opts.AllowPrivate, AnyPort: true})
	if _, err := guard.Check(ctx, opts.Endpoint); err != nil {
		return nil, fmt.Errorf("delegation: the token service's URL: %w", err)
	}
	return &Exchange{opts: opts, http: guard.Client(exchangeTime), m: map[exchangeKey]*exchanged{}}, nil
}

// Source returns the tokens for the calls of a run to the agent that the token service knows as audience. origins are
// where that agent is: scheme, host and port, such as https://c.example, or host and port of its gRPC interface.
// [Client] hands the token to no other address.
func (x *Exchange) Source(r *agent.Request, tokens *Tokens, audience string, origins ...string) TokenSource {
	return &source{x: x, r: r, tokens: tokens, audience: audience, origins: origins}
}

type source struct {
	x        *Exchange
	r        *agent.Request
	tokens   *Tokens
	audience string
	origins  []string
}

// Token implements TokenSource.
func (s *source) Token(ctx context.Context) (string, error) {
	subject, ok := s.tokens.Of(s.r)
	if !ok {
		return "", ErrNoToken
	}
	return s.x.Token(ctx, subject, s.audience)
}

// allows implements bound.
func (s *source) allows(address string) error {
	for _, o := range s.origins {
		if origin(o) == origin(address) {
			return nil
		}
	}
	return fmt.Errorf("delegation: the token for %q is not sent to %q, which is at none of its origins: compare the card with what is configured",
		s.audience, origin(address))
}

// origin returns what of an address counts: scheme, host and port of a URL, otherwise the whole.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return strings.ToLower(address)
	}
	return netguard.Origin(u)
}

// Token returns the token for audience in exchange for subject's. It is kept until shortly before it expires.
func (x *Exchange) Token(ctx context.Context, subject, audience string) (string, error) {
	e := x.entry(exchangeKey{sha256.Sum256([]byte(subject)), audience})
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if time.Now().Before(e.expires) {
		return e.token, nil
	}
	token, life, err := x.ask(ctx, subject, audience)
	if err != nil {
		return "", err
	}
	e.token, e.expires = token, time.Now().Add(life-min(exchangeEarly, life/10))
	return token, nil
}

// entry returns the place of a token. When there are too many all are forgotten: they can be had again.
func (x *Exchange) entry(k exchangeKey) *exchanged {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.m[k]
	if e == nil {
		if len(x.m) >= maxExchanged {
			clear(x.m)
		}
		e = &exchanged{turn: make(chan struct{}, 1)}
		x.m[k] = e
	}
	return e
}

// ask asks the token service. No error has a token in it, nor what the service says in words of its own.
func (x *Exchange) ask(ctx context.Context, subject, audience string) (string, time.Duration, error) {
	actor, err := x.opts.Actor.Token(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("delegation: the agent's own token: %w", err)
	}
	form := url.Values{
		"grant_type":    {grantExchange},
		"subject_token": {subject}, "subject_token_type": {typeAccess},
		"actor_token": {actor}, "actor_token_type": {typeAccess},
		"requested_token_type": {typeAccess},
		"audience":             {audience},
	}
	if len(x.opts.Scopes) > 0 {
		form.Set("scope", strings.Join(x.opts.Scopes, " "))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.opts.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if x.opts.ClientID != "" {
		req.SetBasicAuth(url.QueryEscape(x.opts.ClientID), url.QueryEscape(x.opts.ClientSecret))
	}
	res, err := x.http.Do(req)
	if err != nil {
		return "", 0, fmt.Errorf("delegation: the token service cannot be reached: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("delegation: the token service's answer broke off: %w", err)
	case len(body) > maxAnswer:
		return "", 0, fmt.Errorf("delegation: the token service's answer has more than %d bytes", maxAnswer)
	}
	return x.read(res.StatusCode, body, subject, actor)
}

func (x *Exchange) read(status int, body []byte, subject, actor string) (string, time.Duration, error) {
	var answer struct {
		Token     string `json:"access_token"`
		Type      string `json:"token_type"`
		Issued    string `json:"issued_token_type"`
		ExpiresIn int64  `json:"expires_in"`
		Error     string `json:"error"`
	}
	err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer)
	switch {
	case status != http.StatusOK:
		return "", 0, fmt.Errorf("delegation: the token service refused the exchange: status %d, error %q", status, code(answer.Error))
	case err != nil || answer.Token == "":
		return "", 0, errors.New("delegation: the token service's answer has no access_token")
	case !strings.EqualFold(answer.Type, "Bearer"):
		return "", 0, errors.New("delegation: the token service's token is not a Bearer token (token_type)")
	case answer.Issued != "" && !slices.Contains([]string{typeAccess, typeJWT}, answer.Issued):
		return "", 0, errors.New("delegation: the token service issued another type of token than was asked for (issued_token_type)")
	case answer.Token == subject || answer.Token == actor:
		return "", 0, errors.New("delegation: the token service gave back a token that it was given: it is not handed on")
	case strings.ContainsFunc(answer.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", 0, errors.New("delegation: the token service's token cannot go into a header")
	}
	return answer.Token, time.Duration(min(max(answer.ExpiresIn, 0), 24*3600)) * time.Second, nil
}

// code returns an error code of OAuth, which has these characters and is short, or "" for what is none.
func code(s string) string {
	if len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return cmp.Or(s, "none")
}
