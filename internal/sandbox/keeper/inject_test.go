//go:build linux

package keeper_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// setup are the system calls by which a box is made. Each is made to fail, and
// each made the last thing that its process does, by strace.
var setup = []string{
	"unshare", "clone", "execve", "mount", "umount2", "fsopen", "fsconfig", "fsmount", "open_tree", "move_mount",
	"mount_setattr", "pivot_root", "chdir", "fchdir", "mkdirat", "mknodat", "symlinkat", "openat2", "sethostname", "setdomainname",
	"ioctl", "prctl", "capset", "setgroups", "setresgid", "setresuid", "setrlimit", "prlimit64", "seccomp",
	"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "close_range", "socketpair", "memfd_create", "pipe2",
	"keyctl", "sendmsg", "recvmsg", "mkdir", "flock", "renameat", "write", "umask",
}

// self prints all that bounds a program, so that a failure that was passed over
// shows as another text.
const self = `grep -E '^(Cap|NoNew|Seccomp|Uid|Gid)' /proc/self/status
sed 's/^[0-9]* [0-9]* [0-9:]* [^ ]* //; s/relatime.*//' /proc/self/mountinfo | sort
cat /proc/sys/user/max_user_namespaces /etc/hostname
uname -n; grep -c . /proc/net/dev; grep -E 'core|open files' /proc/self/limits; umask; ls -a / ~ /dev`

func (p place) strace(t *testing.T, inject string) *exec.Cmd {
	t.Helper()
	args := []string{"-f", "-qq", "-o", "/dev/null"}
	if inject != "" {
		args = append(args, "-e", inject)
	}
	args = append(args, testenv.Binary(t, "caisson"), "run", "--", "sh", "-c", self)
	cmd := exec.Command("strace", args...)
	cmd.Dir, cmd.Env = filepath.Join(p.home, "ws"), p.env
	return cmd
}

// count says how often each call is made in one run.
func (p place) count(t *testing.T) map[string]int {
	t.Helper()
	log := filepath.Join(p.home, "trace")
	cmd := exec.Command("strace", "-f", "-qq", "-e", "trace="+strings.Join(setup, ","), "-o", log,
		testenv.Binary(t, "caisson"), "run", "--", "true")
	cmd.Dir, cmd.Env = filepath.Join(p.home, "ws"), p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("strace: %v\n%s", err, out)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]int{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 1 {
			if name, _, ok := strings.Cut(f[1], "("); ok {
				made[name]++
			}
		}
	}
	return made
}

// steps are the points at which a run is disturbed: all of them at night, and
// at most a few of each call otherwise.
func steps(made map[string]int) (list []string) {
	limit := 2
	if os.Getenv("CAISSON_NIGHT") != "" {
		limit = 1 << 20
	}
	for _, name := range setup {
		n := made[name]
		for k := 1; k <= n; k++ {
			if k <= limit/2 || k > n-(limit+1)/2 || limit > n {
				list = append(list, fmt.Sprintf("inject=%s:%%s:when=%d", name, k))
			}
		}
	}
	return list
}

// programs make these too, and Go's own threads, or, as the last, the record of
// a box that runs already: a failure there is not one of the set-up.
var programsToo = []string{"renameat", "clone", "execve", "ioctl", "write", "pipe2", "umask", "sendmsg", "recvmsg"}

// TestKillAtEveryStep ends the process that makes a call, at that call.
func TestKillAtEveryStep(t *testing.T) {
	testenv.Need(t, "strace")
	p := newPlace(t)
	made := p.count(t)
	before := testenv.HostState(t, p.state)
	list := steps(made)
	for _, step := range list {
		inject := fmt.Sprintf(step, "signal=SIGKILL")
		_ = p.strace(t, inject).Run() // whatever its end, what it leaves counts
		if out, err := p.run(t, "ls").CombinedOutput(); err != nil {
			t.Fatalf("%s: caisson ls: %v\n%s", inject, err, out)
		}
		t.Run(inject, func(t *testing.T) { p.nothingLeft(t, before, gone) })
	}
	t.Logf("%d steps of %d calls", len(list), len(made))
}

// TestErrorAtEveryStep makes a call fail. Either the box does not start, and
// says why in few lines, or it is the same box as ever.
func TestErrorAtEveryStep(t *testing.T) {
	testenv.Need(t, "strace")
	p := newPlace(t)
	made := p.count(t)
	before := testenv.HostState(t, p.state)
	want, err := p.strace(t, "").Output()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, name := range programsToo {
		delete(made, name)
	}
	for _, step := range steps(made) {
		for _, e := range []string{"EPERM", "EINVAL", "ENOMEM"} {
			if e != "EPERM" && os.Getenv("CAISSON_NIGHT") == "" {
				continue
			}
			inject := fmt.Sprintf(step, "error="+e)
			cmd := p.strace(t, inject)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			code := cmd.ProcessState.ExitCode()
			switch {
			case code == 0 && slices.Equal(normal(stdout.String()), normal(string(want))):
			case code == 0:
				t.Errorf("%s: the box started and is another:\n%s\nwant:\n%s", inject, stdout.String(), want)
			default:
				refused++
				if stdout.Len() > 0 && code == 125 {
					t.Errorf("%s: refused, yet the command ran: %s", inject, stdout.String())
				}
			}
			if strings.Contains(stderr.String(), "goroutine ") {
				t.Errorf("%s: a panic:\n%s", inject, stderr.String())
			}
			// What could not be removed because the removal was made to fail is swept.
			if out, err := p.run(t, "ls").CombinedOutput(); err != nil {
				t.Fatalf("%s: caisson ls: %v\n%s", inject, err, out)
			}
			t.Run(inject, func(t *testing.T) { p.nothingLeft(t, before, gone) })
		}
	}
	if refused == 0 {
		t.Error("no failure was noticed: the test is not what it says")
	}
}

// normal is the text of self without what differs from box to box: the order of
// mounts, and the id that a box of root's has.
func normal(s string) []string {
	if _, rest, ok := strings.Cut(s, "Uid:"); ok && os.Getuid() == 0 {
		s = strings.ReplaceAll(s, strings.Fields(rest)[0], "ID")
	}
	return slices.Sorted(strings.Lines(s))
}
