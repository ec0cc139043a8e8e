package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hostState is what a benchmark or a box must leave as it found it.
type hostState struct {
	things map[string]bool
	// mine says which processes and files count: on a machine where others work
	// too, only those that can be the lab's. nil: all.
	mine func(path string) bool
	lab  string // the lab's pid namespace, once there is one
}

// takeHost lists the processes, mounts, network interfaces, cgroups, System V
// objects, loop devices and the files of the places for passing things.
func takeHost(mine func(path string) bool, lab string) hostState {
	h := hostState{things: map[string]bool{}, mine: mine, lab: lab}
	own := pidNamespace(os.Getpid())
	for _, pid := range pidsOf("/proc") {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil || len(b) == 0 || strings.HasPrefix(status(pid, "State"), "Z") {
			continue // kernel threads come and go; the dead are gone
		}
		if mine != nil {
			// Another benchmark at the same time has a lab, and so a namespace, of its own.
			ns := pidNamespace(pid)
			other := ns != own && ns != lab || strings.Contains(string(b), "\x00bench\x00")
			if other || !mine("/proc/"+strconv.Itoa(pid)+"/exe") {
				continue
			}
		}
		h.add("process", strconv.Itoa(pid)+" "+string(b[:min(len(b), 60)]))
	}
	h.lines("mount", "/proc/self/mountinfo", 4)
	for _, kind := range []string{"shm", "sem", "msg"} {
		h.lines(kind, "/proc/sysvipc/"+kind, 1)
	}
	h.folder("link", "/sys/class/net", 1)
	if mine == nil { // they are the machine's, not to be told from others'
		h.folder("cgroup", "/sys/fs/cgroup", 3)
	}
	h.folder("mqueue", "/dev/mqueue", 1)
	for _, d := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		h.folder("file", d, 1)
	}
	h.folder("file", "/run", 4)
	if mine == nil { // in the lab, where all of it is small
		h.folder("file", "/home", 5)
	}
	h.folder("netns", "/run/netns", 1)
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, l := range loops {
		h.add("loop", l)
	}
	return h
}

func pidNamespace(pid int) string {
	ns, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	return ns
}

func (h hostState) add(kind, what string) { h.things[kind+" "+what] = true }

// lines adds one field of each line of a file: 0 the whole line.
func (h hostState) lines(kind, file string, field int) {
	b, _ := os.ReadFile(file)
	for i, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > field {
			h.add(kind, f[field]+" #"+strconv.Itoa(countBefore(string(b), i, f[field], field)))
		}
	}
}

// countBefore numbers equal fields, so that a second mount on one place shows.
func countBefore(text string, line int, value string, field int) int {
	n := 0
	for i, l := range strings.Split(text, "\n") {
		if i >= line {
			break
		}
		if f := strings.Fields(l); len(f) > field && f[field] == value {
			n++
		}
	}
	return n
}

// folder adds the names below a folder, some levels deep; for cgroups only
// folders.
func (h hostState) folder(kind, dir string, depth int) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if kind == "cgroup" && !e.IsDir() {
			continue
		}
		p := dir + "/" + e.Name()
		if kind != "file" || h.mine == nil || h.mine(p) {
			h.add(kind, p)
		}
		if depth > 1 && e.IsDir() {
			h.folder(kind, p, depth-1)
		}
	}
}

// diff lists what is new and what is gone, without the paths that were meant
// to change.
func (h hostState) diff(after hostState, but ...string) []string {
	var out []string
	skip := func(s string) bool {
		return slices.ContainsFunc(but, func(b string) bool { return b != "" && strings.Contains(s, b) })
	}
	for t := range after.things {
		if !h.things[t] && !skip(t) {
			out = append(out, "+ "+strings.ReplaceAll(t, "\x00", " "))
		}
	}
	for t := range h.things {
		if !after.things[t] && !skip(t) {
			out = append(out, "- "+strings.ReplaceAll(t, "\x00", " "))
		}
	}
	slices.Sort(out)
	if len(out) > 20 {
		out = append(out[:20], fmt.Sprintf("and %d more", len(out)-20))
	}
	return out
}

// labOnly tells what can be the lab's from what others do on the same machine:
// files that run the lab's or the product's programs, or belong to one of the
// lab's users.
func labOnly(programs ...string) func(string) bool {
	known := map[[2]uint64]bool{}
	for _, p := range programs {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil {
			known[[2]uint64{st.Dev, st.Ino}] = true
		}
	}
	return func(p string) bool {
		var st unix.Stat_t
		if unix.Stat(p, &st) != nil {
			return false
		}
		return known[[2]uint64{st.Dev, st.Ino}] || st.Uid >= firstUID && st.Uid < firstUID+manyUIDs
	}
}
