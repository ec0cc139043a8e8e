//go:build linux

package stage

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// root is a root file system being built: a tmpfs of its own, mounted over the
// host's root in the mount namespace of the box, and not yet entered. Every
// path is resolved beneath it without following any link, since a workspace
// that is already mounted may hold links that lead anywhere.
type root struct {
	fd      int // the tmpfs's root
	scratch int // the tmpfs of all private folders, mounted at scratchDir while building
	dirs    map[string]bool
	scratchN,
	uid, gid int
	owned bool // files must be given to uid and gid (built as root)
	idmap int  // user namespace descriptor, or -1
	// oneUserNamespace: the box has a user namespace and gets no further one. nested: its programs make some.
	oneUserNamespace, nested bool
}

// scratchDir is where the scratch tmpfs hangs until the root is finished.
const scratchDir = "/.scratch"

// attrAlways is set on every mount of a box: a setuid bit or a device node in a
// folder of the host's must mean nothing inside.
const attrAlways = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

func newRoot(s *Setup) (*root, error) {
	// Nothing that is mounted here may appear on the host, and nothing that the
	// host mounts later may appear here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	fd, err := newTmpfs("caisson-root", 0o755, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, fmt.Errorf("mount new root: %w", err)
	}
	r := &root{
		fd: fd, dirs: map[string]bool{"/": true}, uid: s.UID, gid: s.GID,
		owned: s.FromRoot, idmap: -1, nested: s.Nested, oneUserNamespace: !s.FromRoot && !s.Nested,
	}
	if s.IDMap {
		r.idmap = s.idmap
	}
	r.scratch, err = newTmpfs("caisson", 0o755, s.Disk)
	if err != nil {
		return nil, err
	}
	if err := unix.Fchdir(fd); err != nil {
		return nil, fmt.Errorf("enter new root: %w", err)
	}
	if err := r.attach(r.scratch, scratchDir, true); err != nil {
		return nil, err
	}
	return r, r.makeCovers(s)
}

// newTmpfs makes a tmpfs that is mounted nowhere yet. A size of 0 leaves the
// kernel's default, half of the memory.
func newTmpfs(name string, mode uint32, size int64) (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open tmpfs: %w", err)
	}
	defer unix.Close(fs)
	set := func(key, value string) {
		if err == nil {
			err = unix.FsconfigSetString(fs, key, value)
		}
	}
	set("source", name)
	set("mode", fmt.Sprintf("%o", mode))
	if size > 0 {
		set("size", fmt.Sprint(size))
		// One inode for 4 KiB, the smallest file that uses a page.
		set("nr_inodes", fmt.Sprint(max(size/4096, 1024)))
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return -1, fmt.Errorf("configure tmpfs: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrAlways)
	if err != nil {
		return -1, fmt.Errorf("make tmpfs: %w", err)
	}
	return fd, nil
}

// add makes one entry of the plan.
func (r *root) add(m *Mount) error {
	if m.Target == "/" || !strings.HasPrefix(m.Target, "/") || path.Clean(m.Target) != m.Target {
		return fmt.Errorf("target %q is not a clean absolute path", m.Target)
	}
	switch m.Kind {
	case MountBind:
		if strings.HasPrefix(m.Source, etcPrefix) && !m.Writable && !m.NoExec && !m.IDMap {
			return r.bindEtc(m)
		}
		return r.bind(m)
	case MountTmpfs:
		return r.private(m.Target, m.Mode, !m.NoExec)
	case MountFile:
		return r.file(m.Target, m.Data, m.Mode)
	case MountLink:
		return r.link(m.Source, m.Target)
	case MountProc:
		return r.mountProc(m.Target)
	case MountDev:
		return r.mountDev(m.Target)
	case MountHide:
		return r.hide(m.Target)
	}
	return fmt.Errorf("unknown kind of mount %d", m.Kind)
}

// open opens a path of the root without following any link.
func (r *root) open(p string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	rel := strings.TrimPrefix(p, "/")
	if rel == "" {
		rel = "."
	}
	for {
		fd, err := unix.Openat2(r.fd, rel, &how)
		if err != unix.EAGAIN && err != unix.EINTR { // EAGAIN: a rename raced with ".."
			return fd, err
		}
	}
}

// mkdir makes a folder and its parents; one that is there is left as it is.
func (r *root) mkdir(p string) error {
	if r.dirs[p] {
		return nil
	}
	parent := path.Dir(p)
	if err := r.mkdir(parent); err != nil {
		return err
	}
	fd, err := r.open(parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", parent, err)
	}
	defer unix.Close(fd)
	err = unix.Mkdirat(fd, path.Base(p), 0o755)
	if err != nil && err != unix.EEXIST {
		return fmt.Errorf("make folder %s: %w", p, err)
	}
	if err == nil && r.owned && r.inPrivate(p) {
		err = unix.Fchownat(fd, path.Base(p), r.uid, r.gid, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return fmt.Errorf("own folder %s: %w", p, err)
		}
	}
	r.dirs[p] = true
	return nil
}

// inPrivate reports whether p lies in a private folder of the box, which is its
// user's own.
func (r *root) inPrivate(p string) bool {
	for d := path.Dir(p); d != "/"; d = path.Dir(d) {
		if r.dirs["private:"+d] {
			return true
		}
	}
	return false
}

// attach hangs a detached mount over a folder (made if it is absent) or a file.
func (r *root) attach(fd int, target string, dir bool) error {
	var err error
	if dir {
		err = r.mkdir(target)
	} else {
		err = r.emptyFile(target)
	}
	if err != nil {
		return err
	}
	rel := strings.TrimPrefix(target, "/")
	at, err := r.open(target, unix.O_PATH, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", rel, err)
	}
	defer unix.Close(at)
	err = unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

// emptyFile makes the place that a file is mounted on.
func (r *root) emptyFile(p string) error {
	if err := r.mkdir(path.Dir(p)); err != nil {
		return err
	}
	fd, err := r.open(p, unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL, 0o444)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make file %s: %w", p, err)
	}
	return unix.Close(fd)
}

// bind shows a file or folder of the host. Its source is opened without
// following links: whoever resolved the plan resolved them, and a link that is there now
// came later.
func (r *root) bind(m *Mount) error {
	src, isDir, err := openSource(m.Source)
	if err != nil {
		if m.Optional && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
			return nil
		}
		return err
	}
	defer unix.Close(src)
	fd, err := unix.OpenTree(src, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("clone %s: %w", m.Source, err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: attrAlways, Propagation: unix.MS_PRIVATE}
	if !m.Writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if m.NoExec {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	if m.IDMap {
		if r.idmap < 0 {
			return fmt.Errorf("bind %s: no id map was given", m.Source)
		}
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(r.idmap)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("restrict %s: %w", m.Source, err)
	}
	return r.attach(fd, m.Target, isDir)
}

func openSource(p string) (fd int, isDir bool, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err = unix.Openat2(unix.AT_FDCWD, p, &how)
	if err != nil {
		return -1, false, fmt.Errorf("open %s: %w", p, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, false, fmt.Errorf("stat %s: %w", p, err)
	}
	return fd, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// private makes an empty folder of the box's own, writable, on the scratch
// tmpfs: one size bounds all of them together.
func (r *root) private(target string, mode uint32, exec bool) error {
	if mode == 0 {
		mode = 0o755
	}
	r.scratchN++
	name := fmt.Sprint(r.scratchN)
	if err := unix.Mkdirat(r.scratch, name, mode); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	if err := unix.Fchmodat(r.scratch, name, mode, 0); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	if r.owned {
		if err := unix.Fchownat(r.scratch, name, r.uid, r.gid, 0); err != nil {
			return fmt.Errorf("own %s: %w", target, err)
		}
	}
	fd, err := unix.OpenTree(r.scratch, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone %s: %w", target, err)
	}
	defer unix.Close(fd)
	if !exec {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return fmt.Errorf("restrict %s: %w", target, err)
		}
	}
	r.dirs["private:"+target] = true
	return r.attach(fd, target, true)
}

// file makes a made-up file.
func (r *root) file(target string, data []byte, mode uint32) error {
	if mode == 0 {
		mode = 0o644
	}
	if err := r.mkdir(path.Dir(target)); err != nil {
		return err
	}
	fd, err := r.open(target, unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("make file %s: %w", target, err)
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil {
			return fmt.Errorf("write file %s: %w", target, err)
		}
		data = data[n:]
	}
	if r.owned && r.inPrivate(target) {
		return unix.Fchown(fd, r.uid, r.gid)
	}
	return nil
}

// SelfPath is where the guest's own binary is shown inside, read-only: it leads the
// sessions of terminals there.
const SelfPath = "/.caisson/guest"

func (r *root) self() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/proc/self/exe", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone guest: %w", err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: attrAlways | unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("restrict guest: %w", err)
	}
	return r.attach(fd, SelfPath, false)
}

func (r *root) link(text, target string) error {
	parent := path.Dir(target)
	if err := r.mkdir(parent); err != nil {
		return err
	}
	fd, err := r.open(parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", parent, err)
	}
	defer unix.Close(fd)
	if err := unix.Symlinkat(text, fd, path.Base(target)); err != nil {
		return fmt.Errorf("make link %s: %w", target, err)
	}
	return nil
}

// enter makes the root the process's own and leaves the host's behind: after it no path
// leads there.
func (r *root) enter() error {
	rel := strings.TrimPrefix(scratchDir, "/")
	if err := unix.Unmount(rel, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount scratch: %w", err)
	}
	if err := unix.Unlinkat(r.fd, rel, unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("remove scratch: %w", err)
	}
	// What a program could write into the bare root would vanish unseen.
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(r.fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("make root read-only: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	// The host's root now lies over ours at "."; it goes with all below it.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount host root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	unix.Close(r.scratch)
	return unix.Close(r.fd)
}
