//go:build unix

package push

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// cpu returns the processor time of this process, that of the receiver included.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counter is a receiver that says when it has got so many requests.
func counter(b *testing.B, want int) (url string, all chan struct{}) {
	all = make(chan struct{})
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
		if n.Add(1) == int64(want) {
			close(all)
		}
	}))
	b.Cleanup(srv.Close)
	return srv.URL, all
}

// BenchmarkPost is the floor: a loop that posts one event after the other.
func BenchmarkPost(b *testing.B) {
	url, _ := counter(b, -1)
	body := chunk("t1", 1).JSON()
	before := cpu()
	defer func() { b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		res, err := http.Post(url, "application/a2a+json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

func BenchmarkDeliver(b *testing.B) {
	for name, key := range map[string]ed25519.PrivateKey{"unsigned": nil, "signed": testKey("k")} {
		b.Run(name, func(b *testing.B) { deliver(b, key, 1) })
		b.Run(name+"-4tasks", func(b *testing.B) { deliver(b, key, 4) })
	}
}

// deliver measures b.N entries, written before, to one receiver.
func deliver(b *testing.B, key ed25519.PrivateKey, tasks int) {
	s := memory()
	url, all := counter(b, b.N+tasks) // the Task of each besides
	p := idlePush(b, s, Options{Key: key})
	keys := make([]taskstore.Key, tasks)
	for i := range keys {
		keys[i] = keyOf(string(rune('a' + i)))
		create(b, s, keys[i], prepared(b, p, keys[i], a2a.TaskPushNotificationConfig{URL: url}))
	}
	for i := range b.N {
		write(b, s, keys[i%tasks], chunk(keys[i%tasks].Task, 1))
	}
	before := cpu()
	b.ResetTimer()
	start(b, p)
	<-all
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

func BenchmarkSign(b *testing.B) {
	s, h, body := signer{key: testKey("k")}, http.Header{}, chunk("t1", 1).JSON()
	for b.Loop() {
		s.sign(h, "01234567-0123-7123-8123-0123456789ab-12", time.Now(), body)
	}
}
