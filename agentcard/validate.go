package agentcard

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// Level is how binding a rule is.
type Level string

// The levels of RFC 2119 that a [Finding] has.
const (
	Must   Level = "must"
	Should Level = "should"
)

// Finding is one place where a card breaks a rule.
type Finding struct {
	Path   string // such as supportedInterfaces[0].url; empty for the card as a whole
	Level  Level
	Clause string // of the specification, such as 4.4.1
	Text   string // what is wrong
	Fix    string // what to do
}

// String returns the finding on one line.
func (f Finding) String() string {
	where := f.Path
	if where == "" {
		where = "the card"
	}
	return fmt.Sprintf("%s %s (%s): %s", f.Level, where, f.Clause, f.Text)
}

// maxFindings bounds what [Validate] returns: a card with more is no card.
const maxFindings = 1000

// Validate returns where a card's JSON breaks a rule of the specification that can be seen in a card, in the order of the
// card; what is missing comes after what is there. A card that is not JSON has one finding, and no card more than
// 1000. Fields that are not of 1.0 are no fault (5.7).
func Validate(raw []byte) []Finding {
	var v validator
	card, err := parse(raw)
	if err != nil {
		v.syntax(err)
		return v.findings
	}
	v.message("", card, agentCard)
	if card.kind == '{' {
		v.numbers("", card.without(signatures))
	}
	return v.findings
}

// ValidateCard is [Validate] for a card in hand.
func ValidateCard(card *a2a.AgentCard) []Finding {
	raw, err := cardJSON(card)
	if err != nil {
		return []Finding{{Level: Must, Clause: "4.4.1", Text: err.Error(), Fix: "build the card without nil elements"}}
	}
	return Validate(raw)
}

type validator struct{ findings []Finding }

func (v *validator) add(level Level, path, clause, fix, format string, args ...any) {
	if len(v.findings) < maxFindings {
		v.findings = append(v.findings, Finding{path, level, clause, fmt.Sprintf(format, args...), fix})
	}
}

func (v *validator) must(path, clause, fix, format string, args ...any) {
	v.add(Must, path, clause, fix, format, args...)
}

func (v *validator) should(path, clause, fix, format string, args ...any) {
	v.add(Should, path, clause, fix, format, args...)
}

func (v *validator) syntax(err error) {
	text, path := err.Error(), ""
	var e *jsonx.Error
	if errors.As(err, &e) {
		if path = e.Path; !e.Syntax {
			text = e.Msg
		}
	}
	v.must(path, "5.5", "write the card as JSON by RFC 8259 in UTF-8, at most 64 levels deep, each name once per object",
		"%s", text)
}

// numbers looks for numbers that have no canonical form.
func (v *validator) numbers(path string, at *value) {
	if at.kind == 0 && !exact(at.num) {
		v.must(path, "8.4.1", "write it as a string",
			"the number %s has no canonical form: a double does not hold it, so the card cannot be signed",
			clip(at.num, 32))
	}
	for i := range at.items {
		if at.kind == '{' {
			v.numbers(member(path, at.names[i]), &at.items[i])
		} else {
			v.numbers(element(path, i), &at.items[i])
		}
	}
}

// exact reports whether a number has a canonical form.
func exact(num string) bool {
	_, err := strconv.ParseFloat(num, 64)
	return err == nil && !lossy(num)
}

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// member returns the path of a member; names that are no identifiers stand in quotes.
func member(path, name string) string {
	switch {
	case !plainName.MatchString(name):
		return path + "[" + strconv.Quote(clip(name, 64)) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_$-]{1,64}$`)

// message checks a message: the types and the presence of its fields, then what the prose says of it.
func (v *validator) message(path string, at *value, m *message) {
	if at.kind != '{' {
		v.must(path, m.clause, "write an object", "must be an object, not %s", kindName(at.kind))
		return
	}
	seen := make([]bool, len(m.fields))
	set := 0
	for i, name := range at.names {
		item := &at.items[i]
		n, known := m.byName[name]
		if !known {
			continue
		}
		f := &m.fields[n]
		where := member(path, name)
		if name != f.name {
			v.must(where, "5.5", "name it "+f.name, "field names are in camelCase in JSON")
		}
		if item.kind == 'n' {
			continue
		}
		if seen[n] {
			v.must(where, "5.5", "keep one of them", "%q and %q are the same field", f.name, snake(f.name))
		}
		seen[n] = true
		set++
		v.field(where, item, f, m.clause)
	}
	for n := range m.fields {
		if f := &m.fields[n]; f.keeps == required && !seen[n] {
			v.must(member(path, f.name), m.clause, missingFix(at, m, f), "required, but missing")
		}
	}
	if m.union && set != 1 {
		v.union(path, at, m, set)
	}
	v.prose(path, at, m)
}

// missingFix knows the fields of earlier versions.
func missingFix(at *value, m *message, f *field) string {
	if m == agentCard && f.name == "supportedInterfaces" && at.get("url") != nil {
		return "this is a card of version 0.3: move url, preferredTransport and additionalInterfaces into supportedInterfaces"
	}
	if m == agentInterface && f.name == "protocolBinding" && at.get("transport") != nil {
		return "this is an interface of version 0.3: transport is now protocolBinding"
	}
	return "add it"
}

func (v *validator) union(path string, at *value, m *message, set int) {
	var names []string
	for _, f := range m.fields {
		names = append(names, f.name)
	}
	choice := "one of " + strings.Join(names, ", ")
	fix := "write " + choice
	if m == securityScheme && at.get("type") != nil {
		fix = "this is a scheme of version 0.3: put what it holds, without type, into " + choice
	}
	if set == 0 {
		v.must(path, m.clause, fix, "has none of the kinds that 1.0 knows")
	} else {
		v.must(path, m.clause, "keep "+choice, "has %d kinds at once", set)
	}
}

// field checks a field's value, which is not null.
func (v *validator) field(path string, at *value, f *field, clause string) {
	switch f.many {
	case list:
		if at.kind != '[' {
			v.must(path, clause, "write an array", "must be an array, not %s", kindName(at.kind))
			return
		}
		if f.keeps == required && len(at.items) == 0 {
			v.must(path, "5.7", "list at least one", "a required array needs at least one element")
		}
		for i := range at.items {
			v.single(element(path, i), &at.items[i], f, clause)
		}
	case mapping:
		if at.kind != '{' {
			v.must(path, clause, "write an object", "must be an object, not %s", kindName(at.kind))
			return
		}
		for i, name := range at.names {
			v.single(member(path, name), &at.items[i], f, clause)
		}
	default:
		v.single(path, at, f, clause)
	}
	if f.kind == text && f.many == one && f.keeps == required && at.kind == '"' && at.text == "" {
		v.must(path, "5.7", "fill it in", "required, but empty")
	}
}

func (v *validator) single(path string, at *value, f *field, clause string) {
	switch f.kind {
	case text:
		if at.kind != '"' {
			v.must(path, clause, "write a string", "must be a string, not %s", kindName(at.kind))
		}
	case flag:
		if at.kind != 't' && at.kind != 'f' {
			v.must(path, clause, "write true or false", "must be true or false, not %s", kindName(at.kind))
		}
	case object:
		v.message(path, at, f.of)
	case data:
		if at.kind != '{' {
			v.must(path, clause, "write an object", "must be an object, not %s", kindName(at.kind))
		}
	}
}

// prose checks what the specification and the comments of the proto say of a message beyond its types.
func (v *validator) prose(path string, at *value, m *message) {
	switch m {
	case agentCard:
		v.card(at)
	case agentInterface:
		v.iface(path, at)
	case agentProvider:
		v.webURL(member(path, "url"), at.str("url"), m.clause)
	case agentCapabilities:
		v.unique(member(path, "extensions"), at.elems("extensions"), "uri", "4.4.4")
	case agentExtension:
		v.extension(path, at)
	case agentSkill:
		v.modes(path, at, "inputModes", "outputModes")
	case securityRequirement:
		v.requirement(path, at)
	case apiKeyScheme:
		if s := at.str("location"); s != "" && s != "query" && s != "header" && s != "cookie" {
			v.must(member(path, "location"), m.clause, "write query, header or cookie",
				"%q is none of query, header and cookie", clip(s, 32))
		}
	case httpAuthScheme:
		if s := at.str("scheme"); s != "" && !slices.Contains(authSchemes, strings.ToLower(s)) {
			v.should(member(path, "scheme"), m.clause, "use a registered scheme, such as Bearer",
				"%q is not in the IANA registry of authentication schemes",
				clip(s, 32))
		}
	case oauth2Scheme:
		v.secureURLs(path, at, m.clause, "oauth2MetadataUrl")
	case openIDConnectScheme:
		v.secureURLs(path, at, m.clause, "openIdConnectUrl")
	case oauthFlows:
		v.flows(path, at)
	case authorizationCodeFlow:
		v.secureURLs(path, at, m.clause, "authorizationUrl", "tokenUrl", "refreshUrl")
		if p := at.get("pkceRequired"); p == nil || p.kind == 'f' {
			v.should(member(path, "pkceRequired"), m.clause, "set pkceRequired to true",
				"PKCE is recommended for all clients, and always for public ones")
		}
	case clientCredentialsFlow, implicitFlow, passwordFlow:
		v.secureURLs(path, at, m.clause, "authorizationUrl", "tokenUrl", "refreshUrl")
	case deviceCodeFlow:
		v.secureURLs(path, at, m.clause, "deviceAuthorizationUrl", "tokenUrl", "refreshUrl")
	case agentCardSignature:
		v.signature(path, at)
	}
}

func (v *validator) card(at *value) {
	v.webURL("documentationUrl", at.str("documentationUrl"), "4.4.1")
	v.webURL("iconUrl", at.str("iconUrl"), "4.4.1")
	v.modes("", at, "defaultInputModes", "defaultOutputModes")
	v.unique("skills", at.elems("skills"), "id", "4.4.5")
	schemes := map[string]bool{}
	if s := at.get("securitySchemes"); s != nil {
		for _, name := range s.names {
			schemes[name] = true
		}
	}
	v.known("securityRequirements", at.elems("securityRequirements"), schemes)
	for i, skill := range at.elems("skills") {
		v.known(member(element("skills", i), "securityRequirements"), skill.elems("securityRequirements"), schemes)
	}
	capabilities := at.get("capabilities")
	if capabilities == nil {
		capabilities = &value{}
	}
	extended := capabilities.get("extendedAgentCard")
	if extended != nil && extended.kind == 't' && len(schemes) == 0 {
		v.must("securitySchemes", "13.3", "declare how callers authenticate, or set extendedAgentCard to false",
			"the extended card needs authentication by a scheme of this card, and there is none")
	}
	if at.get("security") != nil && at.get("securityRequirements") == nil {
		v.should("security", "4.4.1", `name it securityRequirements, each {"schemes": {name: {"list": [scopes]}}}`,
			"this was the name in version 0.3: clients of 1.0 do not see it")
	}
	if old := at.get("supportsAuthenticatedExtendedCard"); old != nil && extended == nil {
		v.should("supportsAuthenticatedExtendedCard", "4.4.3", "write capabilities.extendedAgentCard",
			"this was the place in version 0.3: clients of 1.0 do not see it")
	}
}

// unique checks that a field which identifies an element does.
func (v *validator) unique(path string, elems []value, name, clause string) {
	first := map[string]int{}
	for i := range elems {
		id := elems[i].str(name)
		if id == "" {
			continue
		}
		if n, dup := first[id]; dup {
			v.must(member(element(path, i), name), clause, "give each its own",
				"%q is also that of %s", clip(id, 64), element(path, n))
			continue
		}
		first[id] = i
	}
}

// known checks that what is required is declared.
func (v *validator) known(path string, requirements []value, schemes map[string]bool) {
	for i := range requirements {
		named := requirements[i].get("schemes")
		if named == nil || named.kind != '{' {
			continue
		}
		for _, name := range named.names {
			if !schemes[name] {
				v.must(member(member(element(path, i), "schemes"), name), "4.4.1", "declare it, or require one that is declared",
					"securitySchemes has no scheme of this name")
			}
		}
	}
}

// requirement looks for the form of version 0.3, {name: [scopes]}.
func (v *validator) requirement(path string, at *value) {
	if at.get("schemes") != nil {
		return
	}
	const fix = `write {"schemes": {name: {"list": [scopes]}}}`
	for i, name := range at.names {
		item := &at.items[i]
		switch {
		case item.kind != '[':
		case slices.ContainsFunc(item.items, func(scope value) bool { return scope.kind != '"' }):
			v.must(member(path, name), "4.5", fix, "scopes must be strings")
		default:
			v.should(member(path, name), "4.5", fix, "this was the form in version 0.3: clients of 1.0 do not see it")
		}
	}
}

// modes checks that the elements of fields are media types, or ranges of them.
func (v *validator) modes(path string, at *value, names ...string) {
	for _, name := range names {
		for i, mode := range at.elems(name) {
			if mode.kind != '"' {
				continue
			}
			if t, _, err := mime.ParseMediaType(mode.text); err != nil || !strings.Contains(t, "/") {
				v.must(element(member(path, name), i), "4.4.1", "write a media type, such as text/plain",
					"%q is not a media type", clip(mode.text, 64))
			}
		}
	}
}

var (
	version      = regexp.MustCompile(`^\d+\.\d+$`)
	patchVersion = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	bindings     = []string{a2a.BindingJSONRPC, a2a.BindingGRPC, a2a.BindingREST}
)

func (v *validator) iface(path string, at *value) {
	if s := at.str("protocolVersion"); patchVersion.MatchString(s) {
		v.should(member(path, "protocolVersion"), "3.6", "write "+s[:strings.LastIndexByte(s, '.')],
			"the patch version does not belong in a card")
	} else if s != "" && !version.MatchString(s) {
		v.must(member(path, "protocolVersion"), "3.6", "write Major.Minor, such as "+a2a.Version,
			"%q is not a version of the protocol", clip(s, 32))
	}
	binding := at.str("protocolBinding")
	where := member(path, "protocolBinding")
	if u, err := url.Parse(binding); binding != "" && !slices.Contains(bindings, binding) && (err != nil || !u.IsAbs()) {
		v.should(where, "5.8", "write "+strings.Join(bindings, ", ")+" or the URI of a custom binding",
			"%q is neither a core binding nor a URI", clip(binding, 64))
	}
	s, where := at.str("url"), member(path, "url")
	switch {
	case s == "":
	case binding == a2a.BindingGRPC:
		v.grpcAddress(where, s)
	default:
		v.endpoint(where, s, binding)
	}
}

// endpoint checks the URL of an interface that is not gRPC.
func (v *validator) endpoint(path, s, binding string) {
	u, err := url.Parse(s)
	switch core := slices.Contains(bindings, binding); {
	case err != nil || !u.IsAbs() || u.Host == "":
		v.must(path, "4.4.6", "write an absolute URL, such as https://agent.example/a2a",
			"%q is not an absolute URL", clip(s, 128))
	case core && u.Scheme != "https" && u.Scheme != "http":
		v.must(path, "4.4.6", "write an https URL", "%q is not a URL that %s is spoken at", clip(s, 128), binding)
	case (u.Scheme == "http" || u.Scheme == "ws") && !loopback(u.Hostname()):
		v.must(path, "7.1", "serve it over TLS", "%q is not encrypted, which production must be", clip(s, 128))
	default:
		v.noPassword(path, u)
	}
}

// grpcAddress checks the URL of a gRPC interface: hostname:port, or https:// and that, which is an absolute URL as the
// field wants it, and says at a loopback address that TLS is spoken there.
func (v *validator) grpcAddress(path, s string) {
	address := strings.TrimPrefix(s, "https://")
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		v.should(path, "4.4.6", "write "+strconv.Quote(clip(strings.Trim(rest, "/"), 128)),
			"the address of a gRPC interface has the form hostname:port")
		if u, err := url.Parse(s); err == nil && scheme == "http" && !loopback(u.Hostname()) {
			v.must(path, "7.1", "serve it over TLS", "%q is not encrypted, which production must be", clip(s, 128))
		}
		return
	}
	host, port, err := net.SplitHostPort(address)
	if n, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
		v.should(path, "4.4.6", "write hostname:port, such as agent.example:443",
			"%q does not have the form hostname:port", clip(s, 128))
	}
}

// webURL checks a URL that people or programs follow.
func (v *validator) webURL(path, s, clause string) {
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	if err != nil || !u.IsAbs() || u.Host == "" && u.Opaque == "" {
		v.must(path, clause, "write an absolute URL, such as https://agent.example/",
			"%q is not an absolute URL", clip(s, 128))
		return
	}
	v.noPassword(path, u)
}

// secureURLs checks URLs at which tokens are asked for.
func (v *validator) secureURLs(path string, at *value, clause string, names ...string) {
	for _, name := range names {
		s, where := at.str(name), member(path, name)
		if s == "" {
			continue
		}
		switch u, err := url.Parse(s); {
		case err != nil || !u.IsAbs() || u.Host == "":
			v.must(where, clause, "write an absolute https URL", "%q is not an absolute URL", clip(s, 128))
		case !secure(u):
			v.must(where, clause, "write an https URL", "%q is not an https URL, and TLS is required here", clip(s, 128))
		default:
			v.noPassword(where, u)
		}
	}
}

func (v *validator) noPassword(path string, u *url.URL) {
	if _, has := u.User.Password(); has {
		v.should(path, "14.3", "take the password out", "a card should hold no credentials")
	}
}

// secure reports whether a URL is safe from those in between: https, or http that stays on the machine.
func secure(u *url.URL) bool {
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// versioned finds a version in a URI: a path segment, or a part of one, such as v1, 1.2 or v1.0.
var versioned = regexp.MustCompile(`(^|[^A-Za-z0-9])[vV]?\d+(\.\d+)*($|[^A-Za-z0-9])`)

func (v *validator) extension(path string, at *value) {
	s, where := at.str("uri"), member(path, "uri")
	u, err := url.Parse(s)
	switch {
	case s == "":
		v.must(where, "4.4.4", "write the extension's URI", "an extension without a URI cannot be activated")
	case err != nil || !u.IsAbs():
		v.must(where, "4.4.4", "write an absolute URI, such as https://agent.example/extensions/x/v1",
			"%q is not an absolute URI", clip(s, 128))
	case !versioned.MatchString(u.Opaque + u.Path + "#" + u.Fragment + "?" + u.RawQuery):
		v.should(where, "4.6.3", "put a version into the URI, such as /v1",
			"the URI of an extension should hold its version")
	}
}

// authSchemes are the names of the IANA registry of HTTP authentication schemes, in lower case.
var authSchemes = []string{
	"basic", "bearer", "concealed", "digest", "dpop", "gnap", "hoba", "mutual", "negotiate", "oauth", "privatetoken",
	"scram-sha-1", "scram-sha-256", "vapid",
}

func (v *validator) flows(path string, at *value) {
	for _, old := range []string{"implicit", "password"} {
		if at.get(old) != nil {
			v.should(member(path, old), "4.5.7", "use authorizationCode with PKCE, or deviceCode", "this flow is deprecated")
		}
	}
}

// signature checks what can be seen of a signature without a key.
func (v *validator) signature(path string, at *value) {
	if s := at.str("signature"); s != "" {
		if _, err := decodeBase64(s); err != nil {
			v.must(member(path, "signature"), "8.4.2", "write base64url without padding", "must be base64url: %v", err)
		}
	}
	s, where := at.str("protected"), member(path, "protected")
	if s == "" {
		return
	}
	h, err := readHeader(s, at.get("header"))
	if err != nil {
		v.must(where, "8.4.2", "sign the card anew", "%v", err)
		return
	}
	if h.alg == "none" || strings.HasPrefix(h.alg, "HS") {
		v.must(where, "8.4", "sign with one of "+strings.Join(algorithms, ", "),
			"alg %q is no digital signature", clip(h.alg, 32))
	}
	if h.typ != "JOSE" {
		v.should(where, "8.4.2", "set typ to JOSE",
			"the protected header should have typ JOSE, and has %q", clip(h.typ, 32))
	}
	if h.jku != "" {
		if u, err := url.Parse(h.jku); err != nil || !secure(u) {
			v.should(where, "8.4.3", "serve the key set over https", "jku %q is not an https URL", clip(h.jku, 128))
		}
	}
}
