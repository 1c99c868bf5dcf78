package rules

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-a2a/parley/a2a"
)

// data checks the JSON of an operation's answer, or of a frame, against the proto.
func (v *Verdict) data(x *Exchange, raw json.RawMessage, path string) {
	m := method(x.Op)
	if m == nil || m.Output().FullName() == "google.protobuf.Empty" || m.Name() == "GetExtendedAgentCard" {
		return // cards have checks of their own
	}
	d := dataCheck{v: v, overGRPC: x.Binding == a2a.BindingGRPC}
	d.check(m.Output(), raw, path)
}

// CheckEvent holds one StreamResponse, as a stream or a webhook has it, to the clauses about data.
func CheckEvent(raw json.RawMessage) Verdict {
	var v Verdict
	d := dataCheck{v: &v}
	d.check(method("SendStreamingMessage").Output(), raw, "")
	return v
}

type dataCheck struct {
	v        *Verdict
	overGRPC bool
}

func (d *dataCheck) check(md protoreflect.MessageDescriptor, raw json.RawMessage, path string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		d.v.fail("data-types", path, string(raw), "JSON")
		return
	}
	d.message(md, value, path)
}

// kinds are the names of the proto's messages that stand for exactly one of several things.
var unions = map[protoreflect.Name]string{"SendMessageResponse": "result-one", "StreamResponse": "result-one", "Part": "data-part"}

func (d *dataCheck) message(md protoreflect.MessageDescriptor, value any, path string) {
	switch md.FullName() {
	case "google.protobuf.Struct":
		_, ok := value.(map[string]any)
		d.typed(ok, path, value, "an object")
		return
	case "google.protobuf.Value":
		return
	case "google.protobuf.Timestamp":
		d.time(value, path)
		return
	}
	object, ok := value.(map[string]any)
	d.typed(ok, path, value, "an object")
	if !ok {
		return
	}
	if rule, ok := unions[md.Name()]; ok {
		d.union(md, object, rule, path)
	}
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		member := at(path, fd.JSONName())
		if string(fd.Name()) != fd.JSONName() && !d.overGRPC {
			_, snake := object[string(fd.Name())]
			d.v.hold(!snake, "data-names", at(path, string(fd.Name())), string(fd.Name()), fd.JSONName())
		}
		got, present := object[fd.JSONName()]
		if got == nil && fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value" && present {
			continue
		}
		if got == nil {
			if d.demands(fd) {
				d.v.fail("data-required", member, "absent", "a "+fd.Kind().String())
			}
			continue
		}
		d.field(fd, got, member)
	}
}

func required(fd protoreflect.FieldDescriptor) bool {
	behavior, _ := proto.GetExtension(fd.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	for _, b := range behavior {
		if b == annotations.FieldBehavior_REQUIRED {
			return true
		}
	}
	return false
}

// demands reports whether the absence of a field can be seen and is a fault. On gRPC a zero is not sent, and a list of
// tasks has clauses of its own.
func (d *dataCheck) demands(fd protoreflect.FieldDescriptor) bool {
	return required(fd) && fd.Parent().Name() != "ListTasksResponse"
}

func (d *dataCheck) union(md protoreflect.MessageDescriptor, object map[string]any, rule, path string) {
	var have []string
	members := md.Oneofs().Get(0).Fields()
	for i := range members.Len() {
		name := members.Get(i).JSONName()
		if got, ok := object[name]; ok && (got != nil || name == "data") {
			have = append(have, name)
		}
	}
	got := strings.Join(have, " and ")
	if got == "" {
		got = "none"
	}
	d.v.hold(len(have) == 1, rule, path, got, "exactly one of its kinds")
}

func (d *dataCheck) field(fd protoreflect.FieldDescriptor, value any, path string) {
	switch {
	case fd.IsMap():
		_, ok := value.(map[string]any)
		d.typed(ok, path, value, "an object")
	case fd.IsList():
		list, ok := value.([]any)
		d.typed(ok, path, value, "a list")
		if required(fd) && ok && fd.Parent().Name() != "ListTasksResponse" {
			d.v.hold(len(list) > 0, "data-required", path, "an empty list", "at least one element")
		}
		for i, e := range list {
			d.one(fd, e, fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		d.one(fd, value, path)
	}
}

func (d *dataCheck) one(fd protoreflect.FieldDescriptor, value any, path string) {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		d.message(fd.Message(), value, path)
	case protoreflect.EnumKind:
		d.enum(fd, value, path)
	case protoreflect.StringKind:
		s, ok := value.(string)
		d.typed(ok, path, value, "a string")
		if ok && required(fd) {
			d.v.hold(s != "" || fd.Parent().Name() == "ListTasksResponse", "data-required", path, `""`, "a value")
		}
	case protoreflect.BytesKind:
		s, ok := value.(string)
		if ok {
			s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
			_, err := base64.RawStdEncoding.DecodeString(s)
			ok = err == nil
		}
		d.typed(ok, path, value, "base64")
	case protoreflect.BoolKind:
		_, ok := value.(bool)
		d.typed(ok, path, value, "true or false")
	default:
		n, ok := value.(json.Number)
		if ok {
			_, err := n.Int64()
			ok = err == nil
		}
		d.typed(ok, path, value, "a whole number")
	}
}

func (d *dataCheck) enum(fd protoreflect.FieldDescriptor, value any, path string) {
	name, ok := value.(string)
	known := ok && fd.Enum().Values().ByName(protoreflect.Name(name)) != nil
	d.v.hold(known, "data-enums", path, fmt.Sprint(value), "a name of "+string(fd.Enum().Name()))
	if known && required(fd) {
		d.v.hold(fd.Enum().Values().ByName(protoreflect.Name(name)).Number() != 0, "data-required", path, name, "a value")
	}
}

var (
	isoTime  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	withMore = regexp.MustCompile(`\.\d{3,9}Z$`)
)

func (d *dataCheck) time(value any, path string) {
	if d.overGRPC {
		return
	}
	s, ok := value.(string)
	_, err := time.Parse(time.RFC3339Nano, s)
	ok = ok && err == nil && isoTime.MatchString(s)
	d.v.hold(ok, "data-times", path, fmt.Sprint(value), "YYYY-MM-DDTHH:mm:ss.sssZ")
	if ok {
		d.v.hold(withMore.MatchString(s), "data-times-milliseconds", path, s, "YYYY-MM-DDTHH:mm:ss.sssZ")
	}
}

// typed judges a value's type. On gRPC there is nothing to see: the proto has it.
func (d *dataCheck) typed(ok bool, path string, value any, want string) {
	if d.overGRPC {
		return
	}
	if !ok {
		got, _ := json.Marshal(value)
		d.v.fail("data-types", path, string(got), want)
	}
	d.v.see("data-types")
	d.v.see("data-required")
}
