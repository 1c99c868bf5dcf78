// Package jsonrpc is the JSON-RPC binding (specification section 9): one HTTP endpoint, JSON-RPC 2.0, and event
// streams.
package jsonrpc

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/jsonx"
	"github.com/parley-a2a/parley/internal/op"
)

// Options are the settings of a handler.
type Options = httpx.Options

// NewHandler returns a handler that serves svc at whatever path it is mounted.
//
// Errors are JSON-RPC errors with HTTP status 200, except those of the transport (such as
// [a2a.ErrUnauthenticated]), which have their own HTTP status too. A request without an id is run and answered
// with HTTP status 204, whatever comes of it.
func NewHandler(svc a2a.Service, opts Options) http.Handler {
	return httpx.NewHandler(svc, opts, a2a.BindingJSONRPC, func() httpx.Call { return new(call) })
}

// call is one JSON-RPC request.
type call struct {
	id     []byte // as it came; nil while it is not known, and for a notification
	method string
	params []byte
}

func (c *call) Serve(x *httpx.Exchange) error {
	if err := x.Authenticate(); err != nil {
		return err
	}
	if x.Request.Method != http.MethodPost {
		return x.MethodNotAllowed(http.MethodPost)
	}
	body, err := x.ReadBody()
	if err != nil {
		return err
	}
	if err := c.parse(body); err != nil {
		return err
	}
	o, req, err := c.prepare(x)
	x.FreeBody()
	switch {
	case c.id != nil && err == nil:
		return x.Run(o, req)
	case c.id != nil:
		return err
	case err == nil:
		x.RunUnheard(o, req)
	default:
		x.Unheard(err)
	}
	return nil
}

// prepare finds the operation and reads its input.
func (c *call) prepare(x *httpx.Exchange) (*op.Op, op.Message, error) {
	o := op.ByName(c.method)
	if o == nil {
		return nil, nil, unknownMethod(c.method)
	}
	if err := x.Begin(o); err != nil {
		return nil, nil, err
	}
	req := o.NewRequest()
	switch {
	case c.params == nil:
		return o, req, nil
	case c.params[0] != '{' && c.params[0] != 'n':
		return nil, nil, a2a.InvalidField("params", "must be an object")
	}
	return o, req, req.UnmarshalJSON(c.params)
}

var readers = sync.Pool{New: func() any { return new(jsonx.Reader) }}

const maxID = 1024 // bytes of an id; it stands in every event of a stream

// parse reads the envelope. What is wrong with a member is kept until the end, so that an error has the id of
// its request wherever that stands.
func (c *call) parse(body []byte) error {
	r := readers.Get().(*jsonx.Reader) //nolint:forcetypeassert // the pool holds nothing else
	defer readers.Put(r)
	r.Reset(body, jsonx.MaxDepth+1) // the params are one level down
	defer r.Reset(nil, 0)
	switch r.Kind() {
	case '{':
	case '[':
		if err := jsonx.Valid(body); err != nil {
			return envelopeError(err)
		}
		return a2a.Errorf(a2a.ErrInvalidRequest, "batches are not supported: send one request at a time")
	default:
		if err := jsonx.Valid(body); err != nil {
			return envelopeError(err)
		}
		return a2a.Errorf(a2a.ErrInvalidRequest, "a request is a JSON object")
	}
	var id, version []byte
	var wrong error
	for name := range r.Fields() {
		switch kind := r.Kind(); name {
		case "jsonrpc":
			version = r.Raw()
		case "id":
			if id = r.Raw(); kind == '{' || kind == '[' || kind == 't' || kind == 'f' {
				wrong = a2a.Errorf(a2a.ErrInvalidRequest, "id must be a string, a number or null")
			} else if len(id) > maxID {
				wrong = a2a.Errorf(a2a.ErrInvalidRequest, "id is over the limit of %d bytes", maxID)
			}
			if wrong != nil {
				id = null
			}
		case "method":
			if kind == '"' {
				c.method = r.String()
			}
		case "params":
			c.params = r.Raw()
		}
	}
	err := envelopeError(r.End())
	switch {
	case err != nil:
		wrong = err
	case wrong != nil:
	case string(version) != `"2.0"`:
		wrong = a2a.Errorf(a2a.ErrInvalidRequest, `jsonrpc must be "2.0"`)
	case c.method == "":
		wrong = a2a.Errorf(a2a.ErrInvalidRequest, "method must be a string that names an operation")
	}
	if wrong != nil && (id == nil || errors.Is(wrong, a2a.ErrParse)) {
		id = null
	}
	c.id = bytes.Clone(id)
	return wrong
}

var null = []byte("null")

// envelopeError returns an error of the reader as one of JSON-RPC: the bytes are no JSON, or a name is there
// twice, in the request or further inside.
func envelopeError(err error) error {
	if err == nil {
		return nil
	}
	var e *jsonx.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Syntax {
		return a2a.Errorf(a2a.ErrParse, "%s", e.Error())
	}
	if field, ok := strings.CutPrefix(e.Path, "params."); ok {
		return a2a.InvalidField(field, "%s", e.Msg)
	}
	return a2a.Errorf(a2a.ErrInvalidRequest, "%s", e.Error())
}

// oldNames are the methods of protocol version 0.3, for callers who still send them.
var oldNames = map[string]string{
	"message/send":                        "SendMessage",
	"message/stream":                      "SendStreamingMessage",
	"tasks/get":                           "GetTask",
	"tasks/list":                          "ListTasks",
	"tasks/cancel":                        "CancelTask",
	"tasks/resubscribe":                   "SubscribeToTask",
	"tasks/pushNotificationConfig/set":    "CreateTaskPushNotificationConfig",
	"tasks/pushNotificationConfig/get":    "GetTaskPushNotificationConfig",
	"tasks/pushNotificationConfig/list":   "ListTaskPushNotificationConfigs",
	"tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
	"agent/getAuthenticatedExtendedCard":  "GetExtendedAgentCard",
}

func unknownMethod(name string) error {
	if now, ok := oldNames[name]; ok {
		return a2a.Errorf(a2a.ErrMethodNotFound,
			`method %q is of protocol version 0.3; this agent speaks %s: call %q and send the header "%s: %s"`,
			name, a2a.Version, now, a2a.VersionHeader, a2a.Version)
	}
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return a2a.Errorf(a2a.ErrMethodNotFound, "there is no method %q", name)
}

func (c *call) Envelope() (before, after []byte) {
	before = make([]byte, 0, 48+len(c.id))
	return append(c.begin(before), `,"result":`...), closing
}

var closing = []byte("}")

func (c *call) begin(b []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if c.id == nil {
		return append(b, null...)
	}
	return append(b, c.id...)
}

func (c *call) AppendError(b []byte, e *a2a.Error) []byte {
	b = append(c.begin(b), `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(e.Code.RPC()), 10)
	b = append(b, `,"message":`...)
	b = jsonx.AppendString(b, e.Error())
	b = append(b, `,"data":`...)
	b = httpx.AppendDetails(b, e)
	return append(b, '}', '}')
}

func (c *call) ErrorStatus(e *a2a.Error) int {
	if transport := e.Code <= -31000 && e.Code > -32000; transport {
		return e.Code.HTTP()
	}
	return http.StatusOK
}

func (c *call) MediaType(*a2a.Error) string { return httpx.MediaTypeJSON }
