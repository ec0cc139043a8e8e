package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// notifyContinue is the kind of the weak box in which nothing but a supervisor
// keeps files apart: it is asked at each open, looks at the path in the program's
// memory, and lets the kernel go on, which reads the path once more.
const notifyContinue = "notify-continue"

// supervise starts the program below a filter that asks this process, and
// answers until the program ends.
func supervise(s weakSpec) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make sockets: %w", err)
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("describe weak box: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "supervisor")
	cmd := exec.Command("/proc/self/exe", "notified", string(spec))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start program: %w", err)
	}
	_ = theirs.Close()
	listener, err := receiveFile(pair[0])
	if err != nil {
		return err
	}
	go answer(listener)
	if err := unix.Close(pair[0]); err != nil { // the program goes on
		return err
	}
	return cmd.Wait()
}

// notified puts the filter on this thread, hands what it asks by to the
// supervisor on descriptor 3, waits until that is ready, and becomes the program.
func notified(args []string) error {
	var s weakSpec
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := weakPrivileges(s); err != nil {
		return err
	}
	listener, err := askAtOpen()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("hand the listener over: %w", err)
	}
	_ = unix.Close(listener)
	if _, err := unix.Read(3, make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the supervisor: %w", err)
	}
	_ = unix.Close(3)
	return become(s.Inside)
}

// receiveFile takes the one descriptor that comes by a socket.
func receiveFile(sock int) (int, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(sock, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("receive the listener: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("receive the listener: %d messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("receive the listener: %d descriptors: %w", len(fds), err)
	}
	return fds[0], nil
}

// answer checks the path of each open that it is asked about, and has the kernel
// go on with it: that is the mistake.
func answer(listener int) {
	for {
		id, pid, path, err := nextOpen(listener)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue // the asking one is gone
		}
		if err != nil {
			return
		}
		_ = replyOpen(listener, id, mayOpen(pid, path))
	}
}

// mayOpen is the rule of this box: nothing that is named like a key.
func mayOpen(pid int, path uint64) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, int64(path))
	name, _, whole := bytes.Cut(b[:n], []byte{0})
	return whole && !strings.Contains(string(name), "ssh")
}
