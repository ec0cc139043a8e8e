package escape

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A decoyProcess is a program of the host's outside every box.
type decoyProcess struct {
	pid   int
	stdin *os.File
	sock  int // the lab's end of a connected socket that the decoy holds
}

func (d *decoyProcess) close() {
	_ = d.stdin.Close()
	_ = unix.Close(d.sock)
}

// startDecoy starts it with a secret name and a secret in its environment.
func (t *trial) startDecoy() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer r.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make sockets: %w", err)
	}
	defer unix.Close(pair[1])
	var attr syscall.SysProcAttr
	t.l.credentials(&attr)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer null.Close()
	pid, err := t.l.procs.start([]string{labTools, "decoy", t.newSecret()}, []string{"TOKEN=" + t.newSecret()}, "/",
		[]uintptr{r.Fd(), null.Fd(), null.Fd(), uintptr(pair[1])}, &attr)
	if err != nil {
		return err
	}
	t.decoy = &decoyProcess{pid: pid, stdin: w, sock: pair[0]}
	t.facts["decoy"] = strconv.Itoa(pid)
	return nil
}
