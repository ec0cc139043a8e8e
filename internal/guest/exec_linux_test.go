package guest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// execHandler starts real programs, as far as a test needs.
type execHandler struct{ fake }

type execProgram struct{ cmd *exec.Cmd }

func (p execProgram) PID() int          { return p.cmd.Process.Pid }
func (p execProgram) Resize(Size) error { return syscall.ENOTTY }
func (p execProgram) Continue() error   { return syscall.Kill(p.PID(), syscall.SIGCONT) }

func (p execProgram) Signal(signal int, group bool) error {
	pid := p.PID()
	if group {
		pid = -pid
	}
	return syscall.Kill(pid, syscall.Signal(signal))
}

func (h *execHandler) Start(c Command, std StdIO, events Events) (Program, error) {
	cmd := &exec.Cmd{Path: c.Argv[0], Args: c.Argv, Env: c.Env, Dir: c.Dir, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	ends, closers, err := wire(cmd, c, std)
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range closers {
		_ = f.Close()
	}
	if err != nil {
		for _, f := range ends {
			_ = f.Close()
		}
		return nil, err
	}
	if std.Stdin != nil {
		go feed(ends[0], std.Stdin)
		go drainTo(std.Stdout, ends[1])
		go drainTo(std.Stderr, ends[2])
	}
	go func() {
		_ = cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		x := Exit{Code: status.ExitStatus(), Core: status.CoreDump()}
		if status.Signaled() {
			x.Code, x.Signal = 0, int(status.Signal())
		}
		events.Exited(x)
	}()
	return execProgram{cmd}, nil
}

// wire gives cmd its descriptors or pipes: ends are ours, and closers are closed
// after the start.
func wire(cmd *exec.Cmd, c Command, std StdIO) (ends, closers []*os.File, err error) {
	files := make([]*os.File, 3)
	for i := range files {
		if c.Descriptors != nil {
			files[i] = os.NewFile(uintptr(c.Descriptors[i]), "")
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return ends, closers, err
		}
		if files[i] = w; i == 0 {
			files[i], r = r, w
		}
		ends = append(ends, r)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	return ends, files, nil
}

func feed(pipe *os.File, stdin io.ReadCloser) {
	_, _ = io.Copy(pipe, stdin)
	_ = pipe.Close()
	_ = stdin.Close()
}

func drainTo(out io.WriteCloser, pipe *os.File) {
	_, _ = io.Copy(out, pipe)
	_ = out.Close()
	_ = pipe.Close()
}

func shell(script string, args ...string) Command {
	return Command{Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...), Env: []string{"PATH=/usr/bin:/bin", "X=\xff"}, Dir: "/"}
}

func TestRealProgram(t *testing.T) {
	c := connect(t, &execHandler{})
	p := mustStart(t, c, shell(`read line; printf '%s|%s|%s' "$line" "$1" "$X"; printf err >&2; exit 7`, "\xfe\xfd"))
	_, _ = io.WriteString(p.Stdin, "in\n")
	if s := mustReadAll(t, p.Stdout); s != "in|\xfe\xfd|\xff" {
		t.Errorf("stdout %q", s)
	}
	if s := mustReadAll(t, p.Stderr); s != "err" {
		t.Errorf("stderr %q", s)
	}
	mustWait(t, p, Exit{Code: 7})
}

func TestRealProgramIsMissing(t *testing.T) {
	c := connect(t, &execHandler{})
	_, err := c.Start(withTimeout(t), Command{Argv: []string{"/no/such/program"}})
	if !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	_, err = c.Start(withTimeout(t), Command{Argv: []string{"/bin/sh", "-c", strings.Repeat("x", 1<<20)}}) // one argument holds 128 KiB
	if !errors.Is(err, syscall.E2BIG) {
		t.Error(err)
	}
}

func TestRealProgramByDescriptors(t *testing.T) {
	c := connect(t, &execHandler{})
	in, feed := mustPipe(t)
	out, w := mustPipe(t)
	cmd := shell(`cat; echo more >&2`)
	cmd.Descriptors = []int{int(in.Fd()), int(w.Fd()), int(w.Fd())}
	p := mustStart(t, c, cmd)
	_, _ = in.Close(), w.Close()
	if p.Stdin != nil || p.Stdout != nil || p.Stderr != nil {
		t.Error("channels beside descriptors")
	}
	_, _ = io.WriteString(feed, "bytes ")
	_ = feed.Close()
	if s := mustReadAll(t, out); s != "bytes more\n" {
		t.Errorf("%q", s)
	}
	mustWait(t, p, Exit{})
}

func mustPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// TestRealGrandchild: the exit is told while a grandchild holds the output, and
// the group can still be signalled.
func TestRealGrandchild(t *testing.T) {
	c := connect(t, &execHandler{})
	p := mustStart(t, c, shell(`sleep 1000 & echo started`))
	buf := make([]byte, 8)
	if _, err := io.ReadFull(p.Stdout, buf); err != nil {
		t.Fatal(err)
	}
	mustWait(t, p, Exit{})
	if err := p.Signal(int(syscall.SIGKILL), false); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("signal to the program: %v", err)
	}
	if err := p.Signal(int(syscall.SIGKILL), true); err != nil {
		t.Errorf("signal to its group: %v", err)
	}
	if s := mustReadAll(t, p.Stdout); s != "" {
		t.Errorf("%q", s)
	}
}

func TestRealSignal(t *testing.T) {
	c := connect(t, &execHandler{})
	p := mustStart(t, c, shell(`yes`)) // which nobody reads
	if err := p.Signal(int(syscall.SIGTERM), true); err != nil {
		t.Fatal(err)
	}
	x, err := p.Wait(withTimeout(t))
	if err != nil || x.Signal != int(syscall.SIGTERM) {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestRealAbandoned: no program outlives a start whose caller has gone.
func TestRealAbandoned(t *testing.T) {
	c := connect(t, &execHandler{})
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		p, err := c.Start(ctx, Command{Argv: []string{"/bin/sleep", "1000"}})
		if err == nil {
			_ = p.Signal(int(syscall.SIGKILL), false)
			_, _, _ = p.Stdin.Close(), p.Stdout.Close(), p.Stderr.Close()
		}
	}
	waitFor(t, "all of them to have ended", func() bool {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		return len(c.channels) == 0
	})
}
