package limits_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/limits"
)

// endless is a service whose streams have an entry every second, and whose SendMessage waits, until their context ends.
type endless struct {
	a2a.Service

	calls atomic.Int64
	open  atomic.Int64
}

func (s *endless) GetTask(context.Context, *a2a.GetTaskRequest) (*a2a.Task, error) {
	s.calls.Add(1)
	return nil, a2a.ErrTaskNotFound
}

func (s *endless) SendMessage(ctx context.Context, _ *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *endless) SubscribeToTask(ctx context.Context, _ *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		s.open.Add(1)
		defer s.open.Add(-1)
		for n := int64(1); ; n++ {
			if !yield(a2a.NewEntry(n, &a2a.Task{ID: "t"}), nil) {
				return
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				yield(a2a.Entry{}, ctx.Err())
				return
			}
		}
	}
}

var alice = a2a.Caller{Tenant: "t1", Issuer: "test", Subject: "alice"}

func by(t *testing.T, c a2a.Caller, peer string) (context.Context, *a2a.CallInfo) {
	info := &a2a.CallInfo{Version: a2a.Version, Caller: c, Peer: peer}
	return a2a.WithCallInfo(t.Context(), info), info
}

// get calls GetTask and returns what the answer's headers say; err is nil if the call got through.
func get(t *testing.T, s a2a.Service, c a2a.Caller, peer string) (info *a2a.CallInfo, err error) {
	t.Helper()
	ctx, info := by(t, c, peer)
	if _, err = s.GetTask(ctx, &a2a.GetTaskRequest{ID: "x"}); errors.Is(err, a2a.ErrTaskNotFound) {
		err = nil
	}
	return info, err
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := new(endless)
		s := limits.Service(next, limits.Options{})
		for i := range 200 {
			info, err := get(t, s, alice, "192.0.2.1:1")
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			want := fmt.Sprintf(`"requests";r=%d;t=1`, 199-i)
			if got := info.Reply.Get("RateLimit"); got != want {
				t.Fatalf("call %d: RateLimit %s, want %s", i, got, want)
			}
		}
		info, err := get(t, s, alice, "192.0.2.9:1") // from elsewhere: the same caller
		e := a2a.AsError(err)
		if e.Code != a2a.ErrResourceExhausted || e.Metadata["limit"] != "requests" || e.RetryAfter != 10*time.Millisecond || !strings.Contains(e.Message, "limit requests") {
			t.Errorf("call 201: %+v", e)
		}
		if got := info.Reply.Get("RateLimit-Policy") + " | " + info.Reply.Get("RateLimit"); got != `"requests";q=200;w=2, "streams";q=100;qu="concurrent-requests" | "requests";r=0;t=1` {
			t.Errorf("headers %s", got)
		}
		if n := next.calls.Load(); n != 200 {
			t.Errorf("%d calls got through", n)
		}
		for _, other := range []a2a.Caller{
			{Tenant: "t2", Issuer: "test", Subject: "alice"}, {Tenant: "t1", Issuer: "other", Subject: "alice"}, {Tenant: "t1", Issuer: "test", Subject: "bob"},
		} {
			if _, err := get(t, s, other, "192.0.2.1:1"); err != nil {
				t.Errorf("another caller: %v", err)
			}
		}
		<-time.After(time.Second)
		for i := range 101 {
			if _, err := get(t, s, alice, "192.0.2.1:1"); (err == nil) != (i < 100) {
				t.Fatalf("a second later, call %d: %v", i, err)
			}
		}
	})
}

// TestCountedOnce: a request counts where it becomes known who calls, and not again behind that, but whoever calls with what
// a call came with makes another request.
func TestCountedOnce(t *testing.T) {
	refused := false
	l := limits.New(limits.Options{Rate: 0.001, Burst: 4})
	ask := l.Authenticate(func(_ context.Context, info *a2a.CallInfo) error {
		if refused {
			return a2a.ErrUnauthenticated
		}
		info.Caller = alice
		return nil
	})
	s := l.Service(new(endless))
	left := func(what string, info *a2a.CallInfo, want string) {
		t.Helper()
		if got := info.Reply.Get("RateLimit"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: RateLimit %s, want %s", what, got, want)
		}
	}
	ctx, info := by(t, a2a.Caller{}, "192.0.2.1:1")
	if err := ask(ctx, info); err != nil {
		t.Fatal(err)
	}
	left("known", info, `"requests";r=3;`)
	_, _ = s.GetTask(ctx, &a2a.GetTaskRequest{ID: "x"})
	left("served", info, `"requests";r=3;`)
	_, _ = s.GetTask(ctx, &a2a.GetTaskRequest{ID: "x"})
	left("called again", info, `"requests";r=2;`)

	ctx, info = by(t, a2a.Caller{}, "192.0.2.1:1")
	_ = ask(ctx, info)
	for _, err := range s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if got := info.Reply.Get("RateLimit"); got != `"requests";r=1;t=1000, "streams";r=99` {
		t.Errorf("a stream: RateLimit %s", got)
	}

	_, info = by(t, a2a.Caller{}, "192.0.2.1:1")
	_ = ask(t.Context(), info)
	l.Uncount(info)
	l.Uncount(info)
	if info.Reply.Get("RateLimit") != "" || info.Reply.Get("RateLimit-Policy") != "" {
		t.Errorf("not counted: %v", info.Reply)
	}
	refused = true
	_, info = by(t, a2a.Caller{}, "192.0.2.1:1")
	if err := ask(t.Context(), info); err == nil || info.Reply != nil {
		t.Errorf("nobody known: %v %v", err, info.Reply)
	}
	refused = false
	for i, want := range []error{nil, a2a.ErrResourceExhausted} {
		_, info = by(t, a2a.Caller{}, "192.0.2.1:1")
		if err := ask(t.Context(), info); !errors.Is(err, want) {
			t.Errorf("%d: %v", i, err)
		}
		left("the last", info, `"requests";r=0;`)
	}
	unlimited := limits.New(limits.Options{}).Authenticate(nil)
	_, info = by(t, a2a.Caller{}, "127.0.0.1:1")
	if n := testing.AllocsPerRun(100, func() { _ = unlimited(t.Context(), info) }); n != 0 {
		t.Errorf("%v allocations for a caller without limits", n)
	}
}

func TestAnonymous(t *testing.T) {
	for _, c := range []struct {
		first, second string
		loopback      bool
		limited, same bool
	}{
		{first: "192.0.2.1:1", second: "192.0.2.1:2", limited: true, same: true},
		{first: "192.0.2.1:1", second: "192.0.2.2:1", limited: true},
		{first: "[2001:db8::1]:1", second: "[2001:db8::ffff]:1", limited: true, same: true},
		{first: "[2001:db8:0:1::1]:1", second: "[2001:db8:0:2::1]:1", limited: true},
		{first: "[::ffff:192.0.2.1]:1", second: "192.0.2.1:2", limited: true, same: true},
		{first: "127.0.0.1:1"},
		{first: "[::1]:1"},
		{first: "127.0.0.1:1", second: "127.0.0.1:2", loopback: true, limited: true, same: true},
		{first: ""},
		{first: "@", second: "@", limited: true, same: true},
	} {
		s := limits.Service(new(endless), limits.Options{Rate: 0.001, Burst: 1, Loopback: c.loopback})
		if _, err := get(t, s, a2a.Caller{}, c.first); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		info, err := get(t, s, a2a.Caller{}, c.first)
		if (err != nil) != c.limited || (info.Reply != nil) != c.limited {
			t.Errorf("%+v: again: %v, %v", c, err, info.Reply)
		}
		if c.limited {
			if _, err := get(t, s, a2a.Caller{}, c.second); (err != nil) != c.same {
				t.Errorf("%+v: the second: %v", c, err)
			}
		}
	}
	if _, err := limits.Service(new(endless), limits.Options{Rate: 0.001, Burst: 1}).GetTask(t.Context(), &a2a.GetTaskRequest{}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("within the process: %v", err)
	}
}

// pull opens a stream and returns the rest, the answer's headers, and the error that came in the place of its first entry.
func pull(t *testing.T, s a2a.Service, c a2a.Caller) (next func() (a2a.Entry, error, bool), info *a2a.CallInfo, first error) {
	t.Helper()
	ctx, info := by(t, c, "192.0.2.1:1")
	next, stop := iter.Pull2(s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"}))
	t.Cleanup(stop)
	_, first, _ = next()
	return next, info, first
}

func TestStreams(t *testing.T) {
	next := new(endless)
	s := limits.Service(next, limits.Options{})
	ctx, _ := by(t, alice, "192.0.2.1:1")
	var stops []func()
	for i := range 100 {
		n, stop := iter.Pull2(s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"}))
		defer stop()
		stops = append(stops, stop)
		if _, err, _ := n(); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	_, info, err := pull(t, s, alice)
	if e := a2a.AsError(err); e.Code != a2a.ErrResourceExhausted || e.Metadata["limit"] != "streams" || !strings.Contains(info.Reply.Get("RateLimit"), `"streams";r=0`) {
		t.Errorf("stream 101: %v, %v", err, info.Reply)
	}
	if _, _, err := pull(t, s, a2a.Caller{Issuer: "test", Subject: "bob"}); err != nil {
		t.Errorf("another's: %v", err)
	}
	if next.open.Load() != 101 {
		t.Errorf("%d streams are open", next.open.Load())
	}
	stops[0]()
	if _, _, err := pull(t, s, alice); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestOff(t *testing.T) {
	s := limits.Service(new(endless), limits.Options{Rate: -1, Streams: -1})
	for range 1000 {
		if info, err := get(t, s, alice, "192.0.2.1:1"); err != nil || info.Reply != nil {
			t.Fatal(err, info.Reply)
		}
	}
	for range 200 {
		if _, _, err := pull(t, s, alice); err != nil {
			t.Fatal(err)
		}
	}
	s = limits.Service(new(endless), limits.Options{Rate: -1})
	if info, _ := get(t, s, alice, "192.0.2.1:1"); info.Reply.Get("RateLimit-Policy") != `"streams";q=100;qu="concurrent-requests"` || info.Reply.Get("RateLimit") != "" {
		t.Errorf("no rate: %v", info.Reply)
	}
	s = limits.Service(new(endless), limits.Options{Streams: -1})
	if info, _ := get(t, s, alice, "192.0.2.1:1"); info.Reply.Get("RateLimit-Policy") != `"requests";q=200;w=2` {
		t.Errorf("no streams: %v", info.Reply)
	}
}

// TestForgotten: the callers that are remembered are bounded, and whoever has a stream is among them.
func TestForgotten(t *testing.T) {
	s := limits.Service(new(endless), limits.Options{Rate: 0.001, Burst: 2, Streams: 1, Callers: 3})
	name := func(i int) a2a.Caller { return a2a.Caller{Issuer: "test", Subject: fmt.Sprint(i)} }
	_, _, err := pull(t, s, name(0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err := get(t, s, name(i+1), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := pull(t, s, name(0)); a2a.AsError(err).Metadata["limit"] != "streams" {
		t.Errorf("who has a stream was forgotten: %v", err)
	}
	if _, _, err := pull(t, s, name(0)); a2a.AsError(err).Metadata["limit"] != "requests" {
		t.Errorf("the rate of who has a stream was forgotten: %v", err)
	}
	for range 2 { // of two requests, and one more before
		if _, err := get(t, s, name(1), ""); err != nil {
			t.Errorf("not forgotten: %v", err)
		}
	}
}

// TestParallel is for the race detector.
func TestParallel(t *testing.T) {
	s := limits.Service(new(endless), limits.Options{Rate: -1, Callers: 2, Check: func(context.Context) error { return nil }})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			ctx, _ := by(t, a2a.Caller{Issuer: "test", Subject: fmt.Sprint(i % 5)}, "")
			for range 20 {
				for _, err := range s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"}) {
					if err != nil {
						t.Error(err)
					}
					break
				}
				_, _ = s.GetTask(ctx, &a2a.GetTaskRequest{ID: "t"})
			}
		})
	}
	wg.Wait()
}

// TestExpiry is threat A8: a stream and a call that waits end with the credential, and so does what is tried after.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := new(endless)
		s := limits.Service(next, limits.Options{})
		brief := alice
		brief.Expiry = time.Now().Add(5500 * time.Millisecond)
		begin := time.Now()
		ctx, _ := by(t, brief, "")
		entries, last := 0, error(nil)
		for _, err := range s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"}) {
			if entries++; err != nil {
				entries--
				last = err
			}
			if entries > 100 {
				break
			}
		}
		if d := time.Since(begin); entries != 6 || !errors.Is(last, a2a.ErrUnauthenticated) || d != 5500*time.Millisecond {
			t.Errorf("%d entries and %v after %v", entries, last, d)
		}
		if _, _, err := pull(t, s, brief); !errors.Is(err, a2a.ErrUnauthenticated) {
			t.Errorf("resubscribed: %v", err)
		}
		if next.open.Load() != 0 {
			t.Error("a stream was left open")
		}
		brief.Expiry = time.Now().Add(time.Hour)
		ctx, _ = by(t, brief, "")
		ctx, cancel := context.WithTimeout(ctx, 2*time.Hour)
		defer cancel()
		if _, err := s.SendMessage(ctx, &a2a.SendMessageRequest{}); !errors.Is(err, a2a.ErrUnauthenticated) || time.Since(begin) < time.Hour {
			t.Errorf("a call that waits: %v", err)
		}
	})
}

// TestRevoked is threat A8: a stream ends within 30 seconds of a revocation, and while nobody can be asked after 15
// minutes.
func TestRevoked(t *testing.T) {
	for name, c := range map[string]struct {
		check func(ctx context.Context, since time.Duration) error
		ends  [2]time.Duration // not before, not after
		words string
	}{
		"revoked after a minute": {
			func(_ context.Context, since time.Duration) error {
				if since >= time.Minute {
					return &a2a.Error{Code: a2a.ErrUnauthenticated, Message: "revoked", Challenge: []string{"Bearer"}}
				}
				return nil
			}, [2]time.Duration{time.Minute, time.Minute + 30*time.Second}, "revoked",
		},
		"forbidden": {
			func(context.Context, time.Duration) error { return a2a.ErrPermissionDenied }, [2]time.Duration{0, 30 * time.Second}, "no longer accepted",
		},
		"the issuer is gone after an hour": {
			func(_ context.Context, since time.Duration) error {
				if since >= time.Hour {
					return a2a.ErrUnavailable
				}
				return nil
			}, [2]time.Duration{time.Hour, time.Hour + 15*time.Minute + 30*time.Second}, "15 minutes",
		},
		"the issuer never answers": {
			func(ctx context.Context, _ time.Duration) error {
				<-ctx.Done()
				return ctx.Err()
			}, [2]time.Duration{14 * time.Minute, 15*time.Minute + 30*time.Second}, "15 minutes",
		},
		"the issuer is slow to say no": {
			func(ctx context.Context, _ time.Duration) error {
				<-time.After(9 * time.Second)
				return a2a.ErrUnauthenticated
			}, [2]time.Duration{0, 30 * time.Second}, "authentication required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				s := limits.Service(new(endless), limits.Options{Check: func(ctx context.Context) error {
					if a2a.CallInfoFrom(ctx).Caller.Subject != "alice" {
						t.Error("the caller was not told")
					}
					return c.check(ctx, time.Since(begin))
				}})
				next, _, err := pull(t, s, alice)
				for err == nil && time.Since(begin) < 3*time.Hour {
					_, err, _ = next()
				}
				if d := time.Since(begin); !errors.Is(err, a2a.ErrUnauthenticated) || !strings.Contains(err.Error(), c.words) || d < c.ends[0] || d > c.ends[1] {
					t.Errorf("ended after %v: %v", d, err)
				}
				if _, _, more := next(); more {
					t.Error("something came after the end")
				}
				synctest.Wait()
			})
		})
	}
}

// TestUnwatched: nobody asks about anonymous callers, nor about calls that have ended.
func TestUnwatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limits.Service(new(endless), limits.Options{Check: func(context.Context) error {
			t.Error("asked")
			return a2a.ErrUnauthenticated
		}})
		next, _, err := pull(t, s, a2a.Caller{})
		for range 100 {
			if err != nil {
				t.Fatal(err)
			}
			_, err, _ = next()
		}
		if _, err := get(t, s, alice, ""); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
	})
}
