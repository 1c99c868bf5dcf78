package tap

import (
	"slices"
	"strings"
	"testing"
)

// TestFramers cuts streams at every byte and at once.
func TestFramers(t *testing.T) {
	flagged := func(flag byte, b []byte) string {
		out := appendMessage(nil, b)
		out[0] = flag
		return string(out)
	}
	for name, c := range map[string]struct {
		grpc bool
		in   string
		want []string
		bad  string
	}{
		"events":          {in: "\ufeffevent: e\nid: 7\ndata: a\ndata:b\r\n\r\n: c\rdata: d\r\r", want: []string{"a\nb", "d"}},
		"no field":        {in: "hello\ndata: a\n\n", want: []string{"a"}, bad: "no field: hello"},
		"no end":          {in: "data: a\n\ndata: b\n", want: []string{"a"}, bad: "within an event: b"},
		"a comment last":  {in: "data: a\n\n: b\n", want: []string{"a"}},
		"messages":        {grpc: true, in: flagged(0, []byte("a")) + flagged(0, nil) + flagged(0, []byte("bc")), want: []string{"a", "", "bc"}},
		"compressed":      {grpc: true, in: flagged(1, zipped(t, "abc")) + flagged(0, []byte("d")), want: []string{"abc", "d"}},
		"not compressed":  {grpc: true, in: flagged(1, []byte("abc")), bad: "a compressed message"},
		"an odd flag":     {grpc: true, in: flagged(7, []byte("abc")), bad: "the flag 7"},
		"half a message":  {grpc: true, in: flagged(0, []byte("abc"))[:6], bad: "within a message"},
		"nothing":         {grpc: true},
		"no event either": {},
	} {
		for _, step := range []int{1, 1 << 20} {
			var f framer = new(events)
			if c.grpc {
				f = &messages{encoding: "gzip"}
			}
			var got []string
			for chunk := range slices.Chunk([]byte(c.in), step) {
				f.feed(chunk, func(f Frame) { got = append(got, string(f.Data)) })
			}
			bad := f.end()
			if !slices.Equal(got, c.want) || (bad == "") != (c.bad == "") || !strings.Contains(bad, c.bad) {
				t.Errorf("%s: got %q, %q, want %q, %q", name, got, bad, c.want, c.bad)
			}
		}
	}
}
