package rest

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/jsonx"
	"github.com/parley-a2a/parley/internal/op"
)

// ClientOptions are the settings of a client.
type ClientOptions = httpx.ClientOptions

// NewClient returns the Service that is served below baseURL, the URL of an interface of an agent card. It
// makes no connection yet. A request's tenant goes into the path.
//
// The CallInfo of a call's context is sent: Version (empty: [a2a.Version]), Extensions, and Header in addition
// to the client's own headers; Activated is filled in. The CallInfo of a request that a handler received (it has
// a Peer) is sent without its Header, since what a caller sent to this host is not for the next one.
//
// Errors are [*a2a.Error]. [a2a.ErrUnavailable] is also a connection that could not be made or that broke,
// [a2a.ErrInvalidAgentResponse] an answer that is not what the protocol asks for, and the end of the context is
// found with errors.Is.
func NewClient(baseURL string, opts ClientOptions) a2a.Service {
	base, query, _ := strings.Cut(baseURL, "?")
	b := &binding{base: strings.TrimRight(base, "/"), query: query}
	get := *b
	get.subscribe = http.MethodGet
	return &client{Service: httpx.NewClient(b, opts), get: httpx.NewClient(&get, opts)}
}

// client is a Service that can subscribe with either HTTP method.
type client struct {
	a2a.Service             // sends POST, as the specification's text says
	get         a2a.Service // sends GET, as the proto says
}

// SubscribeToTask sends POST, and GET to a server that does not know it so.
func (c *client) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		first := true
		for e, err := range c.Service.SubscribeToTask(ctx, req) {
			if first && err != nil && unknownHere(err) {
				c.get.SubscribeToTask(ctx, req)(yield)
				return
			}
			first = false
			if !yield(e, err) {
				return
			}
		}
	}
}

// unknownHere reports whether a server does not serve a path with the method that was used: HTTP status 405,
// or 404 without an error of the protocol.
func unknownHere(err error) bool {
	switch a2a.AsError(err).Code {
	case a2a.ErrMethodNotAllowed, a2a.ErrMethodNotFound:
		return true
	case a2a.ErrTaskNotFound:
		return !httpx.HasInfo(err)
	default:
		return false
	}
}

// binding writes requests and reads answers.
type binding struct {
	base      string // without a slash at the end
	query     string
	subscribe string // the HTTP method of SubscribeToTask; empty: the table's
}

func (b *binding) Request(ctx context.Context, o *op.Op, req op.Message) (*http.Request, httpx.Unwrap, error) {
	path, err := pathOf(o, req)
	if err != nil {
		return nil, nil, err
	}
	method, query := o.Method, b.query
	var body io.Reader
	switch {
	case o.Name == "SubscribeToTask":
		if b.subscribe != "" {
			method = b.subscribe
		}
	case method == http.MethodPost:
		body = bytes.NewReader(req.AppendJSON(nil))
	default:
		query = joinQuery(query, queryOf(o, req))
	}
	target := b.base + path
	if query != "" {
		target += "?" + query
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, nil, a2a.Errorf(a2a.ErrInvalidParams, "the agent's URL cannot be used: %s", err.Error())
	}
	if body != nil {
		r.Header.Set("Content-Type", httpx.MediaTypeA2A)
	}
	r.Header.Set("Accept", httpx.MediaTypeA2A+", "+httpx.MediaTypeJSON)
	return r, func(answer *http.Response, data []byte) ([]byte, error) { return unwrap(o, answer, data) }, nil
}

// pathOf returns the path of a request, its tenant and its fields filled in.
func pathOf(o *op.Op, req op.Message) (string, error) {
	var b strings.Builder
	if tenant := *op.Field(req, "tenant"); tenant != "" {
		b.WriteString("/" + escape(tenant))
	}
	rest := o.Path
	for {
		literal, after, more := strings.Cut(rest, "{")
		b.WriteString(literal)
		if !more {
			return b.String(), nil
		}
		var name string
		name, rest, _ = strings.Cut(after, "}")
		value := *op.Field(req, name)
		switch value {
		case "":
			return "", a2a.InvalidField(name, "is required")
		case ".", "..":
			return "", a2a.InvalidField(name, "%q cannot be part of a path", value)
		}
		b.WriteString(escape(value))
	}
}

// queryOf returns the request's fields that travel in the query, as its JSON has them.
func queryOf(o *op.Op, req op.Message) string {
	values := url.Values{}
	r := jsonx.NewReader(req.AppendJSON(nil))
	for name := range r.Fields() {
		switch {
		case !slices.Contains(o.Query, name):
		case r.Kind() == '"':
			values.Set(strings.Clone(name), r.String())
		default:
			values.Set(strings.Clone(name), string(r.Raw()))
		}
	}
	return values.Encode()
}

func joinQuery(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "&" + b
}

// unwrap returns an answer or an event of a stream unless it is an error.
func unwrap(o *op.Op, answer *http.Response, data []byte) ([]byte, error) {
	ok := answer.StatusCode < 300
	if ok && len(data) == 0 && o.Name == "DeleteTaskPushNotificationConfig" {
		return []byte("{}"), nil // some servers answer with HTTP status 204
	}
	if ok && !beginsWithError(data) {
		return data, nil
	}
	failure := readError(data)
	switch {
	case failure != nil && ok: // the end of a stream
		return nil, failure.Error(failure.CodeOfREST(int(failure.Code)), answer)
	case failure != nil:
		return nil, failure.Error(failure.CodeOfREST(answer.StatusCode), answer)
	case ok:
		return nil, httpx.InvalidAnswer("an error that cannot be read: %s", httpx.Excerpt(data))
	}
	return nil, httpx.PlainError(answer, data)
}

// beginsWithError reports whether data is an object whose first member is an error, which no result has.
func beginsWithError(data []byte) bool {
	const space = " \t\r\n"
	inner, ok := bytes.CutPrefix(bytes.TrimLeft(data, space), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimLeft(inner, space), []byte(`"error"`))
}

// readError returns the error that an answer holds, or nil.
func readError(data []byte) (failure *httpx.WireError) {
	r := jsonx.NewReplyReader(data)
	if r.Kind() != '{' {
		return nil
	}
	for name := range r.Fields() {
		if name == "error" && r.Kind() == '{' {
			failure = httpx.ReadError(r)
		}
	}
	if r.End() != nil {
		return nil
	}
	return failure
}
