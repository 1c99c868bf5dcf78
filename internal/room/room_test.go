package room

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

func task(mib int) *a2a.Task {
	return &a2a.Task{Artifacts: []*a2a.Artifact{{Parts: []*a2a.Part{a2a.TextPart(strings.Repeat("x", mib<<20))}}}}
}

var ann, bob = known("ann"), known("bob")

func known(subject string) *a2a.CallInfo {
	return &a2a.CallInfo{Caller: a2a.Caller{Issuer: "i", Subject: subject}, Peer: "192.0.2.1:1"}
}

func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(10<<20, 4<<20)
		first, err := r.Take(t.Context(), ann, task(3))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var refused *a2a.Error
		if _, err := r.Take(t.Context(), ann, task(2)); !errors.As(err, &refused) || refused.Code != a2a.ErrUnavailable {
			t.Errorf("over the share of a caller: %v", err)
		}
		if waited := time.Since(begin); waited != wait {
			t.Errorf("refused after %v, want %v", waited, wait)
		}
		if _, err := r.Take(t.Context(), bob, task(6)); err != nil {
			t.Errorf("another caller's first answer, over its share: %v", err)
		}
		if _, err := r.Take(t.Context(), ann, &a2a.Task{}); err != nil {
			t.Errorf("a small answer: %v", err)
		}
		go func() {
			time.Sleep(time.Second) //nolint:forbidigo // the time of the bubble
			first.Give()
		}()
		begin = time.Now()
		second, err := r.Take(t.Context(), ann, &a2a.SendMessageResponse{Result: task(2)})
		if err != nil || time.Since(begin) != time.Second {
			t.Fatalf("%v after %v, want room when it is given back", err, time.Since(begin))
		}
		second.Encoded(12 << 20)
		if r.used != 18<<20+64 {
			t.Errorf("%d bytes are held, want those of the encoding and of the other caller", r.used)
		}
		second.Give()
		if len(r.callers) != 1 {
			t.Errorf("callers without an answer are remembered: %v", r.callers)
		}
	})
}

func TestTotal(t *testing.T) {
	r := New(4<<20, 4<<20)
	if _, err := r.Take(t.Context(), ann, task(3)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Take(ctx, bob, &a2a.ListTasksResponse{Tasks: []*a2a.Task{task(1), task(1)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("over the total: %v", err)
	}
}
