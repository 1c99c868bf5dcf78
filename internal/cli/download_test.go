package cli

import (
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

func TestSafeName(t *testing.T) {
	for in, want := range map[string]string{
		"report.pdf": "report.pdf", "../../etc/passwd": "passwd", `..\..\x.txt`: "x.txt", "/": "unnamed", "..": "unnamed", "": "unnamed",
		".bashrc": "_bashrc", "-rf": "_rf", "a:b|c?.txt": "a_b_c_.txt", "x\x00\n\u202ey": "x___y", "nul": "_nul", "COM1.txt": "_COM1.txt", "Console.txt": "Console.txt",
		"end. ": "end", " space ": "space", "ü.md": "ü.md", "bad\xff.txt": "bad_.txt", "C:\\x": "x", "...": "unnamed", "a/..": "unnamed",
	} {
		if got := safeName(in); got != want {
			t.Errorf("safeName(%q) = %q, want %q", in, got, want)
		}
	}
	long := safeName(strings.Repeat("ä", 300) + ".html")
	if len(long) > maxName || !strings.HasSuffix(long, ".html") || strings.ContainsRune(long, '\ufffd') {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

func TestFilesOf(t *testing.T) {
	text := func(s string) *a2a.Part { return &a2a.Part{Content: a2a.Text(s)} }
	files, links := filesOf([]*a2a.Artifact{
		{Name: "log", Parts: []*a2a.Part{text("a"), text("b"), {Content: a2a.Data(`{}`)}, text("c")}},
		{ArtifactID: "id1", Parts: []*a2a.Part{{Content: a2a.Raw("x"), Filename: "LOG.txt"}, {Content: a2a.Raw("y"), MediaType: "image/png"}}},
		{Name: "far", Parts: []*a2a.Part{{Content: a2a.URL("https://x.example/f")}, {Content: a2a.Text("# T"), MediaType: "text/markdown; charset=utf-8"}}},
	})
	var got []string
	for _, f := range files {
		got = append(got, f.name+"="+string(f.content))
	}
	want := "log.txt=ab log.json={} log-2.txt=c LOG-3.txt=x id1.png=y far.md=# T"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("files\n%s\nwant\n%s", s, want)
	}
	if len(links) != 1 || links[0] != "unnamed at https://x.example/f" {
		t.Errorf("links %q", links)
	}
}
