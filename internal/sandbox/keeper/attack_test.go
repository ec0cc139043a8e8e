//go:build linux

package keeper_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// TestNoBoxWritesWhatBoxesAreMadeOf: the guest's binary is the watcher too,
// which runs outside. A box that could replace it would be out at the next run.
func TestNoBoxWritesWhatBoxesAreMadeOf(t *testing.T) {
	p := newPlace(t)
	cache := filepath.Join(p.home, ".cache")
	for _, dir := range []string{cache, filepath.Join(p.home, "other")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	guest := filepath.Join(cache, "caisson")
	if os.Geteuid() == 0 {
		guest = "/var/lib/caisson"
	}
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"another folder", 0, []string{"--write", filepath.Join(p.home, "other")}},
		{"write access", 125, []string{"--write", guest}},
		{"write access above it", 125, []string{"--write", filepath.Dir(guest)}},
		{"as workspace", 125, []string{"--workspace", guest}},
		{"workspace above it", 125, []string{"--workspace", filepath.Dir(guest)}},
	} {
		cmd := p.run(t, append(append([]string{"run"}, c.args...), "--", "true")...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%s: exit %d, want %d\n%s", c.name, cmd.ProcessState.ExitCode(), c.code, out)
		}
		if refused := strings.Contains(string(out), "own folder") || strings.Contains(string(out), "folder of the system"); c.code != 0 && !refused {
			t.Errorf("%s: refused for another reason: %s", c.name, out)
		}
	}
}

// give passes its standard output to whoever takes it at the socket s, and ends.
const give = `
import socket, array, time
for i in range(100):
    c = socket.socket(socket.AF_UNIX)
    try: c.connect("s"); break
    except OSError: time.sleep(.05)
c.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
print("all", flush=True)
c.recv(1)`

// take keeps it, and writes into it for as long as it lives.
const take = `
import socket, array, os, time
s = socket.socket(socket.AF_UNIX); s.bind("s"); s.listen()
c, _ = s.accept()
_, a, _, _ = c.recvmsg(1, socket.CMSG_SPACE(4))
fd = array.array("i", a[0][2][:4])[0]
os.write(1, b"taken\n"); c.send(b"y")
if os.environ.get("FLOOD"):
    while True: os.write(fd, b"f" * 4096)
time.sleep(60)`

// TestOutputGivenAway: a program that gives its standard output to a neighbour
// does not keep its own run from ending.
func TestOutputGivenAway(t *testing.T) {
	testenv.Need(t, "python3")
	for _, flood := range []string{"", "1"} {
		t.Run("flood="+flood, func(t *testing.T) {
			p := newPlace(t)
			other := p.run(t, "run", "--env", "FLOOD="+flood, "--", python, "-c", take)
			out, err := other.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Wait() }()
			defer func() { _ = other.Process.Kill() }()
			cmd := p.run(t, "run", "--", python, "-c", give)
			var got bytes.Buffer
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			copied := make(chan struct{})
			go func() { _, _ = io.Copy(&got, r); close(copied) }()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill()
				t.Fatal("the run goes on though its program has ended")
			}
			<-copied
			if !strings.Contains(got.String(), "all\n") {
				t.Errorf("output %.20q", got.String())
			}
			// Control: the neighbour had it indeed.
			b := make([]byte, 6)
			if _, err := io.ReadFull(out, b); err != nil || string(b) != "taken\n" {
				t.Errorf("the neighbour says %q, %v", b, err)
			}
		})
	}
}

// TestStdinIsNotSetBackTooFar: what a program writes into the pipe of its own
// standard input does not move the host's file to before its run.
func TestStdinIsNotSetBackTooFar(t *testing.T) {
	p := newPlace(t)
	name := filepath.Join(p.home, "in")
	if err := os.WriteFile(name, []byte("secret....given....."), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script string
		want   int64
	}{
		{"head -c 10 >/dev/null", 20},
		{"true", 10}, // control: unread input is given back
		{"head -c 10 >/dev/null; printf 123456789012345 > /proc/self/fd/0", 10},
	} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Seek(10, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		cmd := p.run(t, "run", "--", "sh", "-c", c.script)
		cmd.Stdin = f
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != c.want {
			t.Errorf("%s: the file stands at %d, want %d (%v)", c.script, at, c.want, err)
		}
	}
}

// TestStopWithoutJobControl: where nobody could continue it, a run does not let
// its program stop it.
func TestStopWithoutJobControl(t *testing.T) {
	testenv.Need(t, "python3")
	p := newPlace(t)
	// A terminal whose session has no shell: the run leads it itself.
	const session = `
import os, pty, sys
pid, fd = pty.fork()
if pid == 0: os.execv(sys.argv[1], sys.argv[1:])
out = b""
while True:
    try: b = os.read(fd, 4096)
    except OSError: break
    if not b: break
    out += b
_, status = os.waitpid(pid, 0)
print(out.decode(), os.waitstatus_to_exitcode(status))`
	stop := func(script string) (string, error) {
		cmd := exec.Command("timeout", "-s", "KILL", "20", python, "-c", session, testenv.Binary(t, "caisson"), "run", "--timeout", "15s", "--", "sh", "-c", script)
		cmd.Dir, cmd.Env = filepath.Join(p.home, "ws"), p.env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, script := range []string{"echo went on", "kill -STOP $$; echo went on"} {
		out, err := stop(script)
		if err != nil || strings.TrimSpace(out) != "went on\r\n 0" {
			t.Errorf("%s: %q, %v", script, out, err)
		}
	}
}

// TestLocksOfOthersAreNotSeen: /proc/locks lists those of open files of the
// whole host, so of every keeper.
func TestLocksOfOthersAreNotSeen(t *testing.T) {
	p := newPlace(t)
	host, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Skip("this kernel lists no locks")
	}
	r := p.inBox(t, nil, "sh", "-c", "cat /proc/locks; cat /proc/self/comm")
	if r.stdout != "cat\n" {
		t.Errorf("in the box: %q; on the host: %q", r.stdout, host)
	}
}

// TestReportFollowsNoLink: a box may have left anything at the name of a later
// run's report.
func TestReportFollowsNoLink(t *testing.T) {
	p := newPlace(t)
	victim := filepath.Join(p.home, "victim")
	if err := os.WriteFile(victim, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		plant string
		code  int
	}{
		{"true", 0},
		{"ln -s ../victim report", 125},
		{"mkfifo report", 125},
	} {
		if out, err := p.run(t, "run", "--", "sh", "-c", "rm -f report; "+c.plant).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := p.run(t, "run", "--report", "report", "--", "true")
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		out, _ := cmd.CombinedOutput()
		kill.Stop()
		if cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%s: exit %d, want %d: %s", c.plant, cmd.ProcessState.ExitCode(), c.code, out)
		}
	}
	// Control: the report that was written is one, with what the record adds.
	r := p.inBox(t, nil, "true")
	for _, want := range []string{`"seq":1,"time":"20`, `"kind":"exited"`} {
		if !strings.Contains(r.report, want) {
			t.Errorf("no %s in %s", want, r.report)
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "whole" {
		t.Errorf("the file behind the link: %q, %v", b, err)
	}
	if out, err := p.run(t, "run", "--report", "/dev/stderr", "--", "true").CombinedOutput(); err != nil || !strings.Contains(string(out), `"kind":"exited"`) {
		t.Errorf("/dev/stderr: %v\n%s", err, out)
	}
}

// TestKernelMountedInTheWorkspace: a workspace may hold the root of another
// system, with the host's /proc in it; the box does not get it.
func TestKernelMountedInTheWorkspace(t *testing.T) {
	testenv.Need(t, "root", "userns")
	user := exec.Command("true")
	home := testenv.AsUser(t, user)
	id := fmt.Sprint(user.SysProcAttr.Credential.Uid)
	group := fmt.Sprint(user.SysProcAttr.Credential.Gid)
	caisson := testenv.Binary(t, "caisson")
	for _, c := range []struct {
		name string
		argv []string
		want string
	}{
		{"outside", []string{"sh", "-c"}, "seen\nkept\n"},
		{"in a box", []string{caisson, "run", "--", "sh", "-c"}, "kept\n"},
	} {
		script := `mkdir -p ws/root/proc ws/root/tmp && mount -t proc proc ws/root/proc && mount -t tmpfs -o mode=755 tmpfs ws/root/tmp &&
			echo kept > ws/root/tmp/f && cd ws && exec setpriv --reuid=` + id + " --regid=" + group + ` --clear-groups "$@"`
		args := append([]string{"-m", "sh", "-c", script, "sh"}, c.argv...)
		cmd := exec.Command("unshare", append(args, "grep -q . root/proc/1/cmdline 2>/dev/null && echo seen; cat root/tmp/f")...)
		cmd.Dir, cmd.Env = home, append(user.Env, "CAISSON_STATE="+filepath.Join(home, "state"))
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, out, err, c.want)
		}
	}
}
