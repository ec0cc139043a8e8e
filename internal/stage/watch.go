//go:build linux

package stage

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors of the watcher's process when it starts.
const (
	watchControlFD = 3 // socket to the keeper: see the words below
	watchPidfdFD   = 4 // the box's PID 1
)

// What keeper and watcher say to each other, one byte each. The keeper's death is the
// end of the socket.
const (
	watchReady = 'R' // watcher: I hold the box
	watchWall  = 'W' // watcher: the wall time ran out, I kill it
	watchEnded = 'E' // watcher: the box has ended, and I have said all that I know of it
	keeperDone = 'D' // keeper: the box is gone and its folder is mine to remove
)

// Watch is the watcher: a process outside the box, one per box, that ends it
// for sure. It kills the box when the keeper dies or the wall time runs out,
// whatever state the box is in, and removes what a dead keeper left. dir is the sandbox's
// folder; wall is 0 for no limit. It returns when there is nothing left to
// watch.
//
// The keeper watches the watcher: if this process dies, the keeper ends the
// box. If both die at once, PDEATHSIG ends the box and the next command sweeps the
// folder.
func Watch(dir string, wall time.Duration) error {
	if err := unix.CloseRange(watchPidfdFD+1, ^uint(0), 0); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	var deadline time.Time
	if wall > 0 {
		deadline = time.Now().Add(wall)
	}
	if _, err := unix.Write(watchControlFD, []byte{watchReady}); err != nil {
		return abandon(dir)
	}
	fds := []unix.PollFd{
		{Fd: watchControlFD, Events: unix.POLLIN},
		{Fd: watchPidfdFD, Events: unix.POLLIN},
	}
	for {
		if _, err := unix.Poll(fds, pollTimeout(deadline)); err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
		if fds[0].Revents != 0 {
			var b [1]byte
			n, err := unix.Read(watchControlFD, b[:])
			if n == 1 && b[0] == keeperDone {
				return nil
			}
			if n <= 0 && err != unix.EINTR {
				return abandon(dir)
			}
		}
		if fds[1].Revents != 0 {
			fds[1].Fd = -1 // the keeper's word or death is still to come
			deadline = time.Time{}
			_, _ = unix.Write(watchControlFD, []byte{watchEnded})
		}
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			deadline = time.Time{}
			// Said first, so that the keeper knows it when it sees the end. One that is gone
			// cannot hear it, and its own end is seen next.
			_, _ = unix.Write(watchControlFD, []byte{watchWall})
			if err := kill(watchPidfdFD); err != nil {
				return err
			}
		}
	}
}

// abandon ends a box whose keeper is gone and removes its folder.
func abandon(dir string) error {
	if err := kill(watchPidfdFD); err != nil {
		return err
	}
	fds := []unix.PollFd{{Fd: watchPidfdFD, Events: unix.POLLIN}}
	for fds[0].Revents == 0 {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
	}
	if dir == "" {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// kill ends the process behind a pidfd; one that has ended is no error.
func kill(pidfd int) error {
	err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	if err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill box: %w", err)
	}
	return nil
}

// pollTimeout is the time to a deadline in milliseconds, rounded up; -1 is for
// ever.
func pollTimeout(deadline time.Time) int {
	if deadline.IsZero() {
		return -1
	}
	d := time.Until(deadline)
	if d <= 0 {
		return 0
	}
	const day = 24 * time.Hour // an int of milliseconds holds 24 days
	return int(min(d, day)/time.Millisecond) + 1
}
