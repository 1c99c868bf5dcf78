package a2a

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/parley-a2a/parley/internal/jsonx"
)

// recode reads and writes one message of the proto with this package.
type recode func(in []byte) (out []byte, err error)

func recodeOf[T any, P message[T]]() recode {
	return func(in []byte) ([]byte, error) {
		m := P(new(T))
		err := unmarshal(in, m)
		return m.AppendJSON(nil), err
	}
}

// wrapped reads and writes a message that is no type of its own here.
func wrapped[T any](decode func(*jsonx.Reader) T, appendTo func([]byte, T) []byte) recode {
	return func(in []byte) ([]byte, error) {
		r := jsonx.NewReader(in)
		m := decode(r)
		return appendTo(nil, m), jsonError(r.End())
	}
}

// recodes has every message of the proto.
var recodes = map[protoreflect.Name]recode{
	"SendMessageConfiguration":                recodeOf[SendMessageConfiguration](),
	"Task":                                    recodeOf[Task](),
	"TaskStatus":                              recodeOf[TaskStatus](),
	"Part":                                    recodeOf[Part](),
	"Message":                                 recodeOf[Message](),
	"Artifact":                                recodeOf[Artifact](),
	"TaskStatusUpdateEvent":                   recodeOf[TaskStatusUpdateEvent](),
	"TaskArtifactUpdateEvent":                 recodeOf[TaskArtifactUpdateEvent](),
	"AuthenticationInfo":                      recodeOf[AuthenticationInfo](),
	"AgentInterface":                          recodeOf[AgentInterface](),
	"AgentCard":                               recodeOf[AgentCard](),
	"AgentProvider":                           recodeOf[AgentProvider](),
	"AgentCapabilities":                       recodeOf[AgentCapabilities](),
	"AgentExtension":                          recodeOf[AgentExtension](),
	"AgentSkill":                              recodeOf[AgentSkill](),
	"AgentCardSignature":                      recodeOf[AgentCardSignature](),
	"TaskPushNotificationConfig":              recodeOf[TaskPushNotificationConfig](),
	"SecurityRequirement":                     recodeOf[SecurityRequirement](),
	"APIKeySecurityScheme":                    recodeOf[APIKeySecurityScheme](),
	"HTTPAuthSecurityScheme":                  recodeOf[HTTPAuthSecurityScheme](),
	"OAuth2SecurityScheme":                    recodeOf[OAuth2SecurityScheme](),
	"OpenIdConnectSecurityScheme":             recodeOf[OpenIDConnectSecurityScheme](),
	"MutualTlsSecurityScheme":                 recodeOf[MutualTLSSecurityScheme](),
	"AuthorizationCodeOAuthFlow":              recodeOf[AuthorizationCodeOAuthFlow](),
	"ClientCredentialsOAuthFlow":              recodeOf[ClientCredentialsOAuthFlow](),
	"ImplicitOAuthFlow":                       recodeOf[ImplicitOAuthFlow](),
	"PasswordOAuthFlow":                       recodeOf[PasswordOAuthFlow](),
	"DeviceCodeOAuthFlow":                     recodeOf[DeviceCodeOAuthFlow](),
	"SendMessageRequest":                      recodeOf[SendMessageRequest](),
	"GetTaskRequest":                          recodeOf[GetTaskRequest](),
	"ListTasksRequest":                        recodeOf[ListTasksRequest](),
	"ListTasksResponse":                       recodeOf[ListTasksResponse](),
	"CancelTaskRequest":                       recodeOf[CancelTaskRequest](),
	"GetTaskPushNotificationConfigRequest":    recodeOf[GetTaskPushNotificationConfigRequest](),
	"DeleteTaskPushNotificationConfigRequest": recodeOf[DeleteTaskPushNotificationConfigRequest](),
	"SubscribeToTaskRequest":                  recodeOf[SubscribeToTaskRequest](),
	"ListTaskPushNotificationConfigsRequest":  recodeOf[ListTaskPushNotificationConfigsRequest](),
	"GetExtendedAgentCardRequest":             recodeOf[GetExtendedAgentCardRequest](),
	"SendMessageResponse":                     recodeOf[SendMessageResponse](),
	"ListTaskPushNotificationConfigsResponse": recodeOf[ListTaskPushNotificationConfigsResponse](),

	"SecurityScheme": wrapped(decodeSecurityScheme, appendSecurityScheme),
	"OAuthFlows":     wrapped(decodeOAuthFlow, appendOAuthFlow),
	"StreamResponse": func(in []byte) ([]byte, error) {
		ev, err := ParseStreamResponse(in)
		return AppendStreamResponse(nil, ev), err
	},
	"StringList": func(in []byte) ([]byte, error) {
		const head, tail = `{"schemes":{"s":`, `}}`
		out, err := recodeOf[SecurityRequirement]()(slices.Concat([]byte(head), in, []byte(tail)))
		return []byte(strings.TrimSuffix(strings.TrimPrefix(string(out), head), tail)), err
	},
}

// TestEveryFieldOfTheProto sets each field of each message alone, in both spellings of its name, and expects it
// back. A field that the proto can tell from absent is also tried with its zero value.
func TestEveryFieldOfTheProto(t *testing.T) {
	messages := pb.File_a2av1_proto.Messages()
	if messages.Len() != len(recodes) {
		t.Errorf("the proto has %d messages, this test %d", messages.Len(), len(recodes))
	}
	fields := 0
	for i := range messages.Len() {
		md := messages.Get(i)
		again, ok := recodes[md.Name()]
		if !ok {
			t.Errorf("%s is not covered", md.Name())
			continue
		}
		for j := range md.Fields().Len() {
			fd := md.Fields().Get(j)
			fields++
			m := dynamicpb.NewMessage(md)
			m.Set(fd, sample(m, fd))
			checkField(t, again, fd, m)
			if fd.HasPresence() && fd.Message() == nil {
				m.Set(fd, fd.Default())
				checkField(t, again, fd, m)
			}
		}
	}
	if fields < 150 {
		t.Errorf("the proto has only %d fields", fields)
	}
}

func checkField(t *testing.T, again recode, fd protoreflect.FieldDescriptor, m *dynamicpb.Message) {
	t.Helper()
	want := proto.Clone(m)
	normalize(want.ProtoReflect())
	for _, protoNames := range []bool{false, true} {
		in, err := protojson.MarshalOptions{UseProtoNames: protoNames}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out, err := again(in)
		if err != nil {
			t.Errorf("%s: reading %s: %v", fd.FullName(), in, err)
			continue
		}
		back := dynamicpb.NewMessage(m.Descriptor())
		if err := protojson.Unmarshal(out, back); err != nil {
			t.Errorf("%s: %s became %s: %v", fd.FullName(), in, out, err)
			continue
		}
		normalize(back)
		if !proto.Equal(want, back) {
			t.Errorf("%s: %s became %s", fd.FullName(), in, out)
		}
	}
}

// sample returns a value for a field of m that is not its default.
func sample(m protoreflect.Message, fd protoreflect.FieldDescriptor) protoreflect.Value {
	v := m.NewField(fd)
	switch {
	case fd.IsMap():
		for _, k := range []string{"b", "a_key"} {
			v.Map().Set(protoreflect.ValueOfString(k).MapKey(), sampleOne(v.Map().NewValue(), fd.MapValue()))
		}
		return v
	case fd.IsList():
		for range 2 {
			v.List().Append(sampleOne(v.List().NewElement(), fd))
		}
		return v
	}
	return sampleOne(v, fd)
}

func sampleOne(v protoreflect.Value, fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("a " + string(fd.Name()) + " <é>\n")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0, 0xff, 0xfe, 1})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number())
	case protoreflect.MessageKind:
		fill(v.Message())
		return v
	default:
		panic("no sample of " + fd.Kind().String())
	}
}

// fill sets every field of m, and of a oneof the first.
func fill(m protoreflect.Message) {
	in := ""
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		in = `"2026-01-31T12:00:00.123Z"`
	case "google.protobuf.Struct":
		in = `{"b":{"c":[]},"a_key":[1.5,"x",null,true]}`
	case "google.protobuf.Value":
		in = `[{"a":null},{}]`
	}
	if in != "" {
		if err := protojson.Unmarshal([]byte(in), m.Interface()); err != nil {
			panic(err)
		}
		return
	}
	fds := m.Descriptor().Fields()
	for i := range fds.Len() {
		fd := fds.Get(i)
		if one := fd.ContainingOneof(); one == nil || one.IsSynthetic() || m.WhichOneof(one) == nil {
			m.Set(fd, sample(m, fd))
		}
	}
}

// normalize takes out of a message what this package does not tell apart: a required message that is absent
// from one that is empty, times within a millisecond, no time from the first instant of year 1, and a
// security scheme without a kind from none.
func normalize(m protoreflect.Message) {
	switch m.Descriptor().Name() {
	case "Task", "TaskStatusUpdateEvent":
		m.Mutable(m.Descriptor().Fields().ByName("status"))
	case "AgentCard":
		m.Mutable(m.Descriptor().Fields().ByName("capabilities"))
		schemes := m.Get(m.Descriptor().Fields().ByName("security_schemes")).Map()
		schemes.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			if one := v.Message().Descriptor().Oneofs().Get(0); v.Message().WhichOneof(one) == nil {
				schemes.Clear(k)
			}
			return true
		})
	case "OAuth2SecurityScheme":
		m.Mutable(m.Descriptor().Fields().ByName("flows"))
	case "Timestamp":
		nanos := m.Descriptor().Fields().ByName("nanos")
		m.Set(nanos, protoreflect.ValueOfInt32(int32(m.Get(nanos).Int()/1e6*1e6)))
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { normalize(v.Message()); return true })
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				normalize(v.List().Get(i).Message())
			}
		case fd.Message() != nil && !fd.IsMap():
			normalize(v.Message())
			if fd.Message().Name() == "Timestamp" && v.Message().Get(fd.Message().Fields().ByName("seconds")).Int() == yearOne {
				normalizeYearOne(m, fd, v.Message())
			}
		}
		return true
	})
}

const yearOne = -62135596800 // seconds from the Unix epoch

func normalizeYearOne(m protoreflect.Message, fd protoreflect.FieldDescriptor, at protoreflect.Message) {
	if at.Get(at.Descriptor().Fields().ByName("nanos")).Int() == 0 {
		m.Clear(fd)
	}
}

// TestRequiredFieldsAreAlwaysWritten reads {} and expects the fields that the proto calls REQUIRED, and no
// other. Required messages that are pointers are absent when they are nil.
func TestRequiredFieldsAreAlwaysWritten(t *testing.T) {
	pointers := []protoreflect.FullName{"lf.a2a.v1.SendMessageRequest.message", "lf.a2a.v1.TaskArtifactUpdateEvent.artifact"}
	messages := pb.File_a2av1_proto.Messages()
	for i := range messages.Len() {
		md := messages.Get(i)
		var want []string
		for j := range md.Fields().Len() {
			fd := md.Fields().Get(j)
			behavior, _ := proto.GetExtension(fd.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
			if slices.Contains(behavior, annotations.FieldBehavior_REQUIRED) && !slices.Contains(pointers, fd.FullName()) {
				want = append(want, fd.JSONName())
			}
		}
		slices.Sort(want)
		out, _ := recodes[md.Name()]([]byte(`{}`))
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Errorf("%s: %s: %v", md.Name(), out, err)
		}
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
			t.Errorf("%s: written %s, want %v", md.Name(), out, want)
		}
		for name, v := range got {
			if v == nil {
				t.Errorf("%s: %s is null", md.Name(), name)
			}
		}
	}
}

// fuzzed are the messages that the fuzz test reads.
var fuzzed = []protoreflect.Name{"SendMessageRequest", "Task", "AgentCard", "StreamResponse", "ListTasksRequest"}

// FuzzAgainstProtoJSON compares this package with protojson. What both take must mean the same; what only one
// takes must be a difference that is listed here.
func FuzzAgainstProtoJSON(f *testing.F) {
	seeds, err := filepath.Glob("testdata/json/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range seeds {
		seed, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for kind := range fuzzed {
			f.Add(uint8(kind), seed)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, in []byte) {
		name := fuzzed[int(kind)%len(fuzzed)]
		compare(t, pb.File_a2av1_proto.Messages().ByName(name), in)
	})
}

// TestAgainstProtoJSON is the fuzz test with inputs made from the proto: mostly right, with something odd here and
// there.
func TestAgainstProtoJSON(t *testing.T) {
	messages := pb.File_a2av1_proto.Messages()
	g := &oddJSON{rand.New(rand.NewPCG(1, 2))}
	for range 300 {
		for i := range messages.Len() {
			compare(t, messages.Get(i), g.message(nil, messages.Get(i)))
		}
	}
}

// compare reads in with this package and with protojson.
func compare(t *testing.T, md protoreflect.MessageDescriptor, in []byte) {
	t.Helper()
	again := recodes[md.Name()]
	out, err := again(in)
	theirs := dynamicpb.NewMessage(md)
	theirErr := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(in, theirs)
	switch {
	case err != nil && theirErr != nil:
	case err != nil:
		if !refusedByDesign(err) {
			t.Fatalf("%s %s\nis taken by protojson and refused here: %v", md.Name(), in, err)
		}
	case theirErr != nil:
		if !takenByDesign(in, theirErr) {
			t.Fatalf("%s %s\nis taken here and refused by protojson: %v", md.Name(), in, theirErr)
		}
	}
	if err != nil {
		return
	}
	if twice, err := again(out); err != nil || string(twice) != string(out) {
		t.Fatalf("%s %s\nbecame %s\n  then %s, %v", md.Name(), in, out, twice, err)
	}
	back := dynamicpb.NewMessage(md)
	if err := protojson.Unmarshal(out, back); err != nil {
		if !beyondDouble.MatchString(err.Error()) {
			t.Fatalf("%s %s\nbecame %s: %v", md.Name(), in, out, err)
		}
		return
	}
	if theirErr != nil || oldNames.Match(in) {
		return
	}
	normalize(theirs)
	normalize(back)
	if !proto.Equal(theirs, back) {
		t.Fatalf("%s %s\nbecame %s\nprotojson has %v\n         then %v", md.Name(), in, out, theirs, back)
	}
}

// oddJSON makes JSON that is nearly what a message wants.
type oddJSON struct{ *rand.Rand }

// oneIn is true once in n times.
func (g *oddJSON) oneIn(n int) bool { return g.IntN(n) == 0 }

func (g *oddJSON) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *oddJSON) message(b []byte, md protoreflect.MessageDescriptor) []byte {
	b = append(b, '{')
	member := func(name string) {
		if b[len(b)-1] != '{' {
			b = append(b, g.pick(",", " ,\n")...)
		}
		b = append(jsonx.AppendString(b, name), g.pick(":", " : ")...)
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() && !g.oneIn(one.Fields().Len()) || g.oneIn(3) {
			continue
		}
		name := fd.JSONName()
		switch g.IntN(40) {
		case 0:
			name = string(fd.Name())
		case 1:
			name = strings.ToUpper(name)
		case 2:
			name += "_"
		}
		member(name)
		b = g.field(b, fd)
	}
	if g.oneIn(10) && md.Name() != "SecurityRequirement" { // where an unknown name may be a scheme
		member("new")
		b = append(b, g.any()...)
	}
	return append(b, '}')
}

func (g *oddJSON) field(b []byte, fd protoreflect.FieldDescriptor) []byte {
	switch {
	case g.oneIn(200):
		return append(b, g.any()...)
	case g.oneIn(30):
		return append(b, "null"...)
	case fd.IsMap():
		b = append(b, '{')
		for i := range g.IntN(3) {
			b = g.value(append(jsonx.AppendString(appendComma(b, i), g.pick("k", "a_key", "")+strconv.Itoa(i)), ':'), fd.MapValue())
		}
		return append(b, '}')
	case fd.IsList():
		b = append(b, '[')
		for i := range g.IntN(3) {
			b = g.value(appendComma(b, i), fd)
		}
		return append(b, ']')
	}
	return g.value(b, fd)
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

func (g *oddJSON) value(b []byte, fd protoreflect.FieldDescriptor) []byte {
	if g.oneIn(200) {
		return append(b, g.any()...)
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		return append(b, g.pick(`""`, `"x"`, `"<é>\n\ud83d\ude00"`, `"tasks/t"`)...)
	case protoreflect.BytesKind:
		return append(b, g.pick(`""`, `"AP/+"`, `"AP_-"`, `"AP8="`, `"AP8"`, `"/x"`, `"AB=="`, `"AAAA\n"`, `"A"`)...)
	case protoreflect.BoolKind:
		return append(b, g.pick("true", "false")...)
	case protoreflect.Int32Kind:
		return append(b, g.pick("0", "-0", "7", `"7"`, "1e2", "2.0", "-1", `"10e-1"`, "2147483647", "2147483648", "1.5", `" 1"`)...)
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		v := values.Get(g.IntN(values.Len()))
		return append(b, g.pick(`"`+string(v.Name())+`"`, strconv.Itoa(int(v.Number())), `"`+string(v.Name())+`"`)...)
	case protoreflect.MessageKind:
		switch fd.Message().Name() {
		case "Timestamp":
			return append(b, g.pick(`"2026-01-31T12:00:00.123456789+02:00"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.9Z"`,
				`"2026-01-31T1:00:00Z"`, `"2026-01-31T12:00:00,5Z"`, `"2026-02-30T12:00:00Z"`, `"0000-01-01T00:00:00Z"`)...)
		case "Struct":
			return append(b, g.pick(`{}`, `{"a_b":{ "aB":[1,"x",null] },"aB":1.50}`, `{"n":1e400}`)...)
		case "Value":
			return append(b, g.any()...)
		}
		return g.message(b, fd.Message())
	default:
		panic("no value for " + fd.Kind().String())
	}
}

func (g *oddJSON) any() string {
	return g.pick("null", `""`, `"x"`, "0", "-1.5e+300", "true", "[]", "{}", `{"a":[null,{"b":""}]}`, `[ 1 , "2" ]`, "9007199254740993", "1e400")
}

// beyondDouble is protojson's word about a number in data or metadata that no double holds. Here numbers are
// text.
var beyondDouble = regexp.MustCompile(`invalid google.protobuf.Value: -?[0-9]`)

// oldNames are members that earlier versions had, or whose value had another form, and that are read here (design
// section 7, D4 to D6), or escapes that could spell one.
var oldNames = regexp.MustCompile(
	`"(security|push_?[nN]otification_?[cC]onfig|config|parent|security_?[rR]equirements)"|\\u00`)

// oldPath is the path to something that only this package looks into.
var oldPath = regexp.MustCompile(`(^|\.)(security|config|pushNotificationConfig|parent)(\.|\[|$)|[sS]ecurity(Requirements)?\[`)

// refusedByDesign reports whether an error is one that protojson does not have.
func refusedByDesign(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, words := range []string{
		"nested too deeply",       // their limit is 10000
		"the name is there twice", // they do not look at unknown members
		"unknown value",           // they drop unknown names and keep unknown numbers
		"must be base64",          // they pass over line breaks
		"must be an RFC 3339 time",
		"must be a whole number", // they read only the beginning of a number in quotes
		"must have one of",       // an empty StreamResponse
	} {
		if strings.Contains(e.Message, words) {
			return true
		}
	}
	return len(e.Violations) == 1 && oldPath.MatchString(e.Violations[0].Field)
}

// takenByDesign reports whether an input that protojson refuses is one that this package takes.
func takenByDesign(in []byte, theirErr error) bool {
	for _, words := range []*regexp.Regexp{
		regexp.MustCompile(`oneof lf.a2a.v1.Part.content is already set`), // placeholders beside the content
		beyondDouble,
	} {
		if words.MatchString(theirErr.Error()) {
			return true
		}
	}
	if !strings.Contains(theirErr.Error(), "unexpected token") {
		return false
	}
	// Null for a message, plain lists of scopes, and null as a security scheme.
	return string(in) == "null" || oldNames.Match(in) || strings.Contains(string(in), `chemes"`)
}

func ExampleParseStreamResponse() {
	ev, err := ParseStreamResponse([]byte(`{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	if update, ok := ev.(*TaskStatusUpdateEvent); ok {
		fmt.Println(update.TaskID, update.Status.State)
	}
	_, err = ParseStreamResponse([]byte(`{"message":{"messageId":"m1","parts":[{"text":7}]}}`))
	fmt.Println(err)
	// Output:
	// t1 TASK_STATE_COMPLETED
	// message.parts[0].text: must be a string, not a number
}
