package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/storetest"
)

func open(tb testing.TB, path string, opts Options) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) taskstore.Store { return open(t, filepath.Join(t.TempDir(), "a.db"), Options{}) })
}

// TestStoreWithoutMemory reads everything from the file.
func TestStoreWithoutMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) taskstore.Store {
		return open(t, filepath.Join(t.TempDir(), "a.db"), Options{CacheBytes: 1, Durability: Normal})
	})
}
