package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	t.l.procs.killAll()
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

// A box is one started program with its ends.
type box struct {
	l         *lab
	pid       int
	stdin     *os.File
	out, errs *capture
	token     string
	trace     *tracer
}

// A capture keeps the head of a stream, counts all of it, and tells when a
// text has come by.
type capture struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	total int64
	done  chan struct{}
	grown chan struct{}
}

const captureLimit = 8 << 20

func newCapture(f *os.File) *capture {
	c := &capture{done: make(chan struct{}), grown: make(chan struct{}, 1)}
	go func() {
		defer close(c.done)
		defer f.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			c.mu.Lock()
			c.total += int64(n)
			if c.buf.Len() < captureLimit {
				c.buf.Write(buf[:n])
			}
			c.mu.Unlock()
			select {
			case c.grown <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *capture) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.buf.Bytes(), []byte(text))
}

func (c *capture) tail(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buf.Bytes()
	return string(b[max(0, len(b)-n):])
}

func (c *capture) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func (b *box) hasStarted() bool { return b.out.has(lineStart + b.token) }

// await waits until the program printed a line or ended.
func (b *box) await(line string, d time.Duration) bool {
	end := time.After(d)
	for !b.out.has(line + b.token) {
		select {
		case <-b.out.grown:
		case <-b.out.done:
			return b.out.has(line + b.token)
		case <-end:
			return false
		}
	}
	return true
}

func (b *box) ready() bool { return b.await(lineReady, boxTime) }

// release ends the program's input: a held one goes on to its end.
func (b *box) release() {
	if b.stdin != nil {
		_ = b.stdin.Close()
		b.stdin = nil
	}
}

// boxTime bounds one box.
const boxTime = 12 * time.Second

// finish releases the box and waits for its end; one that does not end is an
// error of the harness.
func (b *box) finish() error {
	b.release()
	if _, ended := b.l.procs.wait(b.pid, boxTime); !ended {
		return fmt.Errorf("the box did not end in %v", boxTime)
	}
	select { // what it left running may hold its output open
	case <-b.out.done:
	case <-time.After(300 * time.Millisecond):
	}
	return nil
}

// start starts a box with one action. The action of a negative control is
// taken out.
func (t *trial) start(cell string, hold, trace bool) (*box, error) {
	name, arg := cut(cell)
	if t.negative {
		name, arg = "noop", ""
	}
	job := Job{Action: name, Arg: arg, Token: secret(), Marker: t.marker, Home: t.l.home, WS: t.ws, Name: t.name, Hold: hold, Facts: t.facts}
	la, err := t.tg.launch(t, []string{t.program()})
	if err != nil {
		return nil, err
	}
	if t.wrap != "" {
		if _, ok := t.tg.(bare); ok {
			la.argv = append([]string{labTools, "launcher", t.wrap}, la.argv...)
		}
	}
	b, err := t.spawn(la, trace)
	if err != nil {
		return nil, err
	}
	b.token = job.Token
	t.boxes = append(t.boxes, b)
	line, err := jobLine(job)
	if err != nil {
		return nil, err
	}
	_, _ = b.stdin.Write(line) // a box that refused has closed it
	return b, nil
}

func jobLine(job Job) ([]byte, error) {
	line, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("write job: %w", err)
	}
	return append(line, '\n'), nil
}

// spawn starts a program of the lab's ordinary user, or of its root, with
// pipes for the three standard descriptors and what the trial leaves open.
func (t *trial) spawn(la launch, trace bool) (*box, error) {
	var ends [3][2]*os.File
	for i := range ends {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		ends[i] = [2]*os.File{r, w}
	}
	child := []*os.File{ends[0][0], ends[1][1], ends[2][1]}
	defer func() {
		for _, f := range child {
			_ = f.Close()
		}
	}()
	files := []uintptr{child[0].Fd(), child[1].Fd(), child[2].Fd()}
	for _, f := range t.files {
		files = append(files, f.Fd())
	}
	var gateR, gateW *os.File
	if trace {
		var err error
		if gateR, gateW, err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		defer gateR.Close()
		defer gateW.Close()
		la.argv = append([]string{labTools, "gate", strconv.Itoa(len(files))}, la.argv...)
		files = append(files, gateR.Fd())
	}
	attr := &la.attr
	attr.Chroot = t.chroot
	if !la.root {
		t.l.credentials(attr)
	}
	pid, err := t.l.procs.start(la.argv, la.env, la.dir, files, attr)
	if err != nil {
		_ = ends[0][1].Close()
		_ = ends[1][0].Close()
		_ = ends[2][0].Close()
		return nil, err
	}
	b := &box{l: t.l, pid: pid, stdin: ends[0][1], out: newCapture(ends[1][0]), errs: newCapture(ends[2][0])}
	if trace {
		if b.trace, err = newTracer(pid); err != nil {
			_ = unix.Kill(pid, unix.SIGKILL)
			return nil, fmt.Errorf("%w: %w", errNotHere, err)
		}
		_, _ = gateW.Write([]byte{1})
	}
	return b, nil
}

// probeTasks lists the processes of the trial's boxes that run the probe.
func (t *trial) probeTasks() []int { return running(t.probeDev, t.probeIno) }

// A decoyProcess is a program of the host's outside every box.
type decoyProcess struct {
	pid   int
	stdin *os.File
	sock  int // the lab's end of a connected socket that the decoy holds
}

func (d *decoyProcess) close() {
	_ = d.stdin.Close()
	_ = unix.Close(d.sock)
}

// startDecoy starts it with a secret name and a secret in its environment.
func (t *trial) startDecoy() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer r.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make sockets: %w", err)
	}
	defer unix.Close(pair[1])
	var attr syscall.SysProcAttr
	t.l.credentials(&attr)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer null.Close()
	pid, err := t.l.procs.start([]string{labTools, "decoy", t.newSecret()}, []string{"TOKEN=" + t.newSecret()}, "/",
		[]uintptr{r.Fd(), null.Fd(), null.Fd(), uintptr(pair[1])}, &attr)
	if err != nil {
		return err
	}
	t.decoy = &decoyProcess{pid: pid, stdin: w, sock: pair[0]}
	t.facts["decoy"] = strconv.Itoa(pid)
	return nil
}
