package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// seeDevice looks whether a program of the box holds a device open that leads
// to the host, or the one that the row names.
func seeDevice(t *trial, arg string) outcome {
	allowed := map[string]bool{"1:3": true, "1:5": true, "1:7": true, "1:8": true, "1:9": true, "5:0": true, "5:1": true, "5:2": true}
	for _, pid := range t.probeTasks() {
		for _, fd := range openFiles(pid) {
			var st unix.Stat_t
			if unix.Stat(fd, &st) != nil || (st.Mode&unix.S_IFMT != unix.S_IFCHR && st.Mode&unix.S_IFMT != unix.S_IFBLK) {
				continue
			}
			dev := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
			if arg == "" && !allowed[dev] && unix.Major(st.Rdev) != 136 || dev == arg {
				return outcome{breached: true, evidence: "a program of the box has device " + dev + " open"}
			}
		}
	}
	return outcome{evidence: "no program of the box has such a device open"}
}

// capabilities reads one mask of a process.
func capabilities(pid int, field string) uint64 {
	v, _ := strconv.ParseUint(status(pid, field), 16, 64)
	return v
}

func (t *trial) sameNS(pid int, ns string) bool {
	l, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/" + ns)
	return err == nil && l == t.l.self[ns]
}

// seeCaps looks for capabilities over the lab's own user namespace: held ones,
// or ones that a program could still gain.
func seeCaps(t *trial, _ string) outcome {
	for _, pid := range t.probeTasks() {
		if !t.sameNS(pid, "user") {
			continue
		}
		for _, f := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
			if v := capabilities(pid, f); v != 0 {
				return outcome{breached: true, evidence: fmt.Sprintf("%s %x in the host's user namespace", f, v)}
			}
		}
		if v := capabilities(pid, "CapBnd"); v != 0 && status(pid, "NoNewPrivs") == "0" {
			return outcome{breached: true, evidence: fmt.Sprintf("CapBnd %x in the host's user namespace, and new privileges may be gained", v)}
		}
	}
	return outcome{evidence: "no capability over the host's user namespace"}
}

// seeRaised looks for a program of the box, by its planted copy, with
// capabilities that its starter had not.
func seeRaised(t *trial, _ string) outcome {
	var st unix.Stat_t
	if unix.Stat(t.ws+"/caps-"+t.name, &st) != nil {
		return outcome{evidence: "the planted program is gone"}
	}
	for _, pid := range running(st.Dev, st.Ino) {
		if v := capabilities(pid, "CapEff"); v != 0 && t.sameNS(pid, "user") {
			return outcome{breached: true, evidence: fmt.Sprintf("the program rose to CapEff %x", v)}
		}
	}
	return outcome{evidence: "no program rose"}
}

// seeJoined looks whether a program of the box shares a namespace with the
// lab.
func seeJoined(t *trial, _ string) outcome {
	var shared []string
	for _, pid := range t.probeTasks() {
		for _, ns := range []string{"mnt", "net", "pid", "ipc", "uts"} {
			if t.sameNS(pid, ns) {
				shared = append(shared, ns)
			}
		}
		if len(shared) > 0 {
			return outcome{breached: true, evidence: "shared with the host: " + strings.Join(shared, " ")}
		}
	}
	return outcome{evidence: "no namespace is shared with the host"}
}

// seeValue looks for a fact of the machine in what the box printed.
func seeValue(t *trial, arg string) outcome {
	want := ""
	switch arg {
	case "host":
		want = t.l.host
	case "release":
		var u unix.Utsname
		_ = unix.Uname(&u)
		want = unix.ByteSliceToString(u.Release[:])
	case "user":
		want = t.l.user
	case "mounts":
		want = t.l.nonce
	case "uptime":
		return t.seeUptime()
	case "memory":
		b, _ := os.ReadFile("/proc/meminfo")
		line, _, _ := strings.Cut(string(b), "\n")
		want = strings.Join(strings.Fields(line)[1:2], "")
	case "log":
		b := make([]byte, 4096)
		n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
		if err != nil || n < 200 {
			return outcome{evidence: "the kernel's log cannot be read here"}
		}
		want = string(b[n-200 : n-20])
	default:
		b, _ := os.ReadFile(arg)
		want = strings.TrimSpace(string(b))
	}
	if want == "" {
		return outcome{evidence: "the host has no such value"}
	}
	for _, b := range t.boxes {
		if b.out.has(want) {
			return outcome{breached: true, evidence: "the box printed the host's value"}
		}
	}
	return outcome{evidence: "the host's value did not come out"}
}

// seeUptime compares seconds since boot, within five.
func (t *trial) seeUptime() outcome {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	for _, b := range t.boxes {
		for _, f := range strings.Fields(b.out.tail(2000)) {
			if v, err := strconv.ParseFloat(f, 64); err == nil && v > 100 && v > float64(ts.Sec)-5 && v <= float64(ts.Sec)+1 {
				return outcome{breached: true, evidence: "the box printed the host's uptime"}
			}
		}
	}
	return outcome{evidence: "the host's uptime did not come out"}
}

// number reads the bound of a row: what the policy declares, or what any
// product should stay below where it declares nothing.
func number(arg string) int64 {
	n, _ := strconv.ParseInt(arg, 10, 64)
	return n
}

func over(what string, got, limit int64) outcome {
	return outcome{breached: got > limit, evidence: fmt.Sprintf("%d %s, %d declared", got, what, limit)}
}

func seeTasks(t *trial, arg string) outcome {
	return over("programs", int64(len(t.probeTasks())), number(arg))
}

// seeMemory gives the most memory that the lab's programs ever used in this
// trial; the lab samples ten times a second.
func seeMemory(t *trial, arg string) outcome {
	return over("MiB", max(t.l.memory.Load(), memoryMiB()), number(arg))
}

func seeSize(t *trial, arg string) outcome {
	var st unix.Stat_t
	_ = unix.Stat(t.ws+"/"+t.name, &st)
	return over("MiB in the workspace", st.Size>>20, number(arg))
}

func seeCount(t *trial, arg string) outcome {
	entries, _ := os.ReadDir(t.ws + "/" + t.name)
	return over("files in the workspace", int64(len(entries)), number(arg))
}

func seeBytes(t *trial, arg string) outcome {
	var n int64
	for _, b := range t.boxes {
		n += b.out.size()
	}
	return over("MiB of output", n>>20, number(arg))
}

// seeCPU adds up the processor time of the box's programs, in hundredths of a
// second.
func seeCPU(t *trial, arg string) outcome {
	var ticks int64
	for _, pid := range t.probeTasks() {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, rest, ok := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		if !ok || len(f) < 13 {
			continue
		}
		u, _ := strconv.ParseInt(f[11], 10, 64)
		s, _ := strconv.ParseInt(f[12], 10, 64)
		ticks += u + s
	}
	return over("hundredths of processor time", ticks, number(arg))
}

func seeFiles(t *trial, arg string) outcome {
	var most int64
	for _, pid := range t.probeTasks() {
		most = max(most, int64(len(openFiles(pid))))
	}
	return over("descriptors", most, number(arg))
}

// seeLeft counts programs of the box after its end.
func seeLeft(t *trial, _ string) outcome {
	n := len(t.probeTasks())
	return outcome{breached: n > 0, evidence: fmt.Sprintf("%d programs of the box are left", n)}
}

// seeBeating looks whether a program of the box still writes.
func seeBeating(t *trial, _ string) outcome {
	p := t.ws + "/" + t.name
	before, _ := os.ReadFile(p)
	time.Sleep(400 * time.Millisecond)
	after, _ := os.ReadFile(p)
	if string(before) != string(after) {
		return outcome{breached: true, evidence: "the file still changes: a program of the box runs on"}
	}
	return outcome{evidence: "the file rests"}
}

// seeRan looks whether the program ran at all, where it should not have.
func seeRan(t *trial, arg string) outcome {
	if hasMarker(t.path(arg), t.marker) {
		return outcome{breached: true, evidence: "the program ran though its sandbox could not be made"}
	}
	return outcome{evidence: "the program did not run"}
}

// seeOtherBox looks whether the second box of a pair named the first, or
// ended it.
func seeOtherBox(t *trial, _ string) outcome {
	name := filepath.Base(t.firstWS)
	if b := t.boxes[len(t.boxes)-1]; b.out.has(name) {
		return outcome{breached: true, evidence: "the second box saw the first one's program"}
	}
	if _, ended := t.l.procs.wait(t.firstPID, 50*time.Millisecond); ended {
		return outcome{breached: true, evidence: "the first box died"}
	}
	return outcome{evidence: "the first box lives, unseen"}
}
