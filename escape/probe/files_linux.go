package main

import (
	"encoding/hex"
	"errors"
	"os"
	"strconv"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// procRoot looks for the file of the row below the root and the working
// folder of every process that it can name.
func procRoot(job escape.Job) {
	p := path(job, job.Arg)
	pids := []string{"self", "thread-self", "1", "2", "3", strconv.Itoa(os.Getppid())}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil && len(pids) < 64 {
			pids = append(pids, e.Name())
		}
	}
	for _, pid := range pids {
		tell(pid, read("/proc/"+pid+"/root"+p))
		tell(pid, read("/proc/"+pid+"/cwd/../../.."+p))
	}
}

// readFDs reads from every inherited descriptor, and below each that is a folder.
func readFDs(job escape.Job) {
	for fd := 3; fd < 64; fd++ {
		buf := make([]byte, 256)
		if n, err := unix.Pread(fd, buf, 0); err == nil && n > 0 {
			show(buf[:n])
		}
		sub, err := unix.Openat(fd, job.Arg, unix.O_RDONLY, 0)
		if err != nil {
			continue
		}
		if n, err := unix.Read(sub, buf); err == nil && n > 0 {
			show(buf[:n])
		}
		_ = unix.Close(sub)
	}
}

// openHandle opens a file by the handle that the host wrote into the job.
func openHandle(job escape.Job) {
	raw, err := hex.DecodeString(job.Facts["handle"])
	if err != nil {
		tell("handle", err)
		return
	}
	kind, _ := strconv.ParseInt(job.Facts["handle_type"], 10, 32)
	mnt, err := unix.Open(job.WS, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		tell("open workspace", err)
		return
	}
	fd, err := unix.OpenByHandleAt(mnt, unix.NewFileHandle(int32(kind), raw), unix.O_RDONLY)
	tell("open_by_handle_at", err)
	if err != nil {
		return
	}
	buf := make([]byte, 256)
	if n, err := unix.Read(fd, buf); err == nil {
		show(buf[:n])
	}
}

// remount tries to make a read-only mount writable, then writes into it.
func remount(job escape.Job) {
	dir := path(job, job.Arg)
	tell("remount", unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	tell("mount_setattr", unix.MountSetattr(-1, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
	tell("write", put(dir+"/"+job.Name, os.O_CREATE|os.O_WRONLY, job.Marker))
	tell("write in a user namespace", inUserNS(job, "remount-inner", dir))
}

// makeDevices leaves a set-user-id program and a device node in the workspace.
func makeDevices(job escape.Job) {
	p := job.WS + "/" + job.Name
	tell("write", put(p, os.O_CREATE|os.O_WRONLY, "x"))
	tell("chown", unix.Chown(p, 0, 0))
	tell("chmod", unix.Chmod(p, 0o4755))
	tell("mknod", unix.Mknod(p+".dev", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
}

func mkfifo(p string) error { return unix.Mkfifo(p, 0o644) }

func chmod(p string, mode uint32) error { return unix.Chmod(p, mode) }

// readRaw and writeRaw are for runtimes whose library mends paths; here the
// kernel sees them as they are.
func readRaw(string) error { return errors.ErrUnsupported }

func writeRaw(string, string) error { return errors.ErrUnsupported }
