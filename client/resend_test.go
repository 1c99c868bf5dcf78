package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/server"
)

// gate is an agent that says when it has begun, and ends with a text when it may.
type gate struct {
	begun, end chan struct{}
	runs       atomic.Int32
}

func newGate() *gate { return &gate{begun: make(chan struct{}, 16), end: make(chan struct{})} }

func (g *gate) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	n := g.runs.Add(1)
	g.begun <- struct{}{}
	select {
	case <-g.end:
	case <-ctx.Done():
		return ctx.Err()
	}
	return u.Artifact(a2a.Artifact{Parts: []*a2a.Part{a2a.TextPart(fmt.Sprintf("run %d of %s", n, r.Text()))}})
}

// tasks returns how many tasks the host has.
func (h *host) tasks(t *testing.T) int32 {
	t.Helper()
	list, err := h.svc.ListTasks(context.Background(), &a2a.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return list.TotalSize
}

// sends are the ways to send a message to the end of its task.
var sends = map[string]func(context.Context, *client.Client) (string, error){
	"SendMessage": func(ctx context.Context, c *client.Client) (string, error) {
		res, err := c.SendMessage(ctx, text("x"))
		if err != nil {
			return "", err
		}
		return told(res), nil
	},
	"Send": func(ctx context.Context, c *client.Client) (string, error) {
		return lastOf(c.Send(ctx, text("x")))
	},
	"SendStreamingMessage": func(ctx context.Context, c *client.Client) (string, error) {
		return lastOf(c.SendStreamingMessage(ctx, text("x")))
	},
}

// lastOf returns what a stream's events fold to.
func lastOf(entries iter.Seq2[a2a.Entry, error]) (string, error) {
	var got a2a.Task
	for e, err := range entries {
		if err != nil {
			return "", err
		}
		got.Apply(e.Event)
	}
	return told(&got), nil
}

// TestLostAnswer: a connection is lost when the agent has the message and its caller no answer.
func TestLostAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		for name, send := range sends {
			for _, c := range []struct {
				name    string
				cfg     server.Config
				offered bool
				opts    client.Options
				again   bool
			}{
				{"safe-retry", server.Config{}, true, client.Options{}, true},
				{"not offered", server.Config{}, false, client.Options{}, false},
				{"not offered, but declared", server.Config{}, false, client.Options{Extensions: []string{extension.SafeRetry}}, false},
				{"switched off", server.Config{}, true, client.Options{OnlyExtensions: true}, false},
				{"not for strangers", server.Config{NoAnonymousLists: true}, true, client.Options{}, false},
			} {
				t.Run(name+"/"+c.name, func(t *testing.T) {
					g := newGate()
					c.cfg.Agent = g
					h := serveConfig(c.cfg, func(card *a2a.AgentCard) {
						if c.offered {
							extended(card)
						}
					})
					defer h.close()
					c.opts.Transports = []string{binding}
					cl := h.dial(t, c.opts)
					_, _ = cl.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "none"}) // the connection stands
					p := h.proxyOf(binding)
					if name != "SendMessage" {
						p.set(func() { p.mutes = 1 }) // the first frame leaves at once
					}
					go func() {
						<-g.begun
						if name == "SendMessage" {
							p.cut()
						}
						close(g.end)
					}()
					got, err := send(t.Context(), cl)
					if c.again && (err != nil || got != "task COMPLETED run 1 of x") {
						t.Errorf("%q, %v", got, err)
					}
					if !c.again && (!errors.Is(err, a2a.ErrUnavailable) || errors.Is(err, client.ErrUnreachable)) {
						t.Errorf("%q, %v, want an error that does not say that nothing was sent", got, err)
					}
					if n := g.runs.Load(); n > 1 || c.again && n == 0 {
						t.Errorf("the agent ran %d times", n)
					}
				})
			}
		}
	})
}

// TestLostManyAnswers: it may take more than one try.
func TestLostManyAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		g := newGate()
		close(g.end)
		h := newHost(t, g, extended)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		_, _ = c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "none"}) // the connection stands
		p := h.proxyOf(binding)
		p.set(func() { p.mutes = 7 })
		got, err := sends["SendMessage"](t.Context(), c)
		if err != nil || got != "task COMPLETED run 1 of x" || h.tasks(t) != 1 {
			t.Errorf("%q, %v; %d tasks", got, err, h.tasks(t))
		}
	})
}

// TestMessageIDs: every message has an id of its own, also one whose sender left it out, and keeps it.
func TestMessageIDs(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo, extended)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		req := text("x")
		req.Message.MessageID = ""
		for range 2 {
			if _, err := c.SendMessage(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := all(c.Send(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
		if n := h.tasks(t); n != 3 || req.Message.MessageID != "" {
			t.Errorf("%d tasks; the caller's message now has the id %q", n, req.Message.MessageID)
		}
		for range 2 {
			if _, err := c.SendMessage(t.Context(), text("y")); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.SendMessage(t.Context(), text("z"))
		if n := h.tasks(t); n != 4 || !errors.Is(err, a2a.ErrInvalidParams) {
			t.Errorf("%d tasks; another message with an id in use: %v", n, err)
		}
	})
}

// TestSameMessageElsewhere: a message is the same on every binding, whatever its configuration.
func TestSameMessageElsewhere(t *testing.T) {
	h := newHost(t, echo, extended, func(c *a2a.AgentCard) { c.DefaultInputModes = append(c.DefaultInputModes, "application/json") })
	req := text("é <x>")
	req.Message.Parts = append(req.Message.Parts, &a2a.Part{Content: a2a.Data(`{"b": 1.50, "a": [1e2, null]}`), MediaType: "application/json"})
	req.Metadata = a2a.Struct{"k": []byte(` { "z":1, "y":2 }`)}
	onEach(t, func(t *testing.T, binding string) {
		c := h.dial(t, client.Options{Transports: []string{binding}})
		for _, now := range []bool{true, false} {
			again := *req
			again.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: now}
			if _, err := c.SendMessage(t.Context(), &again); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := all(c.Send(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
	})
	if n := h.tasks(t); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

// busy refuses messages for some time, and counts them.
type busy struct {
	a2a.Service
	refuse []error // one for each message, then none
	sent   []time.Time
}

func (b *busy) refused() error {
	b.sent = append(b.sent, time.Now())
	if len(b.sent) > len(b.refuse) {
		return nil
	}
	return b.refuse[len(b.sent)-1]
}

func (b *busy) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	if err := b.refused(); err != nil {
		return nil, err
	}
	return b.Service.SendMessage(ctx, r)
}

func (b *busy) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	if err := b.refused(); err != nil {
		return says(err)
	}
	return b.Service.SendStreamingMessage(ctx, r)
}

// TestRefusedForNow: 429 and 503 are tried again, after the time that they name; other errors are answers.
func TestRefusedForNow(t *testing.T) {
	const after = 40 * time.Millisecond
	full := &a2a.Error{Code: a2a.ErrResourceExhausted, RetryAfter: after}
	away := &a2a.Error{Code: a2a.ErrUnavailable, RetryAfter: after}
	onEach(t, func(t *testing.T, binding string) {
		for name, send := range sends {
			for _, c := range []struct {
				refuse  []error
				offered bool
				tries   int
				err     error
			}{
				{[]error{full, away}, true, 3, nil},
				{[]error{full}, false, 1, a2a.ErrResourceExhausted},
				{[]error{away}, false, 1, a2a.ErrUnavailable},
				{[]error{a2a.ErrInvalidParams}, true, 1, a2a.ErrInvalidParams},
				{[]error{a2a.ErrInternal}, true, 1, a2a.ErrInternal},
				{[]error{full, a2a.ErrTooLarge}, true, 2, a2a.ErrTooLarge},
			} {
				t.Run(fmt.Sprintf("%s/%v %v", name, c.offered, c.refuse), func(t *testing.T) {
					real := newHost(t, echo, func(card *a2a.AgentCard) {
						if c.offered {
							extended(card)
						}
					})
					b := &busy{Service: real.svc, refuse: c.refuse}
					h := serve(b, real.card)
					defer h.close()
					got, err := send(t.Context(), h.dial(t, client.Options{Transports: []string{binding}}))
					if !errors.Is(err, c.err) || err == nil && got != "task COMPLETED x" || len(b.sent) != c.tries {
						t.Errorf("%q, %v after %d tries, want %v after %d", got, err, len(b.sent), c.err, c.tries)
					}
					if c.tries == 3 {
						for i := range 2 {
							if d := b.sent[i+1].Sub(b.sent[i]); d < after {
								t.Errorf("tried again after %v", d)
							}
						}
					}
				})
			}
		}
	})
}

// retried is a scripted agent under safe-retry in a bubble of fake time.
type retried struct {
	scripted
	lists int
	list  func() error
}

func (r *retried) ListTasks(ctx context.Context, _ *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	r.lists++
	if r.list != nil {
		if err := r.list(); err != nil {
			return nil, err
		}
	}
	a2a.CallInfoFrom(ctx).Activated = []string{extension.SafeRetry}
	return &a2a.ListTasksResponse{}, nil
}

// TestResendPace has the pauses between the tries of a message, in fake time.
func TestResendPace(t *testing.T) {
	broken := a2a.Errorf(a2a.ErrUnavailable, "broken")
	for name, c := range map[string]struct {
		err      error
		held     time.Duration // by each call before it fails
		list     error
		tries    int           // the last of which succeeds; 0: none does
		from, to time.Duration // how long it takes
		want     error
	}{
		"what the agent asks for":           {&a2a.Error{Code: a2a.ErrResourceExhausted, RetryAfter: 7 * time.Second}, 0, nil, 3, 14 * time.Second, 14 * time.Second, nil},
		"an hour":                           {&a2a.Error{Code: a2a.ErrUnavailable, RetryAfter: time.Hour}, 0, nil, 2, time.Minute, time.Minute, nil},
		"a minute without success":          {broken, 0, nil, 0, time.Minute, 66 * time.Second, broken},
		"an agent that is away":             {broken, 0, broken, 0, time.Minute, 66 * time.Second, broken},
		"a proxy that cuts calls that wait": {broken, time.Minute, nil, 10, 9 * time.Minute, 10 * time.Minute, nil},
		"nobody behind that proxy":          {broken, time.Minute, broken, 0, 2 * time.Minute, 3 * time.Minute, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries := time.Now(), 0
				svc := &retried{list: func() error { return c.list }}
				svc.now = func() (a2a.SendMessageResult, error) {
					if tries++; tries == c.tries {
						return task(a2a.TaskStateCompleted), nil
					}
					time.Sleep(c.held) //nolint:forbidigo // fake time
					return nil, c.err
				}
				_, err := hurried(svc, true, extended).SendMessage(t.Context(), text("x"))
				if d := time.Since(began); !errors.Is(err, c.want) || d < c.from || d > c.to || c.want == nil && tries != c.tries {
					t.Errorf("%v after %v and %d tries, want %v after %v to %v and %d", err, d, tries, c.want, c.from, c.to, c.tries)
				}
			})
		})
	}
	t.Run("the end of ctx", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			svc := &retried{}
			svc.now = func() (a2a.SendMessageResult, error) {
				return nil, &a2a.Error{Code: a2a.ErrUnavailable, RetryAfter: time.Minute}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := hurried(svc, true, extended).SendMessage(ctx, text("x"))
			if d := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || d != 3*time.Second {
				t.Errorf("%v after %v", err, d)
			}
		})
	})
}

// TestAwayOrAbsent: an agent that was there is waited for, one that never was is an error at once.
func TestAwayOrAbsent(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo, extended)
		h.proxyOf(binding).close()
		for name, send := range sends {
			if _, err := send(t.Context(), h.dial(t, client.Options{Transports: []string{binding}})); !errors.Is(err, client.ErrUnreachable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		a := &counter{most: 1, stop: -1}
		m := newMachine(t, a)
		c, tries := m.dial(t, binding)
		if _, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{}); err != nil {
			t.Fatal(err)
		}
		m.stop()
		go func() {
			tries.wait(3)
			m.start(m.listeners())
		}()
		if got, err := sends["Send"](t.Context(), c); err != nil || got != "task COMPLETED 0," {
			t.Errorf("%q, %v", got, err)
		}
	})
}
