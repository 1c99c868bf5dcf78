package cli

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
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
// set after that, and win. Every error says the line.
func readConfig(path string, fs *pflag.FlagSet, cfg *configFile) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return usage("--config: %s", err.Error())
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return configError(path, err)
	}
	cfg.keys = map[string]bool{}
	for _, doc := range file.Docs {
		var values []*ast.MappingValueNode
		switch body := doc.Body.(type) {
		case nil:
		case *ast.MappingNode:
			values = body.Values
		case *ast.MappingValueNode:
			values = []*ast.MappingValueNode{body}
		default:
			return usage("%s: want keys with their values, such as: listen: 127.0.0.1:41241", path)
		}
		agents := func(v *ast.MappingValueNode) bool { return v.Key.String() == "agents" }
		if i := slices.IndexFunc(values, agents); i >= 0 { // the last, as agents begin with the limits of all
			values = append(slices.Delete(slices.Clone(values), i, i+1), values[i])
		}
		for _, v := range values {
			if err := readKey(path, v, fs, cfg); err != nil {
				return err
			}
		}
	}
	return nil
}

func configError(path string, err error) error {
	return usage("%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, false)))
}

// lineOnly are flags that make no sense in a file.
var lineOnly = []string{"config", "check", "help"}

func readKey(path string, v *ast.MappingValueNode, fs *pflag.FlagSet, cfg *configFile) error {
	name := v.Key.String()
	line := v.Key.GetToken().Position.Line
	var into any
	switch name {
	case "security":
		into = &cfg.Security
	case "limits":
		into = &cfg.Limits
	case "card":
		into = &cfg.Card
	case "agents":
		return readAgents(path, line, v.Value, cfg)
	default:
		cfg.keys[name] = true
		return readFlag(path, line, name, v.Value, fs)
	}
	if err := yaml.NodeToValue(v.Value, into, yaml.Strict()); err != nil {
		return configError(path, err)
	}
	return nil
}

// words are what a routing word may consist of: it is in paths, and the name of a file.
var words = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// readAgents reads the list of agents.
func readAgents(path string, line int, node ast.Node, cfg *configFile) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return usage("%s:%d: agents is a list of one or more", path, line)
	}
	for _, n := range list.Values {
		line, a := n.GetToken().Position.Line, agentConfig{Limits: cfg.Limits}
		if err := yaml.NodeToValue(n, &a, yaml.Strict()); err != nil {
			return configError(path, err)
		}
		if !words.MatchString(a.Name) {
			return usage("%s:%d: an agent has a name of letters, digits, - and _, 64 at most, not %q", path, line, a.Name)
		}
		if slices.ContainsFunc(cfg.Agents, func(b agentConfig) bool { return strings.EqualFold(a.Name, b.Name) }) {
			return usage("%s:%d: two agents have the name %q", path, line, a.Name)
		}
		if err := a.check(); err != nil {
			return usage("%s:%d: agent %s: %s", path, line, a.Name, err.Error())
		}
		cfg.Agents = append(cfg.Agents, a)
	}
	return nil
}

// readFlag sets a flag to a value of the file, unless the command line names it.
func readFlag(path string, line int, name string, node ast.Node, fs *pflag.FlagSet) error {
	flag := fs.Lookup(name)
	if flag == nil || slices.Contains(lineOnly, name) {
		return usage("%s:%d: there is no key %q; the keys are agents, card, security, limits and the flags of parley serve", path, line, name)
	}
	if flag.Changed {
		return nil
	}
	values := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		if _, repeats := flag.Value.(pflag.SliceValue); !repeats {
			return usage("%s:%d: %s has one value, not a list", path, line, name)
		}
		values = list.Values
	}
	for _, n := range values {
		var s string
		if err := yaml.NodeToValue(n, &s); err != nil {
			var scalar any // a number or a truth value
			if err := yaml.NodeToValue(n, &scalar); err != nil {
				return configError(path, err)
			}
			s = fmt.Sprint(scalar)
		}
		if err := flag.Value.Set(s); err != nil {
			return usage("%s:%d: %s: %s", path, line, name, err.Error())
		}
	}
	return nil
}

// authenticator makes what the configuration and the flags say about callers, nil if they say nothing.
func (c *serveCommand) authenticator() (*auth.Authenticator, error) {
	s := &c.file.Security
	var methods []auth.Method
	if len(c.apiKeys) > 0 || s.APIKeys != nil {
		opts := auth.APIKeyOptions{Log: c.cfg.Log}
		if s.APIKeys != nil {
			opts.Header, opts.File = s.APIKeys.Header, s.APIKeys.File
		}
		for _, text := range c.apiKeys {
			if path, ok := strings.CutPrefix(text, "@"); ok {
				if opts.File != "" {
					return nil, usage("--api-key %s: there is one file of keys, and %s is named already", text, opts.File)
				}
				opts.File = path
				continue
			}
			key, err := auth.ParseAPIKey(text)
			if err != nil {
				return nil, usage("--api-key: %s", err.Error())
			}
			opts.Keys = append(opts.Keys, key)
		}
		keys, err := auth.NewAPIKeys(opts)
		if err != nil {
			return nil, usage("security.api-keys: %s", err.Error())
		}
		methods = append(methods, keys)
	}
	for i, j := range s.JWT {
		m, err := auth.NewJWT(auth.JWTOptions{
			Issuer: j.Issuer, Audience: j.Audience, KeysURL: j.KeysURL, KeysFile: j.KeysFile, TenantClaim: j.TenantClaim, Claims: j.Claims,
			TokenURL: j.TokenURL, Scopes: j.Scopes, Scheme: j.Scheme, Log: c.cfg.Log, Client: issuerClient(j.Private),
		})
		if err != nil {
			return nil, usage("security.jwt[%d]: %s", i, err.Error())
		}
		methods = append(methods, m)
	}
	if s.Certificates {
		methods = append(methods, auth.NewCertificates(auth.CertificateOptions{}))
	}
	for i, n := range s.Introspection { // they know every token: last
		secret, err := os.ReadFile(n.ClientSecretFile)
		if err != nil {
			return nil, usage("security.introspection[%d].client-secret-file: %s", i, err.Error())
		}
		m, err := auth.NewIntrospection(auth.IntrospectionOptions{
			Endpoint: n.Endpoint, ClientID: n.ClientID, ClientSecret: auth.NewSecret(strings.TrimSpace(string(secret))), Issuer: n.Issuer,
			Audience: n.Audience, TenantClaim: n.TenantClaim, Claims: n.Claims, TokenURL: n.TokenURL, Scopes: n.Scopes, Scheme: n.Scheme,
			Client: issuerClient(n.Private),
		})
		if err != nil {
			return nil, usage("security.introspection[%d]: %s", i, err.Error())
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
			return nil, usage("security.denylist: %s", err.Error())
		}
		opts.Denylist = list
	}
	a, err := auth.Any(opts, methods...)
	if err != nil {
		return nil, usage("security: %s", err.Error())
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
		return err
	}
	c.file.Limits.set(&c.cfg)
	certificates := c.file.Security.Certificates
	switch {
	case c.certFile == "" && c.keyFile == "":
		if c.clientCA != "" || certificates {
			return usage("client certificates need TLS: --tls-cert and --tls-key")
		}
		return nil
	case c.certFile == "" || c.keyFile == "":
		return usage("--tls-cert and --tls-key belong together")
	case certificates && c.clientCA == "":
		return usage("security.certificates needs the authorities that sign them: --client-ca")
	}
	c.cfg.TLS, err = auth.ServerTLS(auth.ServerTLSOptions{CertFile: c.certFile, KeyFile: c.keyFile, ClientCAFile: c.clientCA, Log: c.cfg.Log})
	if err != nil {
		return usage("TLS: %s", err.Error())
	}
	return nil
}

// check returns what is wrong with limits.
func (l *limitsConfig) check() error {
	for name, n := range map[string]int64{
		"burst": int64(l.Burst), "running": int64(l.Running), "waiting": int64(l.Waiting), "parked": int64(l.Parked),
		"parts": int64(l.Parts), "artifacts": l.Artifacts, "body": l.Body, "answer": int64(l.Answer), "silence": int64(l.Silence), "cancel": int64(l.Cancel),
	} {
		if n < 0 {
			return usage("limits.%s: must not be negative", name)
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
