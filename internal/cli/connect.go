package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/parley-a2a/parley/a2a"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/client"
	ext "github.com/parley-a2a/parley/extension"
)

// network is how a command reaches an agent: it logs every request under --debug, leaves certificates
// unverified under --insecure, and adds an API key that a card wants in the query.
type network struct {
	base *http.Transport
	log  *slog.Logger
	wire io.Writer   // gets the messages under --debug; nil: they are not logged
	tls  *tls.Config // nil: as usual

	progress *progress // nil: nobody sees how much was sent and received

	keyURL *url.URL // the interface that takes key
	key    url.Values

	login *boundToken // nil: there is none
}

// boundToken is the token of a login, for one origin.
type boundToken struct {
	origin string
	// get returns the token, another one than that which was refused.
	get func(ctx context.Context, refused string) (string, error)
}

func newNetwork(f *clientFlags, log *slog.Logger) *network {
	n := &network{base: http.DefaultTransport.(*http.Transport).Clone(), log: log}
	n.base.DisableCompression = true // a compressed stream waits in buffers on its way
	n.base.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	if f.tls != nil {
		n.tls = f.tls
		n.base.TLSClientConfig = n.tls.Clone()
	}
	return n
}

// issuers returns the client for authorization servers: nothing that it sends or receives is logged but the URL and the
// status, and nothing is added to it.
func (n *network) issuers() *http.Client {
	return &http.Client{Transport: &network{base: n.base, log: n.log}}
}

// RoundTrip implements http.RoundTripper. A request with the token of a login is made again, once, with another one if
// the agent does not take the first.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if n.login == nil || origin(r.URL) != n.login.origin || r.Header.Get("Authorization") != "" {
		return n.trip(r)
	}
	token, err := n.login.get(r.Context(), "")
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // RoundTrip always does
		}
		return nil, err
	}
	answer, err := n.trip(withToken(r, token))
	if err != nil || answer.StatusCode != http.StatusUnauthorized || r.Body != nil && r.GetBody == nil {
		return answer, err
	}
	next, err := n.login.get(r.Context(), token)
	if err != nil {
		return answer, nil //nolint:nilerr // the answer says what is wrong
	}
	again := withToken(r, next)
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return answer, nil //nolint:nilerr // as above
		}
	}
	_ = answer.Body.Close()
	return n.trip(again)
}

func withToken(r *http.Request, token string) *http.Request {
	out := r.Clone(r.Context())
	out.Header.Set("Authorization", "Bearer "+token)
	return out
}

func (n *network) trip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := n.base.RoundTrip(n.withKey(n.counted(n.shown(r))))
	attrs := []any{"method", r.Method, "url", r.URL.Redacted(), "took", time.Since(start).Round(time.Microsecond)}
	if err != nil {
		n.log.Debug("request failed", append(attrs, "error", err.Error())...)
		return nil, err
	}
	n.log.Debug("request", append(attrs, "status", answer.StatusCode, "protocol", answer.Proto)...)
	n.showAnswer(answer)
	n.countAnswer(answer)
	return answer, nil
}

// withKey returns r with the API key in its query if it goes to where the key belongs.
func (n *network) withKey(r *http.Request) *http.Request {
	if n.keyURL == nil || origin(r.URL) != origin(n.keyURL) {
		return r
	}
	out := r.Clone(r.Context())
	q := out.URL.Query()
	for name, values := range n.key {
		q[name] = values
	}
	out.URL.RawQuery = q.Encode()
	return out
}

func (n *network) grpcOptions() []grpc.DialOption {
	opts := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, res any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			start := time.Now()
			ctx, token, err := n.withLogin(ctx, "")
			if err != nil {
				return err
			}
			err = n.shownUnary(ctx, method, req, res, conn, invoke, opts)
			if status.Code(err) == codes.Unauthenticated && token != "" {
				if next, _, e := n.withLogin(ctx, token); e == nil {
					err = n.shownUnary(next, method, req, res, conn, invoke, opts)
				}
			}
			n.logCall(method, conn, start, err)
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			start := time.Now()
			ctx, _, err := n.withLogin(ctx, "")
			if err != nil {
				return nil, err
			}
			stream, err := open(ctx, desc, conn, method, opts...)
			n.logCall(method, conn, start, err)
			if err != nil || n.wire == nil && n.progress == nil {
				return stream, err
			}
			return &wireStream{stream, n, method, n.transfer("Receiving", 0)}, nil
		}),
	}
	if n.tls != nil {
		opts = append(opts, grpcbinding.WithTLS(n.tls))
	}
	return opts
}

// withLogin returns the context of a call with the token of the login, if there is one, and the token.
func (n *network) withLogin(ctx context.Context, refused string) (context.Context, string, error) {
	if n.login == nil {
		return ctx, "", nil
	}
	token, err := n.login.get(ctx, refused)
	if err != nil {
		return ctx, "", err
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	if md == nil {
		md = metadata.MD{}
	}
	md.Set("authorization", "Bearer "+token)
	return metadata.NewOutgoingContext(ctx, md), token, nil
}

func (n *network) logCall(method string, conn *grpc.ClientConn, start time.Time, err error) {
	attrs := []any{"method", method, "target", conn.Target(), "took", time.Since(start).Round(time.Microsecond), "protocol", "gRPC"}
	if err != nil {
		n.log.Debug("call failed", append(attrs, "error", err.Error())...)
		return
	}
	n.log.Debug("call", attrs...)
}

// session is one run of a client command: the agent, and where its words go.
type session struct {
	*client.Client // nil before connect
	output
	flags  *clientFlags
	err    io.Writer // secrets are blotted out
	person bool      // somebody watches, see app.person
	secret *redactor
	bar    *progress // nil: nobody watches
	log    *slog.Logger
	net    *network

	header    http.Header // of every call, secrets included
	anonymous bool        // no login is used
	decides   bool        // somebody can answer questions for an approval: the extension is declared
	taskID    string      // of the task that the command is about, as soon as it is known
}

func (a *app) session(f *clientFlags) *session {
	bar := a.progress()
	s := &session{
		output: output{w: bar.before(a.out), json: f.output == "json", verbose: f.verbose},
		flags:  f, person: a.person(), bar: bar, secret: newRedactor(bar.before(a.err), f),
	}
	s.err = s.secret
	s.log = slog.New(warnings{s})
	if f.debug {
		s.log = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s.net = newNetwork(f, s.log)
	if f.debug {
		s.net.wire = s.err
	}
	if f.insecure {
		s.warn("TLS certificates are not verified (--insecure): whoever is on the way can read and change everything%s",
			map[bool]string{true: ", the credential included"}[f.hasCredential()])
	}
	return s
}

func (s *session) options() client.Options {
	return client.Options{
		HTTP: &http.Client{Transport: s.net}, Transports: s.flags.bindings, Extensions: s.flags.extensions,
		GRPC: s.net.grpcOptions(), Poll: s.flags.poll, Log: s.log,
	}
}

// connect finds the agent by its card. Calls take the context that it returns: it has the service parameters
// and the credential.
func (s *session) connect(ctx context.Context) (context.Context, error) {
	opts := s.options()
	card, err := client.FetchCard(ctx, s.flags.card, opts)
	if err != nil {
		return ctx, err
	}
	if s.decides && offersApproval(card.AgentCard) {
		opts.Extensions = append(slices.Clip(opts.Extensions), ext.Approval)
	}
	c, err := client.Dial(card, opts)
	if err != nil {
		return ctx, err
	}
	s.Client = c
	s.net.progress = s.bar
	i := c.Interface()
	s.log.Debug("agent", "card", c.Card().URL, "binding", i.ProtocolBinding, "url", i.URL, "version", i.ProtocolVersion)
	if err := s.authenticate(ctx); err != nil {
		return ctx, err
	}
	return s.calling(ctx), nil
}

// calling returns a context for calls, one after the other, with the service parameters and the credential.
func (s *session) calling(ctx context.Context) context.Context {
	return a2a.WithCallInfo(ctx, &a2a.CallInfo{Version: s.flags.version, Header: s.header})
}

func offersApproval(card *a2a.AgentCard) bool {
	return slices.ContainsFunc(card.Capabilities.Extensions, func(x *a2a.AgentExtension) bool { return x.URI == ext.Approval })
}

func (s *session) close() {
	if s.Client != nil {
		_ = s.Close() // the command has its result
	}
	s.bar.end()
	s.secret.end()
}

func (f *clientFlags) hasCredential() bool {
	return f.bearer != "" || f.apiKey != "" || slices.ContainsFunc(credentialHeaders, func(name string) bool { return f.header.Get(name) != "" })
}

// credentialHeaders carry credentials, whoever sets them.
var credentialHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

// authenticate attaches the service parameters, and the credential as the card says, if this interface may have them: the
// one that was given, or that of a login.
func (s *session) authenticate(ctx context.Context) error {
	s.header = s.flags.header.Clone()
	if (s.flags.hasCredential() || len(s.header) > 0) && !belongs(s.Card().URL, s.Interface()) {
		return s.elsewhere()
	}
	if !s.flags.hasCredential() {
		return s.attachLogin(ctx)
	}
	if err := s.flags.found(); err != nil {
		return err
	}
	s.warnCleartext()
	if s.flags.bearer != "" {
		if err := s.takesBearer(); err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldValue(s.flags.bearer) {
			return usage("--bearer: a token is one line of text")
		}
		s.header.Set("Authorization", "Bearer "+s.flags.bearer)
	}
	if s.flags.apiKey != "" {
		return s.attachKey()
	}
	return nil
}

func (s *session) warnCleartext() {
	if target(s.Interface()).Scheme == "http" && !loopback(target(s.Interface()).Hostname()) {
		s.warn("the credential is sent to %s without encryption", s.Interface().URL)
	}
}

// found refuses to send a credential of the person's own settings to an agent that a file names which was only found on
// the way up: whoever wrote that file would get it.
func (f *clientFlags) found() error {
	card, where := from(f.fs.Lookup("agent-card"))
	if card != "local" || f.config != "" {
		return nil
	}
	for _, name := range []string{"bearer", "api-key", "svc-param", "other-bearer", "other-api-key"} {
		flag := f.fs.Lookup(name)
		if flag == nil {
			continue
		}
		if kind, at := from(flag); kind == "environment" || kind == "global" {
			return fail(errCredentialsMissing, "name the agent with --agent-card, or the file with --config",
				"the credential of %s is not sent to %s: only %s names that agent, a file that was found there", at, f.card, where)
		}
	}
	return nil
}

// loginOrigin returns the origin that a login is for: the card's, or the interface's where the card is in a file.
func (s *session) loginOrigin() string {
	if u, err := url.Parse(s.Card().URL); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return origin(u)
	}
	return origin(target(s.Interface()))
}

// attachLogin attaches the token of a login, if there is one that the card takes.
func (s *session) attachLogin(ctx context.Context) error {
	if s.anonymous || !canLogIn(s.Card().AgentCard) {
		return nil
	}
	at := s.loginOrigin()
	file, err := readLogins(at)
	if err != nil {
		return err
	}
	l := file.find(s.Card().AgentCard)
	switch {
	case l == nil && len(file.Logins) > 0:
		s.warn("there is a login for %s, and its card no longer asks for it: it is not used", at)
		return nil
	case l == nil:
		return nil
	case !belongs(s.Card().URL, s.Interface()):
		s.warn("the login for %s is not used: its card names the interface %s, which is elsewhere", at, s.Interface().URL)
		return nil
	}
	get := func(ctx context.Context, refused string) (string, error) { return s.token(ctx, at, l.Scheme, refused) }
	if _, err := get(ctx, ""); err != nil {
		return err
	}
	s.warnCleartext()
	if s.flags.insecure {
		s.warn("the token of the login is sent, too (--insecure)")
	}
	s.log.Debug("login", "origin", at, "scheme", l.Scheme)
	s.net.login = &boundToken{origin(target(s.Interface())), get}
	return nil
}

// takesBearer refuses a token that no scheme of the card asks for.
func (s *session) takesBearer() error {
	if len(s.Card().SecuritySchemes) == 0 {
		out := usage("--bearer: the agent takes no credential; its card declares no security scheme")
		out.hint = undeclared
		return out
	}
	for _, scheme := range s.Card().SecuritySchemes {
		switch scheme := scheme.(type) {
		case *a2a.HTTPAuthSecurityScheme:
			if strings.EqualFold(scheme.Scheme, "Bearer") {
				return nil
			}
		case *a2a.OAuth2SecurityScheme, *a2a.OpenIDConnectSecurityScheme:
			return nil
		case *a2a.APIKeySecurityScheme, *a2a.MutualTLSSecurityScheme:
		}
	}
	return usage("--bearer: the agent takes no bearer token; its card declares %s", schemes(s.Card().AgentCard))
}

// attachKey attaches the API key as the card wants it.
func (s *session) attachKey() error {
	query, err := placeKey("--api-key", s.flags.apiKey, s.Card().AgentCard, s.header)
	if err != nil || query == nil {
		return err
	}
	if s.Interface().ProtocolBinding == a2a.BindingGRPC {
		return usage("--api-key: the card wants the key in the query, which gRPC has not: add --transport JSONRPC")
	}
	s.net.keyURL, s.net.key = target(s.Interface()), query
	return nil
}

// placeKey puts an API key, which a flag gave, where the card wants it (A2A specification 4.5.2): into the header of calls,
// or into the query, which it returns.
func placeKey(flag, key string, card *a2a.AgentCard, header http.Header) (query url.Values, err error) {
	scheme := apiKeyScheme(card)
	switch {
	case scheme == nil:
		return nil, usage("%s: the agent takes no API key; its card declares %s", flag, schemes(card))
	case !httpguts.ValidHeaderFieldName(scheme.Name) || !httpguts.ValidHeaderFieldValue(key):
		return nil, usage("%s: the name in the card and the key have to be usable in a header", flag)
	}
	switch name := textproto.CanonicalMIMEHeaderKey(scheme.Name); scheme.Location {
	case "header":
		if slices.Contains(connectionHeaders, name) || strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "A2a-") {
			return nil, usage("%s: the card wants the key in the header %s, which is not for keys", flag, name)
		}
		header.Set(name, key)
	case "cookie":
		header.Add("Cookie", (&http.Cookie{Name: scheme.Name, Value: key}).String()) //nolint:gosec // of a request
	case "query":
		return url.Values{scheme.Name: {key}}, nil
	default:
		return nil, fail(errCardInvalid, "", "the card wants the API key in %q, which is none of header, query and cookie", scheme.Location)
	}
	return nil, nil
}

// apiKeyScheme returns the card's API key scheme, the first by name.
func apiKeyScheme(card *a2a.AgentCard) *a2a.APIKeySecurityScheme {
	for _, name := range sortedKeys(card.SecuritySchemes) {
		if s, ok := card.SecuritySchemes[name].(*a2a.APIKeySecurityScheme); ok {
			return s
		}
	}
	return nil
}

// belongs reports whether an interface is one that whoever named the card meant: it is at the card's origin, or a gRPC
// interface of the same host (gRPC has a port of its own). Other users of this machine have other ports of it, so it is no
// exception, save that it has three names. A card in a local file was put there by the operator.
func belongs(cardURL string, i *a2a.AgentInterface) bool {
	card, err := url.Parse(cardURL)
	if err != nil || card.Scheme != "http" && card.Scheme != "https" {
		return true
	}
	to := target(i)
	if !sameHost(to.Hostname(), card.Hostname()) {
		return false
	}
	at := *to
	at.Host = net.JoinHostPort(card.Hostname(), to.Port())
	return i.ProtocolBinding == a2a.BindingGRPC || origin(&at) == origin(card)
}

func sameHost(a, b string) bool {
	this := []string{"localhost", "127.0.0.1", "::1"}
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b || slices.Contains(this, a) && slices.Contains(this, b)
}

// elsewhere refuses to tell an interface that does not belong to the card what is meant for the card's agent.
func (s *session) elsewhere() error {
	code, what := errUsage, "what --svc-param says"
	if s.flags.hasCredential() {
		code, what = errCredentialsMissing, "the credential"
		if len(s.flags.header) > 0 {
			what = "what the credential and --svc-param say"
		}
	}
	i := s.Interface()
	return fail(code,
		"if you trust that address, save the card to a file and name it with --agent-card, or choose another interface with --transport",
		"%s is not sent: the card of %s names the %s interface %s, which is elsewhere", what, s.Card().URL, i.ProtocolBinding, i.URL)
}

// target returns the address of an interface as a URL, also where it is host:port.
func target(i *a2a.AgentInterface) *url.URL {
	address := i.URL
	if !strings.Contains(address, "://") {
		address = "grpc://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return new(url.URL)
	}
	return u
}

// origin returns the scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// explain classifies an error of this session, with what is known about it here.
func (s *session) explain(ctx context.Context, err error) error {
	var f *failure
	switch {
	case ctx.Err() == nil || isFailure(err, errUsage):
		f = failureOf(err)
	case context.Cause(ctx) == errTimeLimit: //nolint:errorlint // it is the cause itself
		f = fail(errTimeout, "", "no end within %v", s.flags.timeout)
		if s.taskID != "" {
			f.message = fmt.Sprintf("task %s did not end within %v; it goes on", s.taskID, s.flags.timeout)
			f.hint = s.command("task get", "--wait", s.taskID)
		}
	default:
		f = fail(errInternal, "", "interrupted")
		if s.taskID != "" {
			f.message += fmt.Sprintf("; task %s goes on", s.taskID)
			f.hint = s.command("task get", "--wait", s.taskID)
		}
	}
	if known := (*failure)(nil); f.code == errInternal && !errors.As(err, &known) && ctx.Err() == nil && !s.flags.debug {
		f.hint = "run it again with --debug to see the exchange"
	}
	if f.code == errAuthFailed && f.hint == "" {
		s.explainAuth(f)
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok && e.RetryAfter > 0 {
		f = f.also("try again in " + e.RetryAfter.Round(time.Second).String())
	}
	if s.flags.card == defaultCard && f.code == errUnreachable && f.a2aCode == 0 {
		f.hint = "start an agent with parley serve, or name another one with --agent-card"
	}
	f.message, f.hint = s.secret.clean(f.message), s.secret.clean(f.hint)
	return f
}

func isFailure(err error, code string) bool {
	f, ok := err.(*failure) //nolint:errorlint // they are not wrapped
	return ok && f.code == code
}

// explainAuth says which credential the agent wants.
func (s *session) explainAuth(f *failure) {
	if !s.flags.hasCredential() && s.net.login == nil {
		f.code = errCredentialsMissing
	}
	if s.Client == nil {
		return
	}
	if len(s.Card().SecuritySchemes) == 0 {
		f.hint = "its card declares no security scheme: " + undeclared
		return
	}
	f.hint = "its card declares " + schemes(s.Card().AgentCard)
	switch {
	case s.net.login != nil:
		f.hint = "the agent does not take the token of the login: " + s.loginCommand()
	case s.flags.hasCredential():
		f.hint = "check the credential, until when it is good and what it is for: " + f.hint
	case apiKeyScheme(s.Card().AgentCard) != nil:
		f.hint += ": pass --api-key"
	case canLogIn(s.Card().AgentCard):
		f.hint += ": " + s.loginCommand()
	case s.takesBearer() == nil:
		f.hint += ": pass --bearer"
	}
}

// command returns a command line for this agent that can be copied into a shell. The last words are
// arguments or flags.
func (s *session) command(name string, words ...string) string {
	out := []string{"parley " + name}
	if s.flags.card != defaultCard {
		out = append(out, "-a", quote(s.flags.card))
	}
	for _, b := range s.flags.bindings {
		out = append(out, "--transport", b)
	}
	if s.flags.insecure {
		out = append(out, "--insecure")
	}
	for _, w := range words {
		out = append(out, quote(w))
	}
	return strings.Join(out, " ")
}

// quote returns a word as a POSIX shell reads it back.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// warn tells the person, not the program, that reads along.
func (s *session) warn(format string, args ...any) {
	s.note("Warning: " + fmt.Sprintf(format, args...))
}

func (s *session) note(line string) {
	fmt.Fprintln(s.err, visible(line)) //nolint:errcheck // nobody listens then
}

// warnings is the log where nobody asked for one: what it has of warnings is said as such.
type warnings struct{ s *session }

// Enabled implements slog.Handler.
func (warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			line += ": " + a.Value.String()
		}
		return true
	})
	w.s.warn("%s", line)
	return nil
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(string) slog.Handler { return w }

// redactor writes to stderr with the secrets of the command line, and those that come to be known, blotted out.
type redactor struct {
	w io.Writer

	mu      sync.Mutex
	secrets []string // in all the forms that they take in a line, the longest first
	replace *strings.Replacer
}

const redacted = "[redacted]"

func newRedactor(w io.Writer, f *clientFlags) *redactor {
	r := &redactor{w: w}
	r.add(append([]string{f.bearer, f.apiKey, f.clientSecret}, f.secrets...)...)
	for name, values := range f.header {
		for _, v := range values {
			if len(v) >= 8 { // shorter ones are no credentials, and would blot out half of every line
				r.add(v)
			}
			if _, credential, ok := strings.Cut(v, " "); ok && slices.Contains(credentialHeaders, name) {
				r.add(strings.TrimSpace(credential)) // without its scheme
			}
		}
	}
	return r
}

// add has more secrets blotted out.
func (r *redactor) add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		quoted := strconv.Quote(s)
		inJSON, _ := json.Marshal(s)
		for _, form := range []string{s, url.QueryEscape(s), quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1])} {
			if form != "" && !slices.Contains(r.secrets, form) {
				r.secrets = append(r.secrets, form)
			}
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range r.secrets {
		pairs = append(pairs, s, redacted)
	}
	r.replace = strings.NewReplacer(pairs...)
}

func (r *redactor) clean(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replace.Replace(s)
}

// end has nothing more written: connections that are being closed may still log what went over them.
func (r *redactor) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w = io.Discard
}

// Write writes p, which holds whole lines.
func (r *redactor) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := io.WriteString(r.w, r.replace.Replace(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
