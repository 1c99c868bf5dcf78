package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-a2a/parley/taskstore"
)

// TestMisplaced: a host must not acknowledge what goes into a file that nobody finds any more, nor write beside another
// host because somebody removed a lock that looked stale.
func TestMisplaced(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed":   os.Remove,
		"renamed":   func(path string) error { return os.Rename(path, path+".moved") },
		"cut off":   func(path string) error { return os.Truncate(path, 0) },
		"replaced":  func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte(magic), 0o600)) },
		"lock gone": func(path string) error { return os.Remove(path + ".lock") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tasks.db")
			s, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }() // whatever it says: the file is spoilt
			change := func(id string) taskstore.Change {
				return taskstore.Change{Key: key(id), Create: true, Records: []taskstore.Record{taskRecord(key(id), now())}}
			}
			if _, err := s.Commit(t.Context(), change("a")); err != nil {
				t.Fatal(err)
			}
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			s.looked = time.Time{} // nobody commits meanwhile
			if _, err := s.Commit(t.Context(), change("b")); !errors.Is(err, ErrGone) {
				t.Errorf("a commit into it: %v", err)
			}
		})
	}
}

// TestEmptyBesideWAL: a database that is missing beside its WAL is not begun anew, which would throw the WAL away.
func TestEmptyBesideWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	if err := os.WriteFile(path+"-wal", make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("opened: %v", err)
		_ = s.Close()
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != 4096 {
		t.Errorf("the WAL: %v %v", info, err)
	}
}
