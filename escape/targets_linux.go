package escape

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/api"
	"golang.org/x/sys/unix"
)

// launch is how a box is started: a command line and what goes with it.
type launch struct {
	argv []string
	env  []string
	dir  string
	root bool // by the lab's root, as a system administrator would
	attr unix.SysProcAttr
}

// A target is something under test. It is driven by its command line alone.
type target interface {
	tier() string // the letter of its tier
	launch(t *trial, inside []string) (launch, error)
	reported(t *trial) []string // paths that it listed as "will execute later"
	// refused says that it would not start because it cannot enforce what the
	// policy of the row asks.
	refused(output string) bool
}

// Targets gives the names of the targets that this benchmark knows.
func Targets() []string {
	return []string{"bare", "bwrap-quick", "bwrap-agent", "bwrap-strict", "ours", "ours-root"}
}

func (l *lab) makeTargets() (map[string]target, error) {
	all := map[string]target{"bare": bare{}}
	for _, name := range l.Targets {
		switch {
		case name == "bare":
		case strings.HasPrefix(name, "bwrap-"):
			p, err := exec.LookPath("bwrap")
			if err != nil {
				return nil, fmt.Errorf("find bubblewrap: %w", err)
			}
			all[name] = bwrap{path: p, setup: strings.TrimPrefix(name, "bwrap-")}
		case name == "ours" || name == "ours-root":
			if l.Caisson == "" {
				return nil, fmt.Errorf("target %s: the path of the caisson binary is not given", name)
			}
			if name == "ours-root" && !l.Root {
				return nil, fmt.Errorf("target %s: the benchmark is not run as root", name)
			}
			all[name] = ours{root: name == "ours-root"}
		case strings.HasPrefix(name, "weakbox:"): // to see that a control breaches its own row, and no other
			if !l.Root || !slices.Contains(weakKinds(), strings.TrimPrefix(name, "weakbox:")) {
				return nil, fmt.Errorf("target %s: no such weak box, or the benchmark is not run as root", name)
			}
			all[name] = weak{kind: strings.TrimPrefix(name, "weakbox:")}
		default:
			return nil, fmt.Errorf("unknown target %s (known: %s)", name, strings.Join(Targets(), ", "))
		}
	}
	return all, nil
}

// environment is what the ordinary user of the lab has set.
func (t *trial) environment() []string {
	env := map[string]string{
		"HOME": t.l.home, "USER": t.l.user, "LOGNAME": t.l.user, "LANG": "C.UTF-8", "TERM": "xterm",
		"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "XDG_RUNTIME_DIR": t.l.runtimeDir(),
	}
	maps.Copy(env, t.env)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

func (t *trial) dir() string {
	if t.cwd != "" {
		return t.cwd
	}
	return t.ws
}

// bare is no sandbox: the control.
type bare struct{}

func (bare) tier() string { return "P" }

func (bare) launch(t *trial, inside []string) (launch, error) {
	return launch{argv: inside, env: t.environment(), dir: t.dir()}, nil
}

func (bare) reported(*trial) []string { return nil }

func (bare) refused(string) bool { return false }

// bwrap is bubblewrap in one of three set-ups: quick, as many guides show it;
// agent, with every namespace; strict, with a root from nothing.
type bwrap struct{ path, setup string }

func (bwrap) tier() string { return "P" }

func (bwrap) reported(*trial) []string { return nil }

func (bwrap) refused(string) bool { return false }

func (b bwrap) launch(t *trial, inside []string) (launch, error) {
	argv := []string{b.path}
	switch b.setup {
	case "quick", "agent":
		argv = append(argv, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", t.ws, t.ws)
		if b.setup == "agent" {
			argv = append(argv, "--unshare-all", "--new-session")
		} else {
			argv = append(argv, "--unshare-pid")
		}
	case "strict":
		argv = append(argv, "--ro-bind", "/usr", "/usr")
		for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
			if to, err := os.Readlink("/" + d); err == nil {
				argv = append(argv, "--symlink", to, "/"+d)
			}
		}
		argv = append(argv, "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", t.l.home, "--bind", t.ws, t.ws)
		for _, p := range t.grant.read {
			argv = append(argv, "--ro-bind", p, p)
		}
		argv = append(argv, "--unshare-all", "--unshare-user", "--disable-userns", "--new-session", "--hostname", "box",
			"--clearenv", "--setenv", "HOME", t.l.home, "--setenv", "PATH", "/usr/bin:/bin", "--cap-drop", "ALL", "--chdir", t.ws)
	default:
		return launch{}, fmt.Errorf("unknown set-up of bubblewrap: %s", b.setup)
	}
	argv = append(argv, "--die-with-parent", "--")
	return launch{argv: append(argv, inside...), env: t.environment(), dir: t.dir()}, nil
}

// ours is Caisson, started as an ordinary user or as root.
type ours struct{ root bool }

func (ours) tier() string { return "P" }

func (o ours) launch(t *trial, inside []string) (launch, error) {
	policy := t.l.home + "/.policy-" + t.name + ".yaml"
	if err := t.write(policy, t.policy(), 0o600); err != nil {
		return launch{}, err
	}
	argv := append([]string{labBin + "/caisson", "run", "--policy", policy, "--report", t.reportPath(), "--"}, inside...)
	la := launch{argv: argv, env: t.environment(), dir: t.dir(), root: o.root}
	return la, nil
}

func (t *trial) reportPath() string { return t.l.home + "/.report-" + t.name + ".jsonl" }

// policy writes the trial's grants in the words of a policy file.
func (t *trial) policy() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\ntier: process\nworkspace:\n  path: %q\n  mode: direct\n", t.ws)
	list := func(key string, paths []string) {
		if len(paths) > 0 {
			fmt.Fprintf(&b, "  %s: [%s]\n", key, quoted(paths))
		}
	}
	if len(t.grant.read)+len(t.grant.deny) > 0 {
		b.WriteString("filesystem:\n")
		list("read", t.grant.read)
		list("hide", t.grant.deny)
	}
	var accept []string
	if len(t.grant.deny) > 0 {
		accept = append(accept, string(api.LossHostEdits))
	}
	if t.grant.soft || len(t.grant.limits) > 0 {
		accept = append(accept, string(api.LossSoftLimits))
	}
	if len(accept) > 0 {
		fmt.Fprintf(&b, "accept: [%s]\n", quoted(accept))
	}
	if len(t.grant.limits) > 0 {
		b.WriteString("limits:\n")
		for _, k := range slices.Sorted(maps.Keys(t.grant.limits)) {
			fmt.Fprintf(&b, "  %s: %s\n", k, t.grant.limits[k])
		}
	}
	if t.grant.wall > 0 {
		fmt.Fprintf(&b, "lifetime:\n  wall: %ds\n", int(t.grant.wall/time.Second))
	}
	return b.String()
}

func quoted(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = strconv.Quote(s)
	}
	return strings.Join(q, ", ")
}

// reported reads the product's own report, which no program of the box can
// write: its standard error is no place to look, the box writes there too.
func (ours) reported(t *trial) []string {
	b, err := os.ReadFile(t.reportPath())
	if err != nil {
		return nil
	}
	var paths []string
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e api.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Kind == api.EventFlagged && e.Data["path"] != "" {
			paths = append(paths, e.Data["path"])
		}
	}
	return paths
}

func (ours) refused(output string) bool { return strings.Contains(output, "cannot be enforced here") }
