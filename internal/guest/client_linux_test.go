package guest

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgram(t *testing.T) {
	argv := []string{"show", "", "\xff\xfe\x00"[:2], "ä"}
	started := make(chan Command, 1)
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"show": func(p *fakeProgram) {
		started <- p.Command
		in, _ := io.ReadAll(p.Stdin)
		_, _ = io.WriteString(p.Stdout, "out "+string(in))
		_, _ = io.WriteString(p.Stderr, "err")
		_ = p.Stdout.Close()
		_ = p.Stderr.Close()
		p.Exited(Exit{Signal: 9, Core: true})
	}}})
	want := Command{Argv: argv, Env: []string{"A=\x80"}, Dir: "/d\xff", OpenFiles: 1, Processes: 2, DataSize: 3, FileSize: 1<<64 - 1}
	p := mustStart(t, c, want)
	if _, err := io.WriteString(p.Stdin, "in"); err != nil {
		t.Fatal(err)
	}
	if err := p.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if s := mustReadAll(t, p.Stdout); s != "out in" {
		t.Errorf("stdout %q", s)
	}
	if s := mustReadAll(t, p.Stderr); s != "err" {
		t.Errorf("stderr %q", s)
	}
	mustWait(t, p, Exit{Signal: 9, Core: true})
	if d := cmp.Diff(want, <-started); d != "" {
		t.Error(d)
	}
	if p.PID != 42 {
		t.Errorf("pid %d", p.PID)
	}
	if h := c.Hello(); h.Sandbox != "box" || h.Generation != 7 || h.PID != 1 {
		t.Errorf("hello %+v", h)
	}
	if err := p.Signal(15, false); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("signal after the end: %v", err)
	}
}

func TestStartRefused(t *testing.T) {
	c := connect(t, &fake{})
	_, err := c.Start(withTimeout(t), Command{Argv: []string{"none"}})
	var refusal *StartError
	if !errors.As(err, &refusal) || refusal.Step != "exec" || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("unknown program: %v", err)
	}
	big := strings.Repeat("x", maxMessage)
	for name, cmd := range map[string]Command{
		"EINVAL no argv":                  {},
		"EINVAL NUL":                      {Argv: []string{"a\x00b"}},
		"EINVAL NUL in env":               {Argv: []string{"a"}, Env: []string{"A=\x00"}},
		"EINVAL NUL in dir":               {Argv: []string{"a"}, Dir: "/\x00"},
		"EINVAL two fds":                  {Argv: []string{"a"}, Descriptors: []int{0, 1}},
		"EINVAL fds and terminal":         {Argv: []string{"a"}, Descriptors: []int{0, 1, 2}, Terminal: &Size{}},
		"E2BIG argument too long":         {Argv: []string{big}},
		"E2BIG too many arguments":        {Argv: make([]string, maxStrings+1)},
		"E2BIG too many in environment":   {Argv: []string{"a"}, Env: make([]string, maxStrings+1)},
		"E2BIG environment that is long ": {Argv: []string{"a"}, Env: []string{big}},
	} {
		_, err := c.Start(withTimeout(t), cmd)
		want := syscall.EINVAL
		if strings.HasPrefix(name, "E2BIG") {
			want = syscall.E2BIG
		}
		if !errors.As(err, &refusal) || !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSignalResizeContinue(t *testing.T) {
	twice := make(chan struct{})
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"term": func(p *fakeProgram) {
		if p.Terminal == nil || *p.Terminal != (Size{24, 80}) || p.Stderr != nil {
			p.Exited(Exit{Code: 1})
			return
		}
		p.Stopped()
		p.Stopped() // the same stop
		close(twice)
		<-p.continued
		size := <-p.sizes
		signal := <-p.signals
		p.Stopped()
		_ = p.Stdout.Close()
		p.Exited(Exit{Code: int(size.Columns), Signal: signal[0]*10 + signal[1]})
		p.Exited(Exit{Code: 99}) // a second time does nothing
		p.Stopped()
	}}})
	p := mustStart(t, c, Command{Argv: []string{"term"}, Terminal: &Size{24, 80}})
	if p.Stderr != nil {
		t.Error("stderr of a terminal")
	}
	<-p.Stopped()
	<-twice
	if err := p.Signal(0, false); !errors.Is(err, syscall.EPERM) {
		t.Errorf("refused signal: %v", err)
	}
	select {
	case <-p.Stopped():
		t.Error("two stops that were one")
	default:
	}
	for _, err := range []error{p.Continue(), p.Resize(Size{1, 200}), p.Signal(15, true)} {
		if err != nil {
			t.Error(err)
		}
	}
	mustWait(t, p, Exit{Code: 200, Signal: 151})
	<-p.Stopped()
}

// TestExitWithinStart: events that come before the handler's Start has returned
// are told after its answer.
func TestExitWithinStart(t *testing.T) {
	h := &hasty{}
	c := connect(t, h)
	p := mustStart(t, c, Command{Argv: []string{"a"}, Terminal: &Size{}})
	mustWait(t, p, Exit{Code: 3})
	<-p.Stopped()
	if s := mustReadAll(t, p.Stdout); s != "early" {
		t.Errorf("%q", s)
	}
}

// hasty is a handler whose programs end before they have begun.
type hasty struct{ fake }

func (h *hasty) Start(_ Command, io StdIO, events Events) (Program, error) {
	_, _ = io.Stdout.Write([]byte("early"))
	_ = io.Stdout.Close()
	events.Stopped()
	events.Exited(Exit{Code: 3})
	return &fakeProgram{}, nil
}

func TestFreezeThawIdentify(t *testing.T) {
	h := &fake{freeze: func() error { return errors.New("no freezer") }}
	c := connect(t, h)
	ctx := withTimeout(t)
	var refusal *StartError
	if err := c.Freeze(ctx); !errors.As(err, &refusal) || *refusal != (StartError{Step: "freeze", Text: "no freezer"}) {
		t.Errorf("freeze: %v", err)
	}
	if err := c.Thaw(ctx); err != nil {
		t.Errorf("thaw: %v", err)
	}
	want := Identity{"new", 3, time.Unix(1e9, 5).UTC(), []byte{0, 255}, "host"}
	if err := c.Identify(ctx, want); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := cmp.Diff(want, h.identity); d != "" {
		t.Error(d)
	}
}

// TestManyCalls makes more calls, one after the other and at once, than may be
// under way.
func TestManyCalls(t *testing.T) {
	c := connect(t, &fake{})
	ctx := withTimeout(t)
	for range 2 * maxCalls {
		if err := c.Thaw(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for range 2 * maxCalls {
		group.Go(func() {
			if err := c.Thaw(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestDescriptors(t *testing.T) {
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"fds": func(p *fakeProgram) {
		for i, fd := range p.Descriptors {
			f := os.NewFile(uintptr(fd), "")
			if i > 0 {
				_, _ = f.WriteString(p.Argv[i])
			}
			_ = f.Close()
		}
		code := len(p.Descriptors)
		if p.Stdin != nil || p.Stdout != nil || p.Stderr != nil {
			code = 99
		}
		p.Exited(Exit{Code: code})
	}}})
	var reads [2]*os.File
	var writes [2]*os.File
	for i := range reads {
		var err error
		if reads[i], writes[i], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close() // also keeps it from being collected, and so closed, before it is sent
	fds := []int{int(null.Fd()), int(writes[0].Fd()), int(writes[1].Fd())}
	padding := strings.Repeat("p", 3*frameSize) // in parts
	p := mustStart(t, c, Command{Argv: []string{"fds", "one", "two", padding}, Descriptors: fds})
	for i, want := range []string{"one", "two"} {
		_ = writes[i].Close()
		if got := mustReadAll(t, reads[i]); got != want {
			t.Errorf("descriptor %d: %q", i+1, got)
		}
	}
	mustWait(t, p, Exit{Code: 3})
}

// TestFail: the reason arrives, whether the start was sent before or after the
// guest had gone with all that it was sent unread.
func TestFail(t *testing.T) {
	for name, early := range map[string]bool{"started before": true, "started after": false} {
		outer, inner := pair(t)
		fail := func() {
			if err := Fail(inner, Hello{Failed: "no such folder", Step: "mount", Errno: int(syscall.ENOENT)}); err != nil {
				t.Error(err)
			}
			_ = inner.Close()
		}
		if !early {
			fail()
		}
		c := Open(outer)
		if early {
			go func() {
				waitFor(t, "the start to be sent", func() bool {
					c.link.mu.Lock()
					defer c.link.mu.Unlock()
					return c.last == 1
				})
				fail()
			}()
		}
		_, err := c.Start(withTimeout(t), Command{Argv: []string{"a"}})
		var failed *SetupError
		if !errors.As(err, &failed) || failed.Hello.Step != "mount" || !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%s: start: %v", name, err)
		}
		if _, err := c.Ready(context.Background()); !errors.As(err, &failed) {
			t.Errorf("%s: ready: %v", name, err)
		}
		if _, err := Dial(context.Background(), outer); err == nil {
			t.Errorf("%s: a second client on a stream that is closed", name)
		}
	}
}

// TestVersions: a side that speaks another version is told from one that is
// broken.
func TestVersions(t *testing.T) {
	outer, inner := pair(t)
	go func() {
		_, _ = inner.Write(appendFrame(nil, kindHello, 0, 0, append(encodeNumbers(Version+1), "whatever"...)))
	}()
	_, err := Dial(context.Background(), outer)
	checkError(t, err, "speaks version 2, this one 1")
}
