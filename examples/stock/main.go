// Command stock serves an agent that tells a distributor's partners what is in stock, and reserves it for them: its card,
// JSON-RPC and REST at http://127.0.0.1:41241, gRPC at 127.0.0.1:41242. Who calls, and what they may see and do, is in
// their token. README.md has the commands.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/examples/internal/issuer"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	state    string
	token    string
	issuer   string
	audience string
	denylist string
	failures int
	tls      auth.ServerTLSOptions
	host     parley.Config
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("stock", flag.ContinueOnError)
	f.StringVar(&o.state, "state", "stock-state", "`folder` of the tasks, the inventory and the keys")
	f.StringVar(&o.token, "token", "", "print a token of the test issuer for a `partner` (acme or globex) and exit")
	f.StringVar(&o.issuer, "issuer", "", "take the tokens of the OpenID Connect issuer at this `URL`, not those of the test issuer")
	f.StringVar(&o.audience, "audience", "stock-agent", "the `name` by which the issuer knows this agent")
	f.StringVar(&o.denylist, "denylist", "", "`file` of tokens and subjects that no longer count: an issuer and a jti or sub on a line")
	f.IntVar(&o.failures, "failures", 5, "wrong tokens that an address may send in a minute; -1 for any `number`")
	f.StringVar(&o.host.Listen, "listen", parley.DefaultListen, "`address` of HTTP")
	f.StringVar(&o.host.GRPCListen, "grpc-listen", parley.DefaultGRPCListen, "`address` of gRPC")
	f.StringVar(&o.host.PublicURL, "public-url", "", "the `URL` by which partners reach HTTP")
	f.StringVar(&o.host.PublicGRPCURL, "public-grpc-url", "", "the `address` by which partners reach gRPC")
	f.StringVar(&o.tls.CertFile, "tls-cert", "", "`file` of the certificate with its chain, in PEM")
	f.StringVar(&o.tls.KeyFile, "tls-key", "", "`file` of its private key, in PEM")
	f.BoolVar(&o.host.BehindTLS, "behind-tls", false, "TLS ends at a proxy, which alone reaches this host")
	f.SetOutput(io.Discard) // main says what is wrong
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(out)
		f.PrintDefaults()
		return nil
	case err != nil:
		return err
	case f.NArg() > 0:
		return fmt.Errorf("%q is no flag", f.Arg(0))
	}
	if err := os.MkdirAll(o.state, 0o700); err != nil {
		return err
	}
	if o.token != "" {
		token, err := testToken(o.state, o.audience, o.token)
		if err == nil {
			_, err = fmt.Fprintln(out, token)
		}
		return err
	}
	return serve(ctx, &o)
}

// serve serves the agent until ctx ends or the process is told to end.
func serve(ctx context.Context, o *options) error {
	rules := auth.Rules{
		Operations: map[string][]string{auth.AnyOperation: {"stock.read"}},
		Skills:     map[string][]string{availability.ID: {"stock.read"}, reservation.ID: {"stock.reserve"}},
		SkillOf:    skillOf,
	}
	partners, err := authenticator(o, rules)
	if err != nil {
		return err
	}
	private, err := issuer.LoadKey(filepath.Join(o.state, "card.key"))
	if err != nil {
		return err
	}
	cardKey, err := agentcard.NewKey(private)
	if err != nil {
		return err
	}
	tasks, err := sqlite.Open(ctx, filepath.Join(o.state, "tasks.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = tasks.Close() }()
	goods, err := openInventory(ctx, filepath.Join(o.state, "inventory.db"))
	if err != nil {
		return err
	}
	defer func() { _ = goods.Close() }()

	cfg := o.host
	cfg.Name = "ERP Stock Agent"
	cfg.Description = "Answers available-to-promise stock by SKU and warehouse, and reserves it, for approved partners."
	cfg.Version = "1.0.0"
	cfg.AgentName = "stock"
	cfg.Skills = []*a2a.AgentSkill{availability}
	cfg.DefaultOutputModes = []string{"application/json"}
	cfg.Extensions = []*a2a.AgentExtension{extension.Declaration(extension.Approval)}
	cfg.CardKeys = []*agentcard.Key{cardKey}
	cfg.ExtendedCard = extendedCard(cfg.Description, rules.Skills)
	cfg.Store = tasks
	cfg.Auth = partners
	if o.tls.CertFile != "" || o.tls.KeyFile != "" {
		if cfg.TLS, err = auth.ServerTLS(o.tls); err != nil {
			return err
		}
	}
	return parley.ListenAndServe(ctx, cfg, &stockAgent{goods: goods, rules: rules, audience: o.audience})
}

// authenticator takes the tokens of one issuer. A partner is the caller's tenant, and so shares nothing with another one.
func authenticator(o *options, rules auth.Rules) (*auth.Authenticator, error) {
	tokens := auth.JWTOptions{
		Issuer: cmp.Or(o.issuer, testIssuer), Audience: []string{o.audience}, TenantClaim: "partner",
		Claims: []string{warehousesClaim}, Scheme: "partnerBearer",
	}
	if o.issuer == "" {
		file, err := issuer.Issuer{Name: testIssuer, Folder: o.state}.KeysFile()
		if err != nil {
			return nil, err
		}
		tokens.KeysFile = file
	}
	method, err := auth.NewJWT(tokens)
	if err != nil {
		return nil, err
	}
	opts := auth.Options{Rules: rules, Failures: o.failures}
	if o.denylist != "" {
		if opts.Denylist, err = auth.OpenDenylist(o.denylist, nil); err != nil {
			return nil, err
		}
	}
	return auth.Any(opts, method)
}

// extendedCard is the card for one caller: the skills that the token has the scopes for, and the warehouses in it.
func extendedCard(description string, scopes map[string][]string) func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
	var skills []parley.ScopedSkill
	for _, s := range []*a2a.AgentSkill{availability, reservation} {
		skills = append(skills, parley.ScopedSkill{AgentSkill: s, Scopes: scopes[s.ID]})
	}
	byScope := parley.SkillsByScope(skills...)
	return func(ctx context.Context, caller a2a.Caller) (*a2a.AgentCard, error) {
		card, err := byScope(ctx, caller)
		if err == nil {
			card.Description = description + " Your warehouses: " + cmp.Or(strings.Join(warehouses(caller), ", "), "none") + "."
		}
		return card, err
	}
}
