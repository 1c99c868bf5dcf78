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

func (f *fixture) expire(r taskstore.Retention) taskstore.Expired {
	f.t.Helper()
	e, err := f.s.Expire(f.t.Context(), r)
	if err != nil {
		f.t.Fatalf("Expire: %v", err)
	}
	return e
}

// expireAll takes steps until there is nothing more, and returns what all of them did.
func (f *fixture) expireAll(r taskstore.Retention) (all taskstore.Expired) {
	f.t.Helper()
	for range 10_000 {
		e := f.expire(r)
		if e.Tasks+e.Logs > r.Limit {
			f.t.Errorf("a step touched %+v, limit %d", e, r.Limit)
		}
		all.Tasks, all.Logs, all.Contexts, all.Sent = all.Tasks+e.Tasks, all.Logs+e.Logs, all.Contexts+e.Contexts, all.Sent+e.Sent
		if !e.More {
			return all
		}
	}
	f.t.Fatal("Expire always says that there is more")
	return all
}

// ended makes tasks that end one after the other, each with an artifact, and returns the time at which each ended.
func (f *fixture) ended(ids ...string) []time.Time {
	f.t.Helper()
	times := make([]time.Time, len(ids))
	for i, id := range ids {
		f.create(id, "c", false)
		f.commit(taskstore.Change{Key: f.key(id), Records: []taskstore.Record{chunkRecord(f.key(id), "x", "of "+id, false)}})
		f.end(id)
		times[i] = f.clock
	}
	return times
}

// gone looks that nothing shows a task, and that its id is free.
func (f *fixture) gone(id string) {
	f.t.Helper()
	k := f.key(id)
	if _, err := f.s.Task(f.t.Context(), k, 0); !errors.Is(err, taskstore.ErrNotFound) {
		f.t.Errorf("Task of %s: %v", id, err)
	}
	if _, err := f.s.Entries(f.t.Context(), k, 0, 10); !errors.Is(err, taskstore.ErrNotFound) {
		f.t.Errorf("Entries of %s: %v", id, err)
	}
	if _, err := f.s.Webhooks(f.t.Context(), k); !errors.Is(err, taskstore.ErrNotFound) {
		f.t.Errorf("Webhooks of %s: %v", id, err)
	}
	if h, err := f.s.Heads(f.t.Context(), []taskstore.Key{k}); err != nil || h[0] != 0 {
		f.t.Errorf("Heads of %s: %v, %v", id, h, err)
	}
	f.refused(taskstore.ErrNotFound, taskstore.Change{Key: k, Webhook: webhook("w", "r")})
}

// lists compares all lists and totals with the ids wanted, newest first.
func (f *fixture) lists(want ...string) {
	f.t.Helper()
	for _, q := range []taskstore.Query{
		{},
		{ContextID: "c"},
		{After: f.clock.Add(-30 * 24 * time.Hour)},
		{Artifacts: true},
	} {
		q.PageSize, q.HistoryLength = 100, -1
		p := f.list(q)
		if !slices.Equal(ids(p.Tasks), want) || p.Total != len(want) {
			f.t.Errorf("List of %+v: %v, total %d, want %v", q, ids(p.Tasks), p.Total, want)
		}
	}
}

func testExpireTasks(t *testing.T, f *fixture) {
	f.create("open", "c", false)
	f.create("parked", "c", false)
	f.set("parked", a2a.TaskStateInputRequired, f.tick())
	at := f.ended("t0", "t1", "t2", "t3", "t4")
	f.commit(taskstore.Change{Key: f.key("t0"), Sent: message("m")})
	all := []string{"t4", "t3", "t2", "t1", "t0", "parked", "open"}
	f.lists(all...)
	if e := f.expireAll(taskstore.Retention{Limit: 10}); e != (taskstore.Expired{}) {
		t.Errorf("times of zero forgot %+v", e)
	}
	if e := f.expireAll(taskstore.Retention{Tasks: at[0], Limit: 10}); e != (taskstore.Expired{}) {
		t.Errorf("one that ended at the time was forgotten: %+v", e)
	}
	f.lists(all...)
	// Three are due: two, and then one.
	r := taskstore.Retention{Tasks: at[2].Add(time.Millisecond), Limit: 2}
	if e := f.expire(r); e != (taskstore.Expired{Tasks: 2, More: true}) {
		t.Errorf("the first step: %+v", e)
	}
	f.gone("t0")
	f.gone("t1")
	f.lists("t4", "t3", "t2", "parked", "open")
	if e := f.expire(r); e != (taskstore.Expired{Tasks: 1}) {
		t.Errorf("the second step: %+v", e)
	}
	f.gone("t2")
	f.lists("t4", "t3", "parked", "open")
	if n, err := f.s.Count(t.Context(), alice, a2a.TaskStateCompleted, a2a.TaskStateSubmitted, a2a.TaskStateInputRequired); err != nil || n != 4 {
		t.Errorf("Count = %d, %v", n, err)
	}
	if p := f.list(taskstore.Query{PageSize: 10, Status: a2a.TaskStateCompleted}); p.Total != 2 || len(p.Tasks) != 2 {
		t.Errorf("List of COMPLETED: total %d, %d tasks", p.Total, len(p.Tasks))
	}
	if e := f.expire(r); e != (taskstore.Expired{}) {
		t.Errorf("the third step: %+v", e)
	}
	if s := f.sent(alice, "m"); s != nil {
		t.Errorf("the message of a task that was forgotten: %+v", s)
	}
	f.commit(taskstore.Change{Key: f.key("t0"), Create: true, Sent: message("m"), Records: []taskstore.Record{taskRecord(f.key("t0"), "c", f.tick())}})
	f.has("t0")
	f.lists("t0", "t4", "t3", "parked", "open")
	if s := f.sent(alice, "m"); s == nil || s.Task != "t0" || s.Generation != 1 {
		t.Errorf("the message sent anew: %+v", s)
	}
	// However long ago, what has not ended stays.
	f.expireAll(taskstore.Retention{Tasks: f.tick().Add(time.Hour), Logs: f.tick().Add(time.Hour), Limit: 1})
	f.lists("t0", "parked", "open")
	if s := f.entries("parked", 0, 10); len(s) != 2 {
		t.Errorf("the log of a parked task has %d records", len(s))
	}
}

func testExpireLogs(t *testing.T, f *fixture) {
	f.create("open", "c", false)
	at := f.ended("t0", "t1", "t2")
	var before []taskstore.Snapshot
	for i := range at {
		before = append(before, f.task(fmt.Sprint("t", i)))
	}
	full := taskstore.Query{PageSize: 10, HistoryLength: -1, Artifacts: true}
	listed := f.list(full)
	r := taskstore.Retention{Logs: at[1].Add(time.Millisecond), Limit: 1}
	if e := f.expire(r); e != (taskstore.Expired{Logs: 1, More: true}) {
		t.Errorf("the first step: %+v", e)
	}
	if e := f.expire(r); e != (taskstore.Expired{Logs: 1}) {
		t.Errorf("the second step: %+v", e)
	}
	if e := f.expire(r); e != (taskstore.Expired{}) {
		t.Errorf("the third step: %+v", e)
	}
	fl := taskstore.NewFollower(f.s, time.Second)
	defer fl.Close(context.Canceled)
	for i, want := range before {
		id := fmt.Sprint("t", i)
		k := f.key(id)
		if diff := cmp.Diff(want, f.task(id)); diff != "" {
			t.Errorf("task %s changed:\n%s", id, diff)
		}
		if s, err := f.s.Task(t.Context(), k, 3); err != nil || s.Generation != 3 {
			t.Errorf("task %s at its end: %+v, %v", id, s, err)
		}
		if e, err := f.s.Entries(t.Context(), k, 3, 10); err != nil || len(e) != 0 {
			t.Errorf("task %s after its end: %v, %v", id, e, err)
		}
		if h, err := f.s.Heads(t.Context(), []taskstore.Key{k}); err != nil || h[0] != 3 {
			t.Errorf("the head of %s: %v, %v", id, h, err)
		}
		f.refused(taskstore.ErrTerminal, taskstore.Change{Key: k, Claim: "n"})
		f.commit(taskstore.Change{Key: k, Webhook: webhook("w", "r")}) // gets the task as it is
		hook := webhook("w", "r")
		hook.Delivered = 3
		f.has(id, hook)
		f.commit(taskstore.Change{Key: k, Unhook: "w"})
		if i == 2 { // not due
			if e := f.entries(id, 0, 10); len(e) != 3 {
				t.Errorf("task %s has %d records", id, len(e))
			}
			continue
		}
		for after := range int64(3) {
			if e, err := f.s.Entries(t.Context(), k, after, 10); !errors.Is(err, taskstore.ErrTrimmed) {
				t.Errorf("task %s after %d: %v, %v", id, after, e, err)
			}
		}
		for at := int64(1); at < 3; at++ {
			if s, err := f.s.Task(t.Context(), k, at); !errors.Is(err, taskstore.ErrTrimmed) {
				t.Errorf("task %s at %d: %+v, %v", id, at, s, err)
			}
		}
		for _, err := range fl.Follow(t.Context(), k, 0) {
			if !errors.Is(err, taskstore.ErrTrimmed) {
				t.Errorf("Follow of %s: %v", id, err)
			}
			break
		}
	}
	if diff := cmp.Diff(listed, f.list(full)); diff != "" {
		t.Errorf("the list changed:\n%s", diff)
	}
	// A task whose log is gone is forgotten like any other, and both count as touched.
	e := f.expire(taskstore.Retention{Tasks: at[0].Add(time.Millisecond), Logs: at[2].Add(time.Millisecond), Limit: 2})
	if e != (taskstore.Expired{Tasks: 1, Logs: 1}) {
		t.Errorf("a task and a log: %+v", e)
	}
	f.gone("t0")
	f.lists("t2", "t1", "open")
	if e := f.expireAll(taskstore.Retention{Tasks: f.tick(), Logs: f.clock, Limit: 1}); e != (taskstore.Expired{Tasks: 2}) {
		t.Errorf("the rest: %+v", e)
	}
	f.lists("open")
}

func testExpireWebhooks(t *testing.T, f *fixture) {
	at := f.ended("t0", "t1", "t2", "t3")
	f.commit(taskstore.Change{Key: f.key("t0"), Webhook: webhook("w1", "r1")})
	f.commit(taskstore.Change{Key: f.key("t0"), Webhook: webhook("w2", "r2")})
	f.commit(taskstore.Change{Key: f.key("t1"), Webhook: webhook("w", "r")})
	done := func(task, id, registration string) {
		f.commit(taskstore.Change{Key: f.key(task), Delivered: &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: id}, Registration: registration, Delivered: 3, Done: true}})
	}
	r := taskstore.Retention{Logs: at[2].Add(time.Millisecond), Limit: 1}
	if e := f.expireAll(r); e != (taskstore.Expired{Logs: 1}) {
		t.Errorf("logs: %+v", e)
	}
	for _, id := range []string{"t0", "t1"} {
		if e := f.entries(id, 0, 10); len(e) != 3 {
			t.Errorf("the log of a task with an open webhook has %d records", len(e))
		}
	}
	r = taskstore.Retention{Tasks: r.Logs, Logs: r.Logs, Limit: 1}
	if e := f.expireAll(r); e != (taskstore.Expired{Tasks: 1}) {
		t.Errorf("tasks: %+v", e)
	}
	f.lists("t3", "t1", "t0")
	done("t0", "w1", "r1")
	f.commit(taskstore.Change{Key: f.key("t1"), Unhook: "w"})
	if e := f.expireAll(r); e != (taskstore.Expired{Tasks: 1}) {
		t.Errorf("when the webhook of t1 was removed: %+v", e)
	}
	f.gone("t1")
	done("t0", "w2", "r2")
	if e := f.expireAll(r); e != (taskstore.Expired{Tasks: 1}) {
		t.Errorf("when those of t0 were done: %+v", e)
	}
	f.gone("t0")
	f.lists("t3")
	f.create("t0", "c", false)
	f.has("t0")
}

// testExpireContexts uses one of two contexts within the 90 days that they are kept.
func testExpireContexts(t *testing.T, f *fixture) {
	set := func(id, contextID string) {
		f.create(id, contextID, false)
		f.commit(taskstore.Change{Key: f.key(id), Values: map[string]string{"k": contextID}})
	}
	set("a", "one")
	set("b", "two")
	values := func(contextID string) string {
		v, err := f.s.Values(t.Context(), alice, contextID)
		if err != nil {
			t.Fatal(err)
		}
		return v["k"]
	}
	<-time.After(60 * 24 * time.Hour)
	f.create("c", "two", false) // uses it
	if e := f.expireAll(taskstore.Retention{Limit: 10}); e != (taskstore.Expired{}) {
		t.Errorf("after 60 days: %+v", e)
	}
	<-time.After(31 * 24 * time.Hour)
	if e := f.expireAll(taskstore.Retention{Limit: 10}); e != (taskstore.Expired{Contexts: 1}) {
		t.Errorf("after 91 days: %+v", e)
	}
	if one, two := values("one"), values("two"); one != "" || two != "two" {
		t.Errorf("after 91 days: values %q and %q", one, two)
	}
	if p := f.list(taskstore.Query{PageSize: 10}); p.Total != 3 || len(p.Tasks) != 3 {
		t.Errorf("the contexts' tasks: %d, total %d, want 3", len(p.Tasks), p.Total)
	}
}

// testExpireWhileWriting forgets tasks while others come and end, and lists are read.
func testExpireWhileWriting(t *testing.T, f *fixture) {
	const writers, each = 4, 12
	at := f.clock
	limit := at.Add(time.Hour)
	var wg, readers sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				k := f.key(fmt.Sprintf("w%d-%02d", w, i))
				_, err := f.s.Commit(t.Context(), taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, "c", at)}})
				if err == nil && i%3 > 0 { // every third goes on
					_, err = f.s.Commit(t.Context(), taskstore.Change{Key: k, Epoch: 1, Sent: message(k.Task), Records: []taskstore.Record{chunkRecord(k, "x", "1", false), statusRecord(k, a2a.TaskStateCompleted, at)}})
				}
				if err != nil {
					t.Errorf("Commit: %v", err)
				}
				if _, err := f.s.Task(t.Context(), k, 0); err != nil && (!errors.Is(err, taskstore.ErrNotFound) || i%3 == 0) {
					t.Errorf("Task: %v", err)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { wg.Wait(); stop() }()
	for _, artifacts := range []bool{false, true} {
		readers.Go(func() {
			for ctx.Err() == nil {
				p, err := f.s.List(t.Context(), taskstore.Query{Scope: alice, PageSize: 1000, HistoryLength: -1, Artifacts: artifacts})
				if err != nil || p.Total != len(p.Tasks) {
					t.Errorf("List: total %d, %d tasks, %v", p.Total, len(p.Tasks), err)
					return
				}
			}
		})
	}
	n := 0
	for ended := false; !ended; {
		ended = ctx.Err() != nil // then one more round finds the rest
		for {
			e := f.expire(taskstore.Retention{Tasks: limit, Logs: limit, Limit: 3})
			if n += e.Tasks; !e.More {
				break
			}
		}
	}
	readers.Wait()
	stay := writers * each / 3
	if n != writers*each-stay {
		t.Errorf("%d tasks were forgotten, want %d", n, writers*each-stay)
	}
	if p := f.list(taskstore.Query{PageSize: 1000}); p.Total != stay || len(p.Tasks) != stay {
		t.Errorf("%d tasks are left, total %d, want %d", len(p.Tasks), p.Total, stay)
	}
	for w := range writers {
		for i := range each {
			if id := fmt.Sprintf("w%d-%02d", w, i); i%3 == 0 {
				f.task(id)
			} else {
				f.gone(id)
			}
		}
	}
}
