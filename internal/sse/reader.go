package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// DefaultMaxEvent is the size of a line or an event, in bytes, that [Read] takes where nothing else is said.
const DefaultMaxEvent = 64 << 20

const (
	chunkSize = 16 << 10
	keepLimit = 1 << 20 // a larger buffer is not kept for the next event
)

// Event is one event of a stream.
type Event struct {
	// ID is the event's own id field. (The standard lets an event without one inherit the last; here it is
	// empty.)
	ID string
	// Type is the event field; empty means "message".
	Type string
	// Data is the event's data. It is valid until the next event is asked for.
	Data []byte
}

// TooLargeError says that a line or an event is over the limit of [Read].
type TooLargeError struct {
	Limit int // bytes
}

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("an event of the stream is over the limit of %d bytes", e.Limit)
}

// Read returns the events of the stream r. It reads the whole of the format: comments, the three line ends,
// a byte order mark, fields without a space or without a colon, data of several lines. An event that the
// stream ends within is not an event.
//
// A line or an event over maxEvent bytes (zero: [DefaultMaxEvent]) is a [*TooLargeError], and an error of r
// is yielded as it is; both end the sequence.
func Read(r io.Reader, maxEvent int) iter.Seq2[Event, error] {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return func(yield func(Event, error) bool) {
		p := parser{max: maxEvent, yield: yield}
		chunk := make([]byte, chunkSize)
		for {
			n, err := r.Read(chunk)
			if !p.feed(chunk[:n]) {
				return
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

type parser struct {
	max   int
	yield func(Event, error) bool

	line    []byte // what earlier chunks had of the current line
	afterCR bool   // a line feed here belongs to the line end before
	begun   bool   // the first line is over

	event   Event
	data    []byte
	hasData bool
}

// feed takes the next bytes, wherever they were cut. It returns false when the sequence is over.
func (p *parser) feed(b []byte) bool {
	for len(b) > 0 {
		if p.afterCR && b[0] == '\n' {
			b = b[1:]
		}
		p.afterCR = false
		n := indexEOL(b)
		if n < 0 {
			return p.hold(b)
		}
		line := b[:n]
		if len(p.line) > 0 {
			if !p.hold(line) {
				return false
			}
			line = p.line
		} else if len(line) > p.max {
			return p.tooLarge()
		}
		p.afterCR = b[n] == '\r'
		b = b[n+1:]
		if !p.endLine(line) {
			return false
		}
		p.line = recycle(p.line)
	}
	return true
}

func (p *parser) hold(b []byte) bool {
	if len(b) > p.max-len(p.line) {
		return p.tooLarge()
	}
	p.line = append(p.line, b...)
	return true
}

func (p *parser) tooLarge() bool {
	p.yield(Event{}, &TooLargeError{Limit: p.max})
	return false
}

var byteOrderMark = []byte("\ufeff")

func (p *parser) endLine(line []byte) bool {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		return p.dispatch()
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		return p.addData(value)
	case "event":
		p.event.Type = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.event.ID = string(value)
		}
	}
	return true // a comment has an empty name; retry and what is unknown say nothing to us
}

func (p *parser) addData(value []byte) bool {
	if len(value) >= p.max-len(p.data) {
		return p.tooLarge()
	}
	if p.hasData {
		p.data = append(p.data, '\n')
	}
	p.hasData = true
	p.data = append(p.data, value...)
	return true
}

func (p *parser) dispatch() bool {
	ev, has := p.event, p.hasData
	p.event, p.hasData = Event{}, false
	if !has {
		return true
	}
	ev.Data = p.data
	ok := p.yield(ev, nil)
	p.data = recycle(p.data)
	return ok
}

func recycle(b []byte) []byte {
	if cap(b) > keepLimit {
		return nil
	}
	return b[:0]
}
