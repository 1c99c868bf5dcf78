package child

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exited waits until the process has ended, and leaves it to be reaped: until then nobody else has its number. It is
// false where that cannot be waited for.
func exited(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
