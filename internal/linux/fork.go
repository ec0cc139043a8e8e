//go:build linux

package linux

import (
	"encoding/binary"
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child says how to fork and execute a program. It exists beside
// syscall.ForkExec for three things that one cannot do: to set the limits of the
// program before its first instruction; to fork without vfork, so that a
// program that cannot be executed yet (a lock on its file, a slow mount) stalls itself and not
// the thread that forked it, nor with it Go's collector; and to work under a
// tracer.
type Child struct {
	Path  string // of the executable; not looked up
	Argv  []string
	Env   []string
	Dir   string // working directory; empty: the parent's
	Files []int  // become 0, 1, 2, ...; all others must be close-on-exec
	// Limits are set as soft and hard limit alike, in this order.
	Limits []Limit

	Setsid     bool // a session of its own
	Terminal   bool // with Setsid: descriptor 0 becomes the controlling terminal
	Foreground bool // a process group of its own, in the foreground of the terminal at 0
}

// Limit is one resource limit (RLIMIT_*), in the resource's unit.
type Limit struct {
	Resource   int
	Soft, Hard uint64
}

// ChildError says at which step a child failed.
type ChildError struct {
	Step  string // one of childSteps
	Errno syscall.Errno
}

// Error returns step and cause.
func (e *ChildError) Error() string { return e.Step + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *ChildError) Unwrap() error { return e.Errno }

// childSteps are the steps as the child reports them, by number.
var childSteps = [...]string{"fork", "session", "terminal", "descriptors", "chdir", "limit", "exec", "identity", "capabilities", "death signal"}

const (
	stepSession = 1 + iota
	stepTerminal
	stepFiles
	stepDir
	stepLimit
	stepExec
	stepIdentity
	stepCapabilities
	stepDeath
)

// Started is a forked child that may still fail to execute its program.
type Started struct {
	PID    int
	report int // the reading end of a pipe that its exec closes
}

// Fork forks the child from the calling thread, whose credentials, filter and
// domain it inherits, and returns at once. Executed must be called. The caller
// waits for the child, also if it failed to execute.
func (c *Child) Fork() (*Started, error) {
	raw, err := c.raw()
	if err != nil {
		return nil, err
	}
	return raw.start(fork)
}

// start calls fork with the pipe over which the child reports.
func (c *rawChild) start(fork func(*rawChild) (int, syscall.Errno)) (*Started, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, &ChildError{"fork", errnoOf(err)}
	}
	c.report = p[1]
	moved, e := c.clear()
	pid := 0
	if e == 0 {
		syscall.ForkLock.Lock()
		pid, e = fork(c)
		syscall.ForkLock.Unlock()
	}
	for _, fd := range append(moved, p[1]) {
		unix.Close(fd)
	}
	if e != 0 {
		unix.Close(p[0])
		return nil, &ChildError{"fork", e}
	}
	return &Started{PID: pid, report: p[0]}, nil
}

// clear duplicates the descriptors that lie where another goes, and returns
// the duplicates.
func (c *rawChild) clear() (moved []int, e syscall.Errno) {
	for _, fd := range append(refs(c.files), &c.report) {
		if *fd >= len(c.files) {
			continue
		}
		up, err := unix.FcntlInt(uintptr(*fd), unix.F_DUPFD_CLOEXEC, len(c.files))
		if err != nil {
			return moved, errnoOf(err)
		}
		moved = append(moved, up)
		*fd = up
	}
	return moved, 0
}

func refs(list []int) []*int {
	r := make([]*int, len(list))
	for i := range list {
		r[i] = &list[i]
	}
	return r
}

// Executed waits until the program was executed, or says why it was not.
func (s *Started) Executed() error {
	defer unix.Close(s.report)
	var b [8]byte
	for n := 0; n < len(b); {
		m, err := unix.Read(s.report, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &ChildError{"exec", errnoOf(err)}
		}
		if m == 0 && n == 0 {
			return nil // the exec closed it; or the child was killed, which its status tells
		}
		if m == 0 {
			return io.ErrUnexpectedEOF
		}
		n += m
	}
	step, no := binary.NativeEndian.Uint32(b[:4]), binary.NativeEndian.Uint32(b[4:])
	if int(step) >= len(childSteps) {
		return errors.New("the child reported an unknown step")
	}
	return &ChildError{childSteps[step], syscall.Errno(no)}
}

func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}
