//go:build linux

package stage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
)

// Beginning says all that a box needs before its plan is known.
type Beginning struct {
	Guest    string // path of the guest's binary: see package place
	ID       string
	Dir      string   // the sandbox's folder, which the watcher removes if the keeper dies; "" for none
	Cgroups  *Cgroups // nil: none
	FromRoot bool
	UID, GID int // of the caller: an ordinary user's box has the same
}

// Launch is the rest of what a start needs.
type Launch struct {
	Setup Setup
	Wall  time.Duration // 0: no limit
	// Limits bound the box as a whole, by a cgroup for those that it has. Of those
	// that it cannot, memory is kept by the watcher, who samples, and processor time by
	// keeping the programs to so many processors.
	Limits Limits
	// With Setup.IDMap: the ids of the workspace's owner, which appear inside as Setup.UID and GID.
	WorkspaceUID, WorkspaceGID int
}

// Process is a launched box, seen from the keeper: its PID 1 and its watcher.
type Process struct {
	PID    int
	Stream guest.Stream

	guest    string // path of the guest's binary
	pidfd    int
	control  *os.File // socket to the watcher
	watchPID int
	watchFD  int // pidfd of the watcher
	stderr   int // memfd: what a dying guest said
	words    string
	group    *Cgroup // nil if it has none

	ended     chan struct{} // the box's PID 1 was reaped
	watchDone chan struct{} // the watcher ended
	ready     chan struct{} // the watcher holds the box
	told      chan struct{} // the watcher has said why the box ended, as far as it knows
	mu        sync.Mutex
	wall      bool // the watcher ended the box for its wall time
	memory    bool // the watcher ended the box for its memory
	destroyed bool
	killed    bool // Kill ended the box: it had not ended before
	removed   sync.Once
	lost      bool     // the watcher died before the box
	counted   bool     // the group was removed, and reached is what it had counted
	reached   []string // names of limits
	residue   error    // of the removal
}

// Begin clones the guest into new namespaces and starts its watcher. Both then
// wait for Build. On an error nothing is left.
func Begin(b Beginning) (*Process, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	stream, err := guest.FromFD(ours)
	if err != nil {
		unix.Close(ours)
		return nil, fmt.Errorf("open stream: %w", err)
	}
	p := &Process{
		Stream: stream, guest: b.Guest, pidfd: -1, watchFD: -1, stderr: -1,
		ended: make(chan struct{}), watchDone: make(chan struct{}), ready: make(chan struct{}), told: make(chan struct{}),
	}
	if p.stderr, err = unix.MemfdCreate("guest", unix.MFD_CLOEXEC); err != nil {
		p.release()
		return nil, fmt.Errorf("make memfd: %w", err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		p.release()
		return nil, &SetupError{stepNull, err}
	}
	defer unix.Close(null)
	if b.Cgroups != nil {
		if p.group, err = b.Cgroups.make(b.ID, b.Dir); err != nil {
			p.release()
			return nil, err
		}
	}
	if err := p.fork(&b, null, theirs); err != nil {
		err = errors.Join(err, p.group.remove())
		p.release()
		return nil, err
	}
	if err := p.watch(&b, null); err != nil {
		p.kill()
		<-p.ended
		err = errors.Join(err, p.group.remove())
		p.release()
		return nil, err
	}
	return p, nil
}

// Build sends guest and watcher what they wait for, and returns at once: that the
// root stands, the guest says in its Hello. On an error the box is gone.
func (p *Process) Build(l Launch) error {
	if l.Limits.CPUs > 0 && !p.group.has(ControlCPU) {
		l.Setup.Processors = int(math.Ceil(l.Limits.CPUs))
	}
	err := p.group.limit(l.Limits)
	if err == nil {
		err = p.instruct(&l)
	}
	if err == nil {
		err = p.send(&l)
	}
	if err != nil {
		return errors.Join(err, p.Destroy())
	}
	return nil
}

// instruct tells the watcher what it must know of the plan.
func (p *Process) instruct(l *Launch) error {
	w := instructions{Wall: l.Wall}
	if !p.group.has(ControlMemory) {
		w.Memory = l.Limits.Memory
	}
	if err := guest.WriteMessage(p.control, w.encode()); err != nil {
		return fmt.Errorf("instruct watcher: %w", err)
	}
	return nil
}

// send sends the guest its Setup, with the map of the workspace's ids.
func (p *Process) send(l *Launch) error {
	var fds []int
	if l.Setup.IDMap {
		ns, err := idmapNamespace(p.guest, l)
		if err != nil {
			return err
		}
		defer unix.Close(ns)
		fds = append(fds, ns)
	}
	msg := messageBytes(l.Setup.encode())
	var err error
	if fds == nil {
		_, err = p.Stream.Write(msg)
	} else {
		err = p.Stream.SendDescriptors(msg, fds)
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		<-p.ended // it is dying, and its end says more
		_, _, reason := p.Outcome()
		return errors.New(reason)
	}
	if err != nil {
		return fmt.Errorf("send setup: %w", err)
	}
	return nil
}

// messageBytes is what guest.WriteMessage would write.
func messageBytes(p []byte) []byte {
	var b bytes.Buffer
	_ = guest.WriteMessage(&b, p) // memory takes all
	return b.Bytes()
}

func socketpair() (ours, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make socket pair: %w", err)
	}
	return fds[0], fds[1], nil
}

// setupCaps are what the inner half needs in its own user namespace, raised as
// ambient since it is not root there.
var setupCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_TIME, unix.CAP_SYS_RESOURCE}

const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// fork clones PID 1 of the box from a thread that lives as long as the box:
// PDEATHSIG follows the thread, not the process.
func (p *Process) fork(b *Beginning, null, stream int) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		child := linux.Child{
			Path: b.Guest, Argv: []string{"caisson-guest", "stage"}, Env: guestEnv,
			Files: []int{null, null, p.stderr, stream}, Setsid: true,
		}
		into := linux.Clone{Namespaces: namespaces}
		if !b.FromRoot {
			into.Namespaces |= unix.CLONE_NEWUSER
			into.UID, into.GID, into.Caps = b.UID, b.GID, setupCaps
		}
		err := p.group.fork(&into, func() (err error) {
			p.PID, p.pidfd, err = clone(&child, into)
			return err
		})
		if err != nil && p.PID != 0 {
			_ = unix.Kill(p.PID, unix.SIGKILL) // not reaped, so its own id
			wait(p.PID)
		}
		if err != nil {
			started <- &SetupError{stepGuest, err}
			return
		}
		started <- nil
		wait(p.PID)
		close(p.ended)
	}()
	return <-started
}

// clone starts a child in namespaces of its own; one that cannot be executed is
// reaped.
func clone(child *linux.Child, into linux.Clone) (pid, pidfd int, err error) {
	s, pidfd, err := child.Clone(into)
	if err != nil {
		return 0, -1, err
	}
	if err := s.Executed(); err != nil {
		wait(s.PID)
		unix.Close(pidfd)
		return 0, -1, err
	}
	return s.PID, pidfd, nil
}

// guestEnv is the whole environment of our own processes. The collector is off:
// they are small, and a collection would wait for a program that is being
// executed. The runtime need not look at cgroups, whose number of processors we
// give it: it would keep files open among the descriptors that we close.
var (
	guestEnv = []string{"GOGC=off", "GOMEMLIMIT=64MiB", "GOMAXPROCS=2", "GOTRACEBACK=single", noCgroups}
	watchEnv = []string{"GOGC=off", "GOMEMLIMIT=16MiB", "GOMAXPROCS=1", "GOTRACEBACK=single", noCgroups}
)

const noCgroups = "GODEBUG=containermaxprocs=0,updatemaxprocs=0"

// Ready is closed when the watcher holds the box: no program may start before.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// Ended is closed when PID 1 of the box, and so every process in it, is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Outcome says how an ended box ended. Reason is empty if it was Destroyed.
func (p *Process) Outcome() (destroyed bool, limit, reason string) {
	select { // either comes: the watcher sees the end as we do, or has ended itself
	case <-p.told:
	case <-p.watchDone:
	}
	reached := p.Reached()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case slices.Contains(reached, "memory"):
		return false, "memory", "the memory limit was reached"
	case p.wall:
		return false, "wall", "the wall time ran out"
	case p.lost:
		return false, "", "the watcher was killed"
	case p.killed:
		return true, "", ""
	}
	return false, "", "the guest was killed" + p.LastWords()
}

func (p *Process) kill() {
	if err := kill(p.pidfd); err != nil {
		// The only other cause is a pidfd that is not one: a defect of ours.
		panic(err)
	}
	// What fails here fails at the removal too, which tells it.
	_ = p.group.kill()
}

// Kill ends the box and returns when all in it is gone, with the error of what
// could not be removed. The watcher lives on: it removes the sandbox's folder if the keeper
// dies before Destroy. It may be repeated and called concurrently.
func (p *Process) Kill() error {
	p.mu.Lock()
	select {
	case <-p.ended:
	default:
		p.killed = true
		p.kill()
	}
	p.mu.Unlock()
	<-p.ended
	p.removed.Do(p.removeGroup)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.residue
}

// Destroy is Kill, and ends the watcher too. It may be repeated and called
// concurrently.
func (p *Process) Destroy() error {
	p.mu.Lock()
	first := !p.destroyed
	p.destroyed = true
	p.mu.Unlock()
	err := p.Kill()
	if first {
		// It may have died; then listen has seen it.
		_, _ = p.control.Write([]byte{keeperDone})
		_ = kill(p.watchFD)
	}
	<-p.watchDone
	if first {
		p.release()
	}
	return err
}

// LastWords is what a dying guest wrote to its standard error: a defect of
// ours, shown in the error that tells its end. Empty if it said nothing.
func (p *Process) LastWords() string {
	if p.stderr < 0 {
		return p.words
	}
	var buf [4096]byte
	n, err := unix.Pread(p.stderr, buf[:], 0)
	if err != nil || n == 0 {
		return ""
	}
	return ": " + string(buf[:n])
}

// release closes what is held; the box is gone or was never there.
func (p *Process) release() {
	p.Stream.Close()
	p.words = p.LastWords()
	if p.control != nil {
		p.control.Close()
	}
	for _, fd := range []*int{&p.pidfd, &p.watchFD, &p.stderr} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// wait reaps a child, however it ended.
func wait(pid int) {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(pid, &ws, 0, nil)
		if err == syscall.EINTR || got == pid && ws.Stopped() {
			continue
		}
		return
	}
}
