package agentcard

import (
	"slices"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestSchema holds the table to the official proto: the same fields, with the same presence.
func TestSchema(t *testing.T) {
	seen := map[*message]bool{}
	checkMessage(t, seen, agentCard, (&a2apb.AgentCard{}).ProtoReflect().Descriptor())
	if len(seen) != 21 {
		t.Errorf("%d messages compared, want 21", len(seen))
	}
}

func checkMessage(t *testing.T, seen map[*message]bool, m *message, d protoreflect.MessageDescriptor) {
	t.Helper()
	if seen[m] {
		return
	}
	seen[m] = true
	if got, want := len(m.fields), d.Fields().Len(); got != want {
		t.Errorf("%s: %d fields, want %d", d.Name(), got, want)
	}
	for _, f := range m.fields {
		fd := d.Fields().ByJSONName(f.name)
		if fd == nil {
			t.Errorf("%s: there is no field %s", d.Name(), f.name)
			continue
		}
		if got := snake(f.name); got != string(fd.Name()) {
			t.Errorf("%s.%s: the proto's name is %s, not %s", d.Name(), f.name, fd.Name(), got)
		}
		checkField(t, seen, f, fd)
		if inUnion := fd.ContainingOneof() != nil && !fd.HasOptionalKeyword(); inUnion != m.union {
			t.Errorf("%s: union is %v", fd.FullName(), m.union)
		}
	}
}

func checkField(t *testing.T, seen map[*message]bool, f field, fd protoreflect.FieldDescriptor) {
	t.Helper()
	presence := plain
	behaviors, _ := proto.GetExtension(fd.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	switch {
	case slices.Contains(behaviors, annotations.FieldBehavior_REQUIRED):
		presence = required
	case fd.HasOptionalKeyword():
		presence = optional
	}
	if f.keeps != presence {
		t.Errorf("%s: presence %d, want %d", fd.FullName(), f.keeps, presence)
	}
	many := one
	switch {
	case fd.IsMap():
		many, fd = mapping, fd.MapValue()
	case fd.IsList():
		many = list
	}
	if f.many != many {
		t.Errorf("%s: many %d, want %d", fd.FullName(), f.many, many)
	}
	want := map[protoreflect.Kind]kind{protoreflect.StringKind: text, protoreflect.BoolKind: flag, protoreflect.MessageKind: object}[fd.Kind()]
	if fd.Kind() == protoreflect.MessageKind && fd.Message().FullName() == "google.protobuf.Struct" {
		want = data
	}
	if f.kind != want || (f.of != nil) != (want == object) {
		t.Errorf("%s: kind %d, want %d", fd.FullName(), f.kind, want)
		return
	}
	if f.of != nil {
		checkMessage(t, seen, f.of, fd.Message())
	}
}
