package grpc

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/parley-a2a/parley/a2a"
)

// pair is a message with its type of package a2a and the conversions between them.
type pair struct {
	newProto func() proto.Message
	fill     func(variant int) any // a value of package a2a with every field set
	decode   func(proto.Message) (any, error)
	encode   func(any) (proto.Message, error)
}

func newPair[T, A any, P message[T]](in func(*decoder, at, P) *A, out func(*encoder, *A) P) pair {
	return pair{
		newProto: func() proto.Message { return P(new(T)) },
		fill:     func(variant int) any { return filled[A](variant) },
		decode: func(m proto.Message) (any, error) {
			var d decoder
			v := in(&d, at{}, m.(P))
			if d.err != nil {
				return nil, d.err
			}
			return v, nil
		},
		encode: func(v any) (proto.Message, error) {
			var e encoder
			m := out(&e, v.(*A))
			return m, e.err
		},
	}
}

// pairs are all messages that cross the wire on their own.
var pairs = map[string]pair{
	"SendMessageRequest": newPair((*decoder).sendMessageRequest, (*encoder).sendMessageRequest),
	"SendMessageResponse": newPair(func(d *decoder, p at, m *pb.SendMessageResponse) *a2a.SendMessageResponse {
		return &a2a.SendMessageResponse{Result: d.sendMessageResponse(p, m)}
	}, (*encoder).sendMessageResponse),
	"StreamResponse": newPair(func(d *decoder, p at, m *pb.StreamResponse) *anyEvent {
		return &anyEvent{d.streamResponse(p, m)}
	}, func(e *encoder, v *anyEvent) *pb.StreamResponse { return e.streamResponse(v.Event) }),
	"GetTaskRequest":                       newPair((*decoder).getTaskRequest, (*encoder).getTaskRequest),
	"ListTasksRequest":                     newPair((*decoder).listTasksRequest, (*encoder).listTasksRequest),
	"ListTasksResponse":                    newPair((*decoder).listTasksResponse, (*encoder).listTasksResponse),
	"CancelTaskRequest":                    newPair((*decoder).cancelTaskRequest, (*encoder).cancelTaskRequest),
	"SubscribeToTaskRequest":               newPair((*decoder).subscribeToTaskRequest, (*encoder).subscribeToTaskRequest),
	"TaskPushNotificationConfig":           newPair((*decoder).pushConfig, (*encoder).pushConfig),
	"GetTaskPushNotificationConfigRequest": newPair((*decoder).getPushConfigRequest, (*encoder).getPushConfigRequest),
	"DeleteTaskPushNotificationConfigRequest": newPair((*decoder).deletePushConfigRequest,
		(*encoder).deletePushConfigRequest),
	"ListTaskPushNotificationConfigsRequest":  newPair((*decoder).listPushConfigsRequest, (*encoder).listPushConfigsRequest),
	"ListTaskPushNotificationConfigsResponse": newPair((*decoder).listPushConfigsResponse, (*encoder).listPushConfigsResponse),
	"GetExtendedAgentCardRequest":             newPair((*decoder).getCardRequest, (*encoder).getCardRequest),
	"AgentCard":                               newPair((*decoder).card, (*encoder).card),
	"Task":                                    newPair((*decoder).task, (*encoder).task),
	"Empty": newPair(func(d *decoder, p at, m *emptypb.Empty) *a2a.Empty { return d.empty(p, m) },
		(*encoder).empty),
}

// anyEvent makes an event a struct, as the others are.
type anyEvent struct{ Event a2a.Event }

func init() {
	unions[reflect.TypeFor[a2a.Event]()] = []any{
		&a2a.Task{}, &a2a.Message{}, &a2a.TaskStatusUpdateEvent{}, &a2a.TaskArtifactUpdateEvent{},
	}
}

func TestPairsAreAllMessages(t *testing.T) {
	services := pb.File_a2av1_proto.Services()
	for i := range services.Len() {
		for j, methods := 0, services.Get(i).Methods(); j < methods.Len(); j++ {
			for _, m := range []string{string(methods.Get(j).Input().Name()), string(methods.Get(j).Output().Name())} {
				if _, ok := pairs[m]; !ok {
					t.Errorf("%s of %s is not tested", m, methods.Get(j).Name())
				}
			}
		}
	}
}

// A field that either direction forgets is missing at the end.
func TestEveryField(t *testing.T) {
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			for variant := range variants {
				want := p.fill(variant)
				m, err := p.encode(want)
				if err != nil {
					t.Fatal(err)
				}
				wire, err := proto.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				back := p.newProto()
				if err := proto.Unmarshal(wire, back); err != nil {
					t.Fatal(err)
				}
				got, err := p.decode(back)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("variant %d (-want +got):\n%s", variant, diff)
				}
			}
		})
	}
}

func TestRandomMessages(t *testing.T) {
	const rounds = 300
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range rounds {
				want := p.newProto()
				randomize(r, want.ProtoReflect())
				v, err := p.decode(want)
				if err != nil {
					t.Fatalf("%v: %v", want, err)
				}
				got, err := p.encode(v)
				if err != nil {
					t.Fatalf("%v: %v", want, err)
				}
				if !proto.Equal(want, got) {
					t.Fatalf("(-want +got):\n%s", cmp.Diff(want, got, protocmp.Transform()))
				}
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		m := new(pb.StreamResponse)
		randomize(r, m.ProtoReflect())
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	p := pairs["StreamResponse"]
	f.Fuzz(func(t *testing.T, b []byte) {
		m := p.newProto()
		if proto.Unmarshal(b, m) != nil {
			return
		}
		v, err := p.decode(m)
		if err != nil {
			return
		}
		again, err := p.encode(v)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		v2, err := p.decode(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if diff := cmp.Diff(v, v2); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}

func TestValueToJSON(t *testing.T) {
	tests := []struct {
		v    *structpb.Value
		want string
	}{
		{structpb.NewNumberValue(3), `3`},
		{structpb.NewNumberValue(-0.5), `-0.5`},
		{structpb.NewNumberValue(1e20), `100000000000000000000`},
		{structpb.NewNumberValue(1e21), `1e+21`},
		{structpb.NewNumberValue(1e-7), `1e-7`},
		{structpb.NewNumberValue(1.5e-10), `1.5e-10`},
		{structpb.NewNumberValue(math.MaxFloat64), `1.7976931348623157e+308`},
		{structpb.NewStringValue("<a&b> \"\\\n\r\t\x01\u2028😀"), `"<a&b> \"\\\n\r\t\u0001` + "\u2028😀" + `"`},
		{structpb.NewListValue(&structpb.ListValue{}), `[]`},
		{structpb.NewStructValue(&structpb.Struct{}), `{}`},
		{&structpb.Value{}, `null`},
		{nil, `null`},
	}
	for _, tt := range tests {
		got, err := appendValue(nil, tt.v, 0)
		if err != nil || string(got) != tt.want {
			t.Errorf("%v: got %s, %v, want %s", tt.v, got, err, tt.want)
		}
	}
}

// Case 38.
func TestDataOfTheCase(t *testing.T) {
	v, err := parseValue([]byte(" { \"n\":1, \"big\":9007199254740993,\n\"z\":null,\"e\":{},\"l\":[null,{}] } "))
	if err != nil {
		t.Fatal(err)
	}
	got, err := appendValue(nil, v, 0)
	if want := `{"big":9007199254740992,"e":{},"l":[null,{}],"n":1,"z":null}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestValuesAgainstProtoJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		want := randomValue(r, 4)
		ours, err := appendValue(nil, want, 0)
		if err != nil {
			t.Fatal(err)
		}
		var theirs structpb.Value
		if err := protojson.Unmarshal(ours, &theirs); err != nil {
			t.Fatalf("%s: %v", ours, err)
		}
		if !proto.Equal(want, &theirs) {
			t.Fatalf("%s is read as %v, want %v", ours, &theirs, want)
		}
		text, err := protojson.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseValue(text)
		if err != nil || !proto.Equal(want, got) {
			t.Fatalf("%s: got %v, %v", text, got, err)
		}
	}
}

func TestParseValueRefuses(t *testing.T) {
	for raw, want := range map[string]error{
		`{`: errNotJSON, `{"a":1}x`: errNotJSON, `01`: errNotJSON, `NaN`: errNotJSON, ` `: errNotJSON,
		`[1e400]`: errRange, `{"a":-1e400}`: errRange,
	} {
		if _, err := parseValue([]byte(raw)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", raw, err, want)
		}
	}
	if v, err := parseValue(nil); err != nil || !proto.Equal(v, structpb.NewNullValue()) {
		t.Errorf("no text: got %v, %v, want null", v, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	nested := func(levels int) *structpb.Value {
		v := structpb.NewNullValue()
		for range levels {
			v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
		}
		return v
	}
	data := func(v *structpb.Value) *pb.Part { return &pb.Part{Content: &pb.Part_Data{Data: v}} }
	send := func(m *pb.Message) *pb.SendMessageRequest { return &pb.SendMessageRequest{Message: m} }
	tests := []struct {
		name, path string
		m          proto.Message
	}{
		{"SendMessageRequest", "message.role", send(&pb.Message{Role: 3})},
		{"SendMessageRequest", "message.role", send(&pb.Message{Role: -1})},
		{"SendMessageRequest", "message.parts[1].data", send(&pb.Message{
			Parts: []*pb.Part{{}, data(structpb.NewNumberValue(math.NaN()))},
		})},
		{"SendMessageRequest", "message.parts[0].data", send(&pb.Message{Parts: []*pb.Part{data(nested(maxDepth + 1))}})},
		{"SendMessageRequest", "metadata.k", &pb.SendMessageRequest{
			Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewNumberValue(math.Inf(1))}},
		}},
		{"ListTasksRequest", "status", &pb.ListTasksRequest{Status: 9}},
		{"ListTasksRequest", "statusTimestampAfter", &pb.ListTasksRequest{
			StatusTimestampAfter: &timestamppb.Timestamp{Nanos: -1},
		}},
		{"ListTasksResponse", "tasks[1].artifacts[0].parts[0].metadata.x", &pb.ListTasksResponse{Tasks: []*pb.Task{{}, {
			Artifacts: []*pb.Artifact{{Parts: []*pb.Part{{Metadata: &structpb.Struct{
				Fields: map[string]*structpb.Value{"x": structpb.NewNumberValue(math.NaN())},
			}}}}},
		}}}},
		{"StreamResponse", "statusUpdate.status.message.role", &pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{
			StatusUpdate: &pb.TaskStatusUpdateEvent{Status: &pb.TaskStatus{Message: &pb.Message{Role: 9}}},
		}}},
		{"StreamResponse", "artifactUpdate.artifact", &pb.StreamResponse{Payload: &pb.StreamResponse_ArtifactUpdate{
			ArtifactUpdate: &pb.TaskArtifactUpdateEvent{},
		}}},
		{"StreamResponse", "", &pb.StreamResponse{}},
		{"SendMessageResponse", "", &pb.SendMessageResponse{}},
		{"AgentCard", "capabilities.extensions[0].params.x", &pb.AgentCard{Capabilities: &pb.AgentCapabilities{
			Extensions: []*pb.AgentExtension{{Params: &structpb.Struct{
				Fields: map[string]*structpb.Value{"x": structpb.NewNumberValue(math.NaN())},
			}}},
		}}},
	}
	for _, tt := range tests {
		_, err := pairs[tt.name].decode(tt.m)
		f, ok := errors.AsType[*fieldError](err)
		if !ok || f.path != tt.path {
			t.Errorf("%s %v: got %v, want an error at %q", tt.name, tt.m, err, tt.path)
		}
	}
	if _, err := pairs["SendMessageRequest"].decode(send(&pb.Message{Parts: []*pb.Part{data(nested(maxDepth))}})); err != nil {
		t.Errorf("the deepest value: %v", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, v := range map[string]any{
		"AgentCard":         &a2a.AgentCard{Capabilities: a2a.AgentCapabilities{Extensions: []*a2a.AgentExtension{{Params: a2a.Struct{"a": []byte("{")}}}}},
		"Task":              &a2a.Task{History: []*a2a.Message{{Parts: []*a2a.Part{{Content: a2a.Data("tru")}}}}},
		"ListTasksRequest":  &a2a.ListTasksRequest{StatusTimestampAfter: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"CancelTaskRequest": &a2a.CancelTaskRequest{Metadata: a2a.Struct{"a": []byte("1e999")}},
	} {
		if m, err := pairs[name].encode(v); err == nil {
			t.Errorf("%s: got %v, want an error", name, m)
		}
	}
}

// Times are UTC with milliseconds, wherever the host stands (case 39).
func TestTimes(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = time.FixedZone("Asia/Tokyo", 9*60*60)
	in := time.Date(2026, 3, 4, 5, 6, 7, 123_999_999, time.Local)
	m, err := pairs["ListTasksRequest"].encode(&a2a.ListTasksRequest{StatusTimestampAfter: in})
	if err != nil {
		t.Fatal(err)
	}
	ts := m.(*pb.ListTasksRequest).GetStatusTimestampAfter()
	want := time.Date(2026, 3, 3, 20, 6, 7, 123_000_000, time.UTC)
	if !ts.AsTime().Equal(want) {
		t.Errorf("got %v, want %v", ts.AsTime(), want)
	}
	ts.Nanos += 999_999
	v, err := pairs["ListTasksRequest"].decode(m)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.(*a2a.ListTasksRequest).StatusTimestampAfter; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What is not UTF-8 leaves as U+FFFD, wherever it stands, and the value it came from stays as it was.
func TestOnlyUTF8Leaves(t *testing.T) {
	const bad = "a\xffb"
	task := &a2a.Task{
		ID:        bad,
		Artifacts: []*a2a.Artifact{{Extensions: []string{"ok", bad}, Parts: []*a2a.Part{{Content: a2a.Raw(bad)}}}},
		History:   []*a2a.Message{{Parts: []*a2a.Part{{Content: a2a.Text(bad)}, {Content: a2a.Data(`"` + bad + `"`)}}}},
		Metadata:  a2a.Struct{bad: []byte(`{"` + bad + `":1}`)},
	}
	b, err := encodeEvent(task)
	if err != nil {
		t.Fatal(err)
	}
	m := new(pb.StreamResponse)
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	var d decoder
	got := d.streamResponse(at{}, m)
	const good = "a\uFFFDb"
	want := &a2a.Task{
		ID:        good,
		Artifacts: []*a2a.Artifact{{Extensions: []string{"ok", good}, Parts: []*a2a.Part{{Content: a2a.Raw(bad)}}}},
		History:   []*a2a.Message{{Parts: []*a2a.Part{{Content: a2a.Text(good)}, {Content: a2a.Data(`"` + good + `"`)}}}},
		Metadata:  a2a.Struct{good: []byte(`{"` + good + `":1}`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if task.Artifacts[0].Extensions[1] != bad || strings.Contains(task.ID, "\uFFFD") {
		t.Error("the shared value was changed")
	}
}
