//go:build linux

package agent

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
)

// reaper is the one place that waits for children: PID 1's own programs and
// every orphan of the box. Waiting for one pid anywhere else would lose
// statuses.
type reaper struct {
	mu       sync.Mutex // held while a program is started, so that its end cannot be seen before its entry
	children map[int]func(guest.Exit)
	wake     chan struct{} // a program was started: there is something to wait for
}

func newReaper() *reaper {
	return &reaper{children: map[int]func(guest.Exit){}, wake: make(chan struct{}, 1)}
}

// start runs fork, which returns the pid of a new child, and watches over it.
// exited is called on the reaper's goroutine, which it must not block.
func (r *reaper) start(fork func() (int, error), exited func(guest.Exit)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, err
	}
	r.children[pid] = exited
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return pid, nil
}

// run reaps for ever.
func (r *reaper) run() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECHILD:
			// No child, so no process in the box but this one: only a start can change that.
			<-r.wake
			continue
		case err != nil:
			panic("wait for children: " + err.Error())
		}
		r.mu.Lock()
		exited := r.children[pid]
		delete(r.children, pid)
		r.mu.Unlock()
		if exited != nil { // else an orphan
			exited(exitOf(ws))
		}
	}
}

func exitOf(ws unix.WaitStatus) guest.Exit {
	if ws.Signaled() {
		return guest.Exit{Signal: int(ws.Signal()), Core: ws.CoreDump()}
	}
	return guest.Exit{Code: ws.ExitStatus()}
}
