//go:build linux

package stage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
)

// Launch says how to start a box.
type Launch struct {
	Guest string // path of the guest's binary: see package place
	Setup Setup
	Dir   string        // the sandbox's folder, which the watcher removes if the keeper dies
	Wall  time.Duration // 0: no limit
	// Limits bound the box as a whole, by a cgroup for those that Cgroups can. A
	// memory limit that it cannot is kept by the watcher, who samples. Nil is a host without any.
	Limits  Limits
	Cgroups *Cgroups
	// With Setup.IDMap: the ids of the workspace's owner, which appear inside as Setup.UID and GID.
	WorkspaceUID, WorkspaceGID int
}

// Process is a launched box, seen from the keeper: its PID 1 and its watcher.
type Process struct {
	PID    int
	Stream guest.Stream

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
	lost      bool     // the watcher died before the box
	counted   bool     // the group was removed, and reached is what it had counted
	reached   []string // names of limits
	residue   error    // of the removal
}

// Start clones the guest into new namespaces and starts its watcher. It returns
// as soon as both run: that the root stands, the guest says in its Hello. On an error nothing is left.
func Start(l Launch) (*Process, error) {
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
		Stream: stream, pidfd: -1, watchFD: -1, stderr: -1,
		ended: make(chan struct{}), watchDone: make(chan struct{}), ready: make(chan struct{}), told: make(chan struct{}),
	}
	if p.stderr, err = unix.MemfdCreate("guest", unix.MFD_CLOEXEC); err != nil {
		p.Stream.Close()
		return nil, fmt.Errorf("make memfd: %w", err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		p.release()
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	if l.Cgroups != nil {
		if p.group, err = l.Cgroups.make(l.Setup.ID, l.Limits, l.Dir); err != nil {
			p.release()
			return nil, err
		}
	}
	if err := p.fork(&l, null, theirs); err != nil {
		err = errors.Join(err, p.group.remove())
		p.release()
		return nil, err
	}
	if err := p.watch(&l, null); err != nil {
		p.kill()
		<-p.ended
		err = errors.Join(err, p.group.remove())
		p.release()
		return nil, err
	}
	if err := guest.WriteMessage(p.Stream, l.Setup.encode()); err != nil {
		// A guest that is dead already says more by its end.
		p.Destroy()
		return nil, fmt.Errorf("send setup: %w%s", err, p.LastWords())
	}
	return p, nil
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
func (p *Process) fork(l *Launch, null, stream int) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		attr := &syscall.SysProcAttr{
			Cloneflags: namespaces,
			Pdeathsig:  syscall.SIGKILL,
			PidFD:      &p.pidfd,
			Setsid:     true,
		}
		files := []uintptr{uintptr(null), uintptr(null), uintptr(p.stderr), uintptr(stream)}
		if l.Setup.FromRoot {
			if l.Setup.IDMap {
				ns, err := idmapNamespace(l)
				if err != nil {
					started <- err
					return
				}
				defer unix.Close(ns)
				files = append(files, uintptr(ns))
			}
		} else {
			attr.Cloneflags |= unix.CLONE_NEWUSER
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: l.Setup.UID, HostID: l.Setup.UID, Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: l.Setup.GID, HostID: l.Setup.GID, Size: 1}}
			attr.AmbientCaps = setupCaps
		}
		pid, err := p.group.fork(attr, func() (int, error) {
			return syscall.ForkExec(l.Guest, []string{"caisson-guest", "stage"}, &syscall.ProcAttr{
				Env: guestEnv, Files: files, Sys: attr,
			})
		})
		if err != nil {
			started <- fmt.Errorf("start guest: %w", err)
			return
		}
		p.PID = pid
		started <- nil
		wait(pid)
		close(p.ended)
	}()
	return <-started
}

// guestEnv is the whole environment of our own processes. The collector is off:
// they are small, and a collection would wait for a program that is being
// executed.
var (
	guestEnv = []string{"GOGC=off", "GOMEMLIMIT=64MiB", "GOMAXPROCS=2", "GOTRACEBACK=single"}
	watchEnv = []string{"GOGC=off", "GOMEMLIMIT=16MiB", "GOMAXPROCS=1", "GOTRACEBACK=single"}
)

// idmapNamespace makes a user namespace whose only use is its map: ids of the
// workspace's owner on disk appear as the box's. The process in it only waits
// to be killed.
func idmapNamespace(l *Launch) (int, error) {
	hold, theirs, err := socketpair()
	if err != nil {
		return -1, err
	}
	defer unix.Close(hold)
	pid, err := syscall.ForkExec(l.Guest, []string{"caisson-guest", "hold"}, &syscall.ProcAttr{
		Env: watchEnv, Files: []uintptr{uintptr(theirs)},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: l.WorkspaceUID, HostID: l.Setup.UID, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: l.WorkspaceGID, HostID: l.Setup.GID, Size: 1}},
			Pdeathsig:   syscall.SIGKILL,
		},
	})
	unix.Close(theirs)
	if err != nil {
		return -1, fmt.Errorf("make id map: %w", err)
	}
	ns, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	// It waits for our end, so the id is still its own.
	_ = unix.Kill(pid, unix.SIGKILL)
	wait(pid)
	if err != nil {
		return -1, fmt.Errorf("open id map: %w", err)
	}
	return ns, nil
}

// watch starts the watcher and the goroutine that listens to it.
func (p *Process) watch(l *Launch, null int) error {
	ours, theirs, err := socketpair()
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		unix.Close(ours)
		unix.Close(theirs)
		return fmt.Errorf("make socket non-blocking: %w", err)
	}
	p.control = os.NewFile(uintptr(ours), "watcher")
	w := Watched{Dir: l.Dir, Wall: l.Wall, PID: p.PID, Group: p.group.words()}
	if !p.group.has(ControlMemory) {
		w.Memory = l.Limits.Memory
	}
	pid, err := syscall.ForkExec(l.Guest, append([]string{"caisson-guest", "watch"}, w.args()...),
		&syscall.ProcAttr{
			Env:   watchEnv,
			Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(theirs), uintptr(p.pidfd)},
			Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &p.watchFD},
		})
	unix.Close(theirs)
	if err != nil {
		close(p.watchDone)
		return fmt.Errorf("start watcher: %w", err)
	}
	p.watchPID = pid
	go p.listen()
	return nil
}

// listen hears the watcher until it ends. A watcher that dies before the box
// takes the box with it: a box that nobody is sure to end must not live.
func (p *Process) listen() {
	var b [1]byte
	isReady, hasTold := false, false
	for {
		// The runtime's poller waits, not a thread of its own.
		n, err := p.control.Read(b[:])
		if err != nil || n == 0 {
			break
		}
		switch b[0] {
		case watchReady:
			if !isReady {
				isReady = true
				close(p.ready)
			}
		case watchWall:
			p.mu.Lock()
			p.wall = true
			p.mu.Unlock()
		case watchMemory:
			p.mu.Lock()
			p.memory = true
			p.mu.Unlock()
		case watchEnded:
			if !hasTold {
				hasTold = true
				close(p.told)
			}
		}
	}
	wait(p.watchPID)
	p.mu.Lock()
	select {
	case <-p.ended:
	default:
		p.lost = !p.destroyed
	}
	p.mu.Unlock()
	p.kill()
	close(p.watchDone)
}

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
	case p.destroyed:
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

// Destroy ends the box and its watcher and returns when both are gone, with the error of
// what could not be removed. It may be repeated and called concurrently.
func (p *Process) Destroy() error {
	p.mu.Lock()
	first := !p.destroyed
	p.destroyed = true
	p.mu.Unlock()
	if first {
		p.kill()
	}
	<-p.ended
	if first {
		p.removeGroup()
		// It may have died; then listen has seen it.
		_, _ = p.control.Write([]byte{keeperDone})
		_ = kill(p.watchFD)
	}
	<-p.watchDone
	if first {
		p.release()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.residue
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
