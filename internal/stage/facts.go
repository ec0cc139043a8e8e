//go:build linux

package stage

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hostFacts are what a host says of the ways in which it may block a box. They
// are read only when something is blocked, or to report on it.
type hostFacts struct {
	root      bool   // started as root
	caps      uint64 // that are effective
	nested    bool   // in a user namespace that is not the first
	unmapped  bool   // its user namespace has no ids
	noProc    bool
	seccomp   bool // under a seccomp filter already
	chroot    bool
	container string // "Docker", ...; "" if nothing says so

	appArmor   bool   // AppArmor restricts user namespaces of unconfined programs
	label      string // the caller's AppArmor profile; "" or "unconfined" for none
	cloneOff   bool   // kernel.unprivileged_userns_clone is 0
	noUserNS   bool   // user.max_user_namespaces is 0
	procMasked []string
	noExec     bool // the guest lies on a file system without execution
	dir        string
}

// readFacts reads them below a root, which tests make up. guest is the path
// of the guest's binary, "" if it does not matter.
func readFacts(host fs.FS, uid int, guest string) hostFacts {
	status := keyed(readText(host, "proc/self/status"))
	f := readSettings(host, uid)
	f.label = appArmorLabel(host)
	f.seccomp = status["Seccomp"] == "2"
	f.nested = isNested(host)
	f.unmapped = strings.TrimSpace(readText(host, "proc/self/uid_map")) == ""
	_, err := fs.Stat(host, "proc/self")
	f.noProc = err != nil
	f.container = containerOf(host)
	if caps, err := strconv.ParseUint(status["CapEff"], 16, 64); err == nil {
		f.caps = caps
	}
	f.readMounts(host)
	if guest != "" {
		var st unix.Statfs_t
		f.dir = path.Dir(guest)
		f.noExec = unix.Statfs(f.dir, &st) == nil && st.Flags&unix.ST_NOEXEC != 0
	}
	return f
}

// readSettings reads the facts that are settings: all that the path of a run
// has time for.
func readSettings(host fs.FS, uid int) hostFacts {
	f := hostFacts{
		root:     uid == 0,
		appArmor: number(host, "proc/sys/kernel/apparmor_restrict_unprivileged_userns") > 0,
		cloneOff: number(host, "proc/sys/kernel/unprivileged_userns_clone") == 0,
		noUserNS: number(host, "proc/sys/user/max_user_namespaces") == 0,
	}
	if f.appArmor {
		f.label = appArmorLabel(host)
	}
	if f.noUserNS {
		f.nested = isNested(host)
	}
	return f
}

// isNested reports whether the caller's user namespace is not the first.
func isNested(host fs.FS) bool {
	return !slices.Equal(strings.Fields(readText(host, "proc/self/uid_map")), []string{"0", "0", "4294967295"})
}

// readMounts finds what covers parts of /proc, and whether the root is a mount
// at all: in a chroot it is a folder.
func (f *hostFacts) readMounts(host fs.FS) {
	text := readText(host, "proc/self/mountinfo")
	rootSeen := false
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		at := fields[4]
		rootSeen = rootSeen || at == "/"
		// Below /proc/sys mounts are usual on a whole host, and on a folder that is
		// empty there (binfmt_misc) they cover nothing.
		if strings.HasPrefix(at, "/proc/") && at != "/proc/sys/fs/binfmt_misc" && at != "/proc/fs/nfsd" {
			f.procMasked = append(f.procMasked, at)
		}
	}
	f.chroot = text != "" && !rootSeen
}

// appArmorLabel is the profile of the calling process, "" without AppArmor.
func appArmorLabel(host fs.FS) string {
	text := readText(host, "proc/self/attr/apparmor/current")
	if text == "" && strings.HasPrefix(readText(host, "sys/module/apparmor/parameters/enabled"), "Y") {
		text = readText(host, "proc/self/attr/current")
	}
	return strings.TrimSpace(strings.TrimRight(text, "\x00"))
}

// confined reports whether a profile that restricts something holds the caller.
// "NAME (unconfined)" is a profile that only names its program.
func (f *hostFacts) confined() bool {
	return f.label != "" && f.label != "unconfined" && !strings.HasSuffix(f.label, " (unconfined)")
}

// lacks names what root needs of its capabilities and has not.
func (f *hostFacts) lacks() string {
	var lacks []string
	for _, c := range []struct {
		number int
		name   string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_SYS_TIME, "CAP_SYS_TIME"}, {unix.CAP_SETPCAP, "CAP_SETPCAP"}} {
		if f.root && f.caps&(1<<c.number) == 0 {
			lacks = append(lacks, c.name)
		}
	}
	return strings.Join(lacks, ", ")
}

// appArmorBars reports whether AppArmor keeps the caller from using a user
// namespace: it does with everything that no profile names.
func (f *hostFacts) appArmorBars() bool {
	return f.appArmor && (f.label == "" || f.label == "unconfined")
}

// containerOf names what runs the container that we are in, as far as that
// leaves a mark.
func containerOf(host fs.FS) string {
	for _, mark := range []struct{ file, name string }{
		{".dockerenv", "Docker"},
		{"run/.containerenv", "Podman"},
		{"var/run/secrets/kubernetes.io", "Kubernetes"},
		{"run/secrets/kubernetes.io", "Kubernetes"},
	} {
		if _, err := fs.Stat(host, mark.file); err == nil {
			return mark.name
		}
	}
	return strings.TrimSpace(readText(host, "run/systemd/container"))
}

// theHost is the file system that facts are read from.
func theHost() fs.FS { return os.DirFS("/") }

// readText is a small file's content, "" if it cannot be read: then the host does not say.
func readText(host fs.FS, name string) string {
	b, err := fs.ReadFile(host, name)
	if err != nil {
		return ""
	}
	return string(b)
}

// number is a setting's value, -1 where the kernel has none.
func number(host fs.FS, name string) int {
	n, err := strconv.Atoi(string(bytes.TrimSpace([]byte(readText(host, name)))))
	if err != nil {
		return -1
	}
	return n
}

// keyed reads lines of the form "Key:\tvalue".
func keyed(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m
}
