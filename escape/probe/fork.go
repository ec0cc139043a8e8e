//go:build linux

package main

import (
	"encoding/binary"
	"math/big"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// call is one system call: number, then arguments.
type call [7]uintptr

// Numbers that no system call has: they stand for steps that are none of
// x86-64's own calls.
const (
	callInt80 = 0xffff0001 // the 32-bit entry
)

// forkPause makes a child that does nothing for some milliseconds. Go cannot
// fork: the child may only use raw system calls, and does.
//
//go:norace
func forkPause(ms uintptr) (int, error) {
	timespec := binary.NativeEndian.AppendUint64(nil, uint64(ms/1000))
	timespec = binary.NativeEndian.AppendUint64(timespec, uint64(ms%1000)*1_000_000)
	at := addr(timespec)
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	if pid == 0 {
		childPause(at)
	}
	runtime.KeepAlive(timespec)
	return int(pid), nil
}

//go:nosplit
//go:norace
func childPause(timespec uintptr) {
	syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, timespec, 0, 0, 0)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// forkCalls makes a child that performs the calls between two marks.
//
//go:norace
func forkCalls(begin, end uintptr, calls []call) (int, error) {
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	if pid == 0 {
		childCalls(begin, end, calls)
	}
	return int(pid), nil
}

//go:nosplit
//go:norace
func childCalls(begin, end uintptr, calls []call) {
	syscall.RawSyscall(syscall.SYS_CLOSE, begin, 0, 0)
	for i := range calls {
		c := &calls[i]
		if c[0] == callInt80 {
			int80getpid()
			continue
		}
		syscall.RawSyscall6(c[0], c[1], c[2], c[3], c[4], c[5], c[6])
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, end, 0, 0)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// reap waits for one child and gives its status.
func reap(pid int) unix.WaitStatus {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &ws, 0, nil)
		if err != unix.EINTR {
			return ws
		}
	}
}

// marks gives the two close(2) arguments that frame a stretch of calls: the
// job's marker makes them its own.
func marks(job escape.Job) (begin, end uintptr) {
	n, ok := new(big.Int).SetString(job.Marker[:4], 16)
	if !ok {
		return 0, 0
	}
	base := uintptr(escape.MarkerCall) | uintptr(n.Uint64())<<32 | 0xfffff000
	return base | 1, base | 2
}

// mark frames calls of this thread; the caller has locked itself to it.
func mark(job escape.Job, begin bool) {
	b, e := marks(job)
	if !begin {
		b = e
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, b, 0, 0)
}

func ignoreSignals() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
}
