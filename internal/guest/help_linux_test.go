package guest

import (
	"context"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/linux"
)

// fake is a handler whose programs are functions.
type fake struct {
	mu       sync.Mutex
	programs map[string]func(*fakeProgram)
	dial     func(port uint16) (Conn, error)
	freeze   func() error
	identity Identity
}

// fakeProgram is a program that run plays.
type fakeProgram struct {
	Command
	StdIO
	Events
	pid       int
	signals   chan [2]int // signal, and 1 for the group
	sizes     chan Size
	continued chan struct{}
}

func (p *fakeProgram) PID() int { return p.pid }

func (p *fakeProgram) Signal(signal int, group bool) error {
	if signal == 0 {
		return syscall.EPERM
	}
	var g int
	if group {
		g = 1
	}
	p.signals <- [2]int{signal, g}
	return nil
}

func (p *fakeProgram) Resize(s Size) error { p.sizes <- s; return nil }
func (p *fakeProgram) Continue() error     { p.continued <- struct{}{}; return nil }

func (f *fake) Start(cmd Command, io StdIO, events Events) (Program, error) {
	run := f.programs[cmd.Argv[0]]
	if run == nil {
		closeDescriptors(cmd.Descriptors)
		return nil, &StartError{Step: "exec", Errno: int(syscall.ENOENT), Text: "no such program"}
	}
	p := &fakeProgram{
		Command: cmd, StdIO: io, Events: events, pid: 42,
		signals: make(chan [2]int, 16), sizes: make(chan Size, 16), continued: make(chan struct{}, 16),
	}
	go run(p)
	return p, nil
}

func (f *fake) DialPort(port uint16) (Conn, error) { return f.dial(port) }
func (f *fake) Freeze() error                      { return f.freeze() }
func (f *fake) Thaw() error                        { return nil }

func (f *fake) Identify(i Identity) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.identity = i
	return nil
}

// pair returns the two ends of a real socketpair.
func pair(t testing.TB) (outer, inner Stream) {
	t.Helper()
	s, fd, err := linux.Socketpair(3)
	if err != nil {
		t.Fatal(err)
	}
	outer = FromSocket(s)
	inner, err = FromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = outer.Close(); _ = inner.Close() })
	return outer, inner
}

// connect serves h and returns a client of it. When the test ends, the server
// must have ended well.
func connect(t testing.TB, h Handler) *Client {
	t.Helper()
	outer, inner := pair(t)
	served := make(chan error, 1)
	go func() { served <- Serve(inner, Hello{Sandbox: "box", Generation: 7, PID: 1}, h) }()
	c, err := Dial(context.Background(), outer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Err(); err != nil {
			t.Errorf("the stream ended within the test: %v", err)
		}
		_ = c.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

// withTimeout is a context that ends a test which hangs.
func withTimeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustStart(t testing.TB, c *Client, cmd Command) *Process {
	t.Helper()
	p, err := c.Start(withTimeout(t), cmd)
	if err != nil {
		t.Fatalf("start %q: %v", cmd.Argv[:1], err)
	}
	return p
}

func mustWait(t testing.TB, p *Process, want Exit) {
	t.Helper()
	got, err := p.Wait(withTimeout(t))
	if err != nil || got != want {
		t.Fatalf("exit %+v, %v; want %+v", got, err, want)
	}
}

func mustReadAll(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read: %v after %d bytes", err, len(b))
	}
	return string(b)
}

// cat copies its input to its output.
func cat(p *fakeProgram) {
	_, err := io.Copy(p.Stdout, p.Stdin)
	_ = p.Stdout.Close()
	if p.Stderr != nil {
		_ = p.Stderr.Close()
	}
	code := 0
	if err != nil {
		code = 1
	}
	p.Exited(Exit{Code: code})
}
