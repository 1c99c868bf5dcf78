// Package jsonx reads and writes JSON for package a2a and the JSON bindings: one pass over bytes in hand, no
// reflection.
//
// A [Reader] is strict: it takes exactly RFC 8259 in UTF-8, no deeper than a limit, and refuses an object in
// which two names are the same, at whatever place, because two parsers could read two meanings from it.
// Its errors are sticky: after the first, every method returns a zero value and every loop ends, so that
// decoding code asks once, at [Reader.End]:
//
//	r := jsonx.NewReader(b)
//	for name := range r.Fields() {
//		switch name {
//		case "taskId":
//			id = r.String()
//		case "parts":
//			for range r.Elems() {
//				parts = append(parts, decodePart(r))
//			}
//		}
//	}
//	return r.End()
package jsonx

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested, the outermost counted as 1.
const MaxDepth = 64

// MaxReplyDepth is MaxDepth for what holds values that were read before: answers, events, stored tasks. A value of
// MaxDepth stands deeper there, because more messages are around it, and must still be read.
const MaxReplyDepth = MaxDepth + 16

// Error says what is wrong with an input, and where.
type Error struct {
	Syntax bool   // true: not JSON, or deeper than the limit; false: JSON of the wrong shape
	Offset int    // of the byte or the value that is wrong
	Path   string // of the innermost value around Offset, such as message.parts[0].text; empty at the top
	Msg    string // what is wrong
}

// Error returns the place and what is wrong there.
func (e *Error) Error() string {
	switch {
	case e.Syntax:
		return "invalid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Msg
	case e.Path == "":
		return e.Msg
	}
	return e.Path + ": " + e.Msg
}

// Valid returns nil if b is one JSON value that a Reader takes.
func Valid(b []byte) error {
	r := NewReader(b)
	r.Skip()
	return r.End()
}

// InDoubles reports whether a double holds every number of b, which is valid JSON: it may be rounded, but not infinite. A
// google.protobuf.Value, which structured content is on gRPC, and RFC 8785 have no other numbers.
func InDoubles(b []byte) bool {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case c >= '0' && c <= '9':
			end := scanNumber(b, i)
			if end < 0 { // not JSON
				return false
			}
			if _, err := strconv.ParseFloat(string(b[i:end]), 64); err != nil {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// fail records the first error and moves to the end, where nothing more can be read. An input that is not
// JSON is called so wherever the bad byte stands, hence the second look at an input of the wrong shape.
func (r *Reader) fail(syntax bool, offset int, msg string) {
	if r.err != nil {
		return
	}
	r.pos = len(r.src)
	r.err = &Error{Syntax: syntax, Offset: offset, Msg: msg}
	if r.probe {
		return
	}
	if !syntax {
		v := Reader{src: r.src, maxDepth: r.maxDepth, probe: true}
		v.Skip()
		v.atEnd()
		if v.err != nil {
			r.err, r.raw = v.err, 0
		}
	}
	r.err.Path = r.path(r.err.Offset)
}

// Fail records an error about the value that was read last, or that is about to be read in the body of a
// loop. After a loop it is about the object or array that the loop went through.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.fail(false, r.last, fmt.Sprintf(format, args...))
	}
}

// unexpected records a syntax error at the byte in hand.
func (r *Reader) unexpected(want string) {
	if r.err != nil {
		return
	}
	if r.pos >= len(r.src) {
		r.fail(true, len(r.src), "unexpected end, "+want+" is missing")
		return
	}
	r.fail(true, r.pos, "unexpected "+quoteByte(r.src[r.pos])+", want "+want)
}

func quoteByte(c byte) string {
	if c < ' ' || c >= utf8.RuneSelf {
		return fmt.Sprintf("byte 0x%02x", c)
	}
	return strconv.QuoteRune(rune(c))
}

// mismatch records that the next value is not what was wanted, or that there is no value.
func (r *Reader) mismatch(want string) {
	if r.err != nil {
		return
	}
	at, got := r.pos, kindName(r.next())
	if got == "" {
		r.unexpected("a value")
		return
	}
	r.fail(false, at, "must be "+want+", not "+got)
}

func kindName(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return "a number"
	}
	return ""
}

const (
	maxPath = 256 // bytes of a path in an error
	maxName = 64  // bytes of one name in it
)

// level is an array or object that is open at the place of an error.
type level struct {
	array bool
	index int    // of the element
	name  string // of the member; empty until there is one
	named bool
}

// path walks the input once more, up to offset, which was read before and so is sound.
func (r *Reader) path(offset int) string {
	var open []level
	for i := 0; i < offset; i++ {
		top := len(open) - 1
		switch r.src[i] {
		case '{', '[':
			open = append(open, level{array: r.src[i] == '['})
		case '}', ']':
			open = open[:max(top, 0)]
		case ',':
			if top >= 0 {
				open[top].index++
				open[top].named = false
			}
		case '"':
			s := Reader{src: r.src, pos: i, probe: true}
			text := s.text()
			if s.err != nil || s.pos > offset {
				i = offset
				break
			}
			if top >= 0 && !open[top].array && !open[top].named {
				open[top].named = true
				open[top].name = string(text)
				if top < MaxDepth && r.raw&(1<<top) == 0 {
					open[top].name = canonical(open[top].name)
				}
			}
			i = s.pos - 1
		}
	}
	return joinPath(open)
}

func joinPath(open []level) string {
	var b strings.Builder
	for _, l := range open {
		switch {
		case l.array:
			fmt.Fprintf(&b, "[%d]", l.index)
		case !l.named:
		case !plainName(l.name):
			fmt.Fprintf(&b, "[%q]", clip(l.name, maxName))
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(l.name)
		}
	}
	return clip(b.String(), maxPath)
}

// plainName reports whether a name can stand in a path without quotes.
func plainName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && c != '-' && c != '$' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// clip returns at most n bytes of s and does not cut a character in two.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// canonical returns the lowerCamelCase form of a snake_case name, as ProtoJSON makes JSON names, and any other
// name as it is.
func canonical(name string) string {
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '_' && i > 0 && i+1 < len(name) && 'a' <= name[i+1] && name[i+1] <= 'z':
			i++
			c = name[i] - 'a' + 'A'
		default:
			return name
		}
		out = append(out, c)
	}
	return string(out)
}
