package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/internal/netguard"
)

// configFile is what parley.yaml says besides the flags of serve, whose names are keys of it, too.
type configFile struct {
	Agents   []agentConfig  // nil: the flags describe the only one
	Card     cardConfig     // of the only one
	Security securityConfig // of all
	Limits   limitsConfig   // of each that has none of its own

	keys map[string]bool // the flags that it sets
	yaml *yamlFile       // nil: there is no file
}

// securityConfig says who may call.
type securityConfig struct {
	APIKeys       *apiKeysConfig        `yaml:"api-keys"`
	JWT           []jwtConfig           `yaml:"jwt"`
	Introspection []introspectionConfig `yaml:"introspection"`
	Certificates  bool                  `yaml:"certificates"` // client certificates name callers
	Denylist      string                `yaml:"denylist"`     // file of credentials that no longer count
	Failures      int                   `yaml:"failures"`     // wrong credentials of an address in a minute
	Rules         rulesConfig           `yaml:"rules"`
	Webhooks      webhooksConfig        `yaml:"webhooks"`
}

type apiKeysConfig struct {
	Header string `yaml:"header"`
	File   string `yaml:"file"`
}

type jwtConfig struct {
	Issuer      string            `yaml:"issuer"`
	Audience    []string          `yaml:"audience"`
	KeysURL     string            `yaml:"keys-url"`
	KeysFile    string            `yaml:"keys-file"`
	TenantClaim string            `yaml:"tenant-claim"`
	Claims      []string          `yaml:"claims"` // that agents are given
	TokenURL    string            `yaml:"token-url"`
	Scopes      map[string]string `yaml:"scopes"`
	Scheme      string            `yaml:"scheme"`
	Private     bool              `yaml:"private"` // the issuer is in a private network
}

type introspectionConfig struct {
	Endpoint         string            `yaml:"endpoint"`
	ClientID         string            `yaml:"client-id"`
	ClientSecretFile string            `yaml:"client-secret-file"`
	Issuer           string            `yaml:"issuer"`
	Audience         []string          `yaml:"audience"`
	TenantClaim      string            `yaml:"tenant-claim"`
	Claims           []string          `yaml:"claims"`
	TokenURL         string            `yaml:"token-url"`
	Scopes           map[string]string `yaml:"scopes"`
	Scheme           string            `yaml:"scheme"`
	Private          bool              `yaml:"private"`
}

// issuerClient returns who asks an issuer: nil is one that reaches public addresses only.
func issuerClient(private bool) *http.Client {
	if !private {
		return nil
	}
	return netguard.New(netguard.Options{AllowPrivate: true}).Client(10 * time.Second)
}

// limitsConfig bounds one caller. Zero is the default.
type limitsConfig struct {
	Rate      float64       `yaml:"rate"`  // requests a second
	Burst     int           `yaml:"burst"` // requests at once
	Streams   int           `yaml:"streams"`
	Running   int           `yaml:"running"` // tasks
	Waiting   int           `yaml:"waiting"`
	Parked    int           `yaml:"parked"`
	Parts     int           `yaml:"parts"`
	Artifacts int64         `yaml:"artifacts"` // bytes of a task
	Body      int64         `yaml:"body"`      // bytes of a request
	Answer    time.Duration `yaml:"answer"`    // for an answer to a parked task
	Silence   time.Duration `yaml:"silence"`   // for a sign of life of a run
	Cancel    time.Duration `yaml:"cancel"`    // for a canceled run to clean up
}

// readConfig reads a file into cfg and those flags of fs that its other keys name. Flags that the command line names are
// set after that, and win.
func readConfig(path string, fs *pflag.FlagSet, cfg *configFile) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return usage("--config: %s", err.Error())
	}
	y, pairs, err := parseYAML(path, data)
	if err != nil {
		return err
	}
	cfg.yaml, cfg.keys = y, map[string]bool{}
	slices.SortStableFunc(pairs, func(a, b pair) int { // agents begin with the limits of all
		return cmp.Compare(strings.Count(a.key, "agents"), strings.Count(b.key, "agents"))
	})
	for _, p := range pairs {
		y.lines[p.key] = p.line
		if err := cfg.readKey(p, fs); err != nil {
			return err
		}
	}
	return nil
}

// lineOnly are flags that make no sense in a file.
var lineOnly = []string{"config", "check", "help"}

func (cfg *configFile) readKey(p pair, fs *pflag.FlagSet) error {
	switch p.key {
	case "security":
		return cfg.yaml.read(p.key, p.value, reflect.ValueOf(&cfg.Security).Elem(), false)
	case "limits":
		return cfg.yaml.read(p.key, p.value, reflect.ValueOf(&cfg.Limits).Elem(), false)
	case "card":
		return cfg.yaml.read(p.key, p.value, reflect.ValueOf(&cfg.Card).Elem(), false)
	case "agents":
		return cfg.readAgents(p.value)
	}
	cfg.keys[p.key] = true
	return cfg.readFlag(p, fs)
}

// words are what a routing word may consist of: it is in paths, and the name of a file.
var words = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// readAgents reads the list of agents.
func (cfg *configFile) readAgents(node ast.Node) error {
	list, ok := cfg.yaml.resolve(node).(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return wrong("agents", "this is a list of one or more")
	}
	for i, n := range list.Values {
		a := agentConfig{Limits: cfg.Limits, at: fmt.Sprintf("agents[%d]", i)}
		cfg.yaml.lines[a.at] = lineOf(n)
		if err := cfg.yaml.read(a.at, n, reflect.ValueOf(&a).Elem(), false); err != nil {
			return err
		}
		if !words.MatchString(a.Name) {
			return wrong(a.at+".name", "an agent has a name of letters, digits, - and _, 64 at most, not %q", a.Name)
		}
		if slices.ContainsFunc(cfg.Agents, func(b agentConfig) bool { return strings.EqualFold(a.Name, b.Name) }) {
			return wrong(a.at+".name", "two agents have the name %q", a.Name)
		}
		if err := a.check(); err != nil {
			return about(a.at, err)
		}
		cfg.Agents = append(cfg.Agents, a)
	}
	return nil
}

// readFlag sets a flag to a value of the file, unless the command line names it.
func (cfg *configFile) readFlag(p pair, fs *pflag.FlagSet) error {
	flag, node := fs.Lookup(p.key), cfg.yaml.resolve(p.value)
	if flag == nil || slices.Contains(lineOnly, p.key) {
		return usage("%s:%d: there is no key %q; the keys are agents, card, security, limits and the flags of parley serve", cfg.yaml.name, p.line, p.key)
	}
	if flag.Changed || node != nil && node.Type() == ast.NullType {
		return nil
	}
	values := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		if _, repeats := flag.Value.(pflag.SliceValue); !repeats {
			return wrong(p.key, "it has one value, not a list")
		}
		values = list.Values
	}
	for _, n := range values {
		s, ok := cfg.yaml.text(n)
		if !ok {
			return wrong(p.key, "want a value, not %s", cfg.yaml.kind(n))
		}
		if err := flag.Value.Set(s); err == nil {
			continue
		}
		switch flag.Value.Type() { // all others take any text
		case "bool":
			return wrong(p.key, "want true or false, not %s", cfg.yaml.kind(n))
		default:
			return wrong(p.key, "want a time such as 90s or 168h; the units are h, m, s and ms")
		}
	}
	return nil
}

// checkFlags returns what is wrong with the values of flags, from wherever they are.
func checkFlags(fs *pflag.FlagSet) (err error) {
	fs.VisitAll(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if bad := checkText(v); bad != nil && err == nil {
				err = wrong(f.Name, "%s", bad.Error())
			}
			if f.Value.Type() == "duration" && strings.HasPrefix(v, "-") && err == nil {
				err = wrong(f.Name, "%s: a time cannot be negative", v)
			}
		}
	})
	return err
}

// flagOf are the flags for what has a key where there are several agents.
var flagOf = map[string]string{
	"proxy.card": "proxy", "proxy.credential.file": "proxy-token", "proxy.credential.origins": "proxy-origin", "proxy.keys": "proxy-keys",
	"card.name": "name", "card.keys": "card-key",
}

// place says in an error about a setting where that stands: in which line of the file, or in which variable or flag.
func (c *serveCommand) place(err error) error {
	var f *failure
	if !errors.As(err, &f) || f.key == "" {
		return err
	}
	out := *f
	where := c.where(f.key)
	out.key, out.message = "", where+": "+f.message
	if y := c.file.yaml; y != nil && strings.HasPrefix(where, y.name+":") {
		out.hint = cmp.Or(out.hint, "docs/configuration.md says what each key takes")
	}
	return &out
}

func (c *serveCommand) where(key string) string {
	y := c.file.yaml
	if flag, ok := flagOf[key]; ok && (y == nil || y.lines[key] == 0) {
		key = flag
	}
	flag := c.flags.Lookup(key)
	switch {
	case c.variables[key] != "":
		return c.variables[key]
	case flag != nil && flag.Changed:
		return "--" + key
	case y != nil && y.line(key) > 0:
		return fmt.Sprintf("%s:%d: %s", y.name, y.line(key), key)
	case flag != nil:
		return "--" + key
	}
	return key
}

// authenticator makes what the configuration and the flags say about callers, nil if they say nothing.
func (c *serveCommand) authenticator() (*auth.Authenticator, error) {
	s := &c.file.Security
	var methods []auth.Method
	if len(c.apiKeys) > 0 || s.APIKeys != nil {
		opts, where := auth.APIKeyOptions{Log: c.cfg.Log}, "api-key"
		if s.APIKeys != nil {
			where = "security.api-keys"
			opts.Header, opts.File = s.APIKeys.Header, s.APIKeys.File
		}
		for _, text := range c.apiKeys {
			if path, ok := strings.CutPrefix(text, "@"); ok {
				if opts.File != "" {
					return nil, wrong("api-key", "%s: there is one file of keys, and %s is named already", text, opts.File)
				}
				opts.File, where = path, "api-key"
				continue
			}
			key, err := auth.ParseAPIKey(text)
			if err != nil {
				return nil, refused("api-key", err)
			}
			opts.Keys = append(opts.Keys, key)
		}
		if len(opts.Keys) == 0 && opts.File == "" {
			return nil, wrong(where, "there are no keys: name a file of them with file, or give some with api-key")
		}
		keys, err := auth.NewAPIKeys(opts)
		if err != nil {
			return nil, refused(where, err)
		}
		methods = append(methods, keys)
	}
	for i, j := range s.JWT {
		at := fmt.Sprintf("security.jwt[%d]", i)
		if j.KeysURL != "" && j.KeysFile != "" {
			return nil, wrong(at+".keys-file", "keys-url or keys-file says where the keys are, not both")
		}
		m, err := auth.NewJWT(auth.JWTOptions{
			Issuer: j.Issuer, Audience: j.Audience, KeysURL: j.KeysURL, KeysFile: j.KeysFile, TenantClaim: j.TenantClaim, Claims: j.Claims,
			TokenURL: j.TokenURL, Scopes: j.Scopes, Scheme: j.Scheme, Log: c.cfg.Log, Client: issuerClient(j.Private),
		})
		if err != nil {
			return nil, refused(at, err)
		}
		methods = append(methods, m)
	}
	if s.Certificates {
		methods = append(methods, auth.NewCertificates(auth.CertificateOptions{}))
	}
	for i, n := range s.Introspection { // they know every token: last
		at := fmt.Sprintf("security.introspection[%d]", i)
		secret, err := os.ReadFile(n.ClientSecretFile)
		if err != nil {
			return nil, wrong(at+".client-secret-file", "%s", err.Error())
		}
		m, err := auth.NewIntrospection(auth.IntrospectionOptions{
			Endpoint: n.Endpoint, ClientID: n.ClientID, ClientSecret: auth.NewSecret(strings.TrimSpace(string(secret))), Issuer: n.Issuer,
			Audience: n.Audience, TenantClaim: n.TenantClaim, Claims: n.Claims, TokenURL: n.TokenURL, Scopes: n.Scopes, Scheme: n.Scheme,
			Client: issuerClient(n.Private),
		})
		if err != nil {
			return nil, refused(at, err)
		}
		methods = append(methods, m)
	}
	if c.methods = methods; len(methods) == 0 {
		return nil, s.unheld()
	}
	rules, err := s.Rules.rules()
	if err != nil {
		return nil, err
	}
	opts := auth.Options{Rules: rules, Failures: s.Failures, Anonymous: c.cfg.Public, Log: c.cfg.Log}
	if s.Denylist != "" {
		list, err := auth.OpenDenylist(s.Denylist, c.cfg.Log)
		if err != nil {
			return nil, refused("security.denylist", err)
		}
		opts.Denylist = list
	}
	a, err := auth.Any(opts, methods...)
	if err != nil {
		return nil, refused("security", err)
	}
	return a, nil
}

// secure puts callers, their limits and TLS into the host's configuration.
func (c *serveCommand) secure() error {
	a, err := c.authenticator()
	if err != nil {
		return err
	}
	c.auth = a
	c.cfg.Auth = a
	for i := range c.agents {
		if _, err := c.ownRules(&c.agents[i]); err != nil {
			return err
		}
	}
	if c.allowHook, err = c.file.Security.Webhooks.allowed(); err != nil {
		return err
	}
	if err := c.file.Limits.check(); err != nil {
		return about("limits", err)
	}
	c.file.Limits.set(&c.cfg)
	certificates := c.file.Security.Certificates
	switch {
	case c.certFile == "" && c.keyFile == "":
		switch {
		case c.clientCA != "":
			return wrong("client-ca", "client certificates need TLS: tls-cert and tls-key")
		case certificates:
			return wrong("security.certificates", "client certificates need TLS: tls-cert and tls-key")
		}
		return nil
	case c.keyFile == "":
		return wrong("tls-cert", "tls-cert and tls-key belong together")
	case c.certFile == "":
		return wrong("tls-key", "tls-cert and tls-key belong together")
	case certificates && c.clientCA == "":
		return wrong("security.certificates", "it needs the authorities that sign them: client-ca")
	}
	c.cfg.TLS, err = auth.ServerTLS(auth.ServerTLSOptions{CertFile: c.certFile, KeyFile: c.keyFile, ClientCAFile: c.clientCA, Log: c.cfg.Log})
	if err != nil {
		return refused("tls-cert", err)
	}
	return nil
}

// check returns what is wrong with limits.
func (l *limitsConfig) check() error {
	bounds := map[string]int64{ // a negative time was refused already
		"burst": int64(l.Burst), "running": int64(l.Running), "waiting": int64(l.Waiting), "parked": int64(l.Parked),
		"parts": int64(l.Parts), "artifacts": l.Artifacts, "body": l.Body,
	}
	for _, name := range sortedKeys(bounds) {
		if bounds[name] < 0 {
			return wrong(name, "must not be negative; only rate and streams can be taken off so")
		}
	}
	return nil
}

// set writes the limits.
func (l *limitsConfig) set(cfg *parley.Config) {
	cfg.Rates.Rate, cfg.Rates.Burst, cfg.Rates.Streams = l.Rate, l.Burst, l.Streams
	cfg.Limits.Running, cfg.Limits.Waiting, cfg.Limits.Parked = l.Running, l.Waiting, l.Parked
	cfg.Limits.Parts, cfg.Limits.Artifacts, cfg.MaxBody = l.Parts, l.Artifacts, l.Body
	cfg.Times.Answer, cfg.Times.Silence, cfg.Times.CancelGrace = l.Answer, l.Silence, l.Cancel
}

// tasks are the limits of tasks, which do not change while a host serves.
func (l *limitsConfig) tasks() limitsConfig {
	out := *l
	out.Rate, out.Burst, out.Streams, out.Body = 0, 0, 0, 0
	return out
}
