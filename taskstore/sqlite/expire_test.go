package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

func expire(t *testing.T, s *Store, r taskstore.Retention) taskstore.Expired {
	t.Helper()
	e, err := s.Expire(t.Context(), r)
	if err != nil {
		t.Fatalf("Expire: %v", err)
	}
	return e
}

// soon is after everything that a test wrote.
func soon() time.Time { return time.Now().Add(time.Hour) }

func count(t *testing.T, s *Store, query string) (n int64) {
	t.Helper()
	err := s.read(t.Context(), func(c *conn) error { return c.ask(t.Context(), query, readInt(&n)) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// long writes a task that ended with a log of n records.
func long(t *testing.T, s *Store, id string, n int) {
	t.Helper()
	k := key(id)
	r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
	records := make([]taskstore.Record, n-2)
	for i := range records {
		records[i] = chunkRecord(k, fmt.Sprint(i, ";"), i > 0)
	}
	records = append(records, statusRecord(k, a2a.TaskStateCompleted, now()))
	commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: records})
}

// TestExpireNothingLeft forgets everything: no row is left, and what comes then takes no more room.
func TestExpireNothingLeft(t *testing.T) {
	s := openNew(t, Options{Durability: Normal})
	tables := []string{"tasks", "log", "snapshots", "webhooks", "hours", "minutes"}
	pages := int64(0)
	for round := range 3 {
		for i := range 60 {
			id := fmt.Sprint(round, "-", i)
			oneTask(t, s, id)
			if i%4 == 0 {
				commit(t, s, taskstore.Change{Key: key(id), Webhook: testWebhook("w", "r")})
				done := testWebhook("w", "r")
				done.Done = true
				commit(t, s, taskstore.Change{Key: key(id), Delivered: done})
			}
		}
		steps := 1
		for ; expire(t, s, taskstore.Retention{Tasks: soon(), Limit: 7}).More; steps++ {
			checkCounters(t, s)
		}
		if steps != 9 {
			t.Errorf("%d steps of 7 for 60 tasks", steps)
		}
		for _, table := range tables {
			if n := count(t, s, "SELECT count(*) FROM "+table); n != 0 {
				t.Errorf("%d rows are left in the table %s", n, table)
			}
		}
		checkCounters(t, s)
		size := count(t, s, "PRAGMA page_count")
		if round > 0 && size > pages+2 {
			t.Errorf("in round %d the file grew from %d to %d pages", round, pages, size)
		}
		pages = max(pages, size)
	}
	s.Close()
	if wrong, err := Check(t.Context(), s.path, nil); err != nil || len(wrong) > 0 {
		t.Errorf("Check: %q, %v", wrong, err)
	}
}

// TestExpireLongLog cuts a log of many records in steps, for its own sake and before the task goes: at no moment is
// there a gap, and the task is always whole.
func TestExpireLongLog(t *testing.T) {
	const n = 3*expireRows + 10
	for name, r := range map[string]taskstore.Retention{
		"logs":  {Logs: soon(), Limit: 10},
		"tasks": {Tasks: soon(), Limit: 10},
	} {
		s := openNew(t, Options{Durability: Normal})
		long(t, s, name, n)
		want, err := s.Task(t.Context(), key(name), 0)
		if err != nil {
			t.Fatal(err)
		}
		last := int64(n)
		var all taskstore.Expired
		for steps := 1; ; steps++ {
			e := expire(t, s, r)
			all.Tasks, all.Logs = all.Tasks+e.Tasks, all.Logs+e.Logs
			left := count(t, s, "SELECT count(*) FROM log")
			if last-left > expireRows+rowsOfTask {
				t.Errorf("%s: a step deleted %d records", name, last-left)
			}
			last = left
			if !e.More {
				if steps != 4 || left != 0 {
					t.Errorf("%s: %d steps, %d records are left", name, steps, left)
				}
				break
			}
			got, err := s.Task(t.Context(), key(name), 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: the task changed:\n%s", name, diff)
			}
			if _, err := s.Entries(t.Context(), key(name), n-left-1, 10); !errors.Is(err, taskstore.ErrTrimmed) {
				t.Errorf("%s: the records that are gone: %v", name, err)
			}
			if got, err := s.Entries(t.Context(), key(name), n-left, n); err != nil || int64(len(got)) != left {
				t.Errorf("%s: %d records are there, %v, want %d", name, len(got), err, left)
			}
			if wrong, err := Check(t.Context(), s.path, nil); err != nil || len(wrong) > 0 {
				t.Errorf("%s: Check: %q, %v", name, wrong, err)
			}
		}
		if all.Tasks+all.Logs != 1 {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestExpireWithoutSnapshot has tasks that ended and have no snapshot of their end, as those do that are too large
// for one: the log is all there is of them, and stays until they go.
func TestExpireWithoutSnapshot(t *testing.T) {
	s := openNew(t, Options{})
	for _, id := range []string{"none", "older", "whole"} {
		long(t, s, id, 10)
	}
	s.Close()
	change(t, s.path,
		"DELETE FROM snapshots WHERE tid = (SELECT tid FROM tasks WHERE id = 'none')",
		"UPDATE snapshots SET generation = 9 WHERE tid = (SELECT tid FROM tasks WHERE id = 'older')")
	s = open(t, s.path, Options{})
	if e := expire(t, s, taskstore.Retention{Logs: soon(), Limit: 10}); e != (taskstore.Expired{Logs: 1}) {
		t.Errorf("logs: %+v", e)
	}
	for id, want := range map[string]int{"none": 10, "older": 10} {
		if log, err := s.Entries(t.Context(), key(id), 0, 100); err != nil || len(log) != want {
			t.Errorf("task %s has %d records, %v; want %d", id, len(log), err, want)
		}
	}
	if e := expire(t, s, taskstore.Retention{Tasks: soon(), Limit: 10}); e != (taskstore.Expired{Tasks: 3}) {
		t.Errorf("tasks: %+v", e)
	}
	checkCounters(t, s)
}

// TestExpireFault has steps fail in the middle, and at a COMMIT that works and says that it did not: memory then
// goes by the file.
func TestExpireFault(t *testing.T) {
	s := openNew(t, Options{Log: slog.New(slog.DiscardHandler)})
	oneTask(t, s, "a")
	oneTask(t, s, "b")
	if _, err := s.Task(t.Context(), key("a"), 0); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, st := range map[string]*stmt{"task": s.w.dropTask, "counter": s.w.addTotal, "hours": s.w.dropHours, "minutes": s.w.dropMinutes, "commit": s.w.commit} {
		hook(st, func(func() (driver.Result, error)) (driver.Result, error) { return nil, broken })
		if e, err := s.Expire(t.Context(), taskstore.Retention{Tasks: soon(), Limit: 1}); !errors.Is(err, broken) || e != (taskstore.Expired{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		for _, id := range []string{"a", "b"} {
			if log, err := s.Entries(t.Context(), key(id), 0, 10); err != nil || len(log) != 4 {
				t.Errorf("%s: task %s has %d records, %v", name, id, len(log), err)
			}
		}
		if n, err := s.Count(t.Context(), alice, a2a.TaskStateCompleted); err != nil || n != 2 {
			t.Errorf("%s: Count = %d, %v", name, n, err)
		}
		checkCounters(t, s)
	}
	hook(s.w.commit, func(run func() (driver.Result, error)) (driver.Result, error) {
		_, err := run()
		return nil, errors.Join(err, errors.New("who knows"))
	})
	if _, err := s.Expire(t.Context(), taskstore.Retention{Tasks: soon(), Limit: 1}); err == nil {
		t.Error("no error")
	}
	if _, err := s.Task(t.Context(), key("a"), 0); !errors.Is(err, taskstore.ErrNotFound) {
		t.Errorf("a task that is gone: %v", err)
	}
	if n, err := s.Count(t.Context(), alice, a2a.TaskStateCompleted); err != nil || n != 1 {
		t.Errorf("Count = %d, %v", n, err)
	}
	oneTask(t, s, "a")
	checkCounters(t, s)
}

// TestExpireWhileReading has a reader that found a task before it was forgotten, and puts it in memory after: nobody
// sees it there.
func TestExpireWhileReading(t *testing.T) {
	s := openNew(t, Options{})
	oneTask(t, s, "a")
	oneTask(t, s, "b")
	s.Close()
	s = open(t, s.path, Options{}) // nothing is in memory
	read := map[string]*task{}
	steps := s.steps
	err := s.read(t.Context(), func(c *conn) error {
		for _, id := range []string{"a", "b"} {
			task, err := c.load(id)
			if err != nil {
				return err
			}
			if task.state, _, err = c.fold(task.tid, task.head.Generation, 0, true); err != nil {
				return err
			}
			task.recent = []taskstore.Record{} // as if it had been at work
			read[id] = task
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := expire(t, s, taskstore.Retention{Tasks: soon(), Limit: 1}); e.Tasks != 1 {
		t.Fatalf("Expire: %+v", e)
	}
	if e := expire(t, s, taskstore.Retention{Logs: soon(), Limit: 1}); e.Logs != 1 {
		t.Fatalf("Expire: %+v", e)
	}
	for _, task := range read {
		s.keep(task, steps)
	}
	if _, err := s.Task(t.Context(), key("a"), 0); !errors.Is(err, taskstore.ErrNotFound) {
		t.Errorf("Task: %v", err)
	}
	if h, err := s.Heads(t.Context(), []taskstore.Key{key("a"), key("b")}); err != nil || h[0] != 0 || h[1] != 4 {
		t.Errorf("Heads = %v, %v", h, err)
	}
	if _, err := s.Entries(t.Context(), key("b"), 1, 10); !errors.Is(err, taskstore.ErrTrimmed) {
		t.Errorf("Entries: %v", err)
	}
	if _, err := s.Commit(t.Context(), taskstore.Change{Key: key("a"), Webhook: testWebhook("w", "r")}); !errors.Is(err, taskstore.ErrNotFound) {
		t.Errorf("Commit: %v", err)
	}
}

// TestPlans looks that nothing which is asked again and again reads a whole table.
func TestPlans(t *testing.T) {
	s := openNew(t, Options{})
	for name, src := range map[string][]source{"reads": s.w.reads.sources(), "writes": s.w.writes.sources()} {
		for _, q := range src {
			if strings.HasPrefix(q.sql, "BEGIN") || q.sql == "COMMIT" || q.sql == "ROLLBACK" {
				continue
			}
			args := make([]any, strings.Count(q.sql, "?"))
			err := s.w.ask(t.Context(), "EXPLAIN QUERY PLAN "+q.sql, func(row []driver.Value) error {
				plan := text(row[3])
				if strings.HasPrefix(plan, "SCAN") && plan != "SCAN json_each VIRTUAL TABLE INDEX 1:" && !strings.Contains(plan, "CONSTANT ROW") && !strings.HasPrefix(plan, "SCAN (subquery") {
					t.Errorf("%s: %s: %s", name, plan, q.sql)
				}
				if strings.HasPrefix(plan, "USE TEMP B-TREE") && !strings.Contains(q.sql, "tasks_context") {
					t.Errorf("%s: %s: %s", name, plan, q.sql)
				}
				return nil
			}, args...)
			if err != nil {
				t.Errorf("%s: %v", q.sql, err)
			}
		}
	}
}
