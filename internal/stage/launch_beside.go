//go:build linux

package stage

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// watch starts the watcher and the goroutine that listens to it.
func (p *Process) watch(b *Beginning, null int) error {
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
	w := Watched{Dir: b.Dir, PID: p.PID, Group: p.group.words()}
	pid, err := syscall.ForkExec(b.Guest, append([]string{"caisson-guest", "watch"}, w.args()...),
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

// idmapNamespace makes a user namespace whose only use is its map: ids of the
// workspace's owner on disk appear as the box's. The process in it only waits
// to be killed.
func idmapNamespace(bin string, l *Launch) (int, error) {
	hold, theirs, err := socketpair()
	if err != nil {
		return -1, err
	}
	defer unix.Close(hold)
	pid, err := syscall.ForkExec(bin, []string{"caisson-guest", "hold"}, &syscall.ProcAttr{
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
