package parley

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	pathpkg "path"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
)

// Where a host serves what leads to its card.
const (
	// CatalogPath is that of the list of a host's agents (RFC 9727).
	CatalogPath = "/.well-known/api-catalog"
	// KeySetPath is that of the public keys with which the card's signatures are verified, where the host has any. The
	// keys' SetURL may name another path of the host, which then serves them too.
	KeySetPath = "/.well-known/jwks.json"
)

const linkset = `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`

// listed is an agent of a catalog.
type listed struct {
	base string // of the agent's URLs; empty: they are relative to the catalog's origin
	card *a2a.AgentCard
}

// link is a link's target (RFC 9264, 4.2.3).
type link struct {
	Href  string `json:"href"`
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`
}

// linkContext is where links begin (RFC 9264, 4.2.2).
type linkContext struct {
	Anchor      string `json:"anchor"`
	Item        []link `json:"item,omitempty"`
	ServiceDesc []link `json:"service-desc,omitempty"`
	ServiceDoc  []link `json:"service-doc,omitempty"`
}

// newCatalog returns the list of a host's agents (RFC 9727, 4): what they are called at, and of each the card.
func newCatalog(agents ...listed) *document { return newCatalogAt(agents[0].base, agents...) }

// newCatalogAt is newCatalog for a catalog below another URL than that of the first agent.
func newCatalogAt(base string, agents ...listed) *document {
	all := linkContext{Anchor: base + CatalogPath}
	var out []linkContext
	for _, a := range agents {
		at := a.base + "/"
		all.Item = append(all.Item, link{Href: at, Title: a.card.Name})
		c := linkContext{Anchor: at, ServiceDesc: []link{{a.base + a2a.CardPath, "application/json", a.card.Name}}}
		if a.card.DocumentationURL != nil {
			c.ServiceDoc = []link{{Href: *a.card.DocumentationURL}}
		}
		out = append(out, c)
	}
	body, err := json.Marshal(map[string]any{"linkset": append([]linkContext{all}, out...)})
	if err != nil {
		panic(err) // these types always have JSON
	}
	d := newDocument(linkset, body)
	d.link = "<" + all.Anchor + `>; rel="api-catalog"` // RFC 9727, 2
	return d
}

// serveKeys serves the set of the card's keys at [KeySetPath], and at the keys' SetURLs where those are URLs of this
// host: as callers see them, the public URL comes first.
func (f *front) serveKeys(mux *http.ServeMux) error {
	if len(f.cfg.CardKeys) == 0 {
		return nil
	}
	set, err := agentcard.JWKS(f.cfg.CardKeys...)
	if err != nil {
		return err
	}
	doc := newDocument("application/jwk-set+json", set)
	mux.Handle(KeySetPath, doc)
	for _, k := range f.cfg.CardKeys {
		path, ours := strings.CutPrefix(k.SetURL, strings.TrimRight(f.cfg.PublicURL, "/")+"/")
		path = "/" + path
		if f.cfg.PublicURL == "" || !ours || path == KeySetPath {
			continue
		}
		u, err := url.Parse(path)
		if err != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(path, "{}% ") || path != pathpkg.Clean(path) {
			return fmt.Errorf("parley: the key set cannot be served at %q: name a plain path, such as %s", k.SetURL, KeySetPath)
		}
		switch handler, pattern := mux.Handler(&http.Request{Method: http.MethodGet, URL: u}); {
		case pattern == "":
			mux.Handle(path, doc)
		case handler != http.Handler(doc):
			return errors.New("parley: the key set's URL " + k.SetURL + " is that of something else on this host")
		}
	}
	return nil
}
