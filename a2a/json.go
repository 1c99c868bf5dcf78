package a2a

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-a2a/parley/internal/jsonx"
	"github.com/parley-a2a/parley/internal/single"
)

// Every message has three methods. AppendJSON appends its JSON to a buffer, MarshalJSON returns it for
// encoding/json, and UnmarshalJSON reads it: only the fields that are there and not null are set, each of
// them whole. An error of UnmarshalJSON is an [*Error]: [ErrParse] for bytes that are not JSON, otherwise
// [ErrInvalidParams] with the field's path. After an error the message may be filled in part.

// decoder is a message that reads itself: the object that is next.
type decoder interface{ decode(r *jsonx.Reader) }

var readers = sync.Pool{New: func() any { return new(jsonx.Reader) }}

// unmarshal reads a message, also one that holds what was read before (see [jsonx.MaxReplyDepth]).
func unmarshal(b []byte, m decoder) error { return read(b, jsonx.MaxReplyDepth, m) }

// unmarshalRequest reads a message that comes from outside as it is.
func unmarshalRequest(b []byte, m decoder) error { return read(b, jsonx.MaxDepth, m) }

func read(b []byte, maxDepth int, m decoder) error {
	r := readers.Get().(*jsonx.Reader)
	r.Reset(b, maxDepth)
	m.decode(r)
	err := r.End()
	r.Reset(nil, 0)
	readers.Put(r)
	return jsonError(err)
}

// jsonError returns an error of a reader as an error of the protocol.
func jsonError(err error) error {
	if err == nil {
		return nil
	}
	var e *jsonx.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Syntax {
		return &Error{Code: ErrParse, Message: e.Error()}
	}
	return &Error{Code: ErrInvalidParams, Message: e.Error(), Violations: []FieldViolation{{e.Path, e.Msg}}}
}

// message is a pointer to a message of type T.
type message[T any] interface {
	*T
	decode(r *jsonx.Reader)
	AppendJSON(b []byte) []byte
}

func decodeNew[T any, P message[T]](r *jsonx.Reader) P {
	m := P(new(T))
	m.decode(r)
	return m
}

func decodeList[T any, P message[T]](r *jsonx.Reader) []*T {
	var out []*T
	for range r.Elems() {
		if r.Kind() == 'n' { // a nil among the elements would be a trap for whoever ranges over them
			r.Fail("must be an object, not null")
			break
		}
		if out == nil {
			var zero T
			out = single.Of(zero)
			P(out[0]).decode(r)
			continue
		}
		out = append(out, decodeNew[T, P](r))
	}
	return out
}

func decodeStrings(r *jsonx.Reader) []string {
	var out []string
	for range r.Elems() {
		out = append(out, decodeElement(r))
	}
	return out
}

// decodeElement reads a string of a list or a map, where null is not the same as absent.
func decodeElement(r *jsonx.Reader) string {
	if r.Kind() == 'n' {
		r.Fail("must be a string, not null")
	}
	return r.String()
}

func decodeStringMap(r *jsonx.Reader) map[string]string {
	out := map[string]string{}
	for name := range r.RawFields() {
		out[name] = decodeElement(r)
	}
	return out
}

func decodeStruct(r *jsonx.Reader) Struct {
	out := Struct{}
	for name := range r.RawFields() {
		out[name] = bytes.Clone(r.Raw())
	}
	return out
}

func decodeInt32(r *jsonx.Reader) *int32 {
	n := r.Int32()
	return &n
}

func decodeBool(r *jsonx.Reader) *bool {
	v := r.Bool()
	return &v
}

// decodeEnum reads one of the names of an enumeration, or its number.
func decodeEnum(r *jsonx.Reader, names []string) int32 {
	if r.Kind() != '"' {
		n := r.Int32()
		if n < 0 || int(n) >= len(names) {
			r.Fail("unknown value %d", n)
		}
		return n
	}
	text := r.Text()
	for i, name := range names {
		if string(text) == name {
			return int32(i)
		}
	}
	r.Fail("unknown value %q", clip(string(text), 64))
	return 0
}

// appendName appends a member's name, and a comma unless it is the first member.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func appendString(b []byte, name, s string) []byte { return jsonx.AppendString(appendName(b, name), s) }

// appendText appends a string unless it is empty.
func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(b, name, s)
}

func appendEnum(b []byte, name, value string) []byte {
	b = append(appendName(b, name), '"')
	b = append(b, value...)
	return append(b, '"')
}

// appendFlag appends a boolean if it is true.
func appendFlag(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(appendName(b, name), "true"...)
}

func appendBool(b []byte, name string, v *bool) []byte {
	switch {
	case v == nil:
		return b
	case *v:
		return append(appendName(b, name), "true"...)
	}
	return append(appendName(b, name), "false"...)
}

// appendTime appends a time unless it is zero.
func appendTime(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return jsonx.AppendTime(appendName(b, name), t)
}

func appendStringList(b []byte, name string, list []string) []byte {
	b = append(appendName(b, name), '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, s)
	}
	return append(b, ']')
}

// appendStrings appends a list of strings unless it is empty.
func appendStrings(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	return appendStringList(b, name, list)
}

func appendList[T any, P message[T]](b []byte, name string, list []P) []byte {
	b = append(appendName(b, name), '[')
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.AppendJSON(b)
	}
	return append(b, ']')
}

// appendMessages appends a list of messages unless it is empty.
func appendMessages[T any, P message[T]](b []byte, name string, list []P) []byte {
	if len(list) == 0 {
		return b
	}
	return appendList(b, name, list)
}

// appendMessage appends a message unless it is nil.
func appendMessage[T any, P message[T]](b []byte, name string, m P) []byte {
	if m == nil {
		return b
	}
	return m.AppendJSON(appendName(b, name))
}

func appendStringMap(b []byte, name string, m map[string]string) []byte {
	b = append(appendName(b, name), '{')
	var few [8]string
	for _, k := range sortedNames(few[:0], m) {
		b = appendKey(b, k)
		b = jsonx.AppendString(b, m[k])
	}
	return append(b, '}')
}

// appendStruct appends a Struct unless it is nil.
func appendStruct(b []byte, name string, s Struct) []byte {
	if s == nil {
		return b
	}
	b = append(appendName(b, name), '{')
	var few [8]string
	for _, k := range sortedNames(few[:0], s) {
		b = appendKey(b, k)
		b = appendValue(b, s[k])
	}
	return append(b, '}')
}

// sortedNames appends the names of m to names, which is empty, in order.
func sortedNames[V any](names []string, m map[string]V) []string {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendKey is appendName for a name that is data.
func appendKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(jsonx.AppendString(b, key), ':')
}

// appendValue appends a JSON value on one line. No bytes are null.
func appendValue(b, raw []byte) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	return jsonx.AppendCompact(b, raw)
}
