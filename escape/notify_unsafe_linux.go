package escape

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification and response are struct seccomp_notif and seccomp_notif_resp
// (Linux 5.0).
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// askAtOpen puts a filter on this thread that asks at openat(2), and gives the
// descriptor by which it does.
func askAtOpen() (int, error) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_OPENAT},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		return -1, fmt.Errorf("put the filter on: %w", e)
	}
	return int(fd), nil
}

// nextOpen waits for the next question: its number, who asks, and where in that
// one's memory the path lies.
func nextOpen(listener int) (id uint64, pid int, path uint64, err error) {
	var n notification
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); e != 0 {
		return 0, 0, 0, e
	}
	return n.id, int(n.pid), n.args[1], nil
}

// replyOpen lets the kernel go on with the call, or refuses it.
func replyOpen(listener int, id uint64, allowed bool) error {
	r := response{id: id, err: -int32(unix.EACCES)}
	if allowed {
		r = response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r))); e != 0 {
		return e
	}
	return nil
}
