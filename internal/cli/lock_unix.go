//go:build unix

package cli

import (
	"errors"
	"os"
	"syscall"
)

// lockFile opens the file at path, which is made if need be, and waits until it is this process's alone. The system ends
// the lock with the process, however that ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
	}
}

// othersRead reports whether others than the file's owner may read it.
func othersRead(info os.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

// ownedByOther reports whether a file belongs to neither who runs this nor root.
func ownedByOther(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid != 0 && int(stat.Uid) != os.Getuid()
}
