package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/auth"
)

// configFile is what parley.yaml says besides the flags of serve, whose names are keys of it, too.
type configFile struct {
	Security securityConfig `yaml:"security"`
	Limits   limitsConfig   `yaml:"limits"`
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
	TokenURL    string            `yaml:"token-url"`
	Scopes      map[string]string `yaml:"scopes"`
	Scheme      string            `yaml:"scheme"`
}

type introspectionConfig struct {
	Endpoint         string            `yaml:"endpoint"`
	ClientID         string            `yaml:"client-id"`
	ClientSecretFile string            `yaml:"client-secret-file"`
	Issuer           string            `yaml:"issuer"`
	Audience         []string          `yaml:"audience"`
	TenantClaim      string            `yaml:"tenant-claim"`
	TokenURL         string            `yaml:"token-url"`
	Scopes           map[string]string `yaml:"scopes"`
	Scheme           string            `yaml:"scheme"`
}

type rulesConfig struct {
	Operations map[string][]string `yaml:"operations"`
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
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil:
		case *ast.MappingNode:
			for _, v := range body.Values {
				if err := readKey(path, v, fs, cfg); err != nil {
					return err
				}
			}
		case *ast.MappingValueNode:
			if err := readKey(path, body, fs, cfg); err != nil {
				return err
			}
		default:
			return usage("%s: want keys with their values, such as: listen: 127.0.0.1:41241", path)
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
	default:
		return readFlag(path, line, name, v.Value, fs)
	}
	if err := yaml.NodeToValue(v.Value, into, yaml.Strict()); err != nil {
		return configError(path, err)
	}
	return nil
}

// readFlag sets a flag to a value of the file, unless the command line names it.
func readFlag(path string, line int, name string, node ast.Node, fs *pflag.FlagSet) error {
	flag := fs.Lookup(name)
	if flag == nil || slices.Contains(lineOnly, name) {
		return usage("%s:%d: there is no key %q; the keys are security, limits and the flags of parley serve", path, line, name)
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
			Issuer: j.Issuer, Audience: j.Audience, KeysURL: j.KeysURL, KeysFile: j.KeysFile, TenantClaim: j.TenantClaim,
			TokenURL: j.TokenURL, Scopes: j.Scopes, Scheme: j.Scheme, Log: c.cfg.Log,
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
			Audience: n.Audience, TenantClaim: n.TenantClaim, TokenURL: n.TokenURL, Scopes: n.Scopes, Scheme: n.Scheme,
		})
		if err != nil {
			return nil, usage("security.introspection[%d]: %s", i, err.Error())
		}
		methods = append(methods, m)
	}
	if len(methods) == 0 {
		return nil, nil
	}
	opts := auth.Options{
		Rules: auth.Rules{Operations: s.Rules.Operations}, Failures: s.Failures, Anonymous: c.cfg.Public, Log: c.cfg.Log,
	}
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
	if a != nil {
		c.cfg.Authenticate = a.Authenticate
		c.cfg.SecuritySchemes, c.cfg.SecurityRequirements = a.SecuritySchemes(), a.SecurityRequirements()
	}
	if err := c.limit(); err != nil {
		return err
	}
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

func (c *serveCommand) limit() error {
	l := &c.file.Limits
	for name, n := range map[string]int64{
		"burst": int64(l.Burst), "running": int64(l.Running), "waiting": int64(l.Waiting), "parked": int64(l.Parked),
		"parts": int64(l.Parts), "artifacts": l.Artifacts, "body": l.Body, "answer": int64(l.Answer), "silence": int64(l.Silence), "cancel": int64(l.Cancel),
	} {
		if n < 0 {
			return usage("limits.%s: must not be negative", name)
		}
	}
	c.cfg.Rates.Rate, c.cfg.Rates.Burst, c.cfg.Rates.Streams = l.Rate, l.Burst, l.Streams
	c.cfg.Limits.Running, c.cfg.Limits.Waiting, c.cfg.Limits.Parked = l.Running, l.Waiting, l.Parked
	c.cfg.Limits.Parts, c.cfg.Limits.Artifacts, c.cfg.MaxBody = l.Parts, l.Artifacts, l.Body
	c.cfg.Times.Answer, c.cfg.Times.Silence, c.cfg.Times.CancelGrace = l.Answer, l.Silence, l.Cancel
	if c.auth != nil {
		c.cfg.Rates.Check = c.auth.Valid
	}
	return nil
}
