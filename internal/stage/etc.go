//go:build linux

package stage

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A plan shows some forty entries of the host's /etc, one by one. Each could be
// cloned, restricted and moved like any other bind; that is ten calls and a
// millisecond for all. So the folder is cloned once, read-only, where no program ever
// sees it, and each entry is a bind out of that clone, which inherits its
// flags.
const (
	etcPrefix = "/etc/"
	etcDir    = "etc" // below scratchDir, until the root is entered
)

// openEtc makes the clone at its first use.
func (r *root) openEtc() error {
	if r.dirs[etcDir] {
		return nil
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/etc", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("clone /etc: %w", err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: attrAlways | unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("restrict /etc: %w", err)
	}
	if err := r.attach(fd, scratchDir+"/"+etcDir, true); err != nil {
		return err
	}
	r.dirs[etcDir] = true
	return nil
}

// bindEtc shows one entry of the host's /etc. The working directory is the new
// root, and every folder on the way to the target was made by us.
func (r *root) bindEtc(m *Mount) error {
	if err := r.openEtc(); err != nil {
		return err
	}
	src := strings.TrimPrefix(scratchDir, "/") + "/" + etcDir + "/" + strings.TrimPrefix(m.Source, etcPrefix)
	var st unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, src, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if m.Optional && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
			return nil
		}
		return fmt.Errorf("stat %s: %w", m.Source, err)
	}
	if err := r.mkdir(path.Dir(m.Target)); err != nil {
		return err
	}
	target := strings.TrimPrefix(m.Target, "/")
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = unix.Mkdirat(unix.AT_FDCWD, target, 0o755)
	case unix.S_IFREG:
		err = unix.Mknodat(unix.AT_FDCWD, target, unix.S_IFREG|0o444, 0)
	default: // a link here came after the plan was resolved; a socket or device was never meant
		return fmt.Errorf("%s is neither a file nor a folder", m.Source)
	}
	if err != nil && err != unix.EEXIST {
		return fmt.Errorf("make %s: %w", m.Target, err)
	}
	if err := unix.Mount(src, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", m.Source, err)
	}
	return nil
}
