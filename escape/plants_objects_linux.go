package escape

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func plantUnix(t *trial, arg string) error {
	for _, p := range strings.Split(arg, ",") {
		p = strings.ReplaceAll(t.path(p), "RUNTIME", t.l.runtimeDir())
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := os.Chmod(filepath.Dir(p), 0o755); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if strings.HasPrefix(p, t.l.home) || strings.HasPrefix(p, t.l.runtimeDir()+"/") {
			if err := t.l.give(filepath.Dir(p)); err != nil {
				return err
			}
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
