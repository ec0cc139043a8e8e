package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/caisson-dev/caisson/escape"
)

// The library mends paths before the runtime sees them: it takes ".." out and
// finds the folder that a path lies below. A hostile program does not, so the
// call is made directly too.
//
//go:wasmimport wasi_snapshot_preview1 path_open
//go:noescape
func pathOpen(dir int32, lookup uint32, path string, create uint32, rights, inherited uint64, flags uint32, fd *int32) uint32

const (
	followLinks = 1           // lookupflags
	mayRead     = 1<<1 | 1<<5 // rights: fd_read, fd_tell
	mayWrite    = 1 << 6      // fd_write
	newFile     = 1           // oflags: create
	firstFD     = 3           // descriptors below are the standard ones
	manyFDs     = 16
)

var errNoWay = errors.New("no descriptor leads there")

// climbs are the ways up from a folder that may be joined with a path.
func climbs() []string {
	return []string{"", "/", "..", "../..", "../../../..", strings.Repeat("../", 16), "./../", "x/../../", "//"}
}

// readRaw reads a path relative to every folder that was handed in, as it is
// and by several ways up.
func readRaw(p string) error {
	for fd := int32(firstFD); fd < manyFDs; fd++ {
		for _, up := range climbs() {
			if readAt(fd, join(up, p)) {
				return nil
			}
		}
	}
	return errNoWay
}

// writeRaw writes a new file by the ways up from every folder that was handed
// in.
func writeRaw(p, text string) error {
	err := errNoWay
	for fd := int32(firstFD); fd < manyFDs; fd++ {
		for _, up := range climbs() {
			var at int32
			if pathOpen(fd, followLinks, join(up, p), newFile, mayWrite, mayWrite, 0, &at) != 0 {
				continue
			}
			if _, e := syscall.Write(int(at), []byte(text)); e == nil {
				fmt.Println("+ below descriptor", fd, join(up, p))
				err = nil
			}
			_ = syscall.Close(int(at))
		}
	}
	return err
}

func join(up, p string) string {
	p = strings.TrimPrefix(p, "/")
	if up == "" || strings.HasSuffix(up, "/") {
		return up + p
	}
	return up + "/" + p
}

// readAt prints what a path below a folder holds.
func readAt(dir int32, p string) bool {
	var fd int32
	if pathOpen(dir, followLinks, p, 0, mayRead, mayRead, 0, &fd) != 0 {
		return false
	}
	defer syscall.Close(int(fd))
	buf := make([]byte, 4096)
	n, err := syscall.Read(int(fd), buf)
	if err != nil || n <= 0 {
		return false
	}
	fmt.Println("+ below descriptor", dir, p)
	show(buf[:n])
	return true
}

// readFDs reads from every descriptor that was handed in, and below each that
// is a folder, by the ways up too.
func readFDs(job escape.Job) {
	for fd := int32(firstFD); fd < manyFDs; fd++ {
		buf := make([]byte, 256)
		if n, err := syscall.Pread(int(fd), buf, 0); err == nil && n > 0 {
			show(buf[:n])
		}
		for _, up := range climbs() {
			readAt(fd, join(up, job.Arg))
		}
	}
}

// writeFDs writes the marker into every descriptor that was handed in: a socket
// is one too.
func writeFDs(job escape.Job) {
	for fd := firstFD; fd < manyFDs; fd++ {
		_, err := syscall.Write(fd, []byte(job.Marker))
		tell(fmt.Sprint("descriptor ", fd), err)
	}
}

// WASI has neither pipes with names nor modes.
func mkfifo(string) error { return errors.ErrUnsupported }

func chmod(string, uint32) error { return errors.ErrUnsupported }
