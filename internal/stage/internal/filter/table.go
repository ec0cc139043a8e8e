//go:build linux

package filter

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Refusals of the table.
const (
	eperm  = Action(unix.SECCOMP_RET_ERRNO) | Action(unix.EPERM)
	enosys = Action(unix.SECCOMP_RET_ERRNO) | Action(unix.ENOSYS)
	einval = Action(unix.SECCOMP_RET_ERRNO) | Action(unix.EINVAL)
)

// Rules is the whole table. What is not in it gets ENOSYS, as from a kernel
// that is too old to know the call: libraries have a way around. EPERM is for
// calls that no program can do without knowing that it is refused.
func Rules() []Rule {
	return slices.Concat(plainRules(), processRules(), fileRules(), socketRules(), forbiddenRules(), namespaceRules())
}

// plainRules are calls that act on what the program already has: its memory,
// its descriptors, files by path (which mounts and Landlock bound), its own
// processes (which the pid namespace bounds), its credentials (which are none).
func plainRules() []Rule {
	return []Rule{
		// Descriptors and files.
		{Do: Allow, Calls: `read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2
			close close_range lseek dup dup2 dup3 pipe pipe2 sendfile splice tee vmsplice copy_file_range
			select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
			eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
			inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
			flock fsync fdatasync sync syncfs sync_file_range fallocate fadvise64 readahead truncate ftruncate
			stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2
			getdents getdents64 getcwd chdir fchdir umask
			mkdir mkdirat rmdir unlink unlinkat rename renameat link linkat symlink symlinkat readlink readlinkat
			chown fchown lchown fchownat utime utimes futimesat utimensat
			setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
			removexattr lremovexattr fremovexattr setxattrat getxattrat listxattrat removexattrat`},
		// Memory. mmap and madvise are with the conditions.
		{Do: Allow, Calls: `brk munmap mremap mprotect msync mincore mlock mlock2 munlock mlockall munlockall
			membarrier pkey_alloc pkey_free pkey_mprotect map_shadow_stack mseal
			mbind set_mempolicy get_mempolicy set_mempolicy_home_node`},
		// Threads, time, signals.
		{Do: Allow, Calls: `futex futex_wait futex_wake futex_requeue futex_waitv set_robust_list
			rseq rseq_slice_yield set_tid_address gettid sched_yield getcpu restart_syscall
			nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
			getitimer setitimer alarm pause timer_create timer_settime timer_gettime timer_getoverrun timer_delete
			rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack
			kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal`},
		// Programs and what they know of themselves.
		{Do: Allow, Calls: `fork vfork execve execveat exit exit_group wait4 waitid
			getpid getppid setsid getsid setpgid getpgid getpgrp
			getuid geteuid getgid getegid getresuid getresgid getgroups
			uname sysinfo getrusage getrandom getrlimit setrlimit
			getpriority ioprio_get sched_getaffinity sched_getparam sched_getscheduler sched_getattr
			sched_get_priority_max sched_get_priority_min sched_rr_get_interval`},
		// To an id that one has, or from a capability that one has not: the kernel
		// decides, and in a nested namespace or an image it may say yes.
		{Do: Allow, Calls: `setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capget capset`},
		// Only ever further restrictions. A filter of the box wins over any that a
		// program adds: an errno outranks notify, trace and allow, so a
		// supervisor inside (SECCOMP_FILTER_FLAG_NEW_LISTENER) can continue or
		// emulate only what was allowed here.
		{Do: Allow, Calls: `seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self`},
		// The kernel makes these calls itself, from a trampoline, when somebody on the
		// host probes the program; refused, the program would die (kernels 6.11 to 6.13).
		{Do: Allow, Calls: `uretprobe uprobe`},
		// Connections that are there. Which sockets can be made is in socketRules.
		{Do: Allow, Calls: `bind listen accept accept4 getsockname getpeername getsockopt shutdown
			sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg`},
		{
			In: Box | Nested, Do: Allow, Calls: `connect
			shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
			mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`,
			Why: "private by the network and IPC namespaces; without those they are the host's",
		},
		// Debuggers: the pid namespace and Landlock bound whom they reach, and PID 1
		// is non-dumpable. seccomp runs after the tracer has changed a call (Linux 4.8).
		{Do: Allow, Calls: `ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise`},
	}
}

// forbiddenRules are calls that no program in a box may make, whatever its
// arguments. Most need a capability that the box lacks; they are listed so that
// a mistake there is not the end.
func forbiddenRules() []Rule {
	return []Rule{
		{Do: eperm, Calls: "bpf perf_event_open userfaultfd", Why: "kernel code that turned most often into a way out"},
		{Do: eperm, Calls: "init_module finit_module delete_module create_module kexec_load kexec_file_load reboot", Why: "the kernel itself"},
		{Do: eperm, Calls: "open_by_handle_at name_to_handle_at", Why: "a handle reaches files past every mount"},
		{Do: eperm, Calls: "acct swapon swapoff quotactl quotactl_fd syslog vhangup iopl ioperm", Why: "administration of the host"},
		{Do: eperm, Calls: "settimeofday clock_settime adjtimex clock_adjtime", Why: "the host's clock; reading through adjtimex cannot be told from setting"},
		{Do: eperm, Calls: "fanotify_init fanotify_mark", Why: "watches whole file systems; inotify remains"},
		{
			Do: enosys, Calls: "io_uring_setup io_uring_enter io_uring_register",
			Why: "its operations pass no filter, and its code has been a way out; every user has a way around",
		},
		{
			Do: enosys, Calls: "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents",
			Why: "fs.aio-max-nr is one number for the whole host; databases fall back to threads",
		},
		{Do: enosys, Calls: "add_key request_key keyctl", Why: "keyrings are per user, not per namespace; libraries take this for a kernel without them"},
		{Do: enosys, Calls: "openat2", Why: "its mode is behind a pointer: it could make a set-id file unseen; libraries fall back to openat"},
		{Do: enosys, Calls: "clone3", Why: "its flags are behind a pointer; libraries fall back to clone"},
		{Do: enosys, Calls: "memfd_secret", Why: "memory that can neither be measured nor written out by a checkpoint"},
		{Do: enosys, Calls: "cachestat", Why: "tells what other boxes read of shared files"},
		{Do: enosys, Calls: "statmount listmount listns", Why: "new code that says no more than /proc/self/mountinfo, to which programs fall back"},
		{Do: enosys, Calls: "lookup_dcookie uselib modify_ldt remap_file_pages ustat sysfs _sysctl nfsservctl", Why: "old code that no 64-bit program needs"},
		{Do: enosys, Calls: "process_mrelease get_robust_list file_setattr file_getattr", Why: "no program of a box needs it"},
		{Do: enosys, Calls: "lsm_get_self_attr lsm_set_self_attr lsm_list_modules", Why: "tells about the host's security modules"},
	}
}

// namespaceRules differ by variant: without nesting, nothing that makes or
// enters a namespace or changes a mount.
func namespaceRules() []Rule {
	const makes = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	const mounts = `mount umount2 pivot_root chroot open_tree open_tree_attr move_mount mount_setattr
		fsopen fsconfig fsmount fspick setns sethostname setdomainname`
	return []Rule{
		{In: Nested, Do: Allow, Calls: "clone unshare", Why: "inner sandboxes; the user namespace of the box bounds them"},
		{In: Nested, Do: Allow, Calls: mounts, Why: "each needs a capability, which only an inner user namespace gives"},
		{In: Box | Bare, Do: eperm, Calls: mounts, Why: "the box's mounts and namespaces are its walls"},
		{In: Box | Bare, Do: eperm, Calls: "clone", Cases: []Case{when(Allow, noBits(0, makes))}, Why: "a user namespace gives capabilities within reach of much kernel code"},
		{
			In: Box | Bare, Do: eperm, Calls: "unshare", Cases: []Case{when(Allow, noBits(0, makes|unix.CLONE_NEWTIME))},
			Why: "CLONE_NEWTIME is no flag of clone: the bit is part of its exit signal there",
		},
	}
}
