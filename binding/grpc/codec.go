package grpc

import (
	"strings"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// frame is a message that was encoded before and is sent as it is. Readers share it.
type frame []byte

// incoming receives a message and, instead of an error of gRPC's own, what was wrong with its bytes.
type incoming struct {
	proto.Message

	err error
}

// codec is protobuf that passes a frame through, tells an incoming about its errors, and sends valid UTF-8
// whatever it is given.
type codec struct{}

var protobuf = encoding.GetCodecV2(protocodec.Name)

func (codec) Name() string { return protocodec.Name }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	out, err := protobuf.Marshal(v)
	if m, ok := v.(proto.Message); ok && err != nil {
		return protobuf.Marshal(valid(m))
	}
	return out, err
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return protobuf.Unmarshal(data, v)
	}
	in.err = protobuf.Unmarshal(data, in.Message)
	return nil
}

// marshal encodes m as codec does.
func marshal(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err != nil {
		return proto.Marshal(valid(m))
	}
	return b, nil
}

// valid returns a copy of m in which what is not UTF-8 is replaced by U+FFFD. Protobuf refuses to encode
// anything else, and no other reason to refuse is known.
func valid(m proto.Message) proto.Message {
	out := proto.Clone(m) // m shares its lists and maps with values that must not change
	makeValid(out.ProtoReflect())
	return out
}

func makeValid(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			makeMapValid(fd, v.Map())
		case fd.IsList():
			for i, list := 0, v.List(); i < list.Len(); i++ {
				list.Set(i, validValue(fd, list.Get(i)))
			}
		default:
			m.Set(fd, validValue(fd, v))
		}
		return true
	})
}

func makeMapValid(fd protoreflect.FieldDescriptor, m protoreflect.Map) {
	type entry struct {
		key   protoreflect.MapKey
		value protoreflect.Value
	}
	var entries []entry
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		entries = append(entries, entry{k, v})
		return true
	})
	for _, e := range entries {
		m.Clear(e.key)
		m.Set(validValue(fd.MapKey(), e.key.Value()).MapKey(), validValue(fd.MapValue(), e.value))
	}
}

func validValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(validString(v.String()))
	case protoreflect.MessageKind:
		makeValid(v.Message())
	default: // no text
	}
	return v
}

func validString(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
