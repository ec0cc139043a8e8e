//go:build linux

package stage

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
)

// Stem is the one thread of the guest that lies inside the box's bounds: the
// Landlock domain and the seccomp filter. It forks every program, so all of
// them share one domain. The rest of the guest stays outside.
type Stem struct {
	calls chan func()
}

// Do runs f on the stem and waits for it. f must not panic and must not block
// for long: a program being executed can hold it up, which is why nothing that must
// happen depends on it.
func (s *Stem) Do(f func()) {
	done := make(chan struct{})
	s.calls <- func() { f(); close(done) }
	<-done
}

// newStem starts the thread. It is never the thread-group leader, which main
// holds: on the leader PID 1 itself would count as inside the domain.
func newStem() *Stem {
	s := &Stem{calls: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range s.calls {
			f()
		}
	}()
	return s
}

// Enter builds the box around the calling process, which becomes its PID 1, as
// the Setup that it reads from the stream says. It must be called from the thread-group leader,
// before anything opened a descriptor. After it no capability, no path to the
// host and no descriptor but the stream is left. On failure it has told the
// other side, and the process must end.
func Enter() (*Setup, guest.Stream, *Stem, error) {
	s, stream, err := receive()
	if err != nil {
		return nil, guest.Stream{}, nil, err
	}
	// All of it runs on the stem: the root and the namespaces are the whole
	// process's, and each change of threads costs more than a dozen mounts.
	stem := newStem()
	stem.Do(func() { err = build(s) })
	if err != nil {
		hello := guest.Hello{Version: guest.Version, Sandbox: s.ID, Failed: err.Error()}
		if se, ok := err.(*SetupError); ok {
			hello.Step = se.Step
		}
		if no, ok := errno(err); ok {
			hello.Errno = int(no)
		}
		// The stream may be gone too; the caller ends the process anyway.
		_ = guest.Fail(stream, hello)
		return nil, guest.Stream{}, nil, err
	}
	return s, stream, stem, nil
}

func receive() (*Setup, guest.Stream, error) {
	// What the caller's shell had open is not ours.
	if err := unix.CloseRange(streamFD+1, ^uint(0), 0); err != nil {
		return nil, guest.Stream{}, fmt.Errorf("close descriptors: %w", err)
	}
	unix.CloseOnExec(streamFD)
	stream, err := guest.FromFD(streamFD)
	if err != nil {
		return nil, guest.Stream{}, fmt.Errorf("open stream: %w", err)
	}
	msg, err := guest.ReadMessage(stream, maxSetup)
	if err != nil {
		return nil, guest.Stream{}, fmt.Errorf("read setup: %w", err)
	}
	s, err := decodeSetup(msg)
	if err != nil {
		return nil, guest.Stream{}, fmt.Errorf("decode setup: %w", err)
	}
	fds := stream.ReceiveDescriptors()
	switch {
	case s.IDMap && len(fds) == 1:
		s.idmap = fds[0]
	case s.IDMap || len(fds) > 0:
		return nil, guest.Stream{}, fmt.Errorf("read setup: it came with %d descriptors", len(fds))
	}
	return s, stream, nil
}

// build does the work of Enter. It runs on the stem.
func build(s *Setup) error {
	if s.UID == 0 || s.GID == 0 && s.FromRoot {
		return &SetupError{"ids", fmt.Errorf("a box never runs as id 0")}
	}
	umask := unix.Umask(0)
	if err := buildRoot(s); err != nil {
		return err
	}
	unix.Umask(umask)
	if s.IDMap {
		unix.Close(s.idmap)
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return &SetupError{"hostname", err}
	}
	if err := unix.Setdomainname([]byte("(none)")); err != nil {
		return &SetupError{"hostname", err}
	}
	if err := linux.LoopbackUp(); err != nil {
		return &SetupError{"loopback", err}
	}
	// The caller's session keyring goes no further. The filter refuses every call on
	// keys; this is behind it. A quota that is used up (200 keys of a user, 500 boxes)
	// or a kernel without keys changes nothing that holds.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	if err := newTimeNamespace(); err != nil {
		return &SetupError{"clock", err}
	}
	if err := limitSelf(s); err != nil {
		return err
	}
	if err := keepTo(s.Processors); err != nil {
		return &SetupError{"limit processors", err}
	}
	if err := dropRights(s); err != nil {
		return err
	}
	if err := confine(s); err != nil {
		return err
	}
	return selfTest()
}

func buildRoot(s *Setup) error {
	r, err := newRoot(s)
	if err != nil {
		return &SetupError{"root", err}
	}
	for i := range s.Mounts {
		if err := r.add(&s.Mounts[i]); err != nil {
			return &SetupError{"mount " + s.Mounts[i].Target, err}
		}
	}
	if err := r.coverViews(s); err != nil {
		return &SetupError{"cover views of the kernel", err}
	}
	if err := r.tell(s); err != nil {
		return &SetupError{"tell limits", err}
	}
	if err := r.self(); err != nil {
		return &SetupError{"mount " + SelfPath, err}
	}
	if err := r.enter(); err != nil {
		return &SetupError{"enter root", err}
	}
	return nil
}

// limitSelf sets the limits that the guest may share with its programs, which
// inherit them. RLIMIT_NPROC is not among them: a guest that cannot make a thread dies.
func limitSelf(s *Setup) error {
	set := func(name string, resource int, v uint64) error {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: v, Max: v}); err != nil {
			return &SetupError{"limit " + name, err}
		}
		return nil
	}
	if err := set("core", unix.RLIMIT_CORE, 0); err != nil {
		return err
	}
	if s.OpenFiles > 0 {
		return set("open files", unix.RLIMIT_NOFILE, s.OpenFiles)
	}
	return nil
}

// dropRights gives up every capability and, started by root, its ids; on all
// threads, and on the stem, from which alone programs inherit, its bounding set
// and the way to gain anything by an exec too.
func dropRights(s *Setup) error {
	if err := linux.DropBoundingSet(); err != nil {
		return &SetupError{"drop bounding set", err}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &SetupError{"set no_new_privs", err}
	}
	if s.FromRoot {
		if err := syscall.Setgroups(nil); err != nil {
			return &SetupError{"drop groups", err}
		}
		if err := syscall.Setresgid(s.GID, s.GID, s.GID); err != nil {
			return &SetupError{"set gid", err}
		}
		if err := syscall.Setresuid(s.UID, s.UID, s.UID); err != nil {
			return &SetupError{"set uid", err}
		}
	}
	if err := linux.DropCapabilitiesAllThreads(); err != nil {
		return &SetupError{"drop capabilities", err}
	}
	// Changed ids clear it; it may be set by any thread that does not end. A keeper that died before this line closed the stream,
	// which ends the guest as well.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return &SetupError{"set death signal", err}
	}
	// Programs run under the same uid: without this they could trace PID 1, or
	// reach its memory and descriptors through /proc/1.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return &SetupError{"make guest undumpable", err}
	}
	return nil
}

// selfTest tries, on the stem and so with a program's rights, one act of each
// kind that must fail. A box in which one succeeds does not start.
func selfTest() error {
	deny := func(what string, err error, want ...syscall.Errno) error {
		for _, w := range want {
			if err == w {
				return nil
			}
		}
		if err == nil {
			return &SetupError{"self-test", fmt.Errorf("%s was possible", what)}
		}
		return &SetupError{"self-test", fmt.Errorf("%s failed in another way than it must: %w", what, err)}
	}
	fd, err := unix.Open("/proc/1/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		// Opening may succeed; reading is what is checked.
		_, err = unix.Read(fd, make([]byte, 1))
		unix.Close(fd)
	}
	if err := deny("reading the guest's memory", err, unix.EACCES, unix.EPERM); err != nil {
		return err
	}
	fd, err = unix.Open("/.caisson-self-test", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	if err := deny("writing to the root", err, unix.EROFS, unix.EACCES); err != nil {
		return err
	}
	return deny("connecting to the outside", connectOutside(), unix.ENETUNREACH, unix.EPERM, unix.EACCES)
}

// connectOutside tries a datagram socket, which needs a route and sends nothing.
// 203.0.113.1 is a documentation address (RFC 5737).
func connectOutside() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{203, 0, 113, 1}})
}

func errno(err error) (syscall.Errno, bool) {
	for err != nil {
		if e, ok := err.(syscall.Errno); ok {
			return e, true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return 0, false
		}
		err = u.Unwrap()
	}
	return 0, false
}

// Die ends the process at once with a code that is never taken for a program's.
func Die() { os.Exit(125) }
