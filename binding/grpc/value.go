package grpc

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

// maxDepth is how deep arrays and objects may nest in a Value that arrives.
const maxDepth = 64

var (
	errNotJSON   = errors.New("is not valid JSON")
	errRange     = errors.New("has a number beyond the range of a double")
	errNotFinite = errors.New("has a number that is not finite")
	errTooDeep   = errors.New("nests deeper than " + strconv.Itoa(maxDepth) + " levels")
)

// parseValue returns JSON text as a Value. No text at all is null.
func parseValue(raw []byte) (*structpb.Value, error) {
	if len(raw) == 0 {
		return structpb.NewNullValue(), nil
	}
	if !json.Valid(raw) {
		return nil, errNotJSON
	}
	p := valueParser{b: raw}
	v := p.value()
	return v, p.err
}

// valueParser walks text that is known to be valid JSON.
type valueParser struct {
	b   []byte
	i   int
	err error
}

func (p *valueParser) value() *structpb.Value {
	switch p.peek() {
	case 'n':
		p.i += len("null")
		return structpb.NewNullValue()
	case 't':
		p.i += len("true")
		return structpb.NewBoolValue(true)
	case 'f':
		p.i += len("false")
		return structpb.NewBoolValue(false)
	case '"':
		return structpb.NewStringValue(p.string())
	case '[':
		return structpb.NewListValue(&structpb.ListValue{Values: p.array()})
	case '{':
		return structpb.NewStructValue(&structpb.Struct{Fields: p.object()})
	}
	return structpb.NewNumberValue(p.number())
}

func (p *valueParser) array() []*structpb.Value {
	var out []*structpb.Value
	p.i++
	for p.peek() != ']' {
		out = append(out, p.value())
		p.comma()
	}
	p.i++
	return out
}

func (p *valueParser) object() map[string]*structpb.Value {
	out := make(map[string]*structpb.Value)
	p.i++
	for p.peek() != '}' {
		name := p.string()
		p.peek()
		p.i++ // the colon
		out[name] = p.value()
		p.comma()
	}
	p.i++
	return out
}

func (p *valueParser) comma() {
	if p.peek() == ',' {
		p.i++
	}
}

// peek returns the first byte that is not white space, without taking it.
func (p *valueParser) peek() byte {
	for p.b[p.i] <= ' ' {
		p.i++
	}
	return p.b[p.i]
}

func (p *valueParser) string() string {
	start, plain := p.i, true
	for p.i++; p.b[p.i] != '"'; p.i++ {
		if p.b[p.i] == '\\' {
			plain = false
			p.i++
		}
	}
	p.i++
	if plain {
		return string(p.b[start+1 : p.i-1])
	}
	var s string
	if err := json.Unmarshal(p.b[start:p.i], &s); err != nil {
		p.err = errNotJSON
	}
	return s
}

func (p *valueParser) number() float64 {
	start := p.i
	for p.i < len(p.b) && strings.IndexByte("+-.eE0123456789", p.b[p.i]) >= 0 {
		p.i++
	}
	f, err := strconv.ParseFloat(string(p.b[start:p.i]), 64)
	if err != nil {
		p.err = errRange
	}
	return f
}

// appendValue appends v as JSON: the names of an object sorted, a number without a fraction as an integer.
// A Value of no kind is null.
func appendValue(b []byte, v *structpb.Value, depth int) ([]byte, error) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(b, k.BoolValue), nil
	case *structpb.Value_NumberValue:
		return appendNumber(b, k.NumberValue)
	case *structpb.Value_StringValue:
		return appendString(b, k.StringValue), nil
	case *structpb.Value_ListValue:
		return appendArray(b, k.ListValue.GetValues(), depth+1)
	case *structpb.Value_StructValue:
		return appendObject(b, k.StructValue.GetFields(), depth+1)
	}
	return append(b, "null"...), nil
}

func appendArray(b []byte, values []*structpb.Value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	var err error
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v, depth); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, fields map[string]*structpb.Value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	var err error
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		if b, err = appendValue(b, fields[name], depth); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendNumber writes the shortest digits that give f back, with an exponent only below 1e-6 and from 1e21
// on, as ECMAScript does.
func appendNumber(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errNotFinite
	}
	if a := math.Abs(f); a == 0 || a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64), nil
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-2] == '0' { // e-07 is e-7
		b = append(b[:n-2], b[n-1])
	}
	return b, nil
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	b = append(b, s[done:]...)
	return append(b, '"')
}
