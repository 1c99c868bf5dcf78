package tap

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadOther names files to Read that are no recording, or not the beginning of one.
func TestReadOther(t *testing.T) {
	head := func(part int) string { return fmt.Sprintf(`{"type":"tap","formatVersion":1,"part":%d}`, part) }
	begin := `{"type":"begin","id":1,"kind":"call"}` + "\n"
	for name, c := range map[string]struct {
		first, second, want string
		n                   int
	}{
		"nothing":                {want: "no recording of parley tap"},
		"zeroes":                 {first: strings.Repeat("\x00", 20), want: "no recording of parley tap"},
		"zeroes and a line":      {first: "\x00\x00\n", want: "no recording of parley tap"},
		"one line without end":   {first: `{"name":"A"}`, want: "no recording of parley tap"},
		"another line":           {first: `{"name":"A"}` + "\n", want: "no recording of parley tap"},
		"a second part":          {first: head(2) + "\n" + begin, want: "part 2 of a recording"},
		"no request yet":         {first: head(1) + "\n"},
		"cut off":                {first: head(1) + "\n" + begin + begin[:9], n: 1},
		"both parts":             {first: head(1) + "\n" + begin, second: head(2) + "\n" + strings.Replace(begin, "1", "2", 1), n: 2},
		"a second part, cut off": {first: head(1) + "\n" + begin, second: " ", n: 1},
		"first as second":        {first: head(1) + "\n" + begin, second: head(1) + "\n" + begin, want: "part 1 of a recording"},
	} {
		path := filepath.Join(t.TempDir(), "t.jsonl")
		if err := os.WriteFile(path, []byte(c.first), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.second != "" {
			if err := os.WriteFile(partPath(path, 2), []byte(c.second), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all, err := Read(path)
		if said := fmt.Sprint(err); len(all) != c.n || (err != nil) != (c.want != "") || !strings.Contains(said, c.want) && err != nil {
			t.Errorf("%s: %d exchanges, %v, want %q", name, len(all), err, c.want)
		}
	}
}
