//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// openDevices opens what leads to the host's hardware and keeps it open.
func openDevices(escape.Job) {
	for _, p := range []string{
		"/dev/mem", "/dev/port", "/dev/fuse", "/dev/net/tun", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/loop-control",
		"/dev/uinput", "/dev/input/event0", "/dev/dri/card0", "/dev/ttyS0", "/dev/vsock", "/dev/kmsg",
	} {
		for _, mode := range []int{unix.O_RDWR, unix.O_RDONLY} {
			_, err := unix.Open(p, mode|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
			tell(p, err)
		}
	}
}

// openKVM asks KVM for its version and nothing more, and keeps it open.
func openKVM(escape.Job) {
	fd, err := unix.Open("/dev/kvm", unix.O_RDWR, 0)
	tell("open /dev/kvm", err)
	if err == nil {
		v, err := unix.IoctlRetInt(fd, 0xae00)
		tell(fmt.Sprint("KVM_GET_API_VERSION ", v), err)
	}
}

// readBlockDevice makes a node for a block device of the host and reads it.
func readBlockDevice(job escape.Job) {
	major, _ := strconv.Atoi(job.Facts["major"])
	minor, _ := strconv.Atoi(job.Facts["minor"])
	for _, dir := range []string{job.WS, "/tmp", "/dev"} {
		p := dir + "/" + job.Name
		err := unix.Mknod(p, unix.S_IFBLK|0o600, int(unix.Mkdev(uint32(major), uint32(minor))))
		tell("mknod "+p, err)
		if err == nil {
			b := make([]byte, 512)
			f, err := os.Open(p)
			tell("open", err)
			if err == nil {
				n, _ := f.Read(b)
				show(b[:n])
				_ = f.Close()
			}
			_ = os.Remove(p)
		}
	}
}

// dialVsock connects to the lab's own listener, and to nothing else: behind
// the host's address there may be a real one.
func dialVsock(job escape.Job) {
	port, _ := strconv.ParseUint(job.Facts["vsock"], 10, 32)
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	tell("socket", err)
	if err != nil {
		return
	}
	err = unix.Connect(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_LOCAL, Port: uint32(port)})
	tell("connect", err)
	if err == nil {
		_, _ = unix.Write(fd, []byte(job.Marker))
	}
}

// printFacts prints what the machine tells of itself.
func printFacts(job escape.Job) {
	var u unix.Utsname
	switch job.Arg {
	case "host":
		_ = unix.Uname(&u)
		show(u.Nodename[:])
	case "release":
		_ = unix.Uname(&u)
		show(u.Release[:])
	case "uptime":
		tell("uptime", read("/proc/uptime"))
		var ts unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
			fmt.Println("boottime", ts.Sec)
		}
	case "log":
		b := make([]byte, 4096)
		n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
		tell("syslog", err)
		if err == nil {
			show(b[:n])
		}
	case "user":
		for _, e := range os.Environ() {
			fmt.Println(e)
		}
		fmt.Println(os.Getuid(), job.WS)
		tell("passwd", read("/etc/passwd"))
	default:
		for _, p := range splitList(job.Arg) {
			tell(p, read(p))
		}
	}
}
