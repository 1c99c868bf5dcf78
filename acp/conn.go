package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/parley-a2a/parley/internal/child"
)

// maxLine is how many bytes a message of the other end may have.
const maxLine = 64 << 20

// message is a JSON-RPC 2.0 request, notification or response: with a method it is one of the former, whatever ids the
// two ends use.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *rpcError       `json:"error"`
}

// check says what is wrong with a message, where it was read from a line with an error or none.
func (m *message) check(line []byte, err error) *rpcError {
	wrong := func(text string) *rpcError { return &rpcError{Code: codeInvalidRequest, Message: text} }
	switch {
	case !utf8.Valid(line) || !json.Valid(line):
		return &rpcError{Code: codeParse, Message: "the line is not JSON in UTF-8: each message is an object on a line of its own"}
	case err != nil:
		return wrong("the line is no message: each is an object on a line of its own, a request with jsonrpc, id, method and params")
	case m.Version != "2.0":
		return wrong(`jsonrpc is not "2.0"`)
	case m.badID():
		return wrong("id is neither a number nor a string")
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return wrong("there is no method, and no result or error either")
	}
	return nil
}

func (m *message) badID() bool { return len(m.ID) > 0 && strings.ContainsRune("{[tf", rune(m.ID[0])) }

// rpcError is the error of a response.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *rpcError) Error() string {
	var data struct{ Details, Message string }
	if json.Unmarshal(e.Data, &data) == nil && data.Details+data.Message != "" {
		return fmt.Sprintf("%s: %s (%d)", e.Message, data.Details+data.Message, e.Code)
	}
	return fmt.Sprintf("%s (%d)", e.Message, e.Code)
}

// Codes of errors.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeAuthRequired   = -32000
	codeNotFound       = -32002
)

// errClosed is what becomes of a request whose answer does not come any more.
var errClosed = errors.New("acp: the connection is closed")

// conn is one end of a connection on which each line is a message. What arrives is handled in order, one message after
// the other, so that a slow reader slows the sender and nothing is dropped.
type conn struct {
	lines *child.Lines
	out   chan []byte
	log   *slog.Logger
	// broken gets the id of a line that is no message, and what is wrong; nil: such a line is ignored, since programs that
	// talk on stdout are not rare.
	broken func(json.RawMessage, *rpcError)
	done   chan struct{} // closed when nothing arrives any more

	mu      sync.Mutex
	next    int64
	pending map[string]func(*message, error)
	err     error // why it is closed
}

// newConn returns a connection. Messages are written to w for as long as run runs.
func newConn(r io.Reader, w io.Writer, log *slog.Logger) *conn {
	c := &conn{
		lines: child.NewLines(r, maxLine), out: make(chan []byte, 16), log: log, done: make(chan struct{}),
		pending: map[string]func(*message, error){},
	}
	go func() {
		for {
			select {
			case b := <-c.out:
				if _, err := w.Write(b); err != nil {
					c.log.Debug("a message could not be written", "err", err)
				}
			case <-c.done:
				return
			}
		}
	}()
	return c
}

// run reads until there is no more, and then fails what waits for an answer. handle gets the requests and the
// notifications; it may block, which the other end feels.
func (c *conn) run(handle func(*message)) {
	err := c.read(handle)
	c.mu.Lock()
	c.err = err
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	close(c.done)
	for _, reply := range pending {
		reply(nil, errClosed)
	}
}

func (c *conn) read(handle func(*message)) error {
	for {
		line, err := c.lines.Next()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			continue
		}
		m := new(message)
		err = json.Unmarshal(line, m)
		if c.broken != nil {
			if why := m.check(line, err); why != nil {
				if m.ID == nil || m.badID() || why.Code == codeParse {
					m.ID = json.RawMessage("null")
				}
				c.broken(m.ID, why)
				continue
			}
		}
		if err != nil {
			c.log.Debug("a line that is no message was ignored", "err", err)
			continue
		}
		if m.Method != "" {
			handle(m)
		} else if reply := c.take(string(m.ID)); reply != nil {
			reply(m, nil)
		} else {
			c.log.Debug("an answer that nobody waits for was ignored", "id", string(m.ID))
		}
	}
}

func (c *conn) take(id string) func(*message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := c.pending[id]
	delete(c.pending, id)
	return reply
}

// why says why the connection is closed.
func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// start sends a request. reply is called once, by the goroutine that reads, after all that arrived before the answer.
func (c *conn) start(ctx context.Context, method string, params any, reply func(*message, error)) error {
	c.mu.Lock()
	if c.pending == nil {
		c.mu.Unlock()
		return errClosed
	}
	c.next++
	id := strconv.FormatInt(c.next, 10)
	c.pending[id] = reply
	c.mu.Unlock()
	err := c.send(ctx, map[string]any{"id": json.RawMessage(id), "method": method, "params": params})
	if err != nil {
		c.take(id)
	}
	return err
}

// call sends a request and waits for its result, which goes into result. Its error may be an *rpcError.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	type answer struct {
		m   *message
		err error
	}
	got := make(chan answer, 1)
	if err := c.start(ctx, method, params, func(m *message, err error) { got <- answer{m, err} }); err != nil {
		return err
	}
	select {
	case a := <-got:
		switch {
		case a.err != nil:
			return a.err
		case a.m.Error != nil:
			return a.m.Error
		}
		if len(a.m.Result) == 0 || string(a.m.Result) == "null" {
			return nil
		}
		return json.Unmarshal(a.m.Result, result)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *conn) notify(ctx context.Context, method string, params any) error {
	return c.send(ctx, map[string]any{"method": method, "params": params})
}

// reply answers a request of the other end.
func (c *conn) reply(ctx context.Context, id json.RawMessage, result any) error {
	return c.send(ctx, map[string]any{"id": id, "result": result})
}

func (c *conn) refuse(ctx context.Context, id json.RawMessage, code int, text string) error {
	return c.send(ctx, map[string]any{"id": id, "error": &rpcError{Code: code, Message: text}})
}

func (c *conn) send(ctx context.Context, m map[string]any) error {
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("acp: a message cannot be written: %w", err)
	}
	select {
	case c.out <- append(b, '\n'):
		return nil
	case <-c.done:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
