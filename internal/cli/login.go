package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
)

// Flows by which a token is got.
const (
	flowDevice = "device"
	flowClient = "client-credentials"
	flowCode   = "code"
)

func (a *app) auth() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "auth",
		Short:   "Log in to agents, and out",
		Example: "  parley auth login -a agent.example.com --client-id ID",
	}
	cmd.AddCommand(a.authLogin(), a.authLogout())
	return group(cmd)
}

// loginFlags say how a token is got, where the card leaves a choice.
type loginFlags struct {
	scheme     string
	flow       string
	clientID   string
	secretFile string
	scopes     []string
	resource   string
	audience   string
}

// loginCommand gets a token as the agent's card says, and keeps it for later calls (specification 12.2).
type loginCommand struct{ loginFlags }

func (a *app) authLogin() *cobra.Command {
	c := new(loginCommand)
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Get a token for an agent and keep it for later calls",
		Long: `Get a token for an agent from the authorization server that its card names, and
keep it for later calls: to this agent's origin only, while its card declares the
same scheme. It is renewed when it expires. Programs and scripts use --bearer's
variable, or client credentials.`,
		Example: `  parley auth login -a agent.example.com --client-id my-cli
  parley auth login -a agent.example.com --client-id job --client-secret-file secret`,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	c.register(fs)
	cmd = a.client(cmd, c)
	cmd.Flags().Lookup("client-secret").Hidden = false
	delete(cmd.Flags().Lookup("client-secret").Annotations, common)
	return cmd
}

func (c *loginCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) error {
	if err := noArgs(cmd, args); err != nil {
		return err
	}
	if c.flow != "" && !slices.Contains([]string{flowDevice, flowClient, flowCode}, c.flow) {
		return usage("--flow %q: the flows are %s, %s and %s", c.flow, flowDevice, flowClient, flowCode)
	}
	if c.secretFile != "" {
		path, err := filepath.Abs(c.secretFile) // the next token may be got from another folder
		if err != nil {
			return usage("--client-secret-file: %s", err.Error())
		}
		c.secretFile = path
	}
	return nil
}

func (c *loginCommand) run(ctx context.Context, s *session) error {
	s.anonymous = true // an old login is no matter
	if _, err := s.connect(ctx); err != nil {
		return err
	}
	l, err := c.logIn(ctx, s)
	if err != nil {
		return err
	}
	return s.showLogin(l)
}

// logIn gets a token, keeps it and returns the login.
func (c *loginFlags) logIn(ctx context.Context, s *session) (*login, error) {
	at := s.loginOrigin()
	if u, err := url.Parse(at); err != nil || u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, fail(errUsage, "name the https address of the agent", "there is no login for %s: its tokens would be sent without encryption", at)
	}
	name, scheme, err := c.choose(s)
	if err != nil {
		return nil, err
	}
	if c.clientID == "" {
		return nil, usage("--client-id: under which name does the authorization server know parley? Whoever runs it gives one")
	}
	t, err := c.plan(ctx, s, scheme)
	if err != nil {
		return nil, loginFailure(err)
	}
	l := &login{
		Scheme: name, Issuer: issuerOf(scheme), Flow: t.flow, TokenURL: t.token, ClientID: c.clientID, SecretFile: c.secretFile,
		Scopes: c.scopes, Resource: c.resource, Audience: c.audience,
	}
	if len(l.Scopes) == 0 {
		l.Scopes = wantedScopes(s.Card().AgentCard, name)
		if t.openID && t.flow != flowClient && !slices.Contains(l.Scopes, "openid") {
			l.Scopes = append(l.Scopes, "openid")
		}
	}
	s.note(fmt.Sprintf("Logging in to %s by %s", at, t.token))
	if err := l.get(ctx, s, t); err != nil {
		return nil, loginFailure(err)
	}
	s.keep(l)
	return l, changeLogins(at, true, func(f *loginFile) error { f.set(*l); return nil })
}

// choose returns the scheme of the card by which parley can log in.
func (c *loginFlags) choose(s *session) (string, a2a.SecurityScheme, error) {
	card := s.Card().AgentCard
	var names []string
	for _, name := range sortedKeys(card.SecuritySchemes) {
		if issuerOf(card.SecuritySchemes[name]) != "" {
			names = append(names, name)
		}
	}
	switch {
	case c.scheme != "" && slices.Contains(names, c.scheme):
		return c.scheme, card.SecuritySchemes[c.scheme], nil
	case len(names) == 0:
		f := fail(errCredentialsMissing, "", "there is nothing to log in to: the agent's card declares %s", schemes(card))
		if len(card.SecuritySchemes) == 0 {
			f.hint = undeclared
		} else if apiKeyScheme(card) != nil {
			f.hint = "pass --api-key"
		} else if len(card.SecuritySchemes) > 0 && s.takesBearer() == nil {
			f.hint = "pass --bearer"
		}
		return "", nil, f
	case c.scheme != "":
		return "", nil, usage("--scheme %q: the schemes of the card are %s", c.scheme, strings.Join(names, ", "))
	case len(names) > 1:
		return "", nil, usage("--scheme: which of the card's schemes, %s?", strings.Join(names, ", "))
	}
	return names[0], card.SecuritySchemes[names[0]], nil
}

func canLogIn(card *a2a.AgentCard) bool {
	for _, s := range card.SecuritySchemes {
		if issuerOf(s) != "" {
			return true
		}
	}
	return false
}

// wantedScopes are those that the card requires under a scheme.
func wantedScopes(card *a2a.AgentCard, scheme string) []string {
	var out []string
	for _, r := range card.SecurityRequirements {
		for _, scope := range r.Schemes[scheme] {
			if !slices.Contains(out, scope) {
				out = append(out, scope)
			}
		}
	}
	return out
}

// plan is how a token is got.
type plan struct {
	flow                string
	token, device, code string // endpoints
	openID              bool
}

// plan decides on the flow: the card's, or for OpenID Connect one that the provider has.
func (c *loginFlags) plan(ctx context.Context, s *session, scheme a2a.SecurityScheme) (*plan, error) {
	var t *plan
	switch scheme := scheme.(type) {
	case *a2a.OpenIDConnectSecurityScheme:
		e, err := auth.Discover(ctx, s.net.issuers(), scheme.OpenIDConnectURL)
		if err != nil {
			return nil, err
		}
		t = &plan{token: e.TokenURL, device: e.DeviceURL, code: e.AuthorizationURL, openID: true}
		switch {
		case c.flow != "":
			t.flow = c.flow
		case e.DeviceURL != "":
			t.flow = flowDevice
		case e.AuthorizationURL != "":
			t.flow = flowCode
		default:
			t.flow = flowClient
		}
	case *a2a.OAuth2SecurityScheme:
		switch f := scheme.Flows.(type) {
		case *a2a.DeviceCodeOAuthFlow:
			t = &plan{flow: flowDevice, token: f.TokenURL, device: f.DeviceAuthorizationURL}
		case *a2a.ClientCredentialsOAuthFlow:
			t = &plan{flow: flowClient, token: f.TokenURL}
		case *a2a.AuthorizationCodeOAuthFlow:
			t = &plan{flow: flowCode, token: f.TokenURL, code: f.AuthorizationURL}
		default: // choose has left them out
		}
	default: // as above
	}
	if t == nil || c.flow != "" && c.flow != t.flow || t.flow == flowDevice && t.device == "" || t.flow == flowCode && t.code == "" {
		return nil, usage("--flow %s: the agent's card and its authorization server offer no such flow", c.flow)
	}
	return t, nil
}

// get gets the first token.
func (l *login) get(ctx context.Context, s *session, t *plan) error {
	o, err := l.oauth(s)
	if err != nil {
		return err
	}
	o.DeviceURL = t.device
	save := func(refresh auth.Secret) error { l.Refresh = refresh.Reveal(); return nil }
	var source auth.TokenSource
	switch t.flow {
	case flowDevice:
		source, err = o.DeviceCode(s.promptDevice, save)
	case flowClient:
		if o.ClientSecret.Empty() {
			return usage("the client credentials flow needs the client's secret: --client-secret-file, or $%s", envName("client-secret"))
		}
		source, err = o.ClientCredentials()
	case flowCode:
		source = auth.TokenFunc(func(ctx context.Context) (auth.Token, error) {
			token, refresh, err := o.AuthorizationCode(ctx, t.code, s.promptBrowser)
			l.Refresh = refresh.Reveal()
			return token, err
		})
	}
	if err != nil {
		return err
	}
	token, err := source.Token(ctx)
	l.Access, l.Expiry = token.Secret.Reveal(), token.Expiry
	return err
}

// promptDevice asks the person to enter a code elsewhere (RFC 8628, section 3.3).
func (s *session) promptDevice(_ context.Context, p auth.DevicePrompt) error {
	s.note("Open " + p.URL + " and enter the code " + p.UserCode)
	if p.CompleteURL != "" {
		s.note("or open " + p.CompleteURL)
	}
	s.note("Waiting until " + p.Expiry.Format(time.TimeOnly))
	return nil
}

// promptBrowser asks the person to sign in in a browser of this machine.
func (s *session) promptBrowser(_ context.Context, to string) error {
	s.note("Open this address in a browser on this machine, and sign in:")
	s.note(to)
	return nil
}

// unreached reports whether a request to an authorization server got no answer.
func unreached(err error) bool {
	u, ok := errors.AsType[*url.Error](err)
	return ok && u != nil
}

// loginFailure classifies what an authorization server, or the way to it, made of a login.
func loginFailure(err error) error {
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	message := strings.TrimPrefix(err.Error(), "auth: ")
	if unreached(err) {
		return fail(errUnreachable, "check the address in the agent's card, and that the authorization server is running", "no login: %s", message)
	}
	hint := ""
	switch auth.ErrorCode(err) {
	case "invalid_client", "unauthorized_client":
		hint = "check --client-id and the client's secret, and that this client may use the flow"
	case "invalid_scope":
		hint = "name scopes that the client may have with --scope"
	case "access_denied":
		hint = "whoever was asked said no"
	case "expired_token":
		hint = "run it again, and enter the code in time"
	case "":
		hint = "the agent's card names the authorization server: check that it is one"
	}
	return fail(errAuthFailed, hint, "no login: %s", message)
}

func (s *session) showLogin(l *login) error {
	path, err := loginPath(s.loginOrigin())
	if err != nil {
		return err
	}
	shown := shownLogin{s.loginOrigin(), l.Scheme, l.Issuer, l.Scopes, l.Expiry, l.renews(), path, ""}
	if s.json {
		b, err := json.Marshal(shown)
		if err != nil {
			return err
		}
		return s.line(b)
	}
	return s.print(func(t *text) { t.login(shown) })
}

// loginCommand returns the command line that logs in to this agent.
func (s *session) loginCommand() string {
	return s.command("auth login", "--client-id", "ID")
}

func (c *loginFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&c.clientID, "client-id", "", "`ID` by which the authorization server knows the client")
	fs.StringVar(&c.secretFile, "client-secret-file", "", "`FILE` with the client's secret, which stays there")
	fs.StringVar(&c.scheme, "scheme", "", "`NAME` of the scheme in the card, where it has several")
	fs.StringVar(&c.flow, "flow", "", "`FLOW` of OpenID Connect: device, code or client-credentials (default: what the provider has)")
	fs.StringSliceVar(&c.scopes, "scope", nil, "`SCOPE` to ask for; repeatable (default: those that the card requires)")
	fs.StringVar(&c.audience, "audience", "", "the agent's `NAME` at servers that want an audience")
	fs.StringVar(&c.resource, "resource", "", "`URL` of the agent at servers that want a resource (RFC 8707)")
}

// logoutCommand forgets the logins for an agent's origin.
type logoutCommand struct{ scheme string }

func (a *app) authLogout() *cobra.Command {
	c := new(logoutCommand)
	cmd := &cobra.Command{
		Use:     "logout",
		Short:   "Forget the logins for an agent's origin",
		Example: "  parley auth logout -a agent.example.com",
	}
	cmd.Flags().StringVar(&c.scheme, "scheme", "", "only the login under the scheme `NAME`")
	return a.client(cmd, c)
}

func (c *logoutCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) error {
	return noArgs(cmd, args)
}

func (c *logoutCommand) run(ctx context.Context, s *session) error {
	s.anonymous = true
	if _, err := s.connect(ctx); err != nil {
		return err
	}
	gone := 0
	err := changeLogins(s.loginOrigin(), true, func(f *loginFile) error {
		before := len(f.Logins)
		f.Logins = slices.DeleteFunc(f.Logins, func(l login) bool { return c.scheme == "" || l.Scheme == c.scheme })
		gone = before - len(f.Logins)
		return nil
	})
	if err != nil {
		return err
	}
	if s.json {
		return s.line(fmt.Appendf(nil, `{"removed":%d}`, gone))
	}
	return s.print(func(t *text) { t.field("Removed", fmt.Sprint(gone)) })
}
