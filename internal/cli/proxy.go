package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/delegation"
	"github.com/parley-a2a/parley/internal/agents"
	"github.com/parley-a2a/parley/proxy"
)

// proxyConfig says which agent elsewhere is served.
type proxyConfig struct {
	Card       string           `yaml:"card"`       // URL, host or file
	Bindings   []string         `yaml:"bindings"`   // to be preferred
	Credential credentialConfig `yaml:"credential"` // of this host for it
	Exchange   exchangeConfig   `yaml:"exchange"`   // a token for each caller, for which the credential says who acts
	Keys       string           `yaml:"keys"`       // JWK Set with which its card is verified: a file or a URL
	Digest     string           `yaml:"digest"`     // of the card that was approved
	Refresh    time.Duration    `yaml:"refresh"`    // of the card
	Self       string           `yaml:"self"`       // this host's name in chains of agents
}

// credentialConfig is a secret in a file, or one that is got by client credentials (RFC 6749, 4.4).
type credentialConfig struct {
	File    string   `yaml:"file"`
	Header  string   `yaml:"header"`
	Origins []string `yaml:"origins"` // where it goes; by default the card's

	TokenURL         string   `yaml:"token-url"`
	ClientID         string   `yaml:"client-id"`
	ClientSecretFile string   `yaml:"client-secret-file"`
	Scopes           []string `yaml:"scopes"`
	Resource         string   `yaml:"resource"`
	Audience         string   `yaml:"audience"`
}

// exchangeConfig is a token service (RFC 8693).
type exchangeConfig struct {
	Endpoint         string   `yaml:"endpoint"`
	Audience         string   `yaml:"audience"`
	ClientID         string   `yaml:"client-id"`
	ClientSecretFile string   `yaml:"client-secret-file"`
	Scopes           []string `yaml:"scopes"`
	AllowPrivate     bool     `yaml:"allow-private"`
}

// build makes the agent. The card is fetched.
func (c *proxyConfig) build(ctx context.Context, log *slog.Logger) (*built, error) {
	cfg := proxy.Config{
		Card: c.Card, Refresh: c.Refresh, Log: log, Client: client.Options{Log: log},
		Delegation: delegation.Options{Self: cmp.Or(c.Self, "proxy of "+c.Card)},
	}
	for _, b := range c.Bindings {
		name, ok := bindingOf[strings.ToUpper(b)]
		if !ok {
			return nil, wrong("proxy.bindings", "%q: the bindings are JSONRPC, GRPC and HTTP+JSON", b)
		}
		cfg.Client.Transports = append(cfg.Client.Transports, name)
	}
	var err error
	if cfg.Client.Cache, err = c.trust(); err != nil {
		return nil, err
	}
	source, err := c.Credential.source()
	if err != nil {
		return nil, err
	}
	out := &built{}
	switch {
	case c.Exchange.Endpoint != "":
		if source == nil {
			return nil, wrong("proxy.exchange", "it needs proxy.credential, this host's own token, which says who acts")
		}
		tokens := new(delegation.Tokens)
		if cfg.Identity, err = c.identity(ctx, source, tokens); err != nil {
			return nil, err
		}
		cfg.Delegation.Verified = func(r *agent.Request) ([]string, error) { return r.Caller.Actors, nil }
		out.wrap = tokens.Wrap
	case source != nil:
		creds, err := c.credentials(source)
		if err != nil {
			return nil, err
		}
		cfg.Client.HTTP, cfg.Client.GRPC = creds.HTTP(nil), creds.GRPC()
	}
	p, err := proxy.New(ctx, cfg)
	if err != nil {
		return nil, about("proxy.card", err)
	}
	out.Agent, out.proxy, out.word, out.end = agents.Agent{Agent: p}, p, parley.RoutingWord(p.Card().Name), p.Close
	return out, nil
}

// origin is where the card is.
func (c *proxyConfig) origin() (string, error) {
	at, err := agentcard.Origin(c.Card)
	if err != nil {
		return "", wrong("proxy.card", "%q: with keys, a digest or a credential it is a URL, such as https://agent.example.com", c.Card)
	}
	return at, nil
}

func (c *proxyConfig) trust() (*client.CardCache, error) {
	cache := new(client.CardCache)
	if c.Keys == "" && c.Digest == "" {
		return cache, nil
	}
	at, err := c.origin()
	if err != nil {
		return nil, err
	}
	e := agentcard.Enrollment{Digest: c.Digest}
	switch {
	case strings.Contains(c.Keys, "://"):
		e.URL = c.Keys
	case c.Keys != "":
		if e.KeySet, err = os.ReadFile(c.Keys); err != nil {
			return nil, wrong("proxy.keys", "%s", err.Error())
		}
	}
	cache.Trust = &agentcard.Policy{Enrolled: map[string]agentcard.Enrollment{at: e}}
	return cache, nil
}

// source returns where the credential comes from, nil if there is none.
func (c *credentialConfig) source() (auth.TokenSource, error) {
	switch {
	case c.File != "" && c.TokenURL != "":
		return nil, wrong("proxy.credential", "file and token-url are two, give one")
	case c.File != "":
		return auth.TokenFunc(func(context.Context) (auth.Token, error) { return readSecret(c.File) }), nil
	case c.TokenURL == "":
		return nil, nil
	}
	secret, err := readSecret(c.ClientSecretFile)
	if err != nil {
		return nil, wrong("proxy.credential.client-secret-file", "%s", err.Error())
	}
	source, err := auth.OAuth{
		TokenURL: c.TokenURL, ClientID: c.ClientID, ClientSecret: secret.Secret, Scopes: c.Scopes, Resource: c.Resource, Audience: c.Audience,
	}.ClientCredentials()
	if err != nil {
		return nil, refused("proxy.credential", err)
	}
	return source, nil
}

// readSecret reads a file with a secret, which is read anew every minute.
func readSecret(file string) (auth.Token, error) {
	b, err := os.ReadFile(file)
	return auth.Token{Secret: auth.NewSecret(strings.TrimSpace(string(b))), Expiry: time.Now().Add(time.Minute)}, err
}

func (c *proxyConfig) origins() ([]string, error) {
	if c.Credential.Origins != nil {
		return c.Credential.Origins, nil
	}
	at, err := c.origin()
	return []string{at}, err
}

func (c *proxyConfig) credentials(source auth.TokenSource) (*auth.Credentials, error) {
	origins, err := c.origins()
	if err != nil {
		return nil, err
	}
	if _, err := source.Token(context.Background()); errors.Is(err, os.ErrNotExist) {
		return nil, wrong("proxy.credential.file", "%s", err.Error())
	}
	creds, err := auth.NewCredentials(auth.Credential{Origins: origins, Source: source, Header: c.Credential.Header})
	if err != nil {
		return nil, refused("proxy.credential", err)
	}
	return creds, nil
}

func (c *proxyConfig) identity(ctx context.Context, actor auth.TokenSource, tokens *delegation.Tokens) (*proxy.Identity, error) {
	x := &c.Exchange
	secret := auth.Token{}
	if x.ClientSecretFile != "" {
		var err error
		if secret, err = readSecret(x.ClientSecretFile); err != nil {
			return nil, wrong("proxy.exchange.client-secret-file", "%s", err.Error())
		}
	}
	exchange, err := delegation.NewExchange(ctx, delegation.ExchangeOptions{
		Endpoint: x.Endpoint, AllowPrivate: x.AllowPrivate, ClientID: x.ClientID, ClientSecret: secret.Secret.Reveal(), Scopes: x.Scopes,
		Actor: delegation.TokenFunc(func(ctx context.Context) (string, error) {
			t, err := actor.Token(ctx)
			return t.Secret.Reveal(), err
		}),
	})
	if err != nil {
		return nil, refused("proxy.exchange", err)
	}
	origins, err := c.origins()
	return &proxy.Identity{Exchange: exchange, Tokens: tokens, Audience: x.Audience, Origins: origins}, err
}
