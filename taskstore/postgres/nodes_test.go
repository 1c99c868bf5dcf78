//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// two opens two stores on a new database, each a node.
func two(t *testing.T) (a, b *Store) {
	c := need(t)
	url := c.URL(c.Dir, c.database(t))
	a, b = open(t, url, Options{}), open(t, url, Options{})
	join(t, a, "a")
	join(t, b, "b")
	return a, b
}

func TestOneTaskTwoNodes(t *testing.T) {
	a, b := two(t)
	r := begin(t, a, "t", "a")
	if _, err := a.Join(t.Context(), "b"); err == nil {
		t.Error("two nodes have one name")
	}

	// What one commits the other has at once, whatever it had in memory before.
	if s := task(t, b, "t"); s.Node != "a" || s.Generation != 2 {
		t.Errorf("the other node has %+v", s)
	}
	commit(t, a, chunk("t", r.Epoch, "1"))
	if s := task(t, b, "t"); s.Generation != 3 || s.Task.Artifacts[0].Text() != "1" {
		t.Errorf("the other node has %+v", s)
	}

	// The lease is the holder's as long as it is alive, whoever says otherwise.
	refused(t, b, taskstore.ErrHeld, taskstore.Change{Key: key("t"), Claim: "b"})
	refused(t, b, taskstore.ErrHeld, taskstore.Change{Key: key("t"), Claim: "b", Seize: "a"})
	refused(t, b, taskstore.ErrHeld, chunk("t", 0, "2"))
	refused(t, b, taskstore.ErrFenced, chunk("t", r.Epoch+1, "2"))
	if got := unsettled(t, b, "b"); len(got) > 0 {
		t.Errorf("Unsettled = %v while its node is alive", got)
	}

	// A cancel on the other node.
	commit(t, b, taskstore.Change{Key: key("t"), Latch: true})
	if !task(t, a, "t").Latched {
		t.Error("the holder does not see the latch")
	}
	refused(t, a, taskstore.ErrLatched, taskstore.Change{Key: key("t"), Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(key("t"), a2a.TaskStateCompleted, now())}})

	// An answer there is in the log here.
	r = begin(t, a, "asks", "a")
	ask := commit(t, a, taskstore.Change{Key: key("asks"), Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(key("asks"), a2a.TaskStateInputRequired, now())}})
	answer := statusRecord(key("asks"), a2a.TaskStateWorking, now())
	answer.Turn = &a2a.Message{MessageID: "answer", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("yes")}}
	commit(t, b, taskstore.Change{Key: key("asks"), IfStatus: ask.Generation, Records: []taskstore.Record{answer}})
	log, err := a.Entries(t.Context(), key("asks"), ask.Generation, 10)
	if err != nil || len(log) != 1 || log[0].Turn == nil {
		t.Errorf("the answer in the log: %+v, %v", log, err)
	}
	if s := commit(t, a, taskstore.Change{Key: key("asks"), Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(key("asks"), a2a.TaskStateCompleted, now())}}); s.Generation != 5 {
		t.Errorf("the end is record %d", s.Generation)
	}
	if log, err = a.Entries(t.Context(), key("asks"), 1, 10); err != nil || len(log) != 4 || log[2].Turn == nil || log[3].Generation != 5 {
		t.Errorf("the log of the one who wrote the end: %+v, %v", log, err)
	}
	for _, s := range []*Store{a, b} {
		if h := task(t, s, "asks").Task.History; len(h) != 2 || h[1].MessageID != "answer" {
			t.Errorf("the history is %+v", h)
		}
	}

	// A webhook that one registers the other may deliver, and only once.
	hook := &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: "w", URL: "https://example.com/"}, Registration: "r"}
	commit(t, a, taskstore.Change{Key: key("asks"), Webhook: hook})
	for _, s := range []*Store{b, a} {
		box, err := s.Outbox(t.Context(), alice.Agent, "", "", 10)
		if err != nil || len(box) != 1 || box[0].Registration != "r" {
			t.Fatalf("Outbox = %+v, %v", box, err)
		}
	}
	done := *hook
	done.Done = true
	commit(t, b, taskstore.Change{Key: key("asks"), Delivered: &done})
	if box, err := a.Outbox(t.Context(), alice.Agent, "", "", 10); err != nil || len(box) > 0 {
		t.Errorf("Outbox after the delivery = %+v, %v", box, err)
	}
	counted(t, a)
}

// TestHints follows a task on the node that does not run it. Records come by their hints; one that is lost, which may
// happen on a busy machine, is found by the follower's question.
func TestHints(t *testing.T) {
	a, b := two(t)
	fl := taskstore.NewFollower(b, time.Second)
	defer fl.Close(context.Canceled)
	heard := make(chan string, 10_000)
	stop := b.Notify(func(task string) { heard <- task })
	defer stop()
	r := begin(t, a, "t", "a")
	for listening := false; !listening; { // LISTEN takes a moment to begin
		commit(t, a, chunk("t", r.Epoch, "0"))
		select {
		case <-heard:
			listening = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	got := make(chan taskstore.Record)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from := task(t, a, "t").Generation // before anything that has to come
	go func() {
		for rec, err := range fl.Follow(ctx, key("t"), from) {
			if err != nil {
				return
			}
			got <- rec
		}
	}()
	for i := range 20 {
		r := commit(t, a, chunk("t", r.Epoch, fmt.Sprint(i)))
		if rec := soon(t, got, 10*time.Second); rec.Generation != r.Generation {
			t.Fatalf("record %d came, want %d", rec.Generation, r.Generation)
		}
	}
}

// TestNodesAtOnce has two nodes write to the same tasks, contexts and counters at once.
func TestNodesAtOnce(t *testing.T) {
	a, b := two(t)
	const writers, each = 8, 40
	var wg sync.WaitGroup
	var mu sync.Mutex
	claimed, took := map[string]int{}, map[string]int{}
	for w := range writers {
		for _, s := range []*Store{a, b} {
			wg.Go(func() {
				name := map[*Store]string{a: "a", b: "b"}[s]
				for i := range each {
					id := fmt.Sprintf("%d-%d", w, i)
					_, err := s.Commit(t.Context(), taskstore.Change{
						Key: key(id), Create: true, Claim: name, Records: []taskstore.Record{taskRecord(key(id), now())},
						Values: map[string]string{"by": name}, Sent: &taskstore.Sent{MessageID: "m" + id, Expires: now().Add(time.Hour)},
					})
					switch {
					case err == nil:
						mu.Lock()
						claimed[id]++
						mu.Unlock()
					case !errors.Is(err, taskstore.ErrExists) && !errors.Is(err, taskstore.ErrSent):
						t.Errorf("create: %v", err)
					}
					_, err = s.Commit(t.Context(), taskstore.Change{Key: key(id), Epoch: 1, IfHead: 1, Records: []taskstore.Record{statusRecord(key(id), a2a.TaskStateCompleted, now())}})
					switch {
					case err == nil:
						mu.Lock()
						took[id]++
						mu.Unlock()
					case !errors.Is(err, taskstore.ErrTerminal):
						t.Errorf("end: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	for id, n := range claimed {
		if n != 1 || took[id] != 1 {
			t.Errorf("task %s was made %d times and ended %d times", id, n, took[id])
		}
	}
	if len(claimed) != writers*each {
		t.Errorf("%d tasks, want %d", len(claimed), writers*each)
	}
	p, err := b.List(t.Context(), taskstore.Query{Scope: alice, PageSize: 10, Status: a2a.TaskStateCompleted})
	if err != nil || p.Total != writers*each {
		t.Errorf("total %d, %v", p.Total, err)
	}
	counted(t, a)
}

// TestCutOff cuts a node off from the database: it learns so before another may take over, and is refused afterwards.
func TestCutOff(t *testing.T) {
	c := need(t)
	name := c.database(t)
	w := newWire(t, c)
	a, b := open(t, c.URL(w.dir, name), Options{}), open(t, c.URL(c.Dir, name), Options{})
	lost := join(t, a, "a")
	alive := join(t, b, "b")
	r := begin(t, a, "t", "a")
	begin(t, b, "own", "b")

	cut := time.Now()
	w.set(true)
	soon(t, lost, ttl)
	if d := time.Since(cut); d > ttl-margin+time.Second {
		t.Errorf("the node noticed after %v", d)
	}
	refused(t, b, taskstore.ErrHeld, taskstore.Change{Key: key("t"), Claim: "b", Seize: "a"})
	if got := unsettled(t, b, "b"); len(got) > 0 {
		t.Errorf("Unsettled = %v when the node has just ended its runs", got)
	}
	w.set(false) // it is back, but nobody has taken over yet
	refused(t, a, taskstore.ErrFenced, chunk("t", r.Epoch, "late"))
	refused(t, a, taskstore.ErrFenced, taskstore.Change{Key: key("new"), Create: true, Claim: "a", Records: []taskstore.Record{taskRecord(key("new"), now())}})

	for tick := time.NewTicker(200 * time.Millisecond); len(unsettled(t, b, "b")) == 0; <-tick.C {
		if time.Since(cut) > 15*time.Second {
			t.Fatal("the tasks of the node that is gone are not found within 15 s")
		}
	}
	if got := unsettled(t, b, "b"); !slices.Equal(got, []string{"t"}) {
		t.Errorf("Unsettled = %v", got)
	}
	two := commit(t, b, taskstore.Change{Key: key("t"), Claim: "b", Seize: "a", Records: []taskstore.Record{statusRecord(key("t"), a2a.TaskStateFailed, now())}})
	if two.Epoch <= r.Epoch {
		t.Errorf("epoch %d after %d", two.Epoch, r.Epoch)
	}
	select {
	case <-alive:
		t.Error("the other node thinks that it is gone")
	default:
	}
	join(t, a, "a2")
	begin(t, a, "again", "a2")
	if _, err := b.Join(t.Context(), "a"); err == nil {
		t.Error("a node came back under its name")
	}
}

// TestExpiredNode has a node write whose time is over by the database's clock alone: its process was stopped, say, and
// has not noticed.
func TestExpiredNode(t *testing.T) {
	a, b := two(t)
	r := begin(t, a, "t", "a")
	if _, err := b.pool.Exec(t.Context(), "UPDATE nodes SET expires_at = clock_timestamp() WHERE node = 'a'"); err != nil {
		t.Fatal(err)
	}
	refused(t, a, taskstore.ErrFenced, chunk("t", r.Epoch, "late"))
	refused(t, a, taskstore.ErrFenced, taskstore.Change{Key: key("t"), Epoch: r.Epoch, Release: true})
	if got := unsettled(t, b, "b"); !slices.Equal(got, []string{"t"}) {
		t.Errorf("Unsettled = %v", got)
	}
	a.mu.RLock()
	m := a.members["a"]
	a.mu.RUnlock()
	soon(t, m.lost, 2*beat)
	commit(t, b, taskstore.Change{Key: key("t"), Claim: "b", Seize: "a"})
}

// TestClose gives up the leases of a node at once.
func TestClose(t *testing.T) {
	a, b := two(t)
	begin(t, a, "t", "a")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := unsettled(t, b, "b"); !slices.Equal(got, []string{"t"}) {
		t.Errorf("Unsettled = %v", got)
	}
	if _, err := a.Commit(t.Context(), chunk("t", 1, "late")); !errors.Is(err, ErrClosed) {
		t.Errorf("Commit after Close: %v", err)
	}
	if _, err := a.Task(t.Context(), key("t"), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Task after Close: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

// TestLatched tells a node what others asked it to cancel.
func TestLatched(t *testing.T) {
	a, b := two(t)
	begin(t, a, "t", "a")
	begin(t, a, "u", "a")
	begin(t, b, "v", "b")
	commit(t, b, taskstore.Change{Key: key("t"), Latch: true})
	commit(t, a, taskstore.Change{Key: key("v"), Latch: true})
	for node, want := range map[string]string{"a": "t", "b": "v"} {
		got, err := b.Latched(t.Context(), node)
		if err != nil || len(got) != 1 || got[0] != key(want) {
			t.Errorf("Latched(%s) = %v, %v", node, got, err)
		}
	}
}

// TestTakeWebhooks gives each webhook to one node, and those of a node that is gone to another.
func TestTakeWebhooks(t *testing.T) {
	a, b := two(t)
	take := func(s *Store, node string, limit int) (ids []string) {
		t.Helper()
		hooks, err := s.TakeWebhooks(t.Context(), alice.Agent, node, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hooks {
			if h.Node != node || h.Key != key("t") {
				t.Errorf("taken: %+v", h)
			}
			ids = append(ids, h.Config.ID)
		}
		slices.Sort(ids)
		return ids
	}
	begin(t, a, "t", "a")
	hook := func(id, node string) *taskstore.Webhook {
		h := &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: id, URL: "https://example.com/"}, Registration: "r" + id, Node: node}
		commit(t, a, taskstore.Change{Key: key("t"), Webhook: h})
		return h
	}
	mine := hook("1", "a")
	hook("2", "")
	hook("3", "never joined")
	if got := take(b, "b", 1); len(got) != 1 {
		t.Errorf("one of two: %v", got)
	}
	take(b, "b", 10)
	if got := take(b, "b", 10); len(got) > 0 {
		t.Errorf("taken again: %v", got)
	}
	mine.Delivered, mine.Begun = 2, true
	commit(t, a, taskstore.Change{Key: key("t"), Delivered: mine})
	if err := a.Leave(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := take(b, "b", 10); !slices.Equal(got, []string{"1"}) {
		t.Errorf("of the one that has left: %v", got)
	}
	refused(t, a, taskstore.ErrConflict, taskstore.Change{Key: key("t"), Delivered: mine})
	hooks, err := b.Webhooks(t.Context(), key("t"))
	if err != nil || len(hooks) != 3 || hooks[0].Node != "b" || !hooks[0].Begun {
		t.Errorf("Webhooks = %+v, %v", hooks, err)
	}
}
