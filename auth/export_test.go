package auth

import "time"

// SetClock gives the methods another clock.
func SetClock(now func() time.Time, methods ...Method) {
	for _, m := range methods {
		switch m := m.(type) {
		case *JWT:
			m.now = now
			if r, ok := m.set.(*remoteKeys); ok {
				r.now = now
			}
			if f, ok := m.set.(fileKeys); ok {
				f.watched.now = now
			}
		case *Introspection:
			m.now = now
		case *APIKeys:
			m.now = now
			if m.file != nil {
				m.file.now = now
			}
		case *Certificates:
			m.now = now
		}
	}
}

// SetClock gives the authenticator another clock.
func (a *Authenticator) SetClock(now func() time.Time) {
	a.now = now
	if a.slow != nil {
		a.slow.now = now
	}
	if a.opts.Denylist != nil && a.opts.Denylist.file != nil {
		a.opts.Denylist.file.now = now
	}
	SetClock(now, a.methods...)
}

// Addresses returns how many addresses the throttle remembers.
func (a *Authenticator) Addresses() int { return len(a.slow.byAddr) }

// SetClock gives the kept tokens another clock.
func (c *Credentials) SetClock(now func() time.Time) {
	for _, list := range c.byOrigin {
		for _, b := range list {
			b.kept.now = now
		}
	}
}

const MaxAddresses = maxAddresses
