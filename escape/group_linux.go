package escape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A labGroup is a control group of the machine's that boxes of a lab are put
// in. It is the one thing that a lab has on the host, so three take it away:
// the benchmark at its end; a watcher that was there before the group, when the
// benchmark is killed; and the next benchmark, when the watcher was killed too.
// Its name is the record: it says whose it is.
type labGroup struct {
	path  string
	watch *exec.Cmd
	alive io.Closer
}

const groupPrefix = "caisson-lab-"

// groupRoots are the hierarchies of version 1 of which any does: a box in one
// of them is bounded in nothing by it.
func groupRoots() []string { return []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/freezer"} }

// errNoGroup says why this machine gives the lab no control group.
var errNoGroup = errors.New("no control group can be made")

// newLabGroup sweeps what dead benchmarks left, starts a watcher and makes a
// group. The watcher is the given program.
func newLabGroup(ctx context.Context, tool string) (*labGroup, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: only root can", errNoGroup)
	}
	i := slices.IndexFunc(groupRoots(), func(root string) bool {
		var st unix.Statfs_t
		return unix.Statfs(root, &st) == nil && st.Type == unix.CGROUP_SUPER_MAGIC
	})
	if i < 0 {
		return nil, fmt.Errorf("%w: no hierarchy of version 1 has pids or the freezer", errNoGroup)
	}
	sweepGroups(groupRoots())
	g := &labGroup{path: filepath.Join(groupRoots()[i], groupPrefix+bearer(os.Getpid())+"-"+secret()[:8])}
	g.watch = exec.CommandContext(context.WithoutCancel(ctx), tool, "groupwatch", g.path)
	g.watch.SysProcAttr = &unix.SysProcAttr{Setsid: true} // what ends the benchmark leaves it
	alive, err := g.watch.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	g.alive = alive
	if err := g.watch.Start(); err != nil {
		return nil, fmt.Errorf("start the group's watcher: %w", err)
	}
	if err := os.Mkdir(g.path, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoGroup, err), g.close())
	}
	return g, nil
}

// close has the watcher take the group away, and waits for it. The lab, and
// with it every program in the group, is gone by then.
func (g *labGroup) close() error {
	_ = g.alive.Close()
	if err := g.watch.Wait(); err != nil {
		return fmt.Errorf("remove %s: %w", g.path, err)
	}
	return nil
}

// groupWatch waits until its input ends, as it does when the benchmark is
// gone, and takes the group away that its argument names.
func groupWatch(args []string) error {
	_, _ = io.Copy(io.Discard, os.Stdin)
	var err error
	for range 500 { // what was in it is dying
		if err = removeGroup(args[0]); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// removeGroup removes a group and those in it. Nothing is killed: a group that
// is in use stays, and is an error.
func removeGroup(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read group: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove group: %w", err)
	}
	return nil
}

// sweepGroups removes the groups whose benchmark is no more.
func sweepGroups(roots []string) {
	for _, root := range roots {
		found, _ := filepath.Glob(filepath.Join(root, groupPrefix+"*"))
		for _, path := range found {
			f := strings.Split(strings.TrimPrefix(filepath.Base(path), groupPrefix), "-")
			pid, err := strconv.Atoi(f[0])
			if err != nil || len(f) != 3 || bearer(pid) == f[0]+"-"+f[1] {
				continue
			}
			_ = removeGroup(path) // in use by what is dying: the next one finds it again
		}
	}
}

// plantsGroup says whether any of the rows needs the lab's control group.
func plantsGroup(ids []string) bool {
	corpus, err := Corpus()
	return err == nil && slices.ContainsFunc(corpus, func(p Probe) bool { return p.Plant == "group" && slices.Contains(ids, p.ID) })
}

// bearer tells a process from others that have its number later: the number
// and the moment of its start.
func bearer(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 20 {
		return ""
	}
	return strconv.Itoa(pid) + "-" + f[19]
}

// plantGroup has the box put into the lab's control group where the lab does
// that, keeps in which groups the program begins, and then lets it act.
func plantGroup(t *trial, _ string) error {
	if t.l.Group == "" {
		return fmt.Errorf("%w: %s", errNotHere, t.l.NoGroup)
	}
	t.group = filepath.Join(t.l.Group, "box")
	if err := os.MkdirAll(t.group, 0o755); err != nil {
		return fmt.Errorf("make group: %w", err)
	}
	t.onStart = func() error {
		t.groups = map[string]bool{}
		for _, pid := range t.probeTasks() {
			for _, line := range groupsOf(pid) {
				t.groups[line] = true
			}
		}
		if len(t.groups) == 0 {
			return errors.New("the program's control groups cannot be read")
		}
		return t.write(t.ws+"/go-"+t.name, "go\n", 0o644)
	}
	return nil
}

// groupsOf gives the lines of a process's control groups, as the host sees them.
func groupsOf(pid int) []string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return strings.Fields(string(b))
}

// seeOtherGroup looks whether a program of the box is in a group that it did
// not begin in.
func seeOtherGroup(t *trial, _ string) outcome {
	for _, pid := range t.probeTasks() {
		for _, line := range groupsOf(pid) {
			if !t.groups[line] {
				return outcome{breached: true, evidence: "a program of the box went to the control group " + line}
			}
		}
	}
	return outcome{evidence: "every program is in the control groups that it began in"}
}
