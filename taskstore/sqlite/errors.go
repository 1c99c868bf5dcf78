package sqlite

import (
	"context"
	"errors"
	"slices"

	modernc "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/parley-a2a/parley/taskstore"
)

// Errors of Open and of a store whose file gives trouble. They come wrapped, with the path and what to do.
// None of them is a verdict on a task.
var (
	ErrInUse       = errors.New("another host uses this file")
	ErrNotDatabase = errors.New("not a database of Parley")
	ErrCorrupt     = errors.New("the database is damaged")
	ErrReadOnly    = errors.New("the database cannot be written")
	ErrNewer       = errors.New("the database was written by a newer version of Parley")
	ErrSchema      = errors.New("the database was made by another version of Parley")
	ErrLibrary     = errors.New("the SQLite library is too old")
	ErrFull        = errors.New("no room left for the database")
	ErrClosed      = errors.New("the store is closed")
	ErrGone        = errors.New("the database is no longer in its place")
)

// passing are those that may be over soon: they are a [taskstore.ErrUnavailable] too.
var passing = []error{ErrFull}

// advice says what to do about an error, in words that end its message.
var advice = map[error]string{
	ErrInUse:       "stop the other host, or give this one another file (--store)",
	ErrNotDatabase: "name another file (--store); this one was left as it is",
	ErrCorrupt:     "restore the file from a backup, or move it away and begin with an empty one",
	ErrReadOnly:    "let this user write the file and its folder, or name another file (--store)",
	ErrNewer:       "run that version, or name another file (--store)",
	ErrSchema:      "run that version, or move the file away and begin with an empty one",
	ErrGone:        "put it back, or stop this host and begin with what is there; nothing is written meanwhile",
	ErrFull:        "make room on the disk; what was recorded can still be read",
}

// trouble is an error of the file.
type trouble struct {
	path string
	kind error // one of the above; nil: no word for it
	why  error // may be nil
}

func (e *trouble) Error() string {
	out := "taskstore/sqlite: " + e.path
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

// unreadable is what a row holds that cannot be read: an ErrCorrupt that SQLite knows nothing of.
type unreadable struct{ error }

func (unreadable) Is(target error) bool { return target == ErrCorrupt }

func (e unreadable) Unwrap() error { return e.error }

// fault returns err, of an operation on the file at path, with what it means and what to do. A verdict of the
// store and the end of a context stay as they are.
func fault(path string, err error) error {
	var told *trouble
	var e *modernc.Error
	switch {
	case err == nil, errors.As(err, &told), isVerdict(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, ErrCorrupt):
		return &trouble{path, ErrCorrupt, err}
	case errors.As(err, &e):
		return &trouble{path, kindOfCode(e.Code()), err}
	}
	return &trouble{path, nil, err}
}

func isVerdict(err error) bool {
	for _, v := range []error{taskstore.ErrNotFound, taskstore.ErrTrimmed} { // those that reads give
		if errors.Is(err, v) {
			return true
		}
	}
	return false
}

// kindOfCode returns what a result code of SQLite means, nil if it is none of ours.
func kindOfCode(code int) error {
	switch code {
	case lib.SQLITE_IOERR_SHMSIZE: // SQLite could not make the index of the WAL larger
		return ErrFull
	}
	switch code & 0xff {
	case lib.SQLITE_FULL:
		return ErrFull
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return ErrCorrupt
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		return ErrReadOnly
	}
	return nil
}
