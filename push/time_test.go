package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// script is a receiver without a socket, for tests of hours: real ones cannot be waited for in a bubble.
type script struct {
	mu     sync.Mutex
	answer func(n int) (status int, header http.Header) // of the n-th request
	at     []time.Time
	bodies []string // of those that were accepted
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	status, header := s.answer(len(s.at))
	if status < 300 {
		s.bodies = append(s.bodies, string(body))
	}
	return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: r}, nil
}

func always(status int) func(int) (int, http.Header) {
	return func(int) (int, http.Header) { return status, nil }
}

func scripted(t *testing.T, s taskstore.Store, r *script, opts Options) *Push {
	p := idlePush(t, s, opts)
	p.transport = r
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func one(t *testing.T, s taskstore.Store, key taskstore.Key) taskstore.Webhook {
	t.Helper()
	hooks, err := s.Webhooks(t.Context(), key)
	if err != nil || len(hooks) != 1 {
		t.Fatal(hooks, err)
	}
	return hooks[0]
}

// pass lets the bubble's time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const receiverURL = "http://127.0.0.1:1/hook"

// Attempts come after any time up to a bound that doubles from 1 s to 5 min; after 20 in a row the webhook is dead.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memory(), &script{answer: always(503)}
		p := scripted(t, s, r, Options{})
		key := keyOf("t1")
		create(t, s, key, nil)
		register(t, p, key, a2a.TaskPushNotificationConfig{URL: receiverURL})
		pass(2 * time.Hour)
		if len(r.at) != 20 {
			t.Fatalf("%d attempts", len(r.at))
		}
		limit, far := time.Second, 0
		for i, at := range r.at[1:] {
			wait := at.Sub(r.at[i])
			if wait > limit+100*time.Millisecond {
				t.Errorf("attempt %d came after %v, at most %v", i+2, wait, limit)
			}
			if wait > limit/2 {
				far++
			}
			limit = min(2*limit, 5*time.Minute)
		}
		if far == 0 || far == 19 {
			t.Errorf("%d of 19 waits are in the upper half of their range", far)
		}
		h := one(t, s, key)
		if !h.Done || h.Attempts != 20 || !strings.Contains(h.Failure, "20 attempts") || !strings.Contains(h.Failure, "503") {
			t.Errorf("recorded %+v", h)
		}
		write(t, s, key, status("t1", a2a.TaskStateCompleted))
		pass(time.Hour)
		if len(r.at) != 20 {
			t.Errorf("%d attempts after it was given up", len(r.at)-20)
		}
		crash(p)
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		value       string
		least, most time.Duration
	}{
		{"120", 120 * time.Second, 121 * time.Second},
		{"0", 0, time.Second},
		{"99999999", time.Hour, time.Hour + time.Second},
		{"-5", 0, time.Second},
		{"soon", 0, time.Second},
		{"date", 90 * time.Second, 92 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			value := tt.value
			if value == "date" {
				value = time.Now().Add(91 * time.Second).UTC().Format(http.TimeFormat)
			}
			s, r := memory(), &script{}
			r.answer = func(n int) (int, http.Header) {
				if n == 1 {
					return 429, http.Header{"Retry-After": {value}}
				}
				return 200, nil
			}
			p := scripted(t, s, r, Options{})
			create(t, s, keyOf("t1"), nil)
			register(t, p, keyOf("t1"), a2a.TaskPushNotificationConfig{URL: receiverURL})
			pass(2 * time.Hour)
			if len(r.at) != 2 {
				t.Fatalf("Retry-After: %s: %d attempts", tt.value, len(r.at))
			}
			if wait := r.at[1].Sub(r.at[0]); wait < tt.least || wait > tt.most {
				t.Errorf("Retry-After: %s: the next attempt came after %v", tt.value, wait)
			}
			if h := one(t, s, keyOf("t1")); h.Attempts != 0 || h.Failure != "" || !h.Due.IsZero() {
				t.Errorf("recorded %+v", h)
			}
			crash(p)
		})
	}
}

// Case 28, in full length: down for 30 s, the host started anew meanwhile.
func TestDownForThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memory(), &script{}
		up := time.Now().Add(30 * time.Second)
		r.answer = func(int) (int, http.Header) {
			if time.Now().Before(up) {
				return 502, nil
			}
			return 200, nil
		}
		p := scripted(t, s, r, Options{})
		key := keyOf("t1")
		h := prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: receiverURL})
		want := bodies(create(t, s, key, h))
		for i := range 20 {
			want = append(want, bodies(write(t, s, key, chunk("t1", i)))...)
			pass(time.Second)
			if i == 10 {
				crash(p)
				p = scripted(t, s, r, Options{})
			}
		}
		want = append(want, bodies(write(t, s, key, status("t1", a2a.TaskStateCompleted)))...)
		pass(10 * time.Minute)
		if !slices.Equal(r.bodies, want) {
			t.Errorf("got %d entries, want %d in order", len(r.bodies), len(want))
		}
		if h := one(t, s, key); !h.Done || h.Failure != "" {
			t.Errorf("recorded %+v", h)
		}
		crash(p)
	})
}

// A host that never answered 2xx gets at most 60 attempts a minute, whatever the number of tasks and ports; one
// that did gets all at once (docs/threats.md, A2).
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memory(), &script{answer: always(404)}
		p := scripted(t, s, r, Options{})
		for i := range 1000 {
			key := keyOf(fmt.Sprintf("t%d", i))
			create(t, s, key, nil)
			register(t, p, key, a2a.TaskPushNotificationConfig{URL: fmt.Sprintf("http://127.0.0.1:%d/", 1000+i%3)})
		}
		pass(10 * time.Minute)
		r.mu.Lock()
		n := len(r.at)
		for i, at := range r.at {
			if i >= 60 && at.Sub(r.at[i-60]) < time.Minute {
				t.Errorf("attempts %d to %d came within %v", i-60, i, at.Sub(r.at[i-60]))
				break
			}
		}
		if n < 400 {
			t.Errorf("only %d attempts in 10 minutes", n)
		}
		r.answer = always(200)
		r.mu.Unlock()
		pass(10 * time.Minute)
		if len(r.bodies) != 1000 {
			t.Errorf("%d of 1000 were delivered once it answered", len(r.bodies))
		}
		crash(p)
	})
}

// lost is a store whose hints do not arrive.
type lost struct{ taskstore.Store }

func (lost) Notify(func(string)) func() { return func() {} }

func TestLostHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := lost{memory()}, &script{answer: always(200)}
		p := scripted(t, s, r, Options{})
		key := keyOf("t1")
		h := prepared(t, p, key, a2a.TaskPushNotificationConfig{URL: receiverURL})
		want := bodies(create(t, s, key, h))
		pass(scanEvery + time.Second)
		want = append(want, bodies(write(t, s, key, chunk("t1", 1), status("t1", a2a.TaskStateCompleted)))...)
		pass(pollEvery + time.Second)
		if !slices.Equal(r.bodies, want) {
			t.Errorf("got %v, want %v", r.bodies, want)
		}
		crash(p)
	})
}

// What was prepared and never committed is forgotten.
func TestPreparedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted(t, memory(), &script{answer: always(200)}, Options{})
		prepared(t, p, keyOf("t1"), a2a.TaskPushNotificationConfig{URL: receiverURL})
		pass(3 * scanEvery)
		crash(p)
		if len(p.expected) != 0 {
			t.Errorf("%d tasks are expected", len(p.expected))
		}
	})
}

// A store that cannot record does not have what was sent counted as failed, and nothing is lost.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &failing{Store: memory()}, &script{answer: always(200)}
		p := scripted(t, s, r, Options{})
		key := keyOf("t1")
		create(t, s, key, nil)
		register(t, p, key, a2a.TaskPushNotificationConfig{URL: receiverURL})
		synctest.Wait()
		s.fail(true)
		want := bodies(write(t, s, key, chunk("t1", 1), status("t1", a2a.TaskStateCompleted)))
		pass(time.Minute)
		s.fail(false)
		pass(time.Minute)
		if got := r.bodies[1:]; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if h := one(t, s, key); !h.Done || h.Attempts != 0 {
			t.Errorf("recorded %+v", h)
		}
		crash(p)
	})
}

// failing is a store that fails to record deliveries while it is told to.
type failing struct {
	taskstore.Store
	mu  sync.Mutex
	now bool
}

func (s *failing) fail(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *failing) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	if now && c.Delivered != nil {
		return taskstore.Receipt{}, errors.New("the disk is full")
	}
	return s.Store.Commit(ctx, c)
}

// Receivers that take everything but take their time do not hold all turns either.
func TestSlowButWilling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memory(), &slow{}
		p := idlePush(t, s, Options{})
		p.transport = r
		p.limits["127.0.0.1"] = rate.NewLimiter(rate.Inf, burst)
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		add := func(task string, port int) {
			create(t, s, keyOf(task), nil)
			register(t, p, keyOf(task), a2a.TaskPushNotificationConfig{URL: fmt.Sprintf("http://127.0.0.1:%d", port)})
		}
		add("quick", quickPort)
		for i := range 2 * maxTurns {
			task := fmt.Sprintf("slow%d", i)
			add(task, 10_000+i/maxPerOrigin)
			for n := range 5 {
				write(t, s, keyOf(task), chunk(task, n))
			}
		}
		for n := range 10 {
			pass(3 * time.Second)
			before := r.quick.Load()
			write(t, s, keyOf("quick"), chunk("quick", n))
			synctest.Wait()
			if r.quick.Load() != before+1 {
				t.Errorf("after %d s the quick receiver waits for its event", 3*(n+1))
			}
		}
		pass(time.Hour)
		if n := r.slow.Load(); n != 6*2*maxTurns {
			t.Errorf("the slow ones got %d events", n)
		}
		crash(p)
	})
}

const quickPort = 9_000

// slow answers after 9 s, at the quick port at once.
type slow struct{ quick, slow, now, most atomic.Int64 }

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Port() == strconv.Itoa(quickPort) {
		s.quick.Add(1)
	} else {
		s.most.Store(max(s.most.Load(), s.now.Add(1)))
		defer s.now.Add(-1)
		select {
		case <-time.After(9 * time.Second):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		s.slow.Add(1)
	}
	return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
}

// What a receiver asked for holds across a restart.
func TestDueAcrossRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memory(), &script{}
		r.answer = func(n int) (int, http.Header) {
			if n == 1 {
				return 503, http.Header{"Retry-After": {"120"}}
			}
			return 200, nil
		}
		p := scripted(t, s, r, Options{})
		create(t, s, keyOf("t1"), nil)
		register(t, p, keyOf("t1"), a2a.TaskPushNotificationConfig{URL: receiverURL})
		pass(10 * time.Second)
		crash(p)
		p = scripted(t, s, r, Options{})
		pass(time.Hour)
		if len(r.at) != 2 || r.at[1].Sub(r.at[0]) < 120*time.Second {
			t.Errorf("attempts at %v", r.at)
		}
		crash(p)
	})
}

// One origin has few turns at once, whatever the number of its webhooks.
func TestTurnsPerOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memory(), &slow{}
		p := idlePush(t, s, Options{})
		p.transport = r
		p.limits["127.0.0.1"] = rate.NewLimiter(rate.Inf, burst)
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			key := keyOf(fmt.Sprintf("t%d", i))
			create(t, s, key, nil)
			register(t, p, key, a2a.TaskPushNotificationConfig{URL: receiverURL})
		}
		pass(10 * time.Minute)
		if n, most := r.slow.Load(), r.most.Load(); n != 50 || most != maxPerOrigin {
			t.Errorf("%d were delivered, %d at once", n, most)
		}
		crash(p)
	})
}
