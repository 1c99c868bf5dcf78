package grpc

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/parley-a2a/parley/a2a"
)

// filler sets every field of a value to something that no other field has. Where a field is one of several
// types, variant says which.
type filler struct {
	n       int
	variant int
}

func filled[T any](variant int) *T {
	out := new(T)
	(&filler{variant: variant}).fill(reflect.ValueOf(out).Elem())
	return out
}

// unions are the members of the sealed interfaces.
var unions = map[reflect.Type][]any{
	reflect.TypeFor[a2a.Content](): {a2a.Text(""), a2a.Raw(nil), a2a.URL(""), a2a.Data(nil)},
	reflect.TypeFor[a2a.SecurityScheme](): {
		&a2a.APIKeySecurityScheme{}, &a2a.HTTPAuthSecurityScheme{}, &a2a.OAuth2SecurityScheme{},
		&a2a.OpenIDConnectSecurityScheme{}, &a2a.MutualTLSSecurityScheme{},
	},
	reflect.TypeFor[a2a.OAuthFlow](): {
		&a2a.AuthorizationCodeOAuthFlow{}, &a2a.ClientCredentialsOAuthFlow{}, &a2a.ImplicitOAuthFlow{},
		&a2a.PasswordOAuthFlow{}, &a2a.DeviceCodeOAuthFlow{},
	},
	reflect.TypeFor[a2a.SendMessageResult](): {&a2a.Task{}, &a2a.Message{}},
}

// variants is more than any union has members.
const variants = 5

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.UnixMilli(1_700_000_000_000 + int64(f.n)).UTC()))
		return
	case json.RawMessage, a2a.Data:
		v.SetBytes(fmt.Appendf(nil, `{"a":[%d,null,{}],"b":"x"}`, f.n))
		return
	case a2a.TaskState:
		v.SetInt(int64(1 + f.n%8))
		return
	case a2a.Role:
		v.SetInt(int64(1 + f.n%2))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt(int64(f.n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(fmt.Appendf(nil, "\x00\xff%d", f.n))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			value := reflect.New(v.Type().Elem()).Elem()
			f.fill(value)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("k%d", f.n)), value)
		}
	case reflect.Interface:
		members := unions[v.Type()]
		member := reflect.ValueOf(members[f.variant%len(members)])
		value := reflect.New(member.Type()).Elem()
		f.fill(value)
		v.Set(value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "WithArtifacts" { // not on the wire
				f.fill(v.Field(i))
			}
		}
	default:
		panic("no way to fill " + v.Type().String())
	}
}

// required are the fields without which a message does not survive the way to package a2a and back.
var required = map[protoreflect.FullName]bool{
	"lf.a2a.v1.Task.status":                      true,
	"lf.a2a.v1.TaskStatusUpdateEvent.status":     true,
	"lf.a2a.v1.TaskArtifactUpdateEvent.artifact": true,
	"lf.a2a.v1.AgentCard.capabilities":           true,
	"lf.a2a.v1.OAuth2SecurityScheme.flows":       true,
	"lf.a2a.v1.SendMessageResponse.payload":      true,
	"lf.a2a.v1.StreamResponse.payload":           true,
}

// randomize sets the fields of a message at random.
func randomize(r *rand.Rand, m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *structpb.Value:
		proto.Merge(v, randomValue(r, 3))
		return
	case *timestamppb.Timestamp:
		proto.Merge(v, timestamppb.New(time.UnixMilli(r.Int64N(4e12)-1e12)))
		return
	}
	for i, fields := 0, m.Descriptor().Fields(); i < fields.Len(); i++ {
		fd := fields.Get(i)
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() {
			continue
		}
		if required[fd.FullName()] || r.IntN(3) > 0 {
			randomizeField(r, m, fd)
		}
	}
	for i, ones := 0, m.Descriptor().Oneofs(); i < ones.Len(); i++ {
		one := ones.Get(i)
		if !one.IsSynthetic() && (required[one.FullName()] || r.IntN(8) > 0) {
			randomizeField(r, m, one.Fields().Get(r.IntN(one.Fields().Len())))
		}
	}
}

func randomizeField(r *rand.Rand, m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	switch {
	case fd.IsMap():
		for range r.IntN(3) {
			key := protoreflect.ValueOfString(randomString(r)).MapKey()
			value := m.Mutable(fd).Map().NewValue()
			m.Mutable(fd).Map().Set(key, randomScalar(r, fd.MapValue(), value))
		}
	case fd.IsList():
		for range r.IntN(3) {
			list := m.Mutable(fd).List()
			list.Append(randomScalar(r, fd, list.NewElement()))
		}
	default:
		m.Set(fd, randomScalar(r, fd, m.NewField(fd)))
	}
}

func randomScalar(r *rand.Rand, fd protoreflect.FieldDescriptor, zero protoreflect.Value) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(randomString(r))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(randomString(r) + "\xff\x00"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(r.Uint32()))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(fd.Enum().Values().Len())))
	case protoreflect.MessageKind:
		randomize(r, zero.Message())
		return zero
	default:
		panic("no way to fill " + fd.FullName())
	}
}

func randomString(r *rand.Rand) string {
	runes := []rune("aZ0 \"\\/<&>\n\t\x00\x1f\x7f\u2028é漢😀")
	out := make([]rune, r.IntN(6))
	for i := range out {
		out[i] = runes[r.IntN(len(runes))]
	}
	return string(out)
}

func randomValue(r *rand.Rand, depth int) *structpb.Value {
	switch n := r.IntN(7); {
	case n == 0:
		return structpb.NewNullValue()
	case n == 1:
		return structpb.NewBoolValue(r.IntN(2) == 1)
	case n == 2 || depth == 0:
		return structpb.NewStringValue(randomString(r))
	case n == 3:
		return structpb.NewNumberValue(float64(r.Int64N(1<<50) - 1<<49))
	case n == 4:
		if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return structpb.NewNumberValue(f)
		}
		return structpb.NewNumberValue(0.5)
	case n == 5:
		list := &structpb.ListValue{}
		for range r.IntN(4) {
			list.Values = append(list.Values, randomValue(r, depth-1))
		}
		return structpb.NewListValue(list)
	}
	object := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for range r.IntN(4) {
		object.Fields[randomString(r)] = randomValue(r, depth-1)
	}
	return structpb.NewStructValue(object)
}
