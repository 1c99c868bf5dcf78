// Package console is a web page for whoever runs an agent or looks at one: the agent's card, a conversation with it, its
// tasks, each as the timeline of its log, the traffic that a tap recorded, and webhooks with their attempts.
//
// The page talks to the agent by the protocol itself: below /console/api/agents/NAME/a2a the REST binding serves the
// agent's [a2a.Service]. What the protocol does not tell comes from a few more resources beside it, which docs/console.md
// lists. What an agent or a client said is shown as text and never becomes part of the page.
package console

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/tap"
	"github.com/parley-a2a/parley/taskstore"
)

// Path is where the page is. Nothing of the console is above it, but for a redirect from the root.
const Path = "/console/"

// Options say what the console shows, and to whom. There must be Agents, and a Token or Authenticate.
type Options struct {
	// Agents returns the agents that there are now, in their order. They may change while the console is open.
	Agents func() []Agent
	// Wire is what a tap recorded; nil: there is no such view. Only operators see it: it has what all callers said.
	Wire *tap.Recorder
	// Token makes an operator of whoever has it: at least 128 random bits as text. Empty: there is no operator. An operator
	// reads the tasks of every caller that an agent's Store has. It is meant for a console at loopback; [NewToken] makes one.
	Token string
	// Authenticate lets callers of the agents in by their own credentials. They see what is theirs and no more. Nil: only
	// the Token does.
	Authenticate a2a.Authenticate
	// Valid is asked at each request of a session whether the credential that opened it is still good, as auth's
	// Authenticator.Valid says it: ErrUnauthenticated ends the session. Nil: it lasts until the credential expires.
	Valid func(context.Context) error
	// Hosts are names, without a port, by which the console is reached besides loopback addresses and localhost.
	Hosts []string
	// Secure says that the console is reached over TLS, so that its cookie goes no other way.
	Secure bool
	// Log hears what the page does not; nil: slog.Default.
	Log *slog.Logger
}

// Agent is one agent that the console shows.
type Agent struct {
	// Name is its routing word: letters, digits, - and _, different from those of the others.
	Name string
	// Card returns the card as it is served now.
	Card func(context.Context) (Card, error)
	// Service is what the page talks with: a host's own, or a client of an agent elsewhere.
	Service a2a.Service
	// Caller is who the operator is to the Service. The zero Caller is right where nobody asks who calls.
	Caller a2a.Caller
	// Store has the agent's tasks under its Name: their logs and webhooks, and for the operator those of other callers. Nil
	// for an agent elsewhere.
	Store taskstore.Store
	// Deliveries are the attempts to deliver to webhooks; nil: they are not shown.
	Deliveries *Deliveries
}

// Card is an agent card as it was received.
type Card struct {
	Raw  []byte
	URL  string // where it came from
	Note string // what was done to it on the way, such as a signature that a tap dropped; empty: nothing
	// Signed is what the signatures are worth to whoever runs the console.
	Signed agentcard.Result
}

// Console is the page and its resources, an [http.Handler] for everything below [Path].
type Console struct {
	opts     Options
	mux      *http.ServeMux
	sessions sessions
}

//go:embed assets
var embedded embed.FS

// New returns a console.
func New(opts Options) (*Console, error) {
	if opts.Agents == nil {
		return nil, errors.New("console: Options.Agents is nil: there is nothing to show")
	}
	if opts.Token == "" && opts.Authenticate == nil {
		return nil, errors.New("console: Options needs a Token or Authenticate: nobody could open the page")
	}
	if opts.Token != "" && len(opts.Token) < minToken {
		return nil, errors.New("console: Options.Token is too short to be a secret: use NewToken")
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	c := &Console{opts: opts, mux: http.NewServeMux()}
	c.routes()
	return c, nil
}

func (c *Console) routes() {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // the name is a constant
	}
	files := http.StripPrefix(Path, http.FileServerFS(assets))
	c.mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			refuse(w, http.StatusMethodNotAllowed, "the page is read with GET")
			return
		}
		files.ServeHTTP(w, r)
	})
	c.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, Path, http.StatusSeeOther)
	})
	const api = Path + "api/"
	c.mux.HandleFunc(api, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "there is nothing at this path")
	})
	c.mux.HandleFunc("GET "+api+"session", c.serveSession)
	c.mux.HandleFunc("POST "+api+"session", c.openSession)
	c.mux.HandleFunc("DELETE "+api+"session", c.closeSession)
	c.mux.Handle("GET "+api+"events", c.known(c.serveEvents))
	c.mux.Handle("GET "+api+"agents", c.known(c.serveAgents))
	const one = api + "agents/{agent}"
	c.mux.Handle(one+"/a2a/", c.agent(c.serveProtocol))
	c.mux.Handle("GET "+one+"/card", c.agent(serveCard))
	c.mux.Handle("GET "+one+"/callers", c.agent(serveCallers))
	c.mux.Handle("GET "+one+"/tasks/{task}/log", c.agent(serveLog))
	c.mux.Handle("GET "+one+"/webhooks", c.agent(c.serveWebhooks))
	c.mux.Handle("GET "+api+"wire", c.operator(c.serveWire))
	c.mux.Handle("GET "+api+"wire/search", c.operator(c.searchWire))
	c.mux.Handle("GET "+api+"wire/{id}", c.operator(c.serveExchange))
	c.mux.Handle("GET "+api+"wire/{id}/frames", c.operator(c.serveFrames))
	c.mux.Handle("GET "+api+"wire/{id}/request", c.operator(c.downloadBody))
	c.mux.Handle("GET "+api+"wire/{id}/response", c.operator(c.downloadBody))
}

// policy is what a browser may do with the page: load what is here, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hd := w.Header()
	hd.Set("Content-Security-Policy", policy)
	hd.Set("X-Content-Type-Options", "nosniff")
	hd.Set("X-Frame-Options", "DENY")
	hd.Set("Referrer-Policy", "no-referrer")
	hd.Set("Cross-Origin-Resource-Policy", "same-origin")
	hd.Set("Cross-Origin-Opener-Policy", "same-origin")
	hd.Set("Cache-Control", "no-store")
	if why := c.foreign(r); why != "" {
		refuse(w, http.StatusForbidden, why)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// foreign says why a request is not from our own page, or from somebody who opens it; empty: it may be. A name that was
// bound anew to our address shows in Host, a page elsewhere in Origin or Sec-Fetch-Site: another port is another origin,
// though the same site to cookies.
func (c *Console) foreign(r *http.Request) string {
	if !c.ours(r.Host) {
		return "the console does not answer to that Host header"
	}
	if o := r.Header.Get("Origin"); o != "" {
		if u, err := url.Parse(o); err != nil || u.Host != r.Host {
			return "requests from web pages of other origins are refused"
		}
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" || site == "same-origin" || site == "none" {
		return ""
	}
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && !strings.HasPrefix(r.URL.Path, Path+"api/") {
		return "" // a link to the page, which shows nothing without a session
	}
	return "requests from web pages of other origins are refused"
}

func (c *Console) ours(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	host = strings.ToLower(host)
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() || host == "localhost" {
		return true
	}
	return slices.ContainsFunc(c.opts.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// isToken compares in constant time.
func (c *Console) isToken(s string) bool {
	return c.opts.Token != "" && subtle.ConstantTimeCompare([]byte(s), []byte(c.opts.Token)) == 1
}

// reply writes v as JSON.
func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // whoever asked is gone
}

// refuse answers with an error in words.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	reply(w, map[string]string{"error": why})
}
