package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
)

func (a *app) card() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "card",
		Short: "Read, check and sign agent cards",
		Example: `  parley card get -a example.com --validate
  parley card verify -a example.com --jwks https://example.com/.well-known/jwks.json
  parley card init my-agent`,
	}
	get := new(getCard)
	getCmd := a.client(&cobra.Command{
		Use:   "get",
		Short: "Show who an agent is, what it can do and where it is reached",
		Example: `  parley card get
  parley card get -a https://example.com/agents/stock/agent-card.json -o json
  parley card get -a ./card.json --validate`,
	}, get)
	get.register(getCmd.Flags())
	verify := new(verifyCard)
	verifyCmd := a.client(&cobra.Command{
		Use:   "verify",
		Short: "Check who signed a card, and that it is the one that was approved",
		Example: `  parley card verify -a example.com --jwks https://example.com/.well-known/jwks.json
  parley card verify -a ./agent-card.json --key card-key.pem`,
	}, verify)
	verify.register(verifyCmd.Flags())
	cmd.AddCommand(getCmd, verifyCmd, (&signCard{app: a}).command(), (&initCard{app: a}).command())
	return group(cmd)
}

// keyFlags say whose signatures count, and which card was approved.
type keyFlags struct {
	files []string
	set   string
	jku   string
	pin   string
}

func (f *keyFlags) register(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringArrayVar(&f.files, "key", nil, "key whose signature counts, PEM or JWK, public or private (`FILE`); repeatable")
	fs.StringVar(&f.set, "jwks", "", "key set instead, by its https `URL` or in a file")
	fs.StringVar(&f.jku, "jku", "", "`URL` that signatures may name as that of the key set")
}

func (f *keyFlags) given() bool { return f.files != nil || f.set != "" }

func (f *keyFlags) check() error {
	if f.files != nil && f.set != "" {
		return usage("--key and --jwks: one of the two says whose signatures count")
	}
	if f.jku != "" && !f.given() {
		return usage("--jku: name the keys too, with --key or --jwks")
	}
	return nil
}

// enrollment reads the keys.
func (f *keyFlags) enrollment() (e agentcard.Enrollment, err error) {
	e.URL, e.Digest = f.jku, f.pin
	switch {
	case f.files != nil:
		keys, err := readKeys("--key", f.files)
		if err != nil {
			return e, err
		}
		if e.KeySet, err = agentcard.JWKS(keys...); err != nil {
			return e, usage("--key: %s", err.Error())
		}
	case strings.Contains(f.set, "://"):
		if f.jku != "" && f.jku != f.set {
			return e, usage("--jku: the key set is at --jwks already")
		}
		e.URL = f.set
	case f.set != "":
		if e.KeySet, err = os.ReadFile(f.set); err != nil {
			return e, usage("--jwks: %s", err.Error())
		}
		if len(e.KeySet) == 0 {
			return e, usage("--jwks %s: the file is empty", f.set)
		}
	}
	return e, nil
}

// readKeys reads the keys of cards that a flag names.
func readKeys(flag string, files []string) ([]*agentcard.Key, error) {
	var keys []*agentcard.Key
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, usage("%s: %s", flag, err.Error())
		}
		k, err := agentcard.ParseKey(b)
		if err != nil {
			return nil, usage("%s %s: %s", flag, file, strings.TrimPrefix(err.Error(), "agentcard: "))
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// verify returns what a card's signatures are worth under the flags.
func (f *keyFlags) verify(ctx context.Context, s *session, raw []byte, from string) (agentcard.Result, error) {
	e, err := f.enrollment()
	if err != nil {
		return agentcard.Result{}, err
	}
	origin, err := agentcard.Origin(from)
	if err != nil { // of a file: the keys were given for it
		origin = fileOrigin
	}
	return agentcard.Verify(ctx, raw, agentcard.Policy{
		Origin: origin, Enrolled: map[string]agentcard.Enrollment{origin: e},
		Fetch: func(ctx context.Context, url string) ([]byte, error) {
			return client.FetchKeySet(ctx, url, s.options())
		},
	}), nil
}

// fileOrigin stands for the origin of a card in a file.
const fileOrigin = "https://file.invalid"

// outcome says in words what signatures are worth.
func (f *keyFlags) outcome(r agentcard.Result) string {
	switch {
	case r.Outcome == agentcard.Verified && r.Origin == fileOrigin:
		return fmt.Sprintf("verified, by key %q (%s)", r.KeyID, r.Algorithm)
	case r.Outcome == agentcard.Verified:
		return fmt.Sprintf("verified, by key %q (%s) for %s", r.KeyID, r.Algorithm, r.Origin)
	case r.Outcome == agentcard.Unverifiable && r.Digest != "" && !f.given():
		return "unverifiable: no key was named (--key, --jwks)"
	case r.Outcome == agentcard.Unverifiable:
		return "unverifiable: " + r.Why
	}
	return r.Outcome.String()
}

// getCard shows an agent card (specification 10.1).
type getCard struct {
	keyFlags
	validate, extended bool
}

func (c *getCard) register(fs *pflag.FlagSet) {
	fs.BoolVar(&c.validate, "validate", false, "check it against the A2A specification; exit code 1 if it breaks a MUST")
	fs.BoolVar(&c.extended, "extended", false, "the card for callers who authenticate")
	c.keyFlags.register(fs)
}

func (c *getCard) check(cmd *cobra.Command, _ *clientFlags, args []string) error {
	if err := noArgs(cmd, args); err != nil {
		return err
	}
	return c.keyFlags.check()
}

func (c *getCard) run(ctx context.Context, s *session) error {
	card, err := c.fetch(ctx, s)
	var invalid *client.InvalidCardError
	if errors.As(err, &invalid) && c.validate && invalid.Raw != nil && !isCatalog(invalid.Raw) {
		findings := agentcard.Validate(invalid.Raw)
		if broken(findings) == 0 {
			return err
		}
		s.findings(findings)
		return invalidCard(findings)
	}
	if err != nil {
		return err
	}
	r, err := c.verify(ctx, s, card.Raw, card.URL)
	if err != nil {
		return err
	}
	var findings []agentcard.Finding
	if c.validate {
		findings = agentcard.Validate(card.Raw)
	}
	for _, i := range card.SupportedInterfaces {
		if why := card.Doubt(i); why != "" {
			s.warn("the %s interface %s: %s", i.ProtocolBinding, i.URL, why)
		}
	}
	if s.json {
		s.note("Signature: " + c.outcome(r))
		s.findings(findings)
		if broken(findings) > 0 {
			return invalidCard(findings)
		}
		return c.json(s, card.Raw)
	}
	err = s.print(func(t *text) {
		t.card(card.AgentCard)
		t.field("Signature", c.outcome(r))
		if s.verbose {
			t.field("Digest", r.Digest)
		}
		if c.validate {
			t.findings(findings)
		}
	})
	if err == nil && broken(findings) > 0 {
		return invalidCard(findings)
	}
	return err
}

// fetch returns the card, or the extended one as it is read back.
func (c *getCard) fetch(ctx context.Context, s *session) (*client.Card, error) {
	if !c.extended {
		return client.FetchCard(ctx, s.flags.card, s.options())
	}
	ctx, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if s.flags.hasCredential() && len(s.Card().SecuritySchemes) == 0 { // specification 12.4
		return nil, usage("--extended: the card declares no security scheme, so the credential is not sent for the other card")
	}
	card, err := s.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	if err != nil {
		return nil, err
	}
	return &client.Card{AgentCard: card, Raw: card.AppendJSON(nil), URL: s.Card().URL}, nil
}

func (c *getCard) json(s *session, raw []byte) error {
	if !s.flags.stream {
		return s.line(bytes.TrimRight(raw, "\r\n"))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return err
	}
	return s.line(b.Bytes())
}

// broken returns how many findings are of a MUST.
func broken(findings []agentcard.Finding) int {
	n := 0
	for _, f := range findings {
		if f.Level == agentcard.Must {
			n++
		}
	}
	return n
}

func invalidCard(findings []agentcard.Finding) error {
	first := slices.IndexFunc(findings, func(f agentcard.Finding) bool { return f.Level == agentcard.Must })
	return fail(errCardInvalid, findings[first].Fix, "the card breaks the specification, MUST findings: %d, the first: %s",
		broken(findings), findings[first])
}

func (t *text) findings(findings []agentcard.Finding) {
	for _, f := range findings {
		t.field("Finding", f.String()+"; "+f.Fix)
	}
	if findings == nil {
		t.field("Findings", "none")
	}
}

// findings writes findings to people where the result is for a program.
func (s *session) findings(findings []agentcard.Finding) {
	for _, f := range findings {
		s.note("Finding: " + f.String() + "; " + f.Fix)
	}
}

// verifyCard checks a card's signatures and that it has not changed (A2A specification 8.4.3).
type verifyCard struct{ keyFlags }

func (c *verifyCard) register(fs *pflag.FlagSet) {
	c.keyFlags.register(fs)
	fs.StringVar(&c.pin, "pin", "", "`DIGEST` of the card that was approved, as --verbose and this command show it")
}

func (c *verifyCard) check(cmd *cobra.Command, _ *clientFlags, args []string) error {
	if err := noArgs(cmd, args); err != nil {
		return err
	}
	if !c.given() && c.pin == "" {
		return usage("whose signature counts? Name --key or --jwks, or the card that was approved by --pin")
	}
	return c.keyFlags.check()
}

func (c *verifyCard) run(ctx context.Context, s *session) error {
	card, err := client.FetchCard(ctx, s.flags.card, s.options())
	if err != nil {
		return err
	}
	r, err := c.verify(ctx, s, card.Raw, card.URL)
	if err != nil {
		return err
	}
	switch {
	case r.Drift:
		return fail(errCardInvalid, "see what changed, and approve it by its new digest, or call nobody there",
			"the card is not the one that was approved: its digest is %q", r.Digest)
	case c.given() && r.Outcome == agentcard.Absent:
		return fail(errCardInvalid, "parley card get shows what the card says", "the card is not signed")
	case c.given() && r.Outcome != agentcard.Verified:
		hint := "parley card get shows what the card says"
		if strings.Contains(r.Why, "jku") && c.jku == "" {
			hint = "if the signature may name that URL, say so with --jku"
		}
		return fail(errCardInvalid, hint, "the card's signature is %s", c.outcome(r))
	}
	if s.json {
		b, err := json.Marshal(verdict{r.Outcome.String(), r.KeyID, r.Algorithm, r.Digest, c.pin != ""})
		if err != nil {
			return err
		}
		return s.line(b)
	}
	return s.print(func(t *text) {
		t.field("Agent", card.Name)
		t.field("Signature", c.outcome(r))
		t.field("Digest", r.Digest)
		if c.pin != "" {
			t.field("Pinned", "yes")
		}
	})
}

// verdict is the JSON of a card that holds.
type verdict struct {
	Outcome   string `json:"outcome"`
	KeyID     string `json:"keyId,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
	Digest    string `json:"digest"`
	Pinned    bool   `json:"pinned"`
}

// local runs a command that talks to no agent.
func (a *app) local(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.json = false
		return run(cmd, args)
	}
}

// signCard signs a card in a file (A2A specification 8.4.2).
type signCard struct {
	app      *app
	keys     []string
	jku, out string
}

func (c *signCard) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sign FILE",
		Short: "Sign the card in a file",
		Long: `Sign the card in a file, or on stdin where FILE is -. Lines that begin with //
are comments and left out. Signatures that the card has are replaced. Two keys
are for a rotation.`,
		Example: "  parley card sign agent-card.jsonc --key card-key.pem --out agent-card.json",
		Args:    cobra.ArbitraryArgs,
		RunE:    c.app.local(c.run),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&c.keys, "key", nil, "private key to sign with, PEM or JWK (`FILE`); repeatable")
	fs.StringVar(&c.jku, "jku", "", "`URL` at which the key set is served, to be named in the signatures")
	fs.StringVar(&c.out, "out", "", "where to write the signed card (`FILE`; default: stdout)")
	return cmd
}

func (c *signCard) run(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s: sign which card? Give its file, or - for stdin", cmd.CommandPath())
	}
	if c.keys == nil {
		return usage("sign with what? Name the private key with --key; parley card init makes one")
	}
	keys, err := readKeys("--key", c.keys)
	if err != nil {
		return err
	}
	for _, k := range keys {
		k.SetURL = c.jku
	}
	raw, err := c.read(args[0])
	if err != nil {
		return usage("%s", err.Error())
	}
	card, err := c.parse(raw)
	if err != nil {
		return err
	}
	if err := agentcard.Sign(card, keys...); err != nil {
		return fail(errCardInvalid, "", "%s", strings.TrimPrefix(err.Error(), "agentcard: "))
	}
	return c.write(card)
}

func (c *signCard) read(name string) ([]byte, error) {
	in := c.app.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, client.MaxCard+1))
	if err == nil && len(raw) > client.MaxCard {
		err = fmt.Errorf("%s: a card has at most %d bytes", name, client.MaxCard)
	}
	return withoutComments(raw), err
}

// withoutComments leaves out the lines that begin with //, which no line of JSON does.
func withoutComments(raw []byte) []byte {
	var out []byte
	for line := range bytes.Lines(raw) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
			out = append(out, line...)
		}
	}
	return out
}

// parse reads the card that is signed: a field that gets lost on the way would not be covered.
func (c *signCard) parse(raw []byte) (*a2a.AgentCard, error) {
	findings := agentcard.Validate(raw)
	for _, f := range findings {
		fmt.Fprintln(c.app.err, visible("Warning: "+f.String()+"; "+f.Fix)) //nolint:errcheck // nobody listens then
	}
	card := new(a2a.AgentCard)
	if err := card.UnmarshalJSON(raw); err != nil {
		if broken(findings) > 0 {
			return nil, invalidCard(findings)
		}
		return nil, fail(errCardInvalid, "", "%s", err.Error())
	}
	whole, err := agentcard.CanonicalJSON(raw)
	if err != nil {
		return nil, fail(errCardInvalid, "", "%s", strings.TrimPrefix(err.Error(), "agentcard: "))
	}
	read, err := agentcard.Canonical(card)
	if err != nil {
		return nil, fail(errCardInvalid, "", "%s", strings.TrimPrefix(err.Error(), "agentcard: "))
	}
	if !bytes.Equal(whole, read) {
		return nil, fail(errCardInvalid, "take them out; what is your own belongs into the params of an extension",
			"the card has fields that are not of A2A %s, and would lose them", a2a.Version)
	}
	return card, nil
}

func (c *signCard) write(card *a2a.AgentCard) error {
	var b bytes.Buffer
	raw := card.AppendJSON(nil)
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	digest, err := agentcard.Digest(raw)
	if err != nil {
		return err
	}
	if c.out == "" {
		if _, err := c.app.out.Write(b.Bytes()); err != nil {
			return fail(errInternal, "", "the card could not be written: %s", err.Error())
		}
	} else if err := os.WriteFile(c.out, b.Bytes(), 0o644); err != nil { //nolint:gosec // a card is public
		return usage("--out: %s", err.Error())
	}
	fmt.Fprintf(c.app.err, "signatures: %d, digest %s\n", len(card.Signatures), digest) //nolint:errcheck // nobody listens then
	return nil
}

// initCard makes the files of a new agent's card.
type initCard struct {
	app       *app
	name, url string
}

func (c *initCard) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a card with comments, and the key to sign it with",
		Long: `Make the files of a new agent's card: agent-card.jsonc, the card with a comment
on each field, card-key.pem, the private key that signs it, and jwks.json, the
public key for those who verify it. Nothing is overwritten.`,
		Example: "  parley card init my-agent --name 'My agent' --url https://agent.example",
		Args:    cobra.ArbitraryArgs,
		RunE:    c.app.local(c.run),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&c.name, "name", "My agent", "of the agent (`NAME`)")
	fs.StringVar(&c.url, "url", "https://agent.example", "where the agent is called (`URL`)")
	return cmd
}

func (c *initCard) run(cmd *cobra.Command, args []string) error {
	dir := "."
	switch len(args) {
	case 0:
	case 1:
		dir = args[0]
	default:
		return usage("%s takes one folder, got %q too", cmd.CommandPath(), args[1])
	}
	origin, err := agentcard.Origin(c.url)
	if err != nil || c.name == "" {
		return usage("--name and --url: want a name, and the https URL of the agent")
	}
	key, pemKey, err := newCardKey()
	if err != nil {
		return err
	}
	set, err := agentcard.JWKS(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // only the key in it is secret
		return usage("%s", err.Error())
	}
	base := strings.TrimRight(c.url, "/")
	files := []newFile{
		{filepath.Join(dir, "card-key.pem"), pemKey, 0o600},
		{filepath.Join(dir, "jwks.json"), append(set, '\n'), 0o644},
		{filepath.Join(dir, "agent-card.jsonc"), cardTemplate(c.name, base), 0o644},
	}
	for _, f := range files {
		if _, err := os.Lstat(f.name); err == nil {
			return usage("%s is there already: name another folder", f.name)
		}
	}
	t := new(text)
	for _, f := range files {
		if err := f.write(); err != nil {
			return usage("%s", err.Error())
		}
		t.field("Wrote", f.name)
	}
	t.field("Key", key.ID)
	t.field("Next", "fill in "+files[2].name+", then")
	t.field("Sign", "parley card sign "+quote(files[2].name)+" --key "+quote(files[0].name)+
		" --jku "+quote(origin+"/.well-known/jwks.json")+" --out "+quote(filepath.Join(dir, "agent-card.json")))
	if _, err := c.app.out.Write(t.Bytes()); err != nil {
		return fail(errInternal, "", "the result could not be written: %s", err.Error())
	}
	return nil
}

type newFile struct {
	name string
	body []byte
	mode os.FileMode
}

func (f newFile) write() error {
	w, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	if _, err := w.Write(f.body); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}

// newCardKey returns a new key for ES256, which every library has, and its PEM.
func newCardKey() (*agentcard.Key, []byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	key, err := agentcard.NewKey(private)
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// cardTemplate returns a card that breaks no rule, with comments.
func cardTemplate(name, base string) []byte {
	replace := strings.NewReplacer("NAME", jsonString(name), "BASE/", jsonString(base+"/"))
	return []byte(replace.Replace(template))
}

func jsonString(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has JSON
	}
	return string(b)
}

const template = `// The card of an agent (A2A 1.0, section 4.4.1). Lines that begin with // are comments: "parley card sign" leaves
// them out. Serve what it writes at /.well-known/agent-card.json.
{
  // Who it is, for people and for agents that choose among agents.
  "name": NAME,
  "description": "What the agent does, for whom, and what it does not do.",
  // Of the agent, not of the protocol. Raise it with every change to the card.
  "version": "0.1.0",
  // Who runs it. Leave it out rather than empty.
  // "provider": {"organization": "Example", "url": "https://example.com"},
  // "documentationUrl": "https://example.com/docs",

  // Where it is called, the preferred first: JSONRPC, HTTP+JSON, or GRPC with "host:port" as its URL. Addresses as
  // callers see them, not 0.0.0.0 or a name inside your network.
  "supportedInterfaces": [
    {"url": BASE/, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
  ],

  // What of the protocol it can do beyond the least. Say true only of what it does.
  "capabilities": {
    "streaming": false,
    "pushNotifications": false,
    // A second card with more for callers who authenticate. It needs securitySchemes.
    "extendedAgentCard": false
  },

  // How callers authenticate, and which of the schemes they must use.
  // "securitySchemes": {"login": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example/.well-known/openid-configuration"}}},
  // "securityRequirements": [{"schemes": {"login": {"list": ["openid"]}}}],

  // Media types that messages to it may have, and that its results have. A skill can have its own.
  "defaultInputModes": ["text/plain"],
  "defaultOutputModes": ["text/plain"],

  // What it can do. Callers choose by these words: one skill for each thing, with examples.
  "skills": [
    {
      "id": "answer",
      "name": "Answer questions",
      "description": "What this skill takes, what it returns, and when to use it.",
      "tags": ["example"],
      "examples": ["A message that this skill understands."]
    }
  ]
}
`

// card writes what a card says, the most preferred interface first.
func (t *text) card(c *a2a.AgentCard) {
	t.field("Agent", c.Name)
	t.field("Version", c.Version)
	t.field("Description", c.Description)
	if c.Provider != nil {
		t.field("Provider", c.Provider.Organization+" "+c.Provider.URL)
	}
	if c.DocumentationURL != nil {
		t.field("Documentation", *c.DocumentationURL)
	}
	for _, i := range c.SupportedInterfaces {
		tenant := ""
		if i.Tenant != "" {
			tenant = " tenant " + i.Tenant
		}
		t.field("Interface", i.ProtocolBinding+" "+i.ProtocolVersion+" "+i.URL+tenant)
	}
	t.field("Streaming", yesNo(c.Capabilities.Streaming))
	t.field("Push-Notifications", yesNo(c.Capabilities.PushNotifications))
	t.field("Extended-Card", yesNo(c.Capabilities.ExtendedAgentCard))
	for _, e := range c.Capabilities.Extensions {
		t.field("Extension", e.URI+map[bool]string{true: " (required)"}[e.Required])
	}
	t.field("Input", strings.Join(c.DefaultInputModes, ", "))
	t.field("Output", strings.Join(c.DefaultOutputModes, ", "))
	for _, name := range sortedKeys(c.SecuritySchemes) {
		t.field("Security", name+": "+schemeText(c.SecuritySchemes[name]))
	}
	for _, s := range c.Skills {
		t.field("Skill", s.ID+": "+s.Name+". "+s.Description)
		if t.verbose {
			t.optional("Tags", strings.Join(s.Tags, ", "))
			for _, e := range s.Examples {
				t.field("Example", e)
			}
		}
	}
}

func yesNo(b *bool) string {
	if b != nil && *b {
		return "yes"
	}
	return "no"
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// schemes names the security schemes of a card.
func schemes(c *a2a.AgentCard) string {
	var out []string
	for _, name := range sortedKeys(c.SecuritySchemes) {
		out = append(out, schemeText(c.SecuritySchemes[name]))
	}
	if out == nil {
		return "no security scheme"
	}
	return strings.Join(out, ", ")
}

func schemeText(s a2a.SecurityScheme) string {
	switch s := s.(type) {
	case *a2a.APIKeySecurityScheme:
		return fmt.Sprintf("API key in %s %s", s.Location, s.Name)
	case *a2a.HTTPAuthSecurityScheme:
		return "HTTP " + s.Scheme
	case *a2a.OAuth2SecurityScheme:
		return "OAuth 2.0" + map[bool]string{true: " (a deprecated flow)"}[deprecated(s.Flows)]
	case *a2a.OpenIDConnectSecurityScheme:
		return "OpenID Connect " + s.OpenIDConnectURL
	case *a2a.MutualTLSSecurityScheme:
		return "mutual TLS"
	}
	return "a scheme that parley does not know"
}

func deprecated(f a2a.OAuthFlow) bool {
	switch f.(type) {
	case *a2a.ImplicitOAuthFlow, *a2a.PasswordOAuthFlow:
		return true
	default:
		return false
	}
}
