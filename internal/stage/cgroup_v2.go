//go:build linux

package stage

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// needV2 are the controllers of version 2 that limits need.
var needV2 = [...]Controller{ControlMemory, ControlPids, ControlCPU}

// findV2 looks for the nearest group, from the caller's own upwards, below
// which the caller may make others with all controllers: a group that holds processes
// cannot pass controllers on, so it is seldom the caller's own. It settles for
// fewer controllers only where no group has all.
func (c *Cgroups) findV2(host string, own map[string]string) {
	dir, ok := own[""]
	if !ok {
		c.refuse("no cgroups are mounted here", "mount -t cgroup2 none /sys/fs/cgroup")
		return
	}
	c.Version = 2
	var best *candidate
	var refused error
	// The mount's root is the first folder above that is no group any more.
	for d := host + dir; isGroup(d); d = path.Dir(d) {
		cand, err := judge(d)
		if err != nil {
			if refused == nil {
				refused = err
			}
			continue
		}
		if best == nil || len(cand.has) > len(best.has) {
			best = cand
		}
		if len(best.has) == len(needV2) {
			break
		}
	}
	if best == nil {
		c.refuse(fmt.Sprintf("no cgroup was delegated to this user: %v", refused), fixV2)
		return
	}
	c.parent[ControlFreeze] = best.dir // part of every group
	for _, k := range needV2 {
		if slices.Contains(best.has, k) {
			c.parent[k] = best.dir
		} else {
			c.refused[k] = noCgroup{
				fmt.Sprintf("the cgroup controller %s is not delegated to %s", controllerNames[k], best.dir), fixV2,
			}
		}
	}
	c.enable = best.enable
}

// fixV2 gives a shell a group of its own, with systemd's help.
const fixV2 = `start it in a scope of your own: systemd-run --user --scope -p Delegate=yes caisson ...; ` +
	`as root, once: mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\nDelegate=cpu memory pids\n' > /etc/systemd/system/user@.service.d/delegate.conf && systemctl daemon-reload`

// candidate is a group below which boxes' groups can be made.
type candidate struct {
	dir    string
	has    []Controller
	enable []step
}

func isGroup(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir+"/cgroup.procs", unix.F_OK, 0) == nil
}

// judge says what boxes' groups below dir could have, or why there can be
// none. Moving a process needs write access to cgroup.procs of the group that is above
// both its old place and its new: this one, which lies above the caller's.
func judge(dir string) (*candidate, error) {
	if err := writable(dir, "cgroup.procs"); err != nil {
		return nil, err
	}
	on, err := os.ReadFile(dir + "/cgroup.subtree_control")
	if err != nil {
		return nil, err
	}
	available, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil {
		return nil, err
	}
	c := &candidate{dir: dir}
	enabled, known := strings.Fields(string(on)), strings.Fields(string(available))
	for _, k := range needV2 {
		name := controllerNames[k]
		switch {
		case slices.Contains(enabled, name):
			c.has = append(c.has, k)
		case slices.Contains(known, name) && c.mayEnable():
			c.has = append(c.has, k)
			c.enable = append(c.enable, step{dir + "/cgroup.subtree_control", "+" + name})
		}
	}
	return c, nil
}

// mayEnable reports whether the candidate can pass more controllers on: it
// must hold no process itself, unless it is the hierarchy's root, which has no type.
func (c *candidate) mayEnable() bool {
	if unix.Faccessat(unix.AT_FDCWD, c.dir+"/cgroup.subtree_control", unix.W_OK, unix.AT_EACCESS) != nil {
		return false
	}
	if unix.Faccessat(unix.AT_FDCWD, c.dir+"/cgroup.type", unix.F_OK, 0) != nil {
		return true
	}
	b, err := os.ReadFile(c.dir + "/cgroup.procs")
	return err == nil && len(b) == 0
}

// limitV2 sets the limits of a group of version 2.
func (g *Cgroup) limitV2(l Limits) error {
	dir := g.dir[ControlFreeze]
	if g.dir[ControlMemory] != "" && l.Memory > 0 {
		if err := writeFile(dir+"/memory.max", strconv.FormatInt(l.Memory, 10)); err != nil {
			return err
		}
		// A kernel without swap accounting has no such file.
		if err := writeFile(dir+"/memory.swap.max", "0"); err != nil && !isMissing(err) {
			return err
		}
		// A box that lost one process to the limit is no box to go on with. Linux 4.19.
		if err := writeFile(dir+"/memory.oom.group", "1"); err != nil {
			return err
		}
	}
	if g.dir[ControlPids] != "" && l.Pids > 0 {
		if err := writeFile(dir+"/pids.max", pidsMax(l.Pids)); err != nil {
			return err
		}
	}
	if g.dir[ControlCPU] != "" && l.CPUs > 0 {
		return writeFile(dir+"/cpu.max", cpuQuota(l.CPUs)+" "+strconv.Itoa(cpuPeriod))
	}
	return nil
}

// killV2 kills all that is in the group, frozen or not. Before Linux 5.14 there
// is no cgroup.kill, and PID 1's death is the others'.
func (g *Cgroup) killV2() error {
	err := writeFile(g.dir[ControlFreeze]+"/cgroup.kill", "1")
	if isMissing(err) {
		return nil
	}
	return err
}

func (g *Cgroup) freezeV2(frozen bool) error {
	state := "0"
	if frozen {
		state = "1"
	}
	return writeFile(g.dir[ControlFreeze]+"/cgroup.freeze", state)
}

func (g *Cgroup) isFrozenV2() (bool, error) {
	n, err := readField(g.dir[ControlFreeze]+"/cgroup.events", "frozen")
	return n == 1, err
}
