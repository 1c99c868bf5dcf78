package tap

import (
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// BenchmarkAdded measures what the tap adds to the time of a call, recording into a file: calls alternate between the agent
// itself and the tap, and the medians are compared.
func BenchmarkAdded(b *testing.B) {
	host := startHost(b, scripted(), nil)
	tap := startTap(b, host, func(c *Config) { c.Recording.File = filepath.Join(b.TempDir(), "tap.jsonl") })
	res, err := dial(b, host, a2a.BindingJSONRPC).SendMessage(b.Context(), steps(`[{"artifact":{"id":"a","name":"n","text":"`+strings.Repeat("x", 1000)+`"}},{"complete":"done"}]`))
	if err != nil {
		b.Fatal(err)
	}
	get := `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"` + res.(*a2a.Task).ID + `"}}`
	stream := `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":[{"progress":"one"},{"complete":"done"}]}]}}}`
	for name, body := range map[string]string{"GetTask": get, "first frame of a stream": stream} {
		b.Run(name, func(b *testing.B) {
			hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2}}
			var direct, through []time.Duration
			for b.Loop() {
				direct = append(direct, timed(b, hc, host, body))
				through = append(through, timed(b, hc, tap.url, body))
			}
			slices.Sort(direct)
			slices.Sort(through)
			without, with := direct[len(direct)/2], through[len(through)/2]
			b.ReportMetric(float64(without.Microseconds()), "µs-direct")
			b.ReportMetric(float64(with.Microseconds()), "µs-tap")
			b.ReportMetric(float64((with - without).Microseconds()), "µs-added")
			if s := tap.rec.Status(); s.Lost > 0 || s.FileError != "" {
				b.Errorf("the recorder's status is %+v", s)
			}
		})
	}
}

// timed returns the time to the first bytes of an answer's body.
func timed(b *testing.B, hc *http.Client, url, body string) time.Duration {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("A2A-Version", "1.0")
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	res, err := hc.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 20)); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return took
}
