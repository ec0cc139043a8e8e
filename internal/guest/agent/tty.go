//go:build linux

package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
)

// shimPath is where the stage shows the guest's binary inside, read-only.
const shimPath = "/.caisson/guest"

// What the shim and the agent say to each other on descriptor 3: a byte, and a
// 32-bit little-endian number after shimStarted, shimFailed and shimExited.
const (
	shimStarted  = 'P' // pid of the program
	shimFailed   = 'F' // errno of its start
	shimStopped  = 'T' // the program was stopped by its terminal
	shimExited   = 'E' // its wait status
	shimContinue = 'C' // agent: let it go on
)

// openTerminal makes a terminal of the box's own and returns both ends.
func openTerminal(size guest.Size) (master *ptmx, slave *os.File, err error) {
	fd, err := unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, startError("terminal", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(fd)
		return nil, nil, startError("terminal", err)
	}
	// The slave by the master itself: no path that could be swapped.
	peer, err := linux.TerminalPeer(fd)
	if err == nil {
		err = resize(fd, size)
	}
	if err != nil {
		unix.Close(fd)
		unix.Close(peer)
		return nil, nil, startError("terminal", err)
	}
	m, err := pollable(fd, "terminal")
	if err != nil {
		unix.Close(peer)
		return nil, nil, startError("terminal", err)
	}
	return &ptmx{m, fd}, os.NewFile(uintptr(peer), "terminal"), nil
}

// ptmx is the outer end of a terminal.
type ptmx struct {
	*os.File
	fd int // of File, whose Fd would make it blocking
}

func resize(fd int, size guest.Size) error {
	ws := unix.Winsize{Row: size.Rows, Col: size.Columns}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &ws); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

// Shim is the leader of a terminal's session. Without it a program's process
// group would be orphaned, and the kernel would ignore ^Z. It runs inside the box like any
// program, so nothing outside trusts its word further than a program's own exit.
func Shim(argv []string) int {
	runtime.LockOSThread()
	ctl := os.NewFile(3, "control")
	unix.CloseOnExec(3)
	say := func(word byte, n uint32) {
		var b [5]byte
		b[0] = word
		binary.LittleEndian.PutUint32(b[1:], n)
		_, _ = ctl.Write(b[:]) // an agent that is gone took the box along
	}
	cmd := &guest.Command{Argv: argv, Env: os.Environ()}
	cmd.Dir, _ = os.Getwd()
	path, err := lookup(cmd)
	pid := 0
	if err == nil {
		pid, err = shimExec(path, argv, cmd)
		if errors.Is(err, unix.ENOEXEC) {
			pid, err = shimExec("/bin/sh", append([]string{"sh", path}, argv[1:]...), cmd)
		}
	}
	if err != nil {
		var no syscall.Errno
		if !errors.As(err, &no) {
			no = unix.EIO
		}
		say(shimFailed, uint32(no))
		return 127
	}
	say(shimStarted, uint32(pid))
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 125
		}
		if !ws.Stopped() {
			say(shimExited, uint32(ws))
			return 0
		}
		foreground, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		if err != nil {
			foreground = pid
		}
		say(shimStopped, 0)
		var b [1]byte
		if _, err := io.ReadFull(ctl, b[:]); err != nil {
			return 125
		}
		// The kernel left it in the foreground.
		_ = unix.Kill(-foreground, unix.SIGCONT)
	}
}

// shimExec starts the program in the foreground of the terminal.
func shimExec(path string, argv []string, cmd *guest.Command) (int, error) {
	s, err := fork(path, argv, cmd, []int{0, 1, 2}, linux.Child{Foreground: true})
	if err != nil {
		return 0, err
	}
	if err := s.Executed(); err != nil {
		_, _ = syscall.Wait4(s.PID, nil, 0, nil) // it ends by itself, having reported
		return 0, err
	}
	return s.PID, nil
}
