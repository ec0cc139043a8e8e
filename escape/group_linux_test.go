package escape

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestOnlyGroupsOfTheDeadAreSwept(t *testing.T) {
	root := t.TempDir()
	own := bearer(os.Getpid())
	if own == "" {
		t.Fatal("this process has no name")
	}
	for name, stays := range map[string]bool{
		groupPrefix + own + "-0a0a":                         true,  // it lives
		groupPrefix + strconv.Itoa(os.Getpid()) + "-1-0b0b": false, // another bore its number
		groupPrefix + "4194305-17-0c0c":                     false, // no process has such a number
		groupPrefix + "somebody":                            true,
		"caisson-4194305-17-0d0d":                           true,
		groupPrefix + "4194305-17-0c0c" + "/box/deep":       false,
		groupPrefix + own + "-0a0a" + "/box":                true,
	} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != stays {
				t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
			}
		}()
	}
	sweepGroups([]string{root})
}

// Whoever is killed, the control group of a lab goes: the benchmark, by the
// watcher; both, by the next benchmark.
func TestNoControlGroupIsLeft(t *testing.T) {
	testenv.Need(t, "root", "cgroup-v1")
	probe := testenv.Binary(t, "caisson-probe")
	for name, both := range map[string]bool{"the benchmark is killed": false, "its watcher too": true} {
		t.Run(name, func(t *testing.T) {
			host := testenv.HostState(t)
			bench := exec.Command(probe, "bench", "--probe", probe, "--peer", "bare", "--filter", "PRC-11,RES-12,LIF-*")
			if err := bench.Start(); err != nil {
				t.Fatal(err)
			}
			pattern := groupPrefix + strconv.Itoa(bench.Process.Pid) + "-*"
			var group string
			await(t, "a group", func() bool {
				for _, root := range groupRoots() {
					if found, _ := filepath.Glob(filepath.Join(root, pattern)); len(found) == 1 {
						group = found[0]
					}
				}
				return group != ""
			})
			watcher := 0
			for _, pid := range pidsOf("/proc") {
				line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
				if strings.HasSuffix(string(line), "\x00groupwatch\x00"+group+"\x00") {
					watcher = pid
				}
			}
			if watcher == 0 {
				t.Fatal("the group has no watcher")
			}
			if both {
				_ = unix.Kill(watcher, unix.SIGKILL)
			}
			_ = bench.Process.Kill()
			_ = bench.Wait()
			gone := func() bool { _, err := os.Stat(group); return os.IsNotExist(err) }
			if both {
				await(t, "the sweep", func() bool { // the dying lab may hold it
					g, err := newLabGroup(t.Context(), probe)
					if err != nil {
						t.Fatal(err)
					}
					if err := g.close(); err != nil {
						t.Error(err)
					}
					return gone()
				})
			} else {
				await(t, "the watcher", gone)
			}
			await(t, "end of the lab", func() bool { // the dead are this process's to reap now
				testenv.ReapOrphans()
				left, err := host.LeftOf("process")
				return err != nil || len(left) == 0
			})
			host.AwaitClean(t, 5*time.Second)
		})
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there was no %s in ten seconds", what)
		}
	}
}
