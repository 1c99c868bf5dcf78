package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/agents"
	"github.com/parley-a2a/parley/proxy"
)

// agentConfig describes an agent: what parley.yaml says under agents, and the flags where there is only one. One of Agent,
// Exec, ACP and Proxy says what it is.
type agentConfig struct {
	at string // its path in the file; empty for the only one

	Name string `yaml:"name"` // its routing word

	Agent string        `yaml:"agent"` // built in
	Pace  time.Duration `yaml:"pace"`

	Exec   []string `yaml:"exec,lines"` // the program and its arguments
	Events bool     `yaml:"exec-events"`
	Stream bool     `yaml:"exec-stream"`

	ACP         string   `yaml:"acp"`           // a preset's word, or custom
	Command     []string `yaml:"command,lines"` // with custom
	Permissions string   `yaml:"permissions"`
	Mode        string   `yaml:"mode"`

	Dir string   `yaml:"dir"` // where the program runs
	Env []string `yaml:"env"`

	Proxy proxyConfig `yaml:"proxy"`

	Card     cardConfig    `yaml:"card"`
	Security agentSecurity `yaml:"security"`
	Limits   limitsConfig  `yaml:"limits"`
	Store    string        `yaml:"store"`
	Retain   time.Duration `yaml:"retain"`
}

// agentSecurity is what an agent asks of its callers besides what all agents of the host do.
type agentSecurity struct {
	Rules rulesConfig `yaml:"rules"`
}

// cardConfig is what a card says in place of what the agent says of itself.
type cardConfig struct {
	Name             string          `yaml:"name"`
	Description      string          `yaml:"description"`
	Version          string          `yaml:"version"`
	Provider         *providerConfig `yaml:"provider"`
	DocumentationURL string          `yaml:"documentation-url"`
	IconURL          string          `yaml:"icon-url"`
	InputModes       []string        `yaml:"input-modes"`
	OutputModes      []string        `yaml:"output-modes"`
	Skills           []skillConfig   `yaml:"skills"`
	Keys             []string        `yaml:"keys"` // files; in place of --card-key
	NoStreaming      bool            `yaml:"no-streaming"`
}

type providerConfig struct {
	Organization string `yaml:"organization"`
	URL          string `yaml:"url"`
}

type skillConfig struct {
	ID          string   `yaml:"id"`
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	Tags        []string `yaml:"tags"`
	Examples    []string `yaml:"examples"`
	InputModes  []string `yaml:"input-modes"`
	OutputModes []string `yaml:"output-modes"`
}

// check returns what is wrong with the description, as far as that is known without making the agent.
func (c *agentConfig) check() error {
	kinds := 0
	for _, said := range []bool{c.Agent != "", c.Exec != nil, c.ACP != "", c.Proxy.Card != ""} {
		if said {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return usage("what is it? Name one of agent, exec, acp and proxy")
	case kinds > 1:
		return usage("one of agent, exec, acp and proxy says what it is, not several")
	case c.Exec != nil && len(c.Exec) == 0:
		return wrong("exec", "which program?")
	case c.ACP == custom && len(c.Command) == 0:
		return wrong("acp", "which command? Name it and its arguments with command")
	case c.ACP != custom && len(c.Command) > 0:
		return wrong("command", "it belongs to acp: %s", custom)
	}
	if err := c.fits(); err != nil {
		return err
	}
	if err := c.Limits.check(); err != nil {
		return about("limits", err)
	}
	for i, s := range c.Card.Skills {
		if s.ID == "" || s.Name == "" || s.Description == "" {
			return wrong(fmt.Sprintf("card.skills[%d]", i), "a skill has id, name and description")
		}
	}
	return nil
}

// fits returns an error for what is said of an agent of another kind: to leave it out would serve something else than was
// meant.
func (c *agentConfig) fits() error {
	program, proxy := c.Exec != nil || c.ACP != "", c.Proxy
	proxy.Card = ""
	for _, x := range []struct {
		key        string
		said, fits bool
		want       string
	}{
		{"exec-events", c.Events, c.Exec != nil, "this goes with exec"},
		{"exec-stream", c.Stream, c.Exec != nil, "this goes with exec"},
		{"permissions", c.Permissions != "" && c.Permissions != "ask", c.ACP != "", "this goes with acp"},
		{"mode", c.Mode != "", c.ACP != "", "this goes with acp"},
		{"dir", c.Dir != "", program, "this goes with exec and acp"},
		{"env", len(c.Env) > 0, program, "this goes with exec and acp"},
		{"proxy", !reflect.ValueOf(proxy).IsZero(), c.Proxy.Card != "", "which agent? There is a credential, or keys, and no card"},
		{"pace", c.Pace != 0, c.Agent == "revisor", "this goes with the agent revisor"},
	} {
		if x.said && !x.fits {
			return wrong(x.key, "%s", x.want)
		}
	}
	return nil
}

// built is an agent that was made by its description.
type built struct {
	agents.Agent
	word       string // under which its tasks are kept, unless the description has a name
	extensions []*a2a.AgentExtension
	end        func()
	proxy      *proxy.Agent                  // nil: it is none
	wrap       func(a2a.Service) a2a.Service // of the host's service; nil: nothing
}

// build makes the agent.
func (c *agentConfig) build(ctx context.Context, log *slog.Logger) (*built, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	switch {
	case c.Exec != nil:
		return c.program()
	case c.ACP != "":
		return c.editorAgent(log)
	case c.Proxy.Card != "":
		return c.Proxy.build(ctx, log)
	}
	a, err := agents.ByName(c.Agent, agents.Options{Pace: c.Pace})
	if err != nil {
		return nil, wrong("agent", "%s", err.Error())
	}
	return &built{Agent: a, word: c.Agent, end: func() {}}, nil
}

// describe writes the agent's card.
func (c *agentConfig) describe(b *built, cfg *parley.Config) {
	cfg.Name, cfg.Description, cfg.Version, cfg.Skills = b.Name, b.Description, b.Version, b.Skills
	cfg.DefaultInputModes, cfg.DefaultOutputModes = b.InputModes, b.OutputModes
	cfg.Provider, cfg.Extensions, cfg.DocumentationURL, cfg.IconURL = nil, b.extensions, "", ""
	if b.proxy != nil {
		p := b.proxy.Card()
		cfg.Name, cfg.Description, cfg.Version, cfg.Skills, cfg.Provider = p.Name, p.Description, p.Version, p.Skills, p.Provider
		cfg.DefaultInputModes, cfg.DefaultOutputModes, cfg.Extensions = p.DefaultInputModes, p.DefaultOutputModes, p.Capabilities.Extensions
		orElse(&cfg.DocumentationURL, p.DocumentationURL)
		orElse(&cfg.IconURL, p.IconURL)
	}
	card := &c.Card
	cfg.Name, cfg.Description, cfg.Version = cmp.Or(card.Name, cfg.Name), cmp.Or(card.Description, cfg.Description), cmp.Or(card.Version, cfg.Version)
	cfg.DocumentationURL, cfg.IconURL = cmp.Or(card.DocumentationURL, cfg.DocumentationURL), cmp.Or(card.IconURL, cfg.IconURL)
	cfg.NoStreaming = cfg.NoStreaming || card.NoStreaming
	if card.Provider != nil {
		cfg.Provider = &a2a.AgentProvider{Organization: card.Provider.Organization, URL: card.Provider.URL}
	}
	if card.InputModes != nil {
		cfg.DefaultInputModes = card.InputModes
	}
	if card.OutputModes != nil {
		cfg.DefaultOutputModes = card.OutputModes
	}
	if card.Skills == nil {
		return
	}
	cfg.Skills = nil
	for _, s := range card.Skills {
		cfg.Skills = append(cfg.Skills, &a2a.AgentSkill{
			ID: s.ID, Name: s.Name, Description: s.Description, Tags: slices.Concat([]string{}, s.Tags),
			Examples: s.Examples, InputModes: s.InputModes, OutputModes: s.OutputModes,
		})
	}
}

func orElse(v, other *string) {
	if *v == "" && other != nil {
		*v = *other
	}
}

// runs is the part of the description that another agent would have to be made for.
func (c *agentConfig) runs() agentConfig {
	out := *c
	out.at, out.Card, out.Security, out.Limits, out.Store, out.Retain = "", cardConfig{}, agentSecurity{}, limitsConfig{}, "", 0
	return out
}

// seat is the agent of a host, in whose place another can be put while the host serves: runs that are under way stay with
// the one that they began with.
type seat struct {
	mu  sync.Mutex
	now *sitter
	all []*sitter // that were here
}

// sitter is an agent in a seat.
type sitter struct {
	agent.Agent
	end  func()
	runs sync.WaitGroup
}

// put puts an agent in the place of the last one, which is ended when its runs are over.
func (s *seat) put(a agent.Agent, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.now; old != nil {
		go func() {
			old.runs.Wait()
			old.end()
		}()
	}
	s.now = &sitter{Agent: a, end: sync.OnceFunc(end)}
	s.all = append(s.all, s.now)
}

// end ends all agents that were here, whatever they are at.
func (s *seat) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		x.end()
	}
}

// take returns the agent that sits there now. Its runs.Done has to be called.
func (s *seat) take() *sitter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.runs.Add(1)
	return s.now
}

// Handle implements agent.Agent.
func (s *seat) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	x := s.take()
	defer x.runs.Done()
	return x.Agent.Handle(ctx, r, u)
}

// Accept implements agent.Accepter.
func (s *seat) Accept(ctx context.Context, r *agent.Request) (*a2a.Message, error) {
	x := s.take()
	defer x.runs.Done()
	if a, ok := x.Agent.(agent.Accepter); ok {
		return a.Accept(ctx, r)
	}
	return nil, nil
}

// Canceled implements agent.Canceler.
func (s *seat) Canceled(ctx context.Context, task *a2a.Task) {
	x := s.take()
	defer x.runs.Done()
	if a, ok := x.Agent.(agent.Canceler); ok {
		a.Canceled(ctx, task)
	}
}

// Restartable implements agent.Restartable.
func (s *seat) Restartable() bool {
	x := s.take()
	defer x.runs.Done()
	a, ok := x.Agent.(agent.Restartable)
	return ok && a.Restartable()
}

var (
	_ agent.Accepter    = (*seat)(nil)
	_ agent.Canceler    = (*seat)(nil)
	_ agent.Restartable = (*seat)(nil)
)
