//go:build linux

package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// addr is where a buffer lies, for the raw calls of a forked child; the
// caller keeps the buffer alive until the child is gone.
func addr(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// ioctlByte performs an ioctl whose argument points at one byte.
func ioctlByte(fd int, req uintptr, c byte) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), req, uintptr(unsafe.Pointer(&c)))
	if e != 0 {
		return e
	}
	return nil
}
