//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// forks makes children that do nothing for a while.
func forks(job escape.Job) {
	made := 0
	for range number(job) {
		if _, err := forkPause(10_000); err != nil {
			tell("fork", err)
			break
		}
		made++
	}
	fmt.Println("made", made)
}

// orphans makes children and ends before they do.
func orphans(job escape.Job) { forks(job) }

// touchMemory uses memory, in pieces so that a limit is met on the way.
func touchMemory(job escape.Job) {
	for range number(job) / 16 {
		b, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			tell("mmap", err)
			return
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
}

// openMany opens descriptors and inotify watches.
func openMany(job escape.Job) {
	var lim unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &lim)
	lim.Cur = lim.Max
	tell("raise the limit", unix.Setrlimit(unix.RLIMIT_NOFILE, &lim))
	n := 0
	for ; n < number(job); n++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			tell("open", err)
			break
		}
	}
	fmt.Println("open", n)
}

// readShm reads the System V objects of the job's key.
func readShm(job escape.Job) {
	key, _ := strconv.Atoi(job.Facts["key"])
	for _, mode := range []int{0o600, 0o400, 0} {
		id, err := unix.SysvShmGet(key, 0, mode)
		tell("shmget", err)
		if err != nil {
			continue
		}
		b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
		tell("shmat", err)
		if err == nil {
			show(bytes.TrimRight(b, "\x00"))
			_ = unix.SysvShmDetach(b)
			break
		}
	}
	_ = read("/dev/shm/" + job.Facts["abstract"])
}

// putShm makes such objects with the share in them.
func putShm(job escape.Job) {
	key, _ := strconv.Atoi(job.Facts["key"])
	_ = os.WriteFile("/dev/shm/"+job.Facts["abstract"], []byte(job.Facts["share"]), 0o644)
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666)
	tell("shmget", err)
	if err != nil {
		return
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	tell("shmat", err)
	if err == nil {
		copy(b, job.Facts["share"])
	}
}
