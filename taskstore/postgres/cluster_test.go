//go:build unix

package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/storetest"
)

// cluster is a PostgreSQL server of the tests' own, in a temporary folder. It listens on a Unix socket there.
type cluster struct {
	bin, dir  string
	template  sync.Once
	as        *syscall.SysProcAttr // the user who runs it, for root may not
	databases atomic.Int64
}

const password = "s3cret&word"

// server is the one of this test binary; nil: the machine has none.
var server *cluster

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		child(url)
		return
	}
	code := 1
	var err error
	if server, err = startCluster(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot start PostgreSQL:", err)
	} else {
		code = m.Run()
	}
	if server != nil {
		server.stop()
	}
	os.Exit(code)
}

// startCluster starts a server with the newest PostgreSQL that the machine has. There is none, and no error, if it has
// none; in CI that is an error.
func startCluster() (*cluster, error) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		if path, err := exec.LookPath("initdb"); err == nil {
			bins = append(bins, filepath.Dir(path))
		}
	}
	if len(bins) == 0 {
		if os.Getenv("CI") == "true" {
			return nil, fmt.Errorf("none is installed: apt-get install postgresql")
		}
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "parley-pg")
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bins[len(bins)-1], dir: dir}
	if os.Getuid() == 0 {
		if err := c.drop(); err != nil {
			return nil, err
		}
	}
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o644); err != nil {
		return nil, err
	}
	err = c.run("initdb", "-D", c.data(), "-U", "parley", "-A", "scram-sha-256", "--pwfile="+secret, "-E", "UTF8", "--no-locale")
	if err == nil {
		err = c.ctl("start")
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return c, nil
}

// drop has the server run as a user who is not root.
func (c *cluster) drop() error {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		c.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return os.Chown(c.dir, uid, gid)
	}
	return fmt.Errorf("root may not run it, and there is neither a user postgres nor nobody")
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) run(program string, args ...string) error {
	cmd := exec.Command(filepath.Join(c.bin, program), args...)
	cmd.Dir, cmd.SysProcAttr = c.dir, c.as
	log, err := os.Create(filepath.Join(c.dir, program+".out")) // no pipe: the server would keep it open
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		out, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// ctl starts, stops or restarts the server and waits for that.
func (c *cluster) ctl(what string, more ...string) error {
	args := []string{
		what, "-w", "-D", c.data(), "-l", filepath.Join(c.dir, "log"),
		"-o", "-c listen_addresses='' -c unix_socket_directories='" + c.dir + "' -c max_connections=200",
	}
	return c.run("pg_ctl", append(args, more...)...)
}

func (c *cluster) stop() {
	_ = c.ctl("stop", "-m", "immediate")
	os.RemoveAll(c.dir)
}

// url names a database as the server has it on a socket in a folder.
func (c *cluster) url(dir, database string) string {
	return fmt.Sprintf("host=%s port=5432 user=parley password='%s' dbname=%s", dir, password, database)
}

// database makes a new database and returns its name.
func (c *cluster) database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", c.databases.Add(1))
	c.exec(tb, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+c.withSchema(tb))
	return name
}

// withSchema returns the name of a database that has the tables and nothing in them.
func (c *cluster) withSchema(tb testing.TB) string {
	tb.Helper()
	c.template.Do(func() {
		c.exec(tb, "postgres", "CREATE DATABASE empty")
		s, err := Open(context.Background(), c.url(c.dir, "empty"), Options{Log: quiet})
		if err != nil {
			tb.Fatal(err)
		}
		s.Close()
	})
	return "empty"
}

// exec runs a statement.
func (c *cluster) exec(tb testing.TB, database, sql string) {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.url(c.dir, database))
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		tb.Fatal(err)
	}
}

// need skips a test that needs the server on a machine that has none.
func need(tb testing.TB) *cluster {
	tb.Helper()
	if server == nil {
		tb.Skip("no PostgreSQL on this machine (apt-get install postgresql): the store in it was not tested")
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
	return open(tb, c.url(c.dir, c.database(tb)), opts)
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
