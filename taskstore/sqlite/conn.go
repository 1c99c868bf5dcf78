package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"

	modernc "modernc.org/sqlite"
)

// conn is one connection to the database with its prepared statements. It is the driver's own: a commit runs
// a few short statements again and again on a connection that nobody shares, and database/sql would cost as
// much as they do. One goroutine uses it at a time.
type conn struct {
	driver.Conn
	reads
	writes
	stmts []*stmt
}

// Close ends the statements too: SQLite would wait for them, and never move the WAL into the database.
func (c *conn) Close() error {
	for _, s := range c.stmts {
		_ = s.Close() // its error is that of the last run, which was told
	}
	return c.Conn.Close()
}

// connect opens a connection on which each pragma is set.
func connect(ctx context.Context, path string, pragmas ...string) (*conn, error) {
	return dial(ctx, dsn(path, "rw", pragmas...))
}

func dial(ctx context.Context, dsn string) (*conn, error) {
	c, err := modernc.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	d, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: d}, nil
}

// dsn names the file at path, which is there, for the driver. mode is rw or ro.
func dsn(path, mode string, pragmas ...string) string {
	pragmas = append([]string{"busy_timeout(5000)", "temp_store(memory)"}, pragmas...)
	u := url.URL{
		Scheme: "file", Path: filepath.ToSlash(path),
		RawQuery: url.Values{"mode": {mode}, "_pragma": pragmas}.Encode(),
	}
	return u.String()
}

// stmt is a prepared statement.
type stmt struct {
	driver.Stmt
	args []driver.NamedValue
	row  []driver.Value
}

// prepare prepares the statements of a list that ends with the first error.
func (c *conn) prepare(list []source) error {
	for _, s := range list {
		d, err := c.Prepare(s.sql)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", s.sql, err)
		}
		*s.to = &stmt{Stmt: d}
		c.stmts = append(c.stmts, *s.to)
	}
	return nil
}

// source is the text of a statement and where it goes.
type source struct {
	to  **stmt
	sql string
}

// bind puts values of the driver's kinds (int64, string, []byte, nil) in the statement's places.
func (s *stmt) bind(args []any) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// exec runs the statement and returns how many rows it changed. Statements are short, so that they are not
// interrupted: contexts end the waiting for a connection.
func (s *stmt) exec(args ...any) (int64, error) {
	//nolint:forcetypeassert // modernc.org/sqlite has it
	r, err := s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
	clear(s.args) // they can be large, and the statement may wait long for its next run
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query runs the statement and calls each with every row, until it returns an error. The slice is used again
// for the next row, the values are not.
func (s *stmt) query(each func(row []driver.Value) error, args ...any) (err error) {
	return s.queryContext(context.Background(), each, args...)
}

// queryContext is query for a statement that may take long: the end of ctx interrupts it.
func (s *stmt) queryContext(ctx context.Context, each func(row []driver.Value) error, args ...any) (err error) {
	//nolint:forcetypeassert // modernc.org/sqlite has it
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, s.bind(args))
	clear(s.args)
	if err != nil {
		return err
	}
	defer func() {
		clear(s.row)
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	for {
		if err := rows.Next(s.row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(s.row); err != nil {
			return err
		}
	}
}

// The columns of a row; NULL is the zero value.

func integer(v driver.Value) int64 { n, _ := v.(int64); return n }

func text(v driver.Value) string { s, _ := v.(string); return s }

func blob(v driver.Value) []byte { b, _ := v.([]byte); return b }

// null returns b for a column that is NULL when it is nil.
func null(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
