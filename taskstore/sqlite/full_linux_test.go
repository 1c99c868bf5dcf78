package sqlite

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestDiskFull is TestFull on a disk that is full, if this user may mount one.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("parley-test", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(dir, "a.db"), Options{Log: slog.New(slog.DiscardHandler)})
	fillUp(t, s, func() {}, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}
