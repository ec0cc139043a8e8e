//go:build linux

package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/escape"
	"golang.org/x/sys/unix"
)

// fsOps performs file operations written in the row, separated by ";":
// "read P", "poll P" (for two seconds), "write P", "append P", "rename A B",
// "symlink TARGET P", "link A B", "unlink P", "fifo P", "chmod MODE P",
// "chdir P", "share P" (what this box would give another), "put P TEXT" (with MARKER and \n in it). Each goes on when another failed.
func fsOps(job escape.Job) {
	for _, op := range strings.Split(job.Arg, ";") {
		f := strings.Fields(op)
		if len(f) < 2 {
			continue
		}
		tell(op, fsOp(job, f))
	}
}

func fsOp(job escape.Job, f []string) error {
	p := path(job, f[1])
	two := func() string { return path(job, f[2]) }
	switch f[0] {
	case "read":
		return read(p)
	case "poll":
		return poll(p)
	case "write", "append":
		flags := os.O_CREATE | os.O_WRONLY
		if f[0] == "append" {
			flags |= os.O_APPEND
		}
		return put(p, flags, "# "+job.Marker+"\n")
	case "put":
		text := strings.ReplaceAll(strings.Join(f[2:], " "), "MARKER", job.Marker)
		return put(p, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, strings.ReplaceAll(text, `\n`, "\n"))
	case "share":
		return put(p, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, job.Facts["share"])
	case "rename":
		return os.Rename(p, two())
	case "symlink":
		if err := os.MkdirAll(filepath.Dir(two()), 0o755); err != nil {
			return err
		}
		return os.Symlink(p, two())
	case "link":
		return os.Link(p, two())
	case "unlink":
		return os.RemoveAll(p)
	case "mkdir":
		return os.MkdirAll(p, 0o755)
	case "chdir":
		return os.Chdir(p)
	case "fifo":
		return unix.Mkfifo(p, 0o644)
	case "chmod":
		mode, err := strconv.ParseUint(f[1], 8, 32)
		if err != nil {
			return err
		}
		return unix.Chmod(two(), uint32(mode))
	}
	return fmt.Errorf("unknown operation %s", f[0])
}

func read(p string) error {
	b, err := os.ReadFile(p)
	if err == nil {
		show(b)
	}
	return err
}

// poll reads a file as soon as it is there: it waits for another's doing, two
// seconds at the most.
func poll(p string) error {
	var err error
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var b []byte
		if b, err = os.ReadFile(p); err == nil && len(b) > 0 {
			show(b)
			return nil
		}
	}
	return err
}

func put(p string, flags int, text string) error {
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(p, flags, 0o755)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

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

// readCwd reads relative to the folder that the program was started in.
func readCwd(job escape.Job) {
	for _, up := range []string{"./", "../", "../../", "../../../"} {
		tell(up, read(up+job.Arg))
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

// flip swaps a folder for a link to HOME while another thread writes below it.
func flip(job escape.Job) {
	dir, out := job.WS+"/d", job.Home
	stop := time.Now().Add(time.Second)
	go func() {
		for time.Now().Before(stop) {
			_ = os.RemoveAll(dir)
			_ = os.Mkdir(dir, 0o755)
			_ = os.RemoveAll(dir)
			_ = os.Symlink(out, dir)
		}
	}()
	rounds := 0
	for time.Now().Before(stop) && rounds < 20000 {
		_ = put(dir+"/"+job.Name, os.O_CREATE|os.O_WRONLY, job.Marker)
		rounds++
	}
	fmt.Println("rounds", rounds)
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

// terminalEscapes prints sequences that a terminal would act on.
func terminalEscapes(job escape.Job) {
	fmt.Printf("\x1b]0;%s\x07\x1b]52;c;%s\x07\x1bP$qm\x1b\\\x1b[201~\n", job.Marker, job.Marker)
}

// gitRefs rewrites a branch, the packed references and a remote.
func gitRefs(job escape.Job) {
	git := job.WS + "/.git/"
	old := job.Facts["commit"]
	tell("ref", put(git+"refs/heads/main", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, old+"\n"))
	tell("packed-refs", put(git+"packed-refs", os.O_CREATE|os.O_WRONLY|os.O_APPEND, old+" refs/heads/"+job.Name+"\n"))
	tell("remote", put(git+"config", os.O_WRONLY|os.O_APPEND, "[remote \"origin\"]\n\turl = https://"+job.Marker+".test/\n"))
}

// readSiblings looks for other tasks' folders beside the workspace.
func readSiblings(job escape.Job) {
	up := filepath.Dir(job.WS)
	for _, root := range []string{up, filepath.Dir(up), "/tmp", "/var/tmp", "/run"} {
		n := 0
		_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if n++; err != nil || n > 2000 {
				return nil
			}
			if d.Type().IsRegular() && filepath.Base(p) == job.Arg && !strings.HasPrefix(p, job.WS+"/") {
				tell(p, read(p))
			}
			return nil
		})
	}
}
