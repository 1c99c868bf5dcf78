// Package rest is the HTTP+JSON binding (specification section 11): a path and an HTTP method for each
// operation, and event streams.
package rest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/jsonx"
	"github.com/parley-a2a/parley/internal/op"
)

// Options are the settings of a handler.
type Options = httpx.Options

// NewHandler returns a handler that serves svc. It takes paths such as /message:send and
// /{tenant}/tasks/{id}:cancel, below Options.Prefix.
//
// SubscribeToTask answers to GET, as the proto has it, and to POST. Answers are application/a2a+json, or
// application/json to a caller that accepts or sends only that.
func NewHandler(svc a2a.Service, opts Options) http.Handler {
	return httpx.NewHandler(svc, opts, a2a.BindingREST, func() httpx.Call { return &call{prefix: opts.Prefix} })
}

// call is one REST request.
type call struct {
	prefix  string
	request *http.Request
}

func (c *call) Serve(x *httpx.Exchange) error {
	r := x.Request
	c.request = r
	var m match
	var allowed []string
	if path, ok := strings.CutPrefix(r.URL.EscapedPath(), c.prefix); ok {
		m, allowed = find(r.Method, path)
	}
	if m.op != nil {
		x.Info.Operation = m.op.Name // for whoever records that the caller was refused
	}
	if err := x.Authenticate(); err != nil {
		return err
	}
	switch {
	case m.op == nil && allowed != nil:
		return x.MethodNotAllowed(allowed...)
	case m.op == nil:
		return a2a.Errorf(a2a.ErrMethodNotFound, "there is no operation at this path")
	}
	if err := x.Begin(m.op); err != nil {
		return err
	}
	req := m.op.NewRequest()
	if r.Method == http.MethodPost {
		if err := readBody(x, req); err != nil {
			return err
		}
	}
	if err := readURL(r, m, req); err != nil {
		return err
	}
	return x.Run(m.op, req)
}

// readBody reads the body into req. No body says nothing, like an empty object; whether the operation needs
// more is for the service to say.
func readBody(x *httpx.Exchange, req op.Message) error {
	body, err := x.ReadBody()
	if err != nil || len(body) == 0 {
		return err
	}
	err = req.UnmarshalJSON(body)
	x.FreeBody()
	return err
}

// readURL reads the query and the fields of the path into req, which may have some of them from the body.
func readURL(r *http.Request, m match, req op.Message) error {
	fields := m.fields
	if r.URL.RawQuery != "" {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return a2a.Errorf(a2a.ErrInvalidParams, "the query is not URL-encoded").WithCause(err)
		}
		if r.Method != http.MethodPost {
			if err := readQuery(query, m.op.Query, req); err != nil {
				return err
			}
		}
		tenant, ok, err := param(query, "tenant")
		if err != nil {
			return err
		}
		if ok {
			fields = append(fields, field{"tenant", tenant})
		}
	}
	for _, f := range fields {
		if err := settle(req, f); err != nil {
			return err
		}
	}
	return nil
}

// settle sets a field from the URL. What the request says otherwise must agree.
func settle(req op.Message, f field) error {
	at := op.Field(req, f.name)
	switch {
	case !utf8.ValidString(f.value):
		return a2a.InvalidField(f.name, "is not UTF-8")
	case *at != "" && *at != f.value:
		return a2a.InvalidField(f.name, "is %q in one place of the request and %q in another", *at, f.value)
	}
	*at = f.value
	return nil
}

// readQuery makes the query a JSON object and reads that, so that its rules are those of a body. Parameters
// that are not of the operation are passed over.
func readQuery(query url.Values, names []string, req op.Message) error {
	b := []byte{'{'}
	for _, name := range names {
		value, ok, err := param(query, name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(jsonx.AppendString(b, name), ':')
		if isBool := name == "includeArtifacts"; isBool && (value == "true" || value == "false") {
			b = append(b, value...)
		} else {
			b = jsonx.AppendString(b, value) // numbers may stand in quotes
		}
	}
	return req.UnmarshalJSON(append(b, '}'))
}

// param returns the parameter of the given name, written in camelCase or in snake_case.
func param(query url.Values, name string) (value string, ok bool, err error) {
	values := query[name]
	if snake := snakeCase(name); snake != name {
		values = append(values[:len(values):len(values)], query[snake]...)
	}
	switch {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", false, a2a.InvalidField(name, "is in the query more than once")
	case !utf8.ValidString(values[0]):
		return "", false, a2a.InvalidField(name, "is not UTF-8")
	}
	return values[0], true, nil
}

func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (c *call) Envelope() (before, after []byte) { return nil, nil }

func (c *call) AppendError(b []byte, e *a2a.Error) []byte {
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(e.Code.HTTP()), 10)
	b = append(b, `,"status":"`...)
	b = append(b, e.Code.Status().String()...)
	b = append(b, `","message":`...)
	b = jsonx.AppendString(b, e.Error())
	b = append(b, `,"details":`...)
	b = httpx.AppendDetails(b, e)
	return append(b, '}', '}')
}

func (c *call) ErrorStatus(e *a2a.Error) int { return e.Code.HTTP() }

// MediaType is the protocol's own (specification 11.1), or plain JSON if that is what the caller accepts or
// sent. An error, which is a google.rpc.Status, is plain JSON unless the caller accepts the protocol's: the
// official kit and the clients of other SDKs read no other.
func (c *call) MediaType(e *a2a.Error) string {
	accept, sent := strings.Join(c.request.Header["Accept"], ","), c.request.Header.Get("Content-Type")
	switch {
	case strings.Contains(accept, httpx.MediaTypeA2A):
		return httpx.MediaTypeA2A
	case e != nil, strings.Contains(accept, httpx.MediaTypeJSON), strings.HasPrefix(sent, httpx.MediaTypeJSON):
		return httpx.MediaTypeJSON
	}
	return httpx.MediaTypeA2A
}
