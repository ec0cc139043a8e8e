//go:build linux

package linux

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetSeccompFilter installs a filter on the calling thread, for good. The thread
// has no_new_privs or CAP_SYS_ADMIN in its user namespace.
func SetSeccompFilter(program []unix.SockFilter) error {
	if len(program) == 0 {
		return errors.New("set seccomp filter: it is empty")
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("set seccomp filter: %w", errno)
	}
	return nil
}

// SeccompHasAction reports whether this kernel has filters with the given action
// (unix.SECCOMP_RET_*).
func SeccompHasAction(action uint32) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}
