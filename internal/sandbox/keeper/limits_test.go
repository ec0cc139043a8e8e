//go:build linux

package keeper_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// result is how a run of caisson ended.
type result struct {
	code           int
	stdout, stderr string
	report         string // its events
}

// python is the system's, which every box sees.
const python = "/usr/bin/python3"

// inBox runs a program under flags, and fails the test if the host is not as
// before soon after.
func (p place) inBox(t *testing.T, flags []string, argv ...string) result {
	t.Helper()
	before := testenv.HostState(t, p.state)
	report := filepath.Join(p.home, "report")
	cmd := p.run(t, append(append([]string{"run", "--report", report}, flags...), append([]string{"--"}, argv...)...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its code says all
	p.nothingLeft(t, before, gone)
	events, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String(), string(events)}
}

func (p place) policy(t *testing.T, limits string) string {
	t.Helper()
	file := filepath.Join(p.home, "policy.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nlimits: "+limits+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// stopped checks that a limit ended the run: code, words, record.
func (r result) stopped(t *testing.T, code int, limit, words string) {
	t.Helper()
	if r.code != code || !strings.HasPrefix(r.stderr, "caisson: "+words+"\ncaisson: hint: ") {
		t.Errorf("exit %d, %q; want %d, %q and a hint", r.code, r.stderr, code, words)
	}
	if !strings.Contains(r.report, `"kind":"limit"`) || !strings.Contains(r.report, `"limit":"`+limit+`"`) {
		t.Errorf("no event of the limit: %s", r.report)
	}
}

// fine checks that no limit did anything.
func (r result) fine(t *testing.T, stdout string) {
	t.Helper()
	if r.code != 0 || r.stdout != stdout || r.stderr != "" || strings.Contains(r.report, `"kind":"limit"`) {
		t.Errorf("got %+v, want success", r)
	}
}

const (
	oneHog   = "b = bytearray(150 << 20); print(len(b) >> 20)"
	manyHogs = `
import subprocess, sys
p = [subprocess.Popen([sys.executable, "-c", "import sys; b = bytearray(40 << 20); print(1, flush=True); sys.stdin.read()"],
     stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(5)]
for q in p: q.stdout.readline()
for q in p: q.communicate()
print("all")`
	// A shared mapping is no data segment, so RLIMIT_DATA does not see it.
	sharedHog = "import mmap, time\nm = mmap.mmap(-1, 150 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(3); print('all')"
	tmpHog    = "f = open('/tmp/f', 'wb')\nfor i in range(150): f.write(bytes(1 << 20))\nf.flush(); print('all')"
)

func TestMemoryLimit(t *testing.T) {
	testenv.Need(t, "cgroup", "python3")
	p := newPlace(t)
	for _, c := range []struct{ name, program, out string }{
		{"one process", oneHog, "150\n"},
		{"many processes", manyHogs, "all\n"},
		{"private files", tmpHog, "all\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.inBox(t, []string{"--memory", "100MiB"}, python, "-c", c.program).stopped(t, 137, "memory", "memory: 100 MiB limit")
			p.inBox(t, []string{"--memory", "400MiB"}, python, "-c", c.program).fine(t, c.out)
		})
	}
}

// TestMemoryLimitWithoutCgroup: the watcher samples, which has to be accepted.
func TestMemoryLimitWithoutCgroup(t *testing.T) {
	testenv.Need(t, "user", "userns", "python3")
	if testenv.Lacks("cgroup-v2") == nil {
		t.Skip("this user has cgroups")
	}
	p := newPlace(t)
	refused := p.run(t, "run", "--memory", "100MiB", "--", "true")
	out, err := refused.CombinedOutput()
	if refused.ProcessState.ExitCode() != 125 || !strings.Contains(string(out), "soft-limits") {
		t.Errorf("a soft limit was not refused: %v %s", err, out)
	}
	flags := func(size string) []string { return []string{"--accept-loss", "soft-limits", "--memory", size} }
	for name, program := range map[string]string{"one process": sharedHog, "many processes": manyHogs + "\nimport time; time.sleep(1)"} {
		t.Run(name, func(t *testing.T) {
			p.inBox(t, flags("100MiB"), python, "-c", program).stopped(t, 137, "memory", "memory: 100 MiB limit")
			p.inBox(t, flags("400MiB"), python, "-c", program).fine(t, "all\n")
		})
	}
}

// TestPidsLimit forks without end, in numbers that a host survives.
func TestPidsLimit(t *testing.T) {
	testenv.Need(t, "python3")
	p := newPlace(t)
	bomb := func(n string) string {
		return `
import os, time
n = 0
try:
    while n < ` + n + `:
        if os.fork() == 0:
            time.sleep(100); os._exit(0)
        n += 1
except BlockingIOError as e:
    pass
print(n)`
	}
	r := p.inBox(t, []string{"--pids", "60"}, python, "-c", bomb("400"))
	n, err := strconv.Atoi(strings.TrimSpace(r.stdout))
	if err != nil || n < 20 || n > 60 || r.code != 0 {
		t.Errorf("with a limit of 60 processes it made %d: %+v", n, r)
	}
	if testenv.Lacks("cgroup-v1") == nil || testenv.Lacks("cgroup-v2") == nil {
		if !strings.HasPrefix(r.stderr, "caisson: pids: the limit of 60 ") || strings.Count(r.stderr, "\n") != 1 ||
			!strings.Contains(r.report, `"limit":"pids"`) {
			t.Errorf("it was not told once: %+v", r)
		}
	}
	p.inBox(t, []string{"--pids", "400"}, python, "-c", bomb("100")).fine(t, "100\n")
}

// TestCPULimit measures by processor time: 0.3 s of it at a tenth of a
// processor need 3 s, however busy the host is.
func TestCPULimit(t *testing.T) {
	testenv.Need(t, "cgroup", "python3")
	p := newPlace(t)
	const spin = `
import multiprocessing as m, time
def spin():
    while time.process_time() < 0.15: pass
start = time.monotonic()
p = [m.get_context("fork").Process(target=spin) for _ in range(2)]
[q.start() for q in p]
[q.join() for q in p]
print(time.monotonic() - start)`
	seconds := func(flags ...string) float64 {
		r := p.inBox(t, flags, python, "-c", spin)
		s, err := strconv.ParseFloat(strings.TrimSpace(r.stdout), 64)
		if err != nil || r.code != 0 || r.stderr != "" {
			t.Fatalf("%+v: %v", r, err)
		}
		return s
	}
	if s := seconds("--cpus", "0.1"); s < 2.5 {
		t.Errorf("0.3 s of processor time took %.2f s at a tenth of a processor", s)
	}
	if s := seconds("--cpus", "2"); s > 2.5 {
		t.Errorf("without a tight limit the same took %.2f s", s)
	}
}

// TestCPULimitWithoutCgroup: the programs are kept to whole processors.
func TestCPULimitWithoutCgroup(t *testing.T) {
	testenv.Need(t, "user", "userns")
	if testenv.Lacks("cgroup-v2") == nil {
		t.Skip("this user has cgroups")
	}
	p := newPlace(t)
	p.inBox(t, []string{"--accept-loss", "soft-limits", "--cpus", "1"}, "nproc").fine(t, "1\n")
	p.inBox(t, nil, "nproc").fine(t, strconv.Itoa(runtime.NumCPU())+"\n")
}

func TestDiskLimit(t *testing.T) {
	p := newPlace(t)
	policy := p.policy(t, "{disk: 16MiB}")
	write := func(size string) []string {
		return []string{"sh", "-c", "head -c " + size + " /dev/zero > /tmp/f && head -c " + size + " /dev/zero > $HOME/f; wc -c < /tmp/f"}
	}
	r := p.inBox(t, []string{"--policy", policy}, write("10485760")...)
	if !strings.Contains(r.stderr, "No space left on device") {
		t.Errorf("20 MiB of private files were written: %+v", r)
	}
	p.inBox(t, []string{"--policy", policy}, write("5242880")...).fine(t, "5242880\n")
}

func TestOutputLimit(t *testing.T) {
	p := newPlace(t)
	policy := p.policy(t, "{output: 1MiB}")
	r := p.inBox(t, []string{"--policy", policy}, "sh", "-c", "head -c 16777216 /dev/zero; sleep 100")
	r.stopped(t, 137, "output", "output: 1 MiB limit")
	if len(r.stdout) > 1<<20 {
		t.Errorf("%d bytes came out", len(r.stdout))
	}
	p.inBox(t, []string{"--policy", policy}, "head", "-c", "1048576", "/dev/zero").fine(t, strings.Repeat("\x00", 1<<20))
}

func TestWallLimit(t *testing.T) {
	p := newPlace(t)
	p.inBox(t, []string{"--timeout", "300ms"}, "sh", "-c", `trap "" TERM; sleep 100`).stopped(t, 124, "wall", "wall time: 300ms limit")
	p.inBox(t, []string{"--timeout", "60s"}, "sleep", "0.4").fine(t, "")
}

// frozen starts a box and freezes it from outside. It returns the box's
// processes and its freezer's folder.
func (p place) frozen(t *testing.T, flags ...string) (cmd *exec.Cmd, at processes, freezer string) {
	t.Helper()
	cmd = p.run(t, append(append([]string{"run"}, flags...), "--", "sh", "-c", "echo up; exec sleep 100")...)
	started(t, cmd)
	at = await(t, cmd.Process.Pid)
	lists, err := filepath.Glob(filepath.Join(p.state, "boxes", "*", "driver-cgroups"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("%v lists of cgroups: %v", lists, err)
	}
	list, err := os.ReadFile(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^([12]) freezer (.*)$`).FindSubmatch(list)
	if m == nil {
		t.Fatalf("no freezer in %q", list)
	}
	freezer = string(m[2])
	how := freezers[string(m[1])]
	if err := os.WriteFile(freezer+how.file, []byte(how.freeze), 0); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		state, err := os.ReadFile(freezer + how.state)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the box does not freeze: %q %v", state, err)
		}
		if strings.Contains(string(state), how.frozen) {
			return cmd, at, freezer
		}
	}
}

// freezers says how a group is frozen, by the version of its hierarchy.
var freezers = map[string]struct{ file, freeze, state, frozen string }{
	"1": {"/freezer.state", "FROZEN", "/freezer.state", "FROZEN\n"},
	"2": {"/cgroup.freeze", "1", "/cgroup.events", "frozen 1\n"},
}

// TestFrozenBoxEnds: a frozen process of cgroup v1 outlives SIGKILL, so
// whoever kills thaws; in version 2 it dies.
func TestFrozenBoxEnds(t *testing.T) {
	testenv.Need(t, "cgroup")
	p := newPlace(t)
	before := testenv.HostState(t, p.state)
	t.Run("keeper killed", func(t *testing.T) {
		cmd, at, _ := p.frozen(t)
		kill(t, at.keeper)
		_ = cmd.Wait()
		p.nothingLeft(t, before, gone)
	})
	t.Run("watcher killed", func(t *testing.T) {
		cmd, at, _ := p.frozen(t)
		kill(t, at.watcher)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 125 {
			t.Errorf("exit %d, want 125", code)
		}
		p.nothingLeft(t, before, gone)
	})
	t.Run("wall time", func(t *testing.T) {
		cmd, _, _ := p.frozen(t, "--timeout", "2s")
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 124 {
			t.Errorf("exit %d, want 124", code)
		}
		p.nothingLeft(t, before, gone)
	})
	t.Run("keeper and watcher killed, then swept", func(t *testing.T) {
		cmd, at, freezer := p.frozen(t)
		// Stopped, so that it is not quicker than the second kill.
		if err := unix.Kill(at.watcher, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		kill(t, at.keeper)
		kill(t, at.watcher)
		_ = cmd.Wait()
		// In version 2 it dies of its death signal, and the folders alone are left.
		_, v1 := os.Stat(freezer + "/freezer.state")
		if procs, err := os.ReadFile(freezer + "/cgroup.procs"); err != nil || v1 == nil && len(procs) == 0 {
			t.Errorf("the box did not outlive both, so the sweep proves nothing: %q %v", procs, err)
		}
		if out, err := p.run(t, "ls").CombinedOutput(); err != nil {
			t.Fatalf("caisson ls: %v\n%s", err, out)
		}
		p.nothingLeft(t, before, gone)
	})
}

// TestBoxEndsWhileItsOutputStalls: what nobody reads outside must not keep the
// box alive. A terminal is the hard case: it blocks who writes to it.
func TestBoxEndsWhileItsOutputStalls(t *testing.T) {
	p := newPlace(t)
	before := testenv.HostState(t, p.state)
	master, terminal := openPTY(t)
	cmd := p.run(t, "run", "--timeout", "1s", "--", "yes")
	cmd.Stdout = terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at := await(t, cmd.Process.Pid)
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(at.guest) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") && tasks(at.guest) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Error("the box outlives its wall time, since nobody reads what it wrote")
			break
		}
	}
	terminal.Close()
	master.Close() // the hang-up ends the keeper's wait
	_ = cmd.Wait()
	p.nothingLeft(t, before, gone)
}

// tasks counts the threads of a process.
func tasks(pid int) int {
	list, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
	return len(list)
}

func openPTY(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "ptmx"), terminal
}
