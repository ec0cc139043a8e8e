package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// recorder is a testing.TB that remembers how a test ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, _ ...any) { r.skipped = format; runtime.Goexit() }

func (r *recorder) Fatalf(format string, _ ...any) { r.failed = format; runtime.Goexit() }

func (r *recorder) Fatal(...any) { r.failed = "fatal"; runtime.Goexit() }

func need(what ...string) *recorder {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Need(r, what...)
	}()
	<-done
	return r
}

func TestNeed(t *testing.T) {
	has, lacks := "root", "user"
	if os.Geteuid() != 0 {
		has, lacks = lacks, has
	}
	t.Setenv("CAISSON_TEST_REQUIRE", "")
	if r := need(has); r.skipped != "" || r.failed != "" {
		t.Errorf("Need(%s) = %+v, want to go on", has, r)
	}
	if r := need(has, lacks); r.skipped == "" || r.failed != "" {
		t.Errorf("Need(%s) = %+v, want a skip", lacks, r)
	}
	if r := need("no-such-thing"); r.failed == "" {
		t.Error("an unknown name is not a failure")
	}
	t.Setenv("CAISSON_TEST_REQUIRE", "git, "+lacks)
	if r := need(lacks); r.failed == "" || r.skipped != "" {
		t.Errorf("a required thing is missing: %+v, want a failure", r)
	}
	t.Setenv("CAISSON_TEST_REQUIRE", "rooot")
	if r := need(has); r.failed == "" {
		t.Error("an unknown name in CAISSON_TEST_REQUIRE is not a failure")
	}
}

func TestEveryCheckAnswers(t *testing.T) {
	for _, name := range Names() {
		if err := Lacks(name); err != nil {
			if errors.Is(err, errUnknown) {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%-10s missing: %v", name, err)
			continue
		}
		t.Logf("%-10s here", name)
	}
	if (Lacks("root") == nil) == (Lacks("user") == nil) {
		t.Error("root and user are not opposites")
	}
}

func TestBinary(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CAISSON_BIN", dir)
	if err := os.WriteFile(filepath.Join(dir, "caisson"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := Binary(t, "caisson"); got != filepath.Join(dir, "caisson") {
		t.Errorf("with CAISSON_BIN: %s", got)
	}
	Need(t, "go")
	if testing.Short() {
		t.Skip("builds the programs")
	}
	t.Setenv("CAISSON_BIN", "")
	path := Binary(t, "caisson")
	cmd := exec.Command(path, "version")
	AsUser(t, cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s does not run as an ordinary user: %v\n%s", path, err, out)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := buildAllAgain(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("an unchanged program was replaced (%v)", err)
	}
}

func buildAllAgain(dir string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return buildAll(root, dir)
}

func TestSharedFolderOfSomebodyElseIsRefused(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir, err := sharedFolder("/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := sharedFolder("/x"); err == nil {
		t.Error("a symbolic link was taken")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := sharedFolder("/x"); err == nil {
		t.Error("a folder that everybody writes was taken")
	}
}

func TestAsUser(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/0")
	cmd := exec.Command("sh", "-c", `id -u; id -G; echo "$HOME"; pwd; echo "x$XDG_RUNTIME_DIR"; touch "$HOME/f" && echo wrote`)
	home := AsUser(t, cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 6 || lines[2] != home || lines[3] != home || lines[4] != "x" || lines[5] != "wrote" {
		t.Fatalf("got %q, home %s", lines, home)
	}
	if lines[0] == "0" {
		t.Error("it runs as root")
	}
	if os.Geteuid() == 0 && strings.ContainsAny(lines[1], " ") {
		t.Errorf("it has the groups %s", lines[1])
	}
}

func TestHostStateSees(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, want string
		leave      func(t *testing.T) (undo func())
	}{
		{"a child", "left: process ", func(t *testing.T) func() {
			cmd := exec.Command("sleep", "60")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
		}},
		{"an orphan in a session of its own", "(sleep)", func(t *testing.T) func() {
			out, err := exec.Command("setsid", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!").Output()
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Kill(pid, unix.SIGKILL); _, _ = unix.Wait4(pid, nil, 0, nil) }
		}},
		{"a file", "left: file " + dir + "/f", func(t *testing.T) func() {
			if err := os.WriteFile(dir+"/f", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Remove(dir + "/f") }
		}},
		{"a descriptor", "left: descriptor ", func(t *testing.T) func() {
			f, err := os.Open("/dev/null")
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = f.Close() }
		}},
		{"a network namespace", "left: network namespace net:[", func(t *testing.T) func() {
			Need(t, "netns", "root")
			cmd := exec.Command("unshare", "-n", "sh", "-c", "echo; exec sleep 60")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
		}},
		{"a cgroup", "left: cgroup /sys/fs/cgroup/pids/testenv-left-", func(t *testing.T) func() {
			Need(t, "root", "cgroup-v1")
			if err := os.Mkdir("/sys/fs/cgroup/pids/testenv-left-"+strconv.Itoa(os.Getpid()), 0o755); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Remove("/sys/fs/cgroup/pids/testenv-left-" + strconv.Itoa(os.Getpid())) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := HostState(t, dir).OnlyCgroups("testenv-left")
			undo := c.leave(t)
			left := before.Await(t, 300*time.Millisecond)
			undo()
			if !slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("found %q, want one with %q", left, c.want)
			}
			before.AwaitClean(t, 5*time.Second)
		})
	}
}

func files(t *testing.T, before *Host) []string {
	t.Helper()
	left, err := before.LeftOf("file")
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestHostStateSeesChangesOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := HostState(t, filepath.Dir(file))
	if left := files(t, before); len(left) != 0 {
		t.Errorf("nothing happened, found %q", left)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if left := files(t, before); len(left) != 1 || !strings.HasPrefix(left[0], "changed: ") {
		t.Errorf("after chmod: %q", left)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if left := files(t, before); len(left) != 1 || !strings.HasPrefix(left[0], "gone: ") {
		t.Errorf("after remove: %q", left)
	}
}

func TestReapOrphans(t *testing.T) {
	before := HostState(t)
	if err := exec.Command("sh", "-c", "true >/dev/null 2>&1 &").Run(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		left, err := before.LeftOf("process")
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left %q", left)
		}
		ReapOrphans()
	}
}

// A group that somebody else's process lives in is not ours to judge; it is
// when the process has left.
func TestGroupsOfOthers(t *testing.T) {
	Need(t, "root", "cgroup-v1")
	dir := "/sys/fs/cgroup/pids/testenv-other-" + strconv.Itoa(os.Getpid())
	if err := os.MkdirAll(dir+"/below", 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(dir + "/below"); _ = os.Remove(dir) }()
	for _, foreign := range []bool{false, true} {
		h := &Host{items: map[string]string{}}
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/below/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
		got := h.addGroup(dir, func(int) bool { return !foreign })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if got != foreign || (len(h.items) == 2) == foreign {
			t.Errorf("foreign %v: got %v, %v", foreign, got, h.items)
		}
	}
}
