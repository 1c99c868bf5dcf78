//go:build unix

package push

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/pgtest"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/postgres"
)

// TestNodes has two nodes deliver: each webhook by one of them, and by the other when that is gone.
func TestNodes(t *testing.T) {
	pg, err := pgtest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pg == nil {
		t.Skip(pgtest.Missing + ": the webhooks of several nodes were not tested")
	}
	t.Cleanup(pg.Stop)
	open := func() taskstore.Store {
		s, err := postgres.Open(t.Context(), pg.URL(pg.Dir, "postgres"), postgres.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s1, s2 := open(), open()
	r := newRecorder(t)
	p1, p2 := newPush(t, s1, Options{}), newPush(t, s2, Options{})

	// What one registers it delivers, though the other writes the log.
	key := keyOf("t")
	records := create(t, s2, key, nil)
	register(t, p1, key, a2a.TaskPushNotificationConfig{ID: "hook", URL: r.URL})
	var want []string
	want = append(want, bodies(records)...)
	for n := range 20 {
		want = append(want, bodies(write(t, s2, key, chunk(key.Task, n)))...)
	}
	wantBodies(t, r.take(t, len(want)), want...)
	hookWhen(t, s2, key, "hook", func(h taskstore.Webhook) bool { return h.Node == p1.nodeName() && h.Delivered == 21 })

	// One that comes with a message is looked at where the message came.
	inline := keyOf("inline")
	want = bodies(create(t, s1, inline, prepared(t, p1, inline, a2a.TaskPushNotificationConfig{ID: "hook", URL: r.URL})))
	wantBodies(t, r.take(t, 1), want...)

	// What is removed on the other node gets nothing more.
	gone := keyOf("gone")
	create(t, s1, gone, nil)
	register(t, p1, gone, a2a.TaskPushNotificationConfig{ID: "hook", URL: r.URL})
	r.take(t, 1)
	if err := p2.Delete(t.Context(), gone, "hook"); err != nil {
		t.Fatal(err)
	}
	write(t, s1, gone, chunk(gone.Task, 1))

	// The other takes over what a node leaves, in order or not.
	crash(p1)
	want = bodies(write(t, s1, key, chunk(key.Task, 20)))
	wantBodies(t, r.take(t, 1), want...)
	hookWhen(t, s1, key, "hook", func(h taskstore.Webhook) bool { return h.Node == p2.nodeName() && h.Delivered == 22 })

	// A node that is lost delivers again what it gets back, under a new name.
	was := p2.nodeName()
	pg.Exec(t, "postgres", fmt.Sprintf("UPDATE nodes SET expires_at = clock_timestamp() WHERE node = '%s'", was))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for p2.nodeName() == was || p2.nodeName() == "" {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the node does not join anew")
		}
	}
	want = bodies(write(t, s1, key, status(key.Task, a2a.TaskStateCompleted)))
	wantBodies(t, r.take(t, 1), want...)
	hookWhen(t, s1, key, "hook", done)
	r.quiet(t)
}

// hanging is a store that several nodes share and that answers nothing any more.
type hanging struct {
	taskstore.Store
	lost   chan struct{}
	joined chan string
	asked  chan struct{}
	began  atomic.Bool
}

func (h *hanging) Join(_ context.Context, node string) (<-chan struct{}, error) {
	h.joined <- node
	return h.lost, nil
}

func (*hanging) Leave(context.Context, string) error { return nil }

func (*hanging) Latched(context.Context, string) ([]taskstore.Key, error) { return nil, nil }

func (h *hanging) TakeWebhooks(ctx context.Context, _, _ string, _ int) ([]taskstore.Webhook, error) {
	if !h.began.Swap(true) {
		return nil, nil
	}
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLostWhileAsking loses the node while a question to the store hangs: its webhooks wait at once, since another node may
// take them soon.
func TestLostWhileAsking(t *testing.T) {
	h := &hanging{
		Store: taskstore.NewMemory(taskstore.MemoryOptions{}), lost: make(chan struct{}), joined: make(chan string, 9), asked: make(chan struct{}, 1),
	}
	newPush(t, h, Options{})
	<-h.joined
	<-h.asked
	first := h.lost
	h.lost = make(chan struct{})
	close(first)
	select {
	case node := <-h.joined:
		if node == "" {
			t.Error("it joined without a name")
		}
	case <-time.After(5 * time.Second):
		t.Error("the node did not see that it is lost: a question of its hangs")
	}
}
