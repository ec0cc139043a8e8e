package cli

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/linux"
	"github.com/caisson-dev/caisson/internal/testenv"
)

// resetUser is an ordinary user with a home of its own: what root has lies
// where the host's own Caisson may work.
type resetUser struct {
	home string
	cmd  func(args ...string) *exec.Cmd
}

func newResetUser(t *testing.T) *resetUser {
	t.Helper()
	testenv.Need(t, "userns")
	caisson := testenv.Binary(t, "caisson")
	first := exec.Command(caisson)
	u := &resetUser{home: testenv.AsUser(t, first)}
	u.cmd = func(args ...string) *exec.Cmd {
		cmd := exec.Command(caisson, args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = u.home, first.Env, first.SysProcAttr
		return cmd
	}
	return u
}

// caisson runs a command that must end with a code.
func (u *resetUser) caisson(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := u.cmd(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("caisson %q: exit code %d, want %d\n%s", args, got, code, out)
	}
	return string(out)
}

// traces are all paths in the home that name Caisson, the topmost alone.
func (u *resetUser) traces(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(u.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), "caisson") && path != u.home {
			list = append(list, strings.TrimPrefix(path, u.home+"/"))
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// config gives the user a policy.
func (u *resetUser) config(t *testing.T) {
	t.Helper()
	cmd := u.cmd()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "mkdir -p .config/caisson && echo version: 1 >.config/caisson/policy.yaml"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestResetRemovesEveryTrace(t *testing.T) {
	u := newResetUser(t)
	if out := u.caisson(t, 0, "reset"); out != "nothing to remove\n" {
		t.Errorf("on a host without traces: %q", out)
	}
	u.config(t)
	u.caisson(t, 0, "run", "--workspace-mode", "none", "--", "true")
	const all = ".cache/caisson .config/caisson .local/state/caisson"
	if got := strings.Join(u.traces(t), " "); got != all {
		t.Fatalf("a run left %s", got)
	}
	out := u.caisson(t, 2, "reset")
	if out != "caisson: reset: nobody is at a terminal to say yes\ncaisson: hint: add --yes to remove it without being asked\n" {
		t.Errorf("without a terminal: %q", out)
	}
	if got := strings.Join(u.traces(t), " "); got != all {
		t.Fatalf("a refused reset left %s", got)
	}
	out = u.caisson(t, 0, "reset", "--yes")
	if want := "removed " + u.home + "/.local/state/caisson\nremoved " + u.home + "/.cache/caisson\n"; out != want {
		t.Errorf("got %q", out)
	}
	if got := strings.Join(u.traces(t), " "); got != ".config/caisson" {
		t.Errorf("without --all left %s", got)
	}
	u.caisson(t, 0, "reset", "--yes", "--all", "--json")
	if got := u.traces(t); len(got) > 0 {
		t.Errorf("with --all left %s", got)
	}
	u.caisson(t, 0, "run", "--workspace-mode", "none", "--", "true") // it begins anew
}

// A running sandbox is not pulled from under its command.
func TestResetRefusesWhileASandboxRuns(t *testing.T) {
	u := newResetUser(t)
	run := u.cmd("run", "--workspace-mode", "none", "--", "sh", "-c", "echo up; read line; echo $line")
	in, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	up := make([]byte, 3)
	if _, err := io.ReadFull(out, up); err != nil {
		t.Fatal(err)
	}
	if said := u.caisson(t, 1, "reset", "--yes"); !strings.HasPrefix(said, "caisson: sandboxes are running: ") {
		t.Errorf("got %q", said)
	}
	if got := strings.Join(u.traces(t), " "); got != ".cache/caisson .local/state/caisson" {
		t.Errorf("left %s", got)
	}
	if _, err := io.WriteString(in, "on\n"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err := run.Wait(); err != nil || string(rest) != "on\n" {
		t.Errorf("the sandbox was disturbed: %q, %v", rest, err)
	}
	if err != nil {
		t.Error(err)
	}
	u.caisson(t, 0, "reset", "--yes")
	if got := u.traces(t); len(got) > 0 {
		t.Errorf("left %s", got)
	}
}

// At a terminal it asks, and only a yes is a yes.
func TestResetAsks(t *testing.T) {
	for _, c := range []struct {
		answer string
		code   int
		left   string
	}{
		{"\n", 1, ".config/caisson"},
		{"n\n", 1, ".config/caisson"},
		{"yeah\n", 1, ".config/caisson"},
		{"\x04", 1, ".config/caisson"},
		{"y\n", 0, ""},
		{"YES\n", 0, ""},
	} {
		u := newResetUser(t)
		u.config(t)
		cmd := u.cmd("reset", "--all")
		attr := syscall.SysProcAttr{} // pty.Start changes it
		if cmd.SysProcAttr != nil {
			attr = *cmd.SysProcAttr
		}
		cmd.SysProcAttr = &attr
		tty := atTerminal(t, cmd)
		if _, err := io.WriteString(tty, c.answer); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(tty) // EIO is its end
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(said), "[y/N]") {
			t.Errorf("answer %q: exit code %d, want %d\n%s", c.answer, code, c.code, said)
		}
		if got := strings.Join(u.traces(t), " "); got != c.left {
			t.Errorf("answer %q: left %q, want %q", c.answer, got, c.left)
		}
		tty.Close()
	}
}

// atTerminal starts a command at a terminal of its own.
func atTerminal(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	fd, err := linux.TerminalPeer(int(master.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	slave := os.NewFile(uintptr(fd), "terminal")
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return master
}

// Where CAISSON_STATE names a folder with more in it, the rest stays.
func TestResetLeavesTheFilesOfOthers(t *testing.T) {
	u := newResetUser(t)
	cmd := u.cmd()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "mkdir shared && echo mine >shared/diary"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd = u.cmd("reset", "--yes")
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "CAISSON_STATE="+u.home+"/shared")
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), u.home+"/shared/diary stay") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if b, err := os.ReadFile(u.home + "/shared/diary"); err != nil || string(b) != "mine\n" {
		t.Errorf("the diary: %q, %v", b, err)
	}
}
