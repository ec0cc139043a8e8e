//go:build linux

package keeper

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
)

// isOurTerminal reports whether all three streams are one terminal and we are
// in its foreground: only then may it be set raw.
func isOurTerminal(o *Options) bool {
	in := int(o.Stdin.Fd())
	group, err := unix.IoctlGetInt(in, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return false
	}
	var a, b, c unix.Stat_t
	for fd, st := range map[*os.File]*unix.Stat_t{o.Stdin: &a, o.Stdout: &b, o.Stderr: &c} {
		if _, err := unix.IoctlGetTermios(int(fd.Fd()), unix.TCGETS); err != nil {
			return false
		}
		if unix.Fstat(int(fd.Fd()), st) != nil {
			return false
		}
	}
	return a.Rdev == b.Rdev && b.Rdev == c.Rdev
}

// terminal relays between the host's terminal, set raw, and one of the box's
// own. Nothing inside can reach the host's: it has no descriptor of it.
type terminal struct {
	in, out int
	cooked  *unix.Termios // as it was found
	proc    *guest.Process
	done    chan struct{}
	over    chan struct{}
	budget  *budget
}

func newTerminal(o *Options, cmd *guest.Command) (*terminal, error) {
	t := &terminal{
		in: int(o.Stdin.Fd()), out: int(o.Stdout.Fd()),
		done: make(chan struct{}), over: make(chan struct{}),
	}
	t.budget = newBudget(int64(o.plan.Limits.Output), t.over)
	size := t.size()
	cmd.Terminal = &size
	return t, nil
}

func (t *terminal) size() guest.Size {
	ws, err := unix.IoctlGetWinsize(t.in, unix.TIOCGWINSZ)
	if err != nil || ws.Row == 0 || ws.Col == 0 {
		return guest.Size{Rows: 24, Columns: 80}
	}
	return guest.Size{Rows: ws.Row, Columns: ws.Col}
}

func (t *terminal) started() {}

func (t *terminal) relay(p *guest.Process) error {
	t.proc = p
	if err := t.raw(); err != nil {
		return err
	}
	go t.input()
	go t.output()
	return nil
}

func (t *terminal) raw() error {
	old, err := linux.MakeRaw(t.in)
	if err != nil {
		return err
	}
	if t.cooked == nil {
		t.cooked = old
	}
	return nil
}

// input ends when the box no longer takes it; at the end of the keeper it is
// left waiting for a key.
func (t *terminal) input() {
	buf := make([]byte, 4<<10)
	for {
		n, err := unix.Read(t.in, buf)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if n <= 0 {
			t.proc.Stdin.Close()
			return
		}
		if _, err := t.proc.Stdin.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (t *terminal) output() {
	defer close(t.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := t.proc.Stdout.Read(buf)
		got := t.budget.take(n)
		if got < n {
			t.budget.exceed()
		}
		if !writeAll(t.out, buf[:got]) || err != nil || got < n {
			return
		}
	}
}

func writeAll(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil && err != unix.EINTR && err != unix.EAGAIN {
			return false
		}
		b = b[max(n, 0):]
	}
	return true
}

func (t *terminal) overflow() <-chan struct{} { return t.over }

// resized tells the program the terminal's new size.
func (t *terminal) resized() {
	if t.proc != nil {
		_ = t.proc.Resize(t.size()) // a program that has just ended needs no size
	}
}

func (t *terminal) suspended() { t.restore() }

func (t *terminal) resumed() {
	// A terminal that went away ends the program by its hang-up, not here.
	_ = t.raw()
}

func (t *terminal) restore() {
	if t.cooked != nil {
		_ = unix.IoctlSetTermios(t.in, unix.TCSETSW, t.cooked)
	}
}

func (t *terminal) finish() {
	if t.proc != nil {
		<-t.done
	}
	t.restore()
}
