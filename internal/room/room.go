// Package room bounds the memory of big answers on their way to readers, who may be slow or may have stopped: they
// hold a whole encoding each until the write deadline.
package room

import (
	"context"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

const (
	// Big is the size, in bytes of content, from which an answer needs room.
	Big = 1 << 20

	total = 256 << 20 // bytes of all answers that need room
	share = 64 << 20  // those of one caller
	wait  = 10 * time.Second
)

// Room is memory for answers. One answer always fits, however big, where its caller has no other.
type Room struct {
	total, share int64

	mu      sync.Mutex
	used    int64
	callers map[string]int64
	given   chan struct{} // closed when some is given back; nil: nobody waits for that
}

// Answers is the room of this process: memory is one for all agents and bindings.
var Answers = New(total, share)

// New returns room for so many bytes, of which one caller gets at most its share.
func New(total, share int64) *Room {
	return &Room{total: total, share: share, callers: map[string]int64{}}
}

// Hold is the room of one answer. That of a small one is nil.
type Hold struct {
	room *Room
	who  string
	n    int64
}

// Take waits for room for an answer to a caller, which must be given back. Small answers need none. An
// [a2a.ErrUnavailable] error says that there was none for 10 seconds; that of ctx, that it ended.
func (r *Room) Take(ctx context.Context, info *a2a.CallInfo, answer any) (*Hold, error) {
	n := int64(Size(answer))
	if n < Big {
		return nil, nil
	}
	who := info.Who()
	var expired <-chan time.Time
	for {
		given := r.take(who, n)
		if given == nil {
			return &Hold{r, who, n}, nil
		}
		if expired == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			expired = t.C
		}
		select {
		case <-given:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-expired:
			e := a2a.Errorf(a2a.ErrUnavailable, "other big answers are on their way and their readers are slow (limit answers): try again")
			e.Metadata = map[string]string{"limit": "answers"}
			e.RetryAfter = wait
			return nil, e
		}
	}
}

// take takes n bytes, or returns what is closed when some are given back.
func (r *Room) take(who string, n int64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.callers[who]
	if (mine == 0 || mine+n <= r.share) && (r.used == 0 || r.used+n <= r.total) {
		r.used += n
		r.callers[who] = mine + n
		return nil
	}
	if r.given == nil {
		r.given = make(chan struct{})
	}
	return r.given
}

// Encoded says how many bytes the answer has as it is sent, which may be several times those of its content. The rest
// is taken without waiting.
func (h *Hold) Encoded(n int) {
	if h == nil {
		return
	}
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	more := max(0, int64(n)-h.n)
	h.n += more
	h.room.used += more
	h.room.callers[h.who] += more
}

// Give gives the room back.
func (h *Hold) Give() {
	if h == nil {
		return
	}
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= h.n
	if r.callers[h.who] -= h.n; r.callers[h.who] == 0 {
		delete(r.callers, h.who)
	}
	if r.given != nil {
		close(r.given)
		r.given = nil
	}
}

// Size returns about how many bytes an answer or an event has. Only those with tasks are counted: nothing else is big
// for one reader alone.
func Size(answer any) (n int) {
	switch m := answer.(type) {
	case *a2a.Task:
		return m.Size()
	case *a2a.SendMessageResponse:
		return Size(m.Result)
	case *a2a.ListTasksResponse:
		for _, t := range m.Tasks {
			n += t.Size()
		}
	}
	return n
}
