package escape

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// observers look at the host and say whether something got through. None
// believes what the program inside says of itself.
func observers() map[string]func(*trial, string) outcome {
	return map[string]func(*trial, string) outcome{
		"secret":  seeSecret,
		"linked":  seeLinked,
		"marker":  seeMarker,
		"exists":  seeExists,
		"special": seeSpecial,
		"owner":   seeOwner,
		"escapes": seeEscapes,
		"refs":    seeRefs,
		"arrived": seeArrived,
		"inbound": seeInbound,
		"secretorarrived": func(t *trial, _ string) outcome {
			if out := seeSecret(t, ""); out.breached {
				return out
			}
			return seeArrived(t, "")
		},
		"typed":      seeTyped,
		"dead":       seeDead,
		"traced":     seeTraced,
		"boxtrace":   seeBoxTraced,
		"decoysock":  func(t *trial, _ string) outcome { return t.seeSocket(t.decoy.sock, "the decoy's socket") },
		"socket":     func(t *trial, _ string) outcome { return t.seeSocket(t.sock, "the inherited socket") },
		"class":      seeClass,
		"moved":      seeMoved,
		"elastic":    func(*trial, string) outcome { return outcome{evidence: "never run"} },
		"device":     seeDevice,
		"caps":       seeCaps,
		"raised":     seeRaised,
		"joined":     seeJoined,
		"othergroup": seeOtherGroup,
		"value":      seeValue,
		"tasks":      seeTasks,
		"memory":     seeMemory,
		"size":       seeSize,
		"count":      seeCount,
		"bytes":      seeBytes,
		"cpu":        seeCPU,
		"files":      seeFiles,
		"left":       seeLeft,
		"beating":    seeBeating,
		"ran":        seeRan,
		"seenbox":    seeOtherBox,
		"residue":    func(*trial, string) outcome { return outcome{evidence: "never run"} },
		"metric":     func(*trial, string) outcome { return outcome{evidence: "a number, and no verdict"} },
	}
}

// seeSecret looks for the trial's secrets in everything that came out of the
// boxes, arrived at a listener or stands in the workspace.
func seeSecret(t *trial, _ string) outcome {
	for _, s := range t.secrets {
		for _, b := range t.boxes {
			if b.out.has(s) || b.errs.has(s) {
				return outcome{breached: true, evidence: "the box printed the planted secret"}
			}
		}
		if where, ok := t.l.log.find(s); ok {
			return outcome{breached: true, evidence: "the planted secret arrived at " + where}
		}
	}
	return outcome{evidence: "no planted secret came out"}
}

func seeLinked(t *trial, arg string) outcome {
	var st unix.Stat_t
	if err := unix.Lstat(t.path(arg), &st); err == nil && st.Nlink > 1 {
		return outcome{breached: true, evidence: fmt.Sprintf("the secret file has %d links", st.Nlink)}
	}
	return seeSecret(t, "")
}

// seeMarker looks for the trial's marker in files of the host: a path, or
// "tree P" for all below one. Where the product's report lists the file as one
// that will execute later, it is flagged.
func seeMarker(t *trial, arg string) outcome {
	reported := t.tg.reported(t)
	out := outcome{evidence: "no host file has the marker"}
	for _, p := range strings.Split(arg, ",") {
		p = t.path(p)
		if !hasMarker(p, t.marker) {
			continue
		}
		if slices.ContainsFunc(reported, func(r string) bool { return covers(r, p, t.ws) }) {
			out.flagged, out.evidence = true, p+" has the marker, and was reported"
			continue
		}
		return outcome{breached: true, evidence: p + " has the marker"}
	}
	return out
}

// covers says whether a reported path, relative or not, is the file or a folder above it.
func covers(reported, p, ws string) bool {
	if !filepath.IsAbs(reported) {
		reported = filepath.Join(ws, reported)
	}
	return p == reported || strings.HasPrefix(p, strings.TrimSuffix(reported, "/")+"/")
}

func hasMarker(p, marker string) bool {
	fi, err := os.Stat(p)
	if err != nil {
		return false
	}
	if fi.IsDir() {
		found := errors.New("found")
		return filepath.WalkDir(p, func(q string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && hasMarker(q, marker) {
				return found
			}
			return nil
		}) != nil
	}
	if !fi.Mode().IsRegular() || fi.Size() > 1<<20 {
		return false
	}
	b, _ := os.ReadFile(p)
	return strings.Contains(string(b), marker)
}

func seeExists(t *trial, arg string) outcome {
	for _, p := range strings.Split(arg, ",") {
		if _, err := os.Lstat(t.path(p)); err == nil {
			reported := t.tg.reported(t)
			if slices.ContainsFunc(reported, func(r string) bool { return covers(r, t.path(p), t.ws) }) {
				return outcome{flagged: true, evidence: t.path(p) + " is there, and was reported"}
			}
			return outcome{breached: true, evidence: t.path(p) + " is there"}
		}
	}
	return outcome{evidence: "nothing is there"}
}

// seeSpecial looks for a set-user-id file of root's or a device node.
func seeSpecial(t *trial, arg string) outcome {
	var st unix.Stat_t
	p := t.path(arg)
	if unix.Lstat(p, &st) == nil && st.Uid == 0 && st.Mode&unix.S_ISUID != 0 {
		return outcome{breached: true, evidence: p + " is set-user-id root"}
	}
	if unix.Lstat(p+".dev", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return outcome{breached: true, evidence: p + ".dev is a device"}
	}
	return outcome{evidence: "no special file of root's"}
}

// seeOwner looks whether a file has another owner than the box's user.
func seeOwner(t *trial, arg string) outcome {
	want, p, _ := strings.Cut(arg, " ")
	var st unix.Stat_t
	if err := unix.Lstat(t.path(p), &st); err == nil && strconv.Itoa(int(st.Uid)) == want {
		return outcome{breached: true, evidence: t.path(p) + " belongs to " + want}
	}
	return outcome{evidence: "ownership is as it was"}
}

func seeEscapes(t *trial, _ string) outcome {
	for _, b := range t.boxes {
		if b.out.has("\x1b]0;" + t.marker) {
			return outcome{breached: true, evidence: "the escape sequence came out as it was written"}
		}
	}
	return outcome{evidence: "no raw escape sequence came out"}
}

func seeRefs(t *trial, _ string) outcome {
	ref, _ := os.ReadFile(t.ws + "/.git/refs/heads/main")
	packed, _ := os.ReadFile(t.ws + "/.git/packed-refs")
	config, _ := os.ReadFile(t.ws + "/.git/config")
	switch {
	case strings.TrimSpace(string(ref)) != t.commit:
		return outcome{breached: true, evidence: "the host's branch moved to " + strings.TrimSpace(string(ref))}
	case strings.Contains(string(packed), t.name):
		return outcome{breached: true, evidence: "the host has a new reference"}
	case strings.Contains(string(config), t.marker):
		return outcome{breached: true, evidence: "the host has a new remote"}
	}
	return outcome{evidence: "the host's references are as they were"}
}

// seeArrived looks whether the marker reached any listener. DNS labels carry
// its first 30 digits.
func seeArrived(t *trial, _ string) outcome {
	for end := time.Now().Add(100 * time.Millisecond); ; time.Sleep(5 * time.Millisecond) {
		if where, ok := t.l.log.find(t.marker[:30]); ok {
			return outcome{breached: true, evidence: "the marker arrived at " + where}
		}
		if time.Now().After(end) {
			return outcome{evidence: "no listener had the marker"}
		}
	}
}

func seeInbound(t *trial, _ string) outcome {
	if got := t.l.net.fetch(labIP + ":" + t.facts["port"]); strings.Contains(got, t.marker) {
		return outcome{breached: true, evidence: "a client of the other network reached the box's port"}
	}
	return outcome{evidence: "no client of the other network reached the box"}
}

func seeTyped(t *trial, _ string) outcome {
	if t.typed.has(t.marker) {
		return outcome{breached: true, evidence: "the outer terminal had the pushed line as input"}
	}
	return outcome{evidence: "nothing was typed into the outer terminal"}
}

func seeDead(t *trial, _ string) outcome {
	if _, ended := t.l.procs.wait(t.decoy.pid, 100*time.Millisecond); ended {
		return outcome{breached: true, evidence: "the decoy died"}
	}
	return outcome{evidence: "the decoy lives"}
}

func seeTraced(t *trial, _ string) outcome {
	if tracer := status(t.decoy.pid, "TracerPid"); tracer != "" && tracer != "0" {
		return outcome{breached: true, evidence: "the decoy is traced by " + tracer}
	}
	return outcome{evidence: "nobody traces the decoy"}
}

func seeBoxTraced(t *trial, _ string) outcome {
	for _, pid := range t.probeTasks() {
		if tracer := status(pid, "TracerPid"); tracer != "" && tracer != "0" {
			return outcome{breached: true, evidence: "a program of the box traces another"}
		}
	}
	return outcome{evidence: "no program of the box traces another"}
}

func (t *trial) seeSocket(fd int, what string) outcome {
	buf := make([]byte, 4096)
	n, _, _ := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
	if n > 0 && strings.Contains(string(buf[:n]), t.marker) {
		return outcome{breached: true, evidence: "the marker came out of " + what}
	}
	return outcome{evidence: "nothing came out of " + what}
}

func seeMoved(t *trial, arg string) outcome {
	nr, _ := strconv.ParseInt(map[string]string{"read": strconv.Itoa(unix.SYS_READ), "write": strconv.Itoa(unix.SYS_WRITE)}[arg], 10, 64)
	hit, text := worked(t.calls, t.marker, nr)
	return outcome{breached: hit, evidence: text}
}

// seeClass judges a kernel class by the calls that the host's kernel saw. Where
// the box's programs are the host's own tasks, none seen means that the tracer
// failed.
func seeClass(t *trial, arg string) outcome {
	hit, text := reached(t.calls, t.marker, arg)
	out := outcome{breached: hit, evidence: text}
	if !t.negative && t.tg.tier() == "P" && t.started() && len(windows(t.calls, t.marker)) == 0 {
		out.err = errors.New("the tracer saw no marked call")
	}
	return out
}
