//go:build linux

package stage

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/stage/internal/filter"
)

const goarch = runtime.GOARCH

// dirty has bits set that the kernel does not look at in 32-bit arguments.
const dirty = 0xdeadbeef << 32

// argumentCases are what the rules with conditions must answer. The arguments
// are those of the box variant unless another is named.
var argumentCases = []struct {
	call string
	args []uint64
	want unix.Errno // 0: allowed
	in   filter.Variant
}{
	// Sockets.
	{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, 0, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, 0, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_UNIX, unix.SOCK_RAW, 0}, unix.EPERM, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC, 0}, 0, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, 0, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}, 0, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, 0, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}, unix.EPERM, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP}, unix.EPERM, filter.Box | filter.Nested},
	{"socket", []uint64{dirty | unix.AF_INET6, dirty | unix.SOCK_RAW, 0}, unix.EPERM, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_PACKET, 0}, unix.EPERM, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EPROTONOSUPPORT, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, unix.EPROTONOSUPPORT, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, 256}, unix.EPROTONOSUPPORT, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, 115}, unix.EPROTONOSUPPORT, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, 0, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, unix.EPROTONOSUPPORT, filter.Box | filter.Nested},
	{"socket", []uint64{dirty | unix.AF_NETLINK, unix.SOCK_RAW, dirty | unix.NETLINK_XFRM}, unix.EPROTONOSUPPORT, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_GENERIC}, unix.EPROTONOSUPPORT, filter.Box | filter.Nested},
	{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, 0},
	{"socket", []uint64{dirty | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, 0},
	{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, unix.EAFNOSUPPORT, 0},
	{"socket", []uint64{unix.AF_PACKET, unix.SOCK_DGRAM, 0}, unix.EAFNOSUPPORT, 0},
	{"socket", []uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, 0},
	{"socket", []uint64{unix.AF_UNSPEC, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, 0},
	{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, filter.Bare},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, filter.Bare},
	{"connect", []uint64{3, 0, 0}, unix.EAFNOSUPPORT, filter.Bare},
	{"connect", []uint64{3, 0, 0}, 0, filter.Box | filter.Nested},
	{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, 0, 0},
	{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, 0, filter.Box | filter.Nested},
	{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, unix.EAFNOSUPPORT, filter.Bare},
	{"socketpair", []uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT, 0},
	{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, 0, 0},
	{"setsockopt", []uint64{3, unix.SOL_IP, 64}, unix.EPERM, 0},
	{"setsockopt", []uint64{3, dirty | unix.SOL_IP, dirty | 64}, unix.EPERM, 0},
	{"setsockopt", []uint64{3, unix.SOL_IPV6, 65}, unix.EPERM, 0},
	{"setsockopt", []uint64{3, unix.SOL_IPV6, unix.IPV6_V6ONLY}, 0, 0},
	{"setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, 0, 0},
	{"setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_ULP}, unix.ENOENT, 0},
	// Terminals, signals by descriptor, leases.
	{"ioctl", []uint64{0, unix.TCGETS}, 0, 0},
	{"ioctl", []uint64{0, unix.TIOCSCTTY}, 0, 0},
	{"ioctl", []uint64{0, unix.FICLONE}, 0, 0},
	{"ioctl", []uint64{0, 0x50009401}, unix.ENOTTY, 0},
	{"ioctl", []uint64{0, dirty | 0x50009417}, unix.ENOTTY, 0},
	{"ioctl", []uint64{0, unix.TIOCSTI}, unix.EPERM, 0},
	{"ioctl", []uint64{0, dirty | unix.TIOCSTI}, unix.EPERM, 0},
	{"ioctl", []uint64{0, 1<<32 | unix.TIOCLINUX}, unix.EPERM, 0},
	{"ioctl", []uint64{0, unix.TIOCSETD}, unix.EPERM, 0},
	{"ioctl", []uint64{0, 0x8901}, unix.EPERM, 0},
	{"ioctl", []uint64{0, unix.SIOCSPGRP}, unix.EPERM, 0},
	{"fcntl", []uint64{0, unix.F_SETFL, unix.O_NONBLOCK}, 0, 0},
	{"fcntl", []uint64{0, unix.F_DUPFD_CLOEXEC}, 0, 0},
	{"fcntl", []uint64{0, unix.F_OFD_SETLK}, 0, 0},
	{"fcntl", []uint64{0, unix.F_ADD_SEALS}, 0, 0},
	{"fcntl", []uint64{0, unix.F_GETOWN_EX}, 0, 0},
	{"fcntl", []uint64{0, unix.F_SETOWN}, unix.EPERM, 0},
	{"fcntl", []uint64{0, dirty | unix.F_SETOWN_EX}, unix.EPERM, 0},
	{"fcntl", []uint64{0, unix.F_SETSIG}, unix.EPERM, 0},
	{"fcntl", []uint64{0, dirty | unix.F_SETLEASE}, unix.EPERM, 0},
	{"fcntl", []uint64{0, unix.F_NOTIFY}, unix.EPERM, 0},
	{"fcntl", []uint64{0, 1040}, unix.EPERM, 0},
	{"fcntl", []uint64{0, 1041}, unix.EINVAL, 0},
	// Modes.
	{"openat", []uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o644}, 0, 0},
	{"openat", []uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, unix.EPERM, 0},
	{"openat", []uint64{0, 0, dirty | unix.O_TMPFILE | unix.O_WRONLY, dirty | 0o2755}, unix.EPERM, 0},
	{"openat", []uint64{0, 0, unix.O_RDONLY, 0o4755}, 0, 0},
	{"open", []uint64{0, unix.O_CREAT, 0o4755}, unix.EPERM, 0},
	{"open", []uint64{0, unix.O_RDONLY, 0o4755}, 0, 0},
	{"creat", []uint64{0, 0o6755}, unix.EPERM, 0},
	{"chmod", []uint64{0, 0o1777}, 0, 0},
	{"chmod", []uint64{0, dirty | 0o4755}, unix.EPERM, 0},
	{"fchmod", []uint64{0, 0o2755}, unix.EPERM, 0},
	{"fchmodat", []uint64{0, 0, 0o4755}, unix.EPERM, 0},
	{"fchmodat2", []uint64{0, 0, 0o4755, 0}, unix.EPERM, 0},
	{"fchmodat2", []uint64{0, 0, 0o755, 0}, 0, 0},
	{"mknodat", []uint64{0, 0, unix.S_IFIFO | 0o600}, 0, 0},
	{"mknodat", []uint64{0, 0, 0o600}, 0, 0},
	{"mknodat", []uint64{0, 0, unix.S_IFREG | 0o4755}, unix.EPERM, 0},
	{"mknodat", []uint64{0, 0, unix.S_IFBLK | 0o600}, unix.EPERM, 0},
	{"mknodat", []uint64{0, 0, dirty | unix.S_IFCHR | 0o600}, unix.EPERM, 0},
	{"mknod", []uint64{0, unix.S_IFCHR | 0o600}, unix.EPERM, 0},
	{"renameat2", []uint64{0, 0, 0, 0, unix.RENAME_EXCHANGE}, 0, 0},
	{"renameat2", []uint64{0, 0, 0, 0, unix.RENAME_WHITEOUT}, unix.EINVAL, 0},
	// Namespaces.
	{"clone", []uint64{uint64(unix.SIGCHLD) | unix.CLONE_VM | unix.CLONE_VFORK}, 0, 0},
	{"clone", []uint64{uint64(unix.SIGCHLD) | unix.CLONE_NEWUSER}, unix.EPERM, filter.Box | filter.Bare},
	{"clone", []uint64{dirty | unix.CLONE_NEWNET}, unix.EPERM, filter.Box | filter.Bare},
	{"clone", []uint64{unix.CLONE_NEWUSER}, 0, filter.Nested},
	{"unshare", []uint64{0}, 0, 0},
	{"unshare", []uint64{unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM}, 0, 0},
	{"unshare", []uint64{unix.CLONE_NEWUSER}, unix.EPERM, filter.Box | filter.Bare},
	{"unshare", []uint64{unix.CLONE_NEWTIME}, unix.EPERM, filter.Box | filter.Bare},
	{"unshare", []uint64{dirty | unix.CLONE_NEWCGROUP}, unix.EPERM, filter.Box | filter.Bare},
	{"unshare", []uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, 0, filter.Nested},
	// Other processes.
	{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE, 1, 0}, 0, 0},
	{"prlimit64", []uint64{1, unix.RLIMIT_NOFILE, 0, 1}, 0, 0},
	{"prlimit64", []uint64{1, unix.RLIMIT_NOFILE, 1, 0}, unix.EPERM, 0},
	{"prlimit64", []uint64{1, unix.RLIMIT_NOFILE, 1 << 32, 0}, unix.EPERM, 0},
	{"prlimit64", []uint64{dirty, unix.RLIMIT_NOFILE, 1 << 32, 0}, 0, 0}, // the kernel sees pid 0 too
	{"sched_setaffinity", []uint64{0, 8, 1}, 0, 0},
	{"sched_setaffinity", []uint64{1, 8, 1}, unix.EPERM, 0},
	{"setpriority", []uint64{unix.PRIO_PROCESS, 0, 5}, 0, 0},
	{"setpriority", []uint64{unix.PRIO_PROCESS, 1, 5}, unix.EPERM, 0},
	{"setpriority", []uint64{unix.PRIO_USER, 0, 5}, unix.EPERM, 0},
	{"setpriority", []uint64{unix.PRIO_PGRP, 0, 5}, unix.EPERM, 0},
	{"ioprio_set", []uint64{1, 0, 0}, 0, 0},
	{"ioprio_set", []uint64{1, 1, 0}, unix.EPERM, 0},
	{"ioprio_set", []uint64{3, 0, 0}, unix.EPERM, 0},
	{"personality", []uint64{0xffffffff}, 0, 0},
	{"personality", []uint64{^uint64(0)}, 0, 0},
	{"personality", []uint64{0x40000}, 0, 0},
	{"personality", []uint64{8}, unix.EPERM, 0},
	{"personality", []uint64{dirty | 0x400000}, unix.EPERM, 0},
	{"prctl", []uint64{unix.PR_SET_NAME}, 0, 0},
	{"prctl", []uint64{unix.PR_SET_NO_NEW_PRIVS}, 0, 0},
	{"prctl", []uint64{unix.PR_SET_SECCOMP}, 0, 0},
	{"prctl", []uint64{unix.PR_SET_VMA}, 0, 0},
	{"prctl", []uint64{unix.PR_SET_MM}, unix.EPERM, 0},
	{"prctl", []uint64{dirty | unix.PR_SET_MEMORY_MERGE}, unix.EPERM, 0},
	{"prctl", []uint64{9999}, unix.EINVAL, 0},
	{"arch_prctl", []uint64{0x1002}, 0, 0},
	{"arch_prctl", []uint64{0x2001}, unix.EINVAL, 0},
	// Memory of the host.
	{"mmap", []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, 0, 0},
	{"mmap", []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_HUGETLB}, unix.ENOMEM, 0},
	{"madvise", []uint64{0, 4096, unix.MADV_DONTNEED}, 0, 0},
	{"madvise", []uint64{0, 4096, dirty | unix.MADV_MERGEABLE}, unix.EINVAL, 0},
	{"memfd_create", []uint64{0, unix.MFD_CLOEXEC}, 0, 0},
	{"memfd_create", []uint64{0, unix.MFD_HUGETLB}, unix.EINVAL, 0},
	{"memfd_create", []uint64{0, ^uint64(0)}, unix.EINVAL, 0},
	{"shmget", []uint64{0, 1, 0o1600}, 0, filter.Box | filter.Nested},
	{"shmget", []uint64{0, 1, 0o5600}, unix.ENOMEM, filter.Box | filter.Nested},
	{"shmget", []uint64{0, 1, 0o1600}, unix.ENOSYS, filter.Bare},
}

func TestVerdictOnArguments(t *testing.T) {
	eachFilter(t, func(t *testing.T, a filter.Arch, v filter.Variant, program []unix.SockFilter) {
		for _, c := range argumentCases {
			number, ok := a.Calls[c.call]
			if !ok || c.in != 0 && c.in&v == 0 {
				continue
			}
			want := filter.Allow
			if c.want != 0 {
				want = filter.Errno(c.want)
			}
			seen := call{number: number, arch: a.Audit}
			copy(seen.args[:], c.args)
			if got := verdict(t, program, seen); got != want {
				t.Errorf("%s%#x is %s, want %s", c.call, c.args, got, want)
			}
		}
	})
}

// Every rule with a condition has a case above, so that no condition is untested.
func TestEveryConditionHasACase(t *testing.T) {
	tested := map[string]bool{
		"sched_setscheduler": true, "sched_setparam": true, "sched_setattr": true, // one row with sched_setaffinity
		"migrate_pages": true, "move_pages": true,
	}
	for _, c := range argumentCases {
		tested[c.call] = true
	}
	for name := range filter.Conditional() {
		if !tested[name] {
			t.Errorf("%s has conditions and no case", name)
		}
	}
}
