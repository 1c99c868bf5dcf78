//go:build unix

package cli

import (
	"bytes"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/pgtest"
	"github.com/parley-a2a/parley/taskstore"
)

func TestStoreURLs(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://me:s3cret@db:5432/x?sslmode=require&password=s3cret&sslpassword=s3cret": "postgres://me@db:5432/x?sslmode=require",
		"postgresql://db/x": "postgresql://db/x",
		"sqlite:here.db":    "sqlite:here.db",
	} {
		ref, err := parseStore(text, "agent")
		if err != nil || ref.url != want {
			t.Errorf("%s is shown as %s (%v)", text, ref.url, err)
		}
	}
	for _, text := range []string{"postgres://me:s3cret%zz@db/x", "postgres://me:s3cret@db:port/x", "postgress://me:s3cret@db/x", "mysql://db/x?password=s3cret", "pg://me:s3cret%zz@db/x"} {
		if _, err := parseStore(text, "agent"); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", text, err)
		}
	}
	ref, _ := parseStore("sqlite:here.db", "agent")
	ref.hints = "nats://127.0.0.1:4222"
	if _, err := ref.open(t.Context(), 0, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("hints for a file are taken")
	}
}

// TestDatabase opens a database as two hosts do, and looks after it.
func TestDatabase(t *testing.T) {
	pg, err := pgtest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pg == nil {
		t.Skip(pgtest.Missing + ": a database was not tested")
	}
	t.Cleanup(pg.Stop)
	u := url.URL{Scheme: "postgres", User: url.UserPassword("parley", pgtest.Password), Path: "/postgres", RawQuery: url.Values{"host": {pg.Dir}}.Encode()}
	var log bytes.Buffer
	var keys []string
	for range 2 {
		ref, err := parseStore(u.String(), "agent")
		if err != nil {
			t.Fatal(err)
		}
		s, err := ref.open(t.Context(), 0, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		key, err := ref.signingKey(t.Context(), s)
		if err != nil || key == nil {
			t.Fatalf("signingKey: %v", err)
		}
		keys = append(keys, string(key))
		task := &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: time.Now().Add(-time.Hour)}}
		_, _ = s.Commit(t.Context(), taskstore.Change{ // the second time it is there
			Key: taskstore.Key{Scope: taskstore.Scope{Agent: "agent"}, Task: "t"}, Create: true,
			Records: []taskstore.Record{{Entry: a2a.Entry{Event: task}}},
		})
	}
	if keys[0] != keys[1] {
		t.Error("two hosts sign webhooks with different keys")
	}
	run := func(wantCode int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		code := Main(append(args, "--store", u.String()), strings.NewReader(""), &out, &errs)
		if code != wantCode {
			t.Errorf("%v: exit code %d\n%s", args, code, errs.String())
		}
		all := out.String() + errs.String()
		if strings.Contains(all, pgtest.Password) || strings.Contains(all, url.QueryEscape(pgtest.Password)) {
			t.Errorf("%v tells the password: %s", args, all)
		}
		return all
	}
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{0, []string{"store", "stats"}, []string{"Tasks: 1 (1 COMPLETED)", "Records: 1", "Nodes: 0 alive (an agent counts twice on each host)"}},
		{0, []string{"store", "stats", "-o", "json"}, []string{`"tasks":{"TASK_STATE_COMPLETED":1}`, `"nodes":0`}},
		{0, []string{"store", "check"}, []string{"Tasks: 1", "Findings: 0"}},
		{2, []string{"store", "backup", "copy.db"}, []string{"pg_dump"}},
		{0, []string{"store", "gc", "--retain", "1m"}, []string{"Deleted: 1 tasks"}},
	} {
		got := run(c.code, c.args...)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%v says %q, want %q", c.args, got, w)
			}
		}
	}
	if strings.Contains(log.String(), pgtest.Password) {
		t.Error("the log tells the password")
	}
}
