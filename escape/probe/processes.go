//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// decoyPIDs gives the number that the host knows the decoy by and every
// process here that bears its short name.
func decoyPIDs(job escape.Job) []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.Contains(string(b), "decoy") {
			pids = append(pids, pid)
		}
	}
	if pid, err := strconv.Atoi(job.Facts["decoy"]); err == nil && pid != os.Getpid() && pid != os.Getppid() {
		pids = append(pids, pid)
	}
	return pids
}

func signalDecoy(job escape.Job) {
	for _, pid := range decoyPIDs(job) {
		tell("kill "+strconv.Itoa(pid), unix.Kill(pid, unix.SIGKILL))
	}
}

func readEnviron(escape.Job) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			if b, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil {
				show(b)
			}
		}
	}
}

func listProcesses(escape.Job) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			b, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			fmt.Println(e.Name(), strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
}

// pushTerminal types a line into the controlling terminal.
func pushTerminal(job escape.Job) {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
	tell("open /dev/tty", err)
	if err != nil {
		fd = 1
	}
	for _, c := range []byte(job.Marker + "\n") {
		if err := ioctlByte(fd, unix.TIOCSTI, c); err != nil {
			tell("TIOCSTI", err)
			break
		}
	}
	tell("TIOCLINUX", ioctlByte(fd, 0x541c, 3))
}

func seizeDecoy(job escape.Job) {
	runtime.LockOSThread()
	for _, pid := range decoyPIDs(job) {
		tell("seize "+strconv.Itoa(pid), unix.PtraceSeize(pid))
	}
}

// seizeSibling traces another program of the same box.
func seizeSibling(escape.Job) {
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", "wait", "20")
	if err := cmd.Start(); err != nil {
		tell("start sibling", err)
		return
	}
	tell("seize", unix.PtraceSeize(cmd.Process.Pid))
}

// stealDescriptors copies the descriptors of processes that started this one,
// and of the decoy, and writes into those that are sockets.
func stealDescriptors(job escape.Job) {
	pids := append(decoyPIDs(job), os.Getppid())
	for pid := 1; pid <= 50; pid++ {
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		pfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		for n := 0; n <= 20; n++ {
			fd, err := unix.PidfdGetfd(pfd, n, 0)
			if err != nil {
				continue
			}
			if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil {
				_ = unix.SetNonblock(fd, true)
				_, err = unix.Write(fd, []byte(job.Marker))
				tell(fmt.Sprintf("pid %d fd %d", pid, n), err)
			}
			_ = unix.Close(fd)
		}
		_ = unix.Close(pfd)
	}
}

// writeSysctl writes values back that it has just read: a write that is let
// through changes nothing.
func writeSysctl(job escape.Job) {
	runtime.LockOSThread()
	for _, p := range []string{"/proc/sys/vm/swappiness", "/proc/sys/kernel/printk_ratelimit", "/proc/sys/fs/lease-break-time"} {
		b, err := os.ReadFile(p)
		if err != nil {
			tell(p, err)
			continue
		}
		fd, err := unix.Open(p, unix.O_WRONLY, 0)
		if err == nil {
			mark(job, true)
			_, err = unix.Write(fd, b)
			mark(job, false)
			_ = unix.Close(fd)
		}
		tell(p, err)
	}
}

// daemon leaves a program behind that beats into a file of the workspace.
func daemon(job escape.Job) {
	cmd := exec.Command("/proc/self/exe", "heart", job.WS+"/"+job.Name)
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	tell("daemon", cmd.Start())
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(job.WS + "/" + job.Name); err == nil {
			return
		}
	}
}

// storm keeps starting programs until it is killed, 200 at a time at most.
func storm(job escape.Job) {
	fmt.Println("\n@ready " + job.Token)
	slots := make(chan struct{}, 200)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		slots <- struct{}{}
		pid, err := forkPause(1000)
		if err != nil {
			time.Sleep(time.Millisecond)
			<-slots
			continue
		}
		go func() { reap(pid); <-slots }()
	}
}
