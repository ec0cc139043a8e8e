//go:build linux

package keeper

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// pump moves bytes from one descriptor to another until the source ends or the
// target no longer takes them. Between pipes and regular files it does so by
// splice: the bytes of a pipe are handed over, not copied.
type pump struct {
	src, dst int
	own      int     // the end that is ours, closed when the pump ends
	budget   *budget // of output; nil: no limit
	begun    atomic.Bool
	stopping atomic.Bool
	done     chan struct{}
	moved    atomic.Int64 // bytes
	holding  atomic.Bool  // copy has read bytes that it has not written
	bulk     bool         // much was moved: steps block instead of being waited for
}

const (
	// chunk is the most that one step moves, in bytes: the largest pipe that an
	// ordinary user may have (fs.pipe-max-size).
	chunk = 1 << 20
	// bulkAfter is how many bytes make a stream bulk.
	bulkAfter = 1 << 20
)

func newPump(src, dst, own int, b *budget) *pump {
	return &pump{src: src, dst: dst, own: own, budget: b, done: make(chan struct{})}
}

// run moves until the end. It waits for a pipe of ours by the runtime's poller,
// which costs no thread; the host's descriptors are not ours to make
// non-blocking, so for them a thread waits.
func (p *pump) run() {
	p.begun.Store(true)
	defer close(p.done)
	if p.own == p.dst {
		defer unix.Close(p.own)
		p.loop(p.await)
		return
	}
	if err := unix.SetNonblock(p.src, true); err != nil {
		unix.Close(p.own)
		return
	}
	f := os.NewFile(uintptr(p.src), "output")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	p.loop(func() bool {
		if n, err := unix.IoctlGetInt(p.src, unix.TIOCINQ); err == nil && n > 0 {
			return p.awaitTarget() // it was the target that had no room
		}
		// The poller forgets what came before this call, so the pipe is asked once more
		// after it began: an end in between would be waited for for ever.
		return raw.Read(func(fd uintptr) bool {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, 0)
			return n > 0 || err != nil
		}) == nil
	})
}

// loop moves by splice, or where that is impossible by copying; await blocks
// until a step may succeed, and is false if none ever will.
func (p *pump) loop(await func() bool) {
	// A splice to or from anything that can stall (a terminal after ^S, a socket)
	// holds the pipe's lock while it waits, and a program of the box that then writes to the pipe,
	// or only closes it, cannot even be killed.
	move := p.copy
	if canSplice(p.src) && canSplice(p.dst) {
		move = p.splice
	}
	for !p.stopping.Load() {
		want := p.budget.take(chunk)
		if want == 0 {
			p.discard(await)
			return
		}
		n, err := move(want)
		p.budget.back(want - max(n, 0))
		switch {
		case n > 0:
			p.count(n)
		case err == nil:
			return // the source has ended
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if !await() {
				return
			}
		case err == unix.EINVAL:
			// One of the two cannot be spliced: a file opened for append.
			move = p.copy
		default:
			return // the target takes no more, or the source broke
		}
	}
}

func canSplice(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	kind := st.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFREG
}

func (p *pump) splice(n int) (int, error) {
	flags := unix.SPLICE_F_MOVE
	if !p.bulk {
		flags |= unix.SPLICE_F_NONBLOCK
	}
	got, err := unix.Splice(p.src, nil, p.dst, nil, n, flags)
	return int(got), err
}

// count turns a stream that has moved much into a bulk one: larger pipes and
// blocking steps, so that both sides are woken less often. Only then, since all
// pipes of a user share one quota of pages (fs.pipe-user-pages-soft). A regular
// source stays as it is: it must be possible to stop it.
func (p *pump) count(n int) {
	moved := p.moved.Add(int64(n))
	if p.bulk || moved < bulkAfter || isRegular(p.src) {
		return
	}
	// Refusals change the speed alone. The one that is no pipe refuses too.
	_, _ = unix.FcntlInt(uintptr(p.src), unix.F_SETPIPE_SZ, chunk)
	_, _ = unix.FcntlInt(uintptr(p.dst), unix.F_SETPIPE_SZ, chunk)
	p.bulk = p.own == p.dst || unix.SetNonblock(p.src, false) == nil
}

// copy moves by reading and writing.
func (p *pump) copy(n int) (int, error) {
	var buf [32 << 10]byte
	got, err := unix.Read(p.src, buf[:min(n, len(buf))])
	if err != nil || got <= 0 {
		return got, err
	}
	p.holding.Store(true)
	defer p.holding.Store(false)
	for b := buf[:got]; len(b) > 0; {
		m, err := unix.Write(p.dst, b)
		if err == unix.EAGAIN {
			fds := []unix.PollFd{{Fd: int32(p.dst), Events: unix.POLLOUT}}
			_, err = unix.Poll(fds, -1)
		}
		if err != nil && err != unix.EINTR {
			return -1, err
		}
		b = b[max(m, 0):]
	}
	return got, nil
}

// await blocks until a step from a source of the host's may succeed; false: it
// never will, since the target's other end is closed.
func (p *pump) await() bool {
	fds := []unix.PollFd{{Fd: int32(p.src), Events: unix.POLLIN}, {Fd: int32(p.dst)}}
	for fds[0].Revents == 0 {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return false
		}
		if fds[1].Revents&(unix.POLLERR|unix.POLLNVAL) != 0 {
			return false
		}
	}
	return p.awaitTarget()
}

// awaitTarget blocks until the target has room; false: it never will.
func (p *pump) awaitTarget() bool {
	fds := []unix.PollFd{{Fd: int32(p.dst), Events: unix.POLLOUT}}
	for !p.stopping.Load() {
		if _, err := unix.Poll(fds, pollStep); err != nil && err != unix.EINTR {
			return false
		}
		if fds[0].Revents&(unix.POLLERR|unix.POLLNVAL) != 0 {
			return false
		}
		if fds[0].Revents != 0 {
			return true
		}
	}
	return false
}

// pollStep is how often, in ms, a pump whose target is full looks whether it
// was told to stop: only a stdin that nobody reads any more needs it.
const pollStep = 50

// discard reads what is over the limit, so that the program ends by our hand
// and not by a full pipe. A program that wrote exactly the limit is not over it.
func (p *pump) discard(await func() bool) {
	var buf [32 << 10]byte
	for {
		n, err := unix.Read(p.src, buf[:])
		if err == unix.EAGAIN && await() {
			continue
		}
		if n <= 0 && err != unix.EINTR {
			return
		}
		if n > 0 {
			p.moved.Add(int64(n))
			p.budget.exceed()
		}
	}
}

// drainStep is how often a pipe that does not end is looked at.
const drainStep = 20 * time.Millisecond

// drain waits until all is moved that the box, which is gone, had written. That
// is mostly the end of the pipe. But a program may have given the writing end to
// somebody who lives on, by a socket in the workspace: such a pipe never ends, and
// what comes after the box's last byte is not the box's. So it also returns when the pipe is empty,
// and when as much was moved as a pipe can hold.
func (p *pump) drain() {
	size, err := unix.FcntlInt(uintptr(p.src), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		size = chunk // it has just ended and was closed
	}
	last := p.moved.Load() + int64(max(size, chunk))
	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	for empty := 0; empty < 2 && p.moved.Load() < last; {
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
		n, err := unix.IoctlGetInt(p.src, unix.TIOCINQ)
		if err != nil || n > 0 || p.holding.Load() {
			empty = 0
			continue
		}
		empty++ // twice: bytes may lie between a read and its mark
	}
}

// stop makes a pump end whose target is full and read by nobody, and waits for
// it.
func (p *pump) stop() {
	p.stopping.Store(true)
	<-p.done
}
