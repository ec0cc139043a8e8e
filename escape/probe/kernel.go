//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// kernelClass performs the calls of one class with harmless or empty
// arguments, each in a child of its own, so that a filter that kills ends
// only that one.
func kernelClass(job escape.Job) {
	classes, keep := kernelCalls()
	performClass(job, classes[job.Arg])
	runtime.KeepAlive(keep)
}

func performClass(job escape.Job, groups [][]call) {
	begin, end := marks(job)
	for i, g := range groups {
		pid, err := forkCalls(begin, end, g)
		if err != nil {
			tell("fork", err)
			continue
		}
		fmt.Println("call", i, reap(pid))
	}
}

// kernelCalls gives the classes, and the buffers that their arguments point
// into. A group is performed in order in one child: the first calls of the
// mount classes try to gain the right to the later ones.
func kernelCalls() (map[string][][]call, [][]byte) {
	var keep [][]byte
	str := func(s string) uintptr {
		b := append([]byte(s), 0)
		keep = append(keep, b)
		return addr(b)
	}
	zero := make([]byte, 4096)
	keep = append(keep, zero)
	z := addr(zero)
	one := func(cs ...call) [][]call {
		var g [][]call
		for _, c := range cs {
			g = append(g, []call{c})
		}
		return g
	}
	userns := call{unix.SYS_UNSHARE, unix.CLONE_NEWUSER}
	mountns := call{unix.SYS_UNSHARE, unix.CLONE_NEWNS}
	socket := func(family, kind, proto uintptr) call { return call{unix.SYS_SOCKET, family, kind, proto} }
	const rdonly = ^uintptr(99) // AT_FDCWD
	return map[string][][]call{
		"io_uring":    one(call{unix.SYS_IO_URING_SETUP, 1, 0}),
		"bpf":         one(call{unix.SYS_BPF, 5, 0, 0}),
		"userfaultfd": one(call{unix.SYS_USERFAULTFD, 1 | unix.O_CLOEXEC}),
		"keyring": one(call{unix.SYS_KEYCTL, 0, ^uintptr(2), 0},
			call{unix.SYS_ADD_KEY, str("user"), str("probe"), z, 4, ^uintptr(0)}),
		"perf": one(call{unix.SYS_PERF_EVENT_OPEN, 0, 0, ^uintptr(0), ^uintptr(0), 0}),
		"userns": {
			{userns, mountns, {unix.SYS_UNSHARE, unix.CLONE_NEWNET}},
		},
		"mount": {
			{userns, mountns, {unix.SYS_FSOPEN, str("tmpfs"), 0}},
			{userns, mountns, {unix.SYS_OPEN_TREE, rdonly, str("/"), unix.OPEN_TREE_CLONE}},
			{userns, mountns, {unix.SYS_MOUNT, str("none"), str("/tmp"), str("tmpfs"), 0, 0}},
			{userns, mountns, {unix.SYS_MOVE_MOUNT, rdonly, str("/"), rdonly, str("/"), 0}},
		},
		"handles": one(call{unix.SYS_NAME_TO_HANDLE_AT, rdonly, str("/"), z, z + 1024, 0},
			call{unix.SYS_OPEN_BY_HANDLE_AT, rdonly, z, 0}),
		"ptrace": one(call{unix.SYS_PTRACE, 0x4206, 1, 0, 0}, call{unix.SYS_PROCESS_VM_READV, 0, 0, 0, 0, 0, 0},
			call{unix.SYS_KCMP, 1, 1, 0, 0, 0}, call{unix.SYS_PIDFD_GETFD, ^uintptr(0), 0, 0}),
		"modules": one(call{unix.SYS_INIT_MODULE, 0, 0, 0}, call{unix.SYS_FINIT_MODULE, ^uintptr(0), 0, 0},
			call{unix.SYS_KEXEC_LOAD, 0, 0, 0, 0}),
		"netlink": one(socket(unix.AF_NETLINK, unix.SOCK_RAW, 12), socket(unix.AF_NETLINK, unix.SOCK_RAW, 6),
			socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)),
		"sockets": one(socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
			socket(unix.AF_PACKET, unix.SOCK_RAW, 0), socket(unix.AF_XDP, unix.SOCK_RAW, 0), socket(unix.AF_TIPC, unix.SOCK_RDM, 0),
			socket(unix.AF_RDS, unix.SOCK_SEQPACKET, 0), socket(unix.AF_SMC, unix.SOCK_STREAM, 0), socket(unix.AF_KEY, unix.SOCK_RAW, 2),
			socket(unix.AF_CAN, unix.SOCK_RAW, 1), socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1)),
		"compat": one(call{callInt80}, call{0x40000000 | unix.SYS_GETPID}),
		"admin": one(call{unix.SYS_SETTIMEOFDAY, 0, 0}, call{unix.SYS_CLOCK_ADJTIME, 0, z}, call{unix.SYS_ACCT, str("/nonexistent")},
			call{unix.SYS_SWAPON, str("/nonexistent"), 0}, call{unix.SYS_QUOTACTL, 0x80000100, 0, 0, 0}, call{unix.SYS_REBOOT, 0, 0, 0}),
		"memfd": {
			{{unix.SYS_MEMFD_SECRET, 0}},
			{{unix.SYS_MEMFD_CREATE, str("probe"), 0}, {unix.SYS_EXECVEAT, ^uintptr(0), str(""), 0, 0, unix.AT_EMPTY_PATH}},
		},
	}, keep
}

// benign is a small ordinary program: files, a pipe, a child, memory, time.
func benign(job escape.Job) {
	benignFiles(job)
	r, w, err := os.Pipe()
	if err == nil {
		_, _ = w.Write([]byte("x"))
		_ = w.Close()
		_, _ = r.Read(make([]byte, 1))
		_ = r.Close()
	}
	if pid, err := forkPause(1); err == nil {
		reap(pid)
	}
	benignMemory()
}

// hostile is benign and then every kernel class.
func hostile(job escape.Job) {
	benign(job)
	classes, keep := kernelCalls()
	for _, groups := range classes {
		performClass(job, groups)
	}
	runtime.KeepAlive(keep)
}

// readMasked reads files of /proc and /sys that boxes usually hide, directly
// and through a proc of its own.
func readMasked(job escape.Job) {
	runtime.LockOSThread()
	for _, p := range []string{
		"/proc/kcore", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats", "/proc/scsi/scsi",
		"/proc/kpagecount", "/proc/kmsg", "/sys/kernel/debug/sched/debug", "/sys/firmware/dmi/tables/DMI",
	} {
		readMarked(job, p)
	}
	tell("a proc of its own", inUserNS(job, "masked-inner", ""))
}

func readMarked(job escape.Job, p string) {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		buf := make([]byte, 64)
		mark(job, true)
		_, err = unix.Read(fd, buf)
		mark(job, false)
		_ = unix.Close(fd)
	}
	tell(p, err)
}
