package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestOtherSchema: a database whose tables are not those of its migration's number is said to be of another version.
func TestOtherSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	drop := stmt{}
	if drop.Stmt, err = c.Prepare("DROP TABLE minutes"); err != nil {
		t.Fatal(err)
	}
	if _, err := drop.exec(); err != nil {
		t.Fatal(err)
	}
	_ = drop.Close()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrSchema) {
		t.Errorf("opened: %v", err)
		if err == nil {
			_ = s.Close()
		}
	}
}
