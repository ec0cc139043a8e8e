package keeper_test

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// result is how a run of caisson ended.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command in a box, from an empty folder, with a state folder of its
// own, and fails the test if the host is not as before a second after.
func run(t *testing.T, args ...string) result {
	t.Helper()
	caisson := testenv.Binary(t, "caisson")
	work, state := t.TempDir(), t.TempDir()
	host := testenv.HostState(t, state)
	cmd := exec.Command(caisson, append([]string{"run", "--workspace-mode", "none"}, args...)...)
	cmd.Dir = work
	cmd.Env = append(cmd.Environ(), "CAISSON_STATE="+state)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	left := host.Await(t, time.Second)
	for _, l := range left {
		if !strings.HasSuffix(l, "create.lock -rw------- 0 bytes") && !strings.Contains(l, state+"/") {
			t.Errorf("left on the host: %s", l)
		}
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

const python = "/usr/bin/python3"

func TestMemoryLimit(t *testing.T) {
	testenv.Need(t, "root", "cgroup-v1", "python3")
	alone := "b = bytearray(150 << 20); print(len(b) >> 20)"
	many := `
import subprocess, sys
p = [subprocess.Popen([sys.executable, "-c", "import sys; b = bytearray(40 << 20); print(1, flush=True); sys.stdin.read()"],
     stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(5)]
for q in p: q.stdout.readline()
for q in p: q.communicate()
print("all")
`
	for _, c := range []struct{ name, limit, program, out string }{
		{"one process", "100MiB", alone, ""},
		{"one process within", "300MiB", alone, "150\n"},
		{"many processes", "150MiB", many, ""},
		{"many processes within", "400MiB", many, "all\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, "--memory", c.limit, "--", python, "-c", c.program)
			if c.out != "" {
				if r.code != 0 || r.stdout != c.out || r.stderr != "" {
					t.Errorf("got %+v, want success", r)
				}
				return
			}
			want := "caisson: memory: " + strings.Replace(c.limit, "MiB", " MiB limit\n", 1)
			if r.code != 137 || !strings.HasPrefix(r.stderr, want) || !strings.Contains(r.stderr, "--memory") {
				t.Errorf("got %+v, want 137 and %q", r, want)
			}
		})
	}
}
