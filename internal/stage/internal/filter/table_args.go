//go:build linux

package filter

import (
	"golang.org/x/sys/unix"
)

// setID are the mode bits that make a file run as its owner or group.
const setID = unix.S_ISUID | unix.S_ISGID

// Constants that package unix lacks.
const (
	fioSetOwn       = 0x8901    // FIOSETOWN
	shmHugeTLB      = 0o4000    // SHM_HUGETLB
	addrNoRandomize = 0x0040000 // ADDR_NO_RANDOMIZE
	renameWhiteout  = 1 << 2    // RENAME_WHITEOUT
	fSetDeleg       = 1040      // F_SETDELEG, Linux 6.19
	tmpFile         = 0x400000  // __O_TMPFILE, without O_DIRECTORY's bit
)

// Ordinary users may snapshot subvolumes of btrfs, and a snapshot holds all of one,
// the home beside the workspace too; older kernels took any file for the
// whole that it lies in. ENOTTY is a file system without subvolumes.
const (
	enotty = Action(unix.SECCOMP_RET_ERRNO) | Action(unix.ENOTTY)

	btrfsSnapCreate     = 0x50009401 // BTRFS_IOC_SNAP_CREATE
	btrfsSubvolCreate   = 0x5000940e // BTRFS_IOC_SUBVOL_CREATE
	btrfsSnapDestroy    = 0x5000940f // BTRFS_IOC_SNAP_DESTROY
	btrfsSnapCreateV2   = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	btrfsSubvolCreateV2 = 0x50009418 // BTRFS_IOC_SUBVOL_CREATE_V2
)

// fileRules are calls on files whose arguments matter. Nothing set-id and no
// device node may be left behind in a workspace: there a host user could run
// it (mkdir and its kin take no set-id bit from their mode).
func fileRules() []Rule {
	const creates = unix.O_CREAT | tmpFile
	return []Rule{
		{Calls: "open", Do: Allow, Cases: []Case{when(eperm, anyBits(2, setID), anyBits(1, creates))}, Why: "without O_CREAT or O_TMPFILE the mode is any rubbish"},
		{Calls: "openat", Do: Allow, Cases: []Case{when(eperm, anyBits(3, setID), anyBits(2, creates))}},
		{Calls: "creat chmod fchmod", Do: Allow, Cases: []Case{when(eperm, anyBits(1, setID))}},
		{Calls: "fchmodat fchmodat2", Do: Allow, Cases: []Case{when(eperm, anyBits(2, setID))}},
		{Calls: "mknod", Do: eperm, Cases: nodeCases(1)},
		{Calls: "mknodat", Do: eperm, Cases: nodeCases(2)},
		{Calls: "renameat2", Do: Allow, Cases: []Case{when(einval, anyBits(4, renameWhiteout))}, Why: "a whiteout is a device node; file systems may lack it"},
		{
			Calls: "fcntl", Do: einval,
			Cases: []Case{
				when(eperm, isIn(1, unix.F_SETOWN, unix.F_SETSIG, unix.F_SETOWN_EX, unix.F_SETLEASE, unix.F_NOTIFY, fSetDeleg)),
				when(Allow, between(1, Range{unix.F_DUPFD, 17}, Range{unix.F_OFD_GETLK, unix.F_OFD_SETLKW}, Range{1025, 1039})),
			},
			Why: "signals to whom one names, and leases that stall who opens a file (PID 1 in its exec); what the kernel does not know it answers with EINVAL too",
		},
		{
			Calls: "ioctl", Do: Allow,
			Cases: []Case{when(enotty, isIn(1, btrfsSnapCreate, btrfsSnapCreateV2, btrfsSubvolCreate, btrfsSubvolCreateV2, btrfsSnapDestroy)), when(eperm, isIn(1,
				unix.TIOCSTI,                 // types for the user of the terminal (CVE-2017-5226)
				unix.TIOCLINUX,               // pastes into a console (CVE-2023-28100)
				unix.TIOCSETD,                // line disciplines: drivers nobody attends to
				unix.TIOCCONS,                // takes the console's output
				fioSetOwn, unix.SIOCSPGRP))}, // F_SETOWN by other names
		},
		{
			Calls: "memfd_create", Do: Allow, Cases: []Case{when(einval, anyBits(1, unix.MFD_HUGETLB))},
			Why: "huge pages are the host's reserve, outside the memory limit; EINVAL, as Chromium asks with every bit set and wants it; running a memory file gains nothing, as the workspace can be run too",
		},
	}
}

// nodeCases lets through regular files, pipes and sockets without set-id bits.
func nodeCases(mode int) []Case {
	return []Case{
		when(eperm, anyBits(mode, setID)),
		when(Allow, maskedIn(mode, unix.S_IFMT, 0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK)),
	}
}

// processRules are calls on memory, processes and the program itself whose
// arguments matter.
func processRules() []Rule {
	self := []Case{when(Allow, isIn(0, 0))}
	return []Rule{
		{
			Calls: "mmap", Do: Allow, Cases: []Case{when(Errno(unix.ENOMEM), anyBits(3, unix.MAP_HUGETLB))},
			Why: "huge pages are the host's reserve, outside the memory limit; programs fall back to small ones",
		},
		{Calls: "shmget", In: Box | Nested, Do: Allow, Cases: []Case{when(Errno(unix.ENOMEM), anyBits(2, shmHugeTLB))}},
		{
			Calls: "madvise", Do: Allow, Cases: []Case{when(einval, isIn(2, unix.MADV_MERGEABLE))},
			Why: "merging pages across boxes and VMs tells by its timing what is in theirs; EINVAL is a kernel without it",
		},
		{
			Calls: "prlimit64", Do: eperm, Cases: []Case{when(Allow, isIn(0, 0)), when(Allow, isNull(2))},
			Why: "PID 1 has the same user id: a program set limits on it",
		},
		{Calls: "sched_setaffinity sched_setscheduler sched_setparam sched_setattr migrate_pages move_pages", Do: eperm, Cases: self, Why: "as prlimit64: only the caller itself, which is 0"},
		{
			Calls: "setpriority", Do: eperm, Cases: []Case{when(Allow, isIn(0, unix.PRIO_PROCESS), isIn(1, 0))},
			Why: "as prlimit64; by user it would mean PID 1 too, by group as well",
		},
		{Calls: "ioprio_set", Do: eperm, Cases: []Case{when(Allow, isIn(0, 1), isIn(1, 0))}, Why: "as setpriority; 1 is IOPRIO_WHO_PROCESS"},
		{
			Calls: "personality", Do: eperm,
			Cases: []Case{when(Allow, isIn(0, 0, addrNoRandomize, 0xffffffff))},
			Why:   "asking, the normal one, and a fixed layout, which debuggers set; the others switch old behaviour on",
		},
		{
			Calls: "arch_prctl", Do: einval,
			Cases: []Case{when(Allow, between(
				0,
				Range{0x1001, 0x1004}, // FS and GS bases
				Range{0x1011, 0x1012}, // CPUID faulting
				Range{0x1021, 0x1025}, // AMX permissions
				Range{0x4001, 0x4004}, // address tagging
				Range{0x5001, 0x5005}, // shadow stacks
			))},
			Why: "not 0x2001 to 0x2003, which map another vDSO",
		},
		{Calls: "prctl", Do: einval, Cases: prctlCases()},
	}
}

// prctlCases let through what acts on the caller itself.
func prctlCases() []Case {
	return []Case{
		when(
			eperm, isIn(0, unix.PR_TASK_PERF_EVENTS_DISABLE, unix.PR_TASK_PERF_EVENTS_ENABLE,
				unix.PR_SET_MM,             // changes what ps on the host shows, or needs a capability
				unix.PR_SCHED_CORE,         // idles the sibling CPU of others
				unix.PR_SET_MEMORY_MERGE)), // as MADV_MERGEABLE
		when(Allow, between(
			0,
			Range{1, 8},   // death signal, dumpable, unaligned access, keeping capabilities
			Range{13, 16}, // process timing, name
			Range{19, 30}, // endian, seccomp, bounding set, TSC, securebits, timer slack
			Range{33, 34}, // what to do at a memory failure of one's own
			Range{36, 42}, // subreaper, no_new_privs, tid address, huge pages
			Range{45, 47}, // floating point mode, ambient capabilities
			Range{50, 61}, // vectors, speculation, pointer authentication, tagged addresses, dispatch
			Range{63, 66}, // vectors, memory that cannot turn executable
			Range{68, 72}, // asks for merging; vectors
			Range{73, 80}, // shadow stacks, timers, futex hash, rseq slices
			Range{unix.PR_GET_AUXV, unix.PR_GET_AUXV},
			Range{unix.PR_SET_VMA, unix.PR_SET_VMA},         // names of mappings
			Range{unix.PR_SET_PTRACER, unix.PR_SET_PTRACER}, // whom Yama lets trace, within the box
		)),
	}
}
