package parley_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/golden"
	"github.com/parley-a2a/parley/tap"
)

// changes are what two runs of the same conversation differ in.
var changes = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[0-9:.]+Z`)

func masked(s string) string { return changes.ReplaceAllString(s, "*") }

// TestMiddleware has a recorder stand before a host: it sees the calls of every binding, streams and errors too, and they
// are what they were without it.
func TestMiddleware(t *testing.T) {
	rec, err := tap.NewRecorder(tap.Options{Card: &a2a.AgentCard{SupportedInterfaces: []*a2a.AgentInterface{
		{URL: "http://h/", ProtocolBinding: a2a.BindingJSONRPC}, {URL: "http://h/a2a/rest", ProtocolBinding: a2a.BindingREST},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	var seen int64
	eachWith(t, func(cfg *parley.Config) { cfg.Middleware = rec.Handler }, func(t *testing.T, h *host, conn golden.Conn) {
		unknown := golden.Request{Op: "GetTask", JSON: `{"id":"nowhere"}`}
		stream := golden.Request{Op: "SendStreamingMessage", JSON: message(`{"chunks":{"id":"a","texts":["x"],"times":3}},{"complete":"done"}`)}
		got := frames(t, conn, stream) + frames(t, conn, unknown)
		h.stop()
		h.cfg.Middleware = nil
		h.start()
		plain := h.dial(t, bindingOf(t))
		if want := frames(t, plain, stream) + frames(t, plain, unknown); masked(got) != masked(want) {
			t.Errorf("with the recorder\n%s\nwithout\n%s", got, want)
		}
		deadline := time.After(patience)
		for {
			changed := rec.Changed()
			var ops []string
			for _, x := range rec.Exchanges(0, 1000) {
				if x.ID > seen && x.Done && x.Kind == tap.KindCall {
					ops = append(ops, x.Binding+" "+x.Operation)
				}
			}
			if len(ops) == 2 {
				break
			}
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("recorded %v", ops)
			}
		}
		for _, x := range rec.Exchanges(0, 1000) {
			seen = max(seen, x.ID)
		}
	})
}
