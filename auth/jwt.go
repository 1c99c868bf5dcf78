package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/parley-a2a/parley/a2a"
)

const bearer = "Bearer"

// bearerToken returns the bearer token of a request (RFC 6750, section 2.1), or ErrNone.
func bearerToken(info *a2a.CallInfo) (string, error) {
	values := info.Header["Authorization"]
	if len(values) != 1 {
		return "", ErrNone
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, bearer) {
		return "", ErrNone
	}
	token = strings.TrimLeft(token, " ")
	if !isToken68(token) {
		return "", refused(whyMalformed, "what follows Bearer is not a token")
	}
	return token, nil
}

// isToken68 reports whether s has the form of a token (RFC 9110, section 11.2).
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	return body != "" && !strings.ContainsFunc(body, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/", r)
	})
}

// The algorithms that a token may be signed with, and those that are taken where none are named.
var (
	signatures        = []string{"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	defaultSignatures = []string{"ES256", "EdDSA", "RS256", "PS256"}
)

// JWTOptions are the choices of [NewJWT]. Issuer and Audience are required.
type JWTOptions struct {
	// Issuer is the iss that a token must have, to the letter. It is the Issuer of the callers.
	Issuer string
	// Audience are the names of this agent: a token must have one of them in aud.
	Audience []string
	// KeysURL is the issuer's JWK set. It is kept for 10 minutes, asked for at most every 30 seconds, when a token has an
	// unknown kid, and used for up to an hour while no other can be fetched.
	KeysURL string
	// KeysFile has the keys: a JWK set, or public keys in PEM. A change is in effect within 5 seconds. Without KeysURL and
	// KeysFile the key set is found by OpenID Connect discovery.
	KeysFile string
	// Algorithms that a token may be signed with; default ES256, EdDSA, RS256 and PS256. There are no symmetric ones.
	Algorithms []string
	// Types that a token may name in typ; default at+jwt (RFC 9068) and JWT. A token must name one.
	Types []string
	// TenantClaim is the claim with the caller's tenant; a token must then have it. Empty: callers have no tenant.
	TenantClaim string
	// Claims are the names of claims that agents are told, in Caller.Claims, such as which customers the caller may see.
	Claims []string
	// TokenURL is where callers get tokens with client credentials, and Scopes what there is to ask for, each with a
	// description. They are for the card, which then says OAuth 2.0 in place of Bearer or OpenID Connect.
	TokenURL string
	Scopes   map[string]string
	Scheme   string // the name in the card; default bearer, oidc or oauth2
	// Client fetches the keys. Nil: one that reaches public addresses by https only.
	Client *http.Client
	Log    *slog.Logger // hears of a file that is wrong after a change; nil: slog.Default
}

// JWT is the [Method] for bearer tokens that are JSON Web Tokens of one issuer (RFC 7519, RFC 9068, RFC 8725). A token has
// exp and sub; clocks may differ by 30 seconds.
type JWT struct {
	opts JWTOptions
	set  keySet
	algs []jose.SignatureAlgorithm
	now  func() time.Time
}

// NewJWT returns the method. Keys of a URL are fetched with the first token.
func NewJWT(opts JWTOptions) (*JWT, error) {
	if err := checkText("JWTOptions.Issuer", opts.Issuer); err != nil {
		return nil, err
	}
	if err := checkAudience("JWTOptions.Audience", opts.Audience); err != nil {
		return nil, err
	}
	if len(opts.Types) == 0 {
		opts.Types = []string{"at+jwt", "JWT"}
	}
	if len(opts.Algorithms) == 0 {
		opts.Algorithms = defaultSignatures
	}
	j := &JWT{opts: opts, now: time.Now}
	for _, alg := range opts.Algorithms {
		if !slices.Contains(signatures, alg) {
			return nil, fmt.Errorf("auth: tokens signed with %q are not taken: use any of %s", alg, strings.Join(signatures, ", "))
		}
		j.algs = append(j.algs, jose.SignatureAlgorithm(alg))
	}
	if opts.TokenURL != "" {
		if err := checkURL("JWTOptions.TokenURL", opts.TokenURL); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(
		checkTexts("JWTOptions.Types", opts.Types...), checkTexts("JWTOptions.TenantClaim", opts.TenantClaim),
		checkTexts("JWTOptions.Claims", opts.Claims...), checkOffer("JWTOptions.Scopes", opts.Scopes),
	); err != nil {
		return nil, err
	}
	var err error
	j.set, err = opts.keySet()
	return j, err
}

func (o *JWTOptions) keySet() (keySet, error) {
	remote := &remoteKeys{issuer: o.Issuer, url: o.KeysURL, now: time.Now}
	switch {
	case o.KeysFile != "" && o.KeysURL != "":
		return nil, errors.New("auth: give JWTOptions.KeysURL or KeysFile, not both")
	case o.KeysFile != "":
		file, err := watch(o.Log, func(files [][]byte) ([]jose.JSONWebKey, error) { return parseKeys(files[0]) }, o.KeysFile)
		if err != nil {
			return nil, err
		}
		return fileKeys{file}, nil
	case o.KeysURL != "":
		if err := checkURL("JWTOptions.KeysURL", o.KeysURL); err != nil {
			return nil, err
		}
	default:
		if err := checkURL("JWTOptions.Issuer, where the keys are to be found by discovery,", o.Issuer); err != nil {
			return nil, err
		}
	}
	remote.client = issuerClient(o.Client, cmp.Or(o.KeysURL, o.Issuer))
	return remote, nil
}

func checkAudience(what string, audience []string) error {
	if len(audience) == 0 {
		return fmt.Errorf("auth: %s is required: the names by which the issuer knows this agent", what)
	}
	for _, a := range audience {
		if err := checkText(what, a); err != nil {
			return err
		}
	}
	return nil
}

// Header implements [Method].
func (*JWT) Header() string { return "Authorization" }

// Identify implements [Method]. A token of another issuer is ErrNone.
func (j *JWT) Identify(ctx context.Context, info *a2a.CallInfo) (Identity, error) {
	token, err := bearerToken(info)
	if err != nil {
		return Identity{}, err
	}
	if issuerOf(token) != j.opts.Issuer {
		return Identity{}, ErrNone
	}
	parsed, err := jwt.ParseSigned(token, j.algs)
	if err != nil || len(parsed.Headers) != 1 {
		return Identity{}, refused(whySignature, "the token is not signed in a way that is accepted here")
	}
	header := parsed.Headers[0]
	typ, _ := header.ExtraHeaders[jose.HeaderType].(string)
	if !j.takesType(typ) {
		return Identity{}, refused(whyKind, "the typ of the token is not one that is accepted here")
	}
	payload, err := j.verify(ctx, parsed, header)
	if err != nil {
		return Identity{}, err
	}
	return j.identity(payload)
}

// issuerOf returns the iss of a token, unverified, or "" if it is not a JSON Web Token. It tells whose keys to try.
func issuerOf(token string) string {
	_, rest, ok := strings.Cut(token, ".")
	payload, _, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 {
		return ""
	}
	b, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(b, &claims) != nil {
		return ""
	}
	return claims.Issuer
}

func (j *JWT) takesType(typ string) bool {
	if len(typ) > len("application/") && strings.EqualFold(typ[:len("application/")], "application/") {
		typ = typ[len("application/"):]
	}
	return slices.ContainsFunc(j.opts.Types, func(t string) bool { return strings.EqualFold(t, typ) })
}

// payload is the claims of a token, as they are needed and as they are.
type payload struct {
	jwt.Claims
	all map[string]any
}

// verify returns the claims if one of the issuer's keys made the signature.
func (j *JWT) verify(ctx context.Context, token *jwt.JSONWebToken, header jose.Header) (*payload, error) {
	keys, err := j.set.keys(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	p := &payload{all: make(map[string]any)}
	for i := range keys {
		k := &keys[i]
		if header.KeyID != "" && k.KeyID != "" && k.KeyID != header.KeyID ||
			k.Algorithm != "" && k.Algorithm != header.Algorithm || !suits(k.Key, header.Algorithm) {
			continue
		}
		switch err := token.Claims(k.Key, &p.Claims, &p.all); {
		case err == nil:
			return p, nil
		case !errors.Is(err, jose.ErrCryptoFailure):
			return nil, refused(whyMalformed, "the claims of the token are not of their types")
		}
	}
	return nil, refused(whySignature, "no key of the issuer made the token's signature")
}

func (j *JWT) identity(p *payload) (Identity, error) {
	who := a2a.Caller{Issuer: p.Issuer, Subject: p.Subject} // its issuer says so
	if j.opts.TenantClaim != "" {
		who.Tenant, _ = p.all[j.opts.TenantClaim].(string)
	}
	if p.Expiry == nil {
		return Identity{}, refusedOf(who, whyMalformed, "the token has no exp")
	}
	err := p.ValidateWithLeeway(jwt.Expected{Issuer: j.opts.Issuer, AnyAudience: j.opts.Audience, Time: j.now()}, skew)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return Identity{}, expired(who)
	case errors.Is(err, jwt.ErrInvalidAudience):
		return Identity{}, refusedOf(who, whyAudience, "the token is for another audience")
	case err != nil:
		return Identity{}, refusedOf(who, whyEarly, "the token is not valid yet, or not of this issuer")
	}
	id := Identity{
		Caller: a2a.Caller{
			Tenant: who.Tenant, Issuer: p.Issuer, Subject: p.Subject, Expiry: lifeEnd(p.Expiry.Time(), j.now()),
			Scopes: scopesOf(p.all), Actors: actorsOf(p.all), Claims: claimsOf(p.all, j.opts.Claims),
		},
		Credential: p.ID,
	}
	if j.opts.TenantClaim != "" && checkText("tenant", id.Tenant) != nil {
		return Identity{}, refusedOf(who, whyTenant, "the token has no claim with the caller's tenant")
	}
	return id, nil
}

// scopesOf returns the scopes of a token: scope is text (RFC 8693, section 4.2), scp what some issuers have in its place.
func scopesOf(claims map[string]any) []string {
	var scopes []string
	for _, name := range []string{"scope", "scp"} {
		switch v := claims[name].(type) {
		case string:
			scopes = append(scopes, strings.Fields(v)...)
		case []any:
			for _, e := range v {
				if s, ok := e.(string); ok {
					scopes = append(scopes, s)
				}
			}
		}
	}
	return scopes
}

// claimsOf returns the claims with the given names, as far as a token has them.
func claimsOf(all map[string]any, names []string) map[string]any {
	var claims map[string]any
	for _, name := range names {
		if v, ok := all[name]; ok {
			if claims == nil {
				claims = make(map[string]any, len(names))
			}
			claims[name] = v
		}
	}
	return claims
}

// Scheme implements [Method].
func (j *JWT) Scheme() (string, a2a.SecurityScheme) {
	switch {
	case j.opts.TokenURL != "":
		return cmp.Or(j.opts.Scheme, "oauth2"), clientCredentialsScheme(j.opts.TokenURL, j.opts.Scopes)
	case j.opts.KeysURL == "" && j.opts.KeysFile == "":
		return cmp.Or(j.opts.Scheme, "oidc"), &a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: discoveryURL(j.opts.Issuer)}
	}
	return cmp.Or(j.opts.Scheme, "bearer"), &a2a.HTTPAuthSecurityScheme{Scheme: bearer, BearerFormat: "JWT"}
}

func clientCredentialsScheme(tokenURL string, scopes map[string]string) a2a.SecurityScheme {
	if scopes == nil {
		scopes = map[string]string{}
	}
	return &a2a.OAuth2SecurityScheme{Flows: &a2a.ClientCredentialsOAuthFlow{TokenURL: tokenURL, Scopes: scopes}}
}

// Challenge implements [Method].
func (*JWT) Challenge() (string, []string) { return bearer, nil }

// maxActors bounds a chain of actors; what is longer is cut at its beginning.
const maxActors = 16

// actorsOf returns the subjects of the nested act claims (RFC 8693, 4.1), of which the outermost is the last to act.
func actorsOf(claims map[string]any) []string {
	var out []string
	for len(out) < maxActors {
		act, ok := claims["act"].(map[string]any)
		if !ok {
			break
		}
		sub, _ := act["sub"].(string)
		out = append(out, sub)
		claims = act
	}
	slices.Reverse(out)
	return out
}
