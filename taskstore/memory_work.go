package taskstore

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"
)

// set puts a task into an index or takes it out.
func set(where map[string]*memTask, t *memTask, in bool) {
	if in {
		where[t.id()] = t
	} else {
		delete(where, t.id())
	}
}

// Unsettled implements [Store]. No other process has this store, but its nodes may have lived before.
func (m *Memory) Unsettled(_ context.Context, agent, node, after string, limit int) ([]Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Key
	for _, where := range []map[string]*memTask{m.idle, m.held} {
		for id, t := range where {
			if t.scope.Agent == agent && t.lease().Node != node && id > after {
				out = append(out, t.key())
			}
		}
	}
	slices.SortFunc(out, func(a, b Key) int { return strings.Compare(a.Task, b.Task) })
	return out[:min(limit, len(out))], nil
}

// wasSent returns a message that was taken, nil if it has expired or its task was forgotten.
func (m *Memory) wasSent(scope Scope, id string) *Sent {
	s := m.sent[sentKey{scope, id}]
	if s == nil || s.expired(time.Now()) || s.Task != "" && m.tasks[s.Task] == nil {
		return nil
	}
	return s
}

func (s *Sent) expired(now time.Time) bool { return !now.Before(s.Expires) }

// addSent keeps a message that was taken. As many are kept as tasks are, those that expire last.
func (m *Memory) addSent(c Change, generation int64) {
	s := *c.Sent
	s.Task, s.Generation = c.Key.Task, generation
	k := sentKey{c.Key.Scope, s.MessageID}
	if m.sent[k] != nil {
		heap.Remove((*sentHeap)(m), slices.Index(m.sentList, k))
	}
	m.sent[k] = &s
	heap.Push((*sentHeap)(m), k)
	for len(m.sentList) > m.opts.MaxTasks {
		m.dropSent()
	}
}

// dropSent forgets the message that expires first.
func (m *Memory) dropSent() {
	k, _ := heap.Pop((*sentHeap)(m)).(sentKey)
	delete(m.sent, k)
}

// sentHeap is a store whose sentList is a heap of what m.sent has, the first to expire on top.
type sentHeap Memory

func (h *sentHeap) Len() int { return len(h.sentList) }

func (h *sentHeap) Less(i, j int) bool {
	return h.sent[h.sentList[i]].Expires.Before(h.sent[h.sentList[j]].Expires)
}

func (h *sentHeap) Swap(i, j int) { h.sentList[i], h.sentList[j] = h.sentList[j], h.sentList[i] }

func (h *sentHeap) Push(k any) {
	h.sentList = append(h.sentList, k.(sentKey)) //nolint:forcetypeassert // addSent's
}

func (h *sentHeap) Pop() any {
	last := len(h.sentList) - 1
	k := h.sentList[last]
	h.sentList = h.sentList[:last]
	return k
}

// Sent implements [Store].
func (m *Memory) Sent(_ context.Context, scope Scope, messageID string) (*Sent, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.wasSent(scope, messageID), nil
}

// hooks are the webhooks of a task, by id.
type hooks []*Webhook

// at returns the place of a webhook and whether it is there.
func (hs hooks) at(id string) (int, bool) {
	return slices.BinarySearchFunc(hs, id, func(h *Webhook, id string) int { return strings.Compare(h.Config.ID, id) })
}

// delivered reports whether the registration is there.
func (hs hooks) delivered(h *Webhook) bool {
	i, ok := hs.at(h.Config.ID)
	return ok && hs[i].Registration == h.Registration
}

// hook carries out what a change says of webhooks: how far one has come, that one goes, that there is one.
func (m *Memory) hook(t *memTask, c *Change) {
	if c.Webhook == nil && c.Delivered == nil && c.Unhook == "" {
		return
	}
	hs := m.hooks[t.id()]
	if h := c.Delivered; h != nil {
		i, _ := hs.at(h.Config.ID) // delivered said that it is there
		kept := *h
		kept.Key, kept.Config = t.key(), hs[i].Config
		hs[i] = &kept
	}
	if i, ok := hs.at(c.Unhook); ok && c.Unhook != "" {
		hs = slices.Delete(hs, i, i+1)
	}
	if h := c.Hook(t.state.Generation); h != nil {
		i, ok := hs.at(h.Config.ID)
		if ok {
			hs[i] = h
		} else {
			hs = slices.Insert(hs, i, h)
		}
	}
	if len(hs) > 0 {
		m.hooks[t.id()] = hs
	} else {
		delete(m.hooks, t.id())
	}
	set(m.hooked, t, slices.ContainsFunc(hs, func(h *Webhook) bool { return !h.Done }))
}

// Webhooks implements [Store].
func (m *Memory) Webhooks(_ context.Context, key Key) ([]Webhook, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.find(key); err != nil {
		return nil, err
	}
	hs := m.hooks[key.Task]
	out := make([]Webhook, len(hs))
	for i, h := range hs {
		out[i] = *h
	}
	return out, nil
}

// Outbox implements [Store].
func (m *Memory) Outbox(_ context.Context, agent, task, id string, limit int) ([]Webhook, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Webhook
	for _, t := range m.hooked {
		for _, h := range m.hooks[t.id()] {
			later := t.id() > task || t.id() == task && h.Config.ID > id
			if t.scope.Agent == agent && !h.Done && later {
				out = append(out, *h)
			}
		}
	}
	slices.SortFunc(out, func(a, b Webhook) int {
		if c := strings.Compare(a.Key.Task, b.Key.Task); c != 0 {
			return c
		}
		return strings.Compare(a.Config.ID, b.Config.ID)
	})
	return out[:min(limit, len(out))], nil
}

// Expire implements [Store].
func (m *Memory) Expire(_ context.Context, r Retention) (Expired, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out Expired
	due, more := m.due(&m.finished, r.Tasks, r.Limit)
	for _, t := range due {
		m.forget(t)
	}
	out.Tasks, out.More = len(due), more
	due, more = m.due(&m.logs, r.Logs, r.Limit-out.Tasks)
	for _, t := range due {
		t.work = nil
	}
	out.Logs, out.More = len(due), out.More || more
	now := time.Now()
	for ; len(m.sentList) > 0 && m.sent[m.sentList[0]].expired(now); out.Sent++ {
		if out.Sent == expireSent {
			out.More = true
			break
		}
		m.dropSent()
	}
	for _, s := range m.scopes {
		for id, v := range s.values {
			if now.Sub(v.used) > m.opts.ContextTTL {
				delete(s.values, id)
				out.Contexts++
			}
		}
	}
	return out, nil
}

// expireSent is how many messages one step forgets.
const expireSent = 1000

// due takes tasks that ended before a time from the front of a queue, at most limit, and says whether there are
// more. It leaves there those that a webhook still needs.
func (m *Memory) due(q *queue, before time.Time, limit int) (due []*memTask, more bool) {
	var kept []*memTask
	for q.len() > 0 && (q.peek().gone() || q.peek().state.Task.Status.Timestamp.Before(before)) {
		t := q.peek()
		waits := m.hooked[t.id()] == t
		if !t.gone() && !waits && len(due) >= limit {
			more = true
			break
		}
		q.pop()
		switch {
		case t.gone():
		case waits:
			kept = append(kept, t)
		default:
			due = append(due, t)
		}
	}
	q.items = slices.Insert(q.items, q.first, kept...)
	return due, more
}
