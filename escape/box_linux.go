package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

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
