//go:build linux

package process_test

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// innerRoot runs a script as the root of namespaces made inside.
func innerRoot(script string) []string {
	return []string{"unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", script}
}

// TestNestedNamespaces: inner sandboxes with mounts and a /proc of their own are
// possible in a nested box alone.
func TestNestedNamespaces(t *testing.T) {
	testenv.Need(t, "unshare", "bwrap")
	nested, plain := startAs(t, "nested", newPlan(t, nestedPolicy)), startAs(t, "plain", newPlan(t, ""))
	for name, argv := range map[string][]string{
		"user namespace": {"unshare", "--user", "--map-root-user", "true"},
		"tmpfs":          innerRoot("mount -t tmpfs none /tmp && touch /tmp/x"),
		"proc":           innerRoot("mount -t proc none /proc && test $(ls -d /proc/[0-9]* | wc -l) -lt 5"),
		"bubblewrap":     {"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc", "--die-with-parent", "true"},
		"two deep":       innerRoot("unshare --user --map-root-user --mount --pid --fork sh -c 'mount -t proc none /proc'"),
	} {
		t.Run(name, func(t *testing.T) {
			if code, out := nested.output(t, argv...); code != 0 {
				t.Errorf("in a nested box: exit %d\n%s", code, out)
			}
			if code, _ := plain.output(t, argv...); code == 0 {
				t.Error("it works in a box that is not nested")
			}
		})
	}
}

// TestNestedHolds: what inner roots still cannot do. The same act where nothing
// bars it is the control, in a namespace of the test's own.
func TestNestedHolds(t *testing.T) {
	testenv.Need(t, "unshare", "userns")
	b := start(t, newPlan(t, nestedPolicy))
	for _, c := range []struct{ name, script, control string }{
		{
			"covers of /proc come off", "umount /proc/cmdline || umount -l /proc/cmdline || umount -l /proc",
			"mount -t tmpfs none /proc/fs && umount /proc/fs",
		},
		{
			"a bind shows what a cover hides", "mkdir -p /tmp/b; mount --bind /proc /tmp/b || mount --bind /.caisson /tmp/b",
			"mount --bind /usr/bin /mnt && test -x /mnt/sh",
		},
		{"the whole /proc has a path", "test -e /.caisson/whole/proc", "test -e /proc/self"},
		{"the system becomes writable", "mount -t proc none /proc; mount -o remount,rw,bind /usr || mount -o remount,rw /", "mount -t proc none /proc; mount -t tmpfs none /mnt && mount -o remount,bind,ro /mnt && mount -o remount,bind,rw /mnt && touch /mnt/x"},
		{
			"kernel settings are writable", "mount -t proc none /proc; : > /proc/sys/kernel/core_pattern || : > /proc/sysrq-trigger",
			": > /proc/self/comm",
		},
		{"the guest can be traced", "cat /proc/1/environ; ls /proc/1/fd | grep .", "mount -t proc none /proc; cat /proc/1/environ; ls /proc/1/fd | grep ."},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv := innerRoot(c.control)
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("the control fails: %v\n%s", err, out)
			}
			argv = innerRoot(c.script)
			if c.name == "the guest can be traced" {
				argv = []string{"unshare", "--user", "--map-root-user", "sh", "-c", c.script} // PID 1 is the guest
			}
			if code, out := b.output(t, argv...); code == 0 {
				t.Errorf("it is possible: %s", strings.TrimSpace(out))
			}
		})
	}
}

// TestNestedProcessLimit: the bound on processes counts those of namespaces made
// inside too.
func TestNestedProcessLimit(t *testing.T) {
	testenv.Need(t, "unshare")
	const many = "for i in $(seq 60); do sleep 30 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l"
	few, more := startAs(t, "few", newPlan(t, nestedPolicy+"limits: {pids: 40}\n")), startAs(t, "more", newPlan(t, nestedPolicy))
	if code, out := few.output(t, innerRoot(many)...); code == 0 {
		t.Errorf("60 processes with a limit of 40: %s", out)
	}
	if code, out := more.output(t, innerRoot(many)...); code != 0 {
		t.Errorf("without that limit: exit %d %s", code, out)
	}
}

// output runs a command to its end and gives its exit code and what it said.
func (b *box) output(t *testing.T, argv ...string) (int, string) {
	t.Helper()
	p, r := b.spawn(t, argv...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	exit, err := p.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Second)); err != nil { // what it left running holds the pipe
		t.Fatal(err)
	}
	out, _ := io.ReadAll(r)
	return exit.Code, string(out)
}
