//go:build linux

package stage

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// findV1 looks for the controllers of version 1, each in a hierarchy of its
// own. Who mixes them with version 2 (systemd's hybrid) has them here too.
func (c *Cgroups) findV1(host string, own map[string]string) {
	for k, name := range controllerNames {
		dir, ok := own[name]
		if !ok {
			c.refused[k] = noCgroup{"this host has no cgroup controller " + name, ""}
			continue
		}
		c.Version = 1
		if err := writable(host+dir, "tasks"); err != nil {
			c.refused[k] = noCgroup{
				"cgroups are version 1 here, which only root may use: " + err.Error(),
				"boot with systemd.unified_cgroup_hierarchy=1, or start caisson as root",
			}
			continue
		}
		c.parent[k] = host + dir
	}
}

// cpuPeriod is the span over which a quota is counted, in microseconds: the
// kernel's default.
const cpuPeriod = 100_000

// cpuQuota is the time per period, at least the kernel's minimum of 1 ms.
func cpuQuota(cpus float64) string {
	return strconv.FormatInt(max(int64(cpus*cpuPeriod), 1000), 10)
}

// limitV1 sets the limits of a group of version 1.
func (g *Cgroup) limitV1(l Limits) error {
	if dir := g.dir[ControlMemory]; dir != "" && l.Memory > 0 {
		size := strconv.FormatInt(l.Memory, 10)
		if err := writeFile(dir+"/memory.limit_in_bytes", size); err != nil {
			return err
		}
		// Memory and swap together. A kernel that does not account swap has no such
		// file: there the group's pages are kept out of swap.
		err := writeFile(dir+"/memory.memsw.limit_in_bytes", size)
		if isMissing(err) {
			err = writeFile(dir+"/memory.swappiness", "0")
		}
		if err != nil {
			return err
		}
	}
	if dir := g.dir[ControlPids]; dir != "" && l.Pids > 0 {
		if err := writeFile(dir+"/pids.max", pidsMax(l.Pids)); err != nil {
			return err
		}
	}
	if dir := g.dir[ControlCPU]; dir != "" && l.CPUs > 0 {
		return writeFile(dir+"/cpu.cfs_quota_us", cpuQuota(l.CPUs))
	}
	return nil
}

// enterV1 moves the calling thread into the group, which a child that it then
// forks is born into; leaveV1 moves it back. A thread that moves itself needs no lock
// of all processes, for which a move of another waits a grace period of RCU (5 to 20 ms on
// an idle host); and a child is never outside, nor sees the group's name, since its
// cgroup namespace begins there.
func (g *Cgroup) enterV1() error {
	for _, dir := range g.folders() {
		if err := writeFile(dir+"/tasks", "0"); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

func (g *Cgroup) leaveV1() error {
	for _, dir := range g.folders() {
		// The parent is the caller's own group.
		if err := writeFile(dir+"/../tasks", "0"); err != nil {
			return fmt.Errorf("leave cgroup: %w", err)
		}
	}
	return nil
}

// killV1 kills whatever is in the group and then thaws it: a frozen process of
// version 1 outlives SIGKILL, and one that is thawed first would run.
func (g *Cgroup) killV1() error {
	dir := g.dir[ControlFreeze]
	if dir == "" {
		return nil
	}
	state, err := readWord(dir + "/freezer.state")
	if isMissing(err) {
		return nil
	}
	if err != nil || state == "THAWED" {
		return err // PID 1's death is the others'
	}
	// Frozen ones neither end nor fork: the list is exact.
	if err := g.killListed(dir); err != nil {
		return err
	}
	return g.freezeV1(false)
}

// killListed kills every process that a folder of the group lists.
func (g *Cgroup) killListed(dir string) error {
	pids, err := readNumbers(dir + "/cgroup.procs")
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("kill %d: %w", pid, err)
		}
	}
	return nil
}

func (g *Cgroup) freezeV1(frozen bool) error {
	state := "THAWED"
	if frozen {
		state = "FROZEN"
	}
	return writeFile(g.dir[ControlFreeze]+"/freezer.state", state)
}

// isFrozenV1 also drives the freezing on: a process that was in a call then is
// caught at the next look.
func (g *Cgroup) isFrozenV1() (bool, error) {
	state, err := readWord(g.dir[ControlFreeze] + "/freezer.state")
	return state == "FROZEN", err
}

// hitsV1 reports whether the group ever came to its own limit of memory, or so
// near that the next batch of pages (64, by which the kernel counts) was over it. Linux 6.18
// no longer counts refusals in memory.failcnt.
func (g *Cgroup) hitsV1() bool {
	const near = 1 << 20
	for _, name := range [...]string{"/memory.", "/memory.memsw."} {
		limit, err := readNumbers(g.dir[ControlMemory] + name + "limit_in_bytes")
		most, err2 := readNumbers(g.dir[ControlMemory] + name + "max_usage_in_bytes")
		if err == nil && err2 == nil && len(limit) == 1 && len(most) == 1 && most[0] >= limit[0]-near {
			return true
		}
	}
	return false
}

// memoryEvents returns a descriptor that becomes readable when the group is out
// of memory; -1 where nobody needs to be told, since the kernel ends the whole group (version 2)
// or there is no limit.
func (g *Cgroup) memoryEvents() (int, error) {
	if !g.has(ControlMemory) || g.version == 2 {
		return -1, nil
	}
	dir := g.dir[ControlMemory]
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("make eventfd: %w", err)
	}
	control, err := unix.Open(dir+"/memory.oom_control", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(event)
		return -1, fmt.Errorf("open memory events: %w", err)
	}
	defer unix.Close(control)
	if err := writeFile(dir+"/cgroup.event_control", fmt.Sprintf("%d %d", event, control)); err != nil {
		unix.Close(event)
		return -1, err
	}
	return event, nil
}
