package client_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/extension"
)

// digested makes a card offer chunk-integrity besides the others.
func digested(c *a2a.AgentCard) {
	c.Capabilities.Extensions = append(extension.Declare(), extension.Declaration(extension.ChunkIntegrity))
}

// writer is an agent that writes one artifact in chunks, and another one whole.
var writer = agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
	w := u.BeginArtifact(a2a.Artifact{Name: "out", Metadata: a2a.Struct{}.With("n", 1e20).With("é", []any{1.50, "\u2028"})})
	for _, c := range []string{"one", "two", "three"} {
		if err := w.WriteText(c + " \"<é\u2028\x7f\x01\t>\n"); err != nil {
			return err
		}
	}
	data := &a2a.Part{Content: a2a.Data(`{"z": 12345678901234567890, "a": [1.0, -0, 1e3, null, {}]}`), MediaType: "application/json"}
	file := &a2a.Part{Content: a2a.Raw("\x00\xff"), Filename: "f", Metadata: a2a.Struct{}}
	if err := w.Write(data, file); err != nil {
		return err
	}
	if err := w.Last(a2a.TextPart("four")); err != nil {
		return err
	}
	return u.Artifact(a2a.Artifact{ArtifactID: "whole", Parts: []*a2a.Part{a2a.TextPart("whole")}})
})

// meddler is an A2A proxy in front of an agent that changes what it passes on.
type meddler struct {
	a2a.Service
	stream func(iter.Seq2[a2a.Entry, error]) iter.Seq2[a2a.Entry, error] // of every stream; nil: as it is
	task   func(*a2a.Task)                                               // changes its own copy; nil: as it is
}

func (m *meddler) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return m.streamed(m.Service.SendStreamingMessage(ctx, r))
}

func (m *meddler) SubscribeToTask(ctx context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return m.streamed(m.Service.SubscribeToTask(ctx, r))
}

func (m *meddler) streamed(in iter.Seq2[a2a.Entry, error]) iter.Seq2[a2a.Entry, error] {
	if m.stream == nil {
		return in
	}
	return m.stream(in)
}

func (m *meddler) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	res, err := m.Service.SendMessage(ctx, r)
	if err != nil || m.task == nil {
		return res, err
	}
	return m.changed(res.(*a2a.Task)), nil
}

func (m *meddler) GetTask(ctx context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	task, err := m.Service.GetTask(ctx, r)
	if err != nil || m.task == nil {
		return task, err
	}
	return m.changed(task), nil
}

func (m *meddler) changed(task *a2a.Task) *a2a.Task {
	out := task.Snapshot()
	m.task(out)
	return out
}

// chunks passes on what each returns for an artifact update, of which n counts from 1.
func chunks(each func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event) func(iter.Seq2[a2a.Entry, error]) iter.Seq2[a2a.Entry, error] {
	return func(in iter.Seq2[a2a.Entry, error]) iter.Seq2[a2a.Entry, error] {
		return func(yield func(a2a.Entry, error) bool) {
			n := 0
			for e, err := range in {
				ev, ok := e.Event.(*a2a.TaskArtifactUpdateEvent)
				if !ok {
					if !yield(e, err) {
						return
					}
					continue
				}
				n++
				for _, ev := range each(n, ev) {
					if !yield(a2a.NewEntry(e.Generation, ev), nil) {
						return
					}
				}
			}
		}
	}
}

// meddled returns a client of writer behind a proxy, with both ways of one binding, and what the client logs.
func meddled(t *testing.T, binding string, m *meddler, opts client.Options) (*client.Client, *bytes.Buffer) {
	return meddledWith(t, writer, binding, m, opts)
}

// meddledWith is meddled for any agent.
func meddledWith(t *testing.T, a agent.Agent, binding string, m *meddler, opts client.Options) (*client.Client, *bytes.Buffer) {
	h := newHost(t, a, digested)
	m.Service = h.dial(t, client.Options{Transports: []string{binding}, OnlyExtensions: true})
	card := newCard()
	digested(card)
	p := serve(m, card)
	t.Cleanup(p.close)
	var log bytes.Buffer
	opts.Transports = []string{binding}
	opts.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return p.dial(t, opts), &log
}

// folded is the task that a stream says, and its last error.
func folded(entries iter.Seq2[a2a.Entry, error]) (*a2a.Task, error) {
	task := new(a2a.Task)
	for e, err := range entries {
		if err != nil {
			return task, err
		}
		task.Apply(e.Event)
	}
	return task, nil
}

// whole reports whether a task has all that writer wrote.
func whole(task *a2a.Task) bool {
	if len(task.Artifacts) != 2 || task.Status.State != a2a.TaskStateCompleted {
		return false
	}
	want := "one \"<é\u2028\x7f\x01\t>\ntwo \"<é\u2028\x7f\x01\t>\nthree \"<é\u2028\x7f\x01\t>\nfour"
	a, b := task.Artifacts[0], task.Artifacts[1]
	return a.Name == "out" && a.Text() == want && len(a.Parts) == 6 && b.Text() == "whole"
}

// some are the extensions under which streams are read: chunk-integrity with task-log, and alone.
var some = map[string]client.Options{
	"by itself": {},
	"alone":     {OnlyExtensions: true, Extensions: []string{extension.ChunkIntegrity}},
}

// TestIntact: what nobody touched is whole, whatever is in it.
func TestIntact(t *testing.T) {
	for name, opts := range some {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				c, log := meddled(t, binding, new(meddler), opts)
				var info a2a.CallInfo
				task, err := folded(c.Send(a2a.WithCallInfo(t.Context(), &info), text("x")))
				if err != nil || !whole(task) || log.Len() > 0 {
					t.Fatalf("%v, %v, %s", task.Artifacts, err, log)
				}
				if !slices.Contains(info.Activated, extension.ChunkIntegrity) {
					t.Errorf("in effect are %q", info.Activated)
				}
				if got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); err != nil || !whole(got) {
					t.Errorf("GetTask: %v, %v", got, err)
				}
				again := text("x")
				again.Message.MessageID = "m2"
				if got, err := c.SendMessage(t.Context(), again); err != nil || !whole(got.(*a2a.Task)) {
					t.Errorf("SendMessage: %v, %v", got, err)
				}
			})
		})
	}
}

// TestMeddledStream is threat A9: a proxy loses or changes a chunk. The stream is an error where that shows; Send reports
// it, and whoever folds what it yields has the whole artifact in the end.
func TestMeddledStream(t *testing.T) {
	var held a2a.Event
	for name, each := range map[string]func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event{
		"a chunk is dropped": func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			if n == 2 {
				return nil
			}
			return []a2a.Event{ev}
		},
		"the first is dropped": func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			if n == 1 {
				return nil
			}
			return []a2a.Event{ev}
		},
		"the last artifact is dropped": func(_ int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			if ev.Artifact.ArtifactID == "whole" {
				return nil
			}
			return []a2a.Event{ev}
		},
		"a chunk is changed": func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			if n == 2 {
				c, a := *ev, *ev.Artifact
				a.Parts = []*a2a.Part{a2a.TextPart("2")}
				c.Artifact = &a
				ev = &c
			}
			return []a2a.Event{ev}
		},
		"a chunk replaces": func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			c := *ev
			c.Append = c.Append && n != 3
			return []a2a.Event{&c}
		},
		"a chunk comes twice": func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			if n == 2 {
				return []a2a.Event{ev, ev}
			}
			return []a2a.Event{ev}
		},
		"two are swapped": func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			switch n {
			case 2:
				held = ev
				return nil
			case 3:
				return []a2a.Event{ev, held}
			}
			return []a2a.Event{ev}
		},
		"the digest is gone": func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			c := *ev
			if n == 2 {
				c.Metadata = nil
			}
			return []a2a.Event{&c}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for with, opts := range some {
				t.Run(with, func(t *testing.T) {
					onEach(t, func(t *testing.T, binding string) {
						c, log := meddled(t, binding, &meddler{stream: chunks(each)}, opts)
						task, err := folded(c.SendStreamingMessage(t.Context(), text("x")))
						if !errors.Is(err, extension.ErrDamaged) || !errors.Is(err, a2a.ErrInvalidAgentResponse) || task.Status.State.Terminal() {
							t.Errorf("the stream ended with %v, state %v", err, task.Status.State)
						}
						again := text("x")
						again.Message.MessageID = "m2"
						task, err = folded(c.Send(t.Context(), again))
						if err != nil || !whole(task) || !bytes.Contains(log.Bytes(), []byte("damaged")) {
							t.Errorf("%v, %v, log %s", task.Artifacts, err, log)
						}
						if _, ok := task.Metadata[extension.DigestsKey]; !ok {
							t.Error("the last word was not a Task")
						}
					})
				})
			}
		})
	}
}

// TestMeddledTask: where GetTask is damaged too, it is an error, and nothing is handed out.
func TestMeddledTask(t *testing.T) {
	for name, change := range map[string]func(*a2a.Task){
		"a part is gone":      func(task *a2a.Task) { task.Artifacts[0].Parts = task.Artifacts[0].Parts[1:] },
		"a name is another":   func(task *a2a.Task) { task.Artifacts[0].Name = "other" },
		"an artifact is gone": func(task *a2a.Task) { task.Artifacts = task.Artifacts[:1] },
		"one is added": func(task *a2a.Task) {
			task.Artifacts = append(task.Artifacts, &a2a.Artifact{ArtifactID: "x", Parts: []*a2a.Part{a2a.TextPart("x")}})
		},
		"the digests are gone": func(task *a2a.Task) { task.Metadata = nil },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, binding string) {
				m := &meddler{task: change, stream: chunks(func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
					if n == 2 {
						return nil
					}
					return []a2a.Event{ev}
				})}
				c, _ := meddled(t, binding, m, client.Options{})
				if res, err := c.SendMessage(t.Context(), text("x")); !errors.Is(err, extension.ErrDamaged) {
					t.Errorf("SendMessage: %v, %v", res, err)
				}
				again := text("x")
				again.Message.MessageID = "m2"
				if task, err := folded(c.Send(t.Context(), again)); !errors.Is(err, extension.ErrDamaged) || task.Status.State.Terminal() {
					t.Errorf("Send: %v, %v", task, err)
				}
			})
		})
	}
}

// TestMendedAnswer: an answer that was damaged once is read anew.
func TestMendedAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		m := new(meddler)
		n := 0
		m.task = func(task *a2a.Task) {
			if n++; n == 1 {
				task.Artifacts = task.Artifacts[:1]
			}
		}
		c, log := meddled(t, binding, m, client.Options{})
		res, err := c.SendMessage(t.Context(), text("x"))
		if err != nil || !whole(res.(*a2a.Task)) || !bytes.Contains(log.Bytes(), []byte("damaged")) {
			t.Errorf("%v, %v, log %s", res, err, log)
		}
	})
}

// TestResumeUnderDigests: a stream that is taken up in the middle is checked from where it goes on.
func TestResumeUnderDigests(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		a := newStepper(5)
		h := newHost(t, a, digested)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		task, n := new(a2a.Task), 0
		go a.steps(2)
		for e, err := range c.Send(t.Context(), text("x")) {
			if err != nil {
				t.Fatal(err)
			}
			task.Apply(e.Event)
			if _, ok := e.Event.(*a2a.TaskArtifactUpdateEvent); ok {
				if n++; n == 2 {
					h.proxyOf(binding).cut()
					go a.steps(3)
				}
			}
		}
		if n != 5 || task.Artifacts[0].Text() != "01234" {
			t.Errorf("%d chunks, %v", n, task.Artifacts[0].Text())
		}
	})
}

// TestMendedAtWork: a task that is still at work when its stream was damaged is read to its end.
func TestMendedAtWork(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		a := newStepper(5)
		m := &meddler{stream: chunks(func(n int, ev *a2a.TaskArtifactUpdateEvent) []a2a.Event {
			if n == 2 {
				return nil
			}
			return []a2a.Event{ev}
		})}
		c, _ := meddledWith(t, a, binding, m, client.Options{Poll: 10 * time.Millisecond})
		go a.steps(3)
		task, tasks := new(a2a.Task), 0
		for e, err := range c.Send(t.Context(), text("x")) {
			if err != nil {
				t.Fatal(err)
			}
			task.Apply(e.Event)
			if _, ok := e.Event.(*a2a.Task); ok {
				if tasks++; tasks == 2 {
					go a.steps(2)
				}
			}
		}
		if tasks < 2 || task.Status.State != a2a.TaskStateCompleted || task.Artifacts[0].Text() != "01234" {
			t.Errorf("%d tasks, %v, %q", tasks, task.Status.State, task.Artifacts[0].Text())
		}
	})
}
