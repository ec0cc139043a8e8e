package escape

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// weak is the lab's own box with one protection taken away, named by kind. It
// is the positive control of rows that no run without a sandbox can show.
type weak struct{ kind string }

// weakKinds are the protections that can be taken away.
func weakKinds() []string {
	return []string{
		"keep-cwd", "cap_dac_read_search", "cap_sys_admin", "rw", "root", "cap_mknod", "privileged", "no-nnp", "map-root",
		"chroot-only", "unmask", "mount-ctl", notifyContinue, "cgroup-rw",
	}
}

// whole is the kind of the lab's box that lacks nothing: a negative control.
const whole = "whole"

type weakSpec struct {
	Kind     string
	UID, GID int
	WS, Dir  string
	Home     string
	Group    string // the control group that the box is put in; empty: none
	Read     []string
	Inside   []string
}

func (weak) tier() string { return "P" }

func (weak) reported(*trial) []string { return nil }

func (weak) refused(string) bool { return false }

func (w weak) launch(t *trial, inside []string) (launch, error) {
	b, err := json.Marshal(weakSpec{Kind: w.kind, UID: t.l.uid, GID: t.l.gid, WS: t.ws, Dir: t.dir(), Home: t.l.home, Group: t.group, Read: t.grant.read, Inside: inside})
	if err != nil {
		return launch{}, fmt.Errorf("describe weak box: %w", err)
	}
	la := launch{argv: []string{labTools, "weakbox", string(b)}, env: t.environment(), dir: t.dir(), root: true}
	la.attr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	return la, nil
}

// weakBox builds the box around itself and becomes the program.
func weakBox(args []string) error {
	var s weakSpec
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return err
	}
	runtime.LockOSThread()
	if s.Group != "" {
		if err := os.WriteFile(s.Group+"/cgroup.procs", []byte("0"), 0); err != nil {
			return fmt.Errorf("enter the control group: %w", err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	const root = "/mnt"
	if err := unix.Mount("box", root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount root: %w", err)
	}
	if err := weakMounts(s, root); err != nil {
		return err
	}
	if err := weakRoot(s, root); err != nil {
		return err
	}
	if s.Kind == notifyContinue {
		return supervise(s)
	}
	if err := weakPrivileges(s); err != nil {
		return err
	}
	return become(s.Inside)
}

func weakMounts(s weakSpec, root string) error {
	ro := []string{"/usr", "/etc"}
	for _, d := range []string{"/bin", "/lib", "/lib64", "/sbin"} {
		if to, err := os.Readlink(d); err == nil {
			_ = os.Symlink(to, root+d)
		} else {
			ro = append(ro, d)
		}
	}
	ro = append(ro, s.Read...)
	if s.Kind == "unmask" {
		ro = append(ro, "/sys")
	}
	if s.Kind == notifyContinue { // the home is there, and the supervisor alone guards it
		if err := bind(s.Home, root+s.Home, false); err != nil {
			return err
		}
	}
	for _, d := range append(ro, s.WS, "/dev") {
		if err := bind(d, root+d, slices.Contains(ro, d) && (s.Kind != "rw" || !slices.Contains(s.Read, d))); err != nil {
			return err
		}
	}
	if s.Kind == "mount-ctl" {
		if err := bind("/run", root+"/run", false); err != nil {
			return err
		}
	}
	if s.Kind == "cgroup-rw" && s.Group != "" {
		// The lab's own group alone, and not the machine's: who leaves it gets no further.
		if err := bind(filepath.Dir(s.Group), root+"/sys/fs/cgroup/pids", false); err != nil {
			return err
		}
	}
	for _, d := range []string{"/proc", "/tmp"} {
		if err := os.MkdirAll(root+d, 0o777); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	if err := unix.Mount("proc", root+"/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	return unix.Mount("tmp", root+"/tmp", "tmpfs", 0, "mode=1777")
}

func bind(from, to string, ro bool) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", from, err)
	}
	if ro {
		return unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return nil
}

// weakRoot changes the root, and the folder unless that is what is left out.
func weakRoot(s weakSpec, root string) error {
	if s.Kind == "chroot-only" {
		if err := unix.Chroot(root); err != nil {
			return fmt.Errorf("change root: %w", err)
		}
		return unix.Chdir(s.WS)
	}
	old := filepath.Join(root, ".old")
	if err := os.Mkdir(old, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := unix.PivotRoot(root, old); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if s.Kind != "keep-cwd" {
		if err := unix.Chdir(s.WS); err != nil {
			return fmt.Errorf("change folder: %w", err)
		}
	}
	if err := unix.Unmount("/.old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return os.Remove("/.old")
}

// weakPrivileges becomes the ordinary user without any capability, except for
// what the kind leaves.
func weakPrivileges(s weakSpec) error {
	switch s.Kind {
	case "root", "privileged", "map-root", "chroot-only", "unmask", "cgroup-rw":
		return nil
	}
	if s.Kind != "no-nnp" {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	keep := map[string]uint{"cap_dac_read_search": unix.CAP_DAC_READ_SEARCH, "cap_sys_admin": unix.CAP_SYS_ADMIN, "cap_mknod": unix.CAP_MKNOD}
	c, keeps := keep[s.Kind]
	if keeps {
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("keep capabilities: %w", err)
		}
	}
	// This thread alone: it is the one that executes the program.
	for _, call := range [][2]uintptr{{unix.SYS_SETRESGID, uintptr(s.GID)}, {unix.SYS_SETRESUID, uintptr(s.UID)}} {
		if _, _, e := unix.RawSyscall(call[0], call[1], call[1], call[1]); e != 0 {
			return fmt.Errorf("become the user: %w", e)
		}
	}
	if !keeps {
		return nil
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{}
	data[0] = unix.CapUserData{Effective: 1 << c, Permitted: 1 << c, Inheritable: 1 << c}
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0)
}
