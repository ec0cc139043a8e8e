package escape

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountAll turns the lab's copy of the mount table into a machine of its own:
// what was there becomes read-only, every place that a program may write to is
// fresh memory.
func (l *lab) mountAll() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	probe, err := os.Open(l.Probe)
	if err != nil {
		return fmt.Errorf("open probe: %w", err)
	}
	defer probe.Close()
	tool, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("open lab: %w", err)
	}
	defer tool.Close()
	product := -1
	if l.Caisson != "" {
		product, err = unix.OpenTree(-1, filepath.Dir(l.Caisson), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open %s: %w", filepath.Dir(l.Caisson), err)
		}
		defer unix.Close(product)
	}
	if err := unix.MountSetattr(-1, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	if err := l.freshPlaces(); err != nil {
		return err
	}
	if err := copyTo("/opt/probe", probe, 0o755); err != nil {
		return err
	}
	if err := copyTo(labTools, tool, 0o755); err != nil {
		return err
	}
	if product >= 0 {
		if err := os.Mkdir(labBin, 0o755); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := unix.MoveMount(product, "", -1, labBin, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount the product: %w", err)
		}
	}
	return l.privateEtc()
}

// freshPlaces mounts memory over every place that programs write to, a proc
// of this pid namespace, and a /dev with the lab's own nodes.
func (l *lab) freshPlaces() error {
	home, _ := os.UserHomeDir()
	places := []string{"/home", "/root", "/tmp", "/run", "/var/tmp", "/opt", "/mnt", "/var/spool", home}
	for _, p := range places {
		if fi, err := os.Lstat(p); err != nil || !fi.IsDir() {
			continue
		}
		mode := "0755"
		if strings.HasSuffix(p, "tmp") {
			mode = "1777"
		}
		if err := unix.Mount(l.nonce, p, "tmpfs", 0, "size=1g,mode="+mode); err != nil {
			return fmt.Errorf("mount memory on %s: %w", p, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	if err := os.MkdirAll(tracefs, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := l.makeDev(); err != nil {
		return err
	}
	if !l.Root {
		return nil
	}
	_ = unix.Mount("tracefs", tracefs, "tracefs", unix.MS_RDONLY, "") // without it the kernel rows are invalid, and say so
	entries, _ := os.ReadDir("/sys/fs/cgroup")
	for _, e := range entries { // root's products may make cgroups; nobody else could anyway
		_ = unix.Mount("", "/sys/fs/cgroup/"+e.Name(), "", unix.MS_REMOUNT|unix.MS_BIND, "")
	}
	return nil
}

// makeDev gives the lab's root a /dev of its own in which devices that some
// machines leave open are open. Without root the machine's /dev stays, with
// fresh shared memory.
func (l *lab) makeDev() error {
	if !l.Root {
		return mountMemory(l.nonce, "/dev/shm", "1777")
	}
	old, err := unix.OpenTree(-1, "/dev", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open /dev: %w", err)
	}
	defer unix.Close(old)
	if err := mountMemory(l.nonce, "/dev", "0755"); err != nil {
		return err
	}
	mask := unix.Umask(0)
	defer unix.Umask(mask)
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{
		{"null", 1, 3},
		{"zero", 1, 5},
		{"full", 1, 7},
		{"random", 1, 8},
		{"urandom", 1, 9},
		{"tty", 5, 0},
		{"ptmx", 5, 2},
		{"net/tun", 10, 200},
		{"fuse", 10, 229},
		{"kvm", 10, 232},
		{"loop-control", 10, 237},
	} {
		if err := os.MkdirAll(filepath.Dir("/dev/"+d.name), 0o755); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
		// A device that the machine lacks is left out: opening it would ask for a module.
		var st unix.Stat_t
		if d.major == 10 && unix.Fstatat(old, d.name, &st, 0) != nil {
			continue
		}
		if err := unix.Mknod("/dev/"+d.name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make /dev/%s: %w", d.name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
	}
	for _, d := range []string{"/dev/pts", "/dev/shm"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5"); err != nil {
		return fmt.Errorf("mount devpts: %w", err)
	}
	return mountMemory(l.nonce, "/dev/shm", "1777")
}

func mountMemory(source, p, mode string) error {
	if err := unix.Mount(source, p, "tmpfs", 0, "size=1g,mode="+mode); err != nil {
		return fmt.Errorf("mount memory on %s: %w", p, err)
	}
	return nil
}

// privateEtc gives the lab an /etc of its own: the machine's, with the lab's
// user, resolver and machine id.
func (l *lab) privateEtc() error {
	const tmp = "/mnt/etc"
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := copyTree("/etc", tmp); err != nil {
		return err
	}
	passwd, _ := os.ReadFile("/etc/passwd")
	group, _ := os.ReadFile("/etc/group")
	uid := strconv.Itoa(l.seenUID())
	for name, text := range map[string]string{
		"passwd":      string(passwd) + l.user + ":x:" + uid + ":" + uid + "::" + l.home + ":/bin/sh\n",
		"group":       string(group) + l.user + ":x:" + uid + ":\n",
		"resolv.conf": "nameserver " + upstreamIP + "\n",
		"hosts":       "127.0.0.1 localhost\n127.0.1.1 " + l.host + "\n",
		"hostname":    l.host + "\n",
		"machine-id":  secret() + "\n",
	} {
		if err := os.RemoveAll(tmp + "/" + name); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
		if err := os.WriteFile(tmp+"/"+name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
	}
	if err := unix.Mount(tmp, "/etc", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /etc: %w", err)
	}
	return nil
}

// copyTree copies small files, folders and links; what the caller may not
// read is left out.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			return fmt.Errorf("copy %s: %w", from, err)
		}
		at := to + strings.TrimPrefix(p, from)
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it went away
		}
		switch {
		case d.IsDir():
			err = os.MkdirAll(at, info.Mode().Perm()|0o700)
		case d.Type() == fs.ModeSymlink:
			var target string
			if target, err = os.Readlink(p); err == nil {
				err = os.Symlink(target, at)
			}
		case d.Type().IsRegular() && info.Size() < 4<<20:
			f, openErr := os.Open(p)
			if openErr != nil {
				return nil
			}
			defer f.Close()
			err = copyTo(at, f, info.Mode().Perm())
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", p, err)
		}
		return nil
	})
}

func copyTo(p string, from io.ReadSeeker, mode os.FileMode) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("copy to %s: %w", p, err)
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("copy to %s: %w", p, err)
	}
	if _, err := io.Copy(f, from); err != nil {
		_ = f.Close()
		return fmt.Errorf("copy to %s: %w", p, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("copy to %s: %w", p, err)
	}
	return os.Chmod(p, mode)
}
