//go:build linux

package stage

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// childOf names the test whose one-way part a process is.
const childOf = "CAISSON_ONE_WAY"

// oneWay runs f on a thread that is not the leader of its thread group, in a
// process of its own as an ordinary user: what f does to the thread is for
// good. args come to f as they are. The child's failures are the test's.
func oneWay(t *testing.T, f func(t *testing.T, args []string), args ...string) {
	t.Helper()
	if os.Getenv(childOf) == t.Name() {
		onStem(func() { f(t, strings.Split(os.Getenv("CAISSON_ARGS"), "\n")) })
		return
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	testenv.AsUser(t, cmd)
	cmd.Env = append(cmd.Env, childOf+"="+t.Name(), "CAISSON_ARGS="+strings.Join(args, "\n"))
	cmd.WaitDelay = 5 * time.Second // a daemon of a failed script may hold the pipe
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("the child did not run the test:\n%s", out)
	default:
		t.Logf("%s", out)
	}
}

// onStem runs f on a locked thread that is not the leader, and gives the
// thread up: it ends with the goroutine.
func onStem(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done) // also if f ends with FailNow or SkipNow
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onStem(f) // while this goroutine holds the leader
			runtime.UnlockOSThread()
		} else {
			f()
		}
	}()
	<-done
}

// confineStem puts the calling thread into a domain that can read and run
// everything and write below the folders, and behind the filter.
func confineStem(t *testing.T, o FilterOptions, writable ...string) {
	t.Helper()
	grants := []Grant{
		{Path: "/", Access: AccessRead | AccessExec},
		{Path: "/dev", Access: AccessWrite | AccessDevice},
		{Path: "/proc", Access: AccessWrite},
	}
	for _, w := range writable {
		real, err := filepath.EvalSymlinks(w)
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, Grant{Path: real, Access: AccessWrite})
	}
	domain, err := LandlockDomain(LandlockOptions{Grants: grants, Nested: o.Nested})
	if err != nil {
		t.Fatal(err)
	}
	if err := domain.Enter(); err != nil {
		t.Fatal(err)
	}
	filterStem(t, o)
}

// filterStem puts the calling thread behind the filter alone.
func filterStem(t *testing.T, o FilterOptions) {
	t.Helper()
	program, err := SeccompFilter(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := InstallFilter(program); err != nil {
		t.Fatal(err)
	}
}

// lookPath is exec.LookPath for tests.
func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
