package cli

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/internal/netguard"
)

// rulesConfig says which scopes a caller needs, see auth.Rules.
type rulesConfig struct {
	Operations    map[string][]string `yaml:"operations"`
	Skills        map[string][]string `yaml:"skills"`
	SkillMetadata string              `yaml:"skill-metadata"` // member of a message's metadata that names its skill
}

func (c *rulesConfig) rules() (auth.Rules, error) {
	rules := auth.Rules{Operations: c.Operations, Skills: c.Skills}
	for _, by := range []struct {
		key   string
		rules map[string][]string
		check func(name string, scopes []string) auth.Rules
	}{
		{"operations", c.Operations, func(name string, scopes []string) auth.Rules {
			return auth.Rules{Operations: map[string][]string{name: scopes}}
		}},
		{"skills", c.Skills, func(name string, scopes []string) auth.Rules {
			return auth.Rules{Skills: map[string][]string{name: scopes}}
		}},
	} {
		for _, name := range sortedKeys(by.rules) { // one by one, to say which
			one := by.check(name, by.rules[name])
			if err := one.Check(); err != nil {
				return rules, refused("security.rules."+by.key+"."+name, err)
			}
		}
	}
	switch {
	case c.SkillMetadata != "":
		rules.SkillOf = auth.SkillIn(c.SkillMetadata)
	case len(c.Skills) > 0:
		return rules, wrong("security.rules.skills", "say with skill-metadata which member of a message's metadata names its skill")
	}
	return rules, nil
}

// unheld returns an error if what is said about callers could not hold, as no method says who calls.
func (s *securityConfig) unheld() error {
	said := map[string]bool{"rules": !reflect.ValueOf(s.Rules).IsZero(), "denylist": s.Denylist != "", "failures": s.Failures != 0}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if said[key] {
			return wrong("security."+key, "this is about callers, and this host does not ask who calls: "+
				"configure security.api-keys, jwt, introspection or certificates, or take it out")
		}
	}
	return nil
}

// ownRules returns what holds an agent's callers to its own rules, nil if it has none.
func (c *serveCommand) ownRules(a *agentConfig) (*auth.Authenticator, error) {
	own := &a.Security.Rules
	switch {
	case reflect.ValueOf(*own).IsZero():
		return nil, nil
	case c.auth == nil:
		return nil, about(a.at, wrong("security.rules", "these are about callers, and this host does not ask who calls"))
	}
	rules, err := own.rules()
	if err != nil {
		return nil, about(a.at, err)
	}
	held, err := auth.Any(auth.Options{Rules: rules, Failures: -1, Log: c.cfg.Log}, c.methods...)
	if err != nil {
		return nil, about(a.at, refused("security.rules", err))
	}
	return held, nil
}

// scopes are all that the rules ask for.
func (c *rulesConfig) scopes() (all []string) {
	for _, by := range []map[string][]string{c.Operations, c.Skills} {
		for _, need := range by {
			all = append(all, need...)
		}
	}
	return all
}

// webhooksConfig says who may have webhooks where, see push.Options.
type webhooksConfig struct {
	Challenge bool          `yaml:"challenge"`
	Allow     []allowConfig `yaml:"allow"`
}

// allowConfig lets a caller have webhooks at some origins.
type allowConfig struct {
	Caller  string   `yaml:"caller"` // ISSUER SUBJECT, as on the denylist, or * for everybody
	Origins []string `yaml:"origins"`
}

// allowed returns who may have webhooks where, nil if that is not said: everybody everywhere.
func (c *webhooksConfig) allowed() (func(caller a2a.Caller, origin string) bool, error) {
	if c.Allow == nil {
		return nil, nil
	}
	byCaller := map[string][]string{}
	for i, a := range c.Allow {
		where := fmt.Sprintf("security.webhooks.allow[%d]", i)
		if issuer, subject, ok := strings.Cut(a.Caller, " "); a.Caller != "*" && (!ok || issuer == "" || subject == "") {
			return nil, wrong(where+".caller", "want an issuer, a space and a subject, such as api-key alice, or *")
		}
		for j, s := range a.Origins {
			u, err := url.Parse(s)
			if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || s != u.Scheme+"://"+u.Host {
				return nil, wrong(fmt.Sprintf("%s.origins[%d]", where, j), "%q is not an origin, such as https://hooks.example.com", s)
			}
			byCaller[a.Caller] = append(byCaller[a.Caller], netguard.Origin(u))
		}
	}
	return func(caller a2a.Caller, origin string) bool {
		return slices.Contains(byCaller[caller.Issuer+" "+caller.Subject], origin) || slices.Contains(byCaller["*"], origin)
	}, nil
}
