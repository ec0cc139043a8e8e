//go:build linux

package keeper_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// rounds is how many random kills one run makes: 100 in a normal run, 1,000 with
// CAISSON_NIGHT set.
func rounds() int {
	if os.Getenv("CAISSON_NIGHT") != "" {
		return 1000
	}
	return 100
}

// gone is how long after the death of a process of ours something of the box
// may be left.
const gone = time.Second

// place is where one test's boxes keep everything.
type place struct {
	home, state string
	env         []string
}

func newPlace(t *testing.T) place {
	t.Helper()
	testenv.Need(t, "userns")
	home := testenv.UserDir(t, os.Getuid(), os.Getgid())
	p := place{home: home, state: filepath.Join(home, "state")}
	p.env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "XDG_") || strings.HasPrefix(kv, "HOME=")
	}), "HOME="+home, "CAISSON_STATE="+p.state)
	if err := os.Mkdir(filepath.Join(home, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The first run places the guest, which stays on purpose.
	if out, err := p.run(t, "run", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("caisson run true: %v\n%s", err, out)
	}
	return p
}

func (p place) run(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command(testenv.Binary(t, "caisson"), args...)
	cmd.Dir, cmd.Env = filepath.Join(p.home, "ws"), p.env
	return cmd
}

// processes of one run, by what they are.
type processes struct{ keeper, watcher, guest int }

// find looks for the processes below a keeper; those not there yet are 0.
func find(keeper int) processes {
	p := processes{keeper: keeper}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", keeper, keeper))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", keeper))
	for _, t := range tasks {
		c, _ := os.ReadFile(t)
		b = append(append(b, ' '), c...)
	}
	for _, f := range strings.Fields(string(b)) {
		pid, _ := strconv.Atoi(f)
		line, _ := os.ReadFile("/proc/" + f + "/cmdline")
		switch {
		case strings.HasPrefix(string(line), "caisson-guest\x00watch"):
			p.watcher = pid
		case strings.HasPrefix(string(line), "caisson-guest\x00stage"):
			p.guest = pid
		}
	}
	return p
}

// await polls until the run has all its processes.
func await(t *testing.T, keeper int) processes {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if p := find(keeper); p.watcher != 0 && p.guest != 0 {
			return p
		}
	}
	t.Fatal("the box did not start within 10 s")
	return processes{}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// nothingLeft polls until the host is as it was.
func (p place) nothingLeft(t *testing.T, before *testenv.Host, within time.Duration) {
	t.Helper()
	p.awaitLeft(t, before, within, func(string) bool { return false })
}

// noProcessLeft polls until every process is gone; files may be left.
func (p place) noProcessLeft(t *testing.T, before *testenv.Host, within time.Duration) {
	t.Helper()
	p.awaitLeft(t, before, within, func(s string) bool { return strings.Contains(s, "file ") })
}

// awaitLeft polls until nothing is left but what may be.
func (p place) awaitLeft(t *testing.T, before *testenv.Host, within time.Duration, may func(string) bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		testenv.ReapOrphans()
		left, err := before.Left()
		if err != nil {
			t.Fatal(err)
		}
		// What is the whole host's others change too; the tests of limits look at cgroups.
		left = slices.DeleteFunc(left, func(s string) bool {
			return strings.Contains(s, "cgroup ") || strings.Contains(s, "mount ") ||
				strings.Contains(s, "interface ") || strings.Contains(s, "SysV ") || strings.Contains(s, "/state/swept") || may(s)
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left after %v:\n\t%s", within, strings.Join(left, "\n\t"))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// busy is a command that leaves nothing out: a daemon that left its session,
// children, and a file being written.
const busy = `setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &
(while :; do date > f; sleep 0.01; done) &
wait`

// TestKillAnyProcessAtRandom ends any process of ours at any moment from before
// the box stands, and looks for what is left.
func TestKillAnyProcessAtRandom(t *testing.T) {
	p := newPlace(t)
	before := testenv.HostState(t, p.state)
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	victims := map[string]int{}
	for i := range rounds() {
		cmd := p.run(t, "run", "--", "sh", "-c", busy)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(25 * time.Millisecond))))
		at := find(cmd.Process.Pid)
		name, pid := "keeper", at.keeper
		switch k := rng.IntN(3); {
		case k == 1 && at.watcher != 0:
			name, pid = "watcher", at.watcher
		case k == 2 && at.guest != 0:
			name, pid = "guest", at.guest
		}
		victims[name]++
		kill(t, pid)
		err := cmd.Wait()
		if name != "keeper" && cmd.ProcessState.ExitCode() != 125 {
			t.Fatalf("round %d: %s killed: exit %v, want 125", i, name, err)
		}
		if at.watcher == 0 {
			// A folder was made and nobody who would remove it: the next command does, when
			// no child that was just forked holds its lock.
			p.noProcessLeft(t, before, gone)
			if out, err := p.run(t, "ls").CombinedOutput(); err != nil {
				t.Fatalf("caisson ls: %v\n%s", err, out)
			}
		}
		p.nothingLeft(t, before, gone)
		_ = os.Remove(filepath.Join(p.home, "ws", "f"))
	}
	t.Logf("killed: %v", victims)
	for _, name := range []string{"keeper", "watcher", "guest"} {
		if victims[name] == 0 {
			t.Errorf("the %s was never killed: the test is not what it says", name)
		}
	}
}

// TestKillKeeperAndWatcherTogether leaves nobody who could remove the folder:
// the next command does.
func TestKillKeeperAndWatcherTogether(t *testing.T) {
	p := newPlace(t)
	before := testenv.HostState(t, p.state)
	for range rounds() / 10 {
		cmd := p.run(t, "run", "--", "sh", "-c", busy)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		at := await(t, cmd.Process.Pid)
		kill(t, at.watcher)
		kill(t, at.keeper)
		_ = cmd.Wait() // it was killed
		if out, err := p.run(t, "ls").CombinedOutput(); err != nil {
			t.Fatalf("caisson ls: %v\n%s", err, out)
		}
		p.nothingLeft(t, before, gone)
	}
}

// TestKillKeeperWithProcessTableFull: the death of a box needs no new process
// inside.
func TestKillKeeperWithProcessTableFull(t *testing.T) {
	testenv.Need(t, "python3")
	p := newPlace(t)
	policy := filepath.Join(p.home, "policy.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nlimits: {pids: 40}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := testenv.HostState(t, p.state)
	cmd := p.run(t, "run", "--policy", policy, "--", "python3", "-c", `
import os, time
n = 0
try:
    while n < 100:
        if os.fork() == 0:
            time.sleep(100)
        n += 1
except OSError:
    print("full", flush=True)
time.sleep(100)`)
	started(t, cmd)
	at := await(t, cmd.Process.Pid)
	kill(t, at.keeper)
	_ = cmd.Wait()
	p.nothingLeft(t, before, gone)
}

// TestKillKeeperWhileFrozen: stopped processes die too.
func TestKillKeeperWhileFrozen(t *testing.T) {
	p := newPlace(t)
	before := testenv.HostState(t, p.state)
	// Whoever sends to all is not among them, and stops itself last.
	cmd := p.run(t, "run", "--", "sh", "-c", "sleep 100 & sleep 100 & kill -STOP -1; echo stopped; kill -STOP $$")
	started(t, cmd)
	kill(t, cmd.Process.Pid)
	_ = cmd.Wait()
	p.nothingLeft(t, before, gone)
}

// TestKillWithMuchMemory: the kernel needs a while to free it.
func TestKillWithMuchMemory(t *testing.T) {
	testenv.Need(t, "python3")
	p := newPlace(t)
	before := testenv.HostState(t, p.state)
	size := 512
	if os.Getenv("CAISSON_NIGHT") != "" {
		size = 4096
	}
	cmd := p.run(t, "run", "--", "python3", "-c",
		fmt.Sprintf("import time; b=bytearray(%d<<20)\nfor i in range(0,len(b),4096): b[i]=1\nprint('full',flush=True); time.sleep(100)", size))
	started(t, cmd)
	kill(t, cmd.Process.Pid)
	_ = cmd.Wait()
	p.nothingLeft(t, before, 2*gone)
}

// TestWallTimeIsNotTheGuests: neither a stopped guest nor a command that
// ignores every signal outlives it.
func TestWallTimeIsNotTheGuests(t *testing.T) {
	p := newPlace(t)
	before := testenv.HostState(t, p.state)
	cmd := p.run(t, "run", "--timeout", "1s", "--", "sh", "-c", `trap "" TERM INT HUP; while :; do sleep 100; done`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at := await(t, cmd.Process.Pid)
	if err := unix.Kill(at.guest, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 124 {
		t.Errorf("exit %d, want 124", code)
	}
	p.nothingLeft(t, before, gone)
}

// started starts cmd and waits until it has printed a line.
func started(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the command printed nothing: %v", err)
	}
}

// TestCommandsExitIsNeverTheGuests: a box whose guest dies reports 125, also if
// the command would have exited with another code at that moment.
func TestCommandsExitIsNeverTheGuests(t *testing.T) {
	p := newPlace(t)
	cmd := p.run(t, "run", "--", "sleep", "100")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at := await(t, cmd.Process.Pid)
	if err := unix.Kill(at.guest, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(stderr.String(), "guest was killed") {
		t.Errorf("exit %d, %q; want 125 and why", code, stderr.String())
	}
}
