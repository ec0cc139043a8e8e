//go:build linux

// Package linux holds thin, tested wrappers of kernel calls that the Go
// libraries lack or offer in a heavier form. They take no decision.
package linux

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// DropBoundingSet removes every capability from the calling thread's bounding
// and ambient sets, so that no program it executes can gain one from a file. It needs CAP_SETPCAP.
func DropBoundingSet() error {
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL && c > unix.CAP_LAST_CAP { // beyond the kernel's last, if it is newer than us
			break
		}
		if err == unix.EINVAL && c > unix.CAP_AUDIT_READ { // 37, Linux 3.16: all that 5.12 or newer must have
			continue
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient set: %w", err)
	}
	return nil
}

// TerminalPeer opens the slave of a pseudo-terminal by its master
// (TIOCGPTPEER, Linux 4.13), with no path in between.
func TerminalPeer(master int) (int, error) {
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}
