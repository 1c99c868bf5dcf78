package tap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-a2a/parley/rules"
)

// maxEdit is how large a body may be that the tap changes: beyond it, it passes as it is, and that is said.
const maxEdit = 1 << 20

// edit returns JSON with some of its values replaced; every other byte stays. replace is asked for each value by its path,
// such as params.message.parts[]; nil keeps the value, and what is inside it is asked for. What is not JSON is returned as
// it is.
func edit(raw []byte, path string, replace func(path string, value json.RawMessage) []byte) []byte {
	if with := replace(path, raw); with != nil {
		return with
	}
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return raw
	}
	var out []byte
	done := 0
	for dec.More() {
		child := path + "[]"
		if trimmed[0] == '{' {
			key, err := dec.Token()
			if err != nil {
				return raw
			}
			child = fmt.Sprint(key)
			if path != "" {
				child = path + "." + child
			}
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return raw
		}
		end := int(dec.InputOffset())
		from := end - len(value)
		if with := edit(value, child, replace); !bytes.Equal(with, value) {
			out = slices.Concat(out, raw[done:from], with)
			done = end
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// editMessage returns a gRPC message with some of its strings replaced; replace is asked for each by the message that
// it is in and the name of its field, or its name in a Struct. A message that nothing is replaced in stays as it is, to the byte. ok is false where it
// cannot be read.
func editMessage(operation string, answer bool, b []byte, replace func(owner protoreflect.Name, name, s string) string) (out []byte, ok bool) {
	m := rules.NewMessage(operation, answer)
	if m == nil || proto.Unmarshal(b, m) != nil {
		return b, false
	}
	if !editStrings(m.ProtoReflect(), "", replace) {
		return b, true
	}
	out, err := proto.Marshal(m)
	return out, err == nil
}

// editStrings replaces strings in a message, and reports whether there were any. The values of a Struct go under the name
// that they have there.
func editStrings(m protoreflect.Message, name string, replace func(owner protoreflect.Name, name, s string) string) (changed bool) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		under := string(fd.Name())
		if m.Descriptor().FullName() == "google.protobuf.Value" || m.Descriptor().FullName() == "google.protobuf.ListValue" {
			under = name
		}
		one := func(fd protoreflect.FieldDescriptor, under string, v protoreflect.Value, set func(protoreflect.Value)) {
			switch fd.Kind() {
			case protoreflect.MessageKind:
				changed = editStrings(v.Message(), under, replace) || changed
			case protoreflect.StringKind:
				if with := replace(m.Descriptor().Name(), under, v.String()); with != v.String() {
					set(protoreflect.ValueOfString(with))
					changed = true
				}
			default:
			}
		}
		switch {
		case fd.IsList():
			for i := range v.List().Len() {
				one(fd, under, v.List().Get(i), func(n protoreflect.Value) { v.List().Set(i, n) })
			}
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
				one(fd.MapValue(), k.String(), e, func(n protoreflect.Value) { v.Map().Set(k, n) })
				return true
			})
		default:
			one(fd, under, v, func(n protoreflect.Value) { m.Set(fd, n) })
		}
		return true
	})
	return changed
}
