package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// raceRounds and raceTime bound the race against a supervisor.
const (
	raceRounds = 50_000
	raceTime   = 5 * time.Second
)

// raceSupervisor opens a file of its own by a path that another thread keeps
// swapping for the row's: who looks at the path before the kernel does may see
// the one, and the kernel the other.
func raceSupervisor(job escape.Job) {
	own := job.WS + "/" + job.Name
	tell("write", put(own, os.O_CREATE|os.O_WRONLY, "own\n"))
	paths := [2]string{own, path(job, job.Arg)}
	size := max(len(paths[0]), len(paths[1]))
	var texts [2][]byte
	for i, p := range paths { // of one length, so that no end moves
		texts[i] = append([]byte(strings.Repeat("/", size-len(p))+p), 0)
	}
	shared, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	tell("mmap", err)
	if err != nil {
		return
	}
	var done atomic.Bool
	go func() {
		runtime.LockOSThread()
		for i := 0; !done.Load(); i++ {
			copy(shared, texts[i%2])
			for range 200 { // long enough to be looked at whole
				_ = done.Load()
			}
		}
	}()
	runtime.LockOSThread()
	buf := make([]byte, 256)
	rounds, end := 0, time.Now().Add(raceTime)
	for ; rounds < raceRounds && time.Now().Before(end); rounds++ {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), addr(shared), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if e != 0 {
			continue
		}
		n, _ := unix.Read(int(fd), buf)
		_ = unix.Close(int(fd))
		if n > 0 && !bytes.Equal(buf[:n], []byte("own\n")) {
			show(buf[:n])
			break
		}
	}
	done.Store(true)
	fmt.Println("rounds", rounds)
}

// leaveGroup moves this program to every control group that it can name, and
// to new ones, until it is in another than before.
func leaveGroup(job escape.Job) {
	tell("wait", poll(job.WS+"/go-"+job.Name))
	groups := func() string { b, _ := os.ReadFile("/proc/self/cgroup"); return string(b) }
	before, pid := groups(), []byte(strconv.Itoa(os.Getpid()))
	n := 0
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if n++; n > 5000 {
			return fs.SkipAll
		}
		if err != nil || !d.IsDir() {
			return nil
		}
		for _, to := range []string{p, p + "/" + job.Name} {
			if to != p && os.Mkdir(to, 0o755) != nil {
				continue
			}
			for _, text := range [][]byte{pid, []byte("0")} {
				err := os.WriteFile(to+"/cgroup.procs", text, 0)
				if err == nil && groups() != before {
					fmt.Println("+ moved to", to)
					return fs.SkipAll
				}
			}
			if to != p {
				_ = os.Remove(to)
			}
		}
		return nil
	})
	fmt.Println("looked at", n)
}
