package taskstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/parley-a2a/parley/a2a"
)

// List implements [Store].
func (m *Memory) List(_ context.Context, q Query) (Page, error) {
	cursor, err := ParseCursor(q)
	if err != nil {
		return Page{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.scopes[q.Scope]
	if s == nil {
		return Page{}, nil
	}
	var page Page
	var found []*memTask
	if q.ContextID != "" {
		found, page.Total = s.listContext(q, cursor)
	} else {
		found, page.Total = s.listStates(q, cursor)
	}
	more := len(found) > q.PageSize
	if more {
		found = found[:q.PageSize]
	}
	size := 0
	for i, t := range found {
		v := View(&t.state.Task, q.HistoryLength, q.Artifacts)
		switch {
		case v == &t.state.Task:
			v = t.task()
		case v.Artifacts != nil && !v.Status.State.Terminal():
			v = v.Snapshot()
		}
		page.Tasks = append(page.Tasks, v)
		if q.MaxBytes == 0 || i == len(found)-1 {
			continue
		}
		if size += v.Size(); size >= q.MaxBytes {
			more, found = true, found[:i+1]
			break
		}
	}
	if more {
		last := found[len(found)-1]
		page.Next = Cursor{Time: last.state.Task.Status.Timestamp, Task: last.id()}.Token(q)
	}
	return page, nil
}

// Scopes implements [Store].
func (m *Memory) Scopes(_ context.Context, agent string, after *Scope, limit int) ([]Scope, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Scope
	for scope, s := range m.scopes {
		if scope.Agent == agent && len(s.contexts) > 0 && (after == nil || compareScopes(scope, *after) > 0) {
			out = append(out, scope)
		}
	}
	slices.SortFunc(out, compareScopes)
	return out[:min(limit, len(out))], nil
}

// compareScopes orders scopes of one agent.
func compareScopes(a, b Scope) int {
	return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Owner, b.Owner))
}

// listContext sorts a context's tasks: contexts are small. It returns one task more than the page holds if
// there is one.
func (s *memScope) listContext(q Query, cursor *Cursor) (found []*memTask, total int) {
	for t := s.contexts[q.ContextID]; t != nil; t = t.inContext {
		if !t.gone() && q.matches(t) {
			found = append(found, t)
		}
	}
	total = len(found)
	slices.SortFunc(found, func(a, b *memTask) int {
		if older(b, a) {
			return -1
		}
		return 1
	})
	if cursor != nil {
		p := cursor.pivot()
		i, _ := slices.BinarySearchFunc(found, p, func(t, p *memTask) int {
			if older(t, p) {
				return 1
			}
			return -1
		})
		found = found[i:]
	}
	return found[:min(len(found), q.PageSize+1)], total
}

func (q *Query) matches(t *memTask) bool {
	st := t.state.Task.Status
	return (q.Status == a2a.TaskStateUnspecified || q.Status == st.State) && !st.Timestamp.Before(q.After)
}

// listStates merges the trees of the states asked for, newest first. It returns one task more than the page
// holds if there is one.
func (s *memScope) listStates(q Query, cursor *Cursor) (found []*memTask, total int) {
	var heads []*btree.IterG[*memTask]
	for state, tree := range s.byState {
		if tree == nil || (q.Status != a2a.TaskStateUnspecified && int(q.Status) != state) {
			continue
		}
		total += countAfter(tree, q)
		it := tree.Iter()
		if cursor != nil && before(&it, cursor.pivot()) || cursor == nil && it.Last() {
			heads = append(heads, &it)
		}
	}
	for len(heads) > 0 && len(found) <= q.PageSize {
		newest := 0
		for i := range heads {
			if older(heads[newest].Item(), heads[i].Item()) {
				newest = i
			}
		}
		t := heads[newest].Item()
		if t.state.Task.Status.Timestamp.Before(q.After) {
			break
		}
		found = append(found, t)
		if !heads[newest].Prev() {
			heads = slices.Delete(heads, newest, newest+1)
		}
	}
	return found, total
}

// before puts the iterator on the last task older than the pivot.
func before(it *btree.IterG[*memTask], pivot *memTask) bool {
	if it.Seek(pivot) { // the first that is not older
		return it.Prev()
	}
	return it.Last()
}

// countAfter counts the tasks whose status is not older than q.After. Without that filter it is the tree's
// length; with it, what lies after is walked.
func countAfter(tree *btree.BTreeG[*memTask], q Query) int {
	if q.After.IsZero() {
		return tree.Len()
	}
	n := 0
	tree.Ascend((&Cursor{Time: q.After}).pivot(), func(*memTask) bool { n++; return true })
	return n
}

func (c *Cursor) pivot() *memTask {
	t := &memTask{}
	t.state.Task.ID, t.state.Task.Status.Timestamp = c.Task, c.Time
	return t
}
