package parley_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley/taskstore"
)

// shared is a store that several processes share, and that this one can lose.
type shared struct {
	taskstore.Store
	away atomic.Bool
	lost chan struct{}
}

func (s *shared) Join(context.Context, string) (<-chan struct{}, error) {
	if s.away.Load() {
		return nil, errors.New("away")
	}
	return s.lost, nil
}

func (*shared) Leave(context.Context, string) error { return nil }

func (*shared) Latched(context.Context, string) ([]taskstore.Key, error) { return nil, nil }

func (*shared) TakeWebhooks(context.Context, string, string, int) ([]taskstore.Webhook, error) {
	return nil, nil
}

// TestReadyLost: a node that has lost its store says so to the balancer, for what it is sent would fail.
func TestReadyLost(t *testing.T) {
	s := &shared{Store: taskstore.NewMemory(taskstore.MemoryOptions{}), lost: make(chan struct{})}
	h := startHost(t, hostOptions{store: s})
	ready := func(want int) {
		t.Helper()
		var status int
		for begin := time.Now(); time.Since(begin) < patience; <-time.After(20 * time.Millisecond) {
			res, err := get(t.Context(), h.url+"/readyz")
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if status = res.StatusCode; status == want {
				return
			}
		}
		t.Fatalf("ready: %d, want %d", status, want)
	}
	ready(http.StatusOK)
	s.away.Store(true)
	first := s.lost
	s.lost = make(chan struct{})
	close(first)
	ready(http.StatusServiceUnavailable)
	s.away.Store(false)
	ready(http.StatusOK)
}
