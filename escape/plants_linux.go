package escape

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// plants are what a row can have planted outside before its box starts.
func plants() map[string]func(*trial, string) error {
	return map[string]func(*trial, string) error{
		"secret":      plantSecret,
		"link":        plantLink,
		"file":        plantFile,
		"deny":        plantDeny,
		"late":        plantLate,
		"inherit":     plantInherit,
		"cwd":         func(t *trial, arg string) error { t.cwd = t.path(arg); return nil },
		"handle":      plantHandle,
		"shared":      plantShared,
		"decoy":       func(t *trial, _ string) error { return t.startDecoy() },
		"unix":        plantUnix,
		"abstract":    plantAbstract,
		"inheritsock": plantInheritSocket,
		"shm":         plantShm,
		"share":       plantShare,
		"env":         plantEnv,
		"limit":       plantLimit,
		"wall":        plantWall,
		"port":        plantPort,
		"proxy":       plantDeadProxy,
		"suid":        plantSetuid,
		"filecaps":    plantFileCaps,
		"blockdev":    plantBlockDevice,
		"vsock":       needVsock,
		"edit":        plantEdit,
		"launcher":    func(t *trial, arg string) error { t.wrap = arg; return nil },
		"needroot":    needRoot,
		"exists":      needFile,
		"nouserns":    plantNoUserNS,
	}
}

func plantSecret(t *trial, arg string) error {
	for _, p := range strings.Split(arg, ",") {
		if err := t.write(t.path(p), "token = "+t.newSecret()+"\n", 0o600); err != nil {
			return err
		}
	}
	return nil
}

func plantLink(t *trial, arg string) error {
	to, at, _ := strings.Cut(arg, " ")
	if err := os.Symlink(t.path(to), t.path(at)); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	return t.l.give(t.path(at))
}

func plantFile(t *trial, arg string) error {
	for _, p := range strings.Split(arg, ",") {
		if err := t.write(t.path(p), "# planted\n", 0o644); err != nil {
			return err
		}
	}
	return nil
}

func plantDeny(t *trial, arg string) error {
	t.grant.deny = append(t.grant.deny, t.path(arg))
	return nil
}

// plantLate denies a path that is not there yet and makes it once the box runs.
func plantLate(t *trial, arg string) error {
	if err := plantDeny(t, arg); err != nil {
		return err
	}
	s := t.newSecret()
	t.onStart = func() error {
		time.Sleep(300 * time.Millisecond)
		return t.write(t.path(arg), "token = "+s+"\n", 0o600)
	}
	return nil
}

// plantInherit leaves a secret file and the folder above it open for the launcher.
func plantInherit(t *trial, arg string) error {
	if err := plantSecret(t, arg); err != nil {
		return err
	}
	for _, p := range []string{t.path(arg), t.l.home} {
		f, err := os.Open(p)
		if err != nil {
			return fmt.Errorf("open secret: %w", err)
		}
		t.files = append(t.files, f)
	}
	return nil
}

func plantHandle(t *trial, arg string) error {
	if err := plantSecret(t, arg); err != nil {
		return err
	}
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, t.path(arg), 0)
	if err != nil {
		return fmt.Errorf("%w: no file handles here: %w", errNotHere, err)
	}
	t.facts["handle"], t.facts["handle_type"] = hex.EncodeToString(h.Bytes()), strconv.Itoa(int(h.Type()))
	return nil
}

// plantShared makes a folder that the policy grants for reading only.
func plantShared(t *trial, arg string) error {
	dir := t.path("HOME/shared")
	if err := t.write(dir+"/"+arg, "# planted\n", 0o644); err != nil {
		return err
	}
	t.grant.read = append(t.grant.read, dir)
	return nil
}

func plantUnix(t *trial, arg string) error {
	for _, p := range strings.Split(arg, ",") {
		p = strings.ReplaceAll(t.path(p), "RUNTIME", t.l.runtimeDir())
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		ln, err := net.Listen("unix", p)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		if err := os.Chmod(p, 0o666); err != nil {
			return fmt.Errorf("open socket: %w", err)
		}
		if err := t.l.give(p); err != nil {
			return err
		}
		t.keepListener(ln)
		go t.l.net.accept("socket "+p, ln)
		switch filepath.Base(p) {
		case "bus":
			t.env["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=" + p
			t.facts["bus"] = p
		case "agent.sock":
			t.env["SSH_AUTH_SOCK"] = p
		}
	}
	return nil
}

func plantAbstract(t *trial, _ string) error {
	t.facts["abstract"] = t.name
	ln, err := net.Listen("unix", "@"+t.name)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	t.keepListener(ln)
	go t.l.net.accept("abstract socket", ln)
	return nil
}

// keepListener has a listener closed at the end of the trial.
func (t *trial) keepListener(ln net.Listener) { t.listeners = append(t.listeners, ln) }

func plantInheritSocket(t *trial, _ string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make sockets: %w", err)
	}
	t.sock = pair[0]
	t.files = append(t.files, os.NewFile(uintptr(pair[1]), "socket"))
	return nil
}

func plantShm(t *trial, _ string) error {
	key := 0x5e000000 + t.l.rng.IntN(1<<20)
	t.facts["key"] = strconv.Itoa(key)
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		return fmt.Errorf("make shared memory: %w", err)
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return fmt.Errorf("attach shared memory: %w", err)
	}
	copy(b, t.newSecret())
	return unix.SysvShmDetach(b)
}

// removeShm removes every System V segment of the lab.
func removeShm() {
	b, _ := os.ReadFile("/proc/sysvipc/shm")
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if id, err := strconv.Atoi(f[1]); err == nil {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}
}

// plantShare gives the first box of a pair something that the second must not
// come by, and names to meet at.
func plantShare(t *trial, _ string) error {
	t.facts["share"] = t.newSecret()
	t.facts["abstract"] = t.name
	t.facts["key"] = strconv.Itoa(0x5f000000 + t.l.rng.IntN(1<<20))
	return nil
}

func plantEnv(t *trial, arg string) error {
	for _, name := range strings.Split(arg, ",") {
		t.env[name] = t.newSecret()
	}
	return nil
}

func plantLimit(t *trial, arg string) error {
	k, v, _ := strings.Cut(arg, "=")
	t.grant.limits[k] = v
	return nil
}

func plantWall(t *trial, arg string) error {
	n, err := strconv.Atoi(arg)
	t.grant.wall = time.Duration(n) * time.Second
	return err
}

func plantPort(t *trial, _ string) error {
	t.facts["port"] = strconv.Itoa(41000 + t.l.rng.IntN(5000))
	return nil
}

func plantSetuid(t *trial, _ string) error {
	if err := needRoot(t, ""); err != nil {
		return err
	}
	return t.copyProgram("suid-"+t.name, func(p string) error { return unix.Chmod(p, 0o4755) })
}

// plantFileCaps gives a copy of the program one capability by its file.
func plantFileCaps(t *trial, _ string) error {
	if err := needRoot(t, ""); err != nil {
		return err
	}
	return t.copyProgram("caps-"+t.name, func(p string) error {
		// struct vfs_cap_data, revision 2, effective: CAP_NET_RAW is bit 13.
		return unix.Setxattr(p, "security.capability", []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0)
	})
}

func (t *trial) copyProgram(name string, then func(string) error) error {
	from, err := os.Open("/opt/probe")
	if err != nil {
		return fmt.Errorf("open probe: %w", err)
	}
	defer from.Close()
	if err := copyTo(t.ws+"/"+name, from, 0o755); err != nil {
		return err
	}
	return then(t.ws + "/" + name)
}

// plantBlockDevice puts a secret behind a loop device that goes when its
// descriptor does.
func plantBlockDevice(t *trial, _ string) error {
	if err := needRoot(t, ""); err != nil {
		return err
	}
	p := "/mnt/" + t.name
	text := make([]byte, 4096)
	copy(text, "token = "+t.newSecret()+"\n")
	if err := os.WriteFile(p, text, 0o600); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	img, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer img.Close()
	loop, minor, err := openLoop(int(img.Fd()))
	if err != nil {
		return fmt.Errorf("%w: no loop device: %w", errNotHere, err)
	}
	t.own = append(t.own, loop)
	t.facts["major"], t.facts["minor"] = "7", strconv.Itoa(minor)
	return nil
}

// openLoop attaches an image to a free loop device of the kernel's; the
// device lets go of it when the descriptor is closed, by whatever end.
func openLoop(img int) (*os.File, int, error) {
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	defer ctl.Close()
	minor, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, 0, err
	}
	node := "/mnt/loop" + strconv.Itoa(minor)
	_ = os.Remove(node)
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(minor)))); err != nil {
		return nil, 0, err
	}
	dev, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	config := &unix.LoopConfig{Fd: uint32(img), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	if err := unix.IoctlLoopConfigure(int(dev.Fd()), config); err != nil {
		_ = dev.Close()
		return nil, 0, err
	}
	return dev, minor, nil
}

// plantEdit works on the host's files while the box runs, as people and their
// editors do, then tells the program inside by a file. Operations, separated by
// commas: "save P" writes anew by rename, "write P" in place, "secret P" saves a
// new secret.
func plantEdit(t *trial, arg string) error {
	t.onStart = func() error {
		time.Sleep(150 * time.Millisecond)
		for _, op := range strings.Split(arg, ",") {
			f := strings.Fields(op)
			p, text := t.path(f[1]), "# edited on the host\n"
			if f[0] == "secret" {
				text = "token = " + t.newSecret() + "\n"
			}
			at := p
			if f[0] != "write" {
				at = p + ".lock"
			}
			if err := t.write(at, text, 0o644); err != nil {
				return err
			}
			if at != p {
				if err := os.Rename(at, p); err != nil {
					return fmt.Errorf("save %s: %w", p, err)
				}
			}
		}
		return t.write(t.ws+"/go-"+t.name, "go\n", 0o644)
	}
	return nil
}

func needRoot(t *trial, _ string) error {
	if !t.l.Root {
		return fmt.Errorf("%w: the lab is not root", errNotHere)
	}
	return nil
}

func needVsock(t *trial, _ string) error {
	if t.facts["vsock"] == "" {
		return fmt.Errorf("%w: no vsock loopback in this kernel; the real host's address is never tried", errNotHere)
	}
	return nil
}

func needFile(_ *trial, arg string) error {
	if _, err := os.Stat(arg); err != nil {
		return fmt.Errorf("%w: no %s", errNotHere, arg)
	}
	return nil
}

// plantNoUserNS starts the product where user namespaces are refused: the
// kernel makes none below a changed root.
func plantNoUserNS(t *trial, _ string) error {
	if err := needRoot(t, ""); err != nil {
		return err
	}
	if o, ok := t.tg.(ours); ok && o.root {
		return fmt.Errorf("%w: root needs no user namespace", errNotHere)
	}
	const at = "/mnt/root"
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := unix.Mount("/", at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("copy the root: %w", err)
	}
	t.chroot = at
	return nil
}

// plantDeadProxy names a proxy at which nobody listens.
func plantDeadProxy(t *trial, _ string) error {
	for _, k := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.env[k] = "http://127.0.0.1:1"
	}
	return nil
}
