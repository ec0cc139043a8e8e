package escape_test

import (
	"cmp"
	"context"
	"encoding/json"
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

	"github.com/caisson-dev/caisson/escape"
	"github.com/caisson-dev/caisson/internal/testenv"
)

// night says that the long forms are wanted too.
func night() bool { return os.Getenv("CAISSON_NIGHT") != "" }

func run(t *testing.T, o escape.Options) map[string]escape.Result {
	t.Helper()
	o.Probe = cmp.Or(o.Probe, testenv.Binary(t, "caisson-probe"))
	o.Limit = 5 * time.Minute
	r, err := escape.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Residue) > 0 {
		t.Errorf("the host is not as it was: %q", r.Residue)
	}
	results := map[string]escape.Result{}
	for _, v := range r.Results {
		results[v.Target+" "+v.ID] = v
	}
	return results
}

// undecidedOnBare are the rows with control bare that this project knows to be
// open on some machines, each with its reason in docs/benchmarks-escape.md.
func undecidedOnBare() []string {
	return []string{"KRN-02", "KRN-10", "KRN-17", "DEV-04", "DEV-07", "INF-09", "INF-14", "SUP-12"}
}

// Without a sandbox, what the corpus tries must get through, and the harness
// must not fail once.
func TestBareIsDecided(t *testing.T) {
	testenv.Need(t, "root")
	t.Parallel()
	results := run(t, escape.Options{Targets: []string{"bare"}, Seed: 1})
	again := results
	if night() {
		again = run(t, escape.Options{Targets: []string{"bare"}, Seed: 2})
	}
	decided := 0
	for name, v := range results {
		if v.Verdict == escape.Error {
			t.Errorf("%s: error: %s", name, v.Reason)
		}
		if v.Control != "bare" {
			continue
		}
		if v.Verdict == escape.Breached {
			decided++
		} else if !slices.Contains(undecidedOnBare(), v.ID) {
			t.Errorf("%s is %s without a sandbox: %s", v.ID, v.Verdict, cmp.Or(v.Reason, v.Evidence))
		}
		if w := again[name]; w.Verdict != v.Verdict {
			t.Errorf("%s is %s with one seed and %s with another", v.ID, v.Verdict, w.Verdict)
		}
	}
	if decided < 100 {
		t.Errorf("%d rows are decided", decided)
	}
}

// bubblewrap's set-ups are known: rows that tell them apart.
func TestBubblewrap(t *testing.T) {
	testenv.Need(t, "root", "bwrap")
	t.Parallel()
	known := map[string]string{ // quick, agent, strict
		"FSR-01": "breached breached held",
		"FSR-05": "breached breached breached",
		"PER-04": "breached breached breached",
		"PRC-03": "breached held held",
		"NET-01": "breached held held",
		"IPC-01": "breached held held",
		"IPC-02": "breached breached held",
		"IPC-06": "breached held held",
		"CRD-01": "breached breached held",
		"TEN-01": "held held held",
		"KRN-06": "breached breached held",
		"RES-01": "breached breached breached",
		"LIF-02": "held held held",
		"INF-01": "breached breached held",
		"FSW-06": "held held held",
	}
	var ids []string
	for id := range known {
		ids = append(ids, id)
	}
	filter := strings.Join(ids, ",")
	targets := []string{"bwrap-quick", "bwrap-agent", "bwrap-strict"}
	results := run(t, escape.Options{Targets: targets, Filter: filter, Seed: rand.Uint64()})
	for id, want := range known {
		var got []string
		for _, target := range targets {
			got = append(got, results[target+" "+id].Verdict.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is %q, known is %q (%s)", id, got, want, results[targets[0]+" "+id].Reason)
		}
	}
}

// A weak box lets through what it is the control of, and nothing beside: the
// supervisor refuses a path that stays as it is.
func TestWeakBoxesAreWeakInOnePlace(t *testing.T) {
	testenv.Need(t, "root", "cgroup-v1")
	t.Parallel()
	targets := []string{"weakbox:notify-continue", "weakbox:cgroup-rw", "weakbox:rw"}
	results := run(t, escape.Options{Targets: targets, Filter: "FSR-01,KRN-19,PRC-11", Seed: rand.Uint64()})
	for i, want := range []string{"held breached held", "held held breached", "held held held"} {
		var got []string
		for _, id := range []string{"FSR-01", "KRN-19", "PRC-11"} {
			got = append(got, results[targets[i]+" "+id].Verdict.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is %q, want %q", targets[i], got, want)
		}
	}
}

// An ordinary user gets a lab too, with the rows that need no root.
func TestLabOfAnOrdinaryUser(t *testing.T) {
	testenv.Need(t, "userns")
	t.Parallel()
	probe := testenv.Binary(t, "caisson-probe")
	cmd := exec.CommandContext(t.Context(), probe, "bench", "--probe", probe, "--peer", "bare", "--json",
		"--filter", "FSR-01,FSW-02,PER-05,NET-03,IPC-06,TEN-04,KRN-01,CAP-02,PRC-11")
	testenv.AsUser(t, cmd)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	got := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		var v escape.Result
		if json.Unmarshal([]byte(line), &v) == nil && v.ID != "" {
			got[v.ID] = v.Verdict.String()
		}
	}
	for id, want := range map[string]string{
		"FSR-01": "breached", "FSW-02": "breached", "PER-05": "breached", "NET-03": "breached", "IPC-06": "breached",
		"TEN-04": "breached", "KRN-01": "n/a", "CAP-02": "n/a", "PRC-11": "n/a",
	} {
		if got[id] != want {
			t.Errorf("%s is %q, want %q", id, got[id], want)
		}
	}
}

// A program that claims everything and does nothing must change no verdict: none
// of its rows is breached.
func TestALyingProgramBreachesNothing(t *testing.T) {
	testenv.Need(t, "root", "go")
	t.Parallel()
	liar := filepath.Join(testenv.UserDir(t, 0, 0), "liar")
	if err := os.Chmod(filepath.Dir(liar), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", liar, "./testdata/liar")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	filter := ""
	if !night() {
		filter = "fs-*,fs-read,fs-write,persistence,process,local-ipc,network,credential,info-leak,host-works,KRN-0*"
	}
	for name, v := range run(t, escape.Options{
		Targets: []string{"bare"}, Filter: filter, Seed: 3, Probe: liar, Lab: testenv.Binary(t, "caisson-probe"),
	}) {
		// These look at what any program on bare shares with the host, doing nothing.
		if v.ID == "CAP-01" || v.ID == "CAP-05" || v.ID == "TEN-06" {
			continue
		}
		if v.Verdict == escape.Breached {
			t.Errorf("%s: the liar was believed: %s", name, v.Evidence)
		}
	}
}

// A lab that is killed at any moment leaves nothing on the host.
func TestAKilledLabLeavesNothing(t *testing.T) {
	testenv.Need(t, "root")
	probe := testenv.Binary(t, "caisson-probe")
	times := 6
	if n, err := strconv.Atoi(os.Getenv("CAISSON_LAB_KILLS")); err == nil {
		times = n
	} else if night() {
		times = 50
	}
	for i := range times {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			host := testenv.HostState(t)
			after := time.Duration(rand.IntN(2500)) * time.Millisecond
			cmd := exec.Command(probe, "bench", "--probe", probe, "--peer", "bare", "--seed", strconv.Itoa(i))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), after)
			<-ctx.Done()
			cancel()
			victim := cmd.Process.Pid
			if i%2 == 1 { // the lab itself, not the benchmark that started it
				victim = labOf(victim)
			}
			if victim > 0 {
				_ = syscall.Kill(victim, syscall.SIGKILL)
			}
			if i%2 == 1 && victim > 0 {
				if err := cmd.Wait(); err == nil {
					t.Error("the benchmark did not say that its lab was gone")
				}
			} else {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
			for range 100 { // the dead lab is this process's to reap now
				testenv.ReapOrphans()
				if left, err := host.LeftOf("process"); err != nil || len(left) == 0 {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			host.AwaitClean(t, 5*time.Second)
			if t.Failed() {
				t.Logf("killed %d after %v", victim, after)
			}
		})
	}
}

// labOf gives the lab that a benchmark started, 0 if there is none yet.
func labOf(pid int) int {
	for _, task := range glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) {
		b, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(b)) {
			if line, _ := os.ReadFile("/proc/" + f + "/cmdline"); strings.HasSuffix(string(line), "\x00lab\x00") {
				n, _ := strconv.Atoi(f)
				return n
			}
		}
	}
	return 0
}

func glob(pattern string) []string {
	m, _ := filepath.Glob(pattern)
	return m
}
