package golden

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// httpConn is what the two HTTP bindings have in common.
type httpConn struct {
	url string
	hc  *http.Client
}

func newHTTP(url string) httpConn {
	return httpConn{url: strings.TrimRight(url, "/"), hc: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

func (c httpConn) Close() { c.hc.CloseIdleConnections() }

// unwrap returns the result in a body or an event, or the error that is there in its place.
type unwrap func(res *http.Response, data []byte) (json.RawMessage, error)

// do sends a request and yields what comes back.
func (c httpConn) do(ctx context.Context, r Request, method, path, body, media string, un unwrap) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		var content io.Reader
		if body != "" {
			content = strings.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
		if err != nil {
			yield(nil, err)
			return
		}
		req.Header = r.header()
		req.Header.Set("Accept", media)
		if body != "" {
			req.Header.Set("Content-Type", media)
		}
		res, err := c.hc.Do(req)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = res.Body.Close() }()
		if t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); t == "text/event-stream" {
			readStream(res, un, yield)
			return
		}
		yield(readBody(r, res, media, un))
	}
}

func readBody(r Request, res *http.Response, media string, un unwrap) (json.RawMessage, error) {
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if got := res.Header.Get("Content-Type"); got != media {
		return nil, fmt.Errorf("HTTP %d with Content-Type %q, want %q: %s", res.StatusCode, got, media, data)
	}
	raw, err := un(res, data)
	if err == nil && isStream(r.Op) {
		return nil, fmt.Errorf("a stream was asked for, and this came: %s", data)
	}
	var e *Error
	if errors.As(err, &e) {
		e.Challenge = res.Header.Values("WWW-Authenticate")
	}
	return raw, err
}

// readStream yields the events of a stream up to its end. The ids of a task's events are consecutive.
func readStream(res *http.Response, un unwrap, yield func(json.RawMessage, error) bool) {
	in := bufio.NewReader(res.Body)
	last := int64(-1)
	for {
		id, data, err := readEvent(in)
		if err == io.EOF { //nolint:errorlint // of readEvent, which does not wrap it
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		raw, err := un(res, []byte(data))
		var e *Error
		if errors.As(err, &e) {
			e.InStream = true
			yield(nil, e)
			return
		}
		if err == nil {
			last, err = checkID(last, id, raw)
		}
		if !yield(raw, err) || err != nil {
			return
		}
	}
}

// checkID returns the number of an event. A task's events are counted without a gap, a message is not counted.
func checkID(last int64, id string, raw json.RawMessage) (int64, error) {
	if id == "" && strings.HasPrefix(string(raw), `{"message":`) {
		return last, nil
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || last >= 0 && n != last+1 {
		return last, fmt.Errorf("an event with id %q after %d: %s", id, last, raw)
	}
	return n, nil
}

// readEvent reads one event of a stream as this host writes it: an id, and its data in one line.
func readEvent(in *bufio.Reader) (id, data string, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if line != "" || data != "" {
				return "", "", fmt.Errorf("the stream ends inside an event: %w", err)
			}
			return "", "", err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && data != "":
			return id, data, nil
		case line == "", strings.HasPrefix(line, ":"):
		case strings.HasPrefix(line, "id: "):
			id = line[len("id: "):]
		case strings.HasPrefix(line, "data: ") && data == "":
			data = line[len("data: "):]
		default:
			return "", "", fmt.Errorf("a line of a stream that is not expected: %q", line)
		}
	}
}

type jsonrpcConn struct {
	httpConn

	lastID atomic.Int64
}

func (c *jsonrpcConn) Do(ctx context.Context, r Request) iter.Seq2[json.RawMessage, error] {
	id := strconv.FormatInt(c.lastID.Add(1), 10)
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":` + strconv.Quote(r.Op) + `,"params":` + r.JSON + `}`
	return c.do(ctx, r, http.MethodPost, "/", body, "application/json", func(res *http.Response, data []byte) (json.RawMessage, error) {
		return unwrapJSONRPC(res, data, id)
	})
}

func unwrapJSONRPC(res *http.Response, data []byte, id string) (json.RawMessage, error) {
	var answer struct {
		JSONRPC string
		ID      json.RawMessage
		Result  json.RawMessage
		Error   *struct {
			Code    int
			Message string
			Data    []json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("HTTP %d: %w: %s", res.StatusCode, err, data)
	}
	early := res.StatusCode != http.StatusOK && string(answer.ID) == "null" // before the request was read
	if answer.JSONRPC != "2.0" || string(answer.ID) != id && !early || (answer.Result == nil) == (answer.Error == nil) {
		return nil, fmt.Errorf("not the response to request %s: %s", id, data)
	}
	if answer.Error == nil {
		return answer.Result, nil
	}
	e := newError(answer.Error.Message, answer.Error.Data)
	want := http.StatusOK
	if e.JSONRPC > -32000 { // errors of the transport have their HTTP status here too
		want = e.HTTP
	}
	e.JSONRPC = answer.Error.Code
	if res.StatusCode != want && res.StatusCode != http.StatusOK {
		e.HTTP = res.StatusCode
	}
	return nil, e
}

// restOp is how an operation travels (specification 5.3).
type restOp struct{ method, path string }

var restOps = map[string]restOp{
	"SendMessage":                      {"POST", "/message:send"},
	"SendStreamingMessage":             {"POST", "/message:stream"},
	"GetTask":                          {"GET", "/tasks/{id}"},
	"ListTasks":                        {"GET", "/tasks"},
	"CancelTask":                       {"POST", "/tasks/{id}:cancel"},
	"SubscribeToTask":                  {"POST", "/tasks/{id}:subscribe"},
	"CreateTaskPushNotificationConfig": {"POST", "/tasks/{taskId}/pushNotificationConfigs"},
	"GetTaskPushNotificationConfig":    {"GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"},
	"ListTaskPushNotificationConfigs":  {"GET", "/tasks/{taskId}/pushNotificationConfigs"},
	"DeleteTaskPushNotificationConfig": {"DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"},
	"GetExtendedAgentCard":             {"GET", "/extendedAgentCard"},
}

type restConn struct{ httpConn }

func (c *restConn) Do(ctx context.Context, r Request) iter.Seq2[json.RawMessage, error] {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(r.JSON), &fields); err != nil {
		return func(yield func(json.RawMessage, error) bool) { yield(nil, fmt.Errorf("the request: %w", err)) }
	}
	o := restOps[r.Op]
	path := "/a2a/rest"
	if tenant, ok := fields["tenant"]; ok {
		path += "/" + url.PathEscape(word(tenant))
		delete(fields, "tenant")
	}
	path += o.path
	for name, value := range fields {
		if at := "{" + name + "}"; strings.Contains(o.path, at) {
			path = strings.Replace(path, at, url.PathEscape(word(value)), 1)
			delete(fields, name)
		}
	}
	body := ""
	if o.method == http.MethodPost {
		b, _ := json.Marshal(fields) // of what was JSON
		body = string(b)
		if strings.Contains(r.JSON, `"message"`) {
			body = r.JSON // to the byte
		}
	} else if len(fields) > 0 {
		query := url.Values{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			query.Set(name, word(fields[name]))
		}
		path += "?" + query.Encode()
	}
	return c.do(ctx, r, o.method, path, body, "application/a2a+json", unwrapREST)
}

// word returns a JSON value as a path or a query has it.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func unwrapREST(res *http.Response, data []byte) (json.RawMessage, error) {
	var answer struct {
		Error *struct {
			Code    int
			Status  string
			Message string
			Details []json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("HTTP %d: %w: %s", res.StatusCode, err, data)
	}
	stream := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	switch {
	case answer.Error == nil && res.StatusCode == http.StatusOK:
		return data, nil
	case answer.Error == nil:
		return nil, fmt.Errorf("HTTP %d without an error: %s", res.StatusCode, data)
	}
	e := newError(answer.Error.Message, answer.Error.Details)
	e.HTTP, e.GRPC = answer.Error.Code, answer.Error.Status
	if !stream && res.StatusCode != answer.Error.Code {
		return nil, fmt.Errorf("HTTP %d with another code in the error: %s", res.StatusCode, data)
	}
	return nil, e
}
