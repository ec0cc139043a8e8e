//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// inUserNS performs an action in a new user and mount namespace, where the
// kernel gives the program every capability over those. It maps all ids if it
// may, else only its own.
func inUserNS(job escape.Job, action, arg string) error {
	job.Action, job.Arg, job.Hold = action, arg, false
	line, err := json.Marshal(job)
	if err != nil {
		return err
	}
	var last error
	for _, size := range []int{65536, 1} {
		host := 0
		if size == 1 {
			host = os.Getuid()
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Stdin = strings.NewReader(string(line) + "\n")
		cmd.Stdout = os.Stdout
		cmd.SysProcAttr = &unix.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: size}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: size}},
		}
		if last = cmd.Run(); last == nil {
			return nil
		}
	}
	return last
}

// userNSActs becomes root of a user namespace and acts on what the host owns.
func userNSActs(job escape.Job) {
	p := job.WS + "/" + job.Name
	tell("write", put(p, os.O_CREATE|os.O_WRONLY, "x"))
	tell("as root of a user namespace", inUserNS(job, "userns-inner", ""))
}

// innerActions are performed by a copy of this program inside a user namespace.
func innerActions(job escape.Job) {
	switch job.Action {
	case "userns-inner":
		p := job.WS + "/" + job.Name
		tell("chown", unix.Chown(p, 4242, 4242))
		tell("mount", unix.Mount("tmpfs", job.WS, "tmpfs", 0, ""))
		tell("bind over /etc", unix.Mount(job.WS, "/etc", "", unix.MS_BIND, ""))
	case "remount-inner":
		tell("remount", unix.Mount("", job.Arg, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
		tell("write", put(job.Arg+"/"+job.Name, os.O_CREATE|os.O_WRONLY, job.Marker))
	case "masked-inner":
		tell("mount proc", unix.Mount("proc", "/tmp", "proc", 0, ""))
		readMarked(job, "/tmp/kcore")
		readMarked(job, "/tmp/timer_list")
	}
}

// runSetuid runs the set-user-id program that the host planted.
func runSetuid(job escape.Job) {
	out, err := exec.Command(job.WS+"/suid-"+job.Name, "whoami", job.WS+"/euid-"+job.Name).CombinedOutput()
	tell("run set-user-id program: "+string(out), err)
}

// runFileCaps runs the program with file capabilities that the host planted;
// it stays so that the host can look at it.
func runFileCaps(job escape.Job) {
	cmd := exec.Command(job.WS+"/caps-"+job.Name, "wait", "5")
	tell("run program with file capabilities", cmd.Start())
}

// joinNamespaces enters every namespace that it can name.
func joinNamespaces(job escape.Job) {
	for fd := 3; fd < 64; fd++ {
		if unix.Setns(fd, 0) == nil {
			fmt.Println("+ descriptor", fd)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		for _, ns := range []string{"user", "net", "ipc", "uts", "pid", "cgroup"} {
			fd, err := unix.Open("/proc/"+e.Name()+"/ns/"+ns, unix.O_RDONLY, 0)
			if err != nil {
				continue
			}
			if unix.Setns(fd, 0) == nil {
				fmt.Println("+", e.Name(), ns)
			}
			_ = unix.Close(fd)
		}
	}
}

// chrootTwice walks out of a root that is only a chroot: it keeps a
// descriptor of the old root below which it makes another.
func chrootTwice(job escape.Job) {
	dir := job.WS + "/" + job.Name
	_ = os.Mkdir(dir, 0o755)
	old, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	tell("open root", err)
	tell("chroot", unix.Chroot(dir))
	tell("fchdir", unix.Fchdir(old))
	for range 64 {
		_ = unix.Chdir("..")
	}
	tell("chroot back", unix.Chroot("."))
	tell("read", read(path(job, job.Arg)))
}
