package tap

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-a2a/parley/a2a"
)

// blot stands where a secret was.
const blot = "[redacted]"

// redactor takes secrets out of what is recorded. It knows them by the names that they go under, and by having seen them
// in a header of the same exchange. It works on bytes, so that what is broken is kept as it is too, except for gRPC
// messages that cannot be read: see message.
type redactor struct {
	names []string // beyond the usual ones, folded
}

// newRedactor returns a redactor for the secrets of a card's schemes and for those that go under the given names.
func newRedactor(card *a2a.AgentCard, names []string) *redactor {
	r := new(redactor)
	for _, n := range names {
		r.names = append(r.names, fold(n))
	}
	if card != nil {
		for _, s := range card.SecuritySchemes {
			if key, ok := s.(*a2a.APIKeySecurityScheme); ok {
				r.names = append(r.names, fold(key.Name))
			}
		}
	}
	return r
}

var folding = strings.NewReplacer("-", "", "_", "", ".", "")

func fold(name string) string { return folding.Replace(strings.ToLower(name)) }

var (
	secretNames = []string{
		"authorization", "proxyauthorization", "cookie", "setcookie", "credentials", "credential", "passwd", "privatekey", "clientassertion",
	}
	secretEnds = []string{"token", "secret", "password", "apikey", "accesskey"}
	openEnds   = []string{"pagetoken"} // of lists: they open nothing by themselves
	// signatures, in a URL, are what opens it. Elsewhere they are public.
	signatures = []string{"sig", "signature", "xamzsignature", "xgoogsignature", "key"}
)

// secret reports whether what goes under a name is a secret.
func (r *redactor) secret(name string) bool {
	name = fold(name)
	if slices.Contains(secretNames, name) || slices.Contains(r.names, name) {
		return true
	}
	ends := func(with []string) bool {
		return slices.ContainsFunc(with, func(end string) bool { return strings.HasSuffix(name, end) })
	}
	return ends(secretEnds) && !ends(openEnds)
}

// header returns h without secrets, and the secrets. Of a credential its scheme is left.
func (r *redactor) header(h http.Header) (clean http.Header, secrets []string) {
	if h == nil {
		return nil, nil
	}
	clean = make(http.Header, len(h))
	for name, values := range h {
		if !r.secret(name) {
			for _, v := range values {
				clean[name] = append(clean[name], string(r.query([]byte(v))))
			}
			continue
		}
		for _, v := range values {
			scheme, credential, ok := strings.Cut(v, " ")
			if !ok || !strings.HasSuffix(fold(name), "authorization") {
				scheme, credential = "", v
			}
			clean[name] = append(clean[name], strings.TrimSpace(scheme+" "+blot))
			secrets = append(secrets, credential)
		}
	}
	return clean, secrets
}

// parameter is a query parameter, or one of a form, with what comes before its value.
var parameter = regexp.MustCompile(`([?&;]|^)([A-Za-z0-9_.\-]+)=([^&;"'<>\s\\#]+)`)

// userinfo is what stands before the host of a URL.
var userinfo = regexp.MustCompile(`(://)[^/@\s"\\]+@`)

// query blots out the secrets in the URLs within b.
func (r *redactor) query(b []byte) []byte {
	if bytes.Contains(b, []byte("://")) {
		b = userinfo.ReplaceAll(b, []byte("${1}"+blot+"@"))
	}
	if bytes.IndexByte(b, '=') < 0 {
		return b
	}
	return parameter.ReplaceAllFunc(b, func(m []byte) []byte {
		parts := parameter.FindSubmatch(m)
		if name := string(parts[2]); !r.secret(name) && !slices.Contains(signatures, fold(name)) {
			return m
		}
		return slices.Concat(parts[1], parts[2], []byte("="+blot))
	})
}

// address returns a URL without secrets.
func (r *redactor) address(u string) string { return string(r.query([]byte(u))) }

// minLiteral is the length from which a secret is looked for wherever it stands: a shorter one would be found in words.
const minLiteral = 8

func literals(b []byte, secrets []string) []byte {
	for _, s := range secrets {
		if len(s) >= minLiteral {
			b = bytes.ReplaceAll(b, []byte(s), []byte(blot))
		}
	}
	return b
}

// body returns a body, or the data of a frame, without secrets.
func (r *redactor) body(b []byte, contentType string, secrets []string) []byte {
	if len(b) == 0 {
		return b
	}
	if t, _, _ := mime.ParseMediaType(contentType); t != "application/x-www-form-urlencoded" {
		b = r.json(b)
	}
	return literals(r.query(b), secrets)
}

// json blots out the values of secret members in what may be JSON, whole or broken. An object under a secret name is
// looked into like any other: a card has schemes that are called apiKey.
func (r *redactor) json(b []byte) []byte {
	var out []byte
	done, list := 0, 0 // list: how deep in a list of secrets
	replace := func(from, to int, with string) {
		out = append(append(out, b[done:from]...), with...)
		done = to
	}
	hidden := false // the next value is a secret
	for i := 0; i < len(b); {
		if !hidden && list == 0 { // nothing but a name matters
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				break
			}
			i += n
		}
		switch c := b[i]; {
		case c == '"':
			end := stringEnd(b, i)
			if next := skipSpace(b, end); next < len(b) && b[next] == ':' {
				hidden, list, i = r.secretKey(b[i:end]), 0, next+1
				continue
			}
			if hidden || list > 0 {
				replace(i, end, `"`+blot+`"`)
			}
			hidden, i = false, end
		case hidden && (c == '-' || c >= '0' && c <= '9'):
			end := i + 1
			for end < len(b) && bytes.IndexByte([]byte("0123456789+-.eE"), b[end]) >= 0 {
				end++
			}
			replace(i, end, "0")
			hidden, i = false, end
		case c == '[' && (hidden || list > 0):
			hidden, list, i = false, list+1, i+1
		case c == ']' && list > 0:
			list, i = list-1, i+1
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' && list > 0:
			i++
		default:
			if c == '{' {
				list = 0
			}
			hidden, i = false, i+1
		}
	}
	if done == 0 {
		return b
	}
	return append(out, b[done:]...)
}

func (r *redactor) secretKey(quoted []byte) bool {
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		name = strings.Trim(string(quoted), `"`)
	}
	return r.secret(name)
}

// stringEnd returns where the string that begins at i is over.
func stringEnd(b []byte, i int) int {
	for from := i + 1; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return len(b)
		}
		end := from + n
		escapes := 0
		for end-1-escapes > i && b[end-1-escapes] == '\\' {
			escapes++
		}
		if from = end + 1; escapes%2 == 0 {
			return from
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// message returns a gRPC message without secrets. ok is false where it cannot be read, so that a secret in it would not
// be found.
func (r *redactor) message(operation string, answer bool, b []byte, secrets []string) (clean []byte, ok bool) {
	return editMessage(operation, answer, b, func(_ protoreflect.Name, name, s string) string {
		if r.secret(name) {
			return blot
		}
		return string(literals(r.query([]byte(s)), secrets))
	})
}
