package escape

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A trial is one run of one probe against one target: a fresh home and
// workspace, what is planted, the boxes, what came of them.
type trial struct {
	l        *lab
	p        Probe
	tg       target
	negative bool // the action is taken out: the negative control

	ws, name, marker string
	grant            grant
	facts            map[string]string
	env              map[string]string
	cwd              string
	files            []*os.File // what a careless launcher leaves open
	secrets          []string
	commit           string // what the repository's branch names
	wrap             string // a careless launcher, by its kind
	onStart          func() error
	boxes            []*box
	decoy            *decoyProcess
	sock             int    // the lab's end of an inherited socket
	chroot           string // a copy of the root in which no user namespace can be made
	typed            *capture
	firstWS          string // of the first box of a pair
	firstPID         int
	listeners        []net.Listener
	own              []*os.File // the lab's own, not passed on
	calls            []sysCall
	group            string          // the control group that the lab's box is put in
	groups           map[string]bool // the control groups that the program began in
	probeDev         uint64
	probeIno         uint64
	during           outcome // what was seen while the box lived
}

// grant is what the policy of the trial allows, in the words of no product.
type grant struct {
	read   []string
	deny   []string
	limits map[string]string // memory, cpus, pids, disk, open_files, output
	wall   time.Duration
	soft   bool // limits may be soft
}

// outcome is what a trial showed.
type outcome struct {
	breached bool
	flagged  bool
	started  bool
	na       string // why the row means nothing here
	evidence string
	err      error
	output   string
}

// errNotHere marks a trial that cannot be set up on this machine.
var errNotHere = errors.New("not on this machine")

// try runs one trial and leaves the lab as it was.
func (l *lab) try(p Probe, tg target, negative bool) (out outcome) {
	t := &trial{
		l: l, p: p, tg: tg, negative: negative, sock: -1, cwd: "", marker: secret(), name: "n" + secret()[:10],
		facts: map[string]string{}, env: map[string]string{}, grant: grant{limits: map[string]string{}},
	}
	defer t.end()
	l.memory.Store(0)
	if err := t.prepare(); err != nil {
		return outcome{err: err}
	}
	for _, cell := range strings.Split(p.Plant, "; ") {
		if cell = strings.TrimSpace(cell); cell == "" {
			continue
		}
		name, arg := cut(cell)
		if err := plants()[name](t, arg); err != nil {
			if errors.Is(err, errNotHere) {
				return outcome{na: err.Error()}
			}
			return outcome{err: fmt.Errorf("plant %s: %w", name, err)}
		}
	}
	if err := courses()[p.How](t); err != nil {
		if errors.Is(err, errNotHere) {
			return outcome{na: err.Error(), started: t.started()}
		}
		return outcome{err: err, started: t.started(), output: t.output()}
	}
	out = t.during
	if out.evidence == "" {
		out = t.observe()
	}
	out.started, out.output = t.started(), t.output()
	return out
}

func (t *trial) observe() outcome {
	name, arg := cut(t.p.Observe)
	return observers()[name](t, arg)
}

// prepare makes the home, the workspace (a small repository) and the program
// in it.
func (t *trial) prepare() error {
	l := t.l
	t.ws = filepath.Join(l.home, "src", "w"+secret()[:8])
	for _, d := range []string{l.home, l.home + "/src", t.ws, "/run/user", l.runtimeDir()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	if err := l.give(l.home, l.home+"/src", t.ws, l.runtimeDir()); err != nil {
		return err
	}
	_ = os.Chmod(l.runtimeDir(), 0o700)
	commit, err := makeRepository(t.ws)
	if err != nil {
		return err
	}
	t.commit = commit[1]
	t.facts["commit"] = commit[0]
	if err := l.giveTree(t.ws); err != nil {
		return err
	}
	for k, v := range l.net.facts {
		if _, set := t.facts[k]; !set { // the second box of a pair meets the first where that was told to be
			t.facts[k] = v
		}
	}
	from, err := os.Open("/opt/probe")
	if err != nil {
		return fmt.Errorf("open probe: %w", err)
	}
	defer from.Close()
	if err := copyTo(t.program(), from, 0o755); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(t.program(), &st); err != nil {
		return fmt.Errorf("stat probe: %w", err)
	}
	t.probeDev, t.probeIno = st.Dev, st.Ino
	return nil
}

// program is where the probe lies: its name differs each time.
func (t *trial) program() string { return t.ws + "/b" + t.name[1:] }

func (l *lab) runtimeDir() string { return "/run/user/" + strconv.Itoa(l.seenUID()) }

// give makes files the ordinary user's.
func (l *lab) give(paths ...string) error {
	for _, p := range paths {
		if err := os.Lchown(p, l.uid, l.gid); err != nil {
			return fmt.Errorf("give to the user: %w", err)
		}
	}
	return nil
}

func (l *lab) giveTree(root string) error {
	return filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return l.give(p)
	})
}

// write makes a file of the ordinary user's, and the folders above it.
func (t *trial) write(p, text string, mode os.FileMode) error {
	var missing []string
	for d := filepath.Dir(p); ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); err == nil {
			break
		}
		missing = append(missing, d)
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := t.l.give(missing...); err != nil {
		return err
	}
	if err := os.WriteFile(p, []byte(text), mode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return t.l.give(p)
}

// path expands HOME/, WS/ and NAME, as the program inside does.
func (t *trial) path(p string) string {
	p = strings.NewReplacer("NAME", t.name, "+HOME", t.l.home, "BASE", filepath.Base(t.ws)).Replace(p)
	switch {
	case p == "HOME" || strings.HasPrefix(p, "HOME/"):
		return t.l.home + p[4:]
	case p == "WS" || strings.HasPrefix(p, "WS/") || strings.HasPrefix(p, "WS-"):
		return t.ws + p[2:]
	}
	return p
}

// newSecret gives a secret of this trial: seen anywhere that a box can send
// to, it is a breach.
func (t *trial) newSecret() string {
	s := secret()
	t.secrets = append(t.secrets, s)
	return s
}

func (t *trial) started() bool {
	for _, b := range t.boxes {
		if !b.hasStarted() {
			return false
		}
	}
	return len(t.boxes) > 0
}

// output is the end of what the boxes printed, for people.
func (t *trial) output() string {
	var parts []string
	for _, b := range t.boxes {
		parts = append(parts, b.out.tail(600)+b.errs.tail(600))
	}
	return strings.Join(parts, "\n---\n")
}

// end kills whatever is left and wipes every place that a trial may write to.
func (t *trial) end() {
	for _, b := range t.boxes {
		b.release()
	}
	groups := foreignGroups(pidsOf("/proc"))
	t.l.procs.killAll()
	for _, g := range groups { // the product's own sweepers were killed with the rest
		for range 50 {
			if err := os.Remove(g); err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for _, f := range t.files {
		_ = f.Close()
	}
	for _, f := range t.own {
		_ = f.Close()
	}
	for _, ln := range t.listeners {
		_ = ln.Close()
	}
	if t.sock >= 0 {
		_ = unix.Close(t.sock)
	}
	if t.decoy != nil {
		t.decoy.close()
	}
	if t.chroot != "" {
		_ = unix.Unmount(t.chroot, unix.MNT_DETACH)
	}
	for _, d := range []string{"/home", "/tmp", "/dev/shm", "/var/tmp", "/run", "/var/spool"} {
		entries, _ := os.ReadDir(d)
		for _, e := range entries {
			_ = os.RemoveAll(d + "/" + e.Name())
		}
	}
	removeShm()
	t.l.log.clear()
}
