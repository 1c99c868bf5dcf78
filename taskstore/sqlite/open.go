package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // registers the driver
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// oldest is the first SQLite in which a checkpoint cannot damage a database in WAL mode.
	oldest = 3_051_003
	// applicationID marks a file as ours ("PRLY"), so that no other program's database is taken for one.
	applicationID = 0x50524c59
	magic         = "SQLite format 3\x00"
)

// checkLibrary refuses versions of SQLite, in the form of SQLITE_VERSION_NUMBER, that may damage a database.
func checkLibrary(version int) error {
	if version < oldest {
		return fmt.Errorf("taskstore/sqlite: %w: SQLite %d.%d.%d, at least 3.51.3 is needed: build with a newer modernc.org/sqlite",
			ErrLibrary, version/1_000_000, version/1000%1000, version%1000)
	}
	return nil
}

// locate makes the folder of path and returns path without links, so that a file has one name and one lock.
func locate(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// lock takes the database at path for this process. The lock is a file of its own beside it, and says who has
// it to those who come too late.
func lock(path, node string) (*os.File, error) {
	f, held, err := lockFile(path + ".lock")
	switch {
	case held:
		holder, _ := os.ReadFile(path + ".lock")
		if len(holder) == 0 || len(holder) > 200 {
			return nil, &trouble{path, ErrInUse, nil}
		}
		return nil, &trouble{path, ErrInUse, errors.New(strings.TrimSpace(string(holder)))}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil, &trouble{path, ErrReadOnly, err}
	case err != nil:
		return nil, err
	}
	holder := fmt.Sprintf("process %d %s\n", os.Getpid(), node)
	if err := errors.Join(f.Truncate(0), writeAt(f, holder)); err != nil {
		_ = unlockFile(f)
		return nil, fault(path, err)
	}
	return f, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// checkFile makes the file at path if there is none, and refuses one that cannot be a database of ours or
// cannot be written. SQLite must not have the file open: to close it here would end SQLite's locks.
func checkFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &trouble{path, ErrReadOnly, err}
	case errors.Is(err, syscall.EISDIR):
		return &trouble{path, ErrNotDatabase, err}
	case err != nil:
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &trouble{path, ErrNotDatabase, fmt.Errorf("it is no file but a %v", info.Mode().Type())}
	case info.Mode().Perm()&0o200 == 0: // root could, but somebody said no
		return &trouble{path, ErrReadOnly, fmt.Errorf("its mode is %v", info.Mode().Perm())}
	case info.Size() == 0:
		if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 { // SQLite would throw it away
			return &trouble{path, ErrCorrupt, fmt.Errorf("it is empty, and %s-wal beside it is not", filepath.Base(path))}
		}
		return nil
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if string(head) != magic {
		return &trouble{path, ErrNotDatabase, nil}
	}
	return nil
}

// migrate brings the database at path to the schema of this version.
func migrate(ctx context.Context, path string, log *slog.Logger) error {
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if err := claim(ctx, db, path); err != nil {
		return err
	}
	// WAL lasts: it is a property of the file.
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode=wal").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file system cannot hold a database in WAL mode: choose a local folder")
	}
	list, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, list, goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
	if err != nil {
		return err
	}
	have, newest, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > newest {
		return &trouble{path, ErrNewer, fmt.Errorf("its schema is number %d, this version knows %d", have, newest)}
	}
	_, err = p.Up(ctx)
	return err
}

// claim marks an empty database as ours and refuses another program's.
func claim(ctx context.Context, db *sql.DB, path string) error {
	var id, objects int64
	err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id)
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&objects)
	}
	switch {
	case err != nil || id == applicationID:
		return err
	case id != 0 || objects > 0:
		return &trouble{path, ErrNotDatabase, errors.New("it is a database of another program")}
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d", applicationID))
	return err
}
