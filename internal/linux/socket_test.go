//go:build linux

package linux

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// sockets returns both ends of a pair; each takes at most limit descriptors.
func sockets(t *testing.T, limit int) (a, b *Socket) {
	t.Helper()
	a, fd, err := Socketpair(limit)
	if err != nil {
		t.Fatal(err)
	}
	b, err = NewSocket(fd, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

func TestSocketBytes(t *testing.T) {
	a, b := sockets(t, 0)
	want := bytes.Repeat([]byte{0, 1, 2, 255}, 1<<20) // more than the socket holds
	go func() {
		if n, err := a.Write(want); n != len(want) || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// TestSocketDescriptors: descriptors come with the first byte of their message,
// in order, close-on-exec.
func TestSocketDescriptors(t *testing.T) {
	a, b := sockets(t, 3)
	var files [3]*os.File
	var fds []int
	for i := range files {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		files[i] = r
		fds = append(fds, int(w.Fd()))
		defer func() { _ = w.Close() }()
	}
	if _, err := a.Write([]byte("before")); err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), 100_000)
	sent := make(chan error, 1)
	go func() { sent <- a.SendDescriptors(long, fds) }()
	buf := make([]byte, len(long))
	if _, err := io.ReadFull(b, buf[:6]); err != nil {
		t.Fatal(err)
	}
	if got := b.ReceiveDescriptors(); got != nil {
		t.Errorf("descriptors %v before their message", got)
	}
	if _, err := b.Read(buf[:1]); err != nil {
		t.Fatal(err)
	}
	got := b.ReceiveDescriptors()
	if len(got) != 3 {
		t.Fatalf("%d descriptors with the first byte", len(got))
	}
	if _, err := io.ReadFull(b, buf[1:]); err != nil || !bytes.Equal(buf, long) {
		t.Error("the bytes differ, or ", err)
	}
	if again := b.ReceiveDescriptors(); again != nil {
		t.Errorf("descriptors %v a second time", again)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	for i, fd := range got {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %d, %v", fd, flags, errno)
		}
		f := os.NewFile(uintptr(fd), "")
		_, _ = f.Write([]byte{byte(i)})
		_ = f.Close()
		var one [1]byte
		if _, err := files[i].Read(one[:]); err != nil || one[0] != byte(i) {
			t.Errorf("descriptor %d leads elsewhere: %d, %v", i, one[0], err)
		}
	}
}

// TestSocketTooManyDescriptors: what is over the limit is closed, and ends the
// socket; what is within is the control.
func TestSocketTooManyDescriptors(t *testing.T) {
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "marked"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	many := make([]int, 253)
	for i := range many {
		many[i] = int(file.Fd())
	}
	for count, limit := range map[int]int{1: 0, 3: 3, 4: 3, 253: 3} {
		a, b := sockets(t, limit)
		if err := a.SendDescriptors([]byte("x"), many[:count]); err != nil {
			t.Fatal(err)
		}
		_, err := b.Read(make([]byte, 1))
		if wrong := count > limit; wrong != errors.Is(err, errTooManyDescriptors) {
			t.Errorf("%d of at most %d: %v", count, limit, err)
		}
		_ = b.Close() // closes those that nobody took
	}
	a, b := sockets(t, 3)
	for _, want := range []error{nil, errTooManyDescriptors} { // two messages of two
		if err := a.SendDescriptors([]byte("x"), many[:2]); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(make([]byte, 9)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	_ = b.Close()
	if n := leadTo(t, file.Name()); n != 1 {
		t.Errorf("%d descriptors lead to the file", n)
	}
}

// leadTo counts the open descriptors of a file.
func leadTo(t *testing.T, path string) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		if link, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && link == path {
			n++
		}
	}
	return n
}

// TestSocketClose: a close ends those who wait.
func TestSocketClose(t *testing.T) {
	a, b := sockets(t, 0)
	var group sync.WaitGroup
	for _, wait := range []func() error{
		func() error { _, err := a.Read(make([]byte, 1)); return err },
		func() error { _, err := a.Write(make([]byte, 1<<24)); return err },
	} {
		group.Go(func() {
			if err := wait(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("after close: %v", err)
			}
		})
	}
	if _, err := b.Read(make([]byte, 1)); err != nil { // so the write is under way
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	if _, err := a.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
}

func TestSocketRefusesOthers(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	file, err := syscall.Dup(int(null.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(pair[1]) }()
	for fd, want := range map[int]error{file: syscall.ENOTSOCK, pair[0]: syscall.EPROTOTYPE} {
		if _, err := NewSocket(fd, 0); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if err := syscall.Close(fd); err != syscall.EBADF {
			t.Errorf("the descriptor that was refused is open: %v", err)
		}
	}
}
