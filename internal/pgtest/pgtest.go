//go:build unix

// Package pgtest starts a PostgreSQL server of a test's own, in a temporary folder, where it listens on a Unix socket.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Password is that of the server's user, with characters that a URL has to escape.
const Password = "s3cret&word"

// Missing is what a test says that is skipped because the machine has no PostgreSQL.
const Missing = "no PostgreSQL on this machine (apt-get install postgresql)"

// Server is a PostgreSQL server.
type Server struct {
	Dir       string               // where the socket and the data are
	bin       string               // folder of the programs
	as        *syscall.SysProcAttr // the user who runs it, for root may not
	databases atomic.Int64
}

// Start starts a server with the newest PostgreSQL that the machine has. It returns nil and no error if there is none;
// in CI that is an error.
func Start(ctx context.Context) (*Server, error) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		if path, err := exec.LookPath("initdb"); err == nil {
			bins = append(bins, filepath.Dir(path))
		}
	}
	if len(bins) == 0 {
		if os.Getenv("CI") == "true" {
			return nil, errors.New(Missing)
		}
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "parley-pg")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bins[len(bins)-1], Dir: dir}
	if err := s.init(ctx); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *Server) init(ctx context.Context) error {
	if os.Getuid() == 0 {
		if err := s.drop(); err != nil {
			return err
		}
	}
	secret := filepath.Join(s.Dir, "password")
	if err := os.WriteFile(secret, []byte(Password+"\n"), 0o644); err != nil { //nolint:gosec // the server's user reads it, and it is no secret
		return err
	}
	err := s.run(ctx, "initdb", "-D", s.Data(), "-U", "parley", "-A", "scram-sha-256", "--pwfile="+secret, "-E", "UTF8", "--no-locale")
	if err != nil {
		return err
	}
	return s.Ctl(ctx, "start")
}

// drop has the server run as a user who is not root.
func (s *Server) drop() error {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return os.Chown(s.Dir, uid, gid)
	}
	return errors.New("root may not run PostgreSQL, and there is neither a user postgres nor nobody")
}

// Data is the folder of the server's data.
func (s *Server) Data() string { return filepath.Join(s.Dir, "data") }

func (s *Server) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...) //nolint:gosec // programs of PostgreSQL
	cmd.Dir, cmd.SysProcAttr = s.Dir, s.as
	log, err := os.Create(filepath.Join(s.Dir, program+".out")) // no pipe: the server would keep it open
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		out, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// Ctl has pg_ctl start, stop or restart the server, and waits for that.
func (s *Server) Ctl(ctx context.Context, what string, more ...string) error {
	args := []string{
		what, "-w", "-D", s.Data(), "-l", filepath.Join(s.Dir, "log"),
		"-o", "-c listen_addresses='' -c unix_socket_directories='" + s.Dir + "' -c max_connections=200",
	}
	return s.run(ctx, "pg_ctl", append(args, more...)...)
}

// Kill ends the server at once, as kill -9 does. Ctl starts it again.
func (s *Server) Kill() error {
	b, err := os.ReadFile(filepath.Join(s.Data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		return fmt.Errorf("postmaster.pid: %w", err)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() {
	_ = s.Ctl(context.Background(), "stop", "-m", "immediate")
	os.RemoveAll(s.Dir)
}

// URL names a database as the server has it on a socket in a folder.
func (s *Server) URL(dir, database string) string {
	return fmt.Sprintf("host=%s port=5432 user=parley password='%s' dbname=%s", dir, Password, database)
}

// Database makes a new database like another, and returns its name.
func (s *Server) Database(tb testing.TB, like string) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.Exec(tb, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+like)
	return name
}

// Exec runs a statement.
func (s *Server) Exec(tb testing.TB, database, sql string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	conn, err := pgx.Connect(ctx, s.URL(s.Dir, database))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		tb.Fatal(err)
	}
}
