//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/pgtest"
	"github.com/parley-a2a/parley/taskstore"
)

// TestRestart restarts a server, once in order and once by a crash, while many write: nobody gets an error,
// nothing is lost, and nothing is there twice.
func TestRestart(t *testing.T) {
	need(t)
	own, err := pgtest.Start(t.Context()) // a small one, which recovers fast
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	c := &cluster{Server: own}
	for _, mode := range []string{"fast", "immediate"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, c.URL(c.Dir, c.database(t)), Options{})
			const writers = 16
			epochs := make([]int64, writers)
			for w := range writers {
				epochs[w] = begin(t, s, fmt.Sprint("t", w), "node").Epoch
			}
			restarted, failures := make(chan struct{}), make(chan error, writers)
			ctx, stop := context.WithCancel(t.Context())
			counts := make([]int, writers)
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for ctx.Err() == nil {
						_, err := s.Commit(t.Context(), chunk(fmt.Sprint("t", w), epochs[w], fmt.Sprint(counts[w], ",")))
						if err == nil {
							counts[w]++
							_, err = s.Entries(t.Context(), key(fmt.Sprint("t", w)), 0, 1)
						}
						if err != nil {
							failures <- err
							return
						}
						if w == 0 && counts[w] == 50 {
							close(restarted)
						}
					}
				})
			}
			<-restarted
			begun := time.Now()
			if err := c.Ctl(t.Context(), "restart", "-m", mode); err != nil {
				t.Error(err)
			}
			took := time.Since(begun)
			stop()
			wg.Wait()
			if len(failures) > 0 && took > patience {
				t.Skipf("the server needed %v, which is longer than the store waits", took)
			}
			for len(failures) > 0 {
				t.Error(<-failures)
			}
			other := open(t, s.pool.Config().ConnString(), Options{})
			for w := range writers {
				var want strings.Builder
				for i := range counts[w] {
					fmt.Fprint(&want, i, ",")
				}
				if got := task(t, other, fmt.Sprint("t", w)).Task.Artifacts[0].Text(); got != want.String() {
					t.Errorf("writer %d had %d chunks acknowledged, the task has %s", w, counts[w], got)
				}
			}
		})
	}
}

// TestAway has the server away for longer than patience lasts.
func TestAway(t *testing.T) {
	c := need(t)
	w := newWire(t, c)
	var out syncBuffer
	s := open(t, c.URL(w.dir, c.database(t)), Options{Log: slog.New(slog.NewTextHandler(&out, nil)), CacheBytes: 1})
	r := begin(t, s, "t", "node")
	w.set(true)
	var wg sync.WaitGroup
	for name, f := range map[string]func() error{
		"Commit": func() error { _, err := s.Commit(t.Context(), chunk("t", r.Epoch, "1")); return err },
		"Task":   func() error { _, err := s.Task(t.Context(), key("t"), 0); return err },
		"List": func() error {
			_, err := s.List(t.Context(), taskstore.Query{Scope: alice, PageSize: 1})
			return err
		},
	} {
		wg.Go(func() {
			begun := time.Now()
			err := f()
			if d := time.Since(begun); !errors.Is(err, ErrUnreachable) || d > patience+time.Second {
				t.Errorf("%s: %v after %v", name, err, d)
			}
			if err != nil && strings.Contains(err.Error(), pgtest.Password) {
				t.Errorf("%s tells the password", name)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Task(ctx, key("t"), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read whose context ended: %v", err)
	}
	w.set(false)
	commit(t, s, chunk("t", r.Epoch, "2"))
	if got := task(t, s, "t").Task.Artifacts[0].Text(); got != "2" {
		t.Errorf("the artifact is %q", got)
	}
	if log := out.String(); strings.Count(log, "the store cannot write") != 1 || strings.Contains(log, "s3cret") || !strings.Contains(log, "can write again") {
		t.Errorf("the log is %s", log)
	}
}

// TestLostAnswer loses the server's word that a transaction was committed: the store asks what became of it.
func TestLostAnswer(t *testing.T) {
	c := need(t)
	w := newWire(t, c)
	s := open(t, c.URL(w.dir, c.database(t)), Options{})
	w.lose("COMMIT\x00")
	r := begin(t, s, "t", "node")
	soon(t, w.eaten, time.Second)
	if got := task(t, s, "t"); r.Generation != 2 || got.Generation != 2 {
		t.Errorf("the receipt says %d, the task %d", r.Generation, got.Generation)
	}
	// The connection is lost before the commit: the transaction is done anew.
	w.lose("BEGIN\x00")
	commit(t, s, chunk("t", r.Epoch, "1"))
	soon(t, w.eaten, time.Second)
	if got := task(t, s, "t"); got.Generation != 3 || got.Task.Artifacts[0].Text() != "1" {
		t.Errorf("the task is %+v", got)
	}
	counted(t, s)
}

func TestOpenErrors(t *testing.T) {
	c := need(t)
	name := c.database(t)
	good := c.URL(c.Dir, name)
	c.Exec(t, name, "CREATE ROLE guest LOGIN PASSWORD '"+pgtest.Password+"'")
	newer := c.database(t)
	c.Exec(t, newer, "INSERT INTO parley_schema (version_id, is_applied) VALUES (9999, true)")
	for what, x := range map[string]struct {
		url  string
		want error
	}{
		"password":    {strings.Replace(good, pgtest.Password, "wr0ng&word", 1), ErrDenied},
		"database":    {strings.Replace(good, name, "none", 1), ErrDenied},
		"guest":       {good + " user=guest", ErrNoSchema},
		"no schema":   {good + " search_path=nowhere", ErrNoSchema},
		"setting":     {good + " foo=bar", errSetting},
		"value":       {good + " statement_timeout=soon", errSetting},
		"nobody":      {c.URL(t.TempDir(), name), ErrUnreachable},
		"newer":       {c.URL(c.Dir, newer), ErrNewer},
		"no URL":      {"postgres://parley:wr0ng&word@[/x", errURL},
		"bad setting": {good + " connect_timeout=wr0ng&word", errURL},
	} {
		_, err := Open(t.Context(), x.url, Options{Log: quiet})
		if !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", what, err, x.want)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "wr0ng")) {
			t.Errorf("%s: the error tells the password: %v", what, err)
		}
	}
}

// TestOpenAtOnce has many make the schema at once.
func TestOpenAtOnce(t *testing.T) {
	c := need(t)
	c.Exec(t, "postgres", "CREATE DATABASE atonce")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s, err := Open(t.Context(), c.URL(c.Dir, "atonce"), Options{Log: quiet})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			k := key(fmt.Sprint("t", i))
			if _, err := s.Commit(t.Context(), taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{taskRecord(k, now())}}); err != nil {
				t.Errorf("Commit: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestStrings keeps names that PostgreSQL's text cannot hold.
func TestStrings(t *testing.T) {
	s := openNew(t, Options{})
	for _, id := range []string{"\x00", "\xff\xfe", "a\nb", "ü", "'; DROP TABLE tasks; --"} {
		k := taskstore.Key{Scope: taskstore.Scope{Agent: "echo", Tenant: id, Owner: id}, Task: id}
		commit(t, s, taskstore.Change{
			Key: k, Create: true, Records: []taskstore.Record{taskRecord(k, now())}, Values: map[string]string{"k": "v"},
			Sent:    &taskstore.Sent{MessageID: id, Expires: now().Add(time.Hour)},
			Webhook: &taskstore.Webhook{Config: &a2a.TaskPushNotificationConfig{ID: id}, Registration: "r"},
		})
		if m, err := s.Sent(t.Context(), k.Scope, id); err != nil || m == nil || m.Task != id {
			t.Errorf("%q: Sent = %+v, %v", id, m, err)
		}
		if _, err := s.Task(t.Context(), taskstore.Key{Scope: k.Scope, Task: id + "x"}, 0); !errors.Is(err, taskstore.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := s.Task(t.Context(), k, 0); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// syncBuffer is a buffer that a log writes to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestIndexes looks that no statement of a commit reads a whole table or index, though its plan was made when there was
// nothing in them; and no other does, once the server knows how large the tables are.
func TestIndexes(t *testing.T) {
	const tasks, rounds = 2000, 20
	first := openNew(t, Options{CacheBytes: 1})
	url := first.pool.Config().ConnString()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < tasks; i += 16 {
				oneTask(t, first, fmt.Sprintf("t%05d", i))
			}
		})
	}
	wg.Wait()
	first.Close() // sessions tell their numbers when they end
	written := rowsRead(t, url)
	if written > 20*tasks {
		t.Errorf("%d tasks read %d rows", tasks, written)
	}

	s := open(t, url, Options{CacheBytes: 1})
	ctx := t.Context()
	if _, err := s.pool.Exec(ctx, "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	for range rounds {
		for _, q := range []taskstore.Query{{}, {ContextID: "c-t00001"}, {Status: a2a.TaskStateCompleted}} {
			q.Scope, q.PageSize = alice, 5
			if _, err := s.List(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Entries(ctx, key("t00001"), 0, 10)
		_, err1 := s.Heads(ctx, []taskstore.Key{key("t00001"), key("t00002")})
		_, err2 := s.Interrupted(ctx, alice.Agent, now(), 10)
		_, err3 := s.Unsettled(ctx, alice.Agent, "me", "", 10)
		_, err4 := s.Outbox(ctx, alice.Agent, "", "", 10)
		_, err5 := s.Webhooks(ctx, key("t00001"))
		_, err6 := s.Count(ctx, alice, a2a.TaskStateCompleted)
		_, err7 := s.Expire(ctx, taskstore.Retention{Limit: 10})
		if err := errors.Join(err, err1, err2, err3, err4, err5, err6, err7); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if n := rowsRead(t, url) - written; n > rounds*tasks/5 {
		t.Errorf("%d rounds of reads read %d rows", rounds, n)
	}
}

// rowsRead returns how many rows and index entries were read from the large tables.
func rowsRead(t *testing.T, url string) (n int64) {
	t.Helper()
	s := open(t, url, Options{})
	defer s.Close()
	err := s.pool.QueryRow(t.Context(), `SELECT
		(SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname = ANY($1))::bigint +
		(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = ANY($1))::bigint`,
		[]string{"tasks", "log", "snapshots", "sent", "webhooks", "contexts"}).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
