package cli

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// yamlFile is a YAML file that is being read. It knows the line of each value by its path, such as
// security.jwt[0].audience, so that whoever finds a mistake has only to name the path, see wrong.
type yamlFile struct {
	name    string
	lines   map[string]int
	anchors map[string]ast.Node
}

// pair is a key with its value.
type pair struct {
	key   string
	line  int
	value ast.Node
}

// parseYAML returns what stands at the top of a file.
func parseYAML(name string, data []byte) (*yamlFile, []pair, error) {
	y := &yamlFile{name: name, lines: map[string]int{}, anchors: map[string]ast.Node{}}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		var at yaml.Error
		if !errors.As(err, &at) {
			return y, nil, usage("%s: %s", name, err.Error())
		}
		f := usage("%s:%d: %s", name, at.GetToken().Position.Line, at.GetMessage())
		f.hint = `a value with a colon, such as "memory:", stands in quotes; docs/configuration.md has an example`
		return y, nil, f
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if b := doc.Body; b != nil && !slices.Contains([]ast.NodeType{ast.DirectiveType, ast.CommentType, ast.CommentGroupType}, b.Type()) {
			bodies = append(bodies, b)
		}
	}
	switch {
	case len(bodies) == 0:
		return y, nil, nil
	case len(bodies) > 1: // keys that stand twice would not be seen, and whose value counts nobody could say
		return y, nil, usage("%s:%d: a second document begins here: a file has one, say it all in that", name, lineOf(bodies[1]))
	}
	ast.Walk(y, bodies[0])
	top := y.resolve(bodies[0])
	if top != nil && top.Type() == ast.NullType {
		return y, nil, nil
	}
	pairs, err := y.pairs("", top)
	if err != nil {
		return y, nil, usage("%s:%d: want keys with their values, such as: listen: 127.0.0.1:41241", name, lineOf(bodies[0]))
	}
	return y, pairs, nil
}

// Visit implements ast.Visitor: it finds the anchors.
func (y *yamlFile) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		y.anchors[a.Name.String()] = a.Value
	}
	return y
}

// line returns the line of a value, or of the nearest that it is in; 0 if the file does not have it.
func (y *yamlFile) line(key string) int {
	for key != "" {
		if line, ok := y.lines[key]; ok {
			return line
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 0
}

func lineOf(n ast.Node) int { return n.GetToken().Position.Line }

// resolve returns what a node stands for.
func (y *yamlFile) resolve(n ast.Node) ast.Node {
	for range 10 { // an alias may name itself
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			n = y.anchors[x.Value.String()]
		case *ast.TagNode:
			if !slices.Contains([]string{"!!str", "!!int", "!!float", "!!bool", "!!seq", "!!map"}, x.Start.Value) {
				return n
			}
			n = x.Value // which is checked for what it is
		default:
			return n
		}
	}
	return nil
}

// pairs returns the keys of a node with their values.
func (y *yamlFile) pairs(key string, n ast.Node) ([]pair, error) {
	var values []*ast.MappingValueNode
	switch x := n.(type) {
	case *ast.MappingNode:
		values = x.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{x}
	default:
		return nil, wrong(key, "want keys with their values, not %s", y.kind(n))
	}
	var out []pair
	for _, v := range values {
		if v.Key.IsMergeKey() {
			return nil, wrong(key, "<< is not known here: write the keys out, or give the whole value an anchor")
		}
		name, ok := y.text(v.Key)
		if !ok {
			return nil, wrong(key, "a key is a word, not %s", y.kind(v.Key))
		}
		out = append(out, pair{name, lineOf(v.Key), v.Value})
	}
	return out, nil
}

// text returns a value as it is written, if it is not made of others.
func (y *yamlFile) text(n ast.Node) (string, bool) {
	switch x := y.resolve(n).(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return x.GetToken().Value, true
	}
	return "", false
}

// kind returns what a value is, in words.
func (y *yamlFile) kind(n ast.Node) string {
	switch x := y.resolve(n).(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.InfinityNode, *ast.NanNode:
		return x.GetToken().Value
	case *ast.BoolNode:
		return "true or false"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys with their values"
	case *ast.NullNode:
		return "nothing"
	case *ast.TagNode:
		return "something with a tag"
	}
	return "this"
}

// read writes a value of the file into v. Where the file says nothing v stays as it is. The fields of structs are named by
// their yaml tags; behind a comma may stand "lines": the text may have several, as a program's arguments may.
func (y *yamlFile) read(key string, n ast.Node, v reflect.Value, lines bool) error {
	n = y.resolve(n)
	switch {
	case n == nil:
		return wrong(key, "an alias names no anchor of the file")
	case n.Type() == ast.NullType:
		return nil
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := y.duration(key, n)
		v.SetInt(int64(d))
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		into := reflect.New(v.Type().Elem())
		v.Set(into)
		return y.read(key, n, into.Elem(), lines)
	case reflect.Struct:
		return y.readStruct(key, n, v)
	case reflect.Map:
		return y.readMap(key, n, v)
	case reflect.Slice:
		return y.readList(key, n, v, lines)
	default:
		return y.readScalar(key, n, v, lines)
	}
}

func (y *yamlFile) readStruct(key string, n ast.Node, v reflect.Value) error {
	pairs, err := y.pairs(key, n)
	if err != nil {
		return err
	}
	fields, long := map[string]reflect.Value{}, map[string]bool{}
	for i := range v.NumField() {
		if name, opts, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ","); name != "" {
			fields[name], long[name] = v.Field(i), opts == "lines"
		}
	}
	for _, p := range pairs {
		at := key + "." + p.key
		y.lines[at] = p.line
		field, ok := fields[p.key]
		if !ok {
			return wrong(at, "there is no such key; the keys are %s", strings.Join(sortedKeys(fields), ", "))
		}
		if err := y.read(at, p.value, field, long[p.key]); err != nil {
			return err
		}
	}
	return nil
}

func (y *yamlFile) readMap(key string, n ast.Node, v reflect.Value) error {
	pairs, err := y.pairs(key, n)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(pairs)))
	for _, p := range pairs {
		at := key + "." + p.key
		y.lines[at] = p.line
		if err := checkText(p.key); err != nil {
			return wrong(at, "its name %s", err.Error())
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := y.read(at, p.value, elem, false); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(p.key), elem)
	}
	return nil
}

func (y *yamlFile) readList(key string, n ast.Node, v reflect.Value, lines bool) error {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return wrong(key, "want a list, such as [a, b], not %s", y.kind(n))
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
	for i, elem := range list.Values {
		at := fmt.Sprintf("%s[%d]", key, i)
		y.lines[at] = lineOf(elem)
		if err := y.read(at, elem, v.Index(i), lines); err != nil {
			return err
		}
	}
	return nil
}

func (y *yamlFile) readScalar(key string, n ast.Node, v reflect.Value, lines bool) error {
	switch v.Kind() {
	case reflect.String:
		s, ok := y.text(n)
		if !ok {
			return wrong(key, "want text, not %s", y.kind(n))
		}
		if err := checkText(s); err != nil && !lines {
			return wrong(key, "%s", err.Error())
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return wrong(key, "want true or false, not %s", y.kind(n))
		}
		v.SetBool(b.Value)
	case reflect.Int, reflect.Int64:
		whole, ok := n.(*ast.IntegerNode)
		if !ok {
			return wrong(key, "want a whole number, not %s", y.kind(n))
		}
		number := reflect.ValueOf(whole.Value) // int64 or uint64
		if !number.CanConvert(v.Type()) || number.CanUint() && number.Uint() > math.MaxInt64 || number.CanInt() && v.OverflowInt(number.Int()) {
			return wrong(key, "this number is too large")
		}
		v.Set(number.Convert(v.Type()))
	case reflect.Float64:
		f, ok := number(n)
		switch {
		case !ok:
			return wrong(key, "want a number, not %s", y.kind(n))
		case math.IsInf(f, 0):
			return wrong(key, "this number is too large")
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("%s: a %s cannot be read", key, v.Type())
	}
	return nil
}

func number(n ast.Node) (float64, bool) {
	switch x := n.(type) {
	case *ast.IntegerNode:
		return reflect.ValueOf(x.Value).Convert(reflect.TypeFor[float64]()).Float(), true
	case *ast.FloatNode:
		return x.Value, true
	}
	return 0, false
}

func (y *yamlFile) duration(key string, n ast.Node) (time.Duration, error) {
	s, ok := y.text(n)
	if !ok {
		return 0, wrong(key, "want a time such as 90s or 168h, not %s", y.kind(n))
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, wrong(key, "%q is not a time such as 90s or 168h; the units are h, m, s and ms", s)
	case d < 0:
		return 0, wrong(key, "%s: a time cannot be negative", s)
	}
	return d, nil
}

// checkText returns what is wrong with a configured text: it may end up in a header, a card, a log or on a terminal, and
// has to stand on one line there. The text is not repeated, it may be a secret.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("is not UTF-8")
	}
	bad := func(r rune) bool { return r == '\t' || hidden(r) }
	if i := strings.IndexFunc(s, bad); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return fmt.Errorf("has a control character in it, %U at place %d: take it out, also line breaks and tabs", r, utf8.RuneCountInString(s[:i])+1)
	}
	return nil
}

// wrong is an error about a setting of serve: a key of parley.yaml by its path, or a flag by its name. It says neither
// where that stands nor what it is called: see serveCommand.place.
func wrong(key, format string, args ...any) *failure {
	f := usage(format, args...)
	f.key = key
	return f
}

// about says of an error which setting it is about. A path that it has is one below key. Errors of what other commands
// share begin with their flag, which is left out.
func about(key string, err error) error {
	f := *failureOf(err)
	switch {
	case f.key == "" && key != "":
		if rest := strings.TrimLeft(f.message, "-"); len(f.message)-len(rest) == 2 {
			f.message = strings.TrimLeft(rest[max(0, strings.IndexAny(rest, ":= ")):], ":= ")
		}
		f.key = key
	case key != "":
		f.key = key + "." + f.key
	}
	return &f
}

// refused is what a package of ours says of what was configured under key. Packages name their options as Go does, and the
// keys are called alike: JWTOptions.KeysURL is keys-url.
func refused(key string, err error) *failure {
	text := err.Error()
	if name, rest, ok := strings.Cut(text, ": "); ok && slices.Contains([]string{"auth", "parley", "delegation", "audit", "agentcard"}, name) {
		text = rest
	}
	if first, rest, ok := strings.Cut(text, " "); ok {
		if kind, option, ok := strings.Cut(first, "."); ok && (strings.HasSuffix(kind, "Options") || kind == "OAuth") {
			key, text = key+"."+optionKey(strings.TrimRight(option, ",:")), rest
		}
	}
	return wrong(key, "%s", strings.TrimSuffix(text, ", or set Credential.Cleartext")) // for which there is no key
}

// optionKey returns the key of an option.
func optionKey(option string) string {
	var b strings.Builder
	for i, r := range option {
		if i > 0 && r >= 'A' && r <= 'Z' && option[i-1] >= 'a' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
