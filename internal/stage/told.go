//go:build linux

package stage

import (
	"fmt"
	"math"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Programs size themselves by what they find: heaps by memory, pools by
// processors. What is made up here tells them the box's limits where they look, in the
// words of both versions of cgroups. It is a help, not a bound, and what
// it says does not change with use.

// told returns the made-up files by their names in the folder of covers; nil
// where there is no limit to tell.
func told(s *Setup) map[string]string {
	if s.Memory == 0 && s.CPUs == 0 {
		return nil
	}
	f := map[string]string{
		"told/cgroup/cgroup.controllers": "cpu memory pids\n",
		// All controllers in version 2: what the JVM asks first.
		"told/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n" +
			"cpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n",
	}
	if s.Memory > 0 {
		size := fmt.Sprintln(s.Memory)
		f["told/cgroup/memory.max"], f["told/cgroup/memory.high"] = size, "max\n"
		f["told/cgroup/memory.swap.max"] = "0\n"
		f["told/cgroup/memory/memory.limit_in_bytes"] = size
		f["told/cgroup/memory/memory.soft_limit_in_bytes"] = size
		f["told/cgroup/memory/memory.memsw.limit_in_bytes"] = size
		f["told/meminfo"] = meminfo(s.Memory)
	}
	if s.CPUs > 0 {
		f["told/cgroup/cpu.max"] = fmt.Sprintf("%s %d\n", cpuQuota(s.CPUs), cpuPeriod)
		f["told/cgroup/cpu/cpu.cfs_quota_us"] = cpuQuota(s.CPUs) + "\n"
		f["told/cgroup/cpu/cpu.cfs_period_us"] = fmt.Sprintln(cpuPeriod)
	}
	if s.Pids > 0 {
		f["told/cgroup/pids.max"] = fmt.Sprintln(s.Pids)
	}
	return f
}

// meminfo is /proc/meminfo of a machine with that much memory, all of it free.
// The lines are those that free(1), Node, Redis and psutil read.
func meminfo(size int64) string {
	var b strings.Builder
	for _, l := range [...]struct {
		name string
		size int64
	}{
		{"MemTotal", size},
		{"MemFree", size},
		{"MemAvailable", size},
		{"Buffers", 0},
		{"Cached", 0},
		{"SwapCached", 0},
		{"Active", 0},
		{"Inactive", 0},
		{"SwapTotal", 0},
		{"SwapFree", 0},
		{"Shmem", 0},
		{"Slab", 0},
		{"SReclaimable", 0},
		{"SUnreclaim", 0},
	} {
		fmt.Fprintf(&b, "%-16s%8d kB\n", l.name+":", l.size>>10)
	}
	return b.String()
}

// makeTold writes the made-up files while the folder of covers is writable.
func (r *root) makeTold(s *Setup) error {
	made := map[string]bool{}
	for name, text := range told(s) {
		if err := r.makeDirs(coverDir+"/"+path.Dir(name), made); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		fd, err := unix.Openat(r.scratch, coverDir+"/"+name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		_, err = unix.Write(fd, []byte(text))
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// makeDirs makes a folder of the scratch tmpfs and those above it.
func (r *root) makeDirs(dir string, made map[string]bool) error {
	if dir == coverDir || made[dir] {
		return nil
	}
	if err := r.makeDirs(path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return unix.Mkdirat(r.scratch, dir, 0o755)
}

const (
	cgroupPoint = "/sys/fs/cgroup"
	cpuPoint    = "/sys/devices/system/cpu"
)

// tell shows the made-up files. The runtimes look in the list of mounts where
// cgroups are, so a real one lies below the made-up folder, covered whole. A
// kernel that refuses that mount leaves those runtimes with the host's size.
func (r *root) tell(s *Setup) error {
	files := told(s)
	if files == nil {
		return nil
	}
	_ = r.mountCgroup("cgroup2", "", cgroupPoint)
	if err := r.mkdir(cgroupPoint); err != nil {
		return err
	}
	if err := r.coverBy("told/cgroup", strings.TrimPrefix(cgroupPoint, "/")); err != nil {
		return fmt.Errorf("cover %s: %w", cgroupPoint, err)
	}
	if s.CPUs > 0 {
		// Where the controller has a hierarchy of its own, Go's runtime asks only that.
		if r.mountCgroup("cgroup", "cpu", cgroupPoint+"/cpu") == nil {
			if err := r.coverBy("told/cgroup/cpu", strings.TrimPrefix(cgroupPoint, "/")+"/cpu"); err != nil {
				return fmt.Errorf("cover %s/cpu: %w", cgroupPoint, err)
			}
		}
		if err := r.tellCPUs(int(math.Ceil(s.CPUs))); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"told/cgroups": "proc/cgroups", "told/meminfo": "proc/meminfo"} {
		if files[name] == "" || !r.dirs["/proc"] {
			continue
		}
		if err := r.coverBy(name, target); err != nil && err != unix.ENOENT {
			return fmt.Errorf("cover %s: %w", target, err)
		}
	}
	return nil
}

// tellCPUs makes the files by which the C library counts processors. More than
// the host has are not made up.
func (r *root) tellCPUs(n int) error {
	var host unix.CPUSet
	if err := unix.SchedGetaffinity(0, &host); err == nil {
		n = min(n, host.Count())
	}
	list := fmt.Sprintf("0-%d\n", n-1)
	if n == 1 {
		list = "0\n"
	}
	for _, name := range [...]string{"online", "possible", "present"} {
		if err := r.file(cpuPoint+"/"+name, []byte(list), 0o444); err != nil {
			return err
		}
	}
	for i := range n {
		if err := r.mkdir(fmt.Sprintf("%s/cpu%d", cpuPoint, i)); err != nil {
			return err
		}
	}
	return nil
}

// mountCgroup mounts a hierarchy read-only, as it is seen from the box's group.
func (r *root) mountCgroup(kind, controller, target string) error {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open %s: %w", kind, err)
	}
	defer unix.Close(fs)
	if controller != "" {
		if err := unix.FsconfigSetFlag(fs, controller); err != nil {
			return fmt.Errorf("configure %s: %w", kind, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("configure %s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrAlways|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("mount %s: %w", kind, err)
	}
	defer unix.Close(fd)
	return r.attach(fd, target, true)
}
