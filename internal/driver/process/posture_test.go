//go:build linux

package process_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/internal/linux"
	"github.com/caisson-dev/caisson/internal/policy"
	"github.com/caisson-dev/caisson/internal/stage"
)

// The posture of a box is read from outside, from the host's /proc, and
// compared with what is declared: every field that bounds it, nothing left out.

func read(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func status(t *testing.T, pid int) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(read(t, pid, "status")) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.Join(strings.Fields(value), " ")
	}
	return fields
}

func statusField(t *testing.T, pid int, key string, i int) int {
	t.Helper()
	f := strings.Fields(status(t, pid)[key])
	if i >= len(f) {
		return 0
	}
	n, err := strconv.Atoi(f[i])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func descendants(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(b)) {
			child, _ := strconv.Atoi(f)
			all = append(all, child)
			all = append(all, descendants(child)...)
		}
	}
	return all
}

func TestPosture(t *testing.T) { posture(t, newPlan(t, "")) }

// A nested box is as any other, but for what nested opens: its programs hold no right
// themselves, and /proc is covered for them.
func TestPostureNested(t *testing.T) {
	plan := newPlan(t, nestedPolicy)
	if !plan.Nested {
		t.Fatal("the plan is not nested")
	}
	posture(t, plan)
}

const nestedPolicy = "nested: true\naccept: [nested]\n"

// namespaceSince has the kinds of namespace that a box has only from a version of
// Linux on; before, it shares the host's.
var namespaceSince = map[string][2]int{"time": {6, 2}, "time_for_children": {6, 2}}

func posture(t *testing.T, plan *policy.Plan) {
	t.Helper()
	b := start(t, plan)
	p, _ := b.spawn(t, "sleep", "1000")
	pid := b.hostPID(t, p.PID)

	t.Run("rights of a program", func(t *testing.T) {
		uid := strconv.Itoa(plan.User.HostUID)
		gid := strconv.Itoa(plan.User.HostGID)
		want := map[string]string{
			"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
			"CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
			"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1",
			"Uid": strings.Join([]string{uid, uid, uid, uid}, " "),
			"Gid": strings.Join([]string{gid, gid, gid, gid}, " "),
		}
		if os.Geteuid() == 0 {
			want["Groups"] = ""
		}
		got := status(t, pid)
		for key := range got {
			if _, ok := want[key]; !ok {
				delete(got, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("rights of the guest", func(t *testing.T) {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", b.PID()))
		if err != nil {
			t.Fatal(err)
		}
		confined := 0
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			got := status(t, tid)
			for _, key := range []string{"CapInh", "CapPrm", "CapEff"} {
				if got[key] != "0000000000000000" {
					t.Errorf("thread %d: %s is %s", tid, key, got[key])
				}
			}
			if got["Seccomp"] == "2" {
				confined++
			}
		}
		if confined != 1 {
			t.Errorf("%d threads of the guest are under the filter, want the stem alone", confined)
		}
	})
	t.Run("namespaces", func(t *testing.T) {
		kinds := []string{"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"}
		entries, err := os.ReadDir("/proc/self/ns")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.Contains(kinds, e.Name()) {
				t.Errorf("the kernel has a kind of namespace that nobody decided on: %s", e.Name())
				continue
			}
			ours, err1 := os.Readlink("/proc/self/ns/" + e.Name())
			theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, e.Name()))
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			shared := e.Name() == "user" && os.Geteuid() == 0 || // from root there is none: rule 7 of the process model
				!linux.KernelAtLeast(namespaceSince[e.Name()][0], namespaceSince[e.Name()][1])
			if (ours == theirs) != shared {
				t.Errorf("namespace %s: ours %s, theirs %s", e.Name(), ours, theirs)
			}
		}
	})
	t.Run("descriptors", func(t *testing.T) {
		for _, c := range []struct {
			who  string
			pid  int
			want int
		}{{"program", pid, 3}} {
			fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.pid))
			if err != nil {
				t.Fatal(err)
			}
			if len(fds) != c.want {
				t.Errorf("%s has descriptors %v, want %d", c.who, fds, c.want)
			}
		}
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.PID()))
		if os.IsPermission(err) && os.Geteuid() != 0 {
			return // not even its own user may look into the guest; root can say the rest
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", b.PID(), fd.Name()))
			if err != nil {
				t.Fatal(err)
			}
			kind, _, _ := strings.Cut(target, ":")
			switch {
			case target == "/dev/null", target == "/memfd" || strings.HasPrefix(target, "/memfd:guest"), kind == "socket", kind == "anon_inode", kind == "pipe":
			default:
				t.Errorf("the guest holds %s: %s", fd.Name(), target)
			}
		}
	})
	t.Run("network", func(t *testing.T) {
		var names []string
		for i, line := range strings.Split(strings.TrimSpace(read(t, pid, "net/dev")), "\n") {
			if i > 1 {
				name, _, _ := strings.Cut(line, ":")
				names = append(names, strings.TrimSpace(name))
			}
		}
		if !slices.Equal(names, []string{"lo"}) {
			t.Errorf("interfaces %v, want lo alone", names)
		}
		if routes := strings.Split(strings.TrimSpace(read(t, pid, "net/route")), "\n"); len(routes) != 1 {
			t.Errorf("routes:\n%s", strings.Join(routes, "\n"))
		}
	})
	t.Run("limits", func(t *testing.T) {
		want := map[string]string{
			"Max core file size": "0 0",
			"Max processes":      fmt.Sprintf("%d %d", plan.Limits.Pids, plan.Limits.Pids),
		}
		for line := range strings.Lines(read(t, pid, "limits")) {
			for name, v := range want {
				if rest, ok := strings.CutPrefix(line, name); ok {
					if got := strings.Join(strings.Fields(rest)[:2], " "); got != v {
						t.Errorf("%s is %s, want %s", name, got, v)
					}
				}
			}
		}
	})
	t.Run("mounts", func(t *testing.T) { checkMounts(t, pid, plan) })
}

// mount is what one line of mountinfo says: where, and the flags that bound it.
type mount struct{ flags, fsys string }

func mounts(t *testing.T, pid int) map[string]mount {
	all := map[string]mount{}
	for line := range strings.Lines(read(t, pid, "mountinfo")) {
		left, right, _ := strings.Cut(line, " - ")
		f, r := strings.Fields(left), strings.Fields(right)
		var flags []string
		for _, flag := range strings.Split(f[5], ",") {
			if slices.Contains([]string{"ro", "rw", "nosuid", "nodev", "noexec"}, flag) {
				flags = append(flags, flag)
			}
		}
		if len(f) > 6 {
			t.Errorf("mount %s propagates: %v", f[4], f[6:])
		}
		all[f[4]] = mount{flags: strings.Join(flags, ","), fsys: r[0]}
	}
	return all
}

// checkMounts compares every mount of the box with the plan's and the stage's:
// none more, none fewer, each as bounded as declared.
func checkMounts(t *testing.T, pid int, plan *policy.Plan) {
	got := mounts(t, pid)
	want := map[string]string{"/": "ro,nosuid,nodev", stage.SelfPath: "ro,nosuid,nodev"}
	var trees []string // binds that may hold mounts of the host's below them
	for _, m := range plan.Mounts {
		switch m.Kind {
		case policy.MountBind:
			if _, err := os.Lstat(m.Source); m.Optional && err != nil {
				continue
			}
			flags := "ro,nosuid,nodev"
			if m.Writable {
				flags = "rw,nosuid,nodev"
			}
			want[m.Target] = flags
			trees = append(trees, m.Target+"/")
		case policy.MountTmpfs:
			want[m.Target] = "rw,nosuid,nodev"
		case policy.MountProc:
			want[m.Target] = "rw,nosuid,nodev,noexec"
			want[m.Target+"/sys"] = "ro,nosuid,nodev,noexec"
			want[m.Target+"/sys/kernel/random/boot_id"] = "ro,nosuid,nodev,noexec"
			if plan.Nested {
				want["/.caisson/whole"] = "ro,nosuid,nodev,noexec"
				want["/.caisson/whole/proc"] = "rw,nosuid,nodev,noexec"
			}
			for _, name := range stage.ProcMasked() {
				if _, err := os.Lstat("/proc/" + name); err == nil {
					want[m.Target+"/"+name] = "ro,nosuid,nodev,noexec"
				}
			}
		case policy.MountDev:
			for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
				want[m.Target+"/"+name] = "rw,nosuid,noexec"
			}
			want[m.Target+"/pts"] = "rw,nosuid,noexec"
			want[m.Target+"/shm"] = "rw,nosuid,nodev"
		}
	}
	for _, target := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[target]; !ok {
			t.Errorf("%s is not mounted", target)
		} else if got[target].flags != want[target] {
			t.Errorf("%s is mounted %s, declared %s", target, got[target].flags, want[target])
		}
	}
	for _, target := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[target]; ok {
			continue
		}
		below := slices.ContainsFunc(trees, func(tree string) bool { return strings.HasPrefix(target, tree) })
		if !below || !strings.HasPrefix(got[target].flags, "ro,nosuid,nodev") {
			t.Errorf("%s (%s, %s) is mounted and nobody declared it", target, got[target].fsys, got[target].flags)
		}
	}
}
