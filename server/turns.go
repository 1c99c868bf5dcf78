package server

import (
	"sync"

	"github.com/parley-a2a/parley/taskstore"
)

// turns bounds how many tasks of one caller run at once. Those beyond wait in order.
type turns struct {
	limits Limits

	mu      sync.Mutex
	callers map[taskstore.Scope]*callerTurns
}

type callerTurns struct {
	running int
	waiting []*run
}

// take takes a place for a run that begins now, if there is one.
func (t *turns) take(scope taskstore.Scope) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(scope)
	if c.running >= t.limits.Running {
		return false
	}
	c.running++
	return true
}

// full reports whether the caller's queue takes no more.
func (t *turns) full(scope taskstore.Scope) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.callers[scope]
	return c != nil && len(c.waiting) >= t.limits.Waiting
}

// wait puts a run whose task is recorded at the end of the queue. It reports true if a place has become
// free meanwhile: then the run has it.
func (t *turns) wait(r *run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(r.key.Scope)
	if c.running < t.limits.Running {
		c.running++
		return true
	}
	c.waiting = append(c.waiting, r)
	return false
}

// leave gives a place back and returns the run that has it now, or nil.
func (t *turns) leave(scope taskstore.Scope) *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(scope)
	if len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		return next
	}
	c.running--
	if c.running == 0 {
		delete(t.callers, scope)
	}
	return nil
}

// back takes the place again that a run gave up to wait for an answer. The answer is recorded, so the run goes
// on even if that makes one more than the bound.
func (t *turns) back(scope taskstore.Scope) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(scope).running++
}

func (t *turns) of(scope taskstore.Scope) *callerTurns {
	c := t.callers[scope]
	if c == nil {
		if t.callers == nil {
			t.callers = map[taskstore.Scope]*callerTurns{}
		}
		c = &callerTurns{}
		t.callers[scope] = c
	}
	return c
}
