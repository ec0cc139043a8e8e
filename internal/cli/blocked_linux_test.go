package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// blockedHost is a way in which hosts keep sandboxes from being started, made
// for real in a place of its own, and the same place without it.
type blockedHost struct {
	name  string
	needs []string
	// place is a shell script that ends by executing "$@" where the block is, if $1, which it
	// shifts away, is "blocked".
	place     string
	filter    []unix.SockFilter // of a container, in the file $FILTER
	control   []unix.SockFilter // instead of it, where nothing is blocked
	says, fix string            // of `caisson run`; says is the start
	box       string            // what the doctor saw, if it is not says
}

// asUser starts "$@" as an ordinary user inside a user namespace that it has all rights in no more.
const asUser = `exec unshare -U --map-user=1000 --map-group=1000 "$@"`

var blockedHosts = []blockedHost{
	{
		name: "no user namespaces", needs: []string{"setpriv"},
		place: `n=9; [ $1 = blocked ] && n=0; shift
			exec unshare -U --map-user=1000 --map-group=1000 --keep-caps sh -c '
				echo $0 >/proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps -all --inh-caps -all "$@"' $n "$@"`,
		says: "tier process does not run on this host: user-namespaces: this host allows no more user namespaces: an outer sandbox or container has set a limit",
		fix:  "start Caisson outside of it",
	},
	{
		name: "bubblewrap without user namespaces", needs: []string{"bwrap"},
		place: `how=--unshare-user; [ $1 = blocked ] && how="--unshare-user --disable-userns"; shift
			exec bwrap $how --dev-bind / / "$@"`,
		says: "this host allows no more user namespaces: an outer sandbox or container has set a limit",
		fix:  "leave out --disable-userns",
	},
	{
		name: "a container's filter", needs: []string{"bwrap"},
		filter: refuseNewUser(), control: allowAll(),
		place: `shift; exec bwrap --dev-bind / / --seccomp 3 "$@" 3<$FILTER`,
		says:  "a seccomp filter, as containers have one, refuses new namespaces",
		fix:   "seccomp=unconfined",
	},
	{
		name: "a filter that knows no mounts", needs: []string{"bwrap"},
		filter: refuse(unix.SYS_MOVE_MOUNT, unix.EPERM), control: allowAll(),
		place: `shift; exec bwrap --dev-bind / / --seccomp 3 "$@" 3<$FILTER`,
		says:  "a seccomp filter, as containers have one, refuses a step of the set-up",
		fix:   "seccomp=unconfined",
	},
	{
		name: "a masked /proc", needs: []string{"bwrap"},
		place: `mask=; [ $1 = blocked ] && mask="--ro-bind /dev/null /proc/interrupts"; shift
			exec bwrap --dev-bind / / --unshare-pid --proc /proc $mask "$@"`,
		says: "this container's /proc is masked (/proc/interrupts), and the kernel then gives nobody a fresh one",
		fix:  "systempaths=unconfined",
	},
	{
		name: "a cache without execution",
		place: `o=mode=777; [ $1 = blocked ] && o=mode=777,noexec; shift; mkdir -p $HOME/.cache
			exec unshare -Urm sh -c 'mount -t tmpfs -o $0 cache $HOME/.cache && ` + asUser + `' $o "$@"`,
		says: "$HOME/.cache/caisson is on a file system mounted noexec",
		fix:  "XDG_CACHE_HOME",
	},
	{
		name: "a cache that is read-only",
		place: `o=mode=777; [ $1 = blocked ] && o=mode=777,ro; shift; mkdir -p $HOME/.cache
			exec unshare -Urm sh -c 'mount -t tmpfs -o $0 cache $HOME/.cache && ` + asUser + `' $o "$@"`,
		says: "make folder: mkdir $HOME/.cache/caisson: read-only file system",
		fix:  "XDG_CACHE_HOME",
	},
	{
		name: "no /dev/null", needs: []string{"bwrap"},
		place: `dev=--dev; [ $1 = blocked ] && dev=--tmpfs; shift; exec bwrap --bind / / $dev /dev "$@"`,
		says:  "there is no usable /dev/null here",
		fix:   "mknod -m 666 /dev/null",
	},
	{
		name: "a box of Caisson",
		place: `outer=; [ $1 = blocked ] && outer="$2 run --read $(dirname $2) --workspace-mode none --"; shift
			exec $outer "$@"`,
		says: "tier process does not run on this host: user-namespaces: this host allows no more user namespaces: an outer sandbox or container has set a limit",
		box:  "a seccomp filter, as containers have one, refuses new namespaces",
		fix:  "start Caisson outside of it",
	},
	{
		name: "no /proc", needs: []string{"bwrap"},
		place: `proc="--dev-bind /proc /proc"; [ $1 = blocked ] && proc="--tmpfs /proc"; shift
			exec bwrap --dev-bind / / $proc "$@"`,
		says: "tier process does not run on this host: namespaces: no /proc is mounted here",
		fix:  "mount -t proc proc /proc",
	},
	{
		name:  "a user id that is not mapped",
		place: `map=--map-current-user; [ $1 = blocked ] && map=; shift; exec unshare -U $map "$@"`,
		says:  "your user id does not exist in this user namespace",
		fix:   "--map-current-user",
	},
	{
		name: "a chroot",
		place: `root=/; [ $1 = blocked ] && root=$HOME/root; shift
			mkdir $HOME/root && cd $HOME/root && mkdir proc dev tmp usr home &&
			for l in bin lib lib64; do [ -L /$l ] && ln -s usr/$l $l; done
			exec unshare -U --map-user=1000 --map-group=1000 --keep-caps -m sh -c '
				for d in proc dev tmp usr; do mount --rbind /$d $HOME/root/$d || exit 9; done
				b=$(dirname "$2"); mkdir -p $1$b && mount --rbind $b $1$b || exit 9
				exec chroot "$@"' sh $root "$@"`,
		says: "the kernel makes no user namespace in a chroot",
		fix:  "pivot_root",
	},
}

// TestBlockedHosts starts sandboxes where the host blocks them: one clear line,
// the exact fix, the code of a refusal, nothing left. Each has its control: the
// same place without the block.
func TestBlockedHosts(t *testing.T) {
	testenv.Need(t, "userns", "unshare")
	for _, h := range blockedHosts {
		t.Run(h.name, func(t *testing.T) {
			testenv.Need(t, h.needs...)
			out, code, home := h.caisson(t, false, "run", "--workspace-mode", "none", "--", "true")
			if code != 0 {
				t.Fatalf("without the block: exit code %d\n%s", code, out)
			}
			noBoxesLeft(t, home)
			out, code, home = h.caisson(t, true, "run", "--workspace-mode", "none", "--", "true")
			if code != 125 {
				t.Errorf("exit code %d, want 125", code)
			}
			says := "caisson: " + strings.ReplaceAll(h.says, "$HOME", home)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != 2 || !strings.HasPrefix(lines[0], says) || !strings.HasPrefix(lines[1], "caisson: hint: ") || !strings.Contains(lines[1], h.fix) {
				t.Errorf("output:\n%s\nwant %q and a hint with %q", out, says, h.fix)
			}
			noBoxesLeft(t, home)
		})
	}
}

// TestBlockedHostsDoctor asks the doctor on the same hosts: the tier is not
// usable, and the fix is there in the same words.
func TestBlockedHostsDoctor(t *testing.T) {
	testenv.Need(t, "userns", "unshare")
	for _, h := range blockedHosts {
		t.Run(h.name, func(t *testing.T) {
			testenv.Need(t, h.needs...)
			out, code, home := h.caisson(t, true, "doctor", "process")
			says := strings.ReplaceAll(regexp.MustCompile("^tier process does not run on this host: [a-z-]+: ").ReplaceAllString(h.says, ""), "$HOME", home)
			if h.box != "" {
				says = h.box
			}
			row := regexp.MustCompile(`(?m)^  box +none +yes +` + regexp.QuoteMeta(says))
			if !row.MatchString(out) {
				t.Errorf("no row of the box with %q", says)
			}
			if code != 1 || !strings.Contains(out, "process:  not usable\n") || !strings.Contains(out, "\n  fix box: ") || !strings.Contains(out, h.fix) {
				t.Errorf("exit code %d, want 1; no %q in\n%s", code, h.fix, out)
			}
		})
	}
}

// TestNoUserNSIsRefused accepts the loss of user namespaces where there are
// none: there is no half box.
func TestNoUserNSIsRefused(t *testing.T) {
	testenv.Need(t, "userns", "unshare")
	for _, h := range blockedHosts[:3] {
		t.Run(h.name, func(t *testing.T) {
			testenv.Need(t, h.needs...)
			args := []string{"run", "--accept-loss", "no-userns", "--workspace-mode", "none", "--json", "--", "true"}
			if out, code, _ := h.caisson(t, false, args...); code != 0 {
				t.Fatalf("without the block: exit code %d\n%s", code, out)
			}
			out, code, home := h.caisson(t, true, args...)
			if code != 125 || !strings.HasPrefix(out, `{"code":"not-in-build","message":"this host bars user namespaces, and a box without them (no-userns) is not in this build: `) {
				t.Errorf("exit code %d\n%s", code, out)
			}
			noBoxesLeft(t, home)
		})
	}
}

// TestWithoutLandlock runs where the kernel has no Landlock: a box starts, and
// the missing layer is said, with the fix.
func TestWithoutLandlock(t *testing.T) {
	testenv.Need(t, "userns", "bwrap", "landlock")
	h := blockedHost{
		place:  `shift; exec bwrap --dev-bind / / --seccomp 3 "$@" 3<$FILTER`,
		filter: refuse(unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS), control: allowAll(),
	}
	for _, blocked := range []bool{false, true} {
		out, code, _ := h.caisson(t, blocked, "run", "--workspace-mode", "none", "--", "echo", "ran")
		said := strings.Contains(out, "caisson: no Landlock here") && strings.Contains(out, "lsm=landlock,")
		if code != 0 || !strings.Contains(out, "ran\n") || said != blocked {
			t.Errorf("without Landlock: %v: exit code %d\n%s", blocked, code, out)
		}
		out, _, _ = h.caisson(t, blocked, "doctor", "process")
		if said := strings.Contains(out, "  fix landlock: lsm=landlock,"); said != blocked {
			t.Errorf("without Landlock: %v: the doctor says\n%s", blocked, out)
		}
	}
}

// TestRootWithoutCapability is root in a container.
func TestRootWithoutCapability(t *testing.T) {
	testenv.Need(t, "root", "setpriv")
	state := "CAISSON_STATE=" + t.TempDir()
	for _, c := range []struct {
		drop, says string
		code       int
	}{
		{"-sys_admin", "caisson: root lacks capabilities here that a sandbox is set up by: CAP_SYS_ADMIN", 125},
		{"-sys_time", "caisson: root lacks capabilities here that a sandbox is set up by: CAP_SYS_TIME", 125},
		{"-net_admin", "caisson: root lacks capabilities here that a sandbox is set up by: CAP_NET_ADMIN", 125},
		{"-net_raw", "", 0},
	} {
		cmd := exec.Command("setpriv", "--bounding-set", c.drop, "--inh-caps", c.drop, testenv.Binary(t, "caisson"), "run", "--workspace-mode", "none", "--", "true")
		cmd.Env = append(cmd.Environ(), state)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.HasPrefix(string(out), c.says) {
			t.Errorf("%s: exit code %d, want %d\n%s", c.drop, code, c.code, out)
		}
	}
}

// TestFewDescriptors runs where too few files can be open, at each step of a start in turn.
func TestFewDescriptors(t *testing.T) {
	testenv.Need(t, "userns")
	refused, ran := 0, 0
	for n := 12; n <= 64; n += 1 + n/24*8 {
		h := blockedHost{place: fmt.Sprintf(`ulimit -n %d; shift; exec "$@"`, n)}
		out, code, _ := h.caisson(t, true, "run", "--workspace-mode", "none", "--", "true")
		switch {
		case code == 0 && out == "":
			ran++
		case code == 125 && strings.HasPrefix(out, "caisson: ") && strings.Contains(out, "caisson: hint: raise the limit of open files: ulimit -n 1024\n"):
			refused++
		default:
			t.Errorf("%d descriptors: exit code %d\n%s", n, code, out)
		}
	}
	if refused == 0 || ran == 0 {
		t.Errorf("%d starts were refused, %d were not", refused, ran)
	}
}

// TestRootOfAContainer is root of a user namespace, as in rootless containers; the control is an ordinary
// user of the same.
func TestRootOfAContainer(t *testing.T) {
	testenv.Need(t, "userns", "bwrap")
	h := blockedHost{place: `id=1000; [ $1 = blocked ] && id=0; shift
		exec bwrap --unshare-user --uid $id --gid $id --dev-bind / / --tmpfs /run --tmpfs /var/lib "$@"`}
	for blocked, want := range map[bool]int{false: 0, true: 125} {
		out, code, home := h.caisson(t, blocked, "run", "--workspace-mode", "none", "--", "true")
		if code != want || strings.HasPrefix(out, "caisson: root is only root of a container here") != blocked {
			t.Errorf("root: %v: exit code %d, want %d\n%s", blocked, code, want, out)
		}
		noBoxesLeft(t, home)
	}
}

// caisson runs a command line in the place, as an ordinary user.
func (h *blockedHost) caisson(t *testing.T, blocked bool, args ...string) (out string, code int, home string) {
	t.Helper()
	which, filter := "open", h.control
	if blocked {
		which, filter = "blocked", h.filter
	}
	args = append([]string{"-c", h.place, "sh", which, testenv.Binary(t, "caisson")}, args...)
	cmd := exec.Command("sh", args...)
	home = testenv.AsUser(t, cmd)
	cmd.Env = append(cmd.Env, "CAISSON_STATE="+home+"/state", "FILTER="+home+"/filter")
	var program bytes.Buffer
	if err := binary.Write(&program, binary.NativeEndian, filter); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home+"/filter", program.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode(), home
}

func noBoxesLeft(t *testing.T, home string) {
	t.Helper()
	left, err := os.ReadDir(home + "/state/boxes")
	if err != nil && !os.IsNotExist(err) || len(left) > 0 {
		t.Errorf("left in the folder of sandboxes: %v, %v", left, err)
	}
}

const (
	loadWord = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpSet  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	ret      = unix.BPF_RET | unix.BPF_K

	atNumber = 0  // offsets in struct seccomp_data
	atFirst  = 16 // the low half of the first argument, on little-endian machines
)

// refuseNewUser is what Docker's filter does to who has no capability.
func refuseNewUser() []unix.SockFilter {
	return []unix.SockFilter{
		{Code: loadWord, K: atNumber},
		{Code: jumpEq, K: unix.SYS_CLONE3, Jt: 5},
		{Code: jumpEq, K: unix.SYS_CLONE, Jt: 1},
		{Code: jumpEq, K: unix.SYS_UNSHARE, Jf: 2},
		{Code: loadWord, K: atFirst},
		{Code: jumpSet, K: unix.CLONE_NEWUSER, Jt: 2},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
}

// refuse lets one call fail.
func refuse(number uint32, no syscall.Errno) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: loadWord, K: atNumber},
		{Code: jumpEq, K: number, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(no)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
}

func allowAll() []unix.SockFilter {
	return []unix.SockFilter{{Code: ret, K: unix.SECCOMP_RET_ALLOW}}
}
