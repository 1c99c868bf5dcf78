package jsonx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// asError returns err as an *Error; nil if it is nil.
func asError(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("error is %T, want *Error", err)
	}
	return e
}

func TestSyntax(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for _, tt := range []struct {
		in     string
		offset int // of the error; -1: none
		msg    string
	}{
		{`{}`, -1, ""},
		{" {\t\"a\" :\r\n[ 1 , -0 , 0.5e+10, \"\\u00e9\\ud83d\\ude00\" , true , false , null ] } ", -1, ""},
		{`"` + "\x7f\u2028é😀" + `"`, -1, ""},
		{deep, -1, ""},
		{"", 0, "unexpected end, a value is missing"},
		{" ", 1, "unexpected end, a value is missing"},
		{"\ufeff{}", 0, "unexpected byte 0xef, want a value"},
		{"{}{}", 2, "unexpected '{', want the end"},
		{"{} \x00", 3, "unexpected byte 0x00, want the end"},
		{"{\v}", 1, "unexpected byte 0x0b, want a name in quotes"},
		{"[" + deep + "]", 64, "nested too deeply, the limit is 64"},
		{strings.Repeat(`{"a":`, 65), 320, "nested too deeply, the limit is 64"},
		{`{`, 1, "unexpected end, a name in quotes is missing"},
		{`{"a"`, 4, "unexpected end, ':' is missing"},
		{`{"a",1}`, 4, "unexpected ',', want ':'"},
		{`{"a":}`, 5, "unexpected '}', want a value"},
		{`{"a":1`, 6, "unexpected end, ',' or '}' is missing"},
		{`{"a":1,}`, 7, "unexpected '}', want a name in quotes"},
		{`{a:1}`, 1, "unexpected 'a', want a name in quotes"},
		{`{'a':1}`, 1, `unexpected '\'', want a name in quotes`},
		{`{"a":1 "b":2}`, 7, `unexpected '"', want ',' or '}'`},
		{`[1,]`, 3, "unexpected ']', want a value"},
		{`[1 2]`, 3, "unexpected '2', want ',' or ']'"},
		{`[,1]`, 1, "unexpected ',', want a value"},
		{`[1}`, 2, "unexpected '}', want ',' or ']'"},
		{`[`, 1, "unexpected end, a value is missing"},
		{`]`, 0, "unexpected ']', want a value"},
		{`tru`, 3, "unexpected end, true is missing"},
		{`trUe`, 2, "unexpected 'U', want true"},
		{`nulll`, 4, "unexpected 'l', want the end"},
		{`fals `, 4, "unexpected ' ', want false"},
		{`NaN`, 0, "unexpected 'N', want a value"},
		{`Infinity`, 0, "unexpected 'I', want a value"},
		{`-Infinity`, 1, "unexpected 'I', want a digit"},
		{`-`, 1, "unexpected end, a digit is missing"},
		{`+1`, 0, "unexpected '+', want a value"},
		{`01`, 1, "unexpected '1', want the end"},
		{`-01`, 2, "unexpected '1', want the end"},
		{`.5`, 0, "unexpected '.', want a value"},
		{`1.`, 2, "unexpected end, a digit is missing"},
		{`1.e1`, 2, "unexpected 'e', want a digit"},
		{`1e`, 2, "unexpected end, a digit is missing"},
		{`1e+x`, 3, "unexpected 'x', want a digit"},
		{`0x10`, 1, "unexpected 'x', want the end"},
		{`1_000`, 1, "unexpected '_', want the end"},
		{`"`, 1, "unexpected end, the quote at the end of a string is missing"},
		{`"abcdefghijkl`, 13, "unexpected end, the quote at the end of a string is missing"},
		{`"\`, 2, "unexpected end, the rest of an escape is missing"},
		{`"\"`, 3, "unexpected end, the quote at the end of a string is missing"},
		{`"\x41"`, 1, "unknown escape in a string"},
		{`"\u12`, 5, "unexpected end, a hexadecimal digit is missing"},
		{`"\u12g4"`, 5, "unexpected 'g', want a hexadecimal digit"},
		{`"ab\ud800"`, 3, "half of a surrogate pair in a string"},
		{`"\ud800\n"`, 1, "half of a surrogate pair in a string"},
		{`"\ud800\ud800"`, 1, "half of a surrogate pair in a string"},
		{`"\udc00\ud800"`, 1, "half of a surrogate pair in a string"},
		{`"\ud800\u12"`, 11, `unexpected '"', want a hexadecimal digit`},
		{"\"a\nb\"", 2, "control character in a string, it must be written as an escape"},
		{"\"abcdefghij\x1f\"", 11, "control character in a string, it must be written as an escape"},
		{"\"a\x00\"", 2, "control character in a string, it must be written as an escape"},
		{"\"abcdefgh\xff\"", 9, "a string is not UTF-8"},
		{"\"é\xc3\"", 3, "a string is not UTF-8"},
		{"\"\\n\xed\xa0\x80\"", 3, "a string is not UTF-8"}, // a surrogate as CESU-8 has it
		{"\"\xc0\xaf\"", 1, "a string is not UTF-8"},        // longer than it needs to be
		{"{\"\xff\":1}", 2, "a string is not UTF-8"},
	} {
		e := asError(t, Valid([]byte(tt.in)))
		switch {
		case tt.offset < 0 && e != nil:
			t.Errorf("%.80q: %v", tt.in, e)
		case tt.offset >= 0 && (e == nil || !e.Syntax || e.Offset != tt.offset || e.Msg != tt.msg):
			t.Errorf("%.80q: %+v\nwant a syntax error at %d: %s", tt.in, e, tt.offset, tt.msg)
		}
	}
}

func TestDuplicateNames(t *testing.T) {
	var many, twice strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"n%d":0,`, i)
	}
	for i := range fewNames {
		fmt.Fprintf(&twice, `"n%d":0,`, i)
	}
	for _, tt := range []struct{ in, path string }{
		{`{"a":1,"a":1}`, "a"},
		{`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}`, ""},
		{`{"x":[0,{"a":1,"\u0061":1}]}`, "x[1].a"},
		{`{"a\"b":1,"a\u0022b":1}`, `["a\"b"]`},
		{`{"a":1,"A":1}`, ""},
		{`{"a_b":1,"aB":1}`, ""}, // data, not fields
		{`{"":1,"":2}`, `[""]`},
		{`{` + many.String() + `"last":0}`, ""},
		{`{` + many.String() + `"n0":0}`, "n0"},
		{`{` + many.String() + `"n999":0}`, "n999"},
		{`{` + twice.String() + `"n15":0}`, "n15"}, // the first that the map sees
		{`{` + twice.String() + `"n16":0,"n16":0}`, "n16"},
	} {
		e := asError(t, Valid([]byte(tt.in)))
		switch {
		case tt.path == "" && e != nil:
			t.Errorf("%.80s: %v", tt.in, e)
		case tt.path != "" && (e == nil || e.Syntax || e.Path != tt.path || e.Msg != "the name is there twice"):
			t.Errorf("%.80s: %+v, want it about %s", tt.in, e, tt.path)
		}
	}
	t.Run("fields are compared as they are called", func(t *testing.T) {
		r := NewReader([]byte(`{"message":{"task_id":1,"taskId":2}}`))
		for range r.Fields() {
			for range r.Fields() {
			}
		}
		if e := asError(t, r.End()); e == nil || e.Error() != "message.taskId: the name is there twice" {
			t.Errorf("error %v", e)
		}
	})
}

func TestFields(t *testing.T) {
	const in = `{"taskId":1,"task_id2":2,"context_id":3,"_a":4,"a_":5,"a__b":6,"a_B":7,"a_1":8,"A_b":9,"\u0061_b":10,` +
		`"openIdConnect":11,"a.b_c":12,"n":null}`
	collect := func(r *Reader, fields func(func(string) bool)) (names []string) {
		for name := range fields {
			names = append(names, strings.Clone(name)+"="+string(r.Raw()))
		}
		if err := r.End(); err != nil {
			t.Error(err)
		}
		return names
	}
	r := NewReader([]byte(in))
	want := []string{
		"taskId=1", "taskId2=2", "contextId=3", "_a=4", "a_=5", "a__b=6", "a_B=7", "a_1=8", "A_b=9", "aB=10",
		"openIdConnect=11", "a.b_c=12", "n=null",
	}
	if got := collect(r, r.Fields()); !slices.Equal(got, want) {
		t.Errorf("Fields: %q", got)
	}
	r = NewReader([]byte(in))
	if got := collect(r, r.Present()); !slices.Equal(got, want[:12]) {
		t.Errorf("Present: %q", got)
	}
	r = NewReader([]byte(in))
	want[1], want[2], want[9] = "task_id2=2", "context_id=3", "a_b=10"
	if got := collect(r, r.RawFields()); !slices.Equal(got, want) {
		t.Errorf("RawFields: %q", got)
	}
}

func TestRawFieldsMayBeKept(t *testing.T) {
	in := []byte(`{"name":"text","\u006eame2":"te\u0078t2"}`)
	var kept []string
	r := NewReader(in)
	for name := range r.RawFields() {
		kept = append(kept, name, r.String())
	}
	clear(in)
	if want := []string{"name", "text", "name2", "text2"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

func TestLoopsSkipWhatTheBodyLeaves(t *testing.T) {
	r := NewReader([]byte(` [ {"a":[1,{"b":2}],"c":3} , 7 , {"x":1,"y":2,"z":3} , [1,2,3] , "end" ] `))
	var saw []string
	for i := range r.Elems() {
		switch i {
		case 0: // unread
		case 1:
			saw = append(saw, fmt.Sprint(r.Int32()))
		case 2:
			for name := range r.Fields() {
				if name == "y" {
					saw = append(saw, fmt.Sprint(r.Int32()))
					break
				}
			}
		case 3:
			for range r.Elems() {
				break
			}
		default:
			saw = append(saw, r.String())
		}
	}
	if err := r.End(); err != nil || !slices.Equal(saw, []string{"7", "2", "end"}) {
		t.Errorf("saw %q, error %v", saw, err)
	}
}

func TestNullIsEmpty(t *testing.T) {
	r := NewReader([]byte(`[null,null,null,null,null,null,null,null,1]`))
	for i := range r.Elems() {
		switch i {
		case 0:
			for name := range r.Fields() {
				t.Errorf("null has a member %q", name)
			}
		case 1:
			for range r.Elems() {
				t.Error("null has an element")
			}
		case 2:
			if s := r.String(); s != "" {
				t.Errorf("String: %q", s)
			}
		case 3:
			if b := r.Bytes(); b != nil {
				t.Errorf("Bytes: %q", b)
			}
		case 4:
			if r.Bool() {
				t.Error("Bool is true")
			}
		case 5:
			if n := r.Int32(); n != 0 {
				t.Errorf("Int32: %d", n)
			}
		case 6:
			if tm := r.Time(); !tm.IsZero() {
				t.Errorf("Time: %v", tm)
			}
		case 7:
			if !r.Null() {
				t.Error("Null is false for null")
			}
		default:
			if r.Null() {
				t.Error("Null is true for 1")
			}
		}
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

func TestErrorsAreSticky(t *testing.T) {
	r := NewReader([]byte(`{"a":[1,"x",3],"b":2}`))
	rounds := 0
	for range r.Fields() {
		for range r.Elems() {
			rounds++
			r.Int32()
		}
		r.Fail("later")
	}
	if r.Kind() != 0 || r.String() != "" || r.Int32() != 0 || r.Bool() || r.Null() || r.Raw() != nil || r.Bytes() != nil ||
		!r.Time().IsZero() {
		t.Error("a reader with an error still reads")
	}
	for range r.Elems() {
		t.Error("a reader with an error still loops")
	}
	if e := asError(t, r.End()); e == nil || e.Error() != "a[1]: must be a whole number" || rounds != 2 {
		t.Errorf("after %d rounds: %v", rounds, e)
	}
}

func TestPath(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, tt := range []struct {
		in, path string
	}{
		{`"x"`, ""},
		{`["x"]`, "[0]"},
		{`{"message":{"parts":[0,{"text":"x"}]}}`, "message.parts[1].text"},
		{`{"status_update":{"task_id":"x"}}`, "statusUpdate.taskId"},
		{`{"a":{"b":[[1],[2,[3,"x"]]]}}`, "a.b[1][1][1]"},
		{`{"a":["],}{","\"x"],"b":{"c":",","d":"x"}}`, "b.d"},
		{`{"a b":{"c.d":{"":"x"}}}`, `["a b"]["c.d"][""]`},
		{`{"` + long + `":"x"}`, `["` + strings.Repeat("é", 32) + `…"]`},
		{
			`{"` + strings.Repeat(`aaaaaaaaaaaaaaaaaaaaaaaaaaaaa":{"`, 20) + `b":"x"` + strings.Repeat("}", 21),
			strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaa.", 9)[:256] + "…",
		},
	} {
		r := NewReader([]byte(tt.in))
		failAtX(r)
		if e := asError(t, r.End()); e == nil || e.Path != tt.path || e.Msg != "found" {
			t.Errorf("%s: %+v, want the path %s", tt.in, e, tt.path)
		}
	}
}

// failAtX reads the next value and fails at the first string "x".
func failAtX(r *Reader) {
	switch r.Kind() {
	case '{':
		for range r.Fields() {
			failAtX(r)
		}
	case '[':
		for range r.Elems() {
			failAtX(r)
		}
	case '"':
		if r.String() == "x" {
			r.Fail("found")
		}
	default:
		r.Skip()
	}
}

func TestPathKeepsNamesThatAreData(t *testing.T) {
	r := NewReader([]byte(`{"push_config":{"my_key":{"task_id":5}}}`))
	for range r.Fields() {
		for range r.RawFields() {
			for range r.Fields() {
				_ = r.String()
			}
		}
	}
	if e := asError(t, r.End()); e == nil || e.Error() != "pushConfig.my_key.taskId: must be a string, not a number" {
		t.Errorf("error %v", e)
	}
}

func TestFailIsAboutTheLastValue(t *testing.T) {
	const in = `{"a":{"b":[1,2]},"c":3}`
	for _, tt := range []struct {
		when string
		want string
	}{
		{"before a", "a: no"},
		{"in b", "a.b[1]: no"},
		{"after b", "a.b: no"},
		{"after a", "a: no"},
		{"after c", "c: no"},
		{"after all", "no"},
	} {
		r := NewReader([]byte(in))
		fail := func(when string) {
			if when == tt.when {
				r.Fail("no")
			}
		}
		for name := range r.Fields() {
			if name == "c" {
				_ = r.Int32()
				fail("after c")
				continue
			}
			fail("before a")
			for range r.Fields() {
				for i := range r.Elems() {
					_ = r.Int32()
					if i == 1 {
						fail("in b")
					}
				}
				fail("after b")
			}
			fail("after a")
		}
		fail("after all")
		if e := asError(t, r.End()); e == nil || e.Error() != tt.want || e.Syntax {
			t.Errorf("%s: %v, want %s", tt.when, e, tt.want)
		}
	}
}

func TestWhatIsNotJSONIsCalledSo(t *testing.T) {
	// The wrong shape comes first, but a byte after it is not JSON at all.
	r := NewReader([]byte(`{"a":"x","a":1,"b":[1,}`))
	for range r.Fields() {
		_ = r.Int32()
	}
	e := asError(t, r.End())
	if e == nil || !e.Syntax || e.Offset != 22 || e.Path != "b[1]" {
		t.Errorf("error %+v", e)
	}
	if want := "invalid JSON at byte 22: unexpected '}', want a value"; e.Error() != want {
		t.Errorf("error %q, want %q", e.Error(), want)
	}
}

func TestKinds(t *testing.T) {
	read := map[string]func(r *Reader){
		"an object":      func(r *Reader) { r.Fields()(func(string) bool { return true }) },
		"an array":       func(r *Reader) { r.Elems()(func(int) bool { return true }) },
		"a string":       func(r *Reader) { _ = r.String() },
		"true or false":  func(r *Reader) { r.Bool() },
		"a whole number": func(r *Reader) { r.Int32() },
	}
	for _, tt := range []struct{ in, kind string }{
		{`{}`, "an object"},
		{`[]`, "an array"},
		{`"x"`, "a string"},
		{`true`, "a boolean"},
		{`1`, "a number"},
	} {
		for want, f := range read {
			r := NewReader([]byte(tt.in))
			f(r)
			fits := want == tt.kind || want == "true or false" && tt.kind == "a boolean" || want == "a whole number" && tt.kind == "a number"
			e := asError(t, r.End())
			switch {
			case fits && e != nil:
				t.Errorf("%s as %s: %v", tt.in, want, e)
			case want == "a whole number" && tt.kind == "a string": // a number may be in quotes, x is none
			case !fits && (e == nil || e.Msg != "must be "+want+", not "+tt.kind || e.Syntax):
				t.Errorf("%s as %s: %+v", tt.in, want, e)
			}
		}
	}
}

func TestInt32(t *testing.T) {
	const (
		whole = "must be a whole number"
		size  = "must be between -2147483648 and 2147483647"
	)
	for _, tt := range []struct {
		in   string
		want int32
		msg  string
	}{
		{"0", 0, ""},
		{"-0", 0, ""},
		{"7", 7, ""},
		{"-7", -7, ""},
		{`"7"`, 7, ""},
		{`"-7"`, -7, ""},
		{`"\u0037"`, 7, ""},
		{"1e2", 100, ""},
		{"1E+2", 100, ""},
		{"2.0", 2, ""},
		{"1.50e1", 15, ""},
		{"1200e-2", 12, ""},
		{"0.00e-5", 0, ""},
		{`"1e2"`, 100, ""},
		{"-100.000", -100, ""},
		{"0.02e2", 2, ""},
		{"10.0e-1", 1, ""},
		{"0e99999999999999999999", 0, ""},
		{"2147483647", math.MaxInt32, ""},
		{"-2147483648", math.MinInt32, ""},
		{"2147483647.0", math.MaxInt32, ""},
		{"2147483648", 0, size},
		{"-2147483649", 0, size},
		{"1e10", 0, size},
		{"1e99999999999999999999", 0, size},
		{strings.Repeat("9", 1000), 0, size},
		{"1" + strings.Repeat("0", 1000) + "e-1000", 1, ""},
		{"1.5", 0, whole},
		{"1e-1", 0, whole},
		{"0.5", 0, whole},
		{"1e-99999999999999999999", 0, whole},
		{"12e-2", 0, whole},
		{`""`, 0, whole},
		{`" 7"`, 0, whole},
		{`"7 "`, 0, whole},
		{`"x"`, 0, whole},
		{`"07"`, 0, whole},
		{`"+7"`, 0, whole},
		{`"0x7"`, 0, whole},
		{`"7,8"`, 0, whole},
		{`"NaN"`, 0, whole},
		{`"null"`, 0, whole},
		{"true", 0, "must be a whole number, not a boolean"},
		{"[]", 0, "must be a whole number, not an array"},
	} {
		r := NewReader([]byte(tt.in))
		n := r.Int32()
		e := asError(t, r.End())
		switch {
		case tt.msg == "" && (e != nil || n != tt.want):
			t.Errorf("%.30s: %d, %v; want %d", tt.in, n, e, tt.want)
		case tt.msg != "" && (e == nil || e.Msg != tt.msg || e.Syntax):
			t.Errorf("%.30s: %d, %v; want %s", tt.in, n, e, tt.msg)
		}
	}
}

func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want string // "-": an error
	}{
		{"", ""},
		{"AP/+", "\x00\xff\xfe"},
		{"AP_-", "\x00\xff\xfe"},
		{"AP8=", "\x00\xff"},
		{"AP8", "\x00\xff"},
		{"_w==", "\xff"},
		{"_w", "\xff"},
		{"/w", "\xff"},
		{"A", "-"},
		{"AP8==", "-"},
		{"AP=", "-"},
		{"A===", "-"},
		{"====", "-"},
		{"=", "-"},
		{"AP/-", "-"},
		{"AP 8", "-"},
		{`AP8=AP8=`, "-"},
		{`AP8\n`, "-"},
		{`AAAA\n`, "-"},
		{`AAA\r\nA`, "-"},
		{"é", "-"},
	} {
		r := NewReader([]byte(`"` + tt.in + `"`))
		got := r.Bytes()
		e := asError(t, r.End())
		switch {
		case tt.want == "-" && (e == nil || e.Msg != "must be base64" || e.Syntax || got != nil):
			t.Errorf("%s: %q, %v; want an error", tt.in, got, e)
		case tt.want != "-" && (e != nil || got == nil || string(got) != tt.want):
			t.Errorf("%s: %q, %v; want %q", tt.in, got, e, tt.want)
		}
	}
}

func TestTime(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"},
		{"2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.5Z"},
		{"2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00.123456789Z"},
		{"2026-01-31T12:00:00.000000001Z", "2026-01-31T12:00:00.000000001Z"},
		{"2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"},
		{"2026-01-31T00:30:00.25-23:59", "2026-02-01T00:29:00.25Z"},
		{"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"},
		{"0000-12-31T23:59:59Z", ""},
		{"0001-01-01T00:00:00+00:01", ""},
		{"9999-12-31T23:59:59-00:01", ""},
		{"2023-02-29T00:00:00Z", ""},
		{"2026-04-31T00:00:00Z", ""},
		{"2026-13-01T00:00:00Z", ""},
		{"2026-00-01T00:00:00Z", ""},
		{"2026-01-00T00:00:00Z", ""},
		{"2026-01-01T24:00:00Z", ""},
		{"2026-01-01T00:60:00Z", ""},
		{"2026-01-01T00:00:60Z", ""},
		{"2026-01-01T00:00:00", ""},
		{"2026-01-01 00:00:00Z", ""},
		{"2026-01-01T00:00:00.Z", ""},
		{"2026-01-01T00:00:00,5Z", ""},
		{"2026-01-01T00:00:00.1234567890Z", ""},
		{"2026-01-01T00:00:00z", ""},
		{"2026-01-01t00:00:00Z", ""},
		{"2026-01-01T00:00:00+24:00", ""},
		{"2026-01-01T00:00:00+2:00", ""},
		{"2026-01-01T00:00:00+0200", ""},
		{"2026-01-01T00:00:00+01:60", ""},
		{"2026-01-01T00:00:00ZZ", ""},
		{"2026-01-01", ""},
		{"", ""},
		{"yesterday", ""},
		{"2026-1-01T00:00:00Z", ""},
		{"2026-01-01T+1:00:00Z", ""},
		{"-026-01-01T00:00:00Z", ""},
		{"2026-01-01T00:00:00.5", ""},
	} {
		r := NewReader([]byte(`"` + tt.in + `"`))
		got := r.Time()
		e := asError(t, r.End())
		switch {
		case tt.want == "" && (e == nil || e.Syntax || e.Msg != "must be an RFC 3339 time such as 2026-01-31T12:00:00Z"):
			t.Errorf("%s: %v, %v; want an error", tt.in, got, e)
		case tt.want != "" && (e != nil || got.Location() != time.UTC || got.Format(time.RFC3339Nano) != tt.want):
			t.Errorf("%s: %v, %v; want %s", tt.in, got, e, tt.want)
		}
	}
	r := NewReader([]byte(`1767225600`))
	r.Time()
	if e := asError(t, r.End()); e == nil || e.Msg != "must be a string, not a number" {
		t.Errorf("a number as a time: %v", e)
	}
}

func TestRaw(t *testing.T) {
	in := []byte("[ {\"a\" : 1} ,\t\"\\u0041\" , -1.50e+2 , null ]")
	var got []string
	r := NewReader(in)
	for range r.Elems() {
		raw := r.Raw()
		got = append(got, string(raw))
		_ = append(raw, 'X') // must not write into the input
	}
	want := []string{`{"a" : 1}`, `"\u0041"`, `-1.50e+2`, `null`}
	if err := r.End(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestReset(t *testing.T) {
	r := NewReader([]byte(`{"a":`))
	r.Skip()
	if r.End() == nil {
		t.Fatal("no error")
	}
	r.Reset([]byte(`{"a":1}`), MaxDepth)
	r.Skip()
	if err := r.End(); err != nil {
		t.Errorf("the error before came back: %v", err)
	}
}

func TestReplyDepth(t *testing.T) {
	for n, fits := range map[int]bool{MaxDepth + 1: true, MaxReplyDepth: true, MaxReplyDepth + 1: false} {
		in := strings.Repeat(`{"my_a":`, n) + "0" + strings.Repeat("}", n)
		r := NewReplyReader([]byte(in))
		r.Skip()
		if e := asError(t, r.End()); fits != (e == nil) || e != nil && (!e.Syntax || e.Msg != "nested too deeply, the limit is 80") {
			t.Errorf("%d deep: %v", n, e)
		}
		in = strings.Replace(in, "0", `"x"`, 1)
		r = NewReplyReader([]byte(in))
		failAtX(r)
		if e := asError(t, r.End()); fits && (e == nil || e.Msg != "found") {
			t.Errorf("%d deep: %v", n, e)
		}
	}
}

func TestReadingFieldsDoesNotAllocate(t *testing.T) {
	in := []byte(`{"id":"task-1","count":3,"list":[1,2,{"deep":[true,null]}],"unknown":{"a":"\n","b":[]}}`)
	var r Reader
	n := testing.AllocsPerRun(100, func() {
		r.Reset(in, MaxDepth)
		sum := 0
		for name := range r.Fields() {
			switch name {
			case "id":
				sum += len(r.Text())
			case "count":
				sum += int(r.Int32())
			case "list":
				for i := range r.Elems() {
					sum += i
				}
			}
		}
		if r.End() != nil || sum != 12 {
			t.Errorf("sum %d, error %v", sum, r.Err())
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReader compares the reader with encoding/json and with the rules that encoding/json does not have.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `[{}]`, `null`, ` true `, `"\u00e9\ud83d\ude00"`, `"\ud800"`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `-0.5e+7`, `01`, "\"\xff\"",
		`{"n":1,"big":9007199254740993,"z":null,"e":{},"l":[null,{}]}`, `7`, `"7"`, `1.5`, `{`, `{"jsonrpc":"1.0"}`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65), `{"a":[1,{"b":"c\nd"}],"e":"<&>"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		e := asError(t, Valid(in))
		switch {
		case !json.Valid(in), !utf8.Valid(in), hasHalfSurrogate(in), depth(in) > MaxDepth:
			if e == nil || !e.Syntax {
				t.Fatalf("%q: %v, want a syntax error", in, e)
			}
			return
		case hasDuplicate(t, in):
			if e == nil || e.Syntax {
				t.Fatalf("%q: %v, want a duplicate name", in, e)
			}
			return
		case e != nil:
			t.Fatalf("%q: %v, want no error", in, e)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, in); err != nil {
			t.Fatal(err)
		}
		if got := AppendCompact(nil, in); !bytes.Equal(got, compact.Bytes()) {
			t.Fatalf("%q: compact %q, want %q", in, got, compact.Bytes())
		}
		if got := NewReader(in).Raw(); !bytes.Equal(got, bytes.Trim(in, " \t\r\n")) {
			t.Fatalf("%q: raw %q", in, got)
		}
		var s string
		if json.Unmarshal(in, &s) == nil {
			if got := NewReader(in).String(); got != s {
				t.Fatalf("%q: string %q, want %q", in, got, s)
			}
		}
	})
}

// hasHalfSurrogate reports whether valid JSON has an escaped surrogate without its other half.
func hasHalfSurrogate(in []byte) bool {
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' {
			continue
		}
		c, ok := escapeAt(in, i)
		if i++; !ok || !utf16.IsSurrogate(c) {
			continue
		}
		low, ok := escapeAt(in, i+5)
		if !ok || utf16.DecodeRune(c, low) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

func escapeAt(in []byte, i int) (rune, bool) {
	var c rune
	if i+6 > len(in) || in[i] != '\\' || in[i+1] != 'u' {
		return 0, false
	}
	_, err := fmt.Sscanf(string(in[i+2:i+6]), "%04x", &c)
	return c, err == nil
}

func depth(in []byte) (deepest int) {
	n, quoted := 0, false
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			n++
			deepest = max(deepest, n)
		case c == '}' || c == ']':
			n--
		}
	}
	return deepest
}

// hasDuplicate reports whether an object in valid JSON has the same name twice.
func hasDuplicate(t *testing.T, in []byte) bool {
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	var value func() bool
	value = func() bool {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		dup := false
		seen := map[string]bool{}
		if open, ok := tok.(json.Delim); ok {
			for d.More() {
				if open == '{' {
					name, _ := d.Token()
					dup = dup || seen[name.(string)]
					seen[name.(string)] = true
				}
				dup = value() || dup
			}
			_, _ = d.Token()
		}
		return dup
	}
	return value()
}
