//go:build linux

package stage

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// What the guest asks of Go's fork and exec works on a thread behind domain and
// filter. All of it runs on that one thread: t.Run would go to another.
func TestForkExecOnTheStem(t *testing.T) {
	testenv.Need(t, "seccomp", "landlock")
	oneWay(t, func(t *testing.T, _ []string) {
		confineStem(t, FilterOptions{}, os.Getenv("HOME"))
		stopsAtExec(t)
		pidfd := -1
		status := runOnStem(t, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, PidFD: &pidfd, Setpgid: true}, "true")
		if status != 0 || pidfd < 0 {
			t.Errorf("with a death signal and a pidfd: status %#x, pidfd %d", status, pidfd)
		}
		if _, err := syscall.ForkExec("/does/not/exist", []string{"x"}, nil); err != unix.ENOENT {
			t.Errorf("a missing program: %v, want ENOENT", err)
		}
		hasTerminal(t)
	})
}

// stopsAtExec starts a program stopped, sets its limits from another thread, and lets
// it go.
func stopsAtExec(t *testing.T) {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Ptrace: true, Setsid: true}}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", `test "$(ulimit -n)" = 77`}, attr)
	if err != nil {
		t.Fatalf("start traced: %v", err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatalf("the program is not stopped: %#x, %v", status, err)
	}
	limit := unix.Rlimit{Cur: 77, Max: 77}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != unix.EPERM {
		t.Errorf("the stem set limits on another process: %v", err)
	}
	set := make(chan error)
	go func() { set <- unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil) }()
	if err := <-set; err != nil {
		t.Fatalf("set limits from outside the filter: %v", err)
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		t.Fatalf("detach: %v", err)
	}
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 0 {
		t.Errorf("the program ended with %#x, %v", status, err)
	}
}

// hasTerminal starts a program with a controlling terminal, and one in the foreground of
// this process's own.
func hasTerminal(t *testing.T) {
	_, slave := openTerminal(t)
	attr := &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{slave.Fd(), slave.Fd(), slave.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exec 3</dev/tty && tty -s <&3"}, attr)
	if err != nil {
		t.Fatalf("start with a terminal: %v", err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
		t.Errorf("with a terminal: %#x, %v", status, err)
	}

	signal.Ignore(syscall.SIGHUP) // which the end of one's own terminal brings
	if _, err := unix.Setsid(); err != nil {
		t.Fatalf("start a session: %v", err)
	}
	_, own := openTerminal(t)
	if err := unix.IoctlSetInt(int(own.Fd()), unix.TIOCSCTTY, 0); err != nil {
		t.Fatalf("take a terminal: %v", err)
	}
	if status := runOnStem(t, &syscall.SysProcAttr{Foreground: true, Ctty: int(own.Fd())}, "true"); status != 0 {
		t.Errorf("in the foreground: %#x", status)
	}
	if err := unix.IoctlSetInt(int(own.Fd()), unix.TIOCSTI, 0); err != unix.EPERM {
		t.Errorf("typed into the terminal: %v, want EPERM", err)
	}
	control := make(chan error)
	go func() { control <- unix.IoctlSetInt(int(own.Fd()), unix.TIOCSTI, 0) }()
	if err := <-control; err == unix.EPERM {
		t.Errorf("control: a thread without the filter got %v", err)
	}
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("name terminal: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}
