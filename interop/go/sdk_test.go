package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	blank     = "  \n "
	unknownID = a2a.TaskID("00000000-0000-4000-8000-000000000000")
)

var transports = []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON, a2a.TransportProtocolGRPC}

// peer is the SDK's client with what the tests say often.
type peer struct{ *a2aclient.Client }

// connect reads the agent's card and connects to the interface of one binding.
func connect(t *testing.T, h host, binding a2a.TransportProtocol) peer {
	t.Helper()
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), h.url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a2aclient.NewFromCard(t.Context(), card,
		a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())),
		a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{binding}}),
		a2aclient.WithCallInterceptors(versionOverride{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return peer{c}
}

type versionKey struct{}

// versionOverride sends the A2A-Version that the context has under versionKey.
type versionOverride struct {
	a2aclient.PassthroughInterceptor
}

func (versionOverride) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	if v, ok := ctx.Value(versionKey{}).(string); ok {
		req.ServiceParams[a2a.SvcParamVersion] = []string{v}
	}
	return ctx, nil, nil
}

func text(s string) *a2a.Message { return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(s)) }

func textFor(task *a2a.Task, s string) *a2a.Message {
	m := text(s)
	m.TaskID = task.ID
	return m
}

func (p peer) send(ctx context.Context, m *a2a.Message) (*a2a.Task, error) {
	res, err := p.SendMessage(ctx, &a2a.SendMessageRequest{Message: m})
	if err != nil {
		return nil, err
	}
	task, ok := res.(*a2a.Task)
	if !ok {
		return nil, errors.New("the answer is no task")
	}
	return task, nil
}

// must sends a message and returns the task, which must be in the given state.
func (p peer) must(t *testing.T, want a2a.TaskState, m *a2a.Message) *a2a.Task {
	t.Helper()
	task, err := p.send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	checkState(t, task, want)
	return task
}

func (p peer) get(t *testing.T, id a2a.TaskID, historyLength *int) *a2a.Task {
	t.Helper()
	task, err := p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id, HistoryLength: historyLength})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func (p peer) stream(ctx context.Context, m *a2a.Message) iter.Seq2[a2a.Event, error] {
	return p.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: m})
}

func checkState(t *testing.T, task *a2a.Task, want a2a.TaskState) {
	t.Helper()
	if task.Status.State != want {
		t.Fatalf("task is %s, want %s", task.Status.State, want)
	}
}

// collect reads a stream to its end.
func collect(t *testing.T, stream iter.Seq2[a2a.Event, error]) []a2a.Event {
	t.Helper()
	var events []a2a.Event
	for ev, err := range stream {
		if err != nil {
			t.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, ev)
	}
	return events
}

var errEmptyStream = errors.New("the stream ended without an event")

// drain reads a stream to its end or its first error.
func drain(stream iter.Seq2[a2a.Event, error]) error {
	err := errEmptyStream
	for _, err = range stream {
		if err != nil {
			break
		}
	}
	return err
}

// fold replays a stream's events as a client would: a Task, then its updates.
func fold(t *testing.T, events []a2a.Event) *a2a.Task {
	t.Helper()
	if len(events) == 0 {
		t.Fatal("no events")
	}
	first, ok := events[0].(*a2a.Task)
	if !ok {
		t.Fatalf("the first event is a %T, not the Task", events[0])
	}
	task := *first
	task.Artifacts = slices.Clone(first.Artifacts)
	for _, ev := range events[1:] {
		switch ev := ev.(type) {
		case *a2a.TaskStatusUpdateEvent:
			task.Status = ev.Status
		case *a2a.TaskArtifactUpdateEvent:
			i := slices.IndexFunc(task.Artifacts, func(a *a2a.Artifact) bool { return a.ID == ev.Artifact.ID })
			switch {
			case i < 0:
				task.Artifacts = append(task.Artifacts, ev.Artifact)
			case ev.Append:
				joined := *task.Artifacts[i]
				joined.Parts = slices.Concat(joined.Parts, ev.Artifact.Parts)
				task.Artifacts[i] = &joined
			default:
				task.Artifacts[i] = ev.Artifact
			}
		default:
			t.Fatalf("a %T after the Task", ev)
		}
	}
	return &task
}

// words returns the number of words that Revisor counted.
func words(t *testing.T, task *a2a.Task) float64 {
	t.Helper()
	if len(task.Artifacts) != 1 {
		t.Fatalf("%d artifacts, want 1", len(task.Artifacts))
	}
	for _, part := range task.Artifacts[0].Parts {
		if stats, ok := part.Data().(map[string]any); ok {
			n, _ := stats["words"].(float64)
			return n
		}
	}
	t.Fatal("no data part")
	return 0
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func checkSameArtifacts(t *testing.T, got, want *a2a.Task) {
	t.Helper()
	if g, w := asJSON(t, got.Artifacts), asJSON(t, want.Artifacts); g != w {
		t.Errorf("artifacts\n%s\nwant\n%s", g, w)
	}
}

func TestSDK(t *testing.T) {
	revisor, echo := startHost(t, "revisor"), startHost(t, "echo")
	for _, binding := range transports {
		t.Run(string(binding), func(t *testing.T) {
			p := connect(t, revisor, binding)
			t.Run("Card", func(t *testing.T) { testCard(t, revisor) })
			t.Run("Send", func(t *testing.T) { testSend(t, p) })
			t.Run("Stream", func(t *testing.T) { testStream(t, p) })
			t.Run("InputRequired", func(t *testing.T) { testInputRequired(t, p) })
			t.Run("InputRequiredStream", func(t *testing.T) { testInputRequiredStream(t, p) })
			t.Run("ReturnImmediately", func(t *testing.T) { testReturnImmediately(t, p) })
			t.Run("History", func(t *testing.T) { testHistory(t, p) })
			t.Run("List", func(t *testing.T) { testList(t, p) })
			t.Run("Cancel", func(t *testing.T) { testCancel(t, p) })
			t.Run("Subscribe", func(t *testing.T) { testSubscribe(t, p) })
			t.Run("Parts", func(t *testing.T) { testParts(t, connect(t, echo, binding)) })
			t.Run("Errors", func(t *testing.T) { testErrors(t, p, binding) })
		})
	}
}

func testCard(t *testing.T, h host) {
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), h.url)
	if err != nil {
		t.Fatal(err)
	}
	if card.Name != h.name || !card.Capabilities.Streaming {
		t.Errorf("name %q, streaming %t; want %q, true", card.Name, card.Capabilities.Streaming, h.name)
	}
	for _, binding := range transports {
		if !slices.ContainsFunc(card.SupportedInterfaces, func(i *a2a.AgentInterface) bool {
			return i.ProtocolBinding == binding && i.ProtocolVersion == a2a.Version
		}) {
			t.Errorf("the card has no %s interface of version %s", binding, a2a.Version)
		}
	}
}

func testSend(t *testing.T, p peer) {
	m := text("Hello there. Good day!")
	m.ContextID = a2a.NewContextID()
	task := p.must(t, a2a.TaskStateCompleted, m)
	if task.ContextID != m.ContextID {
		t.Errorf("context %s, want %s", task.ContextID, m.ContextID)
	}
	if n := words(t, task); n != 4 {
		t.Errorf("%g words, want 4", n)
	}
}

func testStream(t *testing.T, p peer) {
	events := collect(t, p.stream(t.Context(), text(strings.Repeat("One two three.\n\n", 20_000))))
	task := fold(t, events)
	checkState(t, task, a2a.TaskStateCompleted)
	if n := words(t, task); n != 60_000 {
		t.Errorf("%g words, want 60000", n)
	}
	checkSameArtifacts(t, task, p.get(t, task.ID, nil))
	if !slices.ContainsFunc(events, func(ev a2a.Event) bool {
		s, ok := ev.(*a2a.TaskStatusUpdateEvent)
		return ok && s.Status.Message != nil
	}) {
		t.Error("no progress was told about a long text")
	}
}

func testInputRequired(t *testing.T, p peer) {
	asked := p.must(t, a2a.TaskStateInputRequired, text(blank))
	if asked.Status.Message == nil || asked.Status.Message.Parts[0].Text() == "" {
		t.Error("no question")
	}
	done := p.must(t, a2a.TaskStateCompleted, textFor(asked, "Now there is text."))
	if done.ID != asked.ID || done.ContextID != asked.ContextID {
		t.Errorf("answered in task %s of %s, want %s of %s", done.ID, done.ContextID, asked.ID, asked.ContextID)
	}
	if n := words(t, done); n != 4 {
		t.Errorf("%g words, want 4", n)
	}
}

func testInputRequiredStream(t *testing.T, p peer) {
	asked := fold(t, collect(t, p.stream(t.Context(), text(blank))))
	checkState(t, asked, a2a.TaskStateInputRequired)
	done := fold(t, collect(t, p.stream(t.Context(), textFor(asked, "Some text."))))
	checkState(t, done, a2a.TaskStateCompleted)
	if done.ID != asked.ID {
		t.Errorf("answered in task %s, want %s", done.ID, asked.ID)
	}
}

func testReturnImmediately(t *testing.T, p peer) {
	res, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{
		Message: text("Some text."), Config: &a2a.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := res.(*a2a.Task).ID
	// The subscription follows the task to its end, unless that came first.
	err = drain(p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: id}))
	if err != nil && !errors.Is(err, a2a.ErrUnsupportedOperation) && !errors.Is(err, errEmptyStream) {
		t.Fatal(err)
	}
	checkState(t, p.get(t, id, nil), a2a.TaskStateCompleted)
}

func testHistory(t *testing.T, p peer) {
	asked := p.must(t, a2a.TaskStateInputRequired, text(blank))
	question := asked.Status.Message.Parts[0].Text()
	p.must(t, a2a.TaskStateCompleted, textFor(asked, "The answer."))

	said := func(task *a2a.Task) (out []string) {
		for _, m := range task.History {
			out = append(out, string(m.Role)+" "+m.Parts[0].Text())
			if m.TaskID != task.ID || m.ContextID != task.ContextID {
				t.Errorf("message %s is of task %q in context %q, want %s in %s", m.ID, m.TaskID, m.ContextID, task.ID, task.ContextID)
			}
		}
		return out
	}
	all := []string{
		string(a2a.MessageRoleUser) + " " + blank,
		string(a2a.MessageRoleAgent) + " " + question,
		string(a2a.MessageRoleUser) + " The answer.",
	}
	zero, one := 0, 1
	for _, tc := range []struct {
		length *int
		want   []string
	}{{nil, all}, {&one, all[2:]}, {&zero, nil}} {
		if got := said(p.get(t, asked.ID, tc.length)); !slices.Equal(got, tc.want) {
			t.Errorf("history %q, want %q", got, tc.want)
		}
	}
}

func testList(t *testing.T, p peer) {
	contextID := a2a.NewContextID()
	inContext := func(s string) *a2a.Message {
		m := text(s)
		m.ContextID = contextID
		return m
	}
	var want []a2a.TaskID
	for range 5 {
		want = append(want, p.must(t, a2a.TaskStateCompleted, inContext("Some text.")).ID)
	}
	parked := p.must(t, a2a.TaskStateInputRequired, inContext(blank))
	want = append(want, parked.ID)
	slices.Reverse(want)

	var got []a2a.TaskID
	for req := (&a2a.ListTasksRequest{ContextID: contextID, PageSize: 4}); ; {
		page, err := p.ListTasks(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if page.TotalSize != 6 {
			t.Errorf("total %d, want 6", page.TotalSize)
		}
		for _, task := range page.Tasks {
			got = append(got, task.ID)
			if len(task.Artifacts) > 0 {
				t.Error("artifacts were not asked for")
			}
		}
		if req.PageToken = page.NextPageToken; req.PageToken == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("tasks %v, want %v", got, want)
	}
	waiting, err := p.ListTasks(t.Context(), &a2a.ListTasksRequest{
		ContextID: contextID, Status: a2a.TaskStateInputRequired, IncludeArtifacts: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(waiting.Tasks) != 1 || waiting.Tasks[0].ID != parked.ID {
		t.Errorf("%d waiting tasks, want the one", len(waiting.Tasks))
	}
}

func testCancel(t *testing.T, p peer) {
	asked := p.must(t, a2a.TaskStateInputRequired, text(blank))
	for range 2 { // canceling again returns the task
		task, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: asked.ID})
		if err != nil {
			t.Fatal(err)
		}
		checkState(t, task, a2a.TaskStateCanceled)
	}
	checkState(t, p.get(t, asked.ID, nil), a2a.TaskStateCanceled)
}

func testSubscribe(t *testing.T, p peer) {
	asked := p.must(t, a2a.TaskStateInputRequired, text(blank))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	type outcome struct {
		task *a2a.Task
		err  error
	}
	answer := make(chan outcome, 1)
	var events []a2a.Event
	for ev, err := range p.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: asked.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		if events = append(events, ev); len(events) == 1 {
			checkState(t, fold(t, events), a2a.TaskStateInputRequired)
			go func() {
				task, err := p.send(ctx, textFor(asked, "Some text."))
				answer <- outcome{task, err}
			}()
		}
	}
	task := fold(t, events)
	checkState(t, task, a2a.TaskStateCompleted)
	answered := <-answer
	if answered.err != nil {
		t.Fatal(answered.err)
	}
	checkSameArtifacts(t, task, answered.task)
}

func testParts(t *testing.T, p peer) {
	file := a2a.NewRawPart([]byte{0x00, 0xff, 0xfe})
	file.Filename, file.MediaType = "three.bin", "application/octet-stream"
	data := a2a.NewDataPart(map[string]any{
		"n": 1.0, "z": nil, "e": map[string]any{}, "l": []any{nil, map[string]any{}}, "s": "x", "f": 1.5, "t": true,
	})
	data.Metadata = map[string]any{"k": []any{"v"}}
	parts := a2a.ContentParts{
		a2a.NewTextPart("<a&b> \U0001F9D1\u200D\U0001F680"), file, a2a.NewFileURLPart("https://example.com/a?b=c", "image/png"), data,
	}
	task := p.must(t, a2a.TaskStateCompleted, a2a.NewMessage(a2a.MessageRoleUser, parts...))
	if len(task.Artifacts) != 1 || !reflect.DeepEqual(task.Artifacts[0].Parts, parts) {
		t.Errorf("artifacts %s, want one with %s", asJSON(t, task.Artifacts), asJSON(t, parts))
	}
}

func testErrors(t *testing.T, p peer, binding a2a.TransportProtocol) {
	done := p.must(t, a2a.TaskStateCompleted, text("Some text."))
	unknown := &a2a.Task{ID: unknownID}
	negative := -1

	send := func(m *a2a.Message) func(context.Context) error {
		return func(ctx context.Context) error { _, err := p.send(ctx, m); return err }
	}
	stream := func(m *a2a.Message) func(context.Context) error {
		return func(ctx context.Context) error { return drain(p.stream(ctx, m)) }
	}
	get := func(req *a2a.GetTaskRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := p.GetTask(ctx, req); return err }
	}
	cancel := func(id a2a.TaskID) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := p.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id})
			return err
		}
	}
	subscribe := func(id a2a.TaskID) func(context.Context) error {
		return func(ctx context.Context) error {
			return drain(p.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id}))
		}
	}
	image := a2a.NewRawPart([]byte{0})
	image.MediaType = "image/png"

	// On JSON-RPC the SDK (2.4.0) takes an ordinary error response to a streaming call for an empty stream.
	refused := func(want error) error {
		if binding == a2a.TransportProtocolJSONRPC {
			return errEmptyStream
		}
		return want
	}

	for _, tc := range []struct {
		name string
		want error
		call func(context.Context) error
	}{
		{"GetUnknown", a2a.ErrTaskNotFound, get(&a2a.GetTaskRequest{ID: unknownID})},
		{"CancelUnknown", a2a.ErrTaskNotFound, cancel(unknownID)},
		{"SubscribeUnknown", refused(a2a.ErrTaskNotFound), subscribe(unknownID)},
		{"SendUnknown", a2a.ErrTaskNotFound, send(textFor(unknown, "x"))},
		{"StreamUnknown", refused(a2a.ErrTaskNotFound), stream(textFor(unknown, "x"))},
		{"CancelFinished", a2a.ErrTaskNotCancelable, cancel(done.ID)},
		{"SendFinished", a2a.ErrUnsupportedOperation, send(textFor(done, "x"))},
		{"StreamFinished", refused(a2a.ErrUnsupportedOperation), stream(textFor(done, "x"))},
		{"SubscribeFinished", refused(a2a.ErrUnsupportedOperation), subscribe(done.ID)},
		{"ContentType", a2a.ErrUnsupportedContentType, send(a2a.NewMessage(a2a.MessageRoleUser, image))},
		{"NegativeHistoryLength", a2a.ErrInvalidParams, get(&a2a.GetTaskRequest{ID: done.ID, HistoryLength: &negative})},
		{"PrivateWebhook", a2a.ErrInvalidParams, func(ctx context.Context) error {
			_, err := p.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: done.ID, URL: "https://127.0.0.1:9/"})
			return err
		}},
		{"UnknownWebhook", a2a.ErrTaskNotFound, func(ctx context.Context) error {
			_, err := p.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: done.ID, ID: "x"})
			return err
		}},
		{"Version", a2a.ErrVersionNotSupported, func(ctx context.Context) error {
			return get(&a2a.GetTaskRequest{ID: done.ID})(context.WithValue(ctx, versionKey{}, "99.0"))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.call(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

// TestNoVersion is a call by hand that lacks A2A-Version.
func TestNoVersion(t *testing.T) {
	h := startHost(t, "echo")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(body.String(), "-32009") || !strings.Contains(body.String(), "A2A-Version: 1.0") {
		t.Errorf("answer %s, want -32009 and the header to send", body.Bytes())
	}
}
