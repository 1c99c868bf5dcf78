package push

import (
	"context"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-a2a/parley/internal/netguard"
	"github.com/parley-a2a/parley/taskstore"
)

// A delivery is idle until its task's log goes on; then it stands in its origin's queue until a turn is free. A turn
// sends a few entries and gives way. After a failure it waits for its time.
type state uint8

const (
	idleState state = iota
	queuedState
	runningState
	waitingState
)

// delivery is one webhook that is not done.
type delivery struct {
	key          taskstore.Key
	id           string
	registration string
	origin       *origin

	hook taskstore.Webhook // of the turn while one runs, otherwise under Push.mu
	// proven says that the receiver echoed a challenge. It is the turn's.
	proven bool

	// Under Push.mu.
	state  state
	again  bool  // the log has gone on during the turn
	gone   bool  // removed: nothing more is sent
	class  class // of the origin when the turn began
	cancel context.CancelFunc
	timer  *time.Timer
}

func (d *delivery) stopTimer() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// origin is one receiver: scheme, host and port.
type origin struct {
	name string
	host string
	// proven says that it has answered 2xx once, good that its last answer was one and prompt.
	proven, good atomic.Bool
	// failed says that its last answer was not 2xx, or slow, or did not come.
	failed atomic.Bool

	// Under Push.mu.
	users   int         // deliveries
	queue   []*delivery // that have something to send
	running int
	listed  bool // stands in Push.ready
	timer   *time.Timer
}

// class is what is known of an origin. Each has its own queue and its own bound of turns, so that those of whom nothing is
// known yet do not wait for those that are known to fail, and neither for long in the way of the good.
type class uint8

const (
	goodClass class = iota
	newClass
	failedClass
	classes
)

// maxOfClass is how many turns a class may have at once.
var maxOfClass = [classes]int{maxTurns, maxTurns / 2, maxTurns / 4}

func (o *origin) class() class {
	switch {
	case o.good.Load():
		return goodClass
	case o.failed.Load():
		return failedClass
	}
	return newClass
}

func (o *origin) stopTimer() {
	if o.timer != nil {
		o.timer.Stop()
	}
}

// verdict is how a turn ended.
type verdict uint8

const (
	caughtUp verdict = iota // with the log
	more                    // to send at once
	later                   // not before the hook is due
	finished                // nothing follows
)

// add takes up a webhook of the store, unless it is there. One that is newer replaces what has its id.
func (p *Push) add(h taskstore.Webhook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met(h.Key.Task, h.Registration)
	if h.Done || p.stopping || !p.started || !p.mine(&h) { // what is added before Start, its scan finds
		return
	}
	for _, d := range p.tasks[h.Key.Task] {
		if d.id != h.Config.ID {
			continue
		}
		if d.registration >= h.Registration {
			return
		}
		p.remove(d)
		break
	}
	d := &delivery{key: h.Key, id: h.Config.ID, registration: h.Registration, hook: h, origin: p.originOf(h.Config.URL)}
	d.origin.users++
	p.tasks[h.Key.Task] = append(p.tasks[h.Key.Task], d)
	p.waiting++
	if wait := untilDue(h.Due); h.Attempts > 0 && wait > 0 {
		p.wait(d, wait)
		return
	}
	p.enqueue(d)
	p.schedule()
}

// remove ends a delivery: what runs is broken off, and nothing follows.
func (p *Push) remove(d *delivery) {
	if d.gone {
		return
	}
	d.gone = true
	d.stopTimer()
	if d.cancel != nil {
		d.cancel()
	}
	d.origin.users--
	p.waiting--
	ds := p.tasks[d.key.Task]
	for i := range ds {
		if ds[i] == d {
			ds[i] = ds[len(ds)-1]
			ds[len(ds)-1] = nil
			ds = ds[:len(ds)-1]
			break
		}
	}
	if len(ds) == 0 {
		delete(p.tasks, d.key.Task)
	} else {
		p.tasks[d.key.Task] = ds
	}
}

// originOf returns the origin of a URL. Those that are idle are forgotten in any order when there are many: then they
// must prove themselves again.
func (p *Push) originOf(raw string) *origin {
	name, host := "", ""
	if u, err := url.Parse(raw); err == nil {
		name, host = netguard.Origin(u), u.Hostname()
	}
	if o := p.origins[name]; o != nil {
		return o
	}
	if len(p.origins) >= maxIdleOrigins {
		looked := 0
		for k, o := range p.origins {
			if o.users == 0 && o.running == 0 {
				o.stopTimer()
				delete(p.origins, k)
				break
			}
			if looked++; looked == 64 {
				break
			}
		}
	}
	o := &origin{name: name, host: host}
	p.origins[name] = o
	return o
}

// wake has a delivery look at its task's log.
func (p *Push) wake(d *delivery) {
	switch d.state {
	case idleState:
		p.enqueue(d)
		p.schedule()
	case runningState:
		d.again = true
	case queuedState, waitingState:
	}
}

func (p *Push) enqueue(d *delivery) {
	d.state = queuedState
	d.origin.queue = append(d.origin.queue, d)
	p.offer(d.origin)
}

func (p *Push) wait(d *delivery, wait time.Duration) {
	d.state = waitingState
	d.timer = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if d.state == waitingState && !d.gone {
			p.enqueue(d)
			p.schedule()
		}
	})
}

// offer lists an origin as ready if a turn there could begin now.
func (p *Push) offer(o *origin) {
	if o.listed || len(o.queue) == 0 || o.running >= maxPerOrigin || p.stopping {
		return
	}
	if !o.proven.Load() {
		if wait := untilToken(p.limit(o.host)); wait > 0 {
			p.offerIn(o, wait)
			return
		}
	}
	o.listed = true
	c := o.class()
	p.ready[c] = append(p.ready[c], o)
}

func (p *Push) offerIn(o *origin, wait time.Duration) {
	o.stopTimer()
	o.timer = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.offer(o)
		p.schedule()
	})
}

// Attempts at the unproven origins of one host: a burst and then so many a minute that no minute has more than 60.
const (
	burst     = 10
	perMinute = 50
)

// limit returns the limit of a host's unproven origins. It is the host's, since one host has many ports.
func (p *Push) limit(host string) *rate.Limiter {
	l := p.limits[host]
	if l != nil {
		return l
	}
	if len(p.limits) >= p.limitMax {
		for h, old := range p.limits {
			if old.Tokens() >= burst { // like a new one
				delete(p.limits, h)
			}
		}
		p.limitMax = max(maxIdleOrigins, 2*len(p.limits))
	}
	l = rate.NewLimiter(rate.Every(time.Minute/perMinute), burst)
	p.limits[host] = l
	return l
}

// untilToken returns how long it is until the limiter allows one.
func untilToken(l *rate.Limiter) time.Duration {
	if missing := 1 - l.Tokens(); missing > 0 {
		return time.Duration(missing*float64(time.Minute/perMinute)) + time.Millisecond
	}
	return 0
}

// schedule begins turns while there are origins that are ready and turns that are free.
func (p *Push) schedule() {
	for !p.stopping && p.running < maxTurns {
		o := p.pick()
		if o == nil {
			return
		}
		d := o.queue[0]
		o.queue[0] = nil
		o.queue = o.queue[1:]
		if d.gone {
			p.offer(o)
			continue
		}
		d.state, d.again = runningState, false
		d.class = o.class()
		p.running++
		o.running++
		p.ofClass[d.class]++
		ctx, cancel := context.WithCancel(p.ctx)
		d.cancel = cancel
		p.offer(o)
		p.turns.Go(func() {
			v := p.turn(ctx, d)
			cancel()
			p.settle(d, v)
		})
	}
}

// pick takes the next origin, in turn from the classes. Only the good can have all turns, so that receivers that answer
// slowly or not at all leave room for those that do.
func (p *Push) pick() *origin {
	for range p.ready {
		list := &p.ready[p.next]
		open := p.ofClass[p.next] < maxOfClass[p.next]
		p.next = (p.next + 1) % classes
		if len(*list) == 0 || !open {
			continue
		}
		o := (*list)[0]
		(*list)[0] = nil
		*list = (*list)[1:]
		o.listed = false
		return o
	}
	return nil
}

// settle ends a turn.
func (p *Push) settle(d *delivery, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := d.origin
	d.cancel = nil
	p.running--
	o.running--
	p.ofClass[d.class]--
	switch {
	case d.gone:
	case v == finished:
		p.remove(d)
	case v == later && !p.stopping:
		p.wait(d, untilDue(d.hook.Due))
	case v == more || v == caughtUp && d.again:
		p.enqueue(d)
	default:
		d.state = idleState
	}
	p.offer(o)
	p.schedule()
}

// untilDue is how long an attempt has to wait: never longer than a receiver can ask for, whatever the clock did since.
func untilDue(due time.Time) time.Duration { return min(time.Until(due), maxRetryAfter) }
