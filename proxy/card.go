package proxy

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

// withheld stands for an address of the remote agent.
const withheld = "(withheld)"

// card returns what of a card callers of this host may see.
func (hide hidden) card(card *a2a.AgentCard) *a2a.AgentCard {
	out := &a2a.AgentCard{
		Name: hide.in(card.Name), Description: hide.in(card.Description), Version: hide.in(card.Version),
		DocumentationURL: hide.link(card.DocumentationURL), IconURL: hide.link(card.IconURL),
		DefaultInputModes: hide.list(card.DefaultInputModes), DefaultOutputModes: hide.list(card.DefaultOutputModes),
	}
	if p := card.Provider; p != nil {
		out.Provider = &a2a.AgentProvider{Organization: hide.in(p.Organization), URL: hide.in(p.URL)}
	}
	for _, s := range card.Skills {
		out.Skills = append(out.Skills, &a2a.AgentSkill{
			ID: hide.in(s.ID), Name: hide.in(s.Name), Description: hide.in(s.Description), Tags: hide.list(s.Tags),
			Examples: hide.list(s.Examples), InputModes: hide.list(s.InputModes), OutputModes: hide.list(s.OutputModes),
		})
	}
	for _, x := range card.Capabilities.Extensions {
		if slices.Contains(hop, x.URI) || hide.has(x.URI) {
			continue
		}
		c := &a2a.AgentExtension{URI: x.URI, Description: hide.in(x.Description), Required: x.Required, Params: a2a.Struct{}}
		for name, value := range x.Params {
			if !hide.has(name) && !hide.has(string(value)) {
				c.Params[name] = value
			}
		}
		out.Capabilities.Extensions = append(out.Capabilities.Extensions, c)
	}
	return out
}

// hidden finds the addresses of an agent in what it says. One without an expression finds none.
type hidden struct{ *regexp.Regexp }

// addresses finds those of the card and of its interfaces: the host with what stands before and after it. A name of one
// word, which may be any word, is an address only behind // or with a port.
func addresses(card *client.Card) hidden {
	all := []string{card.URL}
	for _, i := range card.SupportedInterfaces {
		all = append(all, i.URL)
	}
	var hosts []string
	for _, s := range all {
		if !strings.Contains(s, "://") {
			s = "//" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" {
			continue
		}
		h := regexp.QuoteMeta(u.Hostname())
		if strings.ContainsAny(u.Hostname(), ".:") {
			hosts = append(hosts, `(?:(?:[a-z][a-z0-9+.-]*:)?//)?\[?`+h+`\]?`)
			continue
		}
		hosts = append(hosts, `(?:[a-z][a-z0-9+.-]*:)?//`+h+`\b`, `\b`+h+`:[0-9]+`)
	}
	if len(hosts) == 0 {
		return hidden{}
	}
	slices.Sort(hosts)
	return hidden{regexp.MustCompile(`(?i)(?:` + strings.Join(slices.Compact(hosts), "|") + `)(?::[0-9]+)?(?:/[^\s"'<>)]*)?`)}
}

func (hide hidden) has(s string) bool { return hide.Regexp != nil && hide.MatchString(s) }

func (hide hidden) in(s string) string {
	if hide.Regexp == nil {
		return s
	}
	return hide.ReplaceAllString(s, withheld)
}

func (hide hidden) list(all []string) []string {
	if all == nil {
		return nil
	}
	out := make([]string, 0, len(all))
	for _, s := range all {
		out = append(out, hide.in(s))
	}
	return out
}

// link returns a link that leads elsewhere, nil otherwise.
func (hide hidden) link(s *string) *string {
	if s == nil || hide.has(*s) {
		return nil
	}
	return s
}
