//go:build linux

package keeper_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// program is a real one that must work in a box. Its script runs in the
// workspace, with an empty HOME, and ends with status 0 only if all worked. It runs bare
// first, by the same user: a program that does not work outside proves nothing inside.
type program struct {
	name   string
	needs  []string // names of testenv
	policy string   // lines of the policy, beside the version
	bare   string   // what the control has before the script, where it needs something else
	script string
	// night: too slow for every run.
	night bool
	// account: bare, it wants to run as a user who has an account and is not root. In a box
	// everyone is one.
	account bool
}

// caller is somebody who starts boxes.
type caller struct {
	place
	as func(*exec.Cmd) // makes a command, which has not started, theirs
}

// callers are who runs the tests and, where that is root, an ordinary user.
func callers(t *testing.T, f func(t *testing.T, c caller)) {
	t.Run("invoker", func(t *testing.T) {
		f(t, caller{newPlace(t), func(*exec.Cmd) {}})
	})
	if os.Geteuid() == 0 {
		t.Run("user", func(t *testing.T) { f(t, newUser(t)) })
	}
}

// newUser makes the place of an ordinary user.
func newUser(t *testing.T) caller {
	t.Helper()
	testenv.Need(t, "userns")
	model := exec.Command("true")
	testenv.AsUser(t, model)
	c := ownerOf(t, int(model.SysProcAttr.Credential.Uid))
	cmd := c.run(t, "run", "--", "true") // places the guest
	c.as(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("caisson run true: %v\n%s", err, out)
	}
	return c
}

// nobody is an account of every system that is no one's.
const nobody = 65534

// ownerOf makes a place for a user, whoever runs the tests being root.
func ownerOf(t *testing.T, uid int) caller {
	t.Helper()
	home := testenv.UserDir(t, uid, uid)
	c := caller{place: place{home: home, state: filepath.Join(home, "state")}}
	c.env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "XDG_") || strings.HasPrefix(kv, "HOME=") || strings.HasPrefix(kv, "TMPDIR=")
	}), "HOME="+home, "CAISSON_STATE="+c.state)
	c.as = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	ws := filepath.Join(home, "ws")
	if err := errors.Join(os.Mkdir(ws, 0o755), os.Chown(ws, uid, uid)); err != nil {
		t.Fatal(err)
	}
	return c
}

// shell is the command that runs a script as the program does.
func (p program) shell(script string) []string { return []string{"sh", "-euc", script} }

// control runs the program bare; where that does not work the test has nothing to say.
func (p program) control(t *testing.T, c caller) {
	t.Helper()
	if p.account && os.Geteuid() == 0 {
		c = ownerOf(t, nobody)
	}
	argv := p.shell(p.bare + p.script)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = filepath.Join(c.home, "ws"), append(c.env, "TMPDIR=/tmp", "PWD="+filepath.Join(c.home, "ws"))
	c.as(cmd)
	// What it leaves running must not hold the test: it is ended with its group.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually there is nobody left
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("it does not work outside of a box either: %v\n%s", err, tail(out))
	}
}

// boxed runs the program in a box, and looks for what is left.
func (p program) boxed(t *testing.T, c caller) {
	t.Helper()
	file := filepath.Join(c.home, "policy.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+p.policy), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{"run", "--timeout", "5m", "--policy", file, "--"}, p.shell(p.script)...)
	before := testenv.HostState(t, c.state)
	cmd := c.run(t, argv...)
	c.as(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in a box: %v\n%s", err, tail(out))
	}
	c.nothingLeft(t, before, gone)
}

// tail is the end of a long output.
func tail(out []byte) string {
	const most = 4000
	return strings.TrimSpace(string(out[max(0, len(out)-most):]))
}

// runPrograms runs each program, as each caller, bare and in a box.
func runPrograms(t *testing.T, programs []program) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("slow")
			}
			if p.night && os.Getenv("CAISSON_NIGHT") == "" {
				t.Skip("only with CAISSON_NIGHT set")
			}
			testenv.Need(t, p.needs...)
			callers(t, func(t *testing.T, c caller) {
				p.control(t, c)
				p.boxed(t, c)
			})
		})
	}
}
