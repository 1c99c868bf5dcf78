package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// TestListSince compares totals since a time with a count by hand, over hours, at their edges and in between.
func TestListSince(t *testing.T) {
	s := openNew(t, Options{Durability: Normal})
	rng := rand.New(rand.NewPCG(7, 8))
	start := time.Date(2026, 3, 4, 5, 59, 59, 0, time.UTC)
	var times []time.Time
	for i := range 60 {
		at := start.Add(time.Duration(rng.IntN(5*3600_000)) * time.Millisecond)
		switch i % 10 {
		case 0:
			at = at.Truncate(time.Hour)
		case 1:
			at = at.Truncate(time.Hour).Add(-time.Millisecond)
		case 2:
			at = time.Date(1969, 12, 31, 23, 0, 0, rng.IntN(1000)*1e6, time.UTC) // hours before the first
		}
		times = append(times, at)
		k := key(fmt.Sprint("t", i))
		c := taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{taskRecord(k, at.Add(-7*time.Hour)), statusRecord(k, a2a.TaskStateWorking, at)}}
		if i%2 == 0 {
			c.Records[1] = statusRecord(k, a2a.TaskStateCompleted, at)
		}
		commit(t, s, c)
	}
	checkCounters(t, s)
	for _, after := range append(times, start, start.Add(99*time.Hour), time.Date(1969, 12, 31, 22, 59, 59, 1, time.UTC)) {
		for _, d := range []time.Duration{-time.Millisecond, 0, time.Nanosecond, time.Millisecond} {
			after := after.Add(d)
			for state, parity := range map[a2a.TaskState]int{a2a.TaskStateUnspecified: -1, a2a.TaskStateWorking: 1, a2a.TaskStateCompleted: 0} {
				want := 0
				for i, at := range times {
					if (parity < 0 || i%2 == parity) && !at.Before(after) {
						want++
					}
				}
				p, err := s.List(t.Context(), taskstore.Query{Scope: alice, After: after, Status: state, PageSize: 100})
				if err != nil || p.Total != want || len(p.Tasks) != want {
					t.Fatalf("since %v, %v: total %d, %d tasks, %v; want %d", after, state, p.Total, len(p.Tasks), err, want)
				}
			}
		}
	}
}

// TestListWhileWriting reads lists while tasks come, go on and end: a page is of one moment.
func TestListWhileWriting(t *testing.T) {
	for _, cache := range []int64{0, 1} {
		t.Run(fmt.Sprint("cache=", cache), func(t *testing.T) {
			s := openNew(t, Options{Durability: Normal, CacheBytes: cache})
			var writers, readers sync.WaitGroup
			for range 4 {
				writers.Go(func() {
					for range 25 {
						oneTask(t, s, newID())
					}
				})
			}
			done := make(chan struct{})
			for _, state := range []a2a.TaskState{a2a.TaskStateUnspecified, a2a.TaskStateWorking, a2a.TaskStateCompleted} {
				readers.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-done:
							return
						default:
						}
						p, err := s.List(t.Context(), taskstore.Query{Scope: alice, Status: state, PageSize: 1000, HistoryLength: -1, Artifacts: i%2 == 0})
						if err != nil || p.Total != len(p.Tasks) {
							t.Errorf("%v: total %d, %d tasks, %v", state, p.Total, len(p.Tasks), err)
							return
						}
						for _, task := range p.Tasks {
							if state != a2a.TaskStateUnspecified && task.Status.State != state {
								t.Errorf("a task in the state %v was listed under %v", task.Status.State, state)
								return
							}
						}
					}
				})
			}
			writers.Wait()
			close(done)
			readers.Wait()
			checkCounters(t, s)
		})
	}
}

// TestCacheIsBounded reads and writes more than memory may hold.
func TestCacheIsBounded(t *testing.T) {
	const limit = 32 << 10
	s := openNew(t, Options{Durability: Normal, CacheBytes: limit})
	ids := make([]string, 150)
	for i := range ids {
		ids[i] = newID()
		oneTask(t, s, ids[i])
	}
	for _, id := range ids {
		if snap, err := s.Task(t.Context(), key(id), 0); err != nil || snap.Task.Status.State != a2a.TaskStateCompleted {
			t.Fatalf("%+v %v", snap, err)
		}
		if _, err := s.List(t.Context(), taskstore.Query{Scope: alice, PageSize: 10, ContextID: "c-" + id, HistoryLength: -1}); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var size int64
	for i, task := range s.tasks.all {
		size += task.size
		if task.slot != i || s.tasks.byID[task.key.Task] != task {
			t.Fatalf("the cache has lost task %d", i)
		}
	}
	if size != s.tasks.size || size > limit || len(s.tasks.all) != len(s.tasks.byID) || len(s.tasks.all) < 10 {
		t.Errorf("%d tasks of %d bytes, counted as %d, limit %d", len(s.tasks.all), size, s.tasks.size, limit)
	}
	if s.fronts.size > limit/4+4096 {
		t.Errorf("%d bytes of fronts, limit %d", s.fronts.size, limit/4)
	}
}

// TestRecent looks at the newest records in memory: followers share their bytes, and there are not too many.
func TestRecent(t *testing.T) {
	s := openNew(t, Options{Durability: Normal})
	k := key("a")
	r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
	const n = 3000
	for i := 0; i < n; i += 10 {
		records := make([]taskstore.Record, 10)
		for j := range records {
			records[j] = chunkRecord(k, fmt.Sprint(i+j), i+j > 0)
		}
		r = commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: records})
	}
	one, err := s.Entries(t.Context(), k, n-5, 10)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Entries(t.Context(), k, n-5, 10)
	if err != nil || len(one) != 6 || &one[0].JSON()[0] != &two[0].JSON()[0] || &r.Records[9].JSON()[0] != &one[5].JSON()[0] {
		t.Errorf("%d newest records, %v: their bytes are not shared", len(one), err)
	}
	cold, err := s.Entries(t.Context(), k, 0, n+10)
	if err != nil || len(cold) != n+1 {
		t.Fatalf("%d records, %v", len(cold), err)
	}
	if got, want := string(cold[n].JSON()), string(one[5].JSON()); got != want {
		t.Errorf("from the file: %s, from memory: %s", got, want)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if got := len(s.tasks.byID["a"].recent); got > maxRecent || got < maxRecent/2 {
		t.Errorf("%d records in memory", got)
	}
}

// TestValuesExpire moves the last use of a context back by an hour, twice.
func TestValuesExpire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	values := func(s *Store) string {
		t.Helper()
		v, err := s.Values(t.Context(), alice, "c-a")
		if err != nil {
			t.Fatal(err)
		}
		return v["k"]
	}
	create := func(s *Store, id string) {
		t.Helper()
		rec := taskRecord(key(id), now())
		rec.Event.(*a2a.Task).ContextID = "c-a"
		commit(t, s, taskstore.Change{Key: key(id), Create: true, Records: []taskstore.Record{rec}})
	}
	anHourLater := func(s *Store, ttl time.Duration) *Store {
		t.Helper()
		s.Close()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), "UPDATE contexts SET used_ms = used_ms - ?", time.Hour.Milliseconds()); err != nil {
			t.Fatal(err)
		}
		return open(t, path, Options{ContextTTL: ttl})
	}
	s := open(t, path, Options{})
	create(s, "a")
	commit(t, s, taskstore.Change{Key: key("a"), Values: map[string]string{"k": "1"}})
	if v := values(s); v != "1" {
		t.Errorf("the value is %q", v)
	}
	s = anHourLater(s, 90*time.Minute)
	if v := values(s); v != "1" {
		t.Errorf("in its time the value is %q", v)
	}
	create(s, "b") // uses the context
	s = anHourLater(s, 90*time.Minute)
	if v := values(s); v != "1" {
		t.Errorf("an hour after the last use the value is %q", v)
	}
	s = anHourLater(s, 90*time.Minute)
	if v := values(s); v != "" {
		t.Errorf("after its time the value is %q", v)
	}
	create(s, "c") // begins the context anew
	if v := values(s); v != "" {
		t.Errorf("a new task brought back the value %q", v)
	}
}

// TestTrimmed cuts a finished task's log in the file, as retention will: its end can be read, its past not.
func TestTrimmed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := open(t, path, Options{})
	oneTask(t, s, "a")
	want, err := s.Task(t.Context(), key("a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"DELETE FROM log", "UPDATE tasks SET trimmed = 4"} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	s = open(t, path, Options{})
	for range 2 { // from the file, then from memory
		if _, err := s.Entries(t.Context(), key("a"), 1, 10); !errors.Is(err, taskstore.ErrTrimmed) {
			t.Errorf("Entries: %v", err)
		}
		if e, err := s.Entries(t.Context(), key("a"), 4, 10); err != nil || len(e) != 0 {
			t.Errorf("Entries after the end: %v %v", e, err)
		}
		if _, err := s.Task(t.Context(), key("a"), 2); !errors.Is(err, taskstore.ErrTrimmed) {
			t.Errorf("Task at 2: %v", err)
		}
		got, err := s.Task(t.Context(), key("a"), 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if h, err := s.Heads(t.Context(), []taskstore.Key{key("a")}); err != nil || h[0] != 4 {
		t.Errorf("Heads = %v %v", h, err)
	}
	if _, err := s.Commit(t.Context(), taskstore.Change{Key: key("a"), Claim: "n"}); !errors.Is(err, taskstore.ErrTerminal) {
		t.Errorf("Commit: %v", err)
	}
}
