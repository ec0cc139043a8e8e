//go:build linux

package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// setIDWays are ways to leave a set-id file at a path. Those without control
// leave none on some kernels; they are tried all the same.
var setIDWays = []struct {
	name    string
	control bool
	leave   func(path string) error
}{
	{"chmod", true, func(path string) error {
		return errors.Join(plainFile(path), unix.Fchmodat(unix.AT_FDCWD, path, 0o4755, 0))
	}},
	{"fchmodat2", false, func(path string) error {
		return errors.Join(plainFile(path), unix.Fchmodat(unix.AT_FDCWD, path, 0o4755, unix.AT_SYMLINK_NOFOLLOW))
	}},
	{"fchmod", true, func(path string) error {
		return withFile(path, unix.O_CREAT, 0o600, func(fd int) error { return unix.Fchmod(fd, 0o6755) })
	}},
	{"open", true, func(path string) error { return withFile(path, unix.O_CREAT, 0o4755, nothing) }},
	{"unnamed, then linked", true, func(path string) error {
		return withFile(filepath.Dir(path), unix.O_TMPFILE, 0o2755, func(fd int) error {
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/thread-self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		})
	}},
	{"open2", true, func(path string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o4755})
		return errors.Join(err, unix.Close(fd))
	}},
	{"mknod", true, func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o4755, 0) }},
	{"fifo", true, func(path string) error { return unix.Mkfifo(path, 0o4755) }},
	{"mkdir", false, func(path string) error { return unix.Mkdir(path, 0o6755) }},
	{"socket", true, func(path string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return errors.Join(unix.Fchmod(fd, 0o4755), unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	}},
}

func nothing(int) error { return nil }

func plainFile(path string) error { return withFile(path, unix.O_CREAT, 0o600, nothing) }

// withFile opens a file for writing for as long as f runs.
func withFile(path string, flags int, mode uint32, f func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|flags, mode)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), unix.Close(fd))
}

// Nothing set-id and no device node is left in a workspace, whatever the way.
func TestNothingSetIDIsLeft(t *testing.T) {
	testenv.Need(t, "seccomp")
	oneWay(t, func(t *testing.T, _ []string) {
		unix.Umask(0)
		free, held := t.TempDir(), t.TempDir()
		for _, way := range setIDWays {
			err := way.leave(filepath.Join(free, way.name))
			if errors.Is(err, unix.EOPNOTSUPP) {
				continue // this file system or kernel has no such way
			}
			if left := hasSetID(t, filepath.Join(free, way.name)); way.control && !left {
				t.Errorf("control: %s: left %v, %v", way.name, left, err)
			}
		}
		filterStem(t, FilterOptions{})
		for _, way := range setIDWays {
			err := way.leave(filepath.Join(held, way.name))
			if err == nil && way.control {
				t.Errorf("%s was not refused", way.name)
			}
		}
		err := filepath.WalkDir(held, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && hasSetID(t, path) {
				t.Errorf("%s is set-id", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if status := runOnStem(t, nil, "sh", "-c", `! chmod u+s "$0" && ! chmod g+s "$0" && ! mknod "$0/null" c 1 3 && chmod 1777 "$0" && mkfifo "$0/p"`, held); status != 0 {
			t.Errorf("by the usual commands: %#x", status)
		}
	})
}

func hasSetID(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	return info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0
}
