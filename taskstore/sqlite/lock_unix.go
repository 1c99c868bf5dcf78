//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// lockFile opens the file at path, which is made if need be, and locks it for this process alone. held
// reports that another one has it. The system ends the lock with the process, however that ends.
func lockFile(path string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, errors.Is(err, syscall.EWOULDBLOCK), &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, false, nil
}

// unlockFile ends the lock. To close the file is not enough: a process that is just being started has it open too, until it
// is another program.
func unlockFile(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
