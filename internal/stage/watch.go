//go:build linux

package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
)

// Descriptors of the watcher's process when it starts.
const (
	watchControlFD = 3 // socket to the keeper: see the words below
	watchPidfdFD   = 4 // the box's PID 1
)

// What keeper and watcher say to each other, one byte each. The keeper's death is the
// end of the socket.
const (
	watchReady  = 'R' // watcher: I hold the box
	watchWall   = 'W' // watcher: the wall time ran out, I kill it
	watchMemory = 'M' // watcher: it holds more memory than its limit, I kill it
	watchEnded  = 'E' // watcher: the box has ended, and I have said why
	keeperDone  = 'D' // keeper: the box is gone and its folder is mine to remove
)

// Watched says what a watcher holds from its first moment.
type Watched struct {
	Dir   string   // the sandbox's folder
	PID   int      // of the box's first process
	Group []string // the box's cgroup, as Begin wrote it
}

// args are the watcher's arguments; ParseWatched reads them.
func (w *Watched) args() []string {
	return append([]string{w.Dir, strconv.Itoa(w.PID)}, w.Group...)
}

// ParseWatched reads the arguments of a watcher's process.
func ParseWatched(args []string) (Watched, error) {
	if len(args) < 2 {
		return Watched{}, fmt.Errorf("parse arguments of watcher: there are %d", len(args))
	}
	pid, err := strconv.Atoi(args[1])
	if err != nil {
		return Watched{}, fmt.Errorf("parse arguments of watcher: %w", err)
	}
	return Watched{Dir: args[0], PID: pid, Group: args[2:]}, nil
}

// instructions are what the plan adds, sent when there is one.
type instructions struct {
	Wall   time.Duration // 0: no limit
	Memory int64         // limit that no cgroup keeps, in bytes; 0: none
}

func (i *instructions) encode() []byte {
	var e guest.Encoder
	e.Int(int64(i.Wall))
	e.Int(i.Memory)
	return e.Data()
}

func decodeInstructions(p []byte) (instructions, error) {
	d := guest.NewDecoder(p)
	i := instructions{Wall: time.Duration(d.Int()), Memory: d.Int()}
	return i, d.Finish()
}

// Watch is the watcher: a process outside the box, one per box, that ends it
// for sure. It kills the box when the keeper dies, the wall time runs out or its memory
// does, whatever state the box is in, and removes what a dead keeper left. It
// returns when there is nothing left to watch.
//
// The keeper watches the watcher: if this process dies, the keeper ends the
// box. If both die at once, PDEATHSIG ends the box and the next command sweeps the
// folder.
func Watch(w Watched) error {
	if err := unix.CloseRange(watchPidfdFD+1, ^uint(0), 0); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	group, err := parseGroup(w.Group)
	if err != nil {
		return err
	}
	v := &watcher{Watched: w, group: group}
	// A keeper that dies before there is a plan is the end of this read.
	msg, err := guest.ReadMessage(control{}, maxInstructions)
	if err != nil {
		return v.abandon()
	}
	i, err := decodeInstructions(msg)
	if err != nil {
		return errors.Join(err, v.abandon())
	}
	v.sampler = sampler{pid: w.PID, limit: i.Memory}
	now := time.Now()
	v.sampler.next = now
	if i.Wall > 0 {
		v.deadline = now.Add(i.Wall)
	}
	v.fds = [...]unix.PollFd{
		{Fd: watchControlFD, Events: unix.POLLIN},
		{Fd: watchPidfdFD, Events: unix.POLLIN},
		{Fd: -1, Events: unix.POLLIN},
	}
	oom, err := group.memoryEvents()
	if err != nil {
		return err
	}
	v.fds[2].Fd = int32(oom)
	if !v.say(watchReady) {
		return v.abandon()
	}
	for {
		if _, err := unix.Poll(v.fds[:], pollTimeout(v.next())); err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
		if done, err := v.step(); done || err != nil {
			return err
		}
	}
}

// maxInstructions bounds the message, in bytes: two numbers.
const maxInstructions = 64

// control reads the keeper's socket, blocking, without Go's poller.
type control struct{}

func (control) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(watchControlFD, p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

type watcher struct {
	Watched
	group    *Cgroup
	fds      [3]unix.PollFd // the keeper, the box, its memory
	deadline time.Time      // zero: none
	sampler  sampler
	ended    bool
}

// next is the time of the next look that nothing else wakes for.
func (v *watcher) next() time.Time {
	if s := v.sampler; s.limit > 0 && !v.ended && (v.deadline.IsZero() || s.next.Before(v.deadline)) {
		return s.next
	}
	return v.deadline
}

// step acts on what a poll found. done: there is nothing left to watch.
func (v *watcher) step() (done bool, err error) {
	if v.fds[0].Revents != 0 {
		var b [1]byte
		n, err := unix.Read(watchControlFD, b[:])
		if n == 1 && b[0] == keeperDone {
			return true, nil
		}
		if n <= 0 && err != unix.EINTR {
			return true, v.abandon()
		}
	}
	if !v.deadline.IsZero() && !time.Now().Before(v.deadline) {
		v.deadline = time.Time{}
		if err := v.end(watchWall); err != nil {
			return true, err
		}
	}
	if v.fds[2].Revents != 0 {
		if err := v.memoryEvent(); err != nil {
			return true, err
		}
	}
	if v.fds[1].Revents != 0 {
		v.fds[1].Fd = -1 // the keeper's word or death is still to come
		v.ended, v.deadline = true, time.Time{}
		v.say(watchEnded)
	}
	if !v.ended && v.sampler.over(time.Now(), v.urgent) {
		return false, v.end(watchMemory)
	}
	return false, nil
}

// memoryEvent ends the box if it is its own limit that was reached: groups above
// tell of theirs here too, and the removal of the group wakes as well, after the
// end of the box.
func (v *watcher) memoryEvent() error {
	var count [8]byte
	_, _ = unix.Read(int(v.fds[2].Fd), count[:]) // it is readable, and only woke us
	box := []unix.PollFd{{Fd: watchPidfdFD, Events: unix.POLLIN}}
	if n, err := unix.Poll(box, 0); n != 0 || err != nil || !v.group.hitsV1() {
		return nil
	}
	v.fds[2].Fd = -1
	return v.end(watchMemory)
}

// urgent reports whether there is something to do that may not wait for a look at
// the box's memory.
func (v *watcher) urgent() bool {
	if !v.deadline.IsZero() && !time.Now().Before(v.deadline) {
		return true
	}
	n, err := unix.Poll(v.fds[:], 0)
	return n != 0 || err != nil && err != unix.EINTR
}

// end says why and kills the box, in this order: who sees the end knows why.
func (v *watcher) end(why byte) error {
	if v.ended {
		return nil
	}
	v.say(why)
	return v.kill()
}

// say is false if the keeper is gone. Its end is seen at the next poll.
func (*watcher) say(word byte) bool {
	_, err := unix.Write(watchControlFD, []byte{word})
	return err == nil
}

// kill ends the box, frozen or not.
func (v *watcher) kill() error {
	return errors.Join(kill(watchPidfdFD), v.group.kill())
}

// abandon ends a box whose keeper is gone and removes its folder.
func (v *watcher) abandon() error {
	if err := v.kill(); err != nil {
		return err
	}
	fds := []unix.PollFd{{Fd: watchPidfdFD, Events: unix.POLLIN}}
	for fds[0].Revents == 0 {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
	}
	// A folder whose group could not be removed is the next command's to sweep.
	if err := v.group.remove(); err != nil || v.Dir == "" {
		return err
	}
	// A keeper that died while it removed the folder had renamed it before.
	begun, _ := filepath.Glob(filepath.Join(filepath.Dir(v.Dir), ".gone-"+filepath.Base(v.Dir)+"-*"))
	for _, dir := range append(begun, v.Dir) {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
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
