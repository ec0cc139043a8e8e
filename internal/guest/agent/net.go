//go:build linux

package agent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// conn is a connected TCP socket as a file. Package net would double what the
// guest needs to start.
type conn struct {
	*os.File
	fd int // of File, whose Fd would make it blocking
}

// CloseWrite sends the end of the stream and keeps reading possible.
func (c conn) CloseWrite() error { return unix.Shutdown(c.fd, unix.SHUT_WR) }

func dial(family int, addr unix.Sockaddr) (conn, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return conn{}, fmt.Errorf("open socket: %w", err)
	}
	// On the loopback a connect is answered at once, but for a full backlog.
	for {
		err = unix.Connect(fd, addr)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return conn{}, fmt.Errorf("connect: %w", err)
	}
	f, err := pollable(fd, "port")
	return conn{f, fd}, err
}

// pollable wraps a descriptor so that a Close ends a Read that waits.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make %s non-blocking: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
