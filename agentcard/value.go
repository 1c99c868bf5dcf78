package agentcard

import (
	"bytes"
	"strconv"

	"github.com/parley-a2a/parley/internal/jsonx"
)

// value is a JSON value as it was read.
type value struct {
	kind  byte     // { [ " t f n as in jsonx.Reader.Kind; 0 for every number
	num   string   // a number as it is written
	text  string   // a string
	names []string // of an object's members, as they are
	items []value  // the members' values, or an array's elements
}

// parse reads one JSON value. What two readers could take for two different things is refused: the same name twice in
// an object, bytes that are not UTF-8, half of a surrogate pair, more than 64 levels.
func parse(raw []byte) (*value, error) {
	r := jsonx.NewReader(raw)
	v := read(r)
	if err := r.End(); err != nil {
		return nil, err
	}
	return &v, nil
}

func read(r *jsonx.Reader) value {
	switch k := r.Kind(); k {
	case '{':
		v := value{kind: k}
		for name := range r.RawFields() {
			v.names = append(v.names, name)
			v.items = append(v.items, read(r))
		}
		return v
	case '[':
		v := value{kind: k}
		for range r.Elems() {
			v.items = append(v.items, read(r))
		}
		return v
	case '"':
		return value{kind: k, text: r.String()}
	case 't', 'f', 'n':
		r.Skip()
		return value{kind: k}
	default:
		return value{num: string(r.Raw())}
	}
}

// get returns the member of that name in a message, or nil if it is absent or null.
func (v *value) get(name string) *value {
	protoName := snake(name)
	for i, n := range v.names {
		if (n == name || n == protoName) && v.items[i].kind != 'n' {
			return &v.items[i]
		}
	}
	return nil
}

// str returns the text of a member that is a string, or "".
func (v *value) str(name string) string {
	if m := v.get(name); m != nil && m.kind == '"' {
		return m.text
	}
	return ""
}

// elems returns the elements of a member that is an array.
func (v *value) elems(name string) []value {
	if m := v.get(name); m != nil && m.kind == '[' {
		return m.items
	}
	return nil
}

// lossy reports whether a number is a whole number, written as one, that a double holds only rounded. RFC 8785 has no
// form for it: two of them, different in their last digits, would be one.
func lossy(num string) bool {
	digits := bytes.TrimPrefix([]byte(num), []byte("-"))
	if len(digits) <= 15 || bytes.ContainsAny(digits, ".eE") {
		return false
	}
	f, err := strconv.ParseFloat(num, 64)
	return err != nil || strconv.FormatFloat(f, 'f', -1, 64) != num
}
