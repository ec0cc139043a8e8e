package testenv

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Host is what a box could leave on this host, at one moment: processes below
// this one, descriptors of this one, mounts, network namespaces and interfaces, cgroups, nft
// tables, SysV objects, and the files of some folders.
type Host struct {
	folders []string
	groups  string            // cgroups of which a name has this in it
	items   map[string]string // what it is → its state; a change of it counts too
}

// HostState looks at the host, and at the files in and below folders. From the
// first call on this process is the parent of what its descendants orphan, so
// that nothing escapes the comparison.
func HostState(t testing.TB, folders ...string) *Host {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatalf("testenv: become the parent of orphans: %v", err)
	}
	h, err := look(folders, "")
	if err != nil {
		t.Fatalf("testenv: look at the host: %v", err)
	}
	return h
}

// OnlyCgroups leaves out of the comparison the cgroups whose name does not have
// mark in it, such as the id of a box: other tests of this host may leave theirs.
func (h *Host) OnlyCgroups(mark string) *Host {
	marked := &Host{folders: h.folders, groups: mark, items: map[string]string{}}
	for key, state := range h.items {
		if path, is := strings.CutPrefix(key, "cgroup "); !is || strings.Contains(filepath.Base(path), mark) {
			marked.items[key] = state
		}
	}
	return marked
}

// Left returns what is on the host now and was not, has changed, or, of files
// and mounts, is gone since h, one line each, sorted; nil if all is as it was.
func (h *Host) Left() ([]string, error) {
	now, err := look(h.folders, h.groups)
	if err != nil {
		return nil, err
	}
	return difference(h.items, now.items), nil
}

// LeftOf is Left for some kinds alone: "process", "descriptor", "network
// namespace", "file", "mount", "cgroup", ...
func (h *Host) LeftOf(kinds ...string) ([]string, error) {
	left, err := h.Left()
	return slices.DeleteFunc(left, func(s string) bool {
		_, what, _ := strings.Cut(s, ": ")
		return !slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(what, k+" ") })
	}), err
}

// AwaitClean looks again and again until the host is as it was, and fails the
// test if it is not within the time. Of what is the whole host's (mounts, cgroups,
// interfaces, tables, SysV objects) only that counts which was different in every look:
// other programs come and go.
func (h *Host) AwaitClean(t testing.TB, within time.Duration) {
	t.Helper()
	if left := h.Await(t, within); len(left) > 0 {
		t.Errorf("the host is not as it was after %v:\n\t%s", within, strings.Join(left, "\n\t"))
	}
}

// Await is AwaitClean for those who judge themselves what was left.
func (h *Host) Await(t testing.TB, within time.Duration) []string {
	t.Helper()
	deadline := time.Now().Add(within)
	var before []string
	for first, pause := true, time.Millisecond; ; first, pause = false, min(2*pause, 50*time.Millisecond) {
		left, err := h.Left()
		if err != nil {
			t.Fatalf("testenv: look at the host: %v", err)
		}
		if !first {
			left = slices.DeleteFunc(left, func(s string) bool { return !ours(s) && !slices.Contains(before, s) })
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		before = left
		time.Sleep(pause)
	}
}

// ours reports whether a difference is one that only this test can have made.
func ours(difference string) bool {
	_, what, _ := strings.Cut(difference, ": ")
	for _, kind := range []string{"process ", "descriptor ", "network namespace ", "file "} {
		if strings.HasPrefix(what, kind) {
			return true
		}
	}
	return false
}

// ReapOrphans reaps the zombies among this process's children: those that a
// killed parent left to us. No child that this test started itself, and has not waited for,
// may have ended.
func ReapOrphans() {
	for pid, p := range processes() {
		if p.parent == os.Getpid() && p.state == "Z" {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // somebody else reaped it
		}
	}
}

func difference(before, after map[string]string) (diff []string) {
	for key, state := range after {
		switch old, was := before[key]; {
		case !was:
			diff = append(diff, "left: "+key+" "+state)
		case old != state:
			diff = append(diff, "changed: "+key+": "+old+" → "+state)
		}
	}
	for key := range before {
		if _, is := after[key]; !is && (strings.HasPrefix(key, "file ") || strings.HasPrefix(key, "mount ")) {
			diff = append(diff, "gone: "+key)
		}
	}
	slices.Sort(diff)
	return diff
}

func look(folders []string, groups string) (*Host, error) {
	h := &Host{folders: folders, groups: groups, items: map[string]string{}}
	all := processes()
	h.addProcesses(all)
	h.addInterfaces()
	h.addGroups(all)
	h.addNFT()
	for _, add := range []func() error{h.addMounts, h.addSysV, h.addFiles} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	return h, nil
}

type process struct {
	parent             int
	name, state, start string
}

// processes returns every process that can be seen. One that ends while it is
// looked at is left out.
func processes() map[int]process {
	all := map[int]process{}
	entries, _ := os.ReadDir("/proc") // without it there are none, and every test of processes fails
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		open, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
		f := strings.Fields(string(stat[end+1:]))
		if open < 0 || len(f) < 20 {
			continue
		}
		parent, _ := strconv.Atoi(f[1])
		all[pid] = process{parent: parent, name: string(stat[open+1 : end]), state: f[0], start: f[19]}
	}
	return all
}

// addProcesses adds this process's descendants, the network namespaces that
// they or one of our descriptors hold, and our descriptors.
func (h *Host) addProcesses(all map[int]process) {
	self := os.Getpid()
	own, _ := os.Readlink("/proc/self/ns/net")
	for pid, p := range all {
		if !descends(all, pid, self) {
			continue
		}
		zombie := ""
		if p.state == "Z" {
			zombie = " zombie"
		}
		h.items[fmt.Sprintf("process %d started %s", pid, p.start)] = "(" + p.name + ")" + zombie
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil && ns != own {
			h.items["network namespace "+ns] = ""
		}
	}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case err != nil: // the folder's own
		case strings.HasPrefix(target, "net:[") && target != own:
			h.items["network namespace "+target] = ""
		case target == "anon_inode:[eventpoll]", target == "anon_inode:[eventfd]": // the runtime's own
		case strings.HasPrefix(target, "/proc/"): // this very look
		default:
			h.items["descriptor "+e.Name()] = target
		}
	}
}

func descends(all map[int]process, pid, from int) bool {
	for range len(all) {
		p, ok := all[pid]
		if !ok {
			return false
		}
		if p.parent == from {
			return true
		}
		pid = p.parent
	}
	return false
}

func (h *Host) addMounts() error {
	return eachLine("/proc/self/mountinfo", func(line string) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return
		}
		_, fsys, _ := strings.Cut(line, " - ")
		h.items["mount "+f[0]+" on "+f[4]] = fsys
		if strings.HasPrefix(f[3], "net:[") {
			h.items["network namespace "+f[3]] = ""
		}
	})
}

func (h *Host) addInterfaces() {
	interfaces, _ := net.Interfaces() // none without netlink, before as after
	for _, i := range interfaces {
		h.items["interface "+i.Name] = ""
	}
}

// addGroups adds the cgroups that are nobody else's: those without a process
// that is none of ours. What boxes of other programs live in comes and goes.
func (h *Host) addGroups(all map[int]process) {
	self := os.Getpid()
	own := func(pid int) bool { return pid == self || descends(all, pid, self) }
	h.addGroup("/sys/fs/cgroup", own)
}

// addGroup reports whether the group, or one below, has somebody else's process.
func (h *Host) addGroup(path string, own func(pid int) bool) (foreign bool) {
	_ = eachLine(filepath.Join(path, "cgroup.procs"), func(line string) { // no group, or gone by now
		pid, err := strconv.Atoi(line)
		foreign = foreign || err == nil && !own(pid)
	})
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() && h.addGroup(filepath.Join(path, e.Name()), own) {
			foreign = true
		}
	}
	if !foreign && strings.Contains(filepath.Base(path), h.groups) {
		h.items["cgroup "+path] = ""
	}
	return foreign
}

func (h *Host) addNFT() {
	path, err := exec.LookPath("nft")
	if err != nil || os.Geteuid() != 0 {
		return
	}
	out, err := exec.Command(path, "list", "tables").Output()
	if err != nil {
		return // no nf_tables in this kernel
	}
	for line := range strings.Lines(string(out)) {
		h.items["nft "+strings.TrimSpace(line)] = ""
	}
}

func (h *Host) addSysV() error {
	for _, kind := range []string{"shm", "sem", "msg"} {
		header := true
		err := eachLine("/proc/sysvipc/"+kind, func(line string) {
			if f := strings.Fields(line); !header && len(f) > 1 {
				h.items["SysV "+kind+" "+f[1]] = ""
			}
			header = false
		})
		if err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (h *Host) addFiles() error {
	for _, folder := range h.folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				if os.IsNotExist(err) {
					return nil // it went while we walked
				}
				return err
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			state := info.Mode().String()
			if !d.IsDir() { // a folder's time changes with each file that came and went
				state += fmt.Sprintf(" %d bytes of %s", info.Size(), info.ModTime().Format(time.RFC3339Nano))
			}
			h.items["file "+path] = state
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
