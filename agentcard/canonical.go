package agentcard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gowebpki/jcs"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// Canonical returns the canonical form of a card: that of the JSON it is served as.
func Canonical(card *a2a.AgentCard) ([]byte, error) {
	raw, err := cardJSON(card)
	if err != nil {
		return nil, err
	}
	return CanonicalJSON(raw)
}

// CanonicalJSON returns the canonical form of a card, over which its signatures go (specification 8.4.1): JSON by
// RFC 8785 without the signatures, and with the fields' presence settled. A required field is always there, with its
// default if need be; an optional one is there if the card has it; any other is left out if it has its default value.
// Null is absence, and the proto's names count as the JSON names. What is no field of 1.0 stays as it is, so that a
// signature covers it.
//
// A card has no canonical form if it is not JSON, has a name twice in an object, is not UTF-8 throughout, has half of a
// surrogate pair, is nested deeper than 64 levels, or has a number that a double cannot hold: one too large, or a whole
// number, written as such, that would be rounded.
func CanonicalJSON(raw []byte) ([]byte, error) {
	v, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("agentcard: no canonical form: %w", err)
	}
	return canonical(v)
}

// Digest returns the SHA-256 of a card's canonical form in hexadecimal: what a caller pins. It does not change with the
// card's signatures.
func Digest(raw []byte) (string, error) {
	form, err := CanonicalJSON(raw)
	if err != nil {
		return "", err
	}
	return digest(form), nil
}

func digest(form []byte) string {
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:])
}

func canonical(card *value) ([]byte, error) {
	if card.kind != '{' {
		return nil, fmt.Errorf("agentcard: no canonical form: a card is a JSON object, not %s", kindName(card.kind))
	}
	var w writer
	w.message(card.without(signatures), agentCard)
	return w.finish()
}

// without returns an object without one of its members.
func (v *value) without(name string) *value {
	out := &value{kind: v.kind}
	for i, n := range v.names {
		if n != name {
			out.names = append(out.names, n)
			out.items = append(out.items, v.items[i])
		}
	}
	return out
}

// writer writes JSON with the presence of fields settled. What it writes is not in RFC 8785's order yet.
type writer struct {
	b   []byte
	err error // the first
}

func (w *writer) finish() ([]byte, error) {
	if w.err != nil {
		return nil, fmt.Errorf("agentcard: no canonical form: %w", w.err)
	}
	form, err := jcs.Transform(w.b)
	if err != nil {
		return nil, fmt.Errorf("agentcard: no canonical form: %w", err)
	}
	return form, nil
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *writer) message(v *value, m *message) {
	w.b = append(w.b, '{')
	seen := make([]bool, len(m.fields))
	for i, name := range v.names {
		item := &v.items[i]
		n, known := m.byName[name]
		if !known {
			w.name(name)
			w.value(item)
			continue
		}
		f := &m.fields[n]
		if seen[n] {
			w.fail("%q and %q are the same field", f.name, snake(f.name))
		}
		seen[n] = item.kind != 'n' || f.keeps != required // which is written below
		if item.kind != 'n' && (f.keeps != plain || !f.isDefault(item)) {
			w.name(f.name)
			w.field(item, f)
		}
	}
	for n := range m.fields {
		if f := &m.fields[n]; f.keeps == required && !seen[n] {
			w.name(f.name)
			w.b = append(w.b, f.zero()...)
		}
	}
	w.b = append(w.b, '}')
}

// isDefault reports whether v is the default of a field, which a message does not have: it is there or absent.
func (f *field) isDefault(v *value) bool {
	switch {
	case f.many == list:
		return v.kind == '[' && len(v.items) == 0
	case f.many == mapping:
		return v.kind == '{' && len(v.items) == 0
	case f.kind == text:
		return v.kind == '"' && v.text == ""
	case f.kind == flag:
		return v.kind == 'f'
	}
	return false
}

// zero returns the default of a required field.
func (f *field) zero() string {
	switch {
	case f.many == list:
		return "[]"
	case f.many == mapping || f.kind == object:
		return "{}"
	}
	return `""`
}

// field writes a field's value. One of the wrong type is written as it is.
func (w *writer) field(v *value, f *field) {
	switch {
	case f.of == nil:
		w.value(v)
	case f.many == one && v.kind == '{':
		w.message(v, f.of)
	case f.many == list && v.kind == '[':
		w.elements(v, f.of)
	case f.many == mapping && v.kind == '{':
		w.members(v, f.of)
	default:
		w.value(v)
	}
}

// value writes a value as it is.
func (w *writer) value(v *value) {
	switch v.kind {
	case '{':
		w.members(v, nil)
	case '[':
		w.elements(v, nil)
	case '"':
		w.b = jsonx.AppendString(w.b, v.text)
	case 't':
		w.b = append(w.b, "true"...)
	case 'f':
		w.b = append(w.b, "false"...)
	case 'n':
		w.b = append(w.b, "null"...)
	default:
		if lossy(v.num) {
			w.fail("the whole number %s has more digits than a JSON number keeps: write it as a string", clip(v.num, 32))
		}
		w.b = append(w.b, v.num...)
	}
}

// members writes an object whose names are data, and whose values are messages unless of is nil.
func (w *writer) members(v *value, of *message) {
	w.b = append(w.b, '{')
	for i, name := range v.names {
		w.name(name)
		w.item(&v.items[i], of)
	}
	w.b = append(w.b, '}')
}

func (w *writer) elements(v *value, of *message) {
	w.b = append(w.b, '[')
	for i := range v.items {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.item(&v.items[i], of)
	}
	w.b = append(w.b, ']')
}

func (w *writer) item(v *value, of *message) {
	if of != nil && v.kind == '{' {
		w.message(v, of)
	} else {
		w.value(v)
	}
}

// name writes a member's name, and a comma unless it is the first.
func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(jsonx.AppendString(w.b, name), ':')
}

func kindName(kind byte) string {
	switch kind {
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
	}
	return "a number"
}
