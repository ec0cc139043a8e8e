//go:build linux

package linux

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are the runtime's own steps around a fork, which syscall.ForkExec takes
// too: signals are blocked, and the child's handlers and mask are put back.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// rawChild is a Child as the kernel takes it. After the fork nothing may be
// allocated, so all of it is made before.
type rawChild struct {
	path, dir  *byte
	argv, env  []*byte
	files      []int
	limits     []rawLimit
	setsid     bool
	terminal   bool
	foreground bool
	report     int
}

type rawLimit struct {
	resource int
	value    unix.Rlimit
}

func (c *Child) raw() (*rawChild, error) {
	r := &rawChild{
		files: append([]int(nil), c.Files...), setsid: c.Setsid, terminal: c.Terminal, foreground: c.Foreground,
	}
	var err error
	if r.path, err = syscall.BytePtrFromString(c.Path); err == nil {
		r.argv, err = syscall.SlicePtrFromStrings(c.Argv)
	}
	if err == nil {
		r.env, err = syscall.SlicePtrFromStrings(c.Env)
	}
	if err == nil && c.Dir != "" {
		r.dir, err = syscall.BytePtrFromString(c.Dir)
	}
	if err != nil { // a NUL byte: no such program can exist
		return nil, &ChildError{"exec", errnoOf(err)}
	}
	for _, l := range c.Limits {
		r.limits = append(r.limits, rawLimit{l.Resource, unix.Rlimit{Cur: l.Soft, Max: l.Hard}})
	}
	return r, nil
}

// fork forks and, in the child, executes. The child runs on a copy of this
// goroutine's stack, alone: it must not allocate, grow the stack or call anything that might,
// so only raw calls stand below, and all of it in one function whose frame was made before.
//
//go:noinline
//go:norace
func fork(c *rawChild) (pid int, err syscall.Errno) {
	var (
		report [2]uint32 // step, errno
		e      syscall.Errno
		i      int
	)
	beforeFork()
	r, _, e1 := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e1 != 0 || r != 0 {
		afterFork()
		return int(r), e1
	}

	if c.setsid {
		report[0] = stepSession
		if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
			goto failed
		}
	}
	if c.foreground {
		report[0] = stepSession
		if _, _, e = syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0); e != 0 {
			goto failed
		}
	}
	if c.dir != nil {
		report[0] = stepDir
		if _, _, e = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); e != 0 {
			goto failed
		}
	}
	report[0] = stepFiles
	for i = range c.files {
		if _, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[i]), uintptr(i), 0); e != 0 {
			goto failed
		}
	}
	report[0] = stepTerminal
	if c.terminal {
		if _, _, e = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); e != 0 {
			goto failed
		}
	}
	if c.foreground {
		if e = takeForeground(); e != 0 {
			goto failed
		}
	}
	// Only now may signals come: a group in the background that takes the
	// terminal gets SIGTTOU, which would stop it here.
	afterForkInChild()
	report[0] = stepLimit
	for i = range c.limits {
		_, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(c.limits[i].resource),
			uintptr(unsafe.Pointer(&c.limits[i].value)), 0, 0, 0)
		if e != 0 {
			goto failed
		}
	}
	report[0] = stepExec
	_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)),
		uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
failed:
	report[1] = uint32(e)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.report), uintptr(unsafe.Pointer(&report[0])), unsafe.Sizeof(report))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 125, 0, 0)
	}
}

// takeForeground makes the calling process's group, whose leader it is, the
// foreground of its terminal. From the background that would stop it (SIGTTOU),
// unless the signal is blocked meanwhile.
//
//go:nosplit
//go:norace
func takeForeground() syscall.Errno {
	own, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	group := int32(own)
	block, old := uint64(1)<<(unix.SIGTTOU-1), uint64(0)
	const size = unsafe.Sizeof(old) // of a kernel's signal set
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&block)), uintptr(unsafe.Pointer(&old)), size, 0, 0)
	_, _, e := syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSPGRP, uintptr(unsafe.Pointer(&group)))
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, size, 0, 0)
	return e
}
