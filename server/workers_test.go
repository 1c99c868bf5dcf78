package server

import (
	"testing"
	"testing/synctest"
)

// Some goroutines are kept, not all, none after the end, and they run what comes next.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		w := workers{next: make(chan func()), stop: stop}
		gate := make(chan struct{})
		for range maxIdle + 10 {
			w.run(func() { <-gate })
		}
		close(gate)
		synctest.Wait()
		if n := w.idle.Load(); n != maxIdle {
			t.Errorf("%d goroutines are kept, want %d", n, maxIdle)
		}
		gate, ran := make(chan struct{}), make(chan struct{})
		w.run(func() { close(ran); <-gate })
		<-ran
		if n := w.idle.Load(); n != maxIdle-1 {
			t.Errorf("%d goroutines wait while one of the kept runs, want %d", n, maxIdle-1)
		}
		close(gate)
		close(stop) // or this test does not end
	})
}
