//go:build linux

package stage

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// refusal is a call that the filter refuses. control is what an ordinary user
// gets without the filter; if that is the refusal too, the kernel had refused anyway.
type refusal struct {
	name   string
	number uintptr
	args   [6]uintptr
	want   unix.Errno
}

// refusals are harmless: with null or wrong arguments, or undone by the end of the process.
func refusals(file *byte) []refusal {
	path := uintptr(unsafe.Pointer(file))
	at := uintptr(unix.AT_FDCWD & (1<<64 - 1))
	const dirtyHigh = 7 << 32
	return []refusal{
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{1, 0}, unix.ENOSYS},
		{"io_setup", unix.SYS_IO_SETUP, [6]uintptr{1, 0}, unix.ENOSYS},
		{"bpf", unix.SYS_BPF, [6]uintptr{5, 0, 0}, unix.EPERM},
		{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{1}, unix.EPERM},
		{"keyctl", unix.SYS_KEYCTL, [6]uintptr{0, ^uintptr(2)}, unix.ENOSYS},
		{"add_key", unix.SYS_ADD_KEY, [6]uintptr{}, unix.ENOSYS},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{}, unix.EPERM},
		{"unshare user", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}, unix.EPERM},
		{"unshare user, dirty", unix.SYS_UNSHARE, [6]uintptr{dirtyHigh | unix.CLONE_NEWUSER}, unix.EPERM},
		{"clone3", unix.SYS_CLONE3, [6]uintptr{}, unix.ENOSYS},
		{"setns", unix.SYS_SETNS, [6]uintptr{0, 0}, unix.EPERM},
		{"mount", unix.SYS_MOUNT, [6]uintptr{}, unix.EPERM},
		{"open_tree", unix.SYS_OPEN_TREE, [6]uintptr{at, path, 0}, unix.EPERM},
		{"fsopen", unix.SYS_FSOPEN, [6]uintptr{}, unix.EPERM},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [6]uintptr{}, unix.EPERM},
		{"openat2", unix.SYS_OPENAT2, [6]uintptr{at, path, 0, 0}, unix.ENOSYS},
		{"quotactl", unix.SYS_QUOTACTL, [6]uintptr{0xffffff}, unix.EPERM},
		{"clock_adjtime", unix.SYS_CLOCK_ADJTIME, [6]uintptr{}, unix.EPERM},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, [6]uintptr{0x200, 0}, unix.EPERM},
		{"memfd_secret", unix.SYS_MEMFD_SECRET, [6]uintptr{0xffff}, unix.ENOSYS},
		{"statmount", unix.SYS_STATMOUNT, [6]uintptr{}, unix.ENOSYS},
		{"listmount", unix.SYS_LISTMOUNT, [6]uintptr{}, unix.ENOSYS},
		{"raw socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_RAW, 300}, unix.EPERM},
		{"vsock", unix.SYS_SOCKET, [6]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM, 9}, unix.EAFNOSUPPORT},
		{"netlink netfilter", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, unix.EPROTONOSUPPORT},
		{"netlink kobject", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, dirtyHigh | unix.NETLINK_KOBJECT_UEVENT}, unix.EPROTONOSUPPORT},
		{"multipath tcp", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EPROTONOSUPPORT},
		{"TIOCSTI", unix.SYS_IOCTL, [6]uintptr{999, unix.TIOCSTI}, unix.EPERM},
		{"TIOCSTI, dirty", unix.SYS_IOCTL, [6]uintptr{999, dirtyHigh | unix.TIOCSTI}, unix.EPERM},
		{"TIOCLINUX", unix.SYS_IOCTL, [6]uintptr{999, unix.TIOCLINUX}, unix.EPERM},
		{"F_SETOWN", unix.SYS_FCNTL, [6]uintptr{0, unix.F_SETOWN, 0}, unix.EPERM},
		{"F_SETLEASE", unix.SYS_FCNTL, [6]uintptr{999, dirtyHigh | unix.F_SETLEASE}, unix.EPERM},
		{"prlimit of another", unix.SYS_PRLIMIT64, [6]uintptr{uintptr(os.Getppid()), unix.RLIMIT_NOFILE, path, 0}, unix.EPERM},
		{"setpriority of the user", unix.SYS_SETPRIORITY, [6]uintptr{unix.PRIO_USER, 0, 0}, unix.EPERM},
		{"personality", unix.SYS_PERSONALITY, [6]uintptr{0x8}, unix.EPERM},
		{"fchmodat", unix.SYS_FCHMODAT, [6]uintptr{at, path, 0o4755}, unix.EPERM},
		{"fchmodat2", unix.SYS_FCHMODAT2, [6]uintptr{at, path, dirtyHigh | 0o2755}, unix.EPERM},
		{"openat with set-id", unix.SYS_OPENAT, [6]uintptr{at, path, unix.O_CREAT | unix.O_RDONLY, 0o4755}, unix.EPERM},
		{"huge page", unix.SYS_MMAP, [6]uintptr{0, 1 << 21, unix.PROT_READ, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | 1<<26}, unix.ENOMEM},
		{"merging pages", unix.SYS_MADVISE, [6]uintptr{1, 0, unix.MADV_MERGEABLE}, unix.EINVAL},
	}
}

// refusedAnyway are those of refusals whose control this kernel may answer with
// the same error, for want of a capability, a feature or an argument.
var refusedAnyway = map[string]string{
	"mount": "capability", "setns": "capability or kind of descriptor", "fsopen": "capability",
	"perf_event_open": "kernel.perf_event_paranoid", "bpf": "kernel.unprivileged_bpf_disabled", "userfaultfd": "vm.unprivileged_userfaultfd",
	"raw socket": "capability", "huge page": "none are reserved", "merging pages": "unaligned", "vsock": "not in this kernel",
	"prlimit of another": "the parent is root's", "multipath tcp": "not in this kernel", "netlink netfilter": "not in this kernel", "memfd_secret": "not in this kernel",
	"quotactl": "capability", "io_uring_setup": "kernel.io_uring_disabled", "io_setup": "not in this kernel", "netlink kobject": "not in this kernel",
	"keyctl": "not in this kernel", "add_key": "not in this kernel", "statmount": "before 6.8", "listmount": "before 6.8", "fchmodat2": "before 6.6",
	"fanotify_init": "capability before 5.13", "clock_adjtime": "", "unshare user": "threads",
}

func TestForbiddenCallsAreRefused(t *testing.T) {
	testenv.Need(t, "seccomp")
	oneWay(t, func(t *testing.T, _ []string) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		name, err := unix.BytePtrFromString(file)
		if err != nil {
			t.Fatal(err)
		}
		list := refusals(name)
		control := make([]unix.Errno, len(list))
		for i, r := range list {
			control[i] = try(r)
		}
		filterStem(t, FilterOptions{})
		vacuous := 0
		for i, r := range list {
			if got := try(r); got != r.want {
				t.Errorf("%s: %v, want %v", r.name, got, r.want)
			}
			if control[i] == r.want {
				vacuous++
				if _, known := refusedAnyway[r.name]; !known {
					t.Errorf("%s: refused with %v without the filter too", r.name, r.want)
				}
			}
		}
		t.Logf("%d of %d would be refused by this kernel anyway", vacuous, len(list))
	})
}

// try makes the call and undoes what it gave.
func try(r refusal) unix.Errno {
	got, _, errno := unix.Syscall6(r.number, r.args[0], r.args[1], r.args[2], r.args[3], r.args[4], r.args[5])
	if errno != 0 {
		return errno
	}
	switch r.number {
	case unix.SYS_SOCKET, unix.SYS_FANOTIFY_INIT, unix.SYS_USERFAULTFD, unix.SYS_OPEN_TREE, unix.SYS_OPENAT, unix.SYS_MEMFD_SECRET, unix.SYS_PERF_EVENT_OPEN:
		_ = unix.Close(int(got))
	case unix.SYS_PERSONALITY:
		_, _, _ = unix.Syscall(unix.SYS_PERSONALITY, 0, 0, 0)
	case unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2:
		_, _, _ = unix.Syscall(unix.SYS_FCHMODAT, r.args[0], r.args[1], 0o600)
	}
	return 0
}

// Only the thread that took the filter has it; what it forks has it too.
func TestFilterIsOnOneThread(t *testing.T) {
	testenv.Need(t, "seccomp", "python3")
	oneWay(t, func(t *testing.T, _ []string) {
		filterStem(t, FilterOptions{})
		if err := keyring(); err != unix.ENOSYS {
			t.Errorf("on the stem: %v, want ENOSYS", err)
		}
		other := make(chan error)
		go func() { other <- keyring() }() // the stem is locked, so this is another thread
		if err := <-other; err == unix.ENOSYS {
			t.Error("the filter is on another thread too")
		}
		status := runOnStem(t, nil, "python3", "-c", `import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(`+strconv.Itoa(unix.SYS_KEYCTL)+`, 0, -3, 0) == -1 and ctypes.get_errno() == errno.ENOSYS`)
		if status.ExitStatus() != 0 {
			t.Errorf("a program of the stem ended with %d", status.ExitStatus())
		}
	})
}

func keyring() error {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	return err
}

// runOnStem starts a program from the calling thread and waits for it.
func runOnStem(t *testing.T, sys *syscall.SysProcAttr, argv ...string) syscall.WaitStatus {
	t.Helper()
	path := lookPath(t, argv[0])
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: sys})
	if err != nil {
		t.Fatalf("start %s: %v", argv[0], err)
	}
	var status syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		t.Fatalf("wait for %s: %v", argv[0], err)
	}
	return status
}
