package jsonx

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestAppendString(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{"<a&b> 😀 \u2028\u2029 \x7f / '", "\"<a&b> 😀 \u2028\u2029 \x7f / '\""},
		{`a"b\c`, `"a\"b\\c"`},
		{"\b\f\n\r\t\x00\x1f", `"\b\f\n\r\t\u0000\u001f"`},
		{"12345678\n12345678\"", `"12345678\n12345678\""`},
		{"é\n日本語", `"é\n日本語"`},
		{"a\xffb", "\"a\ufffdb\""},
		{"é\xe3\x81\"\n\xc3", "\"é\ufffd\ufffd\\\"\\n\ufffd\""},
		{"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
		{"\ufffd", "\"\ufffd\""},
	} {
		if got := string(AppendString([]byte("x"), tt.in)); got != "x"+tt.want {
			t.Errorf("%q: %s, want %s", tt.in, got[1:], tt.want)
		}
	}
}

// Every kind of byte at every place of the eight that are looked at together.
func TestAppendStringAtEveryPlace(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				s := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("a", n-at-1)
				out := AppendString(nil, s)
				var back string
				if err := json.Unmarshal(out, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") {
					t.Fatalf("%q: %q, %v", s, out, err)
				}
				r := NewReader(out)
				if got := r.String(); got != back || r.End() != nil {
					t.Fatalf("%q: read as %q, %v", out, got, r.Err())
				}
				raw := NewReader([]byte(`"` + s + `"`))
				got := raw.String()
				sound := c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
				if sound != (raw.End() == nil) || sound && got != s {
					t.Fatalf("%q: read as %q, %v", s, got, raw.Err())
				}
			}
		}
	}
}

func TestAppendBase64(t *testing.T) {
	for in, want := range map[string]string{"": `""`, "\x00\xff\xfe": `"AP/+"`, "\xff": `"/w=="`} {
		if got := string(AppendBase64(nil, []byte(in))); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestAppendTime(t *testing.T) {
	tokyo := time.FixedZone("Asia/Tokyo", 9*60*60)
	for _, tt := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `"2026-01-02T03:04:05.000Z"`},
		{time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, tokyo), `"2026-01-01T18:04:05.999Z"`},
		{time.Date(2026, 12, 31, 23, 59, 59, 7_000_000, time.UTC), `"2026-12-31T23:59:59.007Z"`},
		{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), `"0001-01-01T00:00:00.000Z"`},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), `"9999-12-31T23:59:59.000Z"`},
	} {
		if got := string(AppendTime(nil, tt.in)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestAppendCompact(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{" {\r\n\t\"b\" : [ 1.0 , 1E+2 ] ,\n \"a\":\" x \\\" y \\\\\" } ", `{"b":[1.0,1E+2],"a":" x \" y \\"}`},
		{`{"a":1}`, `{"a":1}`},
		{`9007199254740993`, `9007199254740993`},
		{`"\u00e9 <&>` + "\u2028" + `"`, `"\u00e9 <&>` + "\u2028" + `"`},
		{"", ""},
		// Not JSON: it stays wrong, on one line.
		{"{\"a\n\":\"\\\n\r\",\x00\n", `{"a\n":"\\n\r",`},
		{`"abc`, `"abc`},
		{`"abc\`, `"abc\`},
	} {
		if got := string(AppendCompact([]byte("x"), []byte(tt.in))); got != "x"+tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got[1:], tt.want)
		}
	}
}

// FuzzWrite checks that what is written is one line of JSON that reads as what was meant.
func FuzzWrite(f *testing.F) {
	f.Add("<a&b> \u2028 \xff \" \\ \n é日本語😀")
	f.Add("\xc3")
	f.Fuzz(func(t *testing.T, s string) {
		out := AppendString(nil, s)
		want := strings.Map(func(r rune) rune { return r }, s) // every bad byte becomes U+FFFD
		r := NewReader(out)
		if got := r.String(); got != want || r.End() != nil || !utf8.Valid(out) {
			t.Errorf("%q: written %q, read %q, %v", s, out, got, r.Err())
		}
		r = NewReader(AppendBase64(nil, []byte(s)))
		if got := r.Bytes(); string(got) != s || r.End() != nil {
			t.Errorf("%q: read %q, %v", s, got, r.Err())
		}
		for _, c := range AppendCompact(nil, []byte(s)) {
			if c < ' ' {
				t.Errorf("%q: compact has byte 0x%02x", s, c)
			}
		}
		if got := AppendCompact(nil, out); !bytes.Equal(got, out) {
			t.Errorf("%q: compact %q", out, got)
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-01-31T12:00:00.5+02:00", "0001-01-01T00:00:00Z", "2024-02-30T00:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseTime([]byte(s))
		if !ok {
			return // stricter than package time in more than one way: see TestTime
		}
		want, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || !got.Equal(want) {
			t.Fatalf("%q: %v, want %v, %v", s, got, want, err)
		}
		r := NewReader(AppendTime(nil, got))
		if back := r.Time(); !back.Equal(got.Truncate(time.Millisecond)) || r.End() != nil {
			t.Fatalf("%q: back as %v, %v", s, back, r.Err())
		}
	})
}

// TestPlain puts every byte that matters at every place of texts that are read in words of different sizes.
func TestPlain(t *testing.T) {
	for size := range 80 {
		for at := range size {
			for _, c := range []byte{0, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff} {
				b := bytes.Repeat([]byte("x"), size)
				b[at] = c
				wantEnd, wantASCII := size, c < 0x80
				if c < ' ' || c == '"' || c == '\\' {
					wantEnd = at
				}
				for _, from := range []int{0, at / 2, at} {
					if end, ascii := plain(b, from); end != wantEnd || ascii != wantASCII {
						t.Fatalf("plain of %q from %d: %d, %v; want %d, %v", b, from, end, ascii, wantEnd, wantASCII)
					}
				}
			}
		}
	}
}

// BenchmarkPlain scans texts that need no escape.
func BenchmarkPlain(b *testing.B) {
	for _, size := range []int{16, 100, 64 << 10} {
		text := bytes.Repeat([]byte("x"), size)
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				plain(text, 0)
			}
		})
	}
}
