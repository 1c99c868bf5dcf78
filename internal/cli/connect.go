package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

// network is how a command reaches an agent: it logs every request under --debug, leaves certificates
// unverified under --insecure, and adds an API key that a card wants in the query.
type network struct {
	base *http.Transport
	log  *slog.Logger
	tls  *tls.Config // nil: as usual

	keyURL *url.URL // the interface that takes key
	key    url.Values
}

func newNetwork(f *clientFlags, log *slog.Logger) *network {
	n := &network{base: http.DefaultTransport.(*http.Transport).Clone(), log: log}
	n.base.DisableCompression = true // a compressed stream waits in buffers on its way
	n.base.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	if f.insecure {
		n.tls = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // it was asked for, and there is a warning
		n.base.TLSClientConfig = n.tls.Clone()
	}
	return n
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := n.base.RoundTrip(n.withKey(r))
	attrs := []any{"method", r.Method, "url", r.URL.Redacted(), "took", time.Since(start).Round(time.Microsecond)}
	if err != nil {
		n.log.Debug("request failed", append(attrs, "error", err.Error())...)
		return nil, err
	}
	n.log.Debug("request", append(attrs, "status", answer.StatusCode, "protocol", answer.Proto)...)
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
			err := invoke(ctx, method, req, res, conn, opts...)
			n.logCall(method, conn, start, err)
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			start := time.Now()
			stream, err := open(ctx, desc, conn, method, opts...)
			n.logCall(method, conn, start, err)
			return stream, err
		}),
	}
	if n.tls != nil {
		opts = append(opts, grpc.WithTransportCredentials(unverified{credentials.NewTLS(n.tls.Clone())}))
	}
	return opts
}

func (n *network) logCall(method string, conn *grpc.ClientConn, start time.Time, err error) {
	attrs := []any{"method", method, "target", conn.Target(), "took", time.Since(start).Round(time.Microsecond), "protocol", "gRPC"}
	if err != nil {
		n.log.Debug("call failed", append(attrs, "error", err.Error())...)
		return
	}
	n.log.Debug("call", attrs...)
}

// unverified is TLS without verification, and plaintext on this machine, as it is spoken without --insecure.
type unverified struct {
	credentials.TransportCredentials
}

func (u unverified) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return insecure.NewCredentials().ClientHandshake(ctx, authority, conn)
	}
	return u.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

func (u unverified) Clone() credentials.TransportCredentials {
	return unverified{u.TransportCredentials.Clone()}
}

// session is one run of a client command: the agent, and where its words go.
type session struct {
	*client.Client // nil before connect
	output
	flags  *clientFlags
	err    io.Writer // secrets are blotted out
	person bool      // err is a terminal
	secret *redactor
	log    *slog.Logger
	net    *network

	header http.Header // of every call, secrets included
	taskID string      // of the task that the command is about, as soon as it is known
}

func (a *app) session(f *clientFlags) *session {
	s := &session{
		output: output{w: a.out, json: f.output == "json", verbose: f.verbose},
		flags:  f, person: isTerminal(a.err), secret: newRedactor(a.err, f),
	}
	s.err = s.secret
	level := slog.LevelError + 1
	if f.debug {
		level = slog.LevelDebug
	}
	s.log = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
	s.net = newNetwork(f, s.log)
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
	c, err := client.New(ctx, s.flags.card, s.options())
	if err != nil {
		return ctx, err
	}
	s.Client = c
	i := c.Interface()
	s.log.Debug("agent", "card", c.Card().URL, "binding", i.ProtocolBinding, "url", i.URL, "version", i.ProtocolVersion)
	if err := s.authenticate(); err != nil {
		return ctx, err
	}
	return a2a.WithCallInfo(ctx, &a2a.CallInfo{Version: s.flags.version, Header: s.header}), nil
}

func (s *session) close() {
	if s.Client != nil {
		_ = s.Close() // the command has its result
	}
}

func (f *clientFlags) hasCredential() bool {
	return f.bearer != "" || f.apiKey != "" || slices.ContainsFunc(credentialHeaders, func(name string) bool { return f.header.Get(name) != "" })
}

// credentialHeaders carry credentials, whoever sets them.
var credentialHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

// authenticate attaches the service parameters, and the credential as the card says, if this interface may have them.
func (s *session) authenticate() error {
	s.header = s.flags.header.Clone()
	if (s.flags.hasCredential() || len(s.header) > 0) && !belongs(s.Card().URL, s.Interface()) {
		return s.elsewhere()
	}
	if !s.flags.hasCredential() {
		return nil
	}
	if target(s.Interface()).Scheme == "http" && !loopback(target(s.Interface()).Hostname()) {
		s.warn("the credential is sent to %s without encryption", s.Interface().URL)
	}
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

// takesBearer refuses a token that no scheme of the card asks for. A card without schemes may have left
// them out.
func (s *session) takesBearer() error {
	if len(s.Card().SecuritySchemes) == 0 {
		return nil
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

// attachKey puts the API key where the card wants it (A2A specification 4.5.2).
func (s *session) attachKey() error {
	scheme := apiKeyScheme(s.Card().AgentCard)
	switch {
	case scheme == nil:
		return usage("--api-key: the agent takes no API key; its card declares %s", schemes(s.Card().AgentCard))
	case !httpguts.ValidHeaderFieldName(scheme.Name) || !httpguts.ValidHeaderFieldValue(s.flags.apiKey):
		return usage("--api-key: the name in the card and the key have to be usable in a header")
	}
	switch name := textproto.CanonicalMIMEHeaderKey(scheme.Name); scheme.Location {
	case "header":
		if slices.Contains(connectionHeaders, name) || strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "A2a-") {
			return usage("--api-key: the card wants the key in the header %s, which is not for keys", name)
		}
		s.header.Set(name, s.flags.apiKey)
	case "cookie":
		s.header.Add("Cookie", (&http.Cookie{Name: scheme.Name, Value: s.flags.apiKey}).String()) //nolint:gosec // of a request
	case "query":
		if s.Interface().ProtocolBinding == a2a.BindingGRPC {
			return usage("--api-key: the card wants the key in the query, which gRPC has not: add --transport JSONRPC")
		}
		s.net.keyURL, s.net.key = target(s.Interface()), url.Values{scheme.Name: {s.flags.apiKey}}
	default:
		return fail(errCardInvalid, "", "the card wants the API key in %q, which is none of header, query and cookie", scheme.Location)
	}
	return nil
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
// interface of the same host (gRPC has a port of its own), or on this machine as the card is. A card in a local file
// was put there by the operator.
func belongs(cardURL string, i *a2a.AgentInterface) bool {
	card, err := url.Parse(cardURL)
	if err != nil || card.Scheme != "http" && card.Scheme != "https" {
		return true
	}
	to := target(i)
	return origin(to) == origin(card) || loopback(to.Hostname()) && loopback(card.Hostname()) ||
		i.ProtocolBinding == a2a.BindingGRPC && strings.EqualFold(to.Hostname(), card.Hostname())
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
		f = fail(errTimeout, "raise --timeout", "no end within %v", s.flags.timeout)
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
	if f.code == errAuthFailed {
		s.explainAuth(f)
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
	if !s.flags.hasCredential() {
		f.code = errCredentialsMissing
	}
	if s.Client != nil && len(s.Card().SecuritySchemes) > 0 {
		f.hint = "its card declares " + schemes(s.Card().AgentCard)
		if apiKeyScheme(s.Card().AgentCard) != nil {
			f.hint += ": pass --api-key"
		} else if s.takesBearer() == nil {
			f.hint += ": pass --bearer"
		}
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

// redactor writes to stderr with the secrets of the command line blotted out.
type redactor struct {
	w       io.Writer
	replace *strings.Replacer
}

const redacted = "[redacted]"

func newRedactor(w io.Writer, f *clientFlags) *redactor {
	secrets := append([]string{f.bearer, f.apiKey}, f.secrets...)
	for _, values := range f.header {
		for _, v := range values {
			if len(v) >= 8 { // shorter ones are no credentials, and would blot out half of every line
				secrets = append(secrets, v)
			}
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longest first
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, redacted)
		}
		if q := url.QueryEscape(s); q != s {
			pairs = append(pairs, q, redacted)
		}
	}
	return &redactor{w: w, replace: strings.NewReplacer(pairs...)}
}

func (r *redactor) clean(s string) string { return r.replace.Replace(s) }

// Write writes p, which holds whole lines.
func (r *redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.w, r.clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
