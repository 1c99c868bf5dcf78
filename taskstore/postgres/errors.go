package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-a2a/parley/taskstore"
)

// Errors of Open and of a store whose database gives trouble. They come wrapped, with the place and what to do.
// None of them is a verdict on a task.
var (
	ErrUnreachable = errors.New("the database cannot be reached")
	ErrDenied      = errors.New("the database refuses this user")
	ErrNoSchema    = errors.New("this user may not make or use the tables")
	ErrReadOnly    = errors.New("the database cannot be written")
	ErrCorrupt     = errors.New("the database has what cannot be read")
	ErrOldServer   = errors.New("the server is older than PostgreSQL 15")
	ErrNewer       = errors.New("the database was written by a newer version of Parley")
	ErrFull        = errors.New("no room left for the database")
	ErrUnknown     = errors.New("the connection was lost during a commit, which may have happened")
	ErrClosed      = errors.New("the store is closed")

	errURL     = errors.New("it cannot be read")
	errSetting = errors.New("a setting of the URL is unknown or wrong")
)

// passing are those that may be over soon: they are a [taskstore.ErrUnavailable] too.
var passing = []error{ErrUnreachable, ErrReadOnly, ErrFull, ErrUnknown}

// advice says what to do about an error, in words that end its message.
var advice = map[error]string{
	ErrUnreachable: "see that the server runs and that the URL names it, with an sslmode that the server has",
	ErrDenied:      "see that the URL or the environment has the right user, password and database",
	ErrNoSchema: "the tables are in the first schema of the search_path: one that is there and in which the role may create tables " +
		"(CREATE SCHEMA parley AUTHORIZATION the role), and always of the same role",
	ErrReadOnly:  "let the URL name the primary server, not a standby (target_session_attrs=read-write)",
	ErrOldServer: "use PostgreSQL 15 or newer",
	ErrNewer:     "run that version, or name another database",
	ErrFull:      "make room on the server's disk; what was recorded can still be read",
	errURL:       "want postgres://USER@HOST:PORT/DATABASE, and numbers in pool_max_conns and its like",
	errSetting:   "what stands behind ? is libpq's, pgxpool's or PostgreSQL's own",
}

// trouble is an error of the database.
type trouble struct {
	where string
	kind  error // one of the above; nil: no word for it
	why   error // may be nil
}

func (e *trouble) Error() string {
	out := "taskstore/postgres: " + e.where
	if e.kind != nil {
		out += ": " + e.kind.Error()
	}
	if e.why != nil {
		out += ": " + e.why.Error()
	}
	if what := advice[e.kind]; what != "" {
		out += ": " + what
	}
	return out
}

func (e *trouble) Unwrap() []error {
	all := []error{e.kind, e.why}
	if slices.Contains(passing, e.kind) {
		all = append(all, taskstore.ErrUnavailable)
	}
	return slices.DeleteFunc(all, func(err error) bool { return err == nil })
}

// unreadable is what a row holds that cannot be read.
type unreadable struct{ error }

func (unreadable) Is(target error) bool { return target == ErrCorrupt }

func (e unreadable) Unwrap() error { return e.error }

// fault returns err with what it means and what to do. A verdict of the store stays as it is.
func (s *Store) fault(err error) error {
	var told *trouble
	if err == nil || errors.As(err, &told) || errors.Is(err, taskstore.ErrNotFound) || errors.Is(err, taskstore.ErrTrimmed) {
		return err
	}
	return &trouble{s.where, kindOf(err), err}
}

// kindOf returns which of our errors err is, nil if it is none.
func kindOf(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, ErrCorrupt):
		return ErrCorrupt
	case !errors.As(err, &pg):
		if transient(err) {
			return ErrUnreachable
		}
		return nil
	}
	switch {
	case strings.HasPrefix(pg.Code, "28"), pg.Code == "3D000": // authorization, no such database
		return ErrDenied
	case pg.Code == "42501", pg.Code == "3F000", pg.Code == "42P01": // privilege, no such schema or table
		return ErrNoSchema
	case pg.Code == "42704", pg.Code == "22023": // of a setting: our statements have none
		return errSetting
	case pg.Code == "25006":
		return ErrReadOnly
	case pg.Code == "53100":
		return ErrFull
	case gone(pg.Code):
		return ErrUnreachable
	}
	return nil
}

// gone reports whether a code says that the server is not there, for now.
func gone(code string) bool {
	return strings.HasPrefix(code, "08") || code == "57P01" || code == "57P02" || code == "57P03" || code == "53300"
}

// transient reports whether the same thing, done anew, may succeed: the connection was lost, or another node was
// faster (a deadlock, or a row with the same key that our check did not see yet).
func transient(err error) bool {
	var pg *pgconn.PgError
	var config *pgconn.ParseConfigError
	switch {
	case errors.As(err, &pg):
		return gone(pg.Code) || pg.Code == "40001" || pg.Code == "40P01" || pg.Code == "23505"
	case errors.Is(err, ErrCorrupt), errors.As(err, &config), errors.Is(err, ErrUnknown):
		return false
	}
	var told *trouble
	return !errors.As(err, &told)
}

const (
	// attempt bounds one try: a server that does not answer is one that is gone.
	attempt = 10 * time.Second
	// patience is how long something is tried again: as long as a node lives that cannot beat. Most servers restart
	// within it.
	patience = ttl - margin
)

// try calls f until it succeeds, fails for good, or has failed for as long as patience lasts: once, if hasty. What f
// does is done anew.
func (s *Store) try(ctx context.Context, hasty bool, f func(context.Context) error) error {
	begun := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := s.once(ctx, f)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.closed():
			return &trouble{s.where, ErrClosed, nil}
		case hasty, !transient(err), time.Since(begun)+pause > patience:
			return s.fault(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Store) once(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return f(ctx)
}

func (s *Store) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}
