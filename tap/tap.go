package tap

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
)

// DefaultListen is where a tap listens if nothing else is said.
const DefaultListen = "127.0.0.1:41240"

// Config is a tap in front of one agent.
type Config struct {
	Card    []byte // the agent's card, as it came
	CardURL string // where it came from; a card from a file has no http or https URL, and is served as it was

	Listen    string      // address; empty: [DefaultListen]
	PublicURL string      // what clients reach Listen by, on the changed card; empty: http or https and the address
	TLS       *tls.Config // that the tap serves with; nil: plaintext
	Upstream  *tls.Config // for connections to the agent; nil: the usual

	Keys     []*agentcard.Key // that sign the changed card; none: it has no signature
	Webhooks bool             // route webhooks through the tap as well

	Recording Options
	Log       *slog.Logger // nil: none
}

// Tap is a proxy in front of an agent. Its card is the agent's with the tap's own addresses in it; everything else is
// forwarded byte for byte, in both directions.
type Tap struct {
	cfg      Config
	log      *slog.Logger
	card     *a2a.AgentCard
	rec      *Recorder
	origins  []*url.URL // of HTTP interfaces; the first one's paths are the tap's own
	grpc     []*url.URL // targets; the first is served on the tap's listener, each other one has a listener of its own
	addrs    []string   // of the listeners, in the order of grpc
	cardPath string     // where the card is at the first origin
	proxy    *httputil.ReverseProxy
	hooks    hooks
	signed   signed
	host     string // of Listen, or of PublicURL
}

// New returns a tap that is recording, and does not listen yet.
func New(cfg Config) (*Tap, error) {
	t := &Tap{cfg: cfg, log: cfg.Log, card: new(a2a.AgentCard), cardPath: a2a.CardPath}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.cfg.Listen == "" {
		t.cfg.Listen = DefaultListen
	}
	if err := t.card.UnmarshalJSON(cfg.Card); err != nil {
		return nil, fmt.Errorf("tap: the card: %w", err)
	}
	if err := t.readCard(); err != nil {
		return nil, err
	}
	t.proxy = &httputil.ReverseProxy{
		Rewrite: t.rewrite, ModifyResponse: t.modify, ErrorHandler: t.failed, FlushInterval: -1, Transport: newTransport(cfg.Upstream),
		ErrorLog: log.New(io.Discard, "", 0), BufferPool: newBuffers(),
	}
	opts := cfg.Recording
	opts.Card, opts.Log = t.card, t.log
	var err error
	if t.rec, err = NewRecorder(opts); err != nil {
		return nil, err
	}
	t.rec.routes = t.routes()
	t.rec.cardPath = t.cardPath
	return t, nil
}

// Recorder returns what records.
func (t *Tap) Recorder() *Recorder { return t.rec }

// readCard finds out what there is to be tapped.
func (t *Tap) readCard() error {
	if u, err := url.Parse(t.cfg.CardURL); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		t.origins = append(t.origins, originOf(u))
		t.cardPath = u.Path
	}
	if len(t.card.SupportedInterfaces) == 0 {
		return errors.New("tap: the card has no interface that could be tapped")
	}
	for _, i := range t.card.SupportedInterfaces {
		u, err := parseTarget(i)
		if err != nil {
			return err
		}
		list := &t.origins
		if i.ProtocolBinding == a2a.BindingGRPC {
			list = &t.grpc
		}
		if o := originOf(u); !slices.ContainsFunc(*list, func(have *url.URL) bool { return *have == *o }) {
			*list = append(*list, o)
		}
	}
	return nil
}

// parseTarget returns the URL of an interface, whose scheme is http or https. A gRPC target is host:port, too; it is
// plaintext on loopback and TLS elsewhere unless the scheme says https.
func parseTarget(i *a2a.AgentInterface) (*url.URL, error) {
	address := i.URL
	if i.ProtocolBinding == a2a.BindingGRPC && !strings.Contains(address, "://") {
		address = "grpc://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("tap: the card's %s interface: %q is no address", i.ProtocolBinding, i.URL)
	}
	if i.ProtocolBinding == a2a.BindingGRPC {
		if u.Scheme != "https" {
			u.Scheme = "https"
			if loopback(u.Hostname()) {
				u.Scheme = "http"
			}
		}
		return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("tap: the card's %s interface: %q is no http or https URL", i.ProtocolBinding, i.URL)
	}
	return u, nil
}

func originOf(u *url.URL) *url.URL { return &url.URL{Scheme: u.Scheme, Host: u.Host} }

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// prefix returns what stands before the paths of an origin here. The first one's are as they are at the agent.
func prefix(n int) string {
	if n == 0 {
		return ""
	}
	return "/~" + strconv.Itoa(n+1)
}

// at returns the path here of an interface over HTTP.
func (t *Tap) at(u *url.URL) string {
	n := slices.IndexFunc(t.origins, func(o *url.URL) bool { return *o == *originOf(u) })
	return prefix(max(n, 0)) + u.EscapedPath()
}

// routes returns where the interfaces over HTTP are here.
func (t *Tap) routes() []route {
	var routes []route
	for _, i := range t.card.SupportedInterfaces {
		if u, err := parseTarget(i); err == nil && i.ProtocolBinding != a2a.BindingGRPC {
			routes = append(routes, route{strings.TrimRight(t.at(u), "/"), i.ProtocolBinding})
		}
	}
	return routes
}

// Serve listens, tells ready at which URL, and serves until ctx ends; then it waits for what is on its way for a moment.
// The recording is closed at its end, and its error returned.
func (t *Tap) Serve(ctx context.Context, ready func(base string)) error {
	servers, err := t.start(ctx)
	if err != nil {
		return errors.Join(err, t.rec.Close())
	}
	ready(t.base())
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.serve() }()
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for _, s := range servers {
		if s.Shutdown(stop) != nil {
			_ = s.Close() // streams have no end of their own
		}
	}
	return errors.Join(err, t.rec.Close())
}

// grace is how long what is on its way has when the tap ends.
const grace = 2 * time.Second

type listening struct {
	*http.Server
	l net.Listener
}

func (s *listening) serve() error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(s.l, "", "")
	} else {
		err = s.Serve(s.l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("tap: %w", err)
}

// start listens at the tap's address, and at one more for each further gRPC target.
func (t *Tap) start(ctx context.Context) ([]*listening, error) {
	var servers []*listening
	addr := t.cfg.Listen
	for n := range max(1, len(t.grpc)) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			for _, s := range servers {
				_ = s.l.Close() // nothing was served yet
			}
			return nil, fmt.Errorf("tap: %w", err)
		}
		t.addrs = append(t.addrs, l.Addr().String())
		host, _, _ := net.SplitHostPort(addr)
		addr = net.JoinHostPort(host, "0")
		servers = append(servers, &listening{t.server(ctx, n), l})
	}
	return servers, nil
}

type listenerKey struct{}

func (t *Tap) server(ctx context.Context, n int) *http.Server {
	s := &http.Server{
		Handler: t.Handler(), TLSConfig: t.cfg.TLS, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), listenerKey{}, n)
		},
		Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// Handler returns the tap as a handler.
func (t *Tap) Handler() http.Handler {
	recorded := t.rec.Handler(http.HandlerFunc(t.forward))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.mine(r.Host) {
			http.Error(w, "tap: this host name is not one of the tap's", http.StatusMisdirectedRequest)
			return
		}
		if strings.HasPrefix(r.URL.Path, hookPath) {
			r = r.WithContext(context.WithValue(r.Context(), kindKey{}, KindWebhook))
		}
		recorded.ServeHTTP(w, r)
	})
}

// mine reports whether a Host header is one that a tap on this machine goes by: a page in a browser that has its name
// resolve to here is not let through. The agent's own check cannot see it, since the tap asks under the agent's name.
func (t *Tap) mine(host string) bool {
	listen, _, _ := net.SplitHostPort(t.cfg.Listen)
	if !loopback(listen) {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	public, _ := url.Parse(t.cfg.PublicURL)
	return loopback(strings.Trim(name, "[]")) || public != nil && strings.EqualFold(public.Hostname(), name)
}

// forward sends a request on.
func (t *Tap) forward(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, hookPath) && t.hooks.target(r.URL.Path) == nil {
		http.Error(w, "tap: this webhook was not registered through this run of the tap", http.StatusNotFound)
		return
	}
	if t.isCard(r) && !t.cardAtOrigin() {
		card := t.changeCard(passingOf(r), t.cfg.Card)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", tagOf(card))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(card))
		return
	}
	t.proxy.ServeHTTP(w, t.prepare(r))
}

func (t *Tap) isCard(r *http.Request) bool {
	return r.URL.Path == t.cardPath && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// cardAtOrigin reports whether the card is asked for anew at every request: one from a file is not.
func (t *Tap) cardAtOrigin() bool {
	return strings.HasPrefix(t.cfg.CardURL, "http://") || strings.HasPrefix(t.cfg.CardURL, "https://")
}

// rewrite says where a request goes. ReverseProxy takes off what belongs to the connection; what else it takes off is put
// back.
func (t *Tap) rewrite(r *httputil.ProxyRequest) {
	u := *r.In.URL
	if hook := t.hooks.target(u.Path); hook != nil {
		u = *hook
	} else {
		target := t.target(r.In, &u)
		u.Scheme, u.Host = target.Scheme, target.Host
	}
	r.Out.URL, r.Out.Host = &u, u.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = v
		}
	}
	if t.isCard(r.In) { // the answer is changed, so that it has to be whole and plain
		for _, name := range []string{"If-None-Match", "If-Modified-Since", "Accept-Encoding", "Range"} {
			r.Out.Header.Del(name)
		}
	}
	passingOf(r.In).goesTo(u.String())
}

// target returns the origin that a request is for, and makes u's path the one there.
func (t *Tap) target(r *http.Request, u *url.URL) *url.URL {
	if isGRPC(r.Header) && len(t.grpc) > 0 {
		n, _ := r.Context().Value(listenerKey{}).(int)
		return t.grpc[min(n, len(t.grpc)-1)]
	}
	for n := len(t.origins) - 1; n > 0; n-- {
		if rest, ok := strings.CutPrefix(u.EscapedPath(), prefix(n)); ok && (rest == "" || rest[0] == '/') {
			u.Path, _ = url.PathUnescape(rest) // it is part of what could be unescaped
			u.RawPath = rest
			return t.origins[n]
		}
	}
	if len(t.origins) == 0 {
		return t.grpc[0]
	}
	return t.origins[0]
}

func isGRPC(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/grpc")
}

// failed answers for an agent that does not.
func (t *Tap) failed(w http.ResponseWriter, r *http.Request, err error) {
	if out, ok := w.(*received); ok {
		out.err = "no answer from the agent: " + err.Error()
	}
	if isGRPC(r.Header) { // gRPC's own way to say so: 14 is UNAVAILABLE
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "14")
		w.Header().Set("Grpc-Message", "the tap has no answer from the agent")
		w.WriteHeader(http.StatusOK)
		return
	}
	http.Error(w, "tap: no answer from the agent", http.StatusBadGateway)
}

// changeCard returns the card with the tap's addresses for the agent's.
func (t *Tap) changeCard(p *passing, raw []byte) []byte {
	changed, signed := t.point(raw)
	card := new(a2a.AgentCard)
	if err := card.UnmarshalJSON(changed); err != nil {
		p.remarks("the card cannot be read, and passed as it is: " + err.Error())
		return raw
	}
	note := "the card's interfaces were pointed at the tap"
	if len(t.cfg.Keys) > 0 {
		whole, err := t.signed.of(changed, func() ([]byte, error) {
			err := agentcard.Sign(card, t.cfg.Keys...)
			return card.AppendJSON(nil), err
		})
		if err == nil {
			p.remarks(note + ", and it was signed with the tap's key")
			return whole
		}
		p.remarks("the card could not be signed: " + err.Error())
	}
	if signed {
		note += ", and its signature, which no longer held, was dropped"
	}
	p.remarks(note)
	return changed
}

// signed is the last card that was signed: a new signature for the same card would be other bytes, with another ETag.
type signed struct {
	mu          sync.Mutex
	card, whole []byte
}

// of returns the card as it was signed, or as sign does it now.
func (s *signed) of(card []byte, sign func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.card == nil || !bytes.Equal(s.card, card) {
		whole, err := sign()
		if err != nil {
			return nil, err
		}
		s.card, s.whole = card, whole
	}
	return s.whole, nil
}

// point returns a card, or an answer with one in it, with the addresses of the tap and without a signature, and whether it
// had one.
func (t *Tap) point(raw []byte) (changed []byte, signed bool) {
	changed = edit(raw, "", func(path string, value json.RawMessage) []byte {
		switch {
		case path == "signatures" || path == "result.signatures":
			signed = string(value) != "[]" && string(value) != "null"
			return []byte("[]")
		case !strings.HasSuffix(path, "nterfaces[].url") && path != "url":
			return nil
		}
		var address string
		if json.Unmarshal(value, &address) != nil {
			return nil
		}
		b, err := marshal(t.hereIs(address))
		if err != nil {
			return nil
		}
		return b
	})
	return changed, signed
}

// hereIs returns the tap's address for one of the card's; any other is returned as it is.
func (t *Tap) hereIs(address string) string {
	for _, i := range t.card.SupportedInterfaces {
		if i.URL == address {
			return t.here(i)
		}
	}
	return address
}

// base returns the URL of the tap's first listener, without a slash at its end.
func (t *Tap) base() string {
	if t.cfg.PublicURL != "" {
		return strings.TrimRight(t.cfg.PublicURL, "/")
	}
	return t.scheme() + reachable(t.addrs[0])
}

func (t *Tap) scheme() string {
	if t.cfg.TLS != nil {
		return "https://"
	}
	return "http://"
}

// reachable returns an address that can be dialled on this machine, for one that may be 0.0.0.0.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// here returns the address of an interface at the tap.
func (t *Tap) here(i *a2a.AgentInterface) string {
	u, err := parseTarget(i)
	if err != nil {
		return i.URL
	}
	if i.ProtocolBinding != a2a.BindingGRPC {
		return t.base() + t.at(u)
	}
	n := slices.IndexFunc(t.grpc, func(o *url.URL) bool { return *o == *u })
	addr := reachable(t.addrs[max(n, 0)])
	if public, err := url.Parse(t.cfg.PublicURL); err == nil && public.Host != "" {
		_, port, _ := net.SplitHostPort(addr)
		if p := public.Port(); n <= 0 {
			port = p
			if port == "" {
				port = map[string]string{"http": "80", "https": "443"}[public.Scheme]
			}
		}
		addr = net.JoinHostPort(public.Hostname(), port)
	}
	if host, _, _ := net.SplitHostPort(addr); t.cfg.TLS != nil && loopback(host) {
		return "https://" + addr
	}
	return addr
}
