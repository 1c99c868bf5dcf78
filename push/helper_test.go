package push

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

var alice = taskstore.Scope{Agent: "agent", Owner: "issuer\x00alice"}

func keyOf(task string) taskstore.Key { return taskstore.Key{Scope: alice, Task: task} }

// newPush returns a Push that has started.
func newPush(t testing.TB, s taskstore.Store, opts Options) *Push {
	t.Helper()
	p := idlePush(t, s, opts)
	start(t, p)
	return p
}

func idlePush(t testing.TB, s taskstore.Store, opts Options) *Push {
	t.Helper()
	opts.Store, opts.Agent, opts.AllowPrivate = s, alice.Agent, true
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func start(t testing.TB, p *Push) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { crash(p) })
}

// crash ends a Push without waiting for its attempts.
func crash(p *Push) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.Shutdown(ctx)
}

func commit(t testing.TB, s taskstore.Store, c taskstore.Change) []taskstore.Record {
	t.Helper()
	r, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatalf("%+v: %v", c.Key, err)
	}
	return r.Records
}

// create makes a task, with a webhook or without.
func create(t testing.TB, s taskstore.Store, key taskstore.Key, hook *taskstore.Webhook) []taskstore.Record {
	t.Helper()
	task := &a2a.Task{ID: key.Task, ContextID: "c-" + key.Task, Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: time.Now()}}
	return commit(t, s, taskstore.Change{Key: key, Create: true, Records: []taskstore.Record{{Entry: a2a.Entry{Event: task}}}, Webhook: hook})
}

func chunk(task string, n int) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskArtifactUpdateEvent{
		TaskID: task, ContextID: "c-" + task,
		Artifact: &a2a.Artifact{ArtifactID: fmt.Sprintf("a%d", n), Parts: []*a2a.Part{a2a.TextPart(fmt.Sprintf("text %d", n))}},
	}}}
}

func status(task string, state a2a.TaskState) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskStatusUpdateEvent{
		TaskID: task, ContextID: "c-" + task, Status: a2a.TaskStatus{State: state, Timestamp: time.Now()},
	}}}
}

// write appends records to a task, each with a commit of its own.
func write(t testing.TB, s taskstore.Store, key taskstore.Key, records ...taskstore.Record) (out []taskstore.Record) {
	t.Helper()
	for _, r := range records {
		out = append(out, commit(t, s, taskstore.Change{Key: key, Records: []taskstore.Record{r}})...)
	}
	return out
}

// prepared puts a configuration into the form in which the engine commits it.
func prepared(t testing.TB, p *Push, key taskstore.Key, c a2a.TaskPushNotificationConfig) *taskstore.Webhook {
	t.Helper()
	h, err := p.Prepare(t.Context(), key, &c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func register(t testing.TB, p *Push, key taskstore.Key, c a2a.TaskPushNotificationConfig) string {
	t.Helper()
	out, err := p.Create(t.Context(), key, &c)
	if err != nil {
		t.Fatal(err)
	}
	return out.ID
}

// request is what a receiver got.
type request struct {
	header http.Header
	body   string
}

// recorder is a receiver that keeps what it took.
type recorder struct {
	*httptest.Server
	got chan request // what was answered 204

	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request) bool // reports whether it answered
	all    []request
}

func newRecorder(t testing.TB) *recorder {
	r := &recorder{got: make(chan request, 10_000)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// do sets what answers from now on; nil takes everything.
func (r *recorder) do(answer func(w http.ResponseWriter, req *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	got := request{req.Header.Clone(), string(body)}
	r.mu.Lock()
	answer := r.answer
	r.all = append(r.all, got)
	r.mu.Unlock()
	if answer != nil && answer(w, req) {
		return
	}
	w.WriteHeader(http.StatusNoContent)
	r.got <- got
}

func (r *recorder) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// patience is how long a test waits for what must come at once: less than what repairs a lost hint takes.
const patience = pollEvery - time.Second

// take returns the next n deliveries that were taken.
func (r *recorder) take(t testing.TB, n int) []request {
	t.Helper()
	timeout := time.After(patience)
	var out []request
	for len(out) < n {
		select {
		case q := <-r.got:
			out = append(out, q)
		case <-timeout:
			t.Fatalf("got %d deliveries of %d: %v", len(out), n, out)
		}
	}
	return out
}

// quiet fails if anything was taken that no take asked for.
func (r *recorder) quiet(t testing.TB) {
	t.Helper()
	select {
	case q := <-r.got:
		t.Errorf("one delivery too many: %s", q.body)
	default:
	}
}

// until waits for something that nothing tells of.
func until(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("it never came to be")
		}
	}
}

// hookWhen waits until the store's record of a webhook is as wanted.
func hookWhen(t testing.TB, s taskstore.Store, key taskstore.Key, id string, ok func(taskstore.Webhook) bool) (found taskstore.Webhook) {
	t.Helper()
	until(t, func() bool {
		hooks, err := s.Webhooks(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hooks {
			if h.Config.ID == id && ok(h) {
				found = h
				return true
			}
		}
		return false
	})
	return found
}

func done(h taskstore.Webhook) bool { return h.Done }

func wantBodies(t testing.TB, got []request, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d deliveries, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].body != want[i] {
			t.Errorf("delivery %d:\ngot  %s\nwant %s", i, got[i].body, want[i])
		}
	}
}

func bodies(records []taskstore.Record) (out []string) {
	for _, r := range records {
		out = append(out, string(r.JSON()))
	}
	return out
}
