//go:build linux

// Package agent is the inner half of the guest: what PID 1 of a box does once
// the stage has built it. It starts programs, gives them terminals, reaps
// them, signals them and connects to ports inside, on the word of the stream
// alone.
//
// Programs are not trusted with anything here. They cannot trace PID 1, which
// is not dumpable; what they write is moved, never read; and nothing that must
// happen to them (their end, their limits) waits for this process.
package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
)

// Stem runs a function on the one thread that lies inside the box's bounds.
type Stem interface{ Do(f func()) }

// Agent serves one box. It implements guest.Handler.
type Agent struct {
	id     string
	stem   Stem
	reaper *reaper
}

// New returns an agent for the box id, whose programs are forked on stem, and
// starts its reaper. One agent per process.
func New(id string, stem Stem) *Agent {
	a := &Agent{id: id, stem: stem, reaper: newReaper()}
	go a.reaper.run()
	return a
}

// Start starts a program; see guest.Handler.
func (a *Agent) Start(cmd guest.Command, streams guest.StdIO, events guest.Events) (guest.Program, error) {
	if cmd.Terminal != nil {
		return a.startTerminal(&cmd, streams, events)
	}
	if cmd.Descriptors != nil {
		pid, err := a.launch(&cmd, false, cmd.Descriptors, events.Exited)
		for _, fd := range cmd.Descriptors {
			unix.Close(fd)
		}
		if err != nil {
			return nil, err
		}
		return program{pid: pid}, nil
	}
	theirs, ours, err := pipes()
	if err != nil {
		return nil, err
	}
	files := []int{int(theirs[0].Fd()), int(theirs[1].Fd()), int(theirs[2].Fd())}
	pid, err := a.launch(&cmd, false, files, events.Exited)
	closeAll(theirs[:])
	if err != nil {
		closeAll(ours[:])
		return nil, err
	}
	go copyAndClose(ours[0], streams.Stdin)
	go copyAndClose(streams.Stdout, ours[1])
	go copyAndClose(streams.Stderr, ours[2])
	return program{pid: pid}, nil
}

// copyAndClose moves a stream to its end. A side that broke ends it: whoever
// reads or writes there has gone, which is theirs to know.
func copyAndClose(w io.WriteCloser, r io.Reader) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	w.Close()
	if c, ok := r.(io.Closer); ok {
		c.Close()
	}
}

// program is one without a terminal: the leader of its own session and group.
type program struct{ pid int }

func (p program) PID() int { return p.pid }

func (p program) Signal(signal int, group bool) error {
	pid := p.pid
	if group {
		pid = -pid
	}
	// A pid that was reaped may be another's by now, which lies in the same box:
	// a signal meant for one program of a box may reach another of it.
	return unix.Kill(pid, unix.Signal(signal))
}

func (p program) Resize(guest.Size) error { return errors.New("the program has no terminal") }
func (p program) Continue() error         { return unix.Kill(-p.pid, unix.SIGCONT) }

// terminal is a program with a terminal: the shim leads the session.
type terminal struct {
	pid    int
	mu     sync.Mutex
	master *ptmx // nil once the program has ended
	ctl    *os.File
}

func (t *terminal) PID() int { return t.pid }

func (t *terminal) Signal(signal int, group bool) error {
	if !group {
		return unix.Kill(t.pid, unix.Signal(signal))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master == nil {
		return unix.ESRCH
	}
	pgrp, err := unix.IoctlGetInt(t.master.fd, unix.TIOCGPGRP)
	if err != nil || pgrp <= 0 {
		return unix.ESRCH
	}
	return unix.Kill(-pgrp, unix.Signal(signal))
}

func (t *terminal) Resize(size guest.Size) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master == nil {
		return unix.ESRCH
	}
	return resize(t.master.fd, size)
}

func (t *terminal) Continue() error {
	_, err := t.ctl.Write([]byte{shimContinue})
	return err
}

// DialPort connects to a port on the loopback of the box.
func (a *Agent) DialPort(port uint16) (guest.Conn, error) {
	v4 := &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	conn, err := dial(unix.AF_INET, v4)
	if err != nil {
		v6 := &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}
		if c, e := dial(unix.AF_INET6, v6); e == nil {
			return c, nil
		}
	}
	return conn, err
}

// Freeze stops every process of the box but this one; Thaw lets them go on. A
// program that was stopped before goes on too: the drivers that have a cgroup
// freezer freeze from outside instead.
func (a *Agent) Freeze() error { return signalAll(unix.SIGSTOP) }

// Thaw undoes Freeze.
func (a *Agent) Thaw() error { return signalAll(unix.SIGCONT) }

func signalAll(s unix.Signal) error {
	// -1 is every process of the pid namespace but PID 1 itself.
	if err := unix.Kill(-1, s); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal all: %w", err)
	}
	return nil
}

// Identify refuses any identity but the one that the box has: this tier is
// never restored from a checkpoint.
func (a *Agent) Identify(id guest.Identity) error {
	if id.Sandbox != a.id {
		return fmt.Errorf("this box is %s and cannot become %s", a.id, id.Sandbox)
	}
	return nil
}
