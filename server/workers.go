package server

import "sync/atomic"

// maxIdle is how many goroutines without work are kept.
const maxIdle = 64

// workers runs functions, each on a goroutine of its own. Some goroutines are kept for the next function: their stacks
// have grown already, which is a tenth of what a short run costs.
type workers struct {
	next chan func()
	stop <-chan struct{}
	idle atomic.Int32
}

func (w *workers) run(f func()) {
	select {
	case w.next <- f:
	default:
		go w.work(f)
	}
}

func (w *workers) work(f func()) {
	for {
		f()
		if w.idle.Add(1) > maxIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case f = <-w.next:
			w.idle.Add(-1)
		case <-w.stop:
			return
		}
	}
}
