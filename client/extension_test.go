package client_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/extension"
)

// extended makes a card offer the extensions.
func extended(c *a2a.AgentCard) { c.Capabilities.Extensions = extension.Declare() }

// TestActivation: the extensions that the card offers are declared and in effect, unless that is not wanted.
func TestActivation(t *testing.T) {
	const other = "https://x.example/other"
	for name, c := range map[string]struct {
		opts client.Options
		want []string
	}{
		"by itself":       {client.Options{Extensions: []string{other}}, []string{extension.TaskLog, extension.SafeRetry}},
		"switched off":    {client.Options{OnlyExtensions: true}, nil},
		"one of them":     {client.Options{OnlyExtensions: true, Extensions: []string{extension.TaskLog}}, []string{extension.TaskLog}},
		"named in excess": {client.Options{Extensions: []string{extension.SafeRetry}}, []string{extension.TaskLog, extension.SafeRetry}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				h := newHost(t, echo, extended)
				c.opts.Transports = []string{binding}
				cl := h.dial(t, c.opts)
				logged := slices.Contains(c.want, extension.TaskLog)
				var info a2a.CallInfo
				ctx := a2a.WithCallInfo(t.Context(), &info)
				res, err := cl.SendMessage(ctx, text("x"))
				if err != nil || !slices.Equal(info.Activated, c.want) {
					t.Fatalf("in effect are %q, %v", info.Activated, err)
				}
				if n := extension.Generation(res.(*a2a.Task)); logged && n != 4 || !logged && n != 0 {
					t.Errorf("SendMessage: generation %d", n)
				}
				info.Activated = nil
				next := int64(1)
				again := text("x")
				again.Message.MessageID = "m2"
				for e, err := range cl.Send(ctx, again) {
					if err != nil {
						t.Fatal(err)
					}
					if n := extension.Generation(e.Event); logged && (n != next || e.Generation != next) || !logged && n != 0 {
						t.Errorf("%s has the generations %d and %d, want %d", told(e.Event), e.Generation, n, next)
					}
					next++
				}
				if !slices.Equal(info.Activated, c.want) || next != 5 {
					t.Errorf("in effect are %q after %d entries", info.Activated, next-1)
				}
				for _, got := range h.received() {
					if len(slices.Compact(slices.Sorted(slices.Values(got.Extensions)))) != len(got.Extensions) {
						t.Errorf("declared %q", got.Extensions)
					}
				}
			})
		})
	}
	t.Run("not offered", func(t *testing.T) {
		h := newHost(t, echo)
		if _, err := h.dial(t, client.Options{}).SendMessage(t.Context(), text("x")); err != nil {
			t.Fatal(err)
		}
		if got := h.received()[0].Extensions; len(got) > 0 {
			t.Errorf("declared %q", got)
		}
	})
}

// TestGenerationCounts: of two numbers of an entry that of its metadata counts, and only under task-log.
func TestGenerationCounts(t *testing.T) {
	for _, active := range []bool{true, false} {
		onEach(t, func(t *testing.T, binding string) {
			svc := &logged{scripted: scripted{send: func() iter.Seq2[a2a.Entry, error] {
				return func(yield func(a2a.Entry, error) bool) {
					yield(a2a.NewEntry(3, extension.WithGeneration(task(a2a.TaskStateCompleted), 7)), nil)
				}
			}}, off: !active}
			for e, err := range svc.dial(t, binding).SendStreamingMessage(t.Context(), text("x")) {
				want := int64(3)
				switch {
				case active:
					want = 7
				case binding == a2a.BindingGRPC:
					want = 0
				}
				if err != nil || e.Generation != want {
					t.Errorf("in effect %v: generation %d, %v", active, e.Generation, err)
				}
			}
		})
	}
}

// logged is a scripted agent under task-log, and says where it was asked to go on.
type logged struct {
	scripted
	off  bool // the card offers it, and it is not in effect
	from []string
}

func (l *logged) dial(t *testing.T, binding string) *client.Client {
	card := newCard()
	extended(card)
	h := serve(l, card)
	t.Cleanup(h.close)
	return h.dial(t, client.Options{Transports: []string{binding}})
}

func (l *logged) activate(ctx context.Context) {
	if info := a2a.CallInfoFrom(ctx); !l.off {
		info.Activated = []string{extension.TaskLog}
	}
}

func (l *logged) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	l.activate(ctx)
	return l.scripted.SendStreamingMessage(ctx, r)
}

func (l *logged) SubscribeToTask(ctx context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	l.activate(ctx)
	l.from = append(l.from, a2a.CallInfoFrom(ctx).Header.Get(extension.LastEventID))
	return l.scripted.SubscribeToTask(ctx, r)
}

func (l *logged) GetTask(ctx context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	l.activate(ctx)
	l.from = append(l.from, a2a.CallInfoFrom(ctx).Header.Get(extension.CurrentGeneration))
	return l.scripted.GetTask(ctx, r)
}

// numbered puts generations on events, first and the ones after it.
func numbered(first int64, events ...a2a.Event) []a2a.Event {
	for i := range events {
		events[i] = extension.WithGeneration(events[i], first+int64(i))
	}
	return events
}

// TestResumeScript has what an agent may answer to a client that wants to go on where it was.
func TestResumeScript(t *testing.T) {
	const working, completed = a2a.TaskStateWorking, a2a.TaskStateCompleted
	broken := a2a.Errorf(a2a.ErrUnavailable, "broken")
	type streams = []iter.Seq2[a2a.Entry, error]
	begin := says(broken, numbered(4, task(working), chunk("a"))...)
	for name, c := range map[string]struct {
		subscribe streams
		get       *a2a.Task
		off       bool
		want      []string
		from      []string
		err       error
	}{
		"where it was": {
			subscribe: streams{says(broken, numbered(5, task(working), chunk("b"))...), says(nil, numbered(6, task(working), chunk("c"), status(completed))...)},
			want:      []string{"task WORKING", "+a", "+b", "+c", "COMPLETED"}, from: []string{"5", "6"},
		},
		"the log was trimmed": {
			subscribe: streams{says(nil, numbered(9, task(completed))...)},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5"},
		},
		"trimmed on the way": {
			subscribe: streams{says(nil, numbered(5, task(working))[0], numbered(9, task(completed))[0])},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5"},
		},
		"a gap": {
			subscribe: streams{says(nil, numbered(5, task(working))[0], numbered(7, chunk("c"))[0]), says(nil, numbered(8, task(completed))...)},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5", ""},
		},
		"an entry again": {
			subscribe: streams{says(nil, numbered(5, task(working))[0], numbered(5, chunk("a"))[0]), says(nil, numbered(8, task(completed))...)},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5", ""},
		},
		"an earlier task": {
			subscribe: streams{says(nil, numbered(4, task(working))...), says(nil, numbered(8, task(completed))...)},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5", ""},
		},
		"no task": {
			subscribe: streams{says(nil, numbered(6, chunk("b"))...), says(nil, numbered(8, task(completed))...)},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5", ""},
		},
		"wrong again and again": {
			subscribe: streams{says(nil, numbered(6, chunk("b"))...), says(nil, numbered(6, chunk("b"))...)},
			want:      []string{"task WORKING", "+a"}, from: []string{"5", ""}, err: a2a.ErrInvalidAgentResponse,
		},
		"a place that the agent does not know": {
			subscribe: streams{says(a2a.InvalidField("Last-Event-ID", "the task is at 3")), says(nil, numbered(3, task(completed))...)},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5", ""},
		},
		"without numbers after that": {
			subscribe: streams{
				says(nil, numbered(4, task(working))...), says(broken, numbered(8, task(working), chunk("c"))...),
				says(nil, numbered(9, task(completed))...),
			},
			want: []string{"task WORKING", "+a", "task WORKING", "+c", "task COMPLETED"}, from: []string{"5", "", ""},
		},
		"refused": {
			subscribe: streams{says(a2a.ErrUnsupportedOperation)}, get: numbered(7, task(completed))[0].(*a2a.Task),
			want: []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{"5", "5"},
		},
		"an agent that only asks for more": {
			subscribe: streams{says(broken, numbered(5, task(working))...), says(nil, numbered(5, task(working), status(completed))...)},
			want:      []string{"task WORKING", "+a", "COMPLETED"}, from: []string{"5", "5"},
		},
		"not in effect": {
			off:       true,
			subscribe: streams{says(nil, numbered(5, task(completed))...)},
			want:      []string{"task WORKING", "+a", "task COMPLETED"}, from: []string{""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				left := c.subscribe
				svc := &logged{off: c.off, scripted: scripted{
					send: func() iter.Seq2[a2a.Entry, error] { return begin },
					subscribe: func() iter.Seq2[a2a.Entry, error] {
						if len(left) == 0 {
							return says(a2a.Errorf(a2a.ErrInternal, "one subscription too many"))
						}
						next := left[0]
						left = left[1:]
						return next
					},
					get: func() (*a2a.Task, error) { return c.get, nil },
				}}
				words, err := all(svc.dial(t, binding).Send(t.Context(), text("x")))
				equal(t, words, c.want...)
				equal(t, svc.from, c.from...)
				if !errors.Is(err, c.err) || len(left) > 0 {
					t.Errorf("the last yield is %v, want %v; %d subscriptions were not made", err, c.err, len(left))
				}
			})
		})
	}
}

// TestResume has streams that are cut in the middle, while the agent goes on or finishes, on a real server: every
// entry comes once (case 8).
func TestResume(t *testing.T) {
	want := []string{"task SUBMITTED", "WORKING", "+0", "+1", "+2", "+3", "+4", "COMPLETED"}
	for name, missed := range map[string]int{"some missed": 2, "the end missed": 3} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				s := newStepper(5)
				h := newHost(t, s, extended)
				var words []string
				for e, err := range h.dial(t, client.Options{Transports: []string{binding}}).Send(t.Context(), text("x")) {
					if err != nil {
						t.Fatalf("after %q: %v", words, err)
					}
					words = append(words, told(e.Event))
					if e.Generation != int64(len(words)) {
						t.Errorf("%s has the generation %d", told(e.Event), e.Generation)
					}
					switch told(e.Event) {
					case "WORKING", "+0":
						go s.steps(1)
					case "+1":
						h.lose(t, h.proxyOf(binding), s, missed, func(now *a2a.Task) bool {
							return missed < 3 && now.Artifacts[0].Text() == "0123" || now.Status.State.Terminal()
						})
						go s.steps(3 - missed)
					}
				}
				equal(t, words, want...)
			})
		})
	}
}

// TestLongPoll: without streams the answer to GetTask waits for the change.
func TestLongPoll(t *testing.T) {
	t.Run("a server", func(t *testing.T) {
		onEach(t, func(t *testing.T, binding string) {
			ready := make(chan struct{})
			h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, _ *agent.Updater) error {
				select {
				case <-ready:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}), extended, func(c *a2a.AgentCard) { c.Capabilities.Streaming = ptr(false) })
			c := h.dial(t, client.Options{Transports: []string{binding}, Poll: time.Hour})
			got := make(chan *a2a.Task)
			id := start(t, c).ID
			go func() {
				defer close(got)
				task, err := c.Wait(t.Context(), id)
				if err != nil {
					t.Error(err)
				}
				got <- task
			}()
			ready <- struct{}{}
			if task := <-got; task == nil || task.Status.State != a2a.TaskStateCompleted {
				t.Errorf("%+v", task)
			}
			var words []string
			req := text("x")
			req.Message.MessageID = "" // one of its own
			for e, err := range c.Send(t.Context(), req) {
				if err != nil {
					t.Fatal(err)
				}
				if words = append(words, told(e.Event)); len(words) == 1 {
					go func() { ready <- struct{}{} }()
				}
			}
			equal(t, words, "task WORKING", "task COMPLETED")
		})
	})
	for name, held := range map[string]time.Duration{"an agent that waits": 30 * time.Second, "one that does not": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []time.Duration
				began := time.Now()
				generations := []int64{3, 3, 3, 4, 4, 5}
				svc := &logged{}
				svc.get = func() (*a2a.Task, error) {
					asked = append(asked, time.Since(began))
					n := generations[len(asked)-1]
					if len(asked) > 1 && n == generations[len(asked)-2] {
						time.Sleep(held) //nolint:forbidigo // fake time
					}
					state := a2a.TaskStateWorking
					if n == 5 {
						state = a2a.TaskStateCompleted
					}
					return numbered(n, task(state))[0].(*a2a.Task), nil
				}
				words, err := all(hurried(svc, false, extended).Follow(t.Context(), "t1"))
				equal(t, words, "task WORKING", "task WORKING", "task COMPLETED")
				equal(t, svc.from, "", "3", "3", "3", "4", "4")
				const s, ms = time.Second, time.Millisecond
				want := []time.Duration{0, 0, 30 * s, 60 * s, 62 * s, 92 * s}
				if held == 0 {
					want = []time.Duration{0, 0, 3 * s, 7500 * ms, 9500 * ms, 12500 * ms}
				}
				if err != nil || !slices.Equal(asked, want) {
					t.Errorf("%v, asked after %v, want %v", err, asked, want)
				}
			})
		})
	}
}

// TestIfGeneration sends an answer only to the question that the caller has seen (threat A10).
func TestIfGeneration(t *testing.T) {
	parks := agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		return u.Park(a2a.TextPart("what?"))
	})
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, parks, extended)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		res, err := c.SendMessage(client.IfGeneration(t.Context(), 99), text("x"))
		if err != nil {
			t.Fatalf("a message that begins a task: %v", err)
		}
		id, seen := res.(*a2a.Task).ID, extension.Generation(res.(*a2a.Task))
		answer := func(n int64, words string) error {
			req := to(id, words)
			req.Message.MessageID = words
			_, err := all(c.Send(client.IfGeneration(t.Context(), n), req))
			return err
		}
		if err := answer(seen, "first"); err != nil {
			t.Error(err)
		}
		err = answer(seen, "second")
		if e := a2a.AsError(err); e.Code != a2a.ErrTaskGenerationMismatch || e.Metadata["currentGeneration"] == "" {
			t.Errorf("%v", err)
		}
		task, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
		if err != nil || len(task.History) != 3 {
			t.Errorf("%+v, %v", task, err)
		}
		before := len(h.received())
		plain := h.dial(t, client.Options{Transports: []string{binding}, OnlyExtensions: true})
		_, err = plain.SendMessage(client.IfGeneration(t.Context(), seen), to(id, "third"))
		if !errors.Is(err, a2a.ErrUnsupportedOperation) || len(h.received()) != before {
			t.Errorf("without task-log: %v", err)
		}
	})
}
