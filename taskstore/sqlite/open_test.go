package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/child/childtest"
	"github.com/parley-a2a/parley/internal/taskcodec"
	"github.com/parley-a2a/parley/taskstore"
)

// refused opens the store and wants an error that is want, names the file and says every word of say.
func refused(t *testing.T, path string, want error, say ...string) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, want) {
		t.Fatalf("Open: %v, want %v", err, want)
	}
	for _, word := range append(say, filepath.Base(path)) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	for _, verdict := range verdicts {
		if errors.Is(err, verdict) {
			t.Errorf("%q is a verdict", err)
		}
	}
}

var verdicts = []error{
	taskstore.ErrNotFound, taskstore.ErrExists, taskstore.ErrConflict, taskstore.ErrTerminal, taskstore.ErrFenced, taskstore.ErrHeld,
	taskstore.ErrNotHeld, taskstore.ErrLatched, taskstore.ErrCommitted, taskstore.ErrTrimmed, taskstore.ErrBadToken, taskstore.ErrSent,
}

func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "parley")
	path := filepath.Join(dir, "a.db")
	s := open(t, path, Options{})
	oneTask(t, s, "a")
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + ".lock": 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the mode %v, want %v", name, got, want)
		}
	}
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	s := open(t, path, Options{Node: "blue"})
	say := []string{"--store", fmt.Sprint("process ", os.Getpid()), "blue"}
	refused(t, path, ErrInUse, say...)
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), link, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("by another name: %v", err)
	}
	oneTask(t, s, "a") // the first goes on
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Close left the WAL: %v", err)
	}
	open(t, path, Options{})
}

func TestPathWithSigns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%20&mode=memory.db")
	s := open(t, path, Options{})
	oneTask(t, s, "a")
	s.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path, Options{}).Task(t.Context(), key("a"), 0); err != nil {
		t.Error(err)
	}
}

func TestNotDatabase(t *testing.T) {
	dir := t.TempDir()
	letter := filepath.Join(dir, "letter.txt")
	short := filepath.Join(dir, "short.txt")
	for path, content := range map[string]string{letter: strings.Repeat("Dear Alice. ", 1000), short: "x"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, path, ErrNotDatabase, "--store")
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%s was changed", path)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	refused(t, filepath.Join(dir, "folder"), ErrNotDatabase, "--store")

	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE songs (name)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, _ := os.ReadFile(other)
	refused(t, other, ErrNotDatabase, "another program")
	if after, _ := os.ReadFile(other); !bytes.Equal(before, after) {
		t.Error("another program's database was changed")
	}
}

// TestLockEnds: a file that was closed can be opened at once, though processes are being started, which have what their
// parent has open for a moment.
func TestLockEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	defer childtest.Starting(t)()
	for range 2000 {
		f, _, err := lockFile(path)
		if err != nil {
			t.Error(err)
			break
		}
		if err := unlockFile(f); err != nil {
			t.Error(err)
		}
	}
}

func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	open(t, path, Options{}).Close()
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	refused(t, path, ErrReadOnly, "--store")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path, Options{}) // nothing of the refusal stays, its lock neither
}

func TestNewer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	open(t, path, Options{}).Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, _ := os.ReadFile(path)
	refused(t, path, ErrNewer, "99", "run that version")
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the database was changed")
	}
}

func TestLibrary(t *testing.T) {
	if err := checkLibrary(3_051_002); !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "3.51.2,") {
		t.Errorf("3.51.2: %v", err)
	}
	for _, v := range []int{3_051_003, 3_052_000} {
		if err := checkLibrary(v); err != nil {
			t.Error(err)
		}
	}
}

// TestCorrupt overwrites parts of a closed database.
func TestCorrupt(t *testing.T) {
	const needle = "needle in the log of task a"
	// make returns the content of a database with three tasks of many pages each.
	dir := t.TempDir()
	path := filepath.Join(dir, "good.db")
	s := open(t, path, Options{})
	for _, id := range []string{"a", "b"} {
		k := key(id)
		r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "n", Records: []taskstore.Record{taskRecord(k, now())}})
		for i := range 40 {
			text := strings.Repeat(id, 4000)
			if id == "a" && i == 20 {
				text = needle
			}
			commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, text, i > 0)}})
		}
	}
	s.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	damaged := func(name string, f func([]byte) []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, f(bytes.Clone(good)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noise := bytes.Repeat([]byte{0xa5}, page)

	t.Run("schema", func(t *testing.T) {
		refused(t, damaged("schema.db", func(b []byte) []byte { copy(b[100:page], noise); return b }), ErrCorrupt, "backup")
	})
	t.Run("cut", func(t *testing.T) {
		refused(t, damaged("cut.db", func(b []byte) []byte { return b[:len(b)/2/page*page] }), ErrCorrupt, "backup")
	})
	t.Run("log", func(t *testing.T) {
		path := damaged("log.db", func(b []byte) []byte {
			at := bytes.Index(b, []byte(needle))
			if at < 0 {
				t.Fatal("the needle is not in the file")
			}
			copy(b[at/page*page:], noise)
			return b
		})
		s := open(t, path, Options{})
		for _, read := range []func() error{
			func() error { _, err := s.Task(t.Context(), key("a"), 25); return err },
			func() error { _, err := s.Entries(t.Context(), key("a"), 0, 100); return err },
		} {
			if err := read(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("a damaged page: %v", err)
			}
		}
		if snap, err := s.Task(t.Context(), key("b"), 0); err != nil || len(snap.Task.Artifacts) != 1 {
			t.Errorf("a whole task of a damaged database: %v", err)
		}
		oneTask(t, s, "c")
	})
	t.Run("record", func(t *testing.T) {
		path := damaged("record.db", func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"text":"`+needle), []byte(`"text":\`+needle), 1)
		})
		s := open(t, path, Options{})
		if _, err := s.Entries(t.Context(), key("a"), 0, 100); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a record that is no JSON: %v", err)
		}
	})
}

func TestDurability(t *testing.T) {
	for d, want := range map[Durability]int64{Full: 2, Normal: 1} {
		s := open(t, filepath.Join(t.TempDir(), "a.db"), Options{Durability: d})
		var mode int64
		var q *stmt
		if err := s.w.prepare([]source{{&q, "PRAGMA synchronous"}}); err != nil {
			t.Fatal(err)
		}
		if err := q.query(readInt(&mode)); err != nil || mode != want {
			t.Errorf("durability %v: synchronous is %d, want %d (%v)", d, mode, want, err)
		}
		q.Close()
	}
}

// TestStates holds the numbers that the schema and the statements have written out.
func TestStates(t *testing.T) {
	if a2a.TaskStateSubmitted != 1 || a2a.TaskStateInputRequired != 6 || a2a.TaskStateAuthRequired != 8 || taskcodec.KindArtifact != 3 || taskcodec.KeepFlag != 1<<4 {
		t.Error("statements.go and the migrations have other numbers")
	}
	for st := a2a.TaskStateSubmitted; st <= a2a.TaskStateAuthRequired; st++ {
		if st.Terminal() != strings.Contains(hasEnded, fmt.Sprint(int(st))) {
			t.Errorf("%v: %s", st, hasEnded)
		}
	}
}
