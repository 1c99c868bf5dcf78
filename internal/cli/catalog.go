package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

// catalogEntry is an agent that a catalog lists.
type catalogEntry struct {
	name string // as the catalog has it
	at   string // where the agent is called
	card string // URL of its card
}

// called reports whether name means this agent: the catalog's word for it, or the last word of where it is called.
func (e *catalogEntry) called(name string) bool {
	u, err := url.Parse(e.at)
	return strings.EqualFold(e.name, name) || err == nil && path.Base(u.Path) == name
}

// viaCatalog runs do. Where --agent-card names a catalog rather than a card (specification 10.1), do runs with the card
// that the catalog leads to: that of its only agent, or of the one whose name stands behind a #. A catalog is an API
// catalog in linkset form (RFC 9727, RFC 9264), as parley serve has one.
func (s *session) viaCatalog(ctx context.Context, do func() error) error {
	ref, name, named := strings.Cut(s.flags.card, "#")
	if _, err := os.Stat(s.flags.card); !named || err == nil {
		err := do()
		var read *client.InvalidCardError
		if at := catalogOf(s.flags.card); errors.Is(err, client.ErrCardNotFound) && at != s.flags.card { // a host of several agents
			_, elsewhere := client.FetchCard(ctx, at, s.options())
			errors.As(elsewhere, &read)
		}
		if read == nil && !errors.As(err, &read) || !isCatalog(read.Raw) {
			return err
		}
		return s.chosen(read, "", do)
	}
	if name == "" {
		return usage("--agent-card %q: the name of an agent is missing behind #", s.flags.card)
	}
	_, err := client.FetchCard(ctx, catalogOf(ref), s.options())
	var read *client.InvalidCardError
	switch {
	case errors.As(err, &read) && isCatalog(read.Raw):
		return s.chosen(read, name, do)
	case err == nil:
		return fail(errCardNotFound, "leave out what begins with #", "--agent-card %q: there is a card, not a catalog", s.flags.card)
	}
	return err
}

// chosen runs do with the card of an agent that a catalog lists.
func (s *session) chosen(catalog *client.InvalidCardError, name string, do func() error) error {
	e, err := choose(catalog, name)
	if err != nil {
		return err
	}
	from, _ := url.Parse(catalog.URL) // it was asked for it
	to, err := from.Parse(e.card)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" || to.Scheme == "http" && from.Scheme == "https" {
		return fail(errCardNotFound, "whoever runs that host has to mend its catalog", "the catalog %s leads to %q, which is no address of a card", catalog.URL, e.card)
	}
	if (s.flags.hasCredential() || len(s.flags.header) > 0) && from.Scheme != "file" && origin(from) != origin(to) {
		return fail(errCredentialsMissing, "if you trust that address, name it with --agent-card",
			"nothing secret is sent to %s: the catalog %s names it, which is elsewhere", to, catalog.URL)
	}
	s.flags.card = to.String()
	s.log.Debug("catalog", "catalog", catalog.URL, "agent", e.name, "card", s.flags.card)
	return do()
}

// catalogOf returns where the catalog is that ref names: at its place on a host, or at ref itself.
func catalogOf(ref string) string {
	full := ref
	if !strings.Contains(ref, "://") {
		full = "https://" + ref
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme == "file" || u.Path != "" && u.Path != "/" || strings.HasPrefix(ref, ".") || strings.HasSuffix(ref, ".json") {
		return ref
	}
	return strings.TrimRight(ref, "/") + parley.CatalogPath
}

func isCatalog(raw []byte) bool {
	var doc struct {
		Linkset json.RawMessage `json:"linkset"`
	}
	return json.Unmarshal(raw, &doc) == nil && doc.Linkset != nil
}

// choose returns the agent of the name, or the only one.
func choose(catalog *client.InvalidCardError, name string) (*catalogEntry, error) {
	entries, err := catalogEntries(catalog.Raw)
	if err != nil {
		return nil, fail(errCardInvalid, "whoever runs that host has to mend its catalog", "the catalog %s cannot be read: %s", catalog.URL, err.Error())
	}
	distinguish(entries)
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	list := strings.Join(names, ", ")
	if name != "" {
		entries = slices.DeleteFunc(entries, func(e *catalogEntry) bool { return !e.called(name) })
	}
	switch {
	case len(entries) == 1:
		return entries[0], nil
	case len(names) == 0:
		return nil, fail(errCardNotFound, "whoever runs that host says where its agents are: name the card of one with --agent-card",
			"the catalog %s lists no agent", catalog.URL)
	case len(entries) == 0:
		return nil, fail(errCardNotFound, "name one of those: --agent-card "+quote(catalog.URL+"#"+names[0]),
			"the catalog %s does not list %q; it has %s", catalog.URL, name, list)
	case name == "":
		return nil, fail(errCardNotFound, "name one of them behind a #: --agent-card "+quote(catalog.URL+"#"+entries[0].name),
			"the catalog %s lists several agents: %s", catalog.URL, list)
	}
	return nil, fail(errCardNotFound, "name the card itself with --agent-card", "the catalog %s lists %q %d times", catalog.URL, name, len(entries))
}

// distinguish gives agents of the same name the last word of where they are called instead.
func distinguish(entries []*catalogEntry) {
	had := map[string]int{}
	for _, e := range entries {
		had[strings.ToLower(e.name)]++
	}
	for _, e := range entries {
		if u, err := url.Parse(e.at); err == nil && had[strings.ToLower(e.name)] > 1 && strings.Trim(u.Path, "/") != "" {
			e.name = path.Base(u.Path)
		}
	}
}

// catalogEntries returns the agents of a linkset: the contexts with a description of the service that is a card.
func catalogEntries(raw []byte) ([]*catalogEntry, error) {
	var doc struct {
		Linkset []struct {
			Anchor      string `json:"anchor"`
			ServiceDesc []struct {
				Href  string `json:"href"`
				Title string `json:"title"`
			} `json:"service-desc"`
		} `json:"linkset"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	var out []*catalogEntry
	for _, c := range doc.Linkset {
		for _, d := range c.ServiceDesc {
			if strings.HasSuffix(d.Href, a2a.CardPath) || len(c.ServiceDesc) == 1 {
				out = append(out, &catalogEntry{name: cmp.Or(d.Title, c.Anchor), at: c.Anchor, card: d.Href})
				break
			}
		}
	}
	return out, nil
}
