package jsonrpc

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/jsonx"
	"github.com/parley-a2a/parley/internal/op"
)

// ClientOptions are the settings of a client.
type ClientOptions = httpx.ClientOptions

// NewClient returns the Service that is served at url, the URL of an interface of an agent card. It makes no
// connection yet.
//
// The CallInfo of a call's context is sent: Version (empty: [a2a.Version]), Extensions, and Header in addition
// to the client's own headers; Activated is filled in. The CallInfo of a request that a handler received (it has
// a Peer) is sent without its Header, since what a caller sent to this host is not for the next one.
//
// Errors are [*a2a.Error]. [a2a.ErrUnavailable] is also a connection that could not be made or that broke,
// [a2a.ErrInvalidAgentResponse] an answer that is not what the protocol asks for, and the end of the context is
// found with errors.Is.
func NewClient(url string, opts ClientOptions) a2a.Service {
	return httpx.NewClient(&client{url: url}, opts)
}

type client struct {
	url    string
	lastID atomic.Int64
}

func (c *client) Request(ctx context.Context, o *op.Op, req op.Message) (*http.Request, httpx.Unwrap, error) {
	id := strconv.FormatInt(c.lastID.Add(1), 10)
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"`...)
	body = append(body, o.Name...)
	body = append(body, `","params":`...)
	body = append(req.AppendJSON(body), '}')
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, a2a.Errorf(a2a.ErrInvalidParams, "the agent's URL cannot be used: %s", err.Error())
	}
	r.Header.Set("Content-Type", httpx.MediaTypeJSON)
	r.Header.Set("Accept", httpx.MediaTypeJSON)
	unwrap := func(answer *http.Response, data []byte) ([]byte, error) { return unwrap(answer, data, id) }
	return r, unwrap, nil
}

// unwrap returns the result of a response to the request with the given id.
func unwrap(answer *http.Response, data []byte, id string) ([]byte, error) {
	r := jsonx.NewReplyReader(data)
	var version, gotID, result []byte
	var failure *httpx.WireError
	if r.Kind() == '{' {
		for name := range r.RawFields() {
			switch name {
			case "jsonrpc":
				version = r.Raw()
			case "id":
				gotID = r.Raw()
			case "result":
				result = r.Raw()
			case "error":
				if r.Kind() == '{' {
					failure = httpx.ReadError(r)
				}
			}
		}
	} else {
		r.Skip()
	}
	err := r.End()
	if failure != nil && string(result) == "null" {
		result = nil // some servers always write both
	}
	switch isResponse := err == nil && version != nil && (result != nil || failure != nil); {
	case !isResponse && answer.StatusCode != http.StatusOK:
		return nil, httpx.PlainError(answer, data)
	case err != nil:
		return nil, httpx.InvalidAnswer("%s: %s", err.Error(), httpx.Excerpt(data))
	case string(version) != `"2.0"`:
		return nil, httpx.InvalidAnswer(`it is no JSON-RPC 2.0 response: %s`, httpx.Excerpt(data))
	case (result != nil) == (failure != nil):
		return nil, httpx.InvalidAnswer("a response has exactly one of result and error: %s", httpx.Excerpt(data))
	case string(gotID) != id && (failure == nil || string(gotID) != "null"):
		return nil, httpx.InvalidAnswer("it has the id %s, the request had %s", httpx.Excerpt(gotID), id)
	case failure != nil:
		return nil, failure.Error(failure.CodeOfRPC(), answer)
	}
	return result, nil
}
