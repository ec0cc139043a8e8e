//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// Socket is one end of a connected SOCK_STREAM unix socket that carries bytes
// and descriptors. One goroutine may read while others write; writes take turns.
// It waits in Go's poller, not in a thread.
type Socket struct {
	file *os.File
	raw  syscall.RawConn

	reading sync.Mutex
	oob     []byte // of the read under way
	writing sync.Mutex

	mu      sync.Mutex
	limit   int
	pending []int // received and not taken
	closed  bool
}

// errTooManyDescriptors ends a socket whose peer sends descriptors that nobody
// takes.
var errTooManyDescriptors = errors.New("receive descriptors: more than are allowed at once")

// NewSocket takes the descriptor over; it is closed on error too. At most limit
// received descriptors wait to be taken; one more ends the socket.
func NewSocket(fd, limit int) (*Socket, error) {
	syscall.CloseOnExec(fd)
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err == nil && kind != syscall.SOCK_STREAM {
		err = syscall.EPROTOTYPE
	}
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("open socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("open socket: %w", err)
	}
	return &Socket{file: file, raw: raw, limit: limit, oob: make([]byte, syscall.CmsgSpace(4*(limit+1)))}, nil
}

// Socketpair returns two connected sockets of which the second is a bare
// descriptor, close-on-exec, for a child to inherit.
func Socketpair(limit int) (*Socket, int, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("make socketpair: %w", err)
	}
	s, err := NewSocket(fds[0], limit)
	if err != nil {
		_ = syscall.Close(fds[1])
		return nil, -1, err
	}
	return s, fds[1], nil
}

// Read reads bytes and keeps the descriptors that came with them. A read ends
// with the bytes that carry descriptors, so those of two messages never meet.
func (s *Socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	oob := s.oob
	var n, oobn, flags int
	var err error
	waitErr := s.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, err = syscall.Recvmsg(int(fd), p, oob, syscall.MSG_CMSG_CLOEXEC)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
	if waitErr != nil {
		err = s.waited(waitErr)
	}
	if err != nil {
		return 0, fmt.Errorf("read socket: %w", err)
	}
	if oobn > 0 || flags&syscall.MSG_CTRUNC != 0 {
		if err := s.keep(oob[:oobn], flags&syscall.MSG_CTRUNC != 0); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// keep adds what a control message brought to the pending descriptors, or
// closes it all.
func (s *Socket) keep(oob []byte, truncated bool) error {
	messages, err := syscall.ParseSocketControlMessage(oob)
	var fds []int
	for _, m := range messages {
		if m.Header.Level != syscall.SOL_SOCKET || m.Header.Type != syscall.SCM_RIGHTS {
			continue
		}
		got, parseErr := syscall.ParseUnixRights(&m)
		if parseErr != nil {
			err = parseErr
		}
		fds = append(fds, got...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && (truncated || s.closed || len(s.pending)+len(fds) > s.limit) {
		err = errTooManyDescriptors
	}
	if err != nil {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		return err
	}
	s.pending = append(s.pending, fds...)
	return nil
}

// ReceiveDescriptors takes the descriptors that came with the bytes read so far.
// They are close-on-exec, and the caller's.
func (s *Socket) ReceiveDescriptors() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	fds := s.pending
	s.pending = nil
	return fds
}

// Write writes all of p.
func (s *Socket) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.send(p, nil)
}

// SendDescriptors writes all of p, which is not empty, and passes fds with its
// first byte. They stay the caller's.
func (s *Socket) SendDescriptors(p []byte, fds []int) error {
	if len(p) == 0 {
		return fmt.Errorf("send descriptors: %w", syscall.EINVAL)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.send(p, syscall.UnixRights(fds...))
	return err
}

// send writes p with the control message on its first byte.
func (s *Socket) send(p, oob []byte) (sent int, err error) {
	waitErr := s.raw.Write(func(fd uintptr) bool {
		for sent < len(p) {
			var n int
			n, err = syscall.SendmsgN(int(fd), p[sent:], oob, nil, syscall.MSG_NOSIGNAL)
			switch err {
			case nil:
				sent += n
				oob = nil
			case syscall.EINTR:
			case syscall.EAGAIN:
				return false
			default:
				return true
			}
		}
		err = nil
		return true
	})
	if waitErr != nil {
		err = s.waited(waitErr)
	}
	if err != nil {
		return sent, fmt.Errorf("write socket: %w", err)
	}
	return sent, nil
}

// waited is the error of a wait: the poller's own says only in words that the
// file was closed.
func (s *Socket) waited(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	return err
}

// Close ends the socket at once, also for who reads or writes, and closes the
// descriptors that nobody took.
func (s *Socket) Close() error {
	s.mu.Lock()
	s.closed = true
	fds := s.pending
	s.pending = nil
	s.mu.Unlock()
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
	return s.file.Close()
}
