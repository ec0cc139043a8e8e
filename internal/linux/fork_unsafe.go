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
// goroutine's stack, alone: it must not allocate, grow the stack or call
// anything that might, so only raw calls stand in it.
//
//go:noinline
//go:norace
func fork(c *rawChild) (pid int, err syscall.Errno) {
	beforeFork()
	r, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 || r != 0 {
		afterFork()
		return int(r), e
	}
	step, e := c.exec()
	c.fail(step, e)
	return 0, 0 // never
}

// fail tells the parent why the child ends, and ends it.
//
//go:nosplit
//go:norace
func (c *rawChild) fail(step uint32, e syscall.Errno) {
	report := [2]uint32{step, uint32(e)}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.report), uintptr(unsafe.Pointer(&report[0])), unsafe.Sizeof(report))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 125, 0, 0)
	}
}

// exec is what a child does until its program runs. It returns only what
// failed. No frame below it may grow the stack.
//
//go:nosplit
//go:norace
func (c *rawChild) exec() (step uint32, e syscall.Errno) {
	if c.setsid {
		if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
			return stepSession, e
		}
	}
	if c.foreground {
		if _, _, e = syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0); e != 0 {
			return stepSession, e
		}
	}
	if c.dir != nil {
		if _, _, e = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); e != 0 {
			return stepDir, e
		}
	}
	for i := range c.files {
		if _, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[i]), uintptr(i), 0); e != 0 {
			return stepFiles, e
		}
	}
	if c.terminal {
		if _, _, e = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); e != 0 {
			return stepTerminal, e
		}
	}
	if c.foreground {
		own, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		group := int32(own)
		if _, _, e = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSPGRP, uintptr(unsafe.Pointer(&group))); e != 0 {
			return stepTerminal, e
		}
	}
	// Only now may signals come: a group in the background that takes the
	// terminal gets SIGTTOU, which would stop it here.
	afterForkInChild()
	for i := range c.limits {
		_, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(c.limits[i].resource),
			uintptr(unsafe.Pointer(&c.limits[i].value)), 0, 0, 0)
		if e != 0 {
			return stepLimit, e
		}
	}
	_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)),
		uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
	return stepExec, e
}
