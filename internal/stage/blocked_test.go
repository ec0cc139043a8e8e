//go:build linux

package stage

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// hostFiles are what an ordinary host shows, with changes.
func hostFiles(changes ...string) fs.FS {
	files := fstest.MapFS{}
	add := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	add("proc/self/status", "Name:\tcaisson\nCapEff:\t0000000000000000\nSeccomp:\t0\n")
	add("proc/self/uid_map", "         0          0 4294967295\n")
	add("proc/self/mountinfo", "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 25 0:22 / /proc rw - proc proc rw\n30 26 0:30 / /proc/sys/fs/binfmt_misc rw - autofs a rw\n")
	add("proc/sys/user/max_user_namespaces", "127000\n")
	for i := 0; i+1 < len(changes); i += 2 {
		add(changes[i], changes[i+1])
	}
	return files
}

const (
	restricted = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	label      = "proc/self/attr/apparmor/current"
	masked     = "25 1 8:1 / / rw - overlay overlay rw\n26 25 0:22 / /proc rw - proc proc rw\n27 26 0:22 /sys /proc/sys ro - proc proc rw\n28 26 0:23 / /proc/acpi ro - tmpfs tmpfs ro\n29 26 0:24 /null /proc/kcore rw - tmpfs tmpfs rw\n30 26 0:24 /null /proc/keys rw - tmpfs tmpfs rw\n"
	filtered   = "Name:\tcaisson\nCapEff:\t0000000000000000\nSeccomp:\t2\n"
	// A root in a container: no CAP_SYS_ADMIN.
	weakRoot = "Name:\tcaisson\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n"
	fullRoot = "Name:\tcaisson\nCapEff:\t000001ffffffffff\nSeccomp:\t2\n"
)

// TestBlockedNamesTheCause is the table of causes on hosts that are made up,
// those among them that no test machine is: AppArmor, Docker, Debian's old switch.
func TestBlockedNamesTheCause(t *testing.T) {
	for _, c := range []struct {
		name  string
		uid   int
		files []string
		step  string
		no    syscall.Errno
		says  string // the start of the message; "" for no known cause
		fix   string // part of the hint
	}{
		{"AppArmor, refused", 1000, []string{restricted, "1\n", label, "unconfined\n"}, stepGuest, unix.EACCES, "AppArmor restricts user namespaces here: kernel.apparmor_restrict_unprivileged_userns is 1", "caisson setup, as root"},
		{"AppArmor, no rights inside", 1000, []string{restricted, "1\n", label, "unconfined\n"}, "root", unix.EACCES, "AppArmor lets caisson make user namespaces, but not use them", "caisson setup, as root"},
		{"AppArmor, at a mount", 1000, []string{restricted, "1\n", label, "unconfined\n"}, "mount /usr", unix.EPERM, "AppArmor lets caisson make user namespaces, but not use them", "caisson setup, as root"},
		{"AppArmor, at /proc", 1000, []string{restricted, "1\n", label, "unconfined\n"}, "mount /proc", unix.EPERM, "AppArmor lets caisson make user namespaces, but not use them", "caisson setup, as root"},
		{"AppArmor and our profile", 1000, []string{restricted, "1\n", label, "caisson (unconfined)\n"}, stepGuest, unix.EPERM, "this host does not let an ordinary user make namespaces, and does not say why", "journalctl -k"},
		{"AppArmor, off", 1000, []string{restricted, "0\n", label, "unconfined\n"}, stepGuest, unix.EPERM, "this host does not let an ordinary user make namespaces, and does not say why", ""},
		{"Docker's profile", 1000, []string{label, "docker-default (enforce)\n", ".dockerenv", ""}, "root", unix.EACCES, "the AppArmor profile docker-default (enforce) refuses what a sandbox is set up by (in Docker)", "apparmor=unconfined"},
		{"a profile without userns", 1000, []string{label, "agents (enforce)\n"}, stepGuest, unix.EACCES, "the AppArmor profile agents (enforce) does not let caisson make namespaces", `"userns,"`},
		{"Debian's switch", 1000, []string{"proc/sys/kernel/unprivileged_userns_clone", "0\n"}, stepGuest, unix.EPERM, "this host does not let an ordinary user make namespaces: kernel.unprivileged_userns_clone is 0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"Debian's switch, on", 1000, []string{"proc/sys/kernel/unprivileged_userns_clone", "1\n"}, stepGuest, unix.EPERM, "this host does not let an ordinary user make namespaces, and does not say why", ""},
		{"none allowed", 1000, []string{"proc/sys/user/max_user_namespaces", "0\n"}, stepGuest, unix.ENOSPC, "this host allows no more user namespaces: user.max_user_namespaces is 0", "sysctl user.max_user_namespaces=15000"},
		{"an outer limit", 1000, []string{"proc/self/uid_map", "1000 0 1\n"}, stepGuest, unix.ENOSPC, "this host allows no more user namespaces: an outer sandbox or container has set a limit", "--disable-userns"},
		{"none allowed, by an outer sandbox", 1000, []string{"proc/sys/user/max_user_namespaces", "0\n", "proc/self/uid_map", "1000 0 1\n"}, stepGuest, unix.ENOSPC, "this host allows no more user namespaces: an outer sandbox or container has set a limit", "outside of it"},
		{"no ids", 1000, []string{"proc/self/uid_map", ""}, stepGuest, unix.EPERM, "your user id does not exist in this user namespace", "--map-current-user"},
		{"used up", 1000, nil, stepGuest, unix.ENOSPC, "this host allows no more user namespaces: its limit is reached", "/proc/sys/user"},
		{"Docker's filter", 1000, []string{"proc/self/status", filtered, ".dockerenv", ""}, stepGuest, unix.EPERM, "a seccomp filter, as containers have one, refuses new namespaces (in Docker)", "seccomp=unconfined"},
		{"Kubernetes, root", 0, []string{"proc/self/status", weakRoot, "run/secrets/kubernetes.io/token", ""}, stepGuest, unix.EPERM, "root lacks capabilities here that a sandbox is set up by: CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SYS_TIME (in Kubernetes)", "ordinary user"},
		{"root without a clock", 0, []string{"proc/self/status", "CapEff:\t00000000a9ffffff\n"}, "clock", unix.EPERM, "root lacks capabilities here that a sandbox is set up by: CAP_SYS_TIME", "--cap-add SYS_TIME"},
		{"root under a filter", 0, []string{"proc/self/status", fullRoot}, stepGuest, unix.EPERM, "a seccomp filter, as containers have one, refuses new namespaces", ""},
		{"a filter within", 1000, []string{"proc/self/status", filtered}, "mount /usr", unix.EPERM, "a seccomp filter, as containers have one, refuses a step of the set-up (mount /usr)", ""},
		{"a masked /proc", 1000, []string{"proc/self/mountinfo", masked, "run/.containerenv", ""}, "mount /proc", unix.EPERM, "this container's /proc is masked (/proc/sys, /proc/acpi, /proc/kcore, ...), and the kernel then gives nobody a fresh one (in Podman)", "systempaths=unconfined"},
		{"no whole /proc", 1000, nil, "mount /proc", unix.EPERM, "no whole /proc is mounted here", "mount -t proc"},
		{"a chroot", 1000, []string{"proc/self/mountinfo", "26 25 0:22 / /proc rw - proc proc rw\n"}, stepGuest, unix.EPERM, "the kernel makes no user namespace in a chroot", "pivot_root"},
		{"no /dev/null", 1000, nil, stepNull, unix.ENOENT, "there is no usable /dev/null here", "mknod"},
		{"too many processes", 1000, nil, stepGuest, unix.EAGAIN, "no more processes can be started here", "ulimit -u"},
		{"no such namespaces", 1000, nil, stepGuest, unix.EINVAL, "this kernel lacks a kind of namespace", "CONFIG_USER_NS"},
		{"too few descriptors", 1000, nil, "", unix.EMFILE, "no more files can be opened here", "ulimit -n"},
		{"something else", 1000, []string{restricted, "1\n"}, "seccomp", unix.EINVAL, "", ""},
		{"a source that is gone", 1000, nil, "mount /usr", unix.ENOENT, "", ""},
		{"nothing known", 1000, nil, "mount /usr", unix.EPERM, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := readFacts(hostFiles(c.files...), c.uid, "")
			got := f.blocked(c.step, c.no)
			if c.says == "" {
				if got != nil {
					t.Errorf("a cause was made up: %v", got)
				}
				return
			}
			if got == nil {
				t.Fatal("no cause was found")
			}
			if got.Code != api.CodeHost || !strings.HasPrefix(got.Message, c.says) || !strings.Contains(got.Hint, c.fix) || got.Hint == "" {
				t.Errorf("got %q\nhint %q", got.Message, got.Hint)
			}
			if strings.Contains(got.Message+got.Hint, "%") || strings.ContainsAny(got.Message+got.Hint, "\n\t") {
				t.Errorf("not one clear line: %q, %q", got.Message, got.Hint)
			}
		})
	}
}

// What only looking can tell must be told before anything is started, and must not bar
// a host on which it works.
func TestSettingsThatBarUserNamespaces(t *testing.T) {
	for _, c := range []struct {
		name  string
		uid   int
		files []string
		bars  bool
	}{
		{"an ordinary host", 1000, nil, false},
		{"none allowed", 1000, []string{"proc/sys/user/max_user_namespaces", "0\n"}, true},
		{"Debian's switch", 1000, []string{"proc/sys/kernel/unprivileged_userns_clone", "0\n"}, true},
		{"Debian's switch, for root", 0, []string{"proc/sys/kernel/unprivileged_userns_clone", "0\n"}, false},
		{"AppArmor", 1000, []string{restricted, "1\n", label, "unconfined\n"}, false}, // it is tried
		{"AppArmor, for root", 0, []string{restricted, "1\n", label, "unconfined\n"}, false},
		{"AppArmor and our profile", 1000, []string{restricted, "1\n", label, "caisson (unconfined)\n"}, false},
		{"a profile of somebody else", 1000, []string{restricted, "1\n", label, "agents (enforce)\n"}, false},
	} {
		strength, detail, fix := userNamespaces(hostFiles(c.files...), c.uid)
		if (strength == api.StrengthNone) != c.bars || (detail != "") != (c.bars || c.name == "AppArmor") || fix == "" {
			t.Errorf("%s: %v, %q, fix %q", c.name, strength, detail, fix)
		}
	}
}

// SELinux writes into the same file as AppArmor.
func TestOnlyAppArmorHasItsLabels(t *testing.T) {
	selinux := "unconfined_u:unconfined_r:unconfined_t:s0\x00"
	if got := appArmorLabel(hostFiles("proc/self/attr/current", selinux)); got != "" {
		t.Errorf("SELinux's context was taken for a profile: %q", got)
	}
	old := hostFiles("proc/self/attr/current", "docker-default (enforce)\n", "sys/module/apparmor/parameters/enabled", "Y\n")
	if got := appArmorLabel(old); got != "docker-default (enforce)" {
		t.Errorf("the profile is %q", got)
	}
}

func TestStepOf(t *testing.T) {
	step, no := StepOf(fmt.Errorf("begin: %w", &SetupError{stepGuest, fmt.Errorf("clone: %w", unix.ENOSPC)}))
	if step != stepGuest || no != unix.ENOSPC {
		t.Errorf("got %q, %v", step, no)
	}
	if step, no = StepOf(fmt.Errorf("other")); step != "" || no != 0 {
		t.Errorf("got %q, %v from an error without", step, no)
	}
}

// TestCausesAreInTheDocs finds every cause by its words in the page for people who search.
func TestCausesAreInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range causes {
		for part := range strings.SplitSeq(c.says, "%s") {
			if !strings.Contains(string(page), strings.TrimRight(part, " (")) {
				t.Errorf("docs/hosts.md does not have %q", part)
			}
		}
	}
}
