//go:build linux

package linux

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Clone says into what a child is cloned. It exists beside syscall.ForkExec,
// which copies the whole address space when there is a user namespace: here
// the child shares it until its exec, and writes its own maps. That is a
// millisecond of a process with a few MB.
type Clone struct {
	Namespaces uintptr // CLONE_NEW* flags
	// With CLONE_NEWUSER: the caller's own ids, which are the child's inside too,
	// and the capabilities that its program keeps there.
	UID, GID int
	Caps     []uintptr
	Cgroup   int // descriptor of a version 2 group to be born into; 0: the caller's
}

type rawClone struct {
	*rawChild
	flags   uintptr
	cgroup  uint64
	pidfd   int32
	user    bool
	maps    [3]mapFile
	header  unix.CapUserHeader
	capData [2]unix.CapUserData
	caps    []uintptr
}

type mapFile struct{ name, text []byte }

// vforkCall makes a system call whose child shares this stack; see the
// assembly.
func vforkCall(trap, a1, a2, a3 uintptr) (r1, errno uintptr)

// Clone forks the child into namespaces, to be killed when the calling thread
// ends, and returns with a pidfd when its program runs or has failed to. The thread
// must be locked.
func (c *Child) Clone(n Clone) (s *Started, pidfd int, err error) {
	raw, err := c.raw()
	if err != nil {
		return nil, -1, err
	}
	r := &rawClone{
		rawChild: raw, flags: n.Namespaces, cgroup: uint64(n.Cgroup), pidfd: -1,
		user: n.Namespaces&unix.CLONE_NEWUSER != 0, caps: n.Caps,
	}
	// One's own id may be mapped without any right, if no group can be dropped.
	r.maps = [...]mapFile{
		{[]byte("/proc/self/setgroups\x00"), []byte("deny")},
		{[]byte("/proc/self/uid_map\x00"), fmt.Appendf(nil, "%d %d 1\n", n.UID, n.UID)},
		{[]byte("/proc/self/gid_map\x00"), fmt.Appendf(nil, "%d %d 1\n", n.GID, n.GID)},
	}
	r.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	for _, cap := range n.Caps {
		r.capData[cap/32].Permitted |= 1 << (cap % 32)
		r.capData[cap/32].Inheritable |= 1 << (cap % 32)
		r.capData[cap/32].Effective |= 1 << (cap % 32)
	}
	s, err = raw.start(func(*rawChild) (int, syscall.Errno) { return vfork(r) })
	if err != nil {
		return nil, -1, err
	}
	return s, int(r.pidfd), nil
}

// vfork clones and, in the child, executes. The child shares the stack, so what
// holds for fork's holds here, and nothing of this frame that the parent reads
// after it may be written by the child.
//
//go:noinline
//go:norace
func vfork(c *rawClone) (pid int, err syscall.Errno) {
	var (
		args [11]uint64 // struct clone_args, of which the last is the cgroup
		r, e uintptr
	)
	flags := c.flags | unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD
	if c.cgroup != 0 {
		args[0] = uint64(flags) | unix.CLONE_INTO_CGROUP
		args[1] = uint64(uintptr(unsafe.Pointer(&c.pidfd)))
		args[4] = uint64(unix.SIGCHLD)
		args[10] = c.cgroup
	}
	beforeFork()
	if c.cgroup != 0 {
		r, e = vforkCall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args[0])), unsafe.Sizeof(args), 0)
	} else {
		r, e = vforkCall(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(&c.pidfd)))
	}
	if e != 0 || r != 0 {
		afterFork()
		return int(r), syscall.Errno(e)
	}
	step, no := c.become()
	if no == 0 {
		step, no = c.exec()
	}
	c.fail(step, no)
	return 0, 0 // never
}

// become gives the child its death signal, its ids and its capabilities.
//
//go:nosplit
//go:norace
func (c *rawClone) become() (step uint32, e syscall.Errno) {
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); e != 0 {
		return stepDeath, e
	}
	if !c.user {
		return 0, 0
	}
	for i := range c.maps {
		m := &c.maps[i]
		fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&m.name[0])), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
		if e != 0 {
			return stepIdentity, e
		}
		_, _, e = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&m.text[0])), uintptr(len(m.text)))
		if e != 0 {
			return stepIdentity, e
		}
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	_, _, e = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&c.header)), uintptr(unsafe.Pointer(&c.capData[0])), 0)
	if e != 0 {
		return stepCapabilities, e
	}
	for i := range c.caps {
		_, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c.caps[i], 0, 0, 0)
		if e != 0 {
			return stepCapabilities, e
		}
	}
	return 0, 0
}
