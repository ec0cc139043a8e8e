//go:build linux

package keeper

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
	"github.com/caisson-dev/caisson/internal/policy"
)

// streams are the command's standard streams. There are two kinds: pipes of
// ours, and a terminal of the box's.
type streams interface {
	// started is called when the command has its ends, or never will.
	started()
	// relay begins to move bytes.
	relay(*guest.Process) error
	// overflow is closed when more was written than the policy allows.
	overflow() <-chan struct{}
	// suspended and resumed are called around a stop of the keeper itself.
	suspended()
	resumed()
	// finish is called when the box is gone: it moves what is left and restores what was changed.
	finish()
}

// prepare decides by what the keeper was started with. A terminal is given
// where stdin, stdout and stderr are one terminal and we are in its foreground; all else
// gets pipes.
func prepare(o *Options, cmd *guest.Command) (streams, error) {
	if isOurTerminal(o) {
		return newTerminal(o, cmd)
	}
	return newPipes(o, cmd)
}

// pipes are three pipes of ours between the host's descriptors and the
// program's. The host's own are never handed in: a program could reopen them through
// /proc/self/fd and truncate a log or read what its neighbour writes.
type pipes struct {
	o      *Options
	theirs []int // the program's ends, until it has them
	in     *pump
	out    []*pump
	unread int // reading end of stdin's pipe if stdin is a regular file, else -1
	over   chan struct{}
}

func newPipes(o *Options, cmd *guest.Command) (*pipes, error) {
	p := &pipes{o: o, unread: -1, over: make(chan struct{})}
	budget := newBudget(int64(o.plan.Limits.Output), p.over)
	files := []*os.File{o.Stdin, o.Stdout, o.Stderr}
	for i, f := range files {
		host := int(f.Fd())
		if i == 2 && linux.SameFile(int(o.Stdout.Fd()), host) {
			// One pipe, so that the order of what is written stays.
			p.theirs = append(p.theirs, p.theirs[1])
			break
		}
		r, w, err := newPipe(o.plan.User)
		if err != nil {
			p.started()
			p.finish()
			return nil, err
		}
		if i == 0 {
			p.theirs = append(p.theirs, r)
			p.in = newPump(host, w, w, nil)
			if isRegular(host) {
				p.unread, err = unix.FcntlInt(uintptr(r), unix.F_DUPFD_CLOEXEC, 0)
				if err != nil {
					return nil, fmt.Errorf("duplicate pipe: %w", err)
				}
			}
			continue
		}
		p.theirs = append(p.theirs, w)
		p.out = append(p.out, newPump(r, host, r, budget))
	}
	cmd.Descriptors = p.theirs
	return p, nil
}

// newPipe makes a pipe that belongs to the box's user, who may then open it again by
// /proc/self/fd like any pipe of its own.
func newPipe(u policy.User) (r, w int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("make pipe: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchown(fds[0], u.HostUID, u.HostGID); err != nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
			return -1, -1, fmt.Errorf("give pipe to the sandbox: %w", err)
		}
	}
	return fds[0], fds[1], nil
}

func (p *pipes) started() {
	closed := map[int]bool{}
	for _, fd := range p.theirs {
		if !closed[fd] {
			unix.Close(fd)
		}
		closed[fd] = true
	}
	p.theirs = nil
}

func (p *pipes) relay(*guest.Process) error {
	go p.in.run()
	for _, out := range p.out {
		go out.run()
	}
	return nil
}

func (p *pipes) overflow() <-chan struct{} { return p.over }
func (p *pipes) suspended()                {}
func (p *pipes) resumed()                  {}

// finish moves the rest of the output and sets a regular stdin back to where
// the program stopped reading, as if it had read it itself.
func (p *pipes) finish() {
	for _, out := range p.out {
		if out.begun.Load() {
			out.drain()
		}
	}
	if p.unread < 0 {
		return
	}
	if p.in.begun.Load() {
		p.in.stop()
	}
	n, err := unix.IoctlGetInt(p.unread, unix.TIOCINQ)
	// The pipe is the program's, who may have written into it: never back beyond
	// what was given.
	n = min(n, int(p.in.moved.Load()))
	if err == nil && n > 0 {
		// An error means that the file has become no file; nothing is lost.
		_, _ = unix.Seek(int(p.o.Stdin.Fd()), -int64(n), unix.SEEK_CUR)
	}
	unix.Close(p.unread)
}

func isRegular(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// budget counts what all output streams of a program have written.
type budget struct {
	left atomic.Int64
	once sync.Once
	over chan struct{}
}

// newBudget returns nil, which never ends, for a limit of 0.
func newBudget(limit int64, over chan struct{}) *budget {
	if limit == 0 {
		return nil
	}
	b := &budget{over: over}
	b.left.Store(limit)
	return b
}

// take reserves up to n bytes; 0 when none are left.
func (b *budget) take(n int) int {
	if b == nil {
		return n
	}
	for {
		left := b.left.Load()
		got := min(int64(n), left)
		if got <= 0 {
			return 0
		}
		if b.left.CompareAndSwap(left, left-got) {
			return int(got)
		}
	}
}

// exceed says that more was written than the limit; it may be repeated.
func (b *budget) exceed() { b.once.Do(func() { close(b.over) }) }

// back returns what was reserved and not used.
func (b *budget) back(n int) {
	if b != nil && n > 0 {
		b.left.Add(int64(n))
	}
}
