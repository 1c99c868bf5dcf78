//go:build unix

package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/internal/pgtest"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/storetest"
)

// cluster is the tests' server, and an empty database with the tables.
type cluster struct {
	*pgtest.Server
	template sync.Once
}

// server is the one of this test binary; nil: the machine has none.
var server *cluster

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		child(url)
		return
	}
	s, err := pgtest.Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start PostgreSQL:", err)
		os.Exit(1)
	}
	if s != nil {
		server = &cluster{Server: s}
	}
	code := m.Run()
	if server != nil {
		server.Stop()
	}
	os.Exit(code)
}

// database makes a new database and returns its name.
func (c *cluster) database(tb testing.TB) string {
	tb.Helper()
	return c.Database(tb, c.withSchema(tb))
}

// withSchema returns the name of a database that has the tables and nothing in them.
func (c *cluster) withSchema(tb testing.TB) string {
	tb.Helper()
	c.template.Do(func() {
		c.Exec(tb, "postgres", "CREATE DATABASE empty")
		s, err := Open(context.Background(), c.URL(c.Dir, "empty"), Options{Log: quiet})
		if err != nil {
			tb.Fatal(err)
		}
		s.Close()
	})
	return "empty"
}

// need skips a test that needs the server on a machine that has none.
func need(tb testing.TB) *cluster {
	tb.Helper()
	if server == nil {
		tb.Skip(pgtest.Missing + ": the store in it was not tested")
	}
	return server
}

// quiet is a log that nobody reads.
var quiet = slog.New(slog.DiscardHandler)

func open(tb testing.TB, url string, opts Options) *Store {
	tb.Helper()
	if opts.Log == nil {
		opts.Log = quiet
	}
	s, err := Open(tb.Context(), url, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func openNew(tb testing.TB, opts Options) *Store {
	tb.Helper()
	c := need(tb)
	return open(tb, c.URL(c.Dir, c.database(tb)), opts)
}

func TestStore(t *testing.T) {
	need(t).withSchema(t) // outside of the suite's own clock
	storetest.Run(t, func(t *testing.T) taskstore.Store { return openNew(t, Options{}) })
}

// TestStoreWithoutMemory reads everything from the database.
func TestStoreWithoutMemory(t *testing.T) {
	need(t).withSchema(t) // outside of the suite's own clock
	storetest.Run(t, func(t *testing.T) taskstore.Store { return openNew(t, Options{CacheBytes: 1}) })
}

// soon waits for something that happens by itself.
func soon[T any](tb testing.TB, c <-chan T, within time.Duration) (v T) {
	tb.Helper()
	select {
	case v = <-c:
	case <-time.After(within):
		tb.Fatalf("it did not happen within %v", within)
	}
	return v
}
