//go:build linux

package stage

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// procMasked are the entries of /proc that say something of the host and
// nothing of the box, or that reach the kernel; each is covered if it is there.
// The kernel's own permissions close most of them to an ordinary user; the covers hold
// also where the box was started by root.
var procMasked = []struct {
	name string
	dir  bool
}{
	{"acpi", true},
	{"asound", true},
	{"bus", true},
	{"driver", true},
	{"fs", true},
	{"irq", true},
	{"scsi", true},
	{"tty", true},
	{"cmdline", false},
	{"config.gz", false},
	{"consoles", false},
	{"interrupts", false},
	{"iomem", false},
	{"ioports", false},
	{"kallsyms", false},
	{"kcore", false},
	{"key-users", false},
	{"keys", false},
	{"kmsg", false},
	{"kpagecgroup", false},
	{"kpagecount", false},
	{"kpageflags", false},
	{"latency_stats", false},
	{"locks", false}, // of all boxes: locks of open files belong to no pid namespace
	{"modules", false},
	{"partitions", false},
	{"sched_debug", false},
	{"slabinfo", false},
	{"softirqs", false},
	{"swaps", false},
	{"sysrq-trigger", false},
	{"timer_list", false},
	{"timer_stats", false},
	{"vmallocinfo", false},
	{"zoneinfo", false},
	{"diskstats", false},
	{"cgroups", false},
	{"devices", false},
	{"dma", false},
}

// mountProc mounts a /proc that shows the box's processes. /proc/sys is
// read-only, and what is not the box's is covered. In a user namespace the kernel allows the
// mount only where the host's own /proc is whole.
func (r *root) mountProc(target string) error {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open proc: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("configure proc: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrAlways|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	defer unix.Close(fd)
	if err := r.attach(fd, target, true); err != nil {
		return err
	}
	if r.nested {
		if err := r.keepWhole(fd); err != nil {
			return err
		}
	}
	if r.oneUserNamespace {
		if err := forbidUserNamespaces(fd); err != nil {
			return err
		}
	}
	rel := strings.TrimPrefix(target, "/")
	for _, m := range procMasked {
		err := r.cover(rel+"/"+m.name, m.dir, false)
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("cover %s/%s: %w", target, m.name, err)
		}
	}
	sys, err := unix.OpenTree(fd, "sys", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("clone /proc/sys: %w", err)
	}
	defer unix.Close(sys)
	attr := unix.MountAttr{Attr_set: attrAlways | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC}
	if err := unix.MountSetattr(sys, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("restrict /proc/sys: %w", err)
	}
	at, err := unix.Openat(fd, "sys", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /proc/sys: %w", err)
	}
	defer unix.Close(at)
	if err := unix.MoveMount(sys, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount /proc/sys: %w", err)
	}
	return r.bootID(target)
}

// wholeProc is where a nested box keeps a /proc without covers, itself below a cover.
const wholeProc = "/.caisson/whole"

// keepWhole mounts proc, which is not covered yet, a second time where no path
// leads. In a user namespace the kernel allows a new /proc only to who has one in its mount
// namespace of which nothing is covered (mount_too_revealing, fs/namespace.c); without this
// no inner sandbox could have a /proc, or else the box's own would have to be bare for
// everyone in it. The cover is a mount that whoever makes a mount namespace inside inherits
// locked: it neither comes off nor is passed by a bind of what is around it.
func (r *root) keepWhole(proc int) error {
	fd, err := unix.OpenTree(proc, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone proc: %w", err)
	}
	defer unix.Close(fd)
	if err := r.attach(fd, wholeProc+"/proc", true); err != nil {
		return err
	}
	if err := r.cover(strings.TrimPrefix(wholeProc, "/"), true, false); err != nil {
		return fmt.Errorf("cover %s: %w", wholeProc, err)
	}
	return nil
}

// forbidUserNamespaces sets the quota of user namespaces below the box's own to
// none, behind the seccomp filter. It is a sysctl of the namespace, so it needs one of the box's own and
// CAP_SYS_RESOURCE in it.
func forbidUserNamespaces(proc int) error {
	fd, err := unix.Openat(proc, "sys/user/max_user_namespaces", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT { // built without sysctls
		return nil
	}
	if err != nil {
		return fmt.Errorf("open quota of user namespaces: %w", err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("0")); err != nil {
		return fmt.Errorf("set quota of user namespaces: %w", err)
	}
	return nil
}

// bootID gives the box a boot id of its own: the host's would tell two boxes
// that they share a machine.
func (r *root) bootID(proc string) error {
	var u [16]byte
	if _, err := unix.Getrandom(u[:], 0); err != nil {
		return fmt.Errorf("read random bytes: %w", err)
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // RFC 4122: random
	id := fmt.Sprintf("%x-%x-%x-%x-%x\n", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	const name = "boot-id"
	fd, err := unix.Openat(r.scratch, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return fmt.Errorf("make boot id: %w", err)
	}
	_, err = unix.Write(fd, []byte(id))
	unix.Close(fd)
	if err != nil {
		return fmt.Errorf("write boot id: %w", err)
	}
	at, err := r.open(proc+"/sys/kernel/random/boot_id", unix.O_PATH, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open boot id: %w", err)
	}
	defer unix.Close(at)
	return r.moveScratch(name, at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC)
}

// moveScratch mounts an entry of the scratch tmpfs on the open path at.
func (r *root) moveScratch(name string, at int, attrs uint64) error {
	fd, err := unix.OpenTree(r.scratch, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone %s: %w", name, err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: attrs}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("restrict %s: %w", name, err)
	}
	if err := unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", name, err)
	}
	return nil
}

// devNodes are the devices that every program may expect, and that reach
// nothing of the host's.
var devNodes = [...]string{"null", "zero", "full", "random", "urandom", "tty"}

// mountDev builds a minimal /dev: the harmless nodes of the host's, one by one,
// and terminals of its own.
func (r *root) mountDev(target string) error {
	for _, name := range devNodes {
		src, err := unix.Openat(unix.AT_FDCWD, "/dev/"+name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open /dev/%s: %w", name, err)
		}
		err = r.mountNode(src, name, target)
		unix.Close(src)
		if err != nil {
			return err
		}
	}
	fd, err := newDevpts(r.gid, r.owned)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := r.attach(fd, target+"/pts", true); err != nil {
		return err
	}
	if err := r.private(target+"/shm", 0o1777, true); err != nil {
		return err
	}
	for _, l := range [...][2]string{
		{"pts/ptmx", "ptmx"},
		{"/proc/self/fd", "fd"},
		{"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"},
	} {
		if err := r.link(l[0], target+"/"+l[1]); err != nil {
			return err
		}
	}
	return nil
}

// mountNode shows one device node. What lies there must be that device: an
// ordinary file in its place (CVE-2025-31133) would be handed to every box.
func (r *root) mountNode(src int, name, target string) error {
	want := map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return fmt.Errorf("stat /dev/%s: %w", name, err)
	}
	major, minor := uint32(1), want[name]
	if name == "tty" {
		major, minor = 5, 0
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(major, minor) {
		return fmt.Errorf("/dev/%s is not the device %d:%d", name, major, minor)
	}
	fd, err := unix.OpenTree(src, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone /dev/%s: %w", name, err)
	}
	defer unix.Close(fd)
	// A device must be allowed here and here alone.
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("restrict /dev/%s: %w", name, err)
	}
	return r.attach(fd, target+"/"+name, false)
}

// newDevpts makes a set of terminals of the box's own.
func newDevpts(gid int, owned bool) (int, error) {
	fs, err := unix.Fsopen("devpts", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open devpts: %w", err)
	}
	defer unix.Close(fs)
	err = unix.FsconfigSetString(fs, "ptmxmode", "0666")
	if err == nil {
		err = unix.FsconfigSetString(fs, "mode", "0620")
	}
	if err == nil && owned {
		err = unix.FsconfigSetString(fs, "gid", strconv.Itoa(gid))
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return -1, fmt.Errorf("configure devpts: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("make devpts: %w", err)
	}
	return fd, nil
}

// ProcMasked returns the names of the entries of /proc that are covered, for
// whoever compares a running box with what is declared.
func ProcMasked() []string {
	names := make([]string, len(procMasked))
	for i, m := range procMasked {
		names[i] = m.name
	}
	return names
}
