//go:build linux

package store

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openAt opens name in the folder dir, never through a link, never waiting for
// the other end of a pipe.
func openAt(dir int, name string, flags int) (*os.File, error) {
	if flags&unix.O_DIRECTORY == 0 {
		flags |= unix.O_NONBLOCK
	}
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && flags&unix.O_NONBLOCK != 0:
			err = unix.SetNonblock(fd, false) // it is open: from here on like any file
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

func openDirAt(dir int, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// number is a file's descriptor, -1 of a closed file: every call on it says EBADF.
func number(f *os.File) int { return int(f.Fd()) }

// readAt reads a regular file of at most limit bytes.
func readAt(dir int, name string, limit int64) ([]byte, error) {
	f, err := openAt(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := regular(f)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, size, limit)
	}
	data := make([]byte, size)
	n, err := unix.Pread(number(f), data, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data[:n], nil
}

// regular is the size of a regular file; anything else is an error.
func regular(f *os.File) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(number(f), &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, fmt.Errorf("%s is not a regular file", f.Name())
	}
	return st.Size, nil
}

// lockFile takes the lock of an open file, or says that somebody else has it.
// The lock belongs to the open file description: it is free when the last copy of the
// descriptor is closed, by the death of its holder too.
func lockFile(f *os.File, kind int16, wait bool) error {
	command := unix.F_OFD_SETLK
	if wait {
		command = unix.F_OFD_SETLKW
	}
	if _, err := regular(f); err != nil {
		return err
	}
	for {
		err := unix.FcntlFlock(uintptr(number(f)), command, &unix.Flock_t{Type: kind, Whence: unix.SEEK_SET})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			return errLocked
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// isLocked asks without taking the lock, so that looking never gets in the way
// of somebody who takes it.
func isLocked(f *os.File) (bool, error) {
	if _, err := regular(f); err != nil {
		return false, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
	if err := unix.FcntlFlock(uintptr(number(f)), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("ask for the lock %s: %w", f.Name(), err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

var errLocked = errors.New("somebody else holds the lock")

// removeTree removes name in dir with all below. It follows no link and
// crosses no mount: what is mounted there is not ours. What is gone already is as good.
func removeTree(dir int, name string) error {
	err := unlink(dir, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if top, err := openOwn(dir, name); err == nil {
		r := remover{top: number(top)}
		for more := true; more && err == nil; {
			r.moved = false
			err = r.clear(top, 0)
			more = r.moved
		}
		if err = errors.Join(err, top.Close()); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	} else if !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return unlink(dir, name, unix.AT_REMOVEDIR)
}

type remover struct {
	top   int
	count int
	moved bool // a folder was moved up: clear again
}

// maxDepth bounds the open descriptors: a deeper folder is moved to the top.
const maxDepth = 40

func (r *remover) clear(dir *os.File, depth int) error {
	fd := number(dir)
	if _, err := dir.Seek(0, 0); err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, unix.ENOENT) { // somebody else removes it as well
		return err
	}
	for _, name := range names {
		err := unlink(fd, name, 0)
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
			err = r.removeDir(fd, name, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) removeDir(fd int, name string, depth int) error {
	if depth >= maxDepth {
		r.count++
		r.moved = true
		return unix.Renameat(fd, name, r.top, fmt.Sprintf(".deep-%d", r.count))
	}
	sub, err := openOwn(fd, name)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	if err := errors.Join(r.clear(sub, depth+1), sub.Close()); err != nil {
		return err
	}
	return unlink(fd, name, unix.AT_REMOVEDIR)
}

// openOwn opens a folder of the same mount, which gets the rights to empty it.
func openOwn(dir int, name string) (*os.File, error) {
	fd, err := openSameMount(dir, name)
	if errors.Is(err, unix.EACCES) {
		if err = unlock(dir, name); err == nil {
			fd, err = openSameMount(dir, name)
		}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // if it fails, emptying the folder says why
	}
	return f, nil
}

// openSameMount opens a folder by one name. Filters of containers, and of boxes, know no
// openat2: there it is opened first, which does nothing, and looked at then.
func openSameMount(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(dir, name, &how)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fd, err
	}
	if fd, err = unix.Openat(dir, name, flags, 0); err != nil {
		return -1, err
	}
	var outer, inner unix.Statx_t
	err = unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &outer)
	if err == nil {
		err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &inner)
	}
	if err == nil && (outer.Mnt_id != inner.Mnt_id || outer.Mask&inner.Mask&unix.STATX_MNT_ID == 0) {
		err = unix.EXDEV
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// unlock lets the owner of a folder into it. A change of mode that follows no
// link is a system call since Linux 6.6 only (fchmodat2); a descriptor's link in /proc
// leads to the folder that was opened, whatever lies at its name by then.
func unlock(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}

func unlink(dir int, name string, flags int) error {
	err := unix.Unlinkat(dir, name, flags)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "remove", Path: name, Err: err}
}
