package escape

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// windows gives the calls that programs made between the two marks of a job,
// in order, by thread.
func windows(calls []sysCall, marker string) [][]sysCall {
	n, err := strconv.ParseUint(marker[:4], 16, 16)
	if err != nil {
		return nil
	}
	base := uint64(MarkerCall) | n<<32 | 0xfffff000
	slices.SortStableFunc(calls, func(a, b sysCall) int { return cmp.Compare(a.time, b.time) })
	open := map[uint32][]sysCall{}
	inside := map[uint32]bool{}
	var out [][]sysCall
	for _, c := range calls {
		if c.nr == unix.SYS_CLOSE && len(c.args) > 0 && c.args[0]&^3 == base {
			if inside[c.tid] {
				out = append(out, open[c.tid])
			}
			inside[c.tid], open[c.tid] = c.args[0]&3 == 1, nil
			continue
		}
		if inside[c.tid] {
			open[c.tid] = append(open[c.tid], c)
		}
	}
	for tid, in := range inside { // killed before its second mark
		if in {
			out = append(out, open[tid])
		}
	}
	return out
}

// refused says that the kernel gave an answer before any work: the call is
// not there, or not for this caller.
func refused(ret int64) bool {
	switch unix.Errno(-ret) {
	case unix.EPERM, unix.ENOSYS, unix.EAFNOSUPPORT, unix.EACCES, unix.ENOSPC:
		return ret < 0
	}
	return false
}

// classCalls says by which calls a kernel class counts as reached.
func classCalls() map[string][]int64 {
	return map[string][]int64{
		"io_uring":    {unix.SYS_IO_URING_SETUP},
		"bpf":         {unix.SYS_BPF},
		"userfaultfd": {unix.SYS_USERFAULTFD},
		"keyring":     {unix.SYS_KEYCTL, unix.SYS_ADD_KEY},
		"perf":        {unix.SYS_PERF_EVENT_OPEN},
		"userns":      {unix.SYS_UNSHARE},
		"mount":       {unix.SYS_MOUNT, unix.SYS_FSOPEN, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT},
		"handles":     {unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT},
		"ptrace":      {unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD},
		"modules":     {sysInitModule, unix.SYS_FINIT_MODULE, unix.SYS_KEXEC_LOAD},
		"netlink":     {unix.SYS_SOCKET},
		"sockets":     {unix.SYS_SOCKET},
		"compat":      {20, 0x40000000 | unix.SYS_GETPID, unix.SYS_GETPID},
		"admin": {
			unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_ADJTIME, unix.SYS_ACCT, unix.SYS_SWAPON,
			unix.SYS_QUOTACTL, unix.SYS_REBOOT,
		},
		"memfd": {unix.SYS_MEMFD_SECRET, unix.SYS_EXECVEAT},
	}
}

const sysInitModule = unix.SYS_INIT_MODULE

// reached says whether the calls of a class got into the host's kernel, and
// how each ended: R reached, D denied, A never seen.
func reached(calls []sysCall, marker, class string) (bool, string) {
	ws := windows(calls, marker)
	if len(ws) == 0 {
		return false, "A: the host saw none of the program's calls"
	}
	nrs := classCalls()[class]
	hit, text := false, ""
	for _, w := range ws {
		entered := false // a call that a filter refuses is never seen to enter
		for _, c := range w {
			if !c.done {
				entered = slices.Contains(nrs, c.nr)
				continue
			}
			if !slices.Contains(nrs, c.nr) {
				continue
			}
			letter := "R"
			if refused(c.ret) || !entered {
				letter = "D"
			} else {
				hit = true
			}
			text += fmt.Sprintf(" %s:%d=%d", letter, c.nr, c.ret)
			entered = false
		}
	}
	if text == "" {
		text = " D: killed or refused before the kernel looked"
	}
	return hit, text[1:]
}

// distinct counts the different calls that were not refused.
func distinct(calls []sysCall) map[int64]bool {
	set := map[int64]bool{}
	for _, c := range calls {
		if c.done && !refused(c.ret) {
			set[c.nr] = true
		}
	}
	return set
}

// worked says whether a marked read or write moved any bytes.
func worked(calls []sysCall, marker string, nr int64) (bool, string) {
	for _, w := range windows(calls, marker) {
		for _, c := range w {
			if c.done && c.nr == nr && c.ret > 0 {
				return true, fmt.Sprintf("call %d moved %d bytes", nr, c.ret)
			}
		}
	}
	return false, "no marked call moved any bytes"
}
