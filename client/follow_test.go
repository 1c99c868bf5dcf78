package client_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
)

// lose cuts the agent off, lets it go on for some steps, and brings it back.
func (h *host) lose(t *testing.T, p *proxy, s *stepper, steps int, until func(*a2a.Task) bool) {
	t.Helper()
	p.down()
	defer p.up()
	s.steps(steps)
	list, err := h.svc.ListTasks(t.Context(), &a2a.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var now a2a.Task
	for e, err := range h.svc.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: list.Tasks[0].ID}) {
		if errors.Is(err, a2a.ErrUnsupportedOperation) {
			return // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		if now.Apply(e.Event); until(&now) {
			return
		}
	}
}

// survives reads a stream that is cut after the chunk "1" and missed what the agent did meanwhile. It checks that
// the fold of what came is the task as the agent has it.
func survives(t *testing.T, h *host, binding string, s *stepper, missed int, c *client.Client, entries iter.Seq2[a2a.Entry, error]) {
	t.Helper()
	var got a2a.Task
	var words []string
	cut, given := false, 0
	for e, err := range entries {
		if err != nil {
			t.Fatalf("after %q: %v", words, err)
		}
		words = append(words, told(e.Event))
		got.Apply(e.Event)
		have := ""
		if len(got.Artifacts) > 0 {
			have = got.Artifacts[0].Text()
		}
		switch {
		case !cut && have == "01":
			cut = true
			h.lose(t, h.proxyOf(binding), s, missed, func(now *a2a.Task) bool {
				return missed < s.n-2 && now.Artifacts[0].Text() == "01234"[:2+missed] || now.Status.State.Terminal()
			})
			go s.steps(s.n - 2 - missed)
		case !cut && given == len(have):
			given++
			go s.steps(1)
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, "task") })); n != 2 {
		t.Errorf("%d times the Task, want one at the beginning and one after the cut: %q", n, words)
	}
	want, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: got.ID})
	if err != nil {
		t.Fatal(err)
	}
	if text := want.Artifacts[0].Text(); text != "01234" || got.Artifacts[0].Text() != text || got.Status.State != a2a.TaskStateCompleted {
		t.Errorf("got %q %v from %q, the agent has %q", got.Artifacts[0].Text(), got.Status.State, words, text)
	}
	if n := s.ran(); n != 1 {
		t.Errorf("the agent ran %d times", n)
	}
}

// TestLostStream has streams that are cut in the middle, while the agent goes on or finishes (cases 4 and 8).
func TestLostStream(t *testing.T) {
	for name, missed := range map[string]int{"some missed": 2, "the end missed": 3} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				t.Run("Send", func(t *testing.T) {
					s := newStepper(5)
					h := newHost(t, s)
					c := h.dial(t, client.Options{Transports: []string{binding}})
					survives(t, h, binding, s, missed, c, c.Send(t.Context(), text("x")))
				})
				t.Run("Follow", func(t *testing.T) {
					s := newStepper(5)
					h := newHost(t, s)
					c := h.dial(t, client.Options{Transports: []string{binding}})
					survives(t, h, binding, s, missed, c, c.Follow(t.Context(), start(t, c).ID))
				})
			})
		})
	}
}

// start begins a task and returns it while it is at work.
func start(t *testing.T, c *client.Client) *a2a.Task {
	t.Helper()
	req := text("x")
	req.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	res, err := c.SendMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res.(*a2a.Task)
}

// TestNeverSentTwice: an answer that is lost before it names the task is the caller's error.
func TestNeverSentTwice(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		s := newStepper(1)
		h := newHost(t, s)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		_, _ = c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "none"}) // the connection stands
		p := h.proxyOf(binding)
		p.set(func() { p.mute = true })
		words, err := all(c.Send(t.Context(), text("x")))
		if len(words) > 0 || !errors.Is(err, a2a.ErrUnavailable) || errors.Is(err, client.ErrUnreachable) {
			t.Errorf("%q, %v: want an error that does not say that nothing was sent", words, err)
		}
		p.set(func() { p.mute = false })
		list, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{})
		if err != nil || list.TotalSize > 1 || s.ran() > 1 {
			t.Errorf("%d tasks, %d runs, %v", list.TotalSize, s.ran(), err)
		}
	})
}

// TestSendEnds has where Send ends and what it takes for a lost stream.
func TestSendEnds(t *testing.T) {
	const (
		working, input, auth, completed = a2a.TaskStateWorking, a2a.TaskStateInputRequired, a2a.TaskStateAuthRequired, a2a.TaskStateCompleted
	)
	broken := a2a.Errorf(a2a.ErrUnavailable, "broken")
	for name, c := range map[string]struct {
		req       *a2a.SendMessageRequest
		send      iter.Seq2[a2a.Entry, error]
		subscribe []iter.Seq2[a2a.Entry, error] // one after the other
		get       *a2a.Task
		want      []string
		err       error
	}{
		"message": {send: says(nil, &a2a.Message{MessageID: "r", Role: a2a.RoleAgent, Parts: []*a2a.Part{a2a.TextPart("hi")}}), want: []string{"message hi"}},
		"terminal, though the stream goes on": {
			send: says(nil, task(working), status(completed), status(working)), want: []string{"task WORKING", "COMPLETED"},
		},
		"question, though the stream goes on": {
			send: says(nil, task(working), status(input), status(working)), want: []string{"task WORKING", "INPUT_REQUIRED"},
		},
		"an answer whose stream begins with the question": {
			req:  to("t1", "answer"),
			send: says(nil, task(input), chunk("a"), status(working), status(completed)), want: []string{"task INPUT_REQUIRED", "+a", "WORKING", "COMPLETED"},
		},
		"through AUTH_REQUIRED": {
			send: says(nil, task(working), status(auth), status(working), status(completed)),
			want: []string{"task WORKING", "AUTH_REQUIRED", "WORKING", "COMPLETED"},
		},
		"closed by the agent at AUTH_REQUIRED": {send: says(nil, task(working), status(auth)), want: []string{"task WORKING", "AUTH_REQUIRED"}},
		"closed too early": {
			send:      says(nil, task(working), chunk("a")),
			subscribe: []iter.Seq2[a2a.Entry, error]{says(nil), says(nil, task(working), chunk("b"), status(completed))},
			want:      []string{"task WORKING", "+a", "task WORKING", "+b", "COMPLETED"},
		},
		"lost, then asked a question": {
			send:      says(broken, task(working)),
			subscribe: []iter.Seq2[a2a.Entry, error]{says(broken), says(nil, task(input), status(working))},
			want:      []string{"task WORKING", "task INPUT_REQUIRED"},
		},
		"lost, then over": {
			send:      says(broken, task(working)),
			subscribe: []iter.Seq2[a2a.Entry, error]{says(a2a.ErrUnsupportedOperation)},
			get:       task(completed), want: []string{"task WORKING", "task COMPLETED"},
		},
		"lost, then gone": {
			send:      says(broken, task(working)),
			subscribe: []iter.Seq2[a2a.Entry, error]{says(a2a.ErrTaskNotFound)},
			want:      []string{"task WORKING"}, err: a2a.ErrTaskNotFound,
		},
		"an error that another try does not mend": {
			send: says(a2a.ErrInternal, task(working)), want: []string{"task WORKING"}, err: a2a.ErrInternal,
		},
		"a subscription that begins in the middle": {
			send:      says(broken, task(working), chunk("a")),
			subscribe: []iter.Seq2[a2a.Entry, error]{says(nil, chunk("c"), status(completed))},
			want:      []string{"task WORKING", "+a"}, err: a2a.ErrInvalidAgentResponse,
		},
		"no event":           {send: says(nil), err: a2a.ErrInvalidAgentResponse},
		"refused":            {send: says(a2a.ErrUnsupportedOperation), err: a2a.ErrUnsupportedOperation},
		"no task, then lost": {send: says(broken), err: a2a.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				left := c.subscribe
				h := newScripted(t, &scripted{
					send: func() iter.Seq2[a2a.Entry, error] { return c.send },
					subscribe: func() iter.Seq2[a2a.Entry, error] {
						if len(left) == 0 {
							return says(a2a.Errorf(a2a.ErrInvalidParams, "one subscription too many"))
						}
						next := left[0]
						left = left[1:]
						return next
					},
					get: func() (*a2a.Task, error) {
						if c.get == nil {
							return nil, a2a.ErrTaskNotFound
						}
						return c.get, nil
					},
				})
				req := c.req
				if req == nil {
					req = text("x")
				}
				words, err := all(h.dial(t, client.Options{Transports: []string{binding}}).Send(t.Context(), req))
				equal(t, words, c.want...)
				if !errors.Is(err, c.err) {
					t.Errorf("the last yield is %v, want %v", err, c.err)
				}
				if len(left) > 0 {
					t.Errorf("%d subscriptions were not made", len(left))
				}
			})
		})
	}
}

// TestFollow has what is particular to Follow.
func TestFollow(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
			if r.Text() == "ask" {
				return u.Park(a2a.TextPart("what?"))
			}
			return u.Artifact(a2a.Artifact{Parts: r.Message.Parts})
		}))
		c := h.dial(t, client.Options{Transports: []string{binding}})
		t.Run("a finished task", func(t *testing.T) {
			res, err := c.SendMessage(t.Context(), text("x"))
			if err != nil {
				t.Fatal(err)
			}
			words, err := all(c.Follow(t.Context(), res.(*a2a.Task).ID))
			equal(t, words, "task COMPLETED x")
			if err != nil {
				t.Error(err)
			}
		})
		t.Run("no such task", func(t *testing.T) {
			words, err := all(c.Follow(t.Context(), "none"))
			if equal(t, words); !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Error(err)
			}
		})
		t.Run("through a question, and the end of ctx", func(t *testing.T) {
			res, err := c.SendMessage(t.Context(), text("ask"))
			if err != nil {
				t.Fatal(err)
			}
			id := res.(*a2a.Task).ID
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var words []string
			for e, err := range c.Follow(ctx, id) {
				if err != nil {
					if err != context.Canceled { //nolint:errorlint // the very error
						t.Error(err)
					}
					equal(t, words, "task INPUT_REQUIRED")
					return
				}
				words = append(words, told(e.Event))
				cancel()
			}
			t.Error("it ended without an error")
		})
		t.Run("an answered question", func(t *testing.T) {
			res, err := c.SendMessage(t.Context(), text("ask"))
			if err != nil {
				t.Fatal(err)
			}
			id := res.(*a2a.Task).ID
			var words []string
			for e, err := range c.Follow(t.Context(), id) {
				if err != nil {
					t.Fatal(err)
				}
				if words = append(words, told(e.Event)); len(words) == 1 {
					if _, err := c.SendMessage(t.Context(), to(id, "y")); err != nil {
						t.Fatal(err)
					}
				}
			}
			equal(t, words, "task INPUT_REQUIRED", "WORKING", "+y", "COMPLETED")
		})
	})
}

// TestGivesUp: an agent that does not come back is an error after a time, one that never was there at once.
func TestGivesUp(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		s := newStepper(1)
		h := newHost(t, s)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		c.SetTiming(time.Millisecond, 20*time.Millisecond, 200*time.Millisecond)
		words, lost := []string{}, time.Time{}
		for e, err := range c.Send(t.Context(), text("x")) {
			if err != nil {
				if !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, a2a.ErrUnavailable) {
					t.Error(err)
				}
				if after := time.Since(lost); after < 200*time.Millisecond {
					t.Errorf("it gave up after %v", after)
				}
				break
			}
			if words = append(words, told(e.Event)); len(words) == 2 {
				lost = time.Now()
				h.proxyOf(binding).close()
			}
		}
		equal(t, words, "task SUBMITTED", "WORKING")
		c.SetTiming(time.Millisecond, 20*time.Millisecond, time.Hour)
		if _, err := all(c.Follow(t.Context(), "t1")); !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("Follow: %v", err)
		}
	})
}

// TestGivesUpOnRepetition: an agent whose every stream says the same and breaks is one that says nothing.
func TestGivesUpOnRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const working = a2a.TaskStateWorking
		same := func() iter.Seq2[a2a.Entry, error] { return says(nil, task(working), status(working)) }
		c := hurried(&scripted{
			send: same, subscribe: same,
			get: func() (*a2a.Task, error) { return nil, a2a.Errorf(a2a.ErrUnavailable, "broken") },
		}, true)
		began, n := time.Now(), 0
		var last error
		for _, err := range c.Send(t.Context(), text("x")) {
			if n++; n > 1000 {
				t.Fatalf("it goes on after %v", time.Since(began))
			}
			last = err
		}
		if took := time.Since(began); !errors.Is(last, a2a.ErrUnavailable) || took < time.Minute || took > 2*time.Minute {
			t.Errorf("after %v: %v", took, last)
		}
	})
}

// hurried is a client over svc in a bubble of fake time.
func hurried(svc a2a.Service, streaming bool, change ...func(*a2a.AgentCard)) *client.Client {
	card := newCard()
	for _, f := range change {
		f(card)
	}
	card.Capabilities.Streaming = &streaming
	card.SupportedInterfaces = []*a2a.AgentInterface{{URL: "http://agent.example", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}}
	c, err := client.Dial(&client.Card{AgentCard: card}, client.Options{})
	if err != nil {
		panic(err)
	}
	c.SetService(svc)
	return c
}

// TestPace has the pauses, in fake time.
func TestPace(t *testing.T) {
	broken := a2a.Errorf(a2a.ErrUnavailable, "broken")
	t.Run("a minute without progress", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			c := hurried(&scripted{
				send: func() iter.Seq2[a2a.Entry, error] { return says(broken, task(a2a.TaskStateWorking)) },
				subscribe: func() iter.Seq2[a2a.Entry, error] {
					if tries++; tries%2 == 0 {
						return says(broken)
					}
					return says(broken, task(a2a.TaskStateWorking)) // no progress either
				},
			}, true)
			began := time.Now()
			_, err := all(c.Send(t.Context(), text("x")))
			if d := time.Since(began); !errors.Is(err, a2a.ErrUnavailable) || d < time.Minute || d > 66*time.Second {
				t.Errorf("%v after %v", err, d)
			}
			if tries < 14 || tries > 40 { // 100 ms doubled to 5 s, and half of that with the luckiest jitter
				t.Errorf("%d tries", tries)
			}
		})
	})
	t.Run("an agent that answers, behind a proxy that breaks streams", func(t *testing.T) {
		for _, first := range []bool{true, false} { // the message's stream, or a task that is followed
			synctest.Test(t, func(t *testing.T) {
				began, streams := time.Now(), 0
				c := hurried(&scripted{
					send: func() iter.Seq2[a2a.Entry, error] { return says(broken, task(a2a.TaskStateWorking)) },
					subscribe: func() iter.Seq2[a2a.Entry, error] {
						streams++
						return says(broken)
					},
					get: func() (*a2a.Task, error) {
						if time.Since(began) > time.Hour {
							return task(a2a.TaskStateCompleted), nil
						}
						return task(a2a.TaskStateWorking), nil
					},
				}, true)
				follow := c.Follow(t.Context(), "t1")
				if first {
					follow = c.Send(t.Context(), text("x"))
				}
				words, err := all(follow)
				if err != nil || words[len(words)-1] != "task COMPLETED" || streams > 2 {
					t.Errorf("%q after %d streams, %v", words, streams, err)
				}
			})
		}
	})
	t.Run("an agent silent behind a proxy that cuts idle streams", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			idle := func() iter.Seq2[a2a.Entry, error] {
				return func(yield func(a2a.Entry, error) bool) {
					if !yield(a2a.NewEntry(0, task(a2a.TaskStateWorking)), nil) {
						return
					}
					<-time.After(time.Minute)
					if time.Since(began) > time.Hour {
						yield(a2a.NewEntry(0, status(a2a.TaskStateCompleted)), nil)
						return
					}
					yield(a2a.Entry{}, broken)
				}
			}
			words, err := all(hurried(&scripted{send: idle, subscribe: idle}, true).Send(t.Context(), text("x")))
			if err != nil || words[len(words)-1] != "COMPLETED" || len(words) < 60 {
				t.Errorf("%d entries, %v", len(words), err)
			}
		})
	})
	t.Run("Retry-After", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := hurried(&scripted{
				send: func() iter.Seq2[a2a.Entry, error] {
					return says(&a2a.Error{Code: a2a.ErrUnavailable, RetryAfter: 7 * time.Second}, task(a2a.TaskStateWorking))
				},
				subscribe: func() iter.Seq2[a2a.Entry, error] { return says(nil, task(a2a.TaskStateCompleted)) },
			}, true)
			words, err := all(c.Send(t.Context(), text("x")))
			if d := time.Since(began); err != nil || len(words) != 2 || d != 7*time.Second {
				t.Errorf("%q, %v after %v", words, err, d)
			}
		})
	})
	t.Run("polling", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var asked []time.Duration
			answers := []a2a.TaskState{
				a2a.TaskStateWorking, a2a.TaskStateWorking, a2a.TaskStateWorking, a2a.TaskStateWorking, a2a.TaskStateWorking,
				a2a.TaskStateWorking, a2a.TaskStateAuthRequired, a2a.TaskStateAuthRequired, a2a.TaskStateCompleted,
			}
			c := hurried(&scripted{get: func() (*a2a.Task, error) {
				asked = append(asked, time.Since(began))
				return task(answers[len(asked)-1]), nil
			}}, false)
			words, err := all(c.Follow(t.Context(), "t1"))
			if err != nil {
				t.Error(err)
			}
			equal(t, words, "task WORKING", "task AUTH_REQUIRED", "task COMPLETED")
			var pauses []time.Duration
			for i := range len(asked) - 1 {
				pauses = append(pauses, asked[i+1]-asked[i])
			}
			const s, ms = time.Second, time.Millisecond
			if want := []time.Duration{2 * s, 3 * s, 4500 * ms, 6750 * ms, 10 * s, 10 * s, 2 * s, 3 * s}; asked[0] != 0 || !slices.Equal(pauses, want) {
				t.Errorf("asked with pauses of %v, want %v", pauses, want)
			}
		})
	})
}

// TestWithoutStreaming has a card that offers no streams: the task is asked for.
func TestWithoutStreaming(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		s := newStepper(3)
		h := newHost(t, s, func(c *a2a.AgentCard) { c.Capabilities.Streaming = ptr(false) })
		c := h.dial(t, client.Options{Transports: []string{binding}, Poll: time.Millisecond})
		go s.steps(1)
		var got a2a.Task
		var words []string
		req := text("x")
		req.Configuration = &a2a.SendMessageConfiguration{HistoryLength: ptr(int32(0))}
		for e, err := range c.Send(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, told(e.Event))
			if got.Apply(e.Event); len(got.Artifacts) > 0 && got.Artifacts[0].Text() == "0" {
				go s.steps(2)
			}
			if len(got.History) > 0 {
				t.Errorf("with a historyLength of 0 it has a history of %d", len(got.History))
			}
		}
		if got.Artifacts[0].Text() != "012" || got.Status.State != a2a.TaskStateCompleted || s.ran() != 1 {
			t.Errorf("%q, %d runs", words, s.ran())
		}
		if len(slices.Compact(slices.Clone(words))) != len(words) {
			t.Errorf("an unchanged task was yielded: %q", words)
		}
		if req.Configuration.ReturnImmediately {
			t.Error("the caller's request was changed")
		}
	})
}

func TestWait(t *testing.T) {
	for name, streaming := range map[string]bool{"by stream": true, "by asking": false} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				answer := make(chan struct{})
				h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
					select {
					case <-answer:
					case <-ctx.Done():
						return ctx.Err()
					}
					if r.Task.Status.State == a2a.TaskStateInputRequired || len(r.Task.History) > 1 {
						return u.Artifact(a2a.Artifact{Parts: r.Message.Parts})
					}
					return u.Park(a2a.TextPart("what?"))
				}), func(c *a2a.AgentCard) { c.Capabilities.Streaming = &streaming })
				c := h.dial(t, client.Options{Transports: []string{binding}, Poll: time.Millisecond})
				id := start(t, c).ID
				go func() { answer <- struct{}{} }()
				got, err := c.Wait(t.Context(), id)
				if err != nil || told(got) != "task INPUT_REQUIRED" || got.Status.Message.Text() != "what?" {
					t.Fatalf("%+v, %v", got, err)
				}
				req := to(id, "y")
				req.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
				if _, err := c.SendMessage(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				go func() { answer <- struct{}{} }()
				got, err = c.Wait(t.Context(), id)
				if err != nil || told(got) != "task COMPLETED y" || len(got.History) != 3 {
					t.Fatalf("%+v, %v", got, err)
				}
				if got, err = c.Wait(t.Context(), id); err != nil || told(got) != "task COMPLETED y" {
					t.Errorf("of a finished task: %+v, %v", got, err)
				}
				if _, err = c.Wait(t.Context(), "none"); !errors.Is(err, a2a.ErrTaskNotFound) {
					t.Errorf("of no task: %v", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if _, err = c.Wait(ctx, start(t, c).ID); err != context.DeadlineExceeded { //nolint:errorlint // the very error
					t.Errorf("at the end of ctx: %v", err)
				}
			})
		})
	}
}

// TestNoTotalTimeout: a client bounds how long a connection takes to stand, and not how long an agent takes (case 41).
func TestNoTotalTimeout(t *testing.T) {
	tr := client.DefaultHTTP.Transport.(*http.Transport)
	if client.DefaultHTTP.Timeout != 0 || tr.ResponseHeaderTimeout != 0 || tr.TLSHandshakeTimeout == 0 {
		t.Error("the default client bounds the wrong thing")
	}
	const short = 50 * time.Millisecond
	hc := &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: short}).DialContext, TLSHandshakeTimeout: short,
	}}
	defer hc.CloseIdleConnections()
	var runs atomic.Int32
	h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
		runs.Add(1)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * short):
			return u.Artifact(a2a.Artifact{Parts: []*a2a.Part{a2a.TextPart("late")}})
		}
	}))
	onEach(t, func(t *testing.T, binding string) {
		t.Parallel()
		c := h.dial(t, client.Options{Transports: []string{binding}, HTTP: hc})
		res, err := c.SendMessage(t.Context(), text("x"))
		if err != nil || told(res) != "task COMPLETED late" {
			t.Errorf("blocking: %v, %v", res, err)
		}
		words, err := all(c.SendStreamingMessage(t.Context(), text("x")))
		if equal(t, words, "task SUBMITTED", "WORKING", "+late", "COMPLETED"); err != nil {
			t.Error(err)
		}
	})
}

// TestFallbacks has agents that do less than they should, in fake time.
func TestFallbacks(t *testing.T) {
	const working, input, completed = a2a.TaskStateWorking, a2a.TaskStateInputRequired, a2a.TaskStateCompleted
	broken := a2a.Errorf(a2a.ErrUnavailable, "broken")
	// answers is GetTask with one answer after the other, a nil for one that is lost.
	answers := func(tasks ...*a2a.Task) func() (*a2a.Task, error) {
		return func() (*a2a.Task, error) {
			next := tasks[0]
			if tasks = tasks[1:]; next == nil {
				return nil, broken
			}
			return next, nil
		}
	}
	inTurn := func(streams ...iter.Seq2[a2a.Entry, error]) func() iter.Seq2[a2a.Entry, error] {
		return func() iter.Seq2[a2a.Entry, error] {
			next := streams[0]
			streams = streams[1:]
			return next
		}
	}
	now := func(res a2a.SendMessageResult, err error) func() (a2a.SendMessageResult, error) {
		return func() (a2a.SendMessageResult, error) { return res, err }
	}
	send := func(c *client.Client) iter.Seq2[a2a.Entry, error] { return c.Send(context.Background(), to("t1", "y")) }
	follow := func(c *client.Client) iter.Seq2[a2a.Entry, error] { return c.Follow(context.Background(), "t1") }
	wait := func(c *client.Client) iter.Seq2[a2a.Entry, error] {
		task, err := c.Wait(context.Background(), "t1")
		if err != nil {
			return says(err)
		}
		return says(nil, task)
	}
	for name, c := range map[string]struct {
		svc    *scripted
		stream bool
		call   func(*client.Client) iter.Seq2[a2a.Entry, error]
		want   []string
		err    error
	}{
		"an agent that streams but takes no subscription": {
			&scripted{
				subscribe: func() iter.Seq2[a2a.Entry, error] { return says(a2a.ErrMethodNotFound) },
				get:       answers(task(working), task(working), nil, task(completed)),
			}, true, follow, []string{"task WORKING", "task COMPLETED"}, nil,
		},
		"the task is lost from sight at its end": {
			&scripted{
				subscribe: func() iter.Seq2[a2a.Entry, error] { return says(nil, task(working), status(completed)) },
				get:       answers(nil, nil, task(completed)),
			}, true, wait, []string{"task COMPLETED"}, nil,
		},
		"an agent that was not there to begin with": {
			&scripted{subscribe: func() iter.Seq2[a2a.Entry, error] { return says(broken) }}, true, wait, nil, a2a.ErrUnavailable,
		},
		"lost at a question, then closed without a word": {
			&scripted{subscribe: inTurn(
				says(broken, task(working), status(input)), says(nil), says(nil, task(working), status(completed)),
			)}, true, follow, []string{"task WORKING", "INPUT_REQUIRED", "task WORKING", "COMPLETED"}, nil,
		},
		"a direct answer": {
			&scripted{now: now(&a2a.Message{Parts: []*a2a.Part{a2a.TextPart("hi")}}, nil)}, false, send, []string{"message hi"}, nil,
		},
		"a refusal":  {&scripted{now: now(nil, a2a.ErrTaskNotFound)}, false, send, nil, a2a.ErrTaskNotFound},
		"a lost one": {&scripted{now: now(nil, broken)}, false, send, nil, a2a.ErrUnavailable},
		"an answer that the task has not seen yet": {
			&scripted{now: now(task(input), nil), get: answers(task(working), task(completed))},
			false, send,
			[]string{"task INPUT_REQUIRED", "task WORKING", "task COMPLETED"},
			nil,
		},
		"an answer that leads to the next question": {
			&scripted{now: now(task(input), nil), get: answers(task(input))}, false, send, []string{"task INPUT_REQUIRED"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				words, err := all(c.call(hurried(c.svc, c.stream)))
				if equal(t, words, c.want...); !errors.Is(err, c.err) {
					t.Errorf("the last yield is %v, want %v", err, c.err)
				}
			})
		})
	}
}

// TestLog: retries and fallbacks are heard of, at Debug; the first of several at Warn.
func TestLog(t *testing.T) {
	var log strings.Builder
	h := newScripted(t, &scripted{
		send:      func() iter.Seq2[a2a.Entry, error] { return says(nil, task(a2a.TaskStateWorking)) },
		subscribe: func() iter.Seq2[a2a.Entry, error] { return says(a2a.ErrUnsupportedOperation) },
		get:       func() (*a2a.Task, error) { return task(a2a.TaskStateCompleted), nil },
	})
	c := h.dial(t, client.Options{
		Transports: []string{"smoke signals"}, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if _, err := all(c.Send(t.Context(), text("x"))); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"no preferred transport", "trying again", "there is no stream"} {
		if !strings.Contains(log.String(), "level=WARN msg=\"the agent was lost, trying again\"") || !strings.Contains(log.String(), "level=DEBUG msg=\"") || !strings.Contains(log.String(), words) {
			t.Errorf("the log does not say %q: %s", words, log.String())
		}
	}
}
