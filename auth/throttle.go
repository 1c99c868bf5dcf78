package auth

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// maxAddresses is how many addresses a throttle remembers; the one that failed longest ago is forgotten first.
const maxAddresses = 10_000

// throttle slows down whoever guesses: an address has so many failures in the minute that begins with the first.
type throttle struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	byAddr map[string]*list.Element
	order  *list.List // of *failures, the latest first
}

type failures struct {
	addr  string
	count int
	until time.Time // when the minute is over
}

func newThrottle(most int) *throttle {
	return &throttle{most: most, now: time.Now, byAddr: make(map[string]*list.Element), order: list.New()}
}

// wait returns how long an address has to wait until it is listened to again; zero: it is.
func (t *throttle) wait(addr string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	el, ok := t.byAddr[addr]
	if !ok {
		return 0
	}
	f := el.Value.(*failures)
	if f.count < t.most {
		return 0
	}
	return max(0, f.until.Sub(t.now()))
}

// failed counts a failure.
func (t *throttle) failed(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	el, ok := t.byAddr[addr]
	if !ok {
		if len(t.byAddr) >= maxAddresses {
			delete(t.byAddr, t.order.Remove(t.order.Back()).(*failures).addr)
		}
		el = t.order.PushFront(&failures{addr: addr})
		t.byAddr[addr] = el
	}
	t.order.MoveToFront(el)
	f, now := el.Value.(*failures), t.now()
	if !now.Before(f.until) {
		f.count, f.until = 0, now.Add(time.Minute)
	}
	f.count++
}

// network returns what a peer's address is counted as: an IPv4 address, the /64 of an IPv6 one, or the text itself.
func network(peer string) string {
	ap, err := netip.ParseAddrPort(peer)
	addr := ap.Addr()
	if err != nil {
		if addr, err = netip.ParseAddr(peer); err != nil {
			return peer
		}
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return addr.String()
	}
	return p.String()
}
