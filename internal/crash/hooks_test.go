package crash

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/loopback"
	"github.com/parley-a2a/parley/push"
)

// hook is a webhook and what came there.
type hook struct {
	binding, caller string
	config          *a2a.TaskPushNotificationConfig

	mu      sync.Mutex
	acked   bool                // the registration was
	task    string              // empty: not known yet
	seen    map[string]struct{} // ids of deliveries
	events  []a2a.Event         // those that came for the first time
	repeats int
}

// registered notes that the registration was acknowledged.
func (h *hook) registered(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked, h.task = true, task
}

func (h *hook) take(id string, ev a2a.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.seen[id]; ok {
		h.repeats++
		return
	}
	h.seen[id] = struct{}{}
	h.events = append(h.events, ev)
	if t, ok := ev.(*a2a.Task); ok && h.task == "" {
		h.task = t.ID
	}
}

// so returns what came so far.
func (h *hook) so() (task string, acked bool, events []a2a.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.task, h.acked, h.events
}

// receiver is a server for webhooks, one path for each.
type receiver struct {
	addr string

	mu     sync.Mutex
	hooks  map[string]*hook // by path
	round  []*hook          // since the last audit
	server *http.Server
}

// newReceiver returns a receiver that listens at the address, or any.
func newReceiver(t *testing.T, addr string) *receiver {
	t.Helper()
	if addr == "" {
		addr = loopback.Address(t)
	}
	r := &receiver{addr: addr, hooks: map[string]*hook{}}
	r.open(t)
	t.Cleanup(r.close)
	return r
}

func (r *receiver) open(t *testing.T) {
	t.Helper()
	l := loopback.Listen(t, r.addr)
	s := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	r.server = s
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the receiver of webhooks: %v", err)
		}
	}()
}

// close refuses connections from now on.
func (r *receiver) close() { _ = r.server.Close() }

// add returns a new webhook with a path of its own.
func (r *receiver) add(id, binding, caller string) *hook {
	path := "/" + id
	h := &hook{
		binding: binding, caller: caller, seen: map[string]struct{}{},
		config: &a2a.TaskPushNotificationConfig{ID: "hook", URL: "http://" + r.addr + path, Token: id},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[path] = h
	r.round = append(r.round, h)
	return h
}

func (r *receiver) takeRound() []*hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.round
	r.round = nil
	return out
}

// ServeHTTP takes a delivery.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	h := r.hooks[req.URL.Path]
	r.mu.Unlock()
	id := req.Header.Get(push.IDHeader)
	if h == nil || id == "" || req.Header.Get(push.TokenHeader) != strings.TrimPrefix(req.URL.Path, "/") {
		http.Error(w, "not a delivery to one of these webhooks", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil { // the sender was killed
		return
	}
	ev, err := a2a.ParseStreamResponse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.take(id, ev)
	w.WriteHeader(http.StatusNoContent)
}

// same reports whether two events are the same but for their generation.
func same(a, b a2a.Event) bool {
	return bytes.Equal(a2a.AppendStreamResponse(nil, bare(a)), a2a.AppendStreamResponse(nil, bare(b)))
}

// bare returns an event without what task-log and chunk-integrity add.
func bare(ev a2a.Event) a2a.Event {
	switch e := extension.WithGeneration(ev, 0).(type) { // a copy
	case *a2a.Task:
		e.Metadata = without(e.Metadata)
		return e
	case *a2a.TaskStatusUpdateEvent:
		e.Metadata = without(e.Metadata)
		return e
	case *a2a.TaskArtifactUpdateEvent:
		e.Metadata = without(e.Metadata)
		return e
	case *a2a.Message:
	}
	return ev
}

// without takes the generation out of metadata that is the caller's own.
func without(s a2a.Struct) a2a.Struct {
	s = maps.Clone(s)
	for _, key := range []string{extension.GenerationKey, extension.DigestKey, extension.DigestsKey} {
		delete(s, key)
	}
	if len(s) == 0 {
		return nil
	}
	return s
}
