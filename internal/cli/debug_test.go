package cli

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

func TestWireBody(t *testing.T) {
	var lines []string
	long := strings.Repeat("x", maxLogged+5)
	in := "data: 1\r\n\r\ndata: " + long + "\n" + "the rest"
	b := &wireBody{ReadCloser: io.NopCloser(strings.NewReader(in)), line: func(s string) { lines = append(lines, s) }}
	got, err := io.ReadAll(fewBytes{b})
	if err != nil || string(got) != in {
		t.Fatalf("it changed what was read: %d bytes of %d, %v", len(got), len(in), err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 3 || lines[0] != "data: 1" || !strings.HasSuffix(lines[1], "(11 bytes more)") || lines[2] != "the rest" {
		t.Errorf("%d lines: %.80q", len(lines), lines)
	}
}

// fewBytes reads a few bytes at a time.
type fewBytes struct{ io.Reader }

func (r fewBytes) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 7)]) }

// TestClosedInTheMiddle has an agent whose answers break off: the code says that it was lost, and there is no stack.
func TestClosedInTheMiddle(t *testing.T) {
	p := newPeer(t, says("hi"), nil, nil)
	p.change(func(card *a2a.AgentCard) { card.Capabilities.Extensions = nil }) // with safe-retry it is tried again for a minute
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == a2a.CardPath {
			_, _ = w.Write(p.cardJSON())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{`))
		panic(http.ErrAbortHandler)
	})
	for _, args := range [][]string{{"task", "get", "t1"}, {"task", "cancel", "t1"}, {"send", "x"}, {"send", "--async", "x"}, {"task", "list"}} {
		got := parleyRun(append(args, "-a", p.URL, "-o", "json")...)
		got.wants(t, 3, `"code":"A2ACLI_ERR_UNREACHABLE"`, "")
		if bytes.Contains([]byte(got.stdout+got.stderr), []byte("goroutine")) {
			t.Errorf("%v: %s", args, got.stderr)
		}
	}
}
