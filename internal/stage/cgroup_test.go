//go:build linux

package stage

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHierarchies(t *testing.T) {
	for _, c := range []struct {
		name, own, mounts string
		want              map[string]string
	}{
		{
			"version 2", "0::/user.slice/a.scope\n",
			"30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
			map[string]string{"": "/sys/fs/cgroup/user.slice/a.scope"},
		},
		{
			"version 1, two controllers mounted together, and a hybrid", "5:cpu,cpuacct:/a\n4:memory:/b\n0::/c\n",
			"31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n" +
				"32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n" +
				"33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"34 30 0:30 / /tmp rw - tmpfs tmpfs rw\n",
			map[string]string{
				"": "/sys/fs/cgroup/unified/c", "cpu": "/sys/fs/cgroup/cpu,cpuacct/a",
				"cpuacct": "/sys/fs/cgroup/cpu,cpuacct/a", "memory": "/sys/fs/cgroup/memory/b",
			},
		},
		{
			"a container, which sees a part", "4:memory:/docker/x/y\n3:pids:/other\n",
			"33 30 0:29 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n" +
				"34 30 0:29 /docker/x /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
			map[string]string{"memory": "/sys/fs/cgroup/memory/y"},
		},
		{"nothing mounted", "0::/\n", "34 30 0:30 / /tmp rw - tmpfs tmpfs rw\n", map[string]string{}},
		{"broken lines", "x\n0::/\n", "a - cgroup2\n - cgroup\n", map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, hierarchies([]byte(c.own), []byte(c.mounts))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// host builds what FindCgroups reads below a folder: own is the caller's group,
// groups maps a group to "controllers it has; those it passes on; processes in it".
func host(t *testing.T, own string, groups map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/self/cgroup", "0::"+own+"\n")
	write("proc/self/mountinfo", "30 24 0:26 / /cg rw - cgroup2 cgroup2 rw\n")
	for group, text := range groups {
		f := strings.Split(text, ";")
		write("cg"+group+"/cgroup.controllers", f[0])
		write("cg"+group+"/cgroup.subtree_control", f[1])
		write("cg"+group+"/cgroup.procs", f[2])
		if group != "/" {
			write("cg"+group+"/cgroup.type", "domain\n")
		}
	}
	return dir
}

func TestFindV2(t *testing.T) {
	const all = "cpu io memory pids"
	for _, c := range []struct {
		name   string
		own    string
		groups map[string]string
		memory string // where its groups come; "" if refused
		cpu    string
		freeze string
		enable []string
	}{
		{
			"the nearest that passes all on", "/a/b/c",
			map[string]string{"/": all + ";" + all + ";", "/a": all + ";" + all + ";", "/a/b": all + ";" + all + ";", "/a/b/c": all + ";;12\n"},
			"/a/b", "/a/b", "/a/b", nil,
		},
		{
			"one is missing, and can be enabled", "/a/b",
			map[string]string{"/": all + ";;", "/a": all + ";memory pids;", "/a/b": all + ";;12\n"},
			"/a", "/a", "/a",
			[]string{"+cpu"},
		},
		{
			"one is missing, and a process in the group forbids more", "/a/b",
			map[string]string{"/": "memory pids;memory pids;", "/a": all + ";memory pids;7\n", "/a/b": ";;12\n"},
			"/a", "", "/a", nil,
		},
		{
			"the root may hold processes", "/",
			map[string]string{"/": all + ";;1\n2\n"},
			"/", "/", "/",
			[]string{"+memory", "+pids", "+cpu"},
		},
		{
			"none passes anything on", "/a",
			map[string]string{"/": ";;1\n", "/a": ";;2\n"},
			"", "", "/a", nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := host(t, c.own, c.groups)
			got := findCgroups(dir)
			if got.Version != 2 {
				t.Fatalf("version %d", got.Version)
			}
			for k, want := range map[Controller]string{ControlMemory: c.memory, ControlCPU: c.cpu, ControlFreeze: c.freeze} {
				ok, reason, fix := got.Can(k)
				if want == "" {
					if ok || reason == "" || fix == "" {
						t.Errorf("%s: %v %q %q, want a refusal that says why and what helps", controllerNames[k], ok, reason, fix)
					}
					continue
				}
				if at := filepath.Join(dir, "cg", want); !ok || got.parent[k] != at {
					t.Errorf("%s: in %q, want %q", controllerNames[k], got.parent[k], at)
				}
			}
			var enable []string
			for _, s := range got.enable {
				enable = append(enable, s.text)
			}
			if diff := cmp.Diff(c.enable, enable); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoCgroups(t *testing.T) {
	c := findCgroups(t.TempDir())
	for k := range controllers {
		if ok, reason, _ := c.Can(k); ok || reason == "" {
			t.Errorf("%s: %v %q", controllerNames[k], ok, reason)
		}
	}
	if err := c.Try(); err == nil {
		t.Error("a trial without cgroups succeeded")
	}
}

func TestLimitV2(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := &Cgroup{version: 2, dir: [controllers]string{dir, dir, dir, dir}}
	if err := g.limit(Limits{Memory: 1 << 30, CPUs: 1.5, Pids: 100}); err != nil {
		t.Fatal(err)
	}
	for f, want := range map[string]string{
		"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "164", "cpu.max": "150000 100000",
	} {
		if got, _ := os.ReadFile(filepath.Join(dir, f)); string(got) != want {
			t.Errorf("%s is %q, want %q", f, got, want)
		}
	}
}

// TestReachedWithoutLimits: a group without a limit counts all the same.
func TestReachedWithoutLimits(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pids.peak"), []byte("9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := &Cgroup{version: 2, dir: [controllers]string{dir, dir, dir, dir}}
	if got := g.reached(); got != nil {
		t.Errorf("reached %v", got)
	}
}

func TestReached(t *testing.T) {
	for _, c := range []struct {
		name  string
		v     int
		files map[string]string
		want  []string
	}{
		{"nothing, version 2", 2, map[string]string{"memory.events": "low 0\nmax 7\noom 0\noom_kill 0\n", "pids.events": "max 0\n", "pids.peak": "99\n"}, nil},
		{"both, version 2", 2, map[string]string{"memory.events": "oom 1\noom_kill 2\n", "pids.events": "max 1\n"}, []string{"memory", "pids"}},
		{"the peak", 2, map[string]string{"pids.events": "max 0\n", "pids.peak": "100\n"}, []string{"pids"}},
		{"version 1", 1, map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory.limit_in_bytes": "104857600\n", "memory.max_usage_in_bytes": "104857600\n"}, []string{"memory"}},
		{"the host was short, version 1", 1, map[string]string{"memory.oom_control": "oom_kill 1\n", "memory.limit_in_bytes": "104857600\n", "memory.max_usage_in_bytes": "90000000\n"}, nil},
		{"the host was short, version 2", 2, map[string]string{"memory.events": "oom 0\noom_kill 1\n"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for f, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			g := &Cgroup{version: c.v, dir: [controllers]string{dir, dir, dir, dir}, pids: 100}
			if diff := cmp.Diff(c.want, g.reached()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestParseGroupRefusesForeignFolders: all in such a folder is killed.
func TestParseGroupRefusesForeignFolders(t *testing.T) {
	good := "2 memory /sys/fs/cgroup/a/caisson-x"
	g, err := parseGroup([]string{good})
	if err != nil || !cmp.Equal(g.words(), []string{good}) {
		t.Fatalf("%v %v", g.words(), err)
	}
	for _, w := range []string{
		"", "2 memory", "3 memory /a/caisson-x", "2 disk /a/caisson-x", "2 memory a/caisson-x",
		"2 memory /a/caisson-x/..", "2 memory /a/caisson-x/../../b", "2 memory /a/other", "2 memory /",
	} {
		if _, err := parseGroup([]string{good, w}); err == nil {
			t.Errorf("%q was taken", w)
		}
	}
}

func TestKeepTo(t *testing.T) {
	if err := keepTo(0); err != nil {
		t.Error(err)
	}
	if err := keepTo(1 << 20); err != nil {
		t.Errorf("more than there are: %v", err)
	}
}

func TestSampler(t *testing.T) {
	size := treeSize(os.Getpid(), math.MaxInt64, PSS, calm)
	if size <= 0 || size > treeSize(os.Getpid(), math.MaxInt64, rss, calm) {
		t.Errorf("this process holds %d bytes by PSS, %d by RSS", size, treeSize(os.Getpid(), math.MaxInt64, rss, calm))
	}
	for limit, want := range map[int64]bool{0: false, 1: true, 1 << 50: false} {
		s := sampler{pid: os.Getpid(), limit: limit}
		if got := s.over(s.next, calm); got != want {
			t.Errorf("limit %d: over = %v", limit, got)
		}
		if limit > 0 && s.next.IsZero() {
			t.Error("the next look has no time")
		}
	}
}

func calm() bool { return false }

// TestSamplerIsBrokenOff: a box of many processes can make a look as long as it
// likes, and the wall time has to hold meanwhile.
func TestSamplerIsBrokenOff(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	for _, c := range []struct {
		name   string
		limit  int64
		urgent func() bool
		want   int
	}{
		{"nothing urgent", math.MaxInt64, calm, 2},
		{"urgent", math.MaxInt64, func() bool { return true }, 1},
		{"the limit is passed already", 0, calm, 1},
	} {
		looks := 0
		treeSize(os.Getpid(), c.limit, func(string) int64 { looks++; return 1 }, c.urgent)
		if looks != c.want && !(c.want == 2 && looks > 2) {
			t.Errorf("%s: %d processes were looked at, want %d", c.name, looks, c.want)
		}
	}
}
