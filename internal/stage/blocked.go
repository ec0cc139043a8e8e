//go:build linux

package stage

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// The steps of a start that fail outside, before the guest can say anything.
const (
	stepGuest = "start guest"
	stepNull  = "open /dev/null"
)

// Blocked gives the cause of a start that the host did not allow, and what to
// do about it, in words that docs/troubleshooting.md repeats; nil if the
// failure is none of those known. step is that of a SetupError; guest is the
// path of its binary.
func Blocked(step string, no syscall.Errno, guest string) *api.Error {
	f := readFacts(theHost(), os.Geteuid(), guest)
	return f.blocked(step, no)
}

// StepOf finds the step and the errno of a failed start in err.
func StepOf(err error) (step string, no syscall.Errno) {
	var se *SetupError
	if errors.As(err, &se) {
		step = se.Step
	}
	errors.As(err, &no)
	return step, no
}

// BarsNamespaces reports whether a failed start is that of the namespaces.
func BarsNamespaces(err error) bool {
	step, no := StepOf(err)
	return noSpace(nil, step, no) || denied(nil, step, no)
}

// cause is one way of being blocked. The first that fits is told.
type cause struct {
	fits func(f *hostFacts, step string, no syscall.Errno) bool
	says string // %s is filled in from arg
	fix  string
	arg  func(f *hostFacts, step string) string
}

const keepSysctl = " (caisson setup, as root, sets it for good)"

// causes is the table.
var causes = []cause{
	{
		fits: func(f *hostFacts, _ string, _ syscall.Errno) bool { return f.noProc },
		says: "no /proc is mounted here",
		fix:  "mount one: mount -t proc proc /proc",
	},
	{
		fits: func(_ *hostFacts, _ string, no syscall.Errno) bool { return no == unix.EMFILE || no == unix.ENFILE },
		says: "no more files can be opened here",
		fix:  "raise the limit of open files: ulimit -n 1024",
	},
	{
		fits: is(stepNull, unix.ENOENT, unix.ENXIO, unix.EACCES, unix.EPERM),
		says: "there is no usable /dev/null here, which every program needs",
		fix:  "as root: mknod -m 666 /dev/null c 1 3, or mount a /dev that has it, on a file system without nodev",
	},
	{
		fits: and(is(stepGuest, unix.EACCES), func(f *hostFacts) bool { return f.noExec }),
		says: "%s is on a file system mounted noexec, so the guest in it cannot be executed",
		fix:  "set XDG_CACHE_HOME to a folder of yours that allows execution; for root, remount it with exec",
		arg:  func(f *hostFacts, _ string) string { return f.dir },
	},
	{
		fits: is(stepGuest, unix.EAGAIN),
		says: "no more processes can be started here",
		fix:  "raise the limit: ulimit -u, TasksMax= of a systemd slice, or --pids-limit of a container",
	},
	{
		fits: is(stepGuest, unix.EINVAL),
		says: "this kernel lacks a kind of namespace that a box needs",
		fix:  "caisson doctor names it; use a kernel with CONFIG_USER_NS and all of CONFIG_NAMESPACES",
	},
	{
		fits: and(noSpace, func(f *hostFacts) bool { return f.noUserNS && !f.nested }),
		says: "this host allows no more user namespaces: user.max_user_namespaces is 0",
		fix:  "as root: sysctl user.max_user_namespaces=15000" + keepSysctl,
	},
	{
		fits: and(noSpace, func(f *hostFacts) bool { return f.nested }),
		says: "this host allows no more user namespaces: an outer sandbox or container has set a limit, and it is reached",
		fix:  "start Caisson outside of it, or let it allow user namespaces within (bubblewrap: leave out --disable-userns)",
	},
	{
		fits: noSpace,
		says: "this host allows no more user namespaces: its limit is reached",
		fix:  "as root: raise user.max_user_namespaces and the other limits in /proc/sys/user, or end sandboxes",
	},
	{
		fits: and(or(denied, setting(unix.EPERM)), func(f *hostFacts) bool { return f.lacks() != "" }),
		says: "root lacks capabilities here that a sandbox is set up by: %s",
		fix:  "start Caisson as an ordinary user, who needs none, or give root them: docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_TIME",
		arg:  func(f *hostFacts, _ string) string { return f.lacks() },
	},
	{
		fits: and(denied, func(f *hostFacts) bool { return f.unmapped }),
		says: "your user id does not exist in this user namespace",
		fix:  "give it a map, as unshare --map-current-user does, or start Caisson outside of it",
	},
	{
		fits: and(denied, func(f *hostFacts) bool { return !f.root && f.cloneOff }),
		says: "this host does not let an ordinary user make namespaces: kernel.unprivileged_userns_clone is 0",
		fix:  "as root: sysctl kernel.unprivileged_userns_clone=1" + keepSysctl,
	},
	{
		fits: and(denied, func(f *hostFacts) bool { return !f.root && f.appArmorBars() }),
		says: "AppArmor restricts user namespaces here: kernel.apparmor_restrict_unprivileged_userns is 1, and no profile allows them to caisson",
		fix:  "caisson setup, as root: it writes a profile for caisson alone",
	},
	{
		fits: and(denied, func(f *hostFacts) bool { return f.chroot }),
		says: "the kernel makes no user namespace in a chroot",
		fix:  "start Caisson outside of it, or enter it by pivot_root, as containers do",
	},
	{
		fits: and(denied, (*hostFacts).confined),
		says: "the AppArmor profile %s does not let caisson make namespaces",
		fix:  "add the rule \"userns,\" to the profile; for a container: docker run --security-opt apparmor=unconfined",
		arg:  func(f *hostFacts, _ string) string { return f.label },
	},
	{
		fits: and(denied, func(f *hostFacts) bool { return f.seccomp }),
		says: "a seccomp filter, as containers have one, refuses new namespaces",
		fix:  "start Caisson outside of the container, or without its filter: docker run --security-opt seccomp=unconfined, in Kubernetes seccompProfile: {type: Unconfined}",
	},
	{
		fits: denied,
		says: "this host does not let an ordinary user make namespaces, and does not say why",
		fix:  "a security module may refuse it: look at the kernel's log (journalctl -k), and allow caisson there",
	},
	{
		fits: and(setting(unix.EPERM, unix.EACCES), func(f *hostFacts) bool { return !f.root && f.appArmorBars() }),
		says: "AppArmor lets caisson make user namespaces, but not use them: kernel.apparmor_restrict_unprivileged_userns is 1, and no profile allows them to caisson",
		fix:  "caisson setup, as root: it writes a profile for caisson alone",
	},
	{
		fits: and(is("mount /proc", unix.EPERM), func(f *hostFacts) bool { return len(f.procMasked) > 0 }),
		says: "this container's /proc is masked (%s), and the kernel then gives nobody a fresh one",
		fix:  "docker or podman run --security-opt systempaths=unconfined (podman: unmask=ALL); in Kubernetes procMount: Unmasked with hostUsers: false",
		arg:  func(f *hostFacts, _ string) string { return first(f.procMasked, 3) },
	},
	{
		fits: is("mount /proc", unix.EPERM),
		says: "no whole /proc is mounted here, and the kernel then gives nobody a fresh one",
		fix:  "mount one: mount -t proc proc /proc, without subset=pid",
	},
	{
		fits: and(setting(unix.EPERM, unix.EACCES), (*hostFacts).confined),
		says: "the AppArmor profile %s refuses what a sandbox is set up by",
		fix:  "add the rules \"userns,\" and \"mount,\" to the profile; for a container: docker run --security-opt apparmor=unconfined",
		arg:  func(f *hostFacts, _ string) string { return f.label },
	},
	{
		fits: and(setting(unix.EPERM, unix.EACCES, unix.ENOSYS), func(f *hostFacts) bool { return f.seccomp }),
		says: "a seccomp filter, as containers have one, refuses a step of the set-up (%s)",
		fix:  "start Caisson outside of the container, or without its filter: docker run --security-opt seccomp=unconfined, in Kubernetes seccompProfile: {type: Unconfined}",
		arg:  func(_ *hostFacts, step string) string { return step },
	},
}

// blocked finds the cause in the table.
func (f *hostFacts) blocked(step string, no syscall.Errno) *api.Error {
	for i := range causes {
		c := &causes[i]
		if !c.fits(f, step, no) {
			continue
		}
		says := c.says
		if c.arg != nil {
			says = strings.Replace(says, "%s", c.arg(f, step), 1)
		}
		if f.container != "" {
			says += " (in " + f.container + ")"
		}
		return &api.Error{Code: api.CodeHost, Message: says, Hint: c.fix}
	}
	return nil
}

// noSpace fits where the kernel counts no further namespace.
func noSpace(_ *hostFacts, step string, no syscall.Errno) bool {
	return step == stepGuest && (no == unix.ENOSPC || no == unix.EUSERS)
}

// denied fits where something does not let namespaces be made.
func denied(_ *hostFacts, step string, no syscall.Errno) bool {
	return step == stepGuest && (no == unix.EPERM || no == unix.EACCES || no == unix.ENOSYS)
}

type fits = func(f *hostFacts, step string, no syscall.Errno) bool

// is fits one step that failed in one of some ways.
func is(step string, nos ...syscall.Errno) fits {
	return func(_ *hostFacts, at string, no syscall.Errno) bool { return at == step && oneOf(no, nos) }
}

// setting fits the steps inside that need the rights of the new user namespace.
func setting(nos ...syscall.Errno) fits {
	return func(_ *hostFacts, step string, no syscall.Errno) bool {
		switch step {
		case "root", "enter root", "hostname", "loopback", "clock", "tell limits", "drop bounding set":
			return oneOf(no, nos)
		}
		return strings.HasPrefix(step, "mount ") && oneOf(no, nos)
	}
}

func and(a fits, b func(*hostFacts) bool) fits {
	return func(f *hostFacts, step string, no syscall.Errno) bool { return a(f, step, no) && b(f) }
}

func or(a, b fits) fits {
	return func(f *hostFacts, step string, no syscall.Errno) bool { return a(f, step, no) || b(f, step, no) }
}

func oneOf(no syscall.Errno, list []syscall.Errno) bool {
	for _, n := range list {
		if n == no {
			return true
		}
	}
	return false
}

// first writes some of a list.
func first(list []string, n int) string {
	if len(list) > n {
		return strings.Join(list[:n], ", ") + ", ..."
	}
	return strings.Join(list, ", ")
}

// userNamespacesBarred says which setting surely keeps an ordinary user from user
// namespaces; nil if none does. Whether AppArmor does, only a start can tell: profiles and
// its own namespaces decide.
func userNamespacesBarred(f *hostFacts) *api.Error {
	switch {
	case f.noUserNS:
		return f.blocked(stepGuest, unix.ENOSPC)
	case !f.root && f.cloneOff:
		return f.blocked(stepGuest, unix.EPERM)
	}
	return nil
}
