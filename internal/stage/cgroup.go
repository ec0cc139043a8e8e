//go:build linux

package stage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits bound a box as a whole. A zero field is no limit.
type Limits struct {
	Memory int64   // bytes, swap included
	CPUs   float64 // of one processor's time
	Pids   int64   // processes and threads of the programs
}

// Controller is a part of the kernel's cgroups that limits one thing.
type Controller uint8

// The controllers that a box uses.
const (
	ControlMemory Controller = iota
	ControlPids
	ControlCPU
	ControlFreeze
	controllers // their number
)

// controllerNames are those of version 1; in version 2 freezing needs none.
var controllerNames = [controllers]string{"memory", "pids", "cpu", "freezer"}

// Cgroups is what this host lets the caller do with cgroups: where it may make
// them, for each controller, or why not.
type Cgroups struct {
	Version int // 1 or 2; 0 where there are none
	parent  [controllers]string
	refused [controllers]noCgroup
	enable  []step // version 2: what must be enabled before the first group
}

type noCgroup struct{ reason, fix string }

// step is one write that opens controllers to a folder's children.
type step struct{ file, text string }

// Can reports whether boxes can be bound by a controller, and if not why, and
// what helps.
func (c *Cgroups) Can(k Controller) (ok bool, reason, fix string) {
	if c.parent[k] != "" {
		return true, "", ""
	}
	return false, c.refused[k].reason, c.refused[k].fix
}

// FindCgroups looks for the place where the caller may make cgroups. It changes
// nothing.
func FindCgroups() *Cgroups { return findCgroups("") }

// findCgroups looks below host, which is empty but in tests.
func findCgroups(host string) *Cgroups {
	c := &Cgroups{}
	own, err := os.ReadFile(host + "/proc/self/cgroup")
	if err != nil {
		c.refuse("this kernel has no cgroups", "")
		return c
	}
	mounts, err := os.ReadFile(host + "/proc/self/mountinfo")
	if err != nil {
		c.refuse("the mounts of this host cannot be read: "+err.Error(), "")
		return c
	}
	h := hierarchies(own, mounts)
	if c.findV1(host, h); c.Version == 0 {
		c.findV2(host, h)
	}
	return c
}

// refuse gives every controller that has no place yet the same reason.
func (c *Cgroups) refuse(reason, fix string) {
	for k := range c.parent {
		if c.parent[k] == "" {
			c.refused[k] = noCgroup{reason, fix}
		}
	}
}

// hierarchies maps each controller of version 1, and "" for version 2, to the
// caller's own group: its folder where the hierarchy is mounted.
func hierarchies(own, mounts []byte) map[string]string {
	paths := map[string]string{}
	for line := range bytes.Lines(own) {
		// hierarchy-ID:controllers:path
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for name := range strings.SplitSeq(f[1], ",") {
			paths[name] = f[2]
		}
	}
	found := map[string]string{}
	for line := range bytes.Lines(mounts) {
		// Most lines are of other file systems: not worth splitting.
		before, after, ok := bytes.Cut(line, []byte(" - cgroup"))
		if !ok {
			continue
		}
		f, g := strings.Fields(string(before)), strings.Fields(string(after))
		if len(f) < 5 || len(g) < 1 {
			continue
		}
		root, point := f[3], f[4]
		names := []string{""}
		if after[0] == ' ' { // version 1; version 2 says cgroup2
			names = strings.Split(g[len(g)-1], ",")
		}
		for _, name := range names {
			p, ok := paths[name]
			if !ok || found[name] != "" {
				continue
			}
			if root != "/" { // a container sees a part of the hierarchy
				if p, ok = strings.CutPrefix(p, root); !ok {
					continue
				}
			}
			found[name] = path.Join(point, p)
		}
	}
	return found
}

// writable reports whether the caller may make groups in a folder and move
// processes by the named file of it.
func writable(dir, file string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir+"/"+file, unix.W_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%s/%s: %w", dir, file, err)
	}
	return nil
}

// Try makes a group with every limit that the host offers and removes it.
func (c *Cgroups) Try() error {
	if c.Version == 0 {
		return fmt.Errorf("try cgroup: %s", c.refused[ControlMemory].reason)
	}
	g, err := c.make(fmt.Sprintf("probe-%d", os.Getpid()), "")
	if err != nil {
		return err
	}
	return errors.Join(g.limit(Limits{Memory: 1 << 30, CPUs: 1, Pids: 100}), g.remove())
}

// writeFile writes to a control file. Each takes one value in one write.
func writeFile(file, text string) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	_, err = unix.Write(fd, []byte(text))
	unix.Close(fd)
	if err != nil {
		return fmt.Errorf("write %s to %s: %w", text, file, err)
	}
	return nil
}
