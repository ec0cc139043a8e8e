//go:build linux

package agent

import (
	"encoding/binary"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
)

// startTerminal starts the shim on a new terminal and waits until it has
// started the program.
func (a *Agent) startTerminal(cmd *guest.Command, streams guest.StdIO, events guest.Events) (guest.Program, error) {
	master, slave, err := openTerminal(*cmd.Terminal)
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	ctl, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		master.Close()
		return nil, startError("terminal", err)
	}
	ours, theirs := os.NewFile(uintptr(ctl[0]), "shim"), os.NewFile(uintptr(ctl[1]), "shim")
	t := &terminal{master: master, ctl: ours}
	ended := make(chan guest.Exit, 1)
	s := int(slave.Fd())
	_, err = a.launch(cmd, true, []int{s, s, s, int(theirs.Fd())}, func(e guest.Exit) { ended <- e })
	theirs.Close()
	if err != nil {
		master.Close()
		ours.Close()
		return nil, err
	}
	word, n, err := readShim(ours)
	if err != nil || word != shimStarted {
		master.Close()
		ours.Close()
		if word == shimFailed {
			return nil, startError("exec", syscall.Errno(n))
		}
		return nil, startError("terminal", unix.EIO)
	}
	t.pid = int(n)
	go t.input(streams.Stdin)
	output := make(chan struct{})
	go t.output(streams.Stdout, output)
	go t.follow(ended, output, events)
	return t, nil
}

func readShim(ctl *os.File) (word byte, n uint32, err error) {
	var b [5]byte
	if _, err := io.ReadFull(ctl, b[:]); err != nil {
		return 0, 0, err
	}
	return b[0], binary.LittleEndian.Uint32(b[1:]), nil
}

func (t *terminal) input(r io.Reader) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{t.master}, struct{ io.Reader }{r}, make([]byte, 4<<10))
}

// output moves what the terminal shows until no program holds it any more.
func (t *terminal) output(w io.WriteCloser, done chan struct{}) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{t.master}, make([]byte, 32<<10))
	w.Close()
	close(done)
}

// drainTime is how long the end of a program waits for output of its terminal
// that something else still holds open.
const drainTime = 100 * time.Millisecond

// follow hears the shim until its program has ended.
func (t *terminal) follow(shim chan guest.Exit, output chan struct{}, events guest.Events) {
	exit := guest.Exit{Code: 125}
	known := false
	for !known {
		word, n, err := readShim(t.ctl)
		if err != nil {
			break
		}
		switch word {
		case shimStopped:
			events.Stopped()
		case shimExited:
			exit, known = exitOf(unix.WaitStatus(n)), true
		}
	}
	e := <-shim
	if !known { // the shim was killed: its end is the program's, whose terminal hung up
		exit = e
	}
	select {
	case <-output:
	case <-time.After(drainTime):
	}
	t.mu.Lock()
	t.master.Close()
	t.master = nil
	t.mu.Unlock()
	t.ctl.Close()
	events.Exited(exit)
}
