package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

func (a *app) card() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "card",
		Short:   "Read agent cards",
		Example: "  parley card get -a example.com",
	}
	cmd.AddCommand(a.client(&cobra.Command{
		Use:   "get",
		Short: "Show who an agent is, what it can do and where it is reached",
		Example: `  parley card get
  parley card get -a https://example.com/agents/stock/agent-card.json -o json
  parley card get -a ./card.json`,
	}, cardCommand{}))
	return group(cmd)
}

// cardCommand shows an agent card (specification 10.1).
type cardCommand struct{}

func (cardCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) error {
	return noArgs(cmd, args)
}

func (cardCommand) run(ctx context.Context, s *session) error {
	card, err := client.FetchCard(ctx, s.flags.card, s.options())
	if err != nil {
		return err
	}
	switch {
	case s.json && s.flags.stream:
		var b bytes.Buffer
		if err := json.Compact(&b, card.Raw); err != nil {
			return err
		}
		return s.line(b.Bytes())
	case s.json:
		return s.line(bytes.TrimRight(card.Raw, "\r\n"))
	}
	return s.print(func(t *text) { t.card(card.AgentCard) })
}

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
