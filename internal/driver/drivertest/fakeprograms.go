package drivertest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
)

// Program is what a program of a Fake does. When it is killed its input and
// output fail, Killed is closed, and what it returns does not count.
type Program func(p *FakeProgram) guest.Exit

// FakeProgram is a running program of a Fake.
type FakeProgram struct {
	guest.Command
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Killed         <-chan struct{}

	box     *fakeBox
	ignores atomic.Bool
	events  guest.Events
	killed  chan struct{}
	closers []io.Closer
	ending  sync.Once
}

// IgnoreSignals makes the program ignore every signal but SIGKILL.
func (p *FakeProgram) IgnoreSignals() { p.ignores.Store(true) }

// Set puts a word into the box's memory, which a checkpoint keeps.
func (p *FakeProgram) Set(key, value string) {
	_ = p.box.set(func() { p.box.memory[key] = value }) // a box that is gone remembers nothing
}

// Get returns a word of the box's memory.
func (p *FakeProgram) Get(key string) (value string) {
	_ = p.box.set(func() { value = p.box.memory[key] })
	return value
}

// FakePrograms are the programs of the suite as every Fake has them.
func FakePrograms() Programs {
	return Programs{
		Exit:     func(code int) []string { return []string{"exit", strconv.Itoa(code)} },
		Kill:     func(signal int) []string { return []string{"kill", strconv.Itoa(signal)} },
		Cat:      []string{"cat"},
		Sleep:    []string{"sleep"},
		Stubborn: []string{"stubborn"},
		Flood:    []string{"flood"},
		Missing:  []string{"missing"},
		Remember: func(word string) []string { return []string{"remember", word} },
		Recall:   []string{"recall"},
		End:      []string{"end"},
	}
}

// builtin returns the program of that name, nil if there is none.
func builtin(name string) Program {
	return map[string]Program{
		"exit": func(p *FakeProgram) guest.Exit { return guest.Exit{Code: p.number()} },
		"kill": func(p *FakeProgram) guest.Exit { return guest.Exit{Signal: p.number()} },
		"cat": func(p *FakeProgram) guest.Exit {
			if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
				return guest.Exit{Code: 1}
			}
			return guest.Exit{}
		},
		"sleep": func(p *FakeProgram) guest.Exit { return p.wait() },
		"stubborn": func(p *FakeProgram) guest.Exit {
			p.IgnoreSignals()
			_, _ = io.WriteString(p.Stdout, "up\n")
			return p.wait()
		},
		"flood": func(p *FakeProgram) guest.Exit {
			for block := bytes.Repeat([]byte("flood\n"), 1000); ; {
				if _, err := p.Stdout.Write(block); err != nil {
					return guest.Exit{Signal: int(syscall.SIGPIPE)}
				}
			}
		},
		"remember": func(p *FakeProgram) guest.Exit {
			p.Set("word", p.Argv[1])
			_, _ = io.WriteString(p.Stdout, "up\n")
			return p.wait()
		},
		"recall": func(p *FakeProgram) guest.Exit {
			_, _ = io.WriteString(p.Stdout, p.Get("word")+"\n")
			return guest.Exit{}
		},
		"end": func(p *FakeProgram) guest.Exit {
			p.box.die(driver.Exit{Reason: "the guest crashed"})
			return guest.Exit{}
		},
	}[name]
}

func (p *FakeProgram) number() int {
	n, _ := strconv.Atoi(p.Argv[1]) // the suite's own
	return n
}

func (p *FakeProgram) wait() guest.Exit {
	<-p.Killed
	return guest.Exit{}
}

// Start starts a program of the box.
func (b *fakeBox) Start(cmd guest.Command, stdio guest.StdIO, events guest.Events) (guest.Program, error) {
	p := &FakeProgram{Command: cmd, box: b, events: events, killed: make(chan struct{})}
	p.Killed = p.killed
	p.connect(stdio)
	run := b.fake.Programs[cmd.Argv[0]]
	if run == nil {
		run = builtin(cmd.Argv[0])
	}
	err := error(&guest.StartError{Step: "exec", Errno: int(syscall.ENOENT), Text: "no such program"})
	if run != nil {
		err = b.set(func() { b.programs[p] = true; b.work.Add(1) })
	}
	if err != nil {
		if cmd.Descriptors != nil {
			p.close()
		}
		return nil, err
	}
	go func() {
		defer b.work.Done()
		exit := guest.Exit{}
		if b.may() {
			exit = run(p)
		}
		p.end(exit)
	}()
	return p, nil
}

// connect gives the program its input and output, which stop while the box does.
func (p *FakeProgram) connect(stdio guest.StdIO) {
	if d := p.Descriptors; d != nil {
		in, out, errs := os.NewFile(uintptr(d[0]), "stdin"), os.NewFile(uintptr(d[1]), "stdout"), os.NewFile(uintptr(d[2]), "stderr")
		p.Stdin, p.Stdout, p.Stderr = gated{p.box, in, nil}, gated{p.box, nil, out}, gated{p.box, nil, errs}
		p.closers = []io.Closer{in, out, errs}
		return
	}
	p.Stdin, p.Stdout = gated{p.box, stdio.Stdin, nil}, gated{p.box, nil, stdio.Stdout}
	p.closers = []io.Closer{stdio.Stdin, stdio.Stdout}
	if stdio.Stderr != nil {
		p.Stderr = gated{p.box, nil, stdio.Stderr}
		p.closers = append(p.closers, stdio.Stderr)
	}
}

// end reports how the program ended, once.
func (p *FakeProgram) end(exit guest.Exit) {
	p.ending.Do(func() {
		close(p.killed)
		p.close()
		p.box.mu.Lock()
		delete(p.box.programs, p)
		p.box.mu.Unlock()
		p.events.Exited(exit)
	})
}

// kill ends the program with its box, whose lock is held: nobody is told.
func (p *FakeProgram) kill() {
	go p.end(guest.Exit{Signal: int(syscall.SIGKILL)})
}

func (p *FakeProgram) close() {
	for _, c := range p.closers {
		_ = c.Close() // the other end may be gone
	}
}

// PID is a number.
func (p *FakeProgram) PID() int { return 2 }

// Signal ends the program, unless it ignores the signal.
func (p *FakeProgram) Signal(signal int, _ bool) error {
	if !p.ignores.Load() || signal == int(syscall.SIGKILL) {
		p.end(guest.Exit{Signal: signal})
	}
	return nil
}

// Resize is accepted.
func (p *FakeProgram) Resize(guest.Size) error { return nil }

// Continue is accepted.
func (p *FakeProgram) Continue() error { return nil }

// DialPort is refused: a Fake has no network.
func (b *fakeBox) DialPort(uint16) (guest.Conn, error) { return nil, syscall.ECONNREFUSED }

// Freeze stops the programs.
func (b *fakeBox) Freeze() error { return b.set(func() { b.frozen = true }) }

// Thaw lets them go on.
func (b *fakeBox) Thaw() error { return b.set(func() { b.frozen = false }) }

// Identify gives the box its identity.
func (b *fakeBox) Identify(i guest.Identity) error {
	if len(i.Entropy) < 32 {
		return errors.New("less than 32 bytes of entropy")
	}
	return b.set(func() { b.identity = i })
}

// gated is an input or output that stops while its box does.
type gated struct {
	box *fakeBox
	r   io.Reader
	w   io.Writer
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if !g.box.may() {
		return 0, errGone
	}
	return n, err
}

func (g gated) Write(p []byte) (int, error) {
	if !g.box.may() {
		return 0, errGone
	}
	return g.w.Write(p)
}
