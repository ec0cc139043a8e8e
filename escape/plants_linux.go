package escape

import (
	"encoding/hex"
	"fmt"
	"os"
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
		"group":       plantGroup,
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
