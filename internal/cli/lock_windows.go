//go:build windows

package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile opens the file at path, which is made if need be, and waits until it is this process's alone. The system ends
// the lock with the process, however that ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped)); err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// othersRead reports whether others than the file's owner may read it. A file in a user's folder is that user's.
func othersRead(os.FileInfo) bool { return false }

func ownedByOther(os.FileInfo) bool { return false }
