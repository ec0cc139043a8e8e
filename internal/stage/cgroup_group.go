//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/linux"
)

// Cgroup is the group of one box: in version 1 a folder for each controller, in
// version 2 one for all.
type Cgroup struct {
	version int
	dir     [controllers]string // empty where the box has no such controller
	pids    int64               // the programs' limit, 0 for none
	record  string              // the file that lists it, removed with it; empty for none
}

// groupPrefix begins the name of every group of ours, in every place.
const groupPrefix = "caisson-"

// groupFile, in the sandbox's folder, lists the folders of the group, so that
// they are found when all who knew them have died.
const groupFile = "driver-cgroups"

// pidsReserve is what the guest's own threads may need beside the programs: a
// Go program that cannot make a thread dies. The programs' exact limit is
// RLIMIT_NPROC.
const pidsReserve = 64

func pidsMax(pids int64) string { return strconv.FormatInt(pids+pidsReserve, 10) }

// make makes the group of a box, without limits yet. Its folders are written
// down in the sandbox's folder first, if one is given. On an error nothing is
// left. It returns nil where the host has no controller for it.
func (c *Cgroups) make(id, dir string) (*Cgroup, error) {
	g := &Cgroup{version: c.Version}
	for k := range g.dir {
		if c.parent[k] != "" {
			g.dir[k] = path.Join(c.parent[k], groupPrefix+id)
		}
	}
	folders := g.folders()
	if len(folders) == 0 {
		return nil, nil
	}
	if dir != "" {
		text := []byte(strings.Join(g.words(), "\n") + "\n")
		g.record = path.Join(dir, groupFile)
		if err := os.WriteFile(g.record, text, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("record cgroup: %w", err), g.forget())
		}
	}
	for _, s := range c.enable {
		if err := writeFile(s.file, s.text); err != nil {
			return nil, errors.Join(fmt.Errorf("enable cgroup controller: %w", err), g.forget())
		}
	}
	for i, folder := range folders {
		if err := unix.Mkdir(folder, 0o755); err != nil {
			for _, made := range folders[:i] {
				_ = unix.Rmdir(made) // empty; the error that is told is the first
			}
			return nil, errors.Join(fmt.Errorf("make cgroup %s: %w", folder, err), g.forget())
		}
	}
	return g, nil
}

// limit sets the limits of the group, before a program is in it.
func (g *Cgroup) limit(l Limits) error {
	if g == nil {
		return nil
	}
	g.pids = l.Pids
	limit := g.limitV1
	if g.version == 2 {
		limit = g.limitV2
	}
	if err := limit(l); err != nil {
		return fmt.Errorf("limit cgroup: %w", err)
	}
	return nil
}

// folders returns each folder of the group once: controllers may be mounted
// together.
func (g *Cgroup) folders() []string {
	var f []string
	for _, d := range g.dir {
		if d != "" && !slices.Contains(f, d) {
			f = append(f, d)
		}
	}
	return f
}

// words writes the group as "VERSION CONTROLLER FOLDER", one per controller;
// parseGroup reads them.
func (g *Cgroup) words() []string {
	if g == nil {
		return nil
	}
	var w []string
	for k, d := range g.dir {
		if d != "" {
			w = append(w, fmt.Sprintf("%d %s %s", g.version, controllerNames[k], d))
		}
	}
	return w
}

// parseGroup refuses folders that are not a group's of ours: all in them is
// killed.
func parseGroup(words []string) (*Cgroup, error) {
	if len(words) == 0 {
		return nil, nil
	}
	g := &Cgroup{}
	for _, w := range words {
		f := strings.SplitN(w, " ", 3)
		k := -1
		if len(f) == 3 {
			k = slices.Index(controllerNames[:], f[1])
		}
		if k < 0 || f[0] != "1" && f[0] != "2" || !path.IsAbs(f[2]) || path.Clean(f[2]) != f[2] ||
			!strings.HasPrefix(path.Base(f[2]), groupPrefix) {
			return nil, fmt.Errorf("parse cgroup: %q is none of ours", w)
		}
		g.version = int(f[0][0] - '0')
		g.dir[k] = f[2]
	}
	return g, nil
}

// SweepCgroup ends and removes the group that the folder of a dead sandbox
// tells of. None is no error.
func SweepCgroup(dir string) error {
	b, err := os.ReadFile(path.Join(dir, groupFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read cgroup of sandbox: %w", err)
	}
	if len(b) == 0 {
		return nil // its keeper died before it wrote them down, and so before it made any
	}
	g, err := parseGroup(strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"))
	if err != nil {
		return err
	}
	for _, folder := range g.folders() {
		if err := g.killListed(folder); err != nil && !isMissing(err) {
			return err
		}
	}
	return errors.Join(g.kill(), g.remove())
}

// has reports whether the box is bound by a controller.
func (g *Cgroup) has(k Controller) bool { return g != nil && g.dir[k] != "" }

// fork calls f, which clones into namespaces as into says, from the calling
// thread, so that the child is in the group from its first moment. The thread
// must be locked.
func (g *Cgroup) fork(into *linux.Clone, f func() error) error {
	switch {
	case g == nil:
		return f()
	case g.version == 2:
		fd, err := unix.Open(g.dir[ControlFreeze], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open cgroup: %w", err)
		}
		defer unix.Close(fd)
		into.Cgroup = fd
		return f()
	}
	if err := g.enterV1(); err != nil {
		return errors.Join(err, g.leaveV1())
	}
	// If it cannot be left, the group would hold a thread of ours for ever, and
	// freeze it: the start fails, and the thread ends.
	return errors.Join(f(), g.leaveV1())
}

// kill ends what is in the group, also what is frozen. PID 1 must have been
// sent its SIGKILL before: in version 1 the others die of its death. A nil
// group has nothing to kill, and no method of one does anything.
func (g *Cgroup) kill() error {
	switch {
	case g == nil:
		return nil
	case g.version == 2:
		return g.killV2()
	}
	return g.killV1()
}

// removeTime bounds the wait for the last task to leave a group: it is seen in
// it a little longer than its parent knows of its end.
const removeTime = 10 * time.Second

// remove removes the group when all in it have ended.
func (g *Cgroup) remove() error {
	if g == nil {
		return nil
	}
	deadline := time.Now().Add(removeTime)
	var errs []error
	for _, folder := range g.folders() {
		for pause := 100 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
			err := unix.Rmdir(folder)
			if err == nil || err == unix.ENOENT {
				break
			}
			if err != unix.EBUSY || time.Now().After(deadline) {
				errs = append(errs, fmt.Errorf("remove cgroup %s: %w", folder, err))
				break
			}
			time.Sleep(pause)
		}
	}
	if len(errs) == 0 {
		return g.forget()
	}
	return errors.Join(errs...)
}

// forget removes the file that lists the group.
func (g *Cgroup) forget() error {
	if g.record == "" {
		return nil
	}
	if err := os.Remove(g.record); err != nil && !isMissing(err) {
		return fmt.Errorf("remove record of cgroup: %w", err)
	}
	return nil
}

// freeze stops or thaws all in the group, PID 1 too, and returns when they are.
func (g *Cgroup) freeze(ctx context.Context, frozen bool) error {
	set, is := g.freezeV1, g.isFrozenV1
	if g.version == 2 {
		set, is = g.freezeV2, g.isFrozenV2
	}
	if err := set(frozen); err != nil {
		return err
	}
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if now, err := is(); err != nil || now == frozen {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// reached names the limits that the box ran into. It is read from the kernel's
// counters, which nothing inside can change.
func (g *Cgroup) reached() []string {
	if g == nil {
		return nil
	}
	var names []string
	if g.outOfMemory() {
		names = append(names, "memory")
	}
	if dir := g.dir[ControlPids]; dir != "" && g.pids > 0 {
		refused, _ := readField(dir+"/pids.events", "max") // absent before 4.3
		// The programs' own limit refuses without counting, and counts the same
		// processes: the peak tells. Kernels before 6.1 keep none, and it is not told.
		peak, _ := readNumbers(dir + "/pids.peak")
		if refused > 0 || len(peak) == 1 && int64(peak[0]) >= g.pids {
			names = append(names, "pids")
		}
	}
	return names
}

// outOfMemory reports whether a process was killed and the group's own limit was
// at least once in the way: the host, or a group above, may have been short of
// memory too, and that is not the box's limit.
func (g *Cgroup) outOfMemory() bool {
	dir := g.dir[ControlMemory]
	if dir == "" {
		return false
	}
	if g.version == 2 {
		own, _ := readField(dir+"/memory.events", "oom")
		killed, _ := readField(dir+"/memory.events", "oom_kill")
		return own > 0 && killed > 0
	}
	killed, _ := readField(dir+"/memory.oom_control", "oom_kill")
	return killed > 0 && g.hitsV1()
}

func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }

// readWord reads a control file without its last newline.
func readWord(file string) (string, error) {
	b, err := os.ReadFile(file)
	return string(bytes.TrimSpace(b)), err
}

// readField reads a number from a file of lines "name number".
func readField(file, name string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, name)
}

// readNumbers reads a file of numbers, one a line.
func readNumbers(file string) ([]int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var n []int
	for _, f := range bytes.Fields(b) {
		v, err := strconv.Atoi(string(f))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		n = append(n, v)
	}
	return n, nil
}
