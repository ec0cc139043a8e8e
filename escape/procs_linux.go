package escape

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// procs starts programs and reaps all that end: process 1 of a pid namespace
// inherits every orphan.
type procs struct {
	mu   sync.Mutex
	done map[int]syscall.WaitStatus
	wake map[int]chan struct{}
}

func newProcs() *procs {
	p := &procs{done: map[int]syscall.WaitStatus{}, wake: map[int]chan struct{}{}}
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, unix.SIGCHLD)
	go func() {
		for range sig {
			p.reap()
		}
	}()
	return p
}

func (p *procs) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		p.mu.Lock()
		p.done[pid] = ws
		if c := p.wake[pid]; c != nil {
			close(c)
			delete(p.wake, pid)
		}
		p.mu.Unlock()
	}
}

// wait waits for a program that start gave; false: it still runs.
func (p *procs) wait(pid int, d time.Duration) (syscall.WaitStatus, bool) {
	p.mu.Lock()
	ws, ended := p.done[pid]
	c := p.wake[pid]
	if !ended && c == nil {
		c = make(chan struct{})
		p.wake[pid] = c
	}
	p.mu.Unlock()
	if ended {
		return ws, true
	}
	select {
	case <-c:
	case <-time.After(d):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ws, ended = p.done[pid]
	return ws, ended
}

// start executes a program with the descriptors given, in order from 0.
func (p *procs) start(argv, env []string, dir string, files []uintptr, attr *unix.SysProcAttr) (int, error) {
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Dir: dir, Env: env, Files: files, Sys: attr})
	if err != nil {
		return 0, &os.PathError{Op: "start", Path: argv[0], Err: err}
	}
	p.mu.Lock()
	if _, again := p.done[pid]; again && unix.Kill(pid, 0) == nil {
		delete(p.done, pid) // an old bearer of the same number
	}
	p.mu.Unlock()
	return pid, nil
}

// killAll kills every process but the lab itself, again until none is left.
func (p *procs) killAll(but ...int) bool {
	for range 200 {
		left := 0
	next:
		for _, pid := range pidsOf("/proc") {
			if pid == 1 {
				continue
			}
			for _, b := range but {
				if b == pid {
					continue next
				}
			}
			left++
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if left == 0 {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// pidsOf lists the processes of a proc file system.
func pidsOf(proc string) []int {
	f, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// running lists the processes that run the given file, wherever they see it:
// it is how the lab knows the programs inside a box.
func running(dev, ino uint64) []int {
	var pids []int
	for _, pid := range pidsOf("/proc") {
		var st unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(pid)+"/exe", &st) == nil && st.Dev == dev && st.Ino == ino {
			pids = append(pids, pid)
		}
	}
	return pids
}

// status gives one field of /proc/PID/status.
func status(pid int, field string) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// openFiles gives the targets of a process's descriptors.
func openFiles(pid int) []string {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(dir, e.Name()))
	}
	return out
}

// foreignGroups gives the folders of the control groups that processes are in
// and the lab is not.
func foreignGroups(pids []int) []string {
	own, _ := os.ReadFile("/proc/self/cgroup")
	known := map[string]bool{}
	for _, line := range strings.Split(string(own), "\n") {
		known[line] = true
	}
	var dirs []string
	for _, pid := range pids {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		for _, line := range strings.Split(string(b), "\n") {
			f := strings.SplitN(line, ":", 3)
			if len(f) < 3 || known[line] || f[2] == "/" {
				continue
			}
			known[line] = true
			for _, name := range append(strings.Split(f[1], ","), "unified", "") {
				p := filepath.Join("/sys/fs/cgroup", name, f[2])
				if fi, err := os.Stat(p); err == nil && fi.IsDir() {
					dirs = append(dirs, p)
				}
			}
		}
	}
	return dirs
}
