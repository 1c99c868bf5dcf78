package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/parley-a2a/parley/a2a"
)

// maxIntrospections is how many tokens an [Introspection] remembers.
const maxIntrospections = 10_000

// IntrospectionOptions are the choices of [NewIntrospection]. Endpoint, ClientID, Issuer and Audience are required.
type IntrospectionOptions struct {
	Endpoint     string // the issuer's introspection endpoint
	ClientID     string // this agent's, as the issuer knows it
	ClientSecret Secret
	// Issuer is the Issuer of the callers. An answer that names another is refused.
	Issuer string
	// Audience are the names of this agent: an answer must have one of them in aud.
	Audience []string
	// TenantClaim is the member of the answer with the caller's tenant; an answer must then have it. Empty: callers have no
	// tenant.
	TenantClaim string
	// Claims are the names of members that agents are told, in Caller.Claims.
	Claims []string
	// TokenURL is where callers get tokens with client credentials, and Scopes what there is to ask for, for the card, which
	// then says OAuth 2.0 in place of Bearer.
	TokenURL string
	Scopes   map[string]string
	Scheme   string // the name in the card; default oauth2
	// Client asks the endpoint. Nil: one that reaches public addresses by https only.
	Client *http.Client
}

// Introspection is the [Method] for bearer tokens that their issuer is asked about (RFC 7662). An answer is believed for 10
// seconds.
type Introspection struct {
	opts   IntrospectionOptions
	client *http.Client
	now    func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]introspected
}

type introspected struct {
	id    Identity
	err   error
	until time.Time
}

// NewIntrospection returns the method.
func NewIntrospection(opts IntrospectionOptions) (*Introspection, error) {
	if err := cmp.Or(
		checkURL("IntrospectionOptions.Endpoint", opts.Endpoint),
		checkText("IntrospectionOptions.ClientID", opts.ClientID),
		checkText("IntrospectionOptions.Issuer", opts.Issuer),
		checkAudience("IntrospectionOptions.Audience", opts.Audience),
		checkTexts("IntrospectionOptions.TenantClaim", opts.TenantClaim),
		checkTexts("IntrospectionOptions.Claims", opts.Claims...),
		checkOffer("IntrospectionOptions.Scopes", opts.Scopes),
	); err != nil {
		return nil, err
	}
	if opts.TokenURL != "" {
		if err := checkURL("IntrospectionOptions.TokenURL", opts.TokenURL); err != nil {
			return nil, err
		}
	}
	opts.Scheme = cmp.Or(opts.Scheme, "oauth2")
	return &Introspection{
		opts: opts, client: issuerClient(opts.Client, opts.Endpoint), now: time.Now, known: make(map[[sha256.Size]byte]introspected),
	}, nil
}

// Header implements [Method].
func (*Introspection) Header() string { return "Authorization" }

// Identify implements [Method].
func (i *Introspection) Identify(ctx context.Context, info *a2a.CallInfo) (Identity, error) {
	token, err := bearerToken(info)
	if err != nil {
		return Identity{}, err
	}
	key := sha256.Sum256([]byte(token))
	i.mu.Lock()
	k, ok := i.known[key]
	i.mu.Unlock()
	if ok && i.now().Before(k.until) {
		return k.id, k.err
	}
	id, err := i.ask(ctx, token)
	if err == nil || errors.Is(err, a2a.ErrUnauthenticated) {
		i.keep(key, introspected{id, err, i.now().Add(introspectionAge)})
	}
	return id, err
}

func (i *Introspection) keep(key [sha256.Size]byte, k introspected) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.known) >= maxIntrospections {
		now := i.now()
		for old, v := range i.known {
			if !now.Before(v.until) || len(i.known) >= maxIntrospections {
				delete(i.known, old)
			}
		}
	}
	if !k.id.Expiry.IsZero() && k.id.Expiry.Before(k.until) {
		k.until = k.id.Expiry
	}
	i.known[key] = k
}

// introspection is an answer of the endpoint (RFC 7662, section 2.2).
type introspection struct {
	Active    bool
	Subject   string
	ClientID  string
	Issuer    string
	Audience  jwt.Audience
	ID        string
	Expiry    float64
	NotBefore float64
}

func (i *Introspection) ask(ctx context.Context, token string) (Identity, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	var all map[string]any
	err := postForm(ctx, i.client, i.opts.Endpoint, clientID{i.opts.ClientID, i.opts.ClientSecret}, form, &all)
	if err != nil {
		return Identity{}, unavailable(err)
	}
	answer, ok := readIntrospection(all)
	if !ok {
		return Identity{}, unavailable(errors.New(i.opts.Endpoint + " answered with members of wrong types"))
	}
	return i.identity(answer, all)
}

// readIntrospection reads the members that are needed; false: one of them is not of its type.
func readIntrospection(all map[string]any) (a introspection, ok bool) {
	ok = true
	a.Active = member[bool](all, "active", &ok)
	a.Subject = member[string](all, "sub", &ok)
	a.ClientID = member[string](all, "client_id", &ok)
	a.Issuer = member[string](all, "iss", &ok)
	a.ID = member[string](all, "jti", &ok)
	a.Expiry = member[float64](all, "exp", &ok)
	a.NotBefore = member[float64](all, "nbf", &ok)
	switch aud := all["aud"].(type) {
	case nil:
	case string:
		a.Audience = jwt.Audience{aud}
	case []any:
		for _, e := range aud {
			s, isText := e.(string)
			ok = ok && isText
			a.Audience = append(a.Audience, s)
		}
	default:
		ok = false
	}
	return a, ok && a.Expiry >= 0 && a.Expiry < math.MaxInt32*1000.0
}

func member[T any](all map[string]any, name string, ok *bool) T {
	v, has := all[name]
	t, is := v.(T)
	if has && v != nil && !is {
		*ok = false
	}
	return t
}

func (i *Introspection) identity(a introspection, all map[string]any) (Identity, error) {
	now := i.now()
	who := a2a.Caller{Issuer: i.opts.Issuer, Subject: cmp.Or(a.Subject, a.ClientID)} // its issuer says so
	if i.opts.TenantClaim != "" {
		who.Tenant, _ = all[i.opts.TenantClaim].(string)
	}
	switch {
	case !a.Active:
		return Identity{}, refused(whyInactive, "the token is not active")
	case a.Issuer != "" && a.Issuer != i.opts.Issuer:
		return Identity{}, refused(whyIssuer, "the token is of another issuer")
	case !slices.ContainsFunc(a.Audience, func(s string) bool { return slices.Contains(i.opts.Audience, s) }):
		return Identity{}, refusedOf(who, whyAudience, "the token is for another audience")
	case a.NotBefore > 0 && now.Add(skew).Before(time.Unix(int64(a.NotBefore), 0)):
		return Identity{}, refusedOf(who, whyEarly, "the token is not valid yet")
	}
	id := Identity{
		Caller: a2a.Caller{
			Tenant: who.Tenant, Issuer: who.Issuer, Subject: who.Subject,
			Scopes: scopesOf(all), Actors: actorsOf(all), Claims: claimsOf(all, i.opts.Claims),
		},
		Credential: a.ID,
	}
	if a.Expiry > 0 {
		exp := time.Unix(int64(a.Expiry), 0)
		if !now.Add(-skew).Before(exp) {
			return Identity{}, expired(who)
		}
		id.Expiry = lifeEnd(exp, now)
	}
	if i.opts.TenantClaim != "" && checkText("tenant", id.Tenant) != nil {
		return Identity{}, refusedOf(who, whyTenant, "the token has no member with the caller's tenant")
	}
	return id, nil
}

// Scheme implements [Method].
func (i *Introspection) Scheme() (string, a2a.SecurityScheme) {
	if i.opts.TokenURL == "" {
		return i.opts.Scheme, &a2a.HTTPAuthSecurityScheme{Scheme: bearer}
	}
	return i.opts.Scheme, clientCredentialsScheme(i.opts.TokenURL, i.opts.Scopes)
}

// Challenge implements [Method].
func (*Introspection) Challenge() (string, []string) { return bearer, nil }
