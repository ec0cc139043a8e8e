//go:build linux

package stage

import (
	"os"
	"syscall"
	"testing"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// innerSandboxes are what nested is for. Without it each of them fails.
var innerSandboxes = []struct {
	name  string
	needs []string
	argv  []string
	tools []string
}{
	{name: "user namespace", needs: []string{"unshare"}, argv: []string{"unshare", "--user", "--map-root-user", "true"}},
	{name: "mount", needs: []string{"unshare"}, argv: []string{"unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-ec", "mount -t tmpfs none /tmp; touch /tmp/x; mount -t proc none /proc; test $$ = 1"}},
	{name: "bubblewrap", needs: []string{"bwrap"}, argv: []string{"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc", "--die-with-parent", "true"}},
	{name: "chromium", argv: []string{"sh", "-euc", "cd; f=; " + chromium}, tools: []string{"chromium"}},
}

func TestNested(t *testing.T) {
	testenv.Need(t, "seccomp", "landlock", "userns")
	for _, s := range innerSandboxes {
		for _, nested := range []bool{true, false} {
			name := map[bool]string{true: " nested", false: " not nested"}[nested]
			t.Run(s.name+name, func(t *testing.T) {
				testenv.Need(t, s.needs...)
				needTools(t, s.tools...)
				if testing.Short() && len(s.tools) > 0 {
					t.Skip("slow")
				}
				oneWay(t, func(t *testing.T, _ []string) {
					confineStem(t, FilterOptions{Nested: nested}, os.Getenv("HOME"))
					status := runOnStem(t, &syscall.SysProcAttr{Setsid: true}, s.argv...)
					if worked := status == 0; worked != nested {
						t.Errorf("status %#x", status)
					}
				})
			})
		}
	}
}

// Behind the bare filter ordinary work goes on, and nothing reaches a socket of the
// host.
func TestBare(t *testing.T) {
	testenv.Need(t, "seccomp", "landlock", "python3")
	oneWay(t, func(t *testing.T, _ []string) {
		confineStem(t, FilterOptions{Bare: true}, os.Getenv("HOME"))
		status := runOnStem(t, nil, "python3", "-c", `import socket, subprocess, threading, errno
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
assert subprocess.run(["true"]).returncode == 0
def refused(f, *args):
    try: f(*args)
    except OSError as e: assert e.errno == errno.EAFNOSUPPORT, e
    else: raise Exception("allowed")
refused(socket.socket, socket.AF_INET)
refused(socket.socket, socket.AF_UNIX)
refused(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
refused(a.connect, "/run/x")`)
		if status != 0 {
			t.Errorf("status %#x", status)
		}
	})
}
