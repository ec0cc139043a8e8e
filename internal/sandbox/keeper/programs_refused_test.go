//go:build linux

package keeper_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// TestWhatCannotWork: what no box of this tier can do fails at once, in words that
// docs/troubleshooting.md explains. The words are the programs' own and seldom name a
// sandbox, so the page is found by them.
func TestWhatCannotWork(t *testing.T) {
	page, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	for _, c := range []struct {
		needs, script, says string
		control             bool // it is tried outside first, where it works if the host lets it
	}{
		{"perf", "perf stat true", "No permission to enable task-clock event", true},
		{"perf", "perf record -o /tmp/p true", "perf_event_open(..., 0) failed unexpectedly with error 1 (Operation not permitted)", false},
		{"rr", "rr record -n true", "Failed to initialize counter", false},
		{"dockerd", "dockerd --data-root /tmp/d", "dockerd needs to be started with root privileges", false},
		{"docker", "docker ps", "Cannot connect to the Docker daemon", false},
		{"unshare", "unshare -r true", "unshare failed: Operation not permitted", true},
		{"bwrap", "bwrap --ro-bind / / true", "No permissions to create new namespace", true},
		{"unshare", "mount -t tmpfs none /mnt", "must be superuser to use mount", false},
		{"chromium", "cd; /usr/lib/chromium/chromium --headless --user-data-dir=c --dump-dom about:blank", "No usable sandbox!", false},
		{"strace", "strace -p 1", "attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted", false},
	} {
		t.Run(c.script, func(t *testing.T) {
			testenv.Need(t, c.needs)
			if c.control { // harmless, whoever runs the tests
				if out, err := exec.Command("sh", "-c", c.script).CombinedOutput(); err != nil {
					t.Skipf("not possible on this host either: %s", tail(out))
				}
			}
			r := p.inBox(t, []string{"--timeout", "1m"}, "sh", "-c", c.script)
			if r.code == 0 || r.code == 124 || !strings.Contains(r.stdout+r.stderr, c.says) {
				t.Errorf("exit %d, want a failure that says %q:\n%s%s", r.code, c.says, r.stdout, r.stderr)
			}
			if !strings.Contains(string(page), c.says) {
				t.Errorf("docs/troubleshooting.md does not have the words %q", c.says)
			}
		})
	}
}

// TestToolChainsOfTheHome: programs that version managers put below the caller's real
// home say in a box what they say outside.
func TestToolChainsOfTheHome(t *testing.T) {
	p := newPlace(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	p.env = append(p.env, "HOME="+home)
	found := 0
	for _, argv := range [][]string{
		{"cargo", "--version"},
		{"rustc", "--print", "sysroot"},
		{"python3", "-c", "import sys, ssl, ctypes; print(sys.version, sys.prefix)"},
		{"node", "--version"},
		{"go", "version"},
		{"java", "-version"},
		{"ruby", "--version"},
	} {
		path, err := exec.LookPath(argv[0])
		if rel, relErr := filepath.Rel(home, path); errors.Join(err, relErr) != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		found++
		t.Run(argv[0], func(t *testing.T) {
			bare := exec.Command(argv[0], argv[1:]...)
			bare.Dir = filepath.Join(p.home, "ws")
			want, err := bare.Output()
			if err != nil {
				t.Skipf("it does not work outside either: %v", err)
			}
			got, err := p.run(t, append([]string{"run", "--"}, argv...)...).CombinedOutput()
			if err != nil || string(got) != string(want) {
				t.Errorf("in a box it says %q, %v; outside %q", got, err, want)
			}
		})
	}
	if found == 0 {
		t.Skip("no tool chain of PATH lies in the home " + home)
	}
}
