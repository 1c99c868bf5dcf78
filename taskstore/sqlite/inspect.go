package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	modernc "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/parley-a2a/parley/a2a"
)

// Stats says what is in a database.
type Stats struct {
	Tasks       map[a2a.TaskState]int64 // by state; those of which there are none are left out
	Records     int64                   // in the logs
	FileBytes   int64
	WALBytes    int64     // of the write-ahead log beside the file
	OldestEnded time.Time // of the tasks that have ended, when the first one did; zero: none has
	Pending     int64     // webhooks to which something is still to be delivered
	Dead        int64     // webhooks that were given up
}

// StatsOf reads what is in the database at path. It only reads, and a host may have the database in use. Its
// errors are those of Open, and fs.ErrNotExist.
func StatsOf(ctx context.Context, path string) (st Stats, err error) {
	st.Tasks = map[a2a.TaskState]int64{}
	err = inspect(ctx, path, func(c *conn) error {
		return c.atOnce(func(c *conn) error {
			for _, q := range []struct {
				sql  string
				each func(row []driver.Value) error
			}{
				{"SELECT state, sum(n) FROM totals GROUP BY state HAVING sum(n) <> 0", func(row []driver.Value) error {
					st.Tasks[a2a.TaskState(integer(row[0]))] = integer(row[1])
					return nil
				}},
				{"SELECT count(*) FROM log", readInt(&st.Records)},
				{"SELECT min(status_ms) FROM tasks WHERE " + hasEnded + " HAVING count(*) > 0", func(row []driver.Value) error {
					st.OldestEnded = time.UnixMilli(integer(row[0])).UTC()
					return nil
				}},
				{"SELECT count(*) FROM webhooks WHERE done = 0", readInt(&st.Pending)},
				{"SELECT count(*) FROM webhooks WHERE done <> 0 AND attempts > 0", readInt(&st.Dead)},
			} {
				if err := c.ask(ctx, q.sql, q.each); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return Stats{}, err
	}
	for name, n := range map[string]*int64{path: &st.FileBytes, path + "-wal": &st.WALBytes} {
		info, err := os.Stat(name)
		switch {
		case err == nil:
			*n = info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return Stats{}, fault(path, err)
		}
	}
	return st, nil
}

const hasEnded = "state IN (3, 4, 5, 7)"

// Backup writes a copy of the database at path, as it is at one moment, into the new file dest, which only this
// user can read: what it says is as secret as the database. A host may have the database in use; its WAL grows
// while the copy is written. The copy is checked, and is on the disk when Backup returns. If dest exists, the error
// is fs.ErrExist and the file stays as it is; a copy that failed is removed. The other errors are those of StatsOf.
func Backup(ctx context.Context, path, dest string) (err error) {
	dest, err = filepath.Abs(dest)
	if err != nil {
		return fmt.Errorf("taskstore/sqlite: %w", err)
	}
	return inspect(ctx, path, func(c *conn) (err error) {
		f, err := os.OpenFile(dest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // VACUUM takes an empty file for none
		if err != nil {
			return fault(dest, err)
		}
		if err := f.Close(); err != nil {
			return fault(dest, err)
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, os.Remove(dest))
			}
		}()
		if err := c.ask(ctx, "VACUUM INTO ?", func([]driver.Value) error { return nil }, dest); err != nil {
			return err
		}
		if err := checkCopy(ctx, dest); err != nil {
			return fault(dest, err)
		}
		return fault(dest, syncFile(dest))
	})
}

// checkCopy returns an error if the copy of a database is not whole.
func checkCopy(ctx context.Context, dest string) error {
	return inspect(ctx, dest, func(c *conn) error {
		wrong, err := c.integrity(ctx)
		if err == nil && len(wrong) > 0 {
			err = unreadable{fmt.Errorf("the copy is not whole: %s", wrong[0])}
		}
		return err
	})
}

// syncFile has the file at path, which SQLite has closed, and its entry in the folder on the disk.
func syncFile(path string) error {
	for _, name := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = f.Sync()
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil && name == path { // not every system can sync a folder
			return err
		}
	}
	return nil
}

// inspect calls f with a connection to the database at path that can only read.
func inspect(ctx context.Context, path string, f func(*conn) error) (err error) {
	if _, err := os.Stat(path); err != nil {
		return &trouble{path, nil, err}
	}
	// No link: SQLite looks for the WAL beside the name that it was given.
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return fault(path, err)
	}
	c, err := dial(ctx, dsn(real, "ro"))
	if err != nil {
		return fault(path, noDatabase(path, err))
	}
	defer func() {
		if e := c.Close(); err == nil {
			err = fault(path, e)
		}
	}()
	if err := c.recognize(ctx, path); err != nil {
		return fault(path, noDatabase(path, err))
	}
	if err := c.prepare(c.reads.sources()); err != nil {
		return fault(path, err)
	}
	return fault(path, f(c))
}

// noDatabase is err, unless that says that the file is no database at all.
func noDatabase(path string, err error) error {
	var e *modernc.Error
	if errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_NOTADB {
		return &trouble{path, ErrNotDatabase, err}
	}
	return err
}

// recognize refuses what is no database of ours, or not of this version.
func (c *conn) recognize(ctx context.Context, path string) error {
	var id, have int64
	if err := c.ask(ctx, "PRAGMA application_id", readInt(&id)); err != nil {
		return err
	}
	if id != applicationID {
		return &trouble{path, ErrNotDatabase, errors.New("it is empty, or a database of another program")}
	}
	if err := c.ask(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied", readInt(&have)); err != nil {
		return err
	}
	newest, err := newestSchema()
	switch {
	case err != nil:
		return err
	case have > newest:
		return &trouble{path, ErrNewer, fmt.Errorf("its schema is number %d, this version knows %d", have, newest)}
	case have < newest:
		return &trouble{path, nil, fmt.Errorf("its schema is number %d, this version has %d: start a host with it once", have, newest)}
	}
	return nil
}

// newestSchema returns the number of the last migration.
func newestSchema() (int64, error) {
	list, err := migrations.ReadDir("migrations")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(list[len(list)-1].Name()[:5], 10, 64)
}

// ask runs a statement once.
func (c *conn) ask(ctx context.Context, query string, each func(row []driver.Value) error, args ...any) error {
	d, err := c.Prepare(query)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return (&stmt{Stmt: d}).queryContext(ctx, each, args...)
}

// integrity returns what SQLite finds wrong with the file.
func (c *conn) integrity(ctx context.Context) (wrong []string, err error) {
	err = c.ask(ctx, "PRAGMA integrity_check", func(row []driver.Value) error {
		for line := range strings.Lines(text(row[0])) {
			if line = strings.TrimSpace(line); line != "ok" && !strings.HasPrefix(line, "***") {
				wrong = append(wrong, line)
			}
		}
		return nil
	})
	return wrong, err
}
