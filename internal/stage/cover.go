//go:build linux

package stage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hide covers a path with an empty file or folder that nobody may open. A path
// that is not there needs no cover.
func (r *root) hide(target string) error {
	fd, err := r.open(target, unix.O_PATH, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", target, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", target, err)
	}
	// By the descriptor, so that no link is followed after the look.
	at := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := r.cover(at, st.Mode&unix.S_IFMT == unix.S_IFDIR, true); err != nil {
		return fmt.Errorf("cover %s: %w", target, err)
	}
	return nil
}

// The covers: empty, read-only, and either readable or not. They hang on the
// scratch tmpfs while the root is built; each use is a bind of one of them, which
// inherits its flags, and so a single call.
var covers = [...]struct {
	name string
	dir  bool
	mode uint32
}{
	{"file", false, 0o444},
	{"dir", true, 0o555},
	{"hidden-file", false, 0},
	{"hidden-dir", true, 0},
}

const coverDir = "cover"

// makeCovers makes the folder of covers, mounted read-only on itself.
func (r *root) makeCovers(s *Setup) error {
	if err := unix.Mkdirat(r.scratch, coverDir, 0o755); err != nil {
		return fmt.Errorf("make covers: %w", err)
	}
	for _, c := range covers {
		var err error
		if c.dir {
			err = unix.Mkdirat(r.scratch, coverDir+"/"+c.name, c.mode)
		} else {
			err = unix.Mknodat(r.scratch, coverDir+"/"+c.name, unix.S_IFREG|c.mode, 0)
		}
		if err != nil {
			return fmt.Errorf("make cover %s: %w", c.name, err)
		}
	}
	if err := r.makeTold(s); err != nil {
		return err
	}
	fd, err := unix.OpenTree(r.scratch, coverDir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone covers: %w", err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("restrict covers: %w", err)
	}
	return r.attach(fd, scratchDir+"/"+coverDir, true)
}

// cover binds one of the covers over target. Target must not lead through a
// link: callers opened it without following any, or made its parents. The working
// directory is the new root.
func (r *root) cover(target string, dir, hidden bool) error {
	name := "file"
	if dir {
		name = "dir"
	}
	if hidden {
		name = "hidden-" + name
	}
	return r.coverBy(name, target)
}

// coverBy covers target by an entry of the folder of covers.
func (r *root) coverBy(name, target string) error {
	src := strings.TrimPrefix(scratchDir, "/") + "/" + coverDir + "/" + name
	return unix.Mount(src, target, "", unix.MS_BIND, "")
}
