package escape

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openTerminal gives both sides of a fresh terminal.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("name terminal: %w", err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	return master, slave, nil
}

// startOnTerminal starts the box below an outer shell that has the slave as
// its controlling terminal. The job is typed in.
func (t *trial) startOnTerminal(master, slave, typed *os.File) error {
	name, arg := cut(t.p.Action)
	if t.negative {
		name, arg = "noop", ""
	}
	job := Job{Action: name, Arg: arg, Token: secret(), Marker: t.marker, Home: t.l.home, WS: t.ws, Name: t.name}
	la, err := t.tg.launch(t, []string{t.program()})
	if err != nil {
		return err
	}
	attr := &la.attr
	attr.Setsid, attr.Setctty, attr.Ctty = true, true, 0
	if !la.root {
		t.l.credentials(attr)
	}
	argv := append([]string{labTools, "terminal", "3"}, la.argv...)
	pid, err := t.l.procs.start(argv, la.env, la.dir, []uintptr{slave.Fd(), slave.Fd(), slave.Fd(), typed.Fd()}, attr)
	if err != nil {
		_ = master.Close()
		return err
	}
	in, err := unix.Dup(int(master.Fd()))
	if err != nil {
		_ = master.Close()
		return fmt.Errorf("copy terminal: %w", err)
	}
	b := &box{l: t.l, pid: pid, stdin: os.NewFile(uintptr(in), "terminal"), out: newCapture(master), errs: &capture{}, token: job.Token}
	t.boxes = append(t.boxes, b)
	line, err := jobLine(job)
	if err != nil {
		return err
	}
	_, err = b.stdin.Write(line)
	return err
}
