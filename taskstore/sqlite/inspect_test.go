package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

func testWebhook(id, registration string) *taskstore.Webhook {
	return &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: id, URL: "https://example.com/" + id}, Registration: registration}
}

func testSent(id string) *taskstore.Sent {
	m := &taskstore.Sent{MessageID: id, Expires: now().Add(time.Hour)}
	copy(m.Hash[:], id)
	return m
}

// fill writes tasks of every kind: one that ended, with a log, one whose log was trimmed, one at work with several
// snapshots, one parked; and webhooks.
func fill(t *testing.T, s *Store) {
	t.Helper()
	oneTask(t, s, "trimmed")
	if e, err := s.Expire(t.Context(), taskstore.Retention{Logs: time.Now().Add(time.Hour), Limit: 10}); err != nil || e.Logs != 1 {
		t.Fatalf("Expire: %+v, %v", e, err)
	}
	oneTask(t, s, "ended")
	for _, id := range []string{"working", "parked"} {
		k := key(id)
		r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Webhook: testWebhook("w", "r"), Records: []taskstore.Record{taskRecord(k, now())}})
		for i := range 40 {
			commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, strings.Repeat(id, 1000), i > 0)}})
		}
	}
	commit(t, s, taskstore.Change{Key: key("parked"), Epoch: 1, Release: true, Records: []taskstore.Record{statusRecord(key("parked"), a2a.TaskStateInputRequired, now())}})
	commit(t, s, taskstore.Change{Key: key("ended"), Webhook: testWebhook("given-up", "r")})
	dead := testWebhook("given-up", "r")
	dead.Attempts, dead.Done, dead.Failure = 9, true, "no route to host"
	commit(t, s, taskstore.Change{Key: key("ended"), Delivered: dead})
}

// change damages the database at path by SQL.
func change(t *testing.T, path string, queries ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range queries {
		r, err := db.ExecContext(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			t.Fatalf("%s changed nothing", q)
		}
	}
}

func TestStats(t *testing.T) {
	s := openNew(t, Options{})
	began := now()
	fill(t, s)
	check := func(running bool) {
		t.Helper()
		st, err := StatsOf(t.Context(), s.path)
		if err != nil {
			t.Fatal(err)
		}
		if (st.WALBytes > 0) != running || st.FileBytes < 4096 || st.OldestEnded.Before(began) || st.OldestEnded.After(time.Now()) {
			t.Errorf("Stats = %+v", st)
		}
		st.FileBytes, st.WALBytes, st.OldestEnded = 0, 0, time.Time{}
		want := Stats{
			Tasks:   map[a2a.TaskState]int64{a2a.TaskStateCompleted: 2, a2a.TaskStateSubmitted: 1, a2a.TaskStateInputRequired: 1},
			Records: 4 + 41 + 42, Pending: 2, Dead: 1,
		}
		if diff := cmp.Diff(want, st); diff != "" {
			t.Error(diff)
		}
	}
	check(true)
	oneTaskMore := key("parked") // the host goes on
	commit(t, s, taskstore.Change{Key: oneTaskMore, Claim: "n"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(false)
	empty := openNew(t, Options{})
	if st, err := StatsOf(t.Context(), empty.path); err != nil || len(st.Tasks) > 0 || !st.OldestEnded.IsZero() || st.Records != 0 {
		t.Errorf("Stats of an empty database: %+v, %v", st, err)
	}
}

// TestInspectRefuses has files that are no database of this version: no function makes or changes one.
func TestInspectRefuses(t *testing.T) {
	dir := t.TempDir()
	letter := filepath.Join(dir, "letter.txt")
	if err := os.WriteFile(letter, []byte(strings.Repeat("Dear Alice. ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	open(t, newer, Options{}).Close()
	change(t, newer, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)")
	for path, want := range map[string]error{
		letter: ErrNotDatabase, empty: ErrNotDatabase, newer: ErrNewer, filepath.Join(dir, "none.db"): fs.ErrNotExist,
	} {
		before, _ := os.ReadFile(path)
		_, one := StatsOf(t.Context(), path)
		two := Backup(t.Context(), path, filepath.Join(dir, "copy.db"))
		_, three := Check(t.Context(), path, nil)
		for _, err := range []error{one, two, three} {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want %v", path, err, want)
			}
		}
		if after, _ := os.ReadFile(path); string(before) != string(after) {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "copy.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup that was refused left a file: %v", err)
	}
}

func TestBackup(t *testing.T) {
	s := openNew(t, Options{})
	fill(t, s)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // a host at work
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				oneTask(t, s, newID())
			}
		}
	}()
	dest := filepath.Join(t.TempDir(), "a b?c#d%20.db")
	if err := Backup(t.Context(), s.path, dest); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-ended
	info, err := os.Stat(dest)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", info.Mode(), err)
	}
	if wrong, err := Check(t.Context(), dest, nil); err != nil || len(wrong) > 0 {
		t.Errorf("Check of the backup: %q, %v", wrong, err)
	}
	if left, _ := filepath.Glob(filepath.Dir(dest) + "/*"); len(left) != 1 {
		t.Errorf("beside the backup there is %q", left)
	}
	before, err := os.ReadFile(dest)
	if err != nil {
		t.Fatal(err)
	}
	if err := Backup(t.Context(), s.path, dest); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), dest) {
		t.Errorf("a backup over another: %v", err)
	}
	if after, _ := os.ReadFile(dest); string(after) != string(before) {
		t.Error("the first backup was changed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := filepath.Join(filepath.Dir(dest), "other.db")
	if err := Backup(ctx, s.path, other); !errors.Is(err, context.Canceled) {
		t.Errorf("a backup whose context has ended: %v", err)
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left a file: %v", err)
	}
	copied := open(t, dest, Options{}) // a host can go on with it
	for _, id := range []string{"trimmed", "ended", "working", "parked"} {
		want, err := s.Task(t.Context(), key(id), 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := copied.Task(t.Context(), key(id), 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("task %s in the backup:\n%s", id, diff)
		}
	}
	if hooks, err := copied.Outbox(t.Context(), "echo", "", "", 10); err != nil || len(hooks) != 2 {
		t.Errorf("webhooks in the backup: %+v, %v", hooks, err)
	}
	oneTask(t, copied, newID())
}

// TestCheck checks a store at work, and databases with one damage each.
func TestCheck(t *testing.T) {
	s := openNew(t, Options{})
	fill(t, s)
	for range 150 { // more than are read as of one moment
		oneTask(t, s, newID())
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				oneTask(t, s, newID())
				if _, err := s.Expire(t.Context(), taskstore.Retention{Logs: time.Now(), Limit: 1}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	var told []int
	wrong, err := Check(t.Context(), s.path, func(done, total int) {
		if told = append(told, done); done > total {
			t.Errorf("%d of %d are done", done, total)
		}
	})
	close(stop)
	<-ended
	if err != nil || len(wrong) > 0 {
		t.Errorf("a store at work: %q, %v", wrong, err)
	}
	if len(told) < 2 || !slices.IsSorted(told) || told[len(told)-1] < 154 {
		t.Errorf("told of %v", told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, s.path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	oneTask(t, s, "fresh") // its log is whole
	commit(t, s, taskstore.Change{Key: key("fresh"), Webhook: testWebhook("w", "r")})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	of := func(id string) string { return " tid = (SELECT tid FROM tasks WHERE id = '" + id + "')" }
	dir := t.TempDir()
	for name, c := range map[string]struct {
		sql string
		say []string // each in a sentence of its own
	}{
		"nothing":           {},
		"gap":               {"DELETE FROM log WHERE generation = 20 AND" + of("working"), []string{"task working: its log has record 21 after record 19"}},
		"end":               {"DELETE FROM log WHERE generation = 4 AND" + of("fresh"), []string{"task fresh: its log ends with record 3"}},
		"log":               {"DELETE FROM log WHERE" + of("fresh"), []string{"task fresh: its log is gone"}},
		"log and snapshot":  {"DELETE FROM snapshots WHERE" + of("trimmed"), []string{"task trimmed: it has neither"}},
		"another text":      {"UPDATE log SET event = CAST(replace(CAST(event AS TEXT), '0123456789', '9876543210') AS BLOB) WHERE generation = 3 AND" + of("fresh"), []string{"task fresh: its log up to record 4 does not fold"}},
		"no JSON":           {"UPDATE log SET event = CAST('{' AS BLOB) WHERE generation = 3 AND" + of("fresh"), []string{"task fresh: record 3"}},
		"sizes":             {"UPDATE log SET bytes = bytes + 1 WHERE generation = 7 AND" + of("parked"), []string{"task parked: record 7 says"}},
		"snapshot":          {"UPDATE snapshots SET front = CAST(replace(CAST(front AS TEXT), '\"hi\"', '\"ho\"') AS BLOB) WHERE" + of("fresh"), []string{"task fresh: its log up to record 4 does not fold"}},
		"snapshot, no JSON": {"UPDATE snapshots SET front = CAST('{' AS BLOB) WHERE" + of("trimmed"), []string{"task trimmed: snapshot 4"}},
		"state":             {"UPDATE tasks SET state = 4 WHERE id = 'trimmed'", []string{"task trimmed: its row says", "2 counters in the table totals", "2 counters in the table hours", "2 counters in the table minutes"}},
		"time":              {"UPDATE tasks SET status_ms = status_ms + 1 WHERE id = 'parked'", []string{"task parked: its row says"}},
		"context":           {"UPDATE tasks SET context = 'x' WHERE id = 'parked'", []string{"task parked: its row says"}},
		"id":                {"UPDATE tasks SET id = 'other' WHERE id = 'parked'", []string{"task other: its row says", "1 rows of the table webhooks"}},
		"lease":             {"UPDATE tasks SET node = 'n' WHERE id = 'trimmed'", []string{"task trimmed: its lease"}},
		"trimmed":           {"UPDATE tasks SET trimmed = 5 WHERE id = 'trimmed'", []string{"task trimmed: "}},
		"total":             {"UPDATE totals SET n = n + 1 WHERE state = 3", []string{"1 counters in the table totals"}},
		"hour":              {"UPDATE hours SET n = n + 1 WHERE state = 1 AND n > 0", []string{"1 counters in the table hours"}},
		"scope":             {"UPDATE scopes SET id = 77", []string{"rows of the table tasks", "task fresh: its row cannot be found", "task trimmed: ", "task working: ", "task parked: "}},
		"stray":             {"DELETE FROM tasks WHERE id = 'fresh'", []string{"4 rows of the table log", "1 rows of the table snapshots", "1 rows of the table webhooks", "1 counters in the table totals", "1 counters in the table hours", "1 counters in the table minutes"}},
	} {
		path := filepath.Join(dir, "damaged.db")
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.sql != "" {
			change(t, path, c.sql)
		}
		wrong, err := Check(t.Context(), path, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, say := range c.say {
			if !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, say) }) {
				t.Errorf("%s: %q does not say %q", name, wrong, say)
			}
		}
		if len(wrong) > len(c.say) && name != "scope" {
			t.Errorf("%s: %q, want %d sentences", name, wrong, len(c.say))
		}
	}
	// A page of noise.
	path := filepath.Join(dir, "noise.db")
	bad := slices.Clone(good)
	const page = 4096
	at := strings.Index(string(bad), "workingworkingworking") / page * page
	copy(bad[at:at+page], strings.Repeat("\xa5", page))
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if wrong, err := Check(t.Context(), path, nil); err != nil || len(wrong) == 0 || !strings.HasPrefix(wrong[0], "the file: ") {
		t.Errorf("a page of noise: %q, %v", wrong, err)
	}
	if err := Backup(t.Context(), path, filepath.Join(dir, "copy.db")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a backup of a damaged database: %v", err)
	}
}
