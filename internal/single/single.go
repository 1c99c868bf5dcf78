// Package single makes lists of one element. Most messages have one part and most tasks one message and one artifact, and
// there are many of them.
package single

// Of returns a list of v alone. The element and the list are one piece of memory.
func Of[T any](v T) []*T {
	s := &struct {
		elem T
		list [1]*T
	}{elem: v}
	s.list[0] = &s.elem
	return s.list[:]
}
