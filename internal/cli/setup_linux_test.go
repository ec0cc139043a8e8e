package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/internal/testenv"
)

const (
	restrictFile = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	cloneFile    = "/proc/sys/kernel/unprivileged_userns_clone"
	maxFile      = "/proc/sys/user/max_user_namespaces"
	labelFile    = "/proc/self/attr/apparmor/current"
)

// madeHost is a host of files in a folder.
func madeHost(t *testing.T, files map[string]string) *setupHost {
	t.Helper()
	h := &setupHost{
		root: t.TempDir(), usermod: []string{"usermod"}, exe: "/usr/local/bin/caisson",
		trust: func(string) error { return nil },
	}
	for path, text := range files {
		if err := writeWhole(h.root+path, text); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// scripts joins what would be done.
func scripts(t *testing.T, h *setupHost, find func() ([]*change, error)) string {
	t.Helper()
	changes, err := find()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(strings.ReplaceAll(c.Script, h.root, ""))
	}
	return b.String()
}

const profileGolden = `# Written by caisson setup; caisson setup --undo removes it.
abi <abi/4.0>,
include <tunables/global>

profile caisson /usr/local/bin/caisson flags=(unconfined) {
  userns,

  include if exists <local/caisson>
}
`

const profileScript = "mkdir -p /etc/apparmor.d\ncat >/etc/apparmor.d/caisson <<'END'\n" + profileGolden +
	"END\napparmor_parser -r -W /etc/apparmor.d/caisson\n"

// TestSetupScripts is what setup does on hosts that are made up: no machine of
// the tests has AppArmor, so these texts are all that stands for it.
func TestSetupScripts(t *testing.T) {
	ours := "caisson (unconfined)\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		user  string
		want  string
	}{
		{"an ordinary host", map[string]string{maxFile: "127000\n", cloneFile: "1\n"}, "", ""},
		{"AppArmor, not restricting", map[string]string{restrictFile: "0\n"}, "", ""},
		{"AppArmor", map[string]string{restrictFile: "1\n"}, "", profileScript},
		{"AppArmor, done", map[string]string{restrictFile: "1\n", appArmorFile: profileGolden, labelFile: ours}, "", ""},
		{"AppArmor, not loaded", map[string]string{restrictFile: "1\n", appArmorFile: profileGolden, labelFile: "unconfined\n"}, "", profileScript},
		{"AppArmor, moved", map[string]string{restrictFile: "1\n", appArmorFile: strings.ReplaceAll(profileGolden, "/local", ""), labelFile: ours}, "", profileScript},
		{
			"both settings",
			map[string]string{maxFile: "0\n", cloneFile: "0\n"},
			"",
			`mkdir -p /etc/sysctl.d
cat >/etc/sysctl.d/60-caisson.conf <<'END'
# Written by caisson setup; caisson setup --undo removes it.
# was: kernel.unprivileged_userns_clone = 0
kernel.unprivileged_userns_clone = 1
# was: user.max_user_namespaces = 0
user.max_user_namespaces = 15000
END
sysctl -q -p /etc/sysctl.d/60-caisson.conf
`,
		},
		{"no ranges", nil, "ann", `mkdir -p /etc/caisson
cat >/etc/caisson/subids <<'END'
# Written by caisson setup; caisson setup --undo removes it.
uid ann 100000-165535
gid ann 100000-165535
END
usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ann
`},
		{
			"ranges of others, and half of one's own",
			map[string]string{"/etc/subuid": "bob:100000:65536\nann:165536:65536\n", "/etc/subgid": "bob:100000:65536\neve:300000:65536\n"},
			"ann", `mkdir -p /etc/caisson
cat >/etc/caisson/subids <<'END'
# Written by caisson setup; caisson setup --undo removes it.
gid ann 365536-431071
END
usermod --add-subgids 365536-431071 ann
`,
		},
		{"a range by name and one by id", map[string]string{"/etc/subuid": "ann:100000:65536\n", "/etc/subgid": "4242:100000:65536\n"}, "ann", ""},
		{"a second user", map[string]string{
			"/etc/subuid": "bob:100000:65536\n", "/etc/subgid": "bob:100000:65536\n",
			subidsFile: setupMark + "uid bob 100000-165535\ngid bob 100000-165535\n",
		}, "ann", `mkdir -p /etc/caisson
cat >/etc/caisson/subids <<'END'
# Written by caisson setup; caisson setup --undo removes it.
uid bob 100000-165535
gid bob 100000-165535
uid ann 165536-231071
gid ann 165536-231071
END
usermod --add-subuids 165536-231071 --add-subgids 165536-231071 ann
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := madeHost(t, c.files)
			h.user, h.uid = c.user, 4242
			if diff := cmp.Diff(c.want, scripts(t, h, h.needs)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetupUndoScripts(t *testing.T) {
	h := madeHost(t, nil)
	if got := scripts(t, h, h.undo); got != "" {
		t.Errorf("nothing was done, and to undo is %q", got)
	}
	h = madeHost(t, map[string]string{
		appArmorFile: profileGolden,
		sysctlFile:   setupMark + "# was: kernel.unprivileged_userns_clone = 0\nkernel.unprivileged_userns_clone = 1\n",
		subidsFile:   setupMark + "uid ann 100000-165535\ngid bob 165536-231071\n",
	})
	const want = `usermod --del-subuids 100000-165535 ann
usermod --del-subgids 165536-231071 bob
rm -f /etc/caisson/subids
rmdir /etc/caisson 2>/dev/null || true
sysctl -q -w kernel.unprivileged_userns_clone=0
rm -f /etc/sysctl.d/60-caisson.conf
apparmor_parser -R /etc/apparmor.d/caisson
rm -f /etc/apparmor.d/caisson
`
	if diff := cmp.Diff(want, scripts(t, h, h.undo)); diff != "" {
		t.Error(diff)
	}
}

// What is not ours is neither written over nor removed, and no profile is made
// that would serve others.
func TestSetupRefuses(t *testing.T) {
	foreign := map[string]string{restrictFile: "1\n", appArmorFile: "profile caisson /opt/caisson {}\n"}
	h := madeHost(t, foreign)
	for name, find := range map[string]func() ([]*change, error){"needs": h.needs, "undo": h.undo} {
		if _, err := find(); err == nil || !strings.Contains(err.Error(), "caisson setup did not write it") {
			t.Errorf("%s, where somebody else's profile is: %v", name, err)
		}
	}
	h = madeHost(t, map[string]string{restrictFile: "1\n"})
	h.trust = func(path string) error { return errors.New(path + " can be changed by others than root") }
	if _, err := h.needs(); err == nil || !strings.Contains(err.Error(), "would serve whoever replaces it") {
		t.Errorf("a program that anybody may replace: %v", err)
	}
}

func TestAppArmorPathStandsForItself(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin/caisson":      "/usr/bin/caisson",
		"/opt/my tools/caisson": `"/opt/my tools/caisson"`,
		`/opt/{a,b}*/caisson`:   `"/opt/\{a\,b\}\*/caisson"`,
	} {
		if got := appArmorPath(path); got != want {
			t.Errorf("%s became %s, want %s", path, got, want)
		}
	}
}

func TestRootOnly(t *testing.T) {
	if path, err := filepath.EvalSymlinks("/bin/sh"); err != nil || rootOnly(path) != nil {
		t.Errorf("the system's shell: %v, %v", err, rootOnly(path))
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/caisson", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := rootOnly(dir + "/caisson"); err == nil || !strings.Contains(err.Error(), "can be changed by others than root") {
		t.Errorf("a program in an open folder: %v", err)
	}
	if err := rootOnly(dir + "/none"); err == nil {
		t.Error("a program that is not there")
	}
}

// TestSetupGivesRanges lets the host's own usermod work on a made-up /etc.
func TestSetupGivesRanges(t *testing.T) {
	testenv.Need(t, "root", "newuidmap")
	h := madeHost(t, map[string]string{
		"/etc/passwd": "root:x:0:0::/root:/bin/sh\nann:x:4242:4242::/home/ann:/bin/sh\n",
		"/etc/group":  "root:x:0:\nann:x:4242:\n", "/etc/shadow": "root:*:1::::::\nann:*:1::::::\n", "/etc/login.defs": "",
		"/etc/subuid": "bob:100000:65536\n", "/etc/subgid": "bob:100000:65536\n",
	})
	h.usermod, h.user, h.uid = []string{"usermod", "-P", h.root}, "ann", 4242
	before := etcFiles(t, h)
	apply := func(find func() ([]*change, error), want int) {
		t.Helper()
		changes, err := find()
		if err != nil || len(changes) != want {
			t.Fatalf("%d changes, want %d: %v", len(changes), want, err)
		}
		for _, c := range changes {
			if err := c.apply(h.root); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(h.needs, 1)
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if got := h.text(file); got != "bob:100000:65536\nann:165536:65536" {
			t.Errorf("%s: %q", file, got)
		}
	}
	apply(h.needs, 0)
	apply(h.undo, 1)
	if diff := cmp.Diff(before, etcFiles(t, h)); diff != "" {
		t.Errorf("after the undo: %s", diff)
	}
	apply(h.undo, 0)
	if _, err := os.Stat(h.root + setupDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the record is there: %v", err)
	}

	// A change that fails leaves nothing behind.
	h.usermod = []string{"false"}
	changes, err := h.needs()
	if err != nil || len(changes) != 1 {
		t.Fatalf("%d changes: %v", len(changes), err)
	}
	if err := changes[0].apply(h.root); err == nil {
		t.Error("a program that failed was no failure")
	}
	if diff := cmp.Diff(before, etcFiles(t, h)); diff != "" {
		t.Errorf("after a failure: %s", diff)
	}
}

// etcFiles are the files below /etc, but for the copies that usermod makes.
func etcFiles(t *testing.T, h *setupHost) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(h.root+"/etc", func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, "-") {
			files[path] = h.text(strings.TrimPrefix(path, h.root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestSetupByAnOrdinaryUser prints and changes nothing. The printed lines are a script
// that a shell takes.
func TestSetupByAnOrdinaryUser(t *testing.T) {
	caisson := testenv.Binary(t, "caisson")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"setup", "--undo"}, 0, "nothing to do\n"},
		{[]string{"setup", "--user", "no-such-user"}, 2, "caisson: --user: there is no user \"no-such-user\"\n"},
		{[]string{"setup", "--user", "daemon"}, 0, "# subids: give daemon subordinate ids"},
	} {
		cmd := exec.Command(caisson, c.args...)
		testenv.AsUser(t, cmd)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.HasPrefix(string(out), c.says) {
			t.Errorf("%q: exit code %d, want %d\n%s", c.args, code, c.code, out)
		}
		if strings.HasPrefix(c.says, "#") {
			if !strings.Contains(string(out), "caisson: nothing was changed: run it as root") {
				t.Errorf("it does not say that nothing was changed:\n%s", out)
			}
			script, _, _ := strings.Cut(string(out), "caisson: nothing was changed")
			if out, err := exec.Command("sh", "-n", "-c", script).CombinedOutput(); err != nil {
				t.Errorf("no script: %v\n%s", err, out)
			}
		}
	}
}

// TestSetupForReal is the whole command, as root of a user namespace with an
// /etc of its own, whose setting bars user namespaces: done, done already, undone.
func TestSetupForReal(t *testing.T) {
	testenv.Need(t, "userns", "unshare", "sysctl")
	const script = `set -e
		mount -t tmpfs etc /etc
		setting=/proc/sys/user/max_user_namespaces
		echo 0 >$setting
		"$0" setup --print; cat $setting; ls -A /etc
		"$0" setup; cat $setting; ls -A /etc /etc/sysctl.d
		"$0" setup
		"$0" setup --undo; cat $setting; ls -A /etc /etc/sysctl.d
		"$0" setup --undo`
	cmd := exec.Command("unshare", "-Urm", "sh", "-c", script, testenv.Binary(t, "caisson"))
	testenv.AsUser(t, cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `# sysctl: let ordinary users make user namespaces
mkdir -p /etc/sysctl.d
cat >/etc/sysctl.d/60-caisson.conf <<'END'
# Written by caisson setup; caisson setup --undo removes it.
# was: user.max_user_namespaces = 0
user.max_user_namespaces = 15000
END
sysctl -q -p /etc/sysctl.d/60-caisson.conf
0
sysctl: let ordinary users make user namespaces: done
15000
/etc:
sysctl.d

/etc/sysctl.d:
60-caisson.conf
nothing to do
sysctl: give the settings the values that they had: done
0
/etc:
sysctl.d

/etc/sysctl.d:
nothing to do
`
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
}
