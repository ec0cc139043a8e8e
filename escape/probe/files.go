//go:build linux || wasip1

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/escape"
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
		return mkfifo(p)
	case "chmod":
		mode, err := strconv.ParseUint(f[1], 8, 32)
		if err != nil {
			return err
		}
		return chmod(two(), uint32(mode))
	}
	return fmt.Errorf("unknown operation %s", f[0])
}

func read(p string) error {
	b, err := os.ReadFile(p)
	if err == nil {
		show(b)
		return nil
	}
	if readRaw(p) == nil {
		return nil
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
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil && writeRaw(p, text) != nil {
		return err
	}
	f, err := os.OpenFile(p, flags, 0o755)
	if err != nil {
		if writeRaw(p, text) == nil {
			return nil
		}
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// readCwd reads relative to the folder that the program was started in.
func readCwd(job escape.Job) {
	for _, up := range []string{"./", "../", "../../", "../../../"} {
		tell(up, read(up+job.Arg))
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
			runtime.Gosched() // where there is one thread, the writer's turn
		}
	}()
	rounds := 0
	for time.Now().Before(stop) && rounds < 20000 {
		_ = put(dir+"/"+job.Name, os.O_CREATE|os.O_WRONLY, job.Marker)
		rounds++
		runtime.Gosched()
	}
	fmt.Println("rounds", rounds)
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
