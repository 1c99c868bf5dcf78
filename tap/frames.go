package tap

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parley-a2a/parley/rules"
)

// maxBody is how many bytes of one body, frame or message are recorded. What passes is not bounded by it.
const maxBody = 64 << 20

// framer cuts the body of an answer into frames, as its bytes come.
type framer interface {
	// feed takes the next bytes and calls found for every frame that ends in them.
	feed(b []byte, found func(Frame))
	// end returns what about the framing is not as it should be; empty: nothing.
	end() string
}

// events cuts a stream of server-sent events (WHATWG HTML, 9.2.6).
type events struct {
	line    []byte
	afterCR bool
	begun   bool
	frame   Frame
	hasData bool
	pending bool // fields have come since the last event
	bad     string
	cut     int64
}

var fieldNames = []string{"data", "event", "id", "retry", ""}

func (e *events) feed(b []byte, found func(Frame)) {
	for len(b) > 0 {
		if e.afterCR && b[0] == '\n' {
			b, e.afterCR = b[1:], false
			continue
		}
		e.afterCR = false
		n := bytes.IndexAny(b, "\r\n")
		if n < 0 {
			e.hold(b)
			return
		}
		e.hold(b[:n])
		e.afterCR = b[n] == '\r'
		b = b[n+1:]
		line := e.line
		e.line = e.line[:0]
		e.endLine(line, found)
	}
}

func (e *events) hold(b []byte) {
	if over := len(e.line) + len(e.frame.Data) + len(b) - maxBody; over > 0 {
		e.cut += int64(min(over, len(b)))
		b = b[:max(0, len(b)-over)]
	}
	e.line = append(e.line, b...)
}

func (e *events) endLine(line []byte, found func(Frame)) {
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(line) == 0 {
		if e.hasData {
			found(e.frame)
		}
		e.frame, e.hasData, e.pending = Frame{}, false, false
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case string(name) == "data":
		if e.hasData {
			e.frame.Data = append(e.frame.Data, '\n')
		}
		e.frame.Data, e.hasData = append(e.frame.Data, value...), true
	case string(name) == "event":
		e.frame.Event = string(value)
	case string(name) == "id":
		e.frame.ID = string(value)
	case !slices.Contains(fieldNames, string(name)) && e.bad == "":
		e.bad = "a line that is no field: " + rules.Clip(string(line), 200)
	}
	e.pending = e.pending || len(name) > 0
}

func (e *events) end() string {
	if e.bad == "" && (e.pending || len(e.line) > 0) {
		e.bad = "the stream ends within an event: " + rules.Clip(string(e.frame.Data)+string(e.line), 200)
	}
	return e.bad
}

// messages cuts the body of gRPC: five bytes, flag and length, before every message.
type messages struct {
	encoding string // of compressed messages
	head     []byte
	left     int // of the message that is on its way
	data     []byte
	bad      string
	cut      int64
}

func (m *messages) feed(b []byte, found func(Frame)) {
	for len(b) > 0 && m.bad == "" {
		if len(m.head) < 5 {
			n := min(5-len(m.head), len(b))
			m.head, b = append(m.head, b[:n]...), b[n:]
			if len(m.head) < 5 {
				return
			}
			m.left = int(binary.BigEndian.Uint32(m.head[1:]))
			m.data = nil
		}
		n := min(m.left, len(b))
		m.left -= n
		keep := min(n, maxBody-len(m.data))
		m.data = append(m.data, b[:keep]...)
		m.cut += int64(n - keep)
		b = b[n:]
		m.whole(found)
	}
	m.whole(found) // an empty message has no bytes of its own
}

// whole hands on the message if it is complete.
func (m *messages) whole(found func(Frame)) {
	if m.bad != "" || len(m.head) < 5 || m.left > 0 {
		return
	}
	data := m.data
	switch m.head[0] {
	case 0:
	case 1:
		var err error
		if data, err = decompress(m.encoding, data); err != nil {
			m.bad = "a compressed message: " + err.Error()
			return
		}
	default:
		m.bad = fmt.Sprintf("a message with the flag %d", m.head[0])
		return
	}
	m.head, m.data = m.head[:0], nil
	found(Frame{Data: data})
}

func (m *messages) end() string {
	if m.bad == "" && len(m.head) > 0 {
		m.bad = "it ends within a message"
	}
	return m.bad
}

// decompress undoes a Content-Encoding, or a grpc-encoding, within bounds.
func decompress(encoding string, data []byte) ([]byte, error) {
	switch encoding {
	case "", "identity":
		return data, nil
	case "gzip":
	default:
		return nil, fmt.Errorf("the encoding %q is not read here", rules.Clip(encoding, 40))
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(z, maxBody+1))
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case len(out) > maxBody:
		return nil, errors.New("it is over the limit of what is recorded")
	}
	return out, nil
}
