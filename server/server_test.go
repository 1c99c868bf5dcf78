package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

// host is a server under test, with what a test says most.
type host struct {
	*server.Server
	t     *testing.T
	store taskstore.Store
	log   *strings.Builder
}

func newHost(t *testing.T, a agent.Agent, change ...func(*server.Config)) *host {
	t.Helper()
	yes := true
	card := &a2a.AgentCard{
		Name: "test", DefaultInputModes: []string{"text/plain", "application/json"},
		Capabilities: a2a.AgentCapabilities{Streaming: &yes},
	}
	h := &host{t: t, log: &strings.Builder{}}
	cfg := server.Config{
		Agent: a, Name: "test", Store: taskstore.NewMemory(taskstore.MemoryOptions{}),
		Card: func() *a2a.AgentCard { return card },
		Log:  slog.New(slog.NewTextHandler(&locked{b: h.log}, nil)),
	}
	for _, f := range change {
		f(&cfg)
	}
	h.store = cfg.Store
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Server = s
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Shutdown(ctx)
	})
	return h
}

type locked struct {
	mu sync.Mutex
	b  *strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// pass lets time go by, the fake time of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func as(ctx context.Context, who string) context.Context {
	return a2a.WithCallInfo(ctx, &a2a.CallInfo{Version: a2a.Version, Caller: a2a.Caller{Issuer: "test", Subject: who}})
}

func text(s string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(s)}}}
}

func to(task, s string) *a2a.SendMessageRequest {
	r := text(s)
	r.Message.TaskID = task
	return r
}

func immediately(r *a2a.SendMessageRequest) *a2a.SendMessageRequest {
	r.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	return r
}

func (h *host) send(ctx context.Context, r *a2a.SendMessageRequest) *a2a.Task {
	h.t.Helper()
	res, err := h.SendMessage(ctx, r)
	if err != nil {
		h.t.Fatalf("SendMessage: %v", err)
	}
	task, ok := res.(*a2a.Task)
	if !ok {
		h.t.Fatalf("SendMessage: %T", res)
	}
	return task
}

func (h *host) get(id string) *a2a.Task {
	h.t.Helper()
	task, err := h.GetTask(h.t.Context(), &a2a.GetTaskRequest{ID: id})
	if err != nil {
		h.t.Fatalf("GetTask: %v", err)
	}
	return task
}

func want(t *testing.T, err error, code a2a.ErrorCode, words ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code.Name())
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the message %q does not say %q", err, w)
		}
	}
}

func state(t *testing.T, task *a2a.Task, want a2a.TaskState) {
	t.Helper()
	if task.Status.State != want {
		t.Fatalf("state %v, want %v (message %v)", task.Status.State, want, said(task))
	}
}

func said(task *a2a.Task) string {
	if task.Status.Message == nil {
		return ""
	}
	return task.Status.Message.Text()
}

// told turns an entry into a word: what a reader of a stream was told.
func told(e a2a.Entry) string {
	switch ev := e.Event.(type) {
	case *a2a.Task:
		return "task " + strings.TrimPrefix(ev.Status.State.String(), "TASK_STATE_")
	case *a2a.Message:
		return "message " + ev.Text()
	case *a2a.TaskStatusUpdateEvent:
		s := strings.TrimPrefix(ev.Status.State.String(), "TASK_STATE_")
		if ev.Status.Message != nil {
			s += " " + ev.Status.Message.Text()
		}
		return s
	case *a2a.TaskArtifactUpdateEvent:
		return fmt.Sprintf("artifact %s append=%v last=%v", ev.Artifact.Text(), ev.Append, ev.LastChunk)
	}
	return "?"
}

func (h *host) stream(ctx context.Context, r *a2a.SendMessageRequest) (out []string) {
	h.t.Helper()
	for e, err := range h.SendStreamingMessage(ctx, r) {
		if err != nil {
			return append(out, "error "+err.Error())
		}
		out = append(out, told(e))
	}
	return out
}

func (h *host) subscribe(ctx context.Context, id string) (out []string) {
	for e, err := range h.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id}) {
		if err != nil {
			return append(out, "error "+err.Error())
		}
		out = append(out, told(e))
	}
	return out
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

var echo = agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
	return u.Artifact(a2a.Artifact{Name: "echo", Parts: r.Message.Parts})
})

func TestBlockingSend(t *testing.T) {
	h := newHost(t, echo)
	task := h.send(t.Context(), text("hello"))
	state(t, task, a2a.TaskStateCompleted)
	if len(task.Artifacts) != 1 || task.Artifacts[0].Text() != "hello" {
		t.Errorf("artifacts %+v", task.Artifacts)
	}
	if m := task.History[0]; len(task.History) != 1 || m.TaskID != task.ID || m.ContextID != task.ContextID || m.MessageID != "m1" {
		t.Errorf("history %+v", task.History[0])
	}
}

func TestStream(t *testing.T) {
	h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		w := u.Begin("poem")
		return errors.Join(u.Progress(a2a.TextPart("thinking")), w.WriteText("a"), w.WriteText("b"), w.Last(a2a.TextPart("c")), u.Complete(a2a.TextPart("done")))
	}))
	equal(t, h.stream(t.Context(), text("x")), []string{
		"task SUBMITTED", "WORKING", "WORKING thinking", "artifact a append=false last=false",
		"artifact b append=true last=false", "artifact c append=true last=true", "COMPLETED done",
	})
}

func TestDirectMessage(t *testing.T) {
	h := newHost(t, accepting{func(r *agent.Request) (*a2a.Message, error) {
		switch r.Text() {
		case "refuse":
			return nil, a2a.Errorf(a2a.ErrContentTypeNotSupported, "not that")
		case "panic":
			panic("secret")
		case "task":
			return nil, nil
		}
		return &a2a.Message{Parts: []*a2a.Part{a2a.TextPart("hi")}}, nil
	}})
	res, err := h.SendMessage(t.Context(), text("x"))
	m, ok := res.(*a2a.Message)
	if err != nil || !ok || m.Role != a2a.RoleAgent || m.MessageID == "" || m.ContextID == "" || m.Text() != "hi" {
		t.Fatalf("%+v, %v", res, err)
	}
	equal(t, h.stream(t.Context(), text("x")), []string{"message hi"})
	_, err = h.SendMessage(t.Context(), text("refuse"))
	want(t, err, a2a.ErrContentTypeNotSupported, "not that")
	_, err = h.SendMessage(t.Context(), text("panic"))
	want(t, err, a2a.ErrInternal)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the caller reads %q", err)
	}
	list, err := h.ListTasks(t.Context(), &a2a.ListTasksRequest{})
	if err != nil || list.TotalSize != 0 {
		t.Errorf("%d tasks were made, %v", list.TotalSize, err)
	}
	state(t, h.send(t.Context(), text("task")), a2a.TaskStateCompleted)
}

type accepting struct {
	accept func(*agent.Request) (*a2a.Message, error)
}

func (accepting) Handle(context.Context, *agent.Request, *agent.Updater) error { return nil }
func (a accepting) Accept(_ context.Context, r *agent.Request) (*a2a.Message, error) {
	return a.accept(r)
}

// TestHowRunsEnd has every way in which Handle returns.
func TestHowRunsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		handle agent.Func
		state  a2a.TaskState
		says   string
	}{
		"nil": {func(context.Context, *agent.Request, *agent.Updater) error { return nil }, a2a.TaskStateCompleted, ""},
		"public error": {func(context.Context, *agent.Request, *agent.Updater) error {
			return agent.Errorf("unknown SKU %d: %w", 7, errors.New("secret"))
		}, a2a.TaskStateFailed, "unknown SKU 7"},
		"other error": {func(context.Context, *agent.Request, *agent.Updater) error { return errors.New("secret") }, a2a.TaskStateFailed, "error id"},
		"panic":       {func(context.Context, *agent.Request, *agent.Updater) error { panic("secret") }, a2a.TaskStateFailed, "error id"},
		"reject": {func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
			return u.Reject(a2a.TextPart("no"))
		}, a2a.TaskStateRejected, "no"},
		"fail": {func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
			return u.Fail(a2a.TextPart("sorry"))
		}, a2a.TaskStateFailed, "sorry"},
		"complete, then an error": {func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
			_ = u.Complete()
			return errors.New("late")
		}, a2a.TaskStateCompleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, c.handle)
			task := h.send(t.Context(), text("x"))
			state(t, task, c.state)
			if !strings.Contains(said(task), c.says) || strings.Contains(said(task), "secret") {
				t.Errorf("the caller reads %q", said(task))
			}
			if _, id, ok := strings.Cut(said(task), "error id "); ok && !strings.Contains(h.log.String(), strings.TrimSuffix(id, ".")) {
				t.Errorf("the log does not have the error id %s: %s", id, h.log)
			}
		})
	}
}

// TestAuthorsErrors has what an agent's author is told (case 23).
// What no double holds would be taken over JSON and make the task, and every list with it, unreadable over gRPC.
func TestNumbersBeyondDoubles(t *testing.T) {
	h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error { return u.Complete() }))
	for field, change := range map[string]func(*a2a.SendMessageRequest, []byte){
		"message.parts[0].data":     func(r *a2a.SendMessageRequest, b []byte) { r.Message.Parts[0].Content = a2a.Data(b) },
		"message.parts[0].metadata": func(r *a2a.SendMessageRequest, b []byte) { r.Message.Parts[0].Metadata = a2a.Struct{"k": b} },
		"message.metadata":          func(r *a2a.SendMessageRequest, b []byte) { r.Message.Metadata = a2a.Struct{"k": b} },
		"metadata":                  func(r *a2a.SendMessageRequest, b []byte) { r.Metadata = a2a.Struct{"k": b} },
	} {
		for number, ok := range map[string]bool{"1e400": false, "-1e999": false, "9" + strings.Repeat("0", 400): false, "1.5e300": true, "1e-999": true, `"1e400 \\"`: true} {
			r := text("x")
			change(r, []byte(`{"a": ["1e400\"", `+number+`]}`))
			_, err := h.SendMessage(t.Context(), r)
			if bad := errors.Is(err, a2a.ErrInvalidParams) && strings.HasPrefix(err.Error(), field+": has a number"); bad == ok || ok && err != nil {
				t.Errorf("%s with %.20s: %v", field, number, err)
			}
		}
	}
}

func TestAuthorsErrors(t *testing.T) {
	h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		check := func(what string, got, want error) {
			if !errors.Is(got, want) || (want == nil) != (got == nil) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		check("append to nothing", u.Open("never").WriteText("x"), agent.ErrUnknownArtifact)
		w := u.Begin("a")
		check("first", w.WriteText("1"), nil)
		check("append", u.Open(w.ID()).WriteText("2"), nil)
		check("last", w.Last(a2a.TextPart("3")), nil)
		check("after the last", w.WriteText("4"), agent.ErrSealed)
		check("opened after the last", u.Open(w.ID()).WriteText("4"), agent.ErrSealed)
		v := u.Begin("b")
		check("one", v.WriteText("1"), nil)
		check("close", v.Close(), nil)
		check("after close", v.WriteText("2"), agent.ErrSealed)
		if u.Progress(&a2a.Part{Content: a2a.Data(`[1e400]`)}) == nil || u.Progress(&a2a.Part{Content: a2a.Text("x"), Metadata: a2a.Struct{"k": []byte("1e400")}}) == nil {
			t.Error("a number that gRPC cannot carry was recorded")
		}
		if u.Progress(&a2a.Part{}) == nil || u.Progress(&a2a.Part{Content: a2a.Data("{")}) == nil {
			t.Error("parts that cannot cross the wire were taken")
		}
		if u.Progress(&a2a.Part{Content: a2a.Data(`{"a":1,"a":2}`)}) == nil || u.Progress(&a2a.Part{Content: a2a.Text("x"), Metadata: a2a.Struct{"k": []byte("{")}}) == nil ||
			u.Artifact(a2a.Artifact{Parts: []*a2a.Part{a2a.TextPart("x")}, Metadata: a2a.Struct{"k": []byte(`{"a":1,"a":2}`)}}) == nil {
			t.Error("JSON that no reader takes was recorded")
		}
		check("complete", u.Complete(), nil)
		check("after the end", u.Progress(a2a.TextPart("x")), agent.ErrEnded)
		check("park after the end", u.Park(), agent.ErrEnded)
		return nil
	}))
	task := h.send(t.Context(), text("x"))
	state(t, task, a2a.TaskStateCompleted)
	if len(task.Artifacts) != 2 || task.Artifacts[0].Text() != "123" || task.Artifacts[1].Text() != "1" {
		t.Errorf("artifacts %q", task.Artifacts[0].Text())
	}
}

var asker = agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
	if strings.TrimSpace(r.Text()) == "" {
		return u.Park(a2a.TextPart("say something"))
	}
	return u.Artifact(a2a.Artifact{Parts: []*a2a.Part{a2a.TextPart(r.Text())}})
})

// TestPark: a question, an answer, and the order of the history (cases 7, 13, 14, 20).
func TestPark(t *testing.T) {
	h := newHost(t, asker)
	equal(t, h.stream(t.Context(), text(" ")), []string{"task SUBMITTED", "WORKING", "INPUT_REQUIRED say something"})
	task := h.send(t.Context(), text(" "))
	state(t, task, a2a.TaskStateInputRequired)
	if len(task.History) != 1 {
		t.Errorf("the current message is in the history: %v", len(task.History))
	}

	r := to(task.ID, "yes")
	r.Message.ContextID = "other"
	_, err := h.SendMessage(t.Context(), r)
	want(t, err, a2a.ErrInvalidParams, "message.contextId")
	_, err = h.SendMessage(t.Context(), to("never", "yes"))
	want(t, err, a2a.ErrTaskNotFound)

	sub := make(chan []string)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan struct{})
	go func() {
		var out []string
		for e, err := range h.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.ID}) {
			if err != nil {
				out = append(out, err.Error())
				break
			}
			if out = append(out, told(e)); len(out) == 1 {
				close(opened)
			}
		}
		sub <- out
	}()
	<-opened
	done := h.send(t.Context(), to(task.ID, "yes"))
	state(t, done, a2a.TaskStateCompleted)
	equal(t, <-sub, []string{"task INPUT_REQUIRED", "WORKING", "artifact yes append=false last=true", "COMPLETED"})
	var turns []string
	for _, m := range done.History {
		turns = append(turns, m.Text())
		if m.TaskID != task.ID || m.ContextID != task.ContextID {
			t.Errorf("message without its ids: %+v", m)
		}
	}
	equal(t, turns, []string{" ", "say something", "yes"})

	for _, try := range []func() error{
		func() error { _, err := h.SendMessage(t.Context(), to(task.ID, "more")); return err },
		func() error {
			for _, err := range h.SendStreamingMessage(t.Context(), to(task.ID, "more")) {
				return err
			}
			return nil
		},
		func() error {
			for _, err := range h.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
				return err
			}
			return nil
		},
	} {
		want(t, try(), a2a.ErrUnsupportedOperation, "ended")
	}
	if got := h.get(task.ID); len(got.History) != 3 || got.Status.Timestamp != done.Status.Timestamp {
		t.Errorf("a refused message changed the task: %+v", got)
	}
	equal(t, h.stream(t.Context(), to(h.send(t.Context(), text("")).ID, "go")), []string{
		"task WORKING", "artifact go append=false last=true", "COMPLETED",
	})
}

func TestAsk(t *testing.T) {
	h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
		m, err := u.Ask(ctx, a2a.TextPart("sure?"))
		if err != nil {
			return err
		}
		return u.Begin("answer").Last(m.Parts...)
	}))
	task := h.send(t.Context(), text("x"))
	state(t, task, a2a.TaskStateInputRequired)
	done := h.send(t.Context(), to(task.ID, "yes"))
	state(t, done, a2a.TaskStateCompleted)
	if done.Artifacts[0].Text() != "yes" || len(done.History) != 3 {
		t.Errorf("%+v", done)
	}
}

// TestAuthByAnotherWay is case 9: the credential comes by another way while the run waits.
func TestAuthByAnotherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
			wait, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			m, err := u.AskAuth(wait, a2a.TextPart("sign in"))
			if m != nil || !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("AskAuth = %v, %w", m, err)
			}
			return nil
		}))
		streamed := make(chan []string, 1)
		go func() { streamed <- h.stream(t.Context(), text("a")) }()
		task := h.send(t.Context(), text("b"))
		state(t, task, a2a.TaskStateAuthRequired)
		equal(t, <-streamed, []string{"task SUBMITTED", "WORKING", "AUTH_REQUIRED sign in", "WORKING", "COMPLETED"})
		synctest.Wait()
		state(t, h.get(task.ID), a2a.TaskStateCompleted)
	})
}

// TestCancel has the ways a running task is canceled.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			switch r.Text() {
			case "stubborn":
				pass(time.Hour)
				return u.Complete()
			case "committed":
				if err := u.Committed(); err != nil {
					return err
				}
				pass(time.Second)
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), agent.ErrCanceled) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			if err := u.Progress(a2a.TextPart("cleaning up")); err != nil {
				t.Errorf("no update during the grace: %v", err)
			}
			if err := u.Committed(); !errors.Is(err, agent.ErrCanceled) {
				t.Errorf("Committed after a cancel: %v", err)
			}
			if r.Text() == "completes" {
				if err := u.Complete(); !errors.Is(err, agent.ErrCanceled) {
					t.Errorf("Complete after a cancel: %v", err)
				}
				return nil
			}
			return errors.New("whatever")
		}))
		for _, what := range []string{"polite", "completes", "stubborn"} {
			task := h.send(t.Context(), immediately(text(what)))
			begin := time.Now()
			var wg sync.WaitGroup
			for range 10 { // case 12
				wg.Go(func() {
					got, err := h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
					if err != nil {
						t.Errorf("%s: %v", what, err)
						return
					}
					state(t, got, a2a.TaskStateCanceled)
				})
			}
			wg.Wait()
			if d := time.Since(begin); (what == "stubborn") != (d == 5*time.Second) {
				t.Errorf("%s: canceled after %v", what, d)
			}
			got, err := h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
			if err != nil || got.Status.State != a2a.TaskStateCanceled {
				t.Errorf("%s: canceled again: %+v, %v", what, got, err)
			}
		}
		task := h.send(t.Context(), immediately(text("committed")))
		synctest.Wait()
		_, err := h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
		want(t, err, a2a.ErrTaskNotCancelable, "past the point")
		pass(2 * time.Second)
		state(t, h.get(task.ID), a2a.TaskStateCompleted)
		_, err = h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
		want(t, err, a2a.ErrTaskNotCancelable, "ended")
		_, err = h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "never"})
		want(t, err, a2a.ErrTaskNotFound)
		pass(2 * time.Hour) // the stubborn one wakes and writes: it is dropped
	})
}

// TestCancelRaces is case 11: a task that completes while it is canceled has one end, the same for all.
func TestCancelRaces(t *testing.T) {
	h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
		select {
		case <-time.After(time.Millisecond):
			return u.Complete()
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
	var canceled, completed int
	for range 300 {
		task := h.send(t.Context(), immediately(text("x")))
		followed := make(chan []string, 1)
		go func() { followed <- h.subscribe(t.Context(), task.ID) }()
		<-time.After(time.Millisecond)
		got, err := h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
		kept := h.get(task.ID).Status.State
		if err == nil {
			canceled++
			state(t, got, a2a.TaskStateCanceled)
		} else {
			completed++
			want(t, err, a2a.ErrTaskNotCancelable)
		}
		if (err == nil) != (kept == a2a.TaskStateCanceled) {
			t.Fatalf("CancelTask said %v, kept is %v", err, kept)
		}
		words := <-followed
		if last := words[len(words)-1]; !strings.HasPrefix(last, "error") && last != strings.TrimPrefix(kept.String(), "TASK_STATE_") {
			t.Fatalf("the stream ended with %q, kept is %v", last, kept)
		}
	}
	t.Logf("%d canceled, %d completed", canceled, completed)
}

type parked struct {
	agent.Func
	told chan *a2a.Task
}

func (p parked) Canceled(_ context.Context, t *a2a.Task) { p.told <- t }

func TestCancelParked(t *testing.T) {
	told := make(chan *a2a.Task, 1)
	h := newHost(t, parked{asker, told})
	task := h.send(t.Context(), text(""))
	got, err := h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
	if err != nil {
		t.Fatal(err)
	}
	state(t, got, a2a.TaskStateCanceled)
	if (<-told).ID != task.ID {
		t.Error("the agent was told of another task")
	}
	_, err = h.SendMessage(t.Context(), to(task.ID, "late"))
	want(t, err, a2a.ErrUnsupportedOperation)
}

// TestOneRun is case 18: a message to a working task is refused, or waits where the host lets it.
func TestOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		slow := agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
			if runs.Add(1) == 1 {
				pass(time.Second)
				return u.Park(a2a.TextPart("more?"))
			}
			return u.Begin("x").Last(r.Message.Parts...)
		})
		h := newHost(t, slow)
		task := h.send(t.Context(), immediately(text("x")))
		_, err := h.SendMessage(t.Context(), to(task.ID, "y"))
		want(t, err, a2a.ErrUnsupportedOperation, "takes no message now")
		pass(2 * time.Second)
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}

		runs.Store(0)
		h = newHost(t, slow, func(c *server.Config) { c.Queue = 1 })
		task = h.send(t.Context(), immediately(text("x")))
		got := h.send(t.Context(), to(task.ID, "y")) // waits for the question
		state(t, got, a2a.TaskStateCompleted)
		if got.Artifacts[0].Text() != "y" || runs.Load() != 2 {
			t.Errorf("%d runs, artifact %q", runs.Load(), got.Artifacts[0].Text())
		}
	})
}

// TestTwoAnswers: two answers to one question start one run.
func TestTwoAnswers(t *testing.T) {
	var runs atomic.Int32
	h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		if runs.Add(1)%2 == 1 {
			return u.Park(a2a.TextPart("?"))
		}
		return nil
	}))
	for range 50 {
		runs.Store(0)
		task := h.send(t.Context(), text("x"))
		var ok atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_, err := h.SendMessage(t.Context(), to(task.ID, "y"))
				if err == nil {
					ok.Add(1)
				} else {
					want(t, err, a2a.ErrUnsupportedOperation)
				}
			})
		}
		wg.Wait()
		if ok.Load() != 1 || runs.Load() != 2 {
			t.Fatalf("%d answers were taken, %d runs", ok.Load(), runs.Load())
		}
	}
}

// TestReturnImmediately is case 17: a silent agent delays nobody.
func TestReturnImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, _ *agent.Request, _ *agent.Updater) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}), func(c *server.Config) { c.Limits.Running = 200 })
		begin := time.Now()
		for range 100 {
			task := h.send(t.Context(), immediately(text("x")))
			state(t, h.get(task.ID), a2a.TaskStateWorking)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("took %v", d)
		}
	})
}

// TestRunningBound: tasks beyond the bound wait as SUBMITTED in order, an answer beyond it is refused.
func TestRunningBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var mu sync.Mutex
		h := newHost(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
			if r.Text() == "" {
				return u.Park(a2a.TextPart("?"))
			}
			mu.Lock()
			order = append(order, r.Text())
			mu.Unlock()
			pass(time.Second)
			return nil
		}), func(c *server.Config) { c.Limits.Running, c.Limits.Waiting = 2, 3 })
		question := h.send(t.Context(), text(""))
		var tasks []*a2a.Task
		for i := range 5 {
			tasks = append(tasks, h.send(t.Context(), immediately(text(fmt.Sprint(i)))))
		}
		state(t, tasks[1], a2a.TaskStateWorking)
		state(t, tasks[2], a2a.TaskStateSubmitted)
		_, err := h.SendMessage(t.Context(), text("too many"))
		want(t, err, a2a.ErrResourceExhausted, "limit waiting")
		_, err = h.SendMessage(t.Context(), to(question.ID, "answer"))
		want(t, err, a2a.ErrResourceExhausted, "limit running")
		state(t, h.get(question.ID), a2a.TaskStateInputRequired)
		if n := len(h.get(question.ID).History); n != 1 {
			t.Errorf("a refused answer was recorded: %d messages", n)
		}
		if _, err := h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: tasks[3].ID}); err != nil {
			t.Error(err)
		}
		other := h.send(as(t.Context(), "bob"), immediately(text("bob's")))
		state(t, other, a2a.TaskStateWorking) // a bound of one caller is nobody else's
		pass(10 * time.Second)
		for i, task := range tasks {
			w := a2a.TaskStateCompleted
			if i == 3 {
				w = a2a.TaskStateCanceled
			}
			state(t, h.get(task.ID), w)
		}
		order = slices.DeleteFunc(order, func(s string) bool { return s == "bob's" })
		slices.Sort(order[:2]) // two run at a time
		slices.Sort(order[2:])
		equal(t, order, []string{"0", "1", "2", "4"})
		state(t, h.send(t.Context(), text("again")), a2a.TaskStateCompleted)
	})
}

// TestAskingTakesNoPlace: tasks that wait for an answer do not count as running (threat A5), and the places
// are right again when they go on.
func TestAskingTakesNoPlace(t *testing.T) {
	h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		if r.Text() != "ask" {
			return nil
		}
		_, err := u.Ask(ctx, a2a.TextPart("?"))
		return err
	}), func(c *server.Config) { c.Limits.Running = 1 })
	for range 3 {
		var asked []*a2a.Task
		for range 5 {
			task := h.send(t.Context(), text("ask"))
			state(t, task, a2a.TaskStateInputRequired)
			asked = append(asked, task)
		}
		state(t, h.send(t.Context(), text("x")), a2a.TaskStateCompleted)
		for _, task := range asked[1:] {
			state(t, h.send(t.Context(), to(task.ID, "yes")), a2a.TaskStateCompleted)
		}
		if _, err := h.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: asked[0].ID}); err != nil {
			t.Error(err)
		}
	}
	state(t, h.send(t.Context(), text("x")), a2a.TaskStateCompleted)
}

func TestParkedBound(t *testing.T) {
	h := newHost(t, asker, func(c *server.Config) { c.Limits.Parked = 2 })
	a := h.send(t.Context(), text(""))
	h.send(t.Context(), text(""))
	_, err := h.SendMessage(t.Context(), text("x"))
	want(t, err, a2a.ErrResourceExhausted, "limit parked")
	state(t, h.send(as(t.Context(), "bob"), text("x")), a2a.TaskStateCompleted)
	h.send(t.Context(), to(a.ID, "answer"))
	state(t, h.send(t.Context(), text("x")), a2a.TaskStateCompleted)
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			switch r.Text() {
			case "beats":
				for range 40 {
					pass(time.Minute)
					u.Alive()
				}
				return nil
			case "asks":
				_, err := u.Ask(ctx, a2a.TextPart("?"))
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		beats := h.send(t.Context(), immediately(text("beats")))
		asks := h.send(t.Context(), text("asks"))
		begin := time.Now()
		task := h.send(t.Context(), text("silent"))
		state(t, task, a2a.TaskStateFailed)
		if d := time.Since(begin); d < 10*time.Minute || d > 13*time.Minute || !strings.Contains(said(task), "no sign of life") {
			t.Errorf("failed after %v: %q", d, said(task))
		}
		pass(time.Hour)
		state(t, h.get(beats.ID), a2a.TaskStateCompleted)
		state(t, h.get(asks.ID), a2a.TaskStateInputRequired)
	})
}

// TestUnanswered: interrupted tasks that nobody answers fail, parked or asked (threat A5).
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			if r.Text() == "ask" {
				_, err := u.AskAuth(ctx, a2a.TextPart("?"))
				return err
			}
			return u.Park(a2a.TextPart("?"))
		}), func(c *server.Config) { c.Times.Answer = 2 * time.Second })
		a, b := h.send(t.Context(), text("ask")), h.send(t.Context(), text("park"))
		pass(3 * time.Second)
		for _, task := range []*a2a.Task{a, b} {
			got := h.get(task.ID)
			state(t, got, a2a.TaskStateFailed)
			if !strings.Contains(said(got), "Nobody answered within 2s") {
				t.Errorf("%q", said(got))
			}
			_, err := h.SendMessage(t.Context(), to(task.ID, "late"))
			want(t, err, a2a.ErrUnsupportedOperation)
		}
	})
}

// TestContexts: a context belongs to its caller (threat A1), and keeps values for the agent.
func TestContexts(t *testing.T) {
	h := newHost(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		before := r.Values.Get("said")
		if err := r.Values.Set("said", before+r.Text()); err != nil {
			return err
		}
		var refs []string
		for _, ref := range r.References {
			refs = append(refs, ref.ID)
		}
		return u.Begin("x").Last(a2a.TextPart(before + "|" + strings.Join(refs, ",")))
	}))
	in := func(who, words string, refs ...string) *a2a.Task {
		r := text(words)
		r.Message.ContextID = "c1"
		r.Message.ReferenceTaskIDs = refs
		task := h.send(as(t.Context(), who), r)
		if task.ContextID != "c1" {
			t.Errorf("context %q", task.ContextID)
		}
		return task
	}
	a := in("alice", "a")
	if got := in("bob", "b", a.ID).Artifacts[0].Text(); got != "|" {
		t.Errorf("bob was told %q", got)
	}
	if got := in("alice", "c", a.ID).Artifacts[0].Text(); got != "a|"+a.ID {
		t.Errorf("alice was told %q", got)
	}
	for _, who := range []string{"alice", "bob"} {
		list, err := h.ListTasks(as(t.Context(), who), &a2a.ListTasksRequest{ContextID: "c1"})
		if n := map[string]int32{"alice": 2, "bob": 1}[who]; err != nil || list.TotalSize != n {
			t.Errorf("%s sees %d tasks, %v", who, list.TotalSize, err)
		}
	}
}

// TestForeign is threat B1: every operation on another caller's task answers as for an id that never was.
func TestForeign(t *testing.T) {
	gate := make(chan struct{})
	h := newHost(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		switch r.Text() {
		case "run":
			<-gate
		case "park":
			return u.Park(a2a.TextPart("?"))
		}
		return nil
	}))
	defer close(gate)
	alice, bob := as(t.Context(), "alice"), as(t.Context(), "bob")
	for _, what := range []string{"run", "park", "finish"} {
		id := h.send(alice, immediately(text(what))).ID
		for name, try := range map[string]func(id string) error{
			"SendMessage": func(id string) error { _, err := h.SendMessage(bob, to(id, "x")); return err },
			"SendStreamingMessage": func(id string) error {
				for _, err := range h.SendStreamingMessage(bob, to(id, "x")) {
					return err
				}
				return nil
			},
			"GetTask":    func(id string) error { _, err := h.GetTask(bob, &a2a.GetTaskRequest{ID: id}); return err },
			"CancelTask": func(id string) error { _, err := h.CancelTask(bob, &a2a.CancelTaskRequest{ID: id}); return err },
			"SubscribeToTask": func(id string) error {
				for _, err := range h.SubscribeToTask(bob, &a2a.SubscribeToTaskRequest{ID: id}) {
					return err
				}
				return nil
			},
		} {
			theirs, none := try(id), try(strings.Repeat("0", len(id)))
			want(t, theirs, a2a.ErrTaskNotFound)
			if theirs.Error() != none.Error() {
				t.Errorf("%s of a %s task: %q, of none: %q", name, what, theirs, none)
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	h := newHost(t, echo)
	for name, c := range map[string]struct {
		change func(*a2a.SendMessageRequest)
		code   a2a.ErrorCode
		field  string
	}{
		"no message":   {func(r *a2a.SendMessageRequest) { r.Message = nil }, a2a.ErrInvalidParams, "message"},
		"no id":        {func(r *a2a.SendMessageRequest) { r.Message.MessageID = "" }, a2a.ErrInvalidParams, "message.messageId"},
		"no role":      {func(r *a2a.SendMessageRequest) { r.Message.Role = 0 }, a2a.ErrInvalidParams, "message.role"},
		"agent's role": {func(r *a2a.SendMessageRequest) { r.Message.Role = a2a.RoleAgent }, a2a.ErrInvalidParams, "message.role"},
		"no parts":     {func(r *a2a.SendMessageRequest) { r.Message.Parts = nil }, a2a.ErrInvalidParams, "message.parts"},
		"65 parts":     {func(r *a2a.SendMessageRequest) { r.Message.Parts = slices.Repeat(r.Message.Parts, 65) }, a2a.ErrInvalidParams, "message.parts"},
		"empty part":   {func(r *a2a.SendMessageRequest) { r.Message.Parts[0] = &a2a.Part{} }, a2a.ErrInvalidParams, "message.parts[0]"},
		"long id":      {func(r *a2a.SendMessageRequest) { r.Message.MessageID = strings.Repeat("x", 129) }, a2a.ErrInvalidParams, "message.messageId"},
		"long context": {func(r *a2a.SendMessageRequest) { r.Message.ContextID = strings.Repeat("x", 129) }, a2a.ErrInvalidParams, "message.contextId"},
		"control":      {func(r *a2a.SendMessageRequest) { r.Message.ContextID = "a\nb" }, a2a.ErrInvalidParams, "message.contextId"},
		"long ref":     {func(r *a2a.SendMessageRequest) { r.Message.ReferenceTaskIDs = []string{"x", strings.Repeat("x", 129)} }, a2a.ErrInvalidParams, "message.referenceTaskIds[1]"},
		"history -1": {func(r *a2a.SendMessageRequest) {
			n := int32(-1)
			r.Configuration = &a2a.SendMessageConfiguration{HistoryLength: &n}
		}, a2a.ErrInvalidParams, "configuration.historyLength"},
		"wrong tenant": {func(r *a2a.SendMessageRequest) { r.Tenant = "other" }, a2a.ErrInvalidParams, "tenant"},
		"wrong type":   {func(r *a2a.SendMessageRequest) { r.Message.Parts[0].MediaType = "image/png" }, a2a.ErrContentTypeNotSupported, "message.parts[0]"},
		"bytes":        {func(r *a2a.SendMessageRequest) { r.Message.Parts[0].Content = a2a.Raw("x") }, a2a.ErrContentTypeNotSupported, "message.parts[0]"},
		"inline push": {func(r *a2a.SendMessageRequest) {
			r.Configuration = &a2a.SendMessageConfiguration{TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: "https://x"}}
		}, a2a.ErrPushNotificationNotSupported, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := text("x")
			c.change(r)
			_, err := h.SendMessage(t.Context(), r)
			want(t, err, c.code, c.field)
			var e *a2a.Error
			if errors.As(err, &e) && c.code == a2a.ErrInvalidParams && (len(e.Violations) != 1 || e.Violations[0].Field != c.field) {
				t.Errorf("violations %+v, want field %s", e.Violations, c.field)
			}
			for e, serr := range h.SendStreamingMessage(t.Context(), r) {
				if serr == nil || serr.Error() != err.Error() {
					t.Errorf("a stream said %v, %v; the call %v", e, serr, err)
				}
			}
		})
	}
	list, err := h.ListTasks(t.Context(), &a2a.ListTasksRequest{})
	if err != nil || list.TotalSize != 0 {
		t.Errorf("refused messages made %d tasks, %v", list.TotalSize, err)
	}
	for _, n := range []int32{-1, 101} {
		_, err := h.ListTasks(t.Context(), &a2a.ListTasksRequest{PageSize: &n})
		want(t, err, a2a.ErrInvalidParams, "pageSize")
	}
	_, err = h.ListTasks(t.Context(), &a2a.ListTasksRequest{PageToken: "x"})
	want(t, err, a2a.ErrInvalidParams, "pageToken")
}

// TestHistoryLength is case 21.
func TestHistoryLength(t *testing.T) {
	h := newHost(t, asker)
	first := h.send(t.Context(), text(""))
	id := first.ID
	h.send(t.Context(), to(id, "yes"))
	for _, c := range []struct {
		n    *int32
		want int
	}{{nil, 3}, {new(int32(0)), 0}, {new(int32(1)), 1}, {new(int32(2)), 2}, {new(int32(99)), 3}} {
		got, err := h.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id, HistoryLength: c.n})
		if err != nil || len(got.History) != c.want {
			t.Errorf("GetTask: %d messages, want %d, %v", len(got.History), c.want, err)
		}
		if c.want == 1 && got.History[0].Text() != "yes" {
			t.Errorf("the last message is %q", got.History[0].Text())
		}
		list, err := h.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: first.ContextID, HistoryLength: c.n})
		if err != nil || len(list.Tasks[0].History) != c.want {
			t.Errorf("ListTasks: %d messages, want %d, %v", len(list.Tasks[0].History), c.want, err)
		}
		r := text("x")
		r.Configuration = &a2a.SendMessageConfiguration{HistoryLength: c.n}
		if got := h.send(t.Context(), r); len(got.History) != min(c.want, 1) {
			t.Errorf("SendMessage: %d messages", len(got.History))
		}
		for e, err := range h.SendStreamingMessage(t.Context(), r) {
			if task, ok := e.Event.(*a2a.Task); err != nil || ok && len(task.History) != min(c.want, 1) {
				t.Errorf("SendStreamingMessage: %+v, %v", e, err)
			}
		}
	}
	_, err := h.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id, HistoryLength: new(int32(-1))})
	want(t, err, a2a.ErrInvalidParams, "historyLength")
	_, err = h.ListTasks(t.Context(), &a2a.ListTasksRequest{HistoryLength: new(int32(-1))})
	want(t, err, a2a.ErrInvalidParams, "historyLength")
	if got := h.get(id); len(got.History) != 3 {
		t.Errorf("what is kept has %d messages", len(got.History))
	}
}

func TestCapabilities(t *testing.T) {
	no := false
	card := &a2a.AgentCard{DefaultInputModes: []string{"*/*"}, Capabilities: a2a.AgentCapabilities{
		Streaming: &no, Extensions: []*a2a.AgentExtension{{URI: "urn:must", Required: true}, {URI: "urn:may"}},
	}}
	h := newHost(t, echo, func(c *server.Config) { c.Card = func() *a2a.AgentCard { return card } })
	_, err := h.SendMessage(t.Context(), text("x"))
	want(t, err, a2a.ErrExtensionSupportRequired, "urn:must")
	info := &a2a.CallInfo{Extensions: []string{"urn:other", "urn:must"}}
	ctx := a2a.WithCallInfo(t.Context(), info)
	task := h.send(ctx, text("x"))
	equal(t, info.Activated, []string{"urn:must"})
	for _, err := range h.SendStreamingMessage(ctx, text("x")) {
		want(t, err, a2a.ErrUnsupportedOperation, "streaming")
	}
	for _, err := range h.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.ID}) {
		want(t, err, a2a.ErrUnsupportedOperation, "streaming")
	}
	_, err = h.CreateTaskPushNotificationConfig(ctx, &a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: "https://x"})
	want(t, err, a2a.ErrPushNotificationNotSupported)
	_, err = h.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{})
	want(t, err, a2a.ErrPushNotificationNotSupported)
	_, err = h.ListTaskPushNotificationConfigs(ctx, &a2a.ListTaskPushNotificationConfigsRequest{})
	want(t, err, a2a.ErrPushNotificationNotSupported)
	_, err = h.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{})
	want(t, err, a2a.ErrPushNotificationNotSupported)
	_, err = h.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	want(t, err, a2a.ErrUnsupportedOperation)
	yes := true
	card.Capabilities.ExtendedAgentCard = &yes
	_, err = h.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	want(t, err, a2a.ErrExtendedAgentCardNotConfigured)
}

// broken is a store whose writes fail from the n-th on, until it is mended.
type broken struct {
	taskstore.Store
	after atomic.Int64
	slow  time.Duration
}

func (b *broken) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	if b.slow > 0 {
		pass(b.slow)
	}
	if b.after.Add(-1) < 0 {
		return taskstore.Receipt{}, errors.New("disk secret full")
	}
	return b.Store.Commit(ctx, c)
}

// says waits for each of its two writes.
var says = agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
	if err := u.Message(a2a.TextPart("at it")); err != nil {
		return err
	}
	return u.Complete()
})

// TestLostChunk: what an agent said and did not wait for is in the log, or the task does not end as if it were.
func TestLostChunk(t *testing.T) {
	for after := int64(1); after < 5; after++ {
		synctest.Test(t, func(t *testing.T) {
			b := &broken{Store: taskstore.NewMemory(taskstore.MemoryOptions{})}
			h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
				w := u.Begin("x")
				for i := range 4 {
					pass(time.Second)
					_ = w.WriteText(fmt.Sprint(i)) // an author who does not look
				}
				return nil
			}), func(c *server.Config) { c.Store = b })
			b.after.Store(after)
			_, err := h.SendMessage(t.Context(), text("x"))
			want(t, err, a2a.ErrInternal)
			b.after.Store(1 << 30)
			pass(10 * time.Second)
			yes := true
			list, err := h.ListTasks(t.Context(), &a2a.ListTasksRequest{IncludeArtifacts: &yes})
			if err != nil {
				t.Fatal(err)
			}
			if task := list.Tasks[0]; task.Status.State == a2a.TaskStateCompleted {
				equal(t, []string{task.Artifacts[0].Text()}, []string{"0123"}) // the end was tried again with the last chunk
			} else {
				state(t, task, a2a.TaskStateFailed)
			}
		})
	}
}

// TestBrokenStore is case 16: a store that fails ends nobody's wait with silence.
func TestBrokenStore(t *testing.T) {
	for after := range 4 {
		for _, mode := range []string{"blocking", "streaming", "immediate"} {
			t.Run(fmt.Sprint(mode, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &broken{Store: taskstore.NewMemory(taskstore.MemoryOptions{})}
					b.after.Store(int64(after))
					h := newHost(t, says, func(c *server.Config) { c.Store = b })
					begin := time.Now()
					var err error
					switch r := text("x"); mode {
					case "blocking":
						_, err = h.SendMessage(t.Context(), r)
					case "immediate":
						_, err = h.SendMessage(t.Context(), immediately(r))
					case "streaming":
						for _, e := range h.SendStreamingMessage(t.Context(), r) {
							err = e
						}
					}
					if after < 3 && (mode != "immediate" || after == 0) {
						want(t, err, a2a.ErrInternal)
						if strings.Contains(err.Error(), "secret") {
							t.Errorf("the caller reads %q", err)
						}
					}
					if d := time.Since(begin); d > time.Second {
						t.Errorf("answered after %v", d)
					}
					b.after.Store(1 << 30) // mended: the task gets its end, and the host goes on
					pass(10 * time.Second)
					list, err := h.ListTasks(t.Context(), &a2a.ListTasksRequest{})
					if err != nil {
						t.Fatal(err)
					}
					for _, task := range list.Tasks {
						if !task.Status.State.Terminal() {
							t.Errorf("a task is left as %v", task.Status.State)
						}
					}
					state(t, h.send(t.Context(), text("y")), a2a.TaskStateCompleted)
				})
			})
		}
	}
}

// TestSlowStore is case 15: the blocking reply has everything, however slow the store.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broken{Store: taskstore.NewMemory(taskstore.MemoryOptions{}), slow: 300 * time.Millisecond}
		b.after.Store(1 << 30)
		h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
			for i := range 50 {
				if err := u.Begin("x").Last(a2a.TextPart(fmt.Sprint(i))); err != nil {
					return err
				}
			}
			return nil
		}), func(c *server.Config) { c.Store = b })
		if task := h.send(t.Context(), text("x")); len(task.Artifacts) != 50 {
			t.Errorf("%d artifacts", len(task.Artifacts))
		}
	})
}

// TestDisconnect is cases 4 and 8: who leaves changes nothing, who comes back misses nothing.
func TestDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
			w := u.Begin("x")
			for i := range 10 {
				pass(100 * time.Millisecond)
				if err := w.WriteText(fmt.Sprint(i+1, " ")); err != nil {
					return err
				}
			}
			return nil
		}))
		var id string
		n := 0
		for e, err := range h.SendStreamingMessage(t.Context(), text("x")) {
			if err != nil {
				t.Fatal(err)
			}
			if task, ok := e.Event.(*a2a.Task); ok {
				id = task.ID
			}
			if n++; n == 5 { // the task, WORKING and three chunks
				break
			}
		}
		pass(450 * time.Millisecond) // seven
		var mine a2a.Task
		var words []string
		for e, err := range h.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: id}) {
			if err != nil {
				t.Fatal(err)
			}
			mine.Apply(e.Event)
			words = append(words, told(e))
		}
		equal(t, words, []string{"task WORKING", "artifact 8  append=true last=false", "artifact 9  append=true last=false", "artifact 10  append=true last=false", "COMPLETED"})
		kept := h.get(id)
		if got := mine.Artifacts[0].Text(); got != "1 2 3 4 5 6 7 8 9 10 " || kept.Artifacts[0].Text() != got {
			t.Errorf("the client has %q, the host %q", got, kept.Artifacts[0].Text())
		}
	})
}

// TestSlowReader is case 42: a reader that stops costs the writer and other readers nothing, and gets all
// when it goes on.
func TestSlowReader(t *testing.T) {
	const n = 5000
	go1 := make(chan struct{})
	h := newHost(t, agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		<-go1
		w := u.Begin("x")
		for range n {
			if err := w.WriteText("x"); err != nil {
				return err
			}
		}
		return nil
	}))
	task := h.send(t.Context(), immediately(text("x")))
	stop := make(chan struct{})
	slow := make(chan int)
	go func() {
		k := 0
		for _, err := range h.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
			if err != nil {
				t.Error(err)
			}
			if k++; k == 1 {
				close(go1)
				<-stop
			}
		}
		slow <- k
	}()
	h.subscribe(t.Context(), task.ID)
	close(stop)
	if k := <-slow; k != n+2 {
		t.Errorf("the slow reader got %d entries, want %d", k, n+2)
	}
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int32
		h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			busy.Add(1)
			defer busy.Add(-1)
			switch r.Text() {
			case "short":
				pass(time.Second)
				return nil
			case "park":
				return u.Park(a2a.TextPart("?"))
			case "ask":
				_, err := u.Ask(ctx, a2a.TextPart("?"))
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		short, long := h.send(t.Context(), immediately(text("short"))), h.send(t.Context(), immediately(text("long")))
		park, ask := h.send(t.Context(), text("park")), h.send(t.Context(), text("ask"))
		blocked := make(chan *a2a.Task, 1)
		go func() { blocked <- h.send(t.Context(), text("long")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() { h.Shutdown(ctx); close(done) }()
		synctest.Wait()
		_, err := h.SendMessage(t.Context(), text("x"))
		want(t, err, a2a.ErrUnavailable, "shutting down")
		<-done
		state(t, h.get(short.ID), a2a.TaskStateCompleted)
		state(t, h.get(park.ID), a2a.TaskStateInputRequired)
		for _, id := range []string{long.ID, ask.ID, (<-blocked).ID} {
			got := h.get(id)
			state(t, got, a2a.TaskStateFailed)
			if !strings.Contains(said(got), "interrupted by a restart") {
				t.Errorf("%q", said(got))
			}
		}
		synctest.Wait()
		if n := busy.Load(); n != 0 {
			t.Errorf("%d runs are left", n)
		}
	})
}

// TestShutdownLetsAgentsCleanUp: a stop waits for what the end of a run's context begins, also where the end of the task is
// recorded already, and not for an agent that never returns.
func TestShutdownLetsAgentsCleanUp(t *testing.T) {
	for _, c := range []struct {
		name, say     string
		cleaning, max time.Duration
		cleaned       bool
	}{
		{"at once", "wait", 0, 0, true},
		{"a while", "wait", 3 * time.Second, 3 * time.Second, true},
		{"after the end", "done", 3 * time.Second, 3 * time.Second, true},
		{"for ever", "wait", time.Hour, 5 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cleaned atomic.Bool
				h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
					if r.Text() == "done" {
						if err := u.Complete(); err != nil {
							return err
						}
					}
					<-ctx.Done()
					pass(c.cleaning)
					cleaned.Store(true)
					return ctx.Err()
				}))
				h.send(t.Context(), immediately(text(c.say)))
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				begin := time.Now()
				h.Shutdown(ctx)
				if d := time.Since(begin); d > c.max || cleaned.Load() != c.cleaned {
					t.Errorf("the stop took %v, and the agent had cleaned up: %v", d, cleaned.Load())
				}
				if told := strings.Contains(h.log.String(), "have not returned"); told == c.cleaned {
					t.Errorf("the log: %s", h.log)
				}
				pass(c.cleaning)
			})
		})
	}
}
