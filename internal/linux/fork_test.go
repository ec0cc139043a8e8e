//go:build linux

package linux

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// output forks c with its standard output to a pipe and returns what it wrote
// and how it ended.
func output(t *testing.T, c *Child) (string, syscall.WaitStatus, error) {
	t.Helper()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Files = []int{int(null.Fd()), int(w.Fd()), int(w.Fd())}
	s, err := c.Fork()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	failed := s.Executed()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(s.PID, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	return string(out), ws, failed
}

func TestForkGivesWhatWasAsked(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, ws, err := output(t, &Child{
		Path: "/bin/sh", Argv: []string{"sh", "-c", "pwd; echo $A; ulimit -n; ulimit -c; ls /proc/self/fd | wc -l; ps -o sid= -p $$ | tr -d ' '; echo $$; exit 7"},
		Env: []string{"A=b\xff", "PATH=/usr/bin:/bin"}, Dir: dir, Setsid: true,
		Limits: []Limit{{unix.RLIMIT_NOFILE, 123, 123}, {unix.RLIMIT_CORE, 0, 0}},
	})
	if err != nil || ws.ExitStatus() != 7 {
		t.Fatalf("%v, exit %d", err, ws.ExitStatus())
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 7 {
		t.Fatalf("got %q", lines)
	}
	// What this process itself was given and did not close on exec goes on.
	std, err := exec.Command("sh", "-c", "ls /proc/self/fd | wc -l").Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{dir, "b\xff", "123", "0", strings.TrimSpace(string(std))} {
		if lines[i] != want {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	if lines[5] != lines[6] {
		t.Errorf("session %s of process %s: not its own", lines[5], lines[6])
	}
}

func TestForkMovesDescriptorsThatLieInTheWay(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// Output as 0 and input as 1, each from where the other goes.
	s, err := (&Child{Path: "/bin/sh", Argv: []string{"sh", "-c", "echo swapped >&0"}, Files: []int{int(w.Fd()), 0, 2}}).Fork()
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := s.Executed(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil || string(b) != "swapped\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := syscall.Wait4(s.PID, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func TestForkSaysWhichStepFailed(t *testing.T) {
	for _, c := range []struct {
		child Child
		step  string
		errno syscall.Errno
	}{
		{Child{Path: "/does/not/exist"}, "exec", unix.ENOENT},
		{Child{Path: "/etc/passwd"}, "exec", unix.EACCES},
		{Child{Path: "/bin/true", Dir: "/does/not/exist"}, "chdir", unix.ENOENT},
		{Child{Path: "/bin/true", Setsid: true, Terminal: true}, "terminal", unix.ENOTTY},
		{Child{Path: "/bin/true", Limits: []Limit{{unix.RLIMIT_NOFILE, 2, 1}}}, "limit", unix.EINVAL},
		{Child{Path: "/bin/true"}, "", 0},
	} {
		c.child.Argv = []string{"x"}
		_, _, err := output(t, &c.child)
		var ce *ChildError
		switch {
		case c.step == "" && err == nil:
		case !errors.As(err, &ce) || ce.Step != c.step || ce.Errno != c.errno:
			t.Errorf("%+v: %v, want %s: %v", c.child, err, c.step, c.errno)
		}
	}
}

func TestForkRefusesNUL(t *testing.T) {
	if _, err := (&Child{Path: "/bin/true\x00", Argv: []string{"x"}}).Fork(); err == nil {
		t.Error("a path with a NUL byte was taken")
	}
}

func BenchmarkFork(b *testing.B) {
	for b.Loop() {
		s, err := (&Child{Path: "/bin/true", Argv: []string{"true"}, Files: []int{0, 1, 2}}).Fork()
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Executed(); err != nil {
			b.Fatal(err)
		}
		if _, err := syscall.Wait4(s.PID, nil, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}
