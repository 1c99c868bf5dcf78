package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

var bob = taskstore.Scope{Agent: alice.Agent, Tenant: alice.Tenant, Owner: "issuer\x00bob"}

// end ends a task that nobody holds as COMPLETED.
func (f *fixture) end(id string) taskstore.Receipt {
	f.t.Helper()
	return f.set(id, a2a.TaskStateCompleted, f.tick())
}

func testSeize(t *testing.T, f *fixture) {
	k := f.key("a")
	f.create("a", "c", false)
	working := func() []taskstore.Record {
		return []taskstore.Record{statusRecord(k, a2a.TaskStateWorking, f.tick())}
	}
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, Claim: "n2", Seize: "n1"}) // nobody holds it
	one := f.commit(taskstore.Change{Key: k, Claim: "n1", Records: working()})
	f.commit(taskstore.Change{Key: k, Epoch: one.Epoch, Committed: true})
	before := f.task("a")
	f.refused(taskstore.ErrHeld, taskstore.Change{Key: k, Claim: "n2", Records: working()})
	f.refused(taskstore.ErrHeld, taskstore.Change{Key: k, Claim: "n2", Seize: "n3", Records: working()})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, Claim: "n2", Seize: "n1", IfHead: 1, Records: working()})
	if diff := cmp.Diff(before, f.task("a")); diff != "" {
		t.Errorf("a refused change left something:\n%s", diff)
	}
	two := f.commit(taskstore.Change{Key: k, Claim: "n2", Seize: "n1", Records: working()})
	if s := f.task("a"); s.Node != "n2" || s.Epoch != two.Epoch || two.Epoch <= one.Epoch || s.Committed {
		t.Errorf("after n2 seized the task: %+v, receipt %+v", s, two)
	}
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: one.Epoch, Records: working()})
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: one.Epoch, Committed: true})
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: one.Epoch, Release: true})
	f.refused(taskstore.ErrHeld, taskstore.Change{Key: k, Claim: "n3", Seize: "n1"}) // another was faster

	// Without records the task stays as it is.
	three := f.commit(taskstore.Change{Key: k, Claim: "n3", Seize: "n2"})
	if s := f.task("a"); s.Node != "n3" || three.Epoch <= two.Epoch || s.Generation != two.Generation {
		t.Errorf("after n3 seized the task: %+v", s)
	}
	f.refused(taskstore.ErrFenced, taskstore.Change{Key: k, Epoch: two.Epoch, Records: working()})
	f.commit(taskstore.Change{Key: k, Epoch: three.Epoch, Records: working()})

	// To seize and to end is one step.
	f.commit(taskstore.Change{Key: k, Claim: "n4", Seize: "n3", Records: []taskstore.Record{statusRecord(k, a2a.TaskStateFailed, f.tick())}})
	if s := f.task("a"); s.Node != "" || s.Task.Status.State != a2a.TaskStateFailed {
		t.Errorf("after n4 seized and ended the task: %+v", s)
	}
	f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Claim: "n5", Seize: "n4"})
}

func testSeizeLatched(t *testing.T, f *fixture) {
	k := f.key("a")
	f.create("a", "c", true)
	f.commit(taskstore.Change{Key: k, Latch: true})
	seize := func(states ...a2a.TaskState) taskstore.Change {
		c := taskstore.Change{Key: k, Claim: "n2", Seize: "node"}
		for _, s := range states {
			c.Records = append(c.Records, statusRecord(k, s, f.tick()))
		}
		return c
	}
	f.refused(taskstore.ErrLatched, seize())
	f.refused(taskstore.ErrLatched, seize(a2a.TaskStateWorking))
	f.refused(taskstore.ErrLatched, seize(a2a.TaskStateFailed))
	if s := f.task("a"); s.Node != "node" || !s.Latched || s.Generation != 1 {
		t.Errorf("a refused change left something: %+v", s)
	}
	f.commit(seize(a2a.TaskStateCanceled))
	if s := f.task("a"); s.Node != "" || s.Task.Status.State != a2a.TaskStateCanceled {
		t.Errorf("after the task was seized and canceled: %+v", s)
	}
}

func testUnsettled(t *testing.T, f *fixture) {
	claim := func(id, node string, state a2a.TaskState) {
		t.Helper()
		c := taskstore.Change{Key: f.key(id), Create: true, Claim: node, Records: []taskstore.Record{taskRecord(f.key(id), "c", f.tick())}}
		if state != a2a.TaskStateSubmitted {
			c.Records = append(c.Records, statusRecord(f.key(id), state, f.tick()))
		}
		f.commit(c)
	}
	f.create("g-never-started", "c", false)
	claim("a-held", "dead", a2a.TaskStateWorking)
	claim("e-held-not-started", "dead", a2a.TaskStateSubmitted)
	claim("c-held-asking", "dead", a2a.TaskStateInputRequired)
	claim("own", "me", a2a.TaskStateWorking)
	claim("own-not-started", "me", a2a.TaskStateSubmitted)
	claim("ended", "dead", a2a.TaskStateCompleted)
	claim("parked", "dead", a2a.TaskStateWorking)
	f.commit(taskstore.Change{Key: f.key("parked"), Epoch: 1, Release: true, Records: []taskstore.Record{statusRecord(f.key("parked"), a2a.TaskStateInputRequired, f.tick())}})
	for agent, scope := range map[string]taskstore.Scope{"echo": bob, "other": {Agent: "other", Owner: alice.Owner}} {
		k := taskstore.Key{Scope: scope, Task: "d-" + agent}
		f.commit(taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{taskRecord(k, "c", f.tick())}})
	}
	find := func(after string, limit int) (out []string) {
		t.Helper()
		keys, err := f.s.Unsettled(t.Context(), "echo", "me", after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			want := alice
			if k.Task == "d-echo" {
				want = bob
			}
			if k.Scope != want {
				t.Errorf("task %s has the scope %+v", k.Task, k.Scope)
			}
			out = append(out, k.Task)
		}
		return out
	}
	want := []string{"a-held", "c-held-asking", "d-echo", "e-held-not-started", "g-never-started"}
	for _, limit := range []int{1, 2, 3, 5, 100} {
		var got []string
		for {
			page := find(append([]string{""}, got...)[len(got)], limit)
			if len(page) == 0 {
				break
			}
			if len(page) > limit {
				t.Errorf("%d tasks, limit %d", len(page), limit)
			}
			got = append(got, page...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %d: Unsettled = %v, want %v", limit, got, want)
		}
	}
	if got := find("d-zzz", 1); !slices.Equal(got, []string{"e-held-not-started"}) {
		t.Errorf("after an id of no task: %v", got)
	}
	// What is taken up, or canceled, is settled.
	f.commit(taskstore.Change{Key: f.key("a-held"), Claim: "me", Seize: "dead"})
	f.commit(taskstore.Change{Key: f.key("g-never-started"), Claim: "me", Records: []taskstore.Record{statusRecord(f.key("g-never-started"), a2a.TaskStateWorking, f.tick())}})
	f.commit(taskstore.Change{Key: f.key("c-held-asking"), Claim: "me", Seize: "dead", Records: []taskstore.Record{statusRecord(f.key("c-held-asking"), a2a.TaskStateFailed, f.tick())}})
	if got := find("", 10); !slices.Equal(got, []string{"d-echo", "e-held-not-started"}) {
		t.Errorf("afterwards: %v", got)
	}
}

func testRequest(t *testing.T, f *fixture) {
	k := f.key("a")
	first, turn := taskRecord(k, "c", f.tick()), statusRecord(k, a2a.TaskStateWorking, f.tick())
	first.Request = []byte("\x00\xff not JSON")
	turn.Request, turn.Turn = []byte(`{"n":2}`), &a2a.Message{MessageID: "u", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("go on")}}
	r := f.commit(taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{first}})
	if string(r.Records[0].Request) != string(first.Request) {
		t.Errorf("the receipt has the request %q", r.Records[0].Request)
	}
	f.set("a", a2a.TaskStateInputRequired, f.tick())
	f.commit(taskstore.Change{Key: k, IfStatus: 2, Records: []taskstore.Record{turn}})
	f.commit(taskstore.Change{Key: k, Records: []taskstore.Record{chunkRecord(k, "x", "1", false)}})
	for i, want := range [][]byte{first.Request, nil, turn.Request, nil} {
		if rec := f.entries("a", int64(i), 1)[0]; string(rec.Request) != string(want) || (rec.Request == nil) != (want == nil) {
			t.Errorf("record %d has the request %q, want %q", i+1, rec.Request, want)
		}
	}
}

func (f *fixture) sent(scope taskstore.Scope, id string) *taskstore.Sent {
	f.t.Helper()
	s, err := f.s.Sent(f.t.Context(), scope, id)
	if err != nil {
		f.t.Fatalf("Sent: %v", err)
	}
	return s
}

var inAnHour = time.Now().UTC().Truncate(time.Millisecond).Add(time.Hour)

// message returns a message to be taken, with junk where the store writes.
func message(id string) *taskstore.Sent {
	m := &taskstore.Sent{MessageID: id, Expires: inAnHour, Task: "junk", Generation: 99}
	copy(m.Hash[:], "hash of "+id)
	m.Hash[31] = 0xff
	return m
}

func testSent(t *testing.T, f *fixture) {
	if s := f.sent(alice, "m1"); s != nil {
		t.Errorf("before anything was sent: %+v", s)
	}
	k := f.key("a")
	create := func(id, messageID string) taskstore.Change {
		return taskstore.Change{Key: f.key(id), Create: true, Sent: message(messageID), Records: []taskstore.Record{taskRecord(f.key(id), "c", f.tick()), statusRecord(f.key(id), a2a.TaskStateWorking, f.tick())}}
	}
	is := func(scope taskstore.Scope, messageID, task string, generation int64, reply []byte) {
		t.Helper()
		want := message(messageID)
		want.Task, want.Generation, want.Reply = task, generation, reply
		if diff := cmp.Diff(want, f.sent(scope, messageID)); diff != "" {
			t.Errorf("Sent of %s:\n%s", messageID, diff)
		}
	}
	f.commit(create("a", "m1"))
	is(alice, "m1", "a", 2, nil)

	// Before any other error, and nothing of the change happens.
	f.refused(taskstore.ErrSent, create("b", "m1"))
	f.refused(taskstore.ErrSent, create("a", "m1"))
	f.refused(taskstore.ErrSent, taskstore.Change{Key: k, IfHead: 7, Sent: message("m1")})
	f.refused(taskstore.ErrSent, taskstore.Change{Key: f.key("none"), Sent: message("m1")})
	f.refused(taskstore.ErrSent, taskstore.Change{Key: taskstore.Key{Scope: alice}, Sent: message("m1")})
	if h, err := f.s.Heads(t.Context(), []taskstore.Key{k, f.key("b")}); err != nil || !slices.Equal(h, []int64{2, 0}) {
		t.Errorf("Heads = %v, %v", h, err)
	}
	is(alice, "m1", "a", 2, nil)

	// Of a change that is refused for the rest of it nothing is recorded.
	f.refused(taskstore.ErrExists, create("a", "m2"))
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, IfHead: 7, Sent: message("m2"), Records: []taskstore.Record{chunkRecord(k, "x", "1", false)}})
	f.refused(taskstore.ErrNotFound, taskstore.Change{Key: f.key("none"), Sent: message("m2")})
	if s := f.sent(alice, "m2"); s != nil {
		t.Errorf("a refused change left the message %+v", s)
	}

	// Every caller has messages of his own.
	if s := f.sent(bob, "m1"); s != nil {
		t.Errorf("another caller sees the message %+v", s)
	}
	kb := taskstore.Key{Scope: bob, Task: "bobs"}
	f.commit(taskstore.Change{Key: kb, Create: true, Sent: message("m1"), Records: []taskstore.Record{taskRecord(kb, "c", f.tick())}})
	is(bob, "m1", "bobs", 1, nil)
	is(alice, "m1", "a", 2, nil)

	// A follow-up, with and without a record.
	f.commit(taskstore.Change{Key: k, Sent: message("m3"), Records: []taskstore.Record{chunkRecord(k, "x", "1", false), statusRecord(k, a2a.TaskStateInputRequired, f.tick())}})
	is(alice, "m3", "a", 4, nil)
	f.commit(taskstore.Change{Key: k, Claim: "n", Sent: message("m4")})
	is(alice, "m4", "a", 4, nil)

	// A message that was answered with a message needs no task.
	only := message("m5")
	only.Reply = []byte("\x00reply")
	carol := taskstore.Scope{Agent: "echo", Owner: "carol"} // who has no task
	for _, scope := range []taskstore.Scope{alice, carol} {
		if r := f.commit(taskstore.Change{Key: taskstore.Key{Scope: scope}, Sent: only}); r.Generation != 0 || r.Epoch != 0 || len(r.Records) > 0 {
			t.Errorf("the receipt of a message without a task: %+v", r)
		}
		is(scope, "m5", "", 0, only.Reply)
		f.refused(taskstore.ErrSent, taskstore.Change{Key: taskstore.Key{Scope: scope}, Sent: only})
	}
	f.refused(taskstore.ErrSent, create("c", "m5"))
	if p, err := f.s.List(t.Context(), taskstore.Query{Scope: carol, PageSize: 10}); err != nil || p.Total != 0 || len(p.Tasks) != 0 {
		t.Errorf("a message without a task made %+v, %v", p, err)
	}
}

func testSentExpires(t *testing.T, f *fixture) {
	until := func(id string, d time.Duration) *taskstore.Sent {
		m := message(id)
		m.Expires = time.Now().Add(d)
		return m
	}
	f.create("old", "c", false)
	f.commit(taskstore.Change{Key: f.key("a"), Create: true, Sent: until("m", time.Minute), Records: []taskstore.Record{taskRecord(f.key("a"), "c", f.tick())}})
	f.commit(taskstore.Change{Key: f.key("old"), Sent: until("long", time.Hour)})
	f.commit(taskstore.Change{Key: taskstore.Key{Scope: alice}, Sent: until("short", time.Minute)})

	<-time.After(time.Minute - time.Millisecond)
	f.refused(taskstore.ErrSent, taskstore.Change{Key: f.key("old"), Sent: until("m", time.Hour)})
	if e := f.expire(taskstore.Retention{Limit: 10}); e != (taskstore.Expired{}) {
		t.Errorf("before the time: %+v", e)
	}
	<-time.After(time.Millisecond)
	if s := f.sent(alice, "m"); s != nil {
		t.Errorf("at its time: %+v", s)
	}
	second := until("m", time.Hour)
	f.commit(taskstore.Change{Key: f.key("b"), Create: true, Sent: second, Records: []taskstore.Record{taskRecord(f.key("b"), "c", f.tick())}})
	if s := f.sent(alice, "m"); s == nil || s.Task != "b" || !s.Expires.Equal(second.Expires) {
		t.Errorf("taken anew: %+v", s)
	}
	// One that expires early waits for none that was taken before it and expires later.
	n := 0
	for more := true; more; {
		e := f.expire(taskstore.Retention{Limit: 1})
		n, more = n+e.Sent, e.More
	}
	if f.sent(alice, "m") == nil || f.sent(alice, "long") == nil || f.sent(alice, "short") != nil {
		t.Errorf("after %d messages were forgotten: m %v, long %v", n, f.sent(alice, "m"), f.sent(alice, "long"))
	}
	<-time.After(2 * time.Hour)
	for more := true; more; {
		e := f.expire(taskstore.Retention{Limit: 1})
		n, more = n+e.Sent, e.More
	}
	if n != 3 && n != 4 { // the one that was replaced need not be counted
		t.Errorf("%d messages were forgotten, want 3 or 4", n)
	}
}

func webhook(id, registration string) *taskstore.Webhook {
	return &taskstore.Webhook{
		Config: &a2a.TaskPushNotificationConfig{
			ID: id, URL: "https://example.com/" + id, Token: "token of " + registration,
			Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "secret"},
		},
		Registration: registration,
	}
}

func (f *fixture) webhooks(task string) []taskstore.Webhook {
	f.t.Helper()
	out, err := f.s.Webhooks(f.t.Context(), f.key(task))
	if err != nil {
		f.t.Fatalf("Webhooks: %v", err)
	}
	return out
}

// has compares a task's webhooks, in order, with those wanted.
func (f *fixture) has(task string, want ...*taskstore.Webhook) {
	f.t.Helper()
	all := make([]taskstore.Webhook, len(want))
	for i, h := range want {
		all[i] = *h
		all[i].Key = f.key(task)
	}
	got := append([]taskstore.Webhook{}, f.webhooks(task)...) // not nil
	if diff := cmp.Diff(all, got); diff != "" {
		f.t.Errorf("webhooks of task %s:\n%s", task, diff)
	}
}

func testWebhooks(t *testing.T, f *fixture) {
	k := f.key("a")
	c := taskstore.Change{Key: k, Create: true, Claim: "node", Webhook: webhook("w2", "r1"), Records: []taskstore.Record{taskRecord(k, "c", f.tick()), statusRecord(k, a2a.TaskStateWorking, f.tick())}}
	f.commit(c)
	if c.Webhook.Delivered != 0 || c.Webhook.Key != (taskstore.Key{}) {
		t.Errorf("Commit changed the caller's webhook: %+v", c.Webhook)
	}
	w2 := webhook("w2", "r1")
	w2.Delivered = 2 // the change's last record
	f.has("a", w2)
	before := f.webhooks("a")

	// In the order of their ids; a generation that was given is kept; nobody needs the lease; no record is written.
	w1 := webhook("w1", "r2")
	w1.Delivered = 1
	f.commit(taskstore.Change{Key: k, Webhook: w1})
	w3 := webhook("w3", "r3")
	r := f.commit(taskstore.Change{Key: k, Webhook: w3})
	if r.Generation != 2 || len(r.Records) > 0 || f.task("a").Generation != 2 {
		t.Errorf("a registration wrote records: %+v", r)
	}
	w3.Delivered = 2
	f.has("a", w1, w2, w3)

	// How far the delivery has come: that changes, and nothing else does.
	progress := taskstore.Webhook{
		Config: &a2a.TaskPushNotificationConfig{ID: "w2"}, Registration: "r1",
		Delivered: 3, Begun: true, Attempts: 2, Due: f.tick(), Failure: "503 Service Unavailable",
	}
	f.commit(taskstore.Change{Key: k, Delivered: &progress})
	w2.Delivered, w2.Begun, w2.Attempts, w2.Due, w2.Failure = 3, true, 2, progress.Due, progress.Failure
	f.has("a", w1, w2, w3)
	progress.Attempts, progress.Due, progress.Failure, progress.Delivered, progress.Done = 0, time.Time{}, "", 4, true
	f.commit(taskstore.Change{Key: k, Delivered: &progress})
	w2.Attempts, w2.Due, w2.Failure, w2.Delivered, w2.Done = 0, time.Time{}, "", 4, true
	f.has("a", w1, w2, w3)
	if len(before) != 1 || before[0].Begun || before[0].Delivered != 2 {
		t.Errorf("what a reader had was changed: %+v", before)
	}

	// A registration replaces the one of its id, and begins anew.
	again := webhook("w2", "r4")
	f.commit(taskstore.Change{Key: k, Webhook: again})
	again.Delivered = 2
	f.has("a", w1, again, w3)
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, Delivered: &progress})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, Delivered: webhook("none", "r4"), Records: []taskstore.Record{chunkRecord(k, "x", "1", false)}, Epoch: 1})
	f.has("a", w1, again, w3)

	// One that is gone is gone, also for those who remove it again.
	for range 2 {
		f.commit(taskstore.Change{Key: k, Unhook: "w3"})
		f.has("a", w1, again)
	}
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, Delivered: w3})
	f.commit(taskstore.Change{Key: k, Unhook: "w1", Webhook: webhook("w4", "r5"), Delivered: &taskstore.Webhook{Config: again.Config, Registration: "r4", Delivered: 2, Begun: true}})
	again.Begun = true
	w4 := webhook("w4", "r5")
	w4.Delivered = 2
	f.has("a", again, w4)

	// A refused change leaves none.
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, IfHead: 7, Webhook: webhook("w5", "r6")})
	f.refused(taskstore.ErrConflict, taskstore.Change{Key: k, IfHead: 7, Unhook: "w4"})
	f.refused(taskstore.ErrExists, taskstore.Change{Key: k, Create: true, Webhook: webhook("w5", "r6"), Records: []taskstore.Record{taskRecord(k, "c", f.tick())}})
	f.has("a", again, w4)
	if e := f.entries("a", 0, 10); len(e) != 2 {
		t.Errorf("the log has %d records, want 2", len(e))
	}
	f.create("b", "c", false)
	f.has("b")
}

func testWebhooksOfEnded(t *testing.T, f *fixture) {
	k := f.key("a")
	f.create("a", "c", false)
	f.commit(taskstore.Change{Key: k, Webhook: webhook("w1", "r1")})
	end := f.end("a")
	late := webhook("w2", "r2")
	f.commit(taskstore.Change{Key: k, Webhook: late})
	early := webhook("w1", "r1")
	early.Delivered, late.Delivered = 1, end.Generation
	f.has("a", early, late)
	early.Delivered, early.Begun, early.Done = end.Generation, true, true
	f.commit(taskstore.Change{Key: k, Delivered: early})
	f.has("a", early, late)
	f.commit(taskstore.Change{Key: k, Unhook: "w2"})
	f.has("a", early)
	f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Webhook: late, Records: []taskstore.Record{chunkRecord(k, "x", "1", false)}})
	f.has("a", early)
	if s := f.task("a"); s.Generation != end.Generation {
		t.Errorf("the log ends at %d, want %d", s.Generation, end.Generation)
	}
}

func testWebhooksForeign(t *testing.T, f *fixture) {
	f.create("a", "c", false)
	f.commit(taskstore.Change{Key: f.key("a"), Webhook: webhook("w", "r")})
	for name, k := range map[string]taskstore.Key{
		"owner":   {Scope: bob, Task: "a"},
		"agent":   {Scope: taskstore.Scope{Agent: "other", Tenant: alice.Tenant, Owner: alice.Owner}, Task: "a"},
		"tenant":  {Scope: taskstore.Scope{Agent: alice.Agent, Owner: alice.Owner}, Task: "a"},
		"no task": f.key("none"),
	} {
		if got, err := f.s.Webhooks(t.Context(), k); !errors.Is(err, taskstore.ErrNotFound) || len(got) > 0 {
			t.Errorf("%s: Webhooks = %+v, %v", name, got, err)
		}
		f.refused(taskstore.ErrNotFound, taskstore.Change{Key: k, Webhook: webhook("w", "r2")})
		f.refused(taskstore.ErrNotFound, taskstore.Change{Key: k, Delivered: webhook("w", "r")})
		f.refused(taskstore.ErrNotFound, taskstore.Change{Key: k, Unhook: "w"})
	}
	want := webhook("w", "r")
	want.Delivered = 1
	f.has("a", want)
}

// Whoever has tasks is found, once, in one order, with nothing left out at the end of a page; and whoever has none is not.
func testScopes(t *testing.T, f *fixture) {
	put := func(scope taskstore.Scope, ids ...string) {
		t.Helper()
		for _, id := range ids {
			k := taskstore.Key{Scope: scope, Task: id}
			f.commit(taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{taskRecord(k, "c-"+id, f.tick())}})
		}
	}
	find := func(agent string, after *taskstore.Scope, limit int) []taskstore.Scope {
		t.Helper()
		page, err := f.s.Scopes(t.Context(), agent, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	if got := find("echo", nil, 10); len(got) > 0 {
		t.Errorf("of an empty store: %+v", got)
	}
	want := []taskstore.Scope{ // as bytes: a NUL is before every letter, and é after them
		{Agent: "echo"},
		{Agent: "echo", Owner: "i\x00a"},
		{Agent: "echo", Owner: "i\x00a\x00"},
		{Agent: "echo", Owner: "i\x00ab"},
		{Agent: "echo", Owner: "i\x00é"},
		{Agent: "echo", Owner: "ia\x00a"},
		{Agent: "echo", Tenant: "T2", Owner: "i\x00a"},
		{Agent: "echo", Tenant: "t1"},
		{Agent: "echo", Tenant: "t1", Owner: "i\x00a"},
	}
	for i := range want { // the last comes first
		n := len(want) - 1 - i
		put(want[n], fmt.Sprintf("t%d-1", n), fmt.Sprintf("t%d-2", n), fmt.Sprintf("t%d-3", n))
	}
	put(taskstore.Scope{Agent: "ech", Owner: "i\x00z"}, "other-1")
	put(taskstore.Scope{Agent: "echo2", Tenant: "t0", Owner: "i\x00z"}, "other-2")
	// A message that was answered at once has a scope and no task.
	f.commit(taskstore.Change{Key: taskstore.Key{Scope: taskstore.Scope{Agent: "echo", Owner: "i\x00aa"}}, Sent: &taskstore.Sent{
		MessageID: "m", Reply: []byte("{}"), Expires: time.Now().Add(time.Hour),
	}})
	for _, limit := range []int{1, 2, 4, len(want), 100} {
		var got []taskstore.Scope
		for after := (*taskstore.Scope)(nil); ; after = &got[len(got)-1] {
			page := find("echo", after, limit)
			if len(page) > limit {
				t.Errorf("%d scopes, limit %d", len(page), limit)
			}
			if len(page) == 0 || len(got) > len(want) {
				break
			}
			got = append(got, page...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %d (-want +got):\n%s", limit, diff)
		}
	}
	if got := find("echo", &taskstore.Scope{Agent: "echo", Owner: "i\x00aa"}, 1); len(got) != 1 || got[0] != want[3] {
		t.Errorf("after one that is not there: %+v", got)
	}
	if got := find("echo2", nil, 10); len(got) != 1 || got[0].Tenant != "t0" {
		t.Errorf("of another agent: %+v", got)
	}
	// Whose tasks are all forgotten has none.
	for _, id := range []string{"t6-1", "t6-2", "t6-3", "t7-1"} {
		k := taskstore.Key{Scope: want[6], Task: id}
		if id == "t7-1" {
			k.Scope = want[7]
		}
		f.commit(taskstore.Change{Key: k, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateRejected, f.tick())}})
	}
	for more := true; more; {
		gone, err := f.s.Expire(t.Context(), taskstore.Retention{Tasks: f.tick(), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		more = gone.More
	}
	if diff := cmp.Diff(slices.Delete(slices.Clone(want), 6, 7), find("echo", nil, 100)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

func testOutbox(t *testing.T, f *fixture) {
	put := func(k taskstore.Key, ids ...string) {
		f.commit(taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{taskRecord(k, "c", f.tick())}})
		for _, id := range ids {
			f.commit(taskstore.Change{Key: k, Webhook: webhook(id, "r-"+id)})
		}
	}
	put(f.key("t3"), "w1")
	put(f.key("t1"), "w2", "w1", "w3")
	put(taskstore.Key{Scope: bob, Task: "t2"}, "w9", "w0")
	put(taskstore.Key{Scope: taskstore.Scope{Agent: "other", Owner: alice.Owner}, Task: "t0"}, "w1")
	put(f.key("t4"))
	find := func(task, id string, limit int) (out []string) {
		t.Helper()
		hooks, err := f.s.Outbox(t.Context(), "echo", task, id, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hooks {
			want := webhook(h.Config.ID, "r-"+h.Config.ID)
			want.Key, want.Delivered = taskstore.Key{Scope: alice, Task: h.Key.Task}, 1
			if h.Key.Task == "t2" {
				want.Key.Scope = bob
			}
			if diff := cmp.Diff(*want, h); diff != "" {
				t.Errorf("webhook %s of task %s:\n%s", h.Config.ID, h.Key.Task, diff)
			}
			out = append(out, h.Key.Task+" "+h.Config.ID)
		}
		return out
	}
	pages := func(limit int) (all []string) {
		task, id := "", ""
		for {
			page := find(task, id, limit)
			if len(page) > limit {
				t.Errorf("%d webhooks, limit %d", len(page), limit)
			}
			if len(page) == 0 {
				return all
			}
			all = append(all, page...)
			if _, err := fmt.Sscan(page[len(page)-1], &task, &id); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, limit := range []int{1, 2, 3, 100} {
		want := []string{"t1 w1", "t1 w2", "t1 w3", "t2 w0", "t2 w9", "t3 w1"}
		if got := pages(limit); !slices.Equal(got, want) {
			t.Errorf("by %d: Outbox = %v, want %v", limit, got, want)
		}
	}
	if got := find("t1", "w2x", 1); !slices.Equal(got, []string{"t1 w3"}) {
		t.Errorf("after an id that is not there: %v", got)
	}
	// Those that are done, or gone, are left out; the end of a task is the end of none.
	f.commit(taskstore.Change{Key: f.key("t1"), Delivered: &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: "w1"}, Registration: "r-w1", Delivered: 1, Done: true}})
	f.commit(taskstore.Change{Key: f.key("t1"), Unhook: "w2"})
	f.end("t3")
	if got, want := pages(2), []string{"t1 w3", "t2 w0", "t2 w9", "t3 w1"}; !slices.Equal(got, want) {
		t.Errorf("afterwards: %v, want %v", got, want)
	}
	f.commit(taskstore.Change{Key: f.key("t1"), Webhook: webhook("w1", "r-w1")})
	if got := find("", "", 1); !slices.Equal(got, []string{"t1 w1"}) {
		t.Errorf("one that was done and registered anew: %v", got)
	}
}

// testOneSent sends a message many times at once, and seizes a task many times at once.
func testOneSent(t *testing.T, f *fixture) {
	f.create("held", "c", true)
	var wg sync.WaitGroup
	const n = 16
	sent, seized := make(chan string, n), make(chan int64, n)
	for i := range n {
		wg.Go(func() {
			id := fmt.Sprint("t", i)
			_, err := f.s.Commit(t.Context(), taskstore.Change{Key: f.key(id), Create: true, Sent: message("m"), Records: []taskstore.Record{taskRecord(f.key(id), "c", f.clock)}})
			if err == nil {
				sent <- id
			} else if !errors.Is(err, taskstore.ErrSent) {
				t.Errorf("Commit: %v", err)
			}
			r, err := f.s.Commit(t.Context(), taskstore.Change{Key: f.key("held"), Claim: id, Seize: "node"})
			if err == nil {
				seized <- r.Epoch
			} else if !errors.Is(err, taskstore.ErrHeld) {
				t.Errorf("Commit: %v", err)
			}
		})
	}
	wg.Wait()
	if len(sent) != 1 || len(seized) != 1 {
		t.Fatalf("%d messages were taken, and %d leases", len(sent), len(seized))
	}
	if s, id := f.sent(alice, "m"), <-sent; s == nil || s.Task != id {
		t.Errorf("Sent = %+v, want that of %s", s, id)
	}
	if p := f.list(taskstore.Query{PageSize: 100}); p.Total != 2 || len(p.Tasks) != 2 {
		t.Errorf("%d tasks, want 2", p.Total)
	}
}

// testOutboxWhileWriting delivers what many tasks register, while they do.
func testOutboxWhileWriting(t *testing.T, f *fixture) {
	const writers, each = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				k := f.key(fmt.Sprintf("w%d-%02d", w, i))
				_, err := f.s.Commit(t.Context(), taskstore.Change{Key: k, Create: true, Webhook: webhook("h", k.Task), Records: []taskstore.Record{taskRecord(k, "c", f.clock)}})
				if err == nil && i%5 == 0 {
					_, err = f.s.Commit(t.Context(), taskstore.Change{Key: k, Webhook: webhook("h", "again-"+k.Task)})
				}
				if err != nil {
					t.Errorf("Commit: %v", err)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { wg.Wait(); stop() }()
	done := map[string]int{}
	for ended := false; !ended; {
		ended = ctx.Err() != nil // then one more round finds the rest
		task, id := "", ""
		for {
			hooks, err := f.s.Outbox(t.Context(), "echo", task, id, 7)
			if err != nil {
				t.Fatal(err)
			}
			if len(hooks) == 0 {
				break
			}
			for _, h := range hooks {
				task, id = h.Key.Task, h.Config.ID
				h.Done = true
				_, err := f.s.Commit(t.Context(), taskstore.Change{Key: h.Key, Delivered: &h})
				switch {
				case err == nil:
					done[h.Key.Task+h.Registration]++
				case !errors.Is(err, taskstore.ErrConflict):
					t.Errorf("Commit: %v", err)
				}
			}
		}
	}
	wg.Wait()
	for w := range writers {
		for i := range each {
			task := fmt.Sprintf("w%d-%02d", w, i)
			last := task
			if i%5 == 0 {
				last = "again-" + task
			}
			if done[task+last] != 1 {
				t.Errorf("the last registration of %s was done %d times", task, done[task+last])
			}
		}
	}
}
