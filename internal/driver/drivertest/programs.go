package drivertest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/caisson-dev/caisson/internal/guest"
)

func (s *scene) start(c *guest.Client, argv []string) *guest.Process {
	s.Helper()
	p, err := c.Start(s.ctx(), s.command(argv))
	if err != nil {
		s.Fatalf("start %.60q: %v", argv, err)
	}
	return p
}

// run runs a program to its end and returns what it wrote.
func (s *scene) run(c *guest.Client, argv []string, input string) (string, guest.Exit) {
	s.Helper()
	p := s.start(c, argv)
	go func() {
		_, _ = io.WriteString(p.Stdin, input) // it need not read
		_ = p.Stdin.Close()
	}()
	go func() { _, _ = io.Copy(io.Discard, p.Stderr) }()
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		s.Errorf("read the output of %.60q: %v", argv, err)
	}
	exit, err := p.Wait(s.ctx())
	if err != nil {
		s.Fatalf("wait for %.60q: %v", argv, err)
	}
	return string(out), exit
}

// line reads one line of a program's output, "" if none comes within the time.
func (s *scene) line(p *guest.Process, within time.Duration) string {
	got := make(chan string, 1)
	go func() {
		var line []byte
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(p.Stdout, b); err != nil || b[0] == '\n' {
				got <- string(line)
				return
			}
			line = append(line, b[0])
		}
	}()
	select {
	case line := <-got:
		return line
	case <-time.After(within):
		_ = p.Stdout.Close()
		return ""
	}
}

func checkPrograms(s *scene) {
	b, spec := s.create()
	c := s.dial(b, spec)
	for _, code := range []int{0, 7, 255} {
		if _, exit := s.run(c, s.o.Programs.Exit(code), ""); exit != (guest.Exit{Code: code}) {
			s.Errorf("a program that ends with %d: %+v", code, exit)
		}
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if _, exit := s.run(c, s.o.Programs.Kill(int(signal)), ""); exit.Signal != int(signal) {
			s.Errorf("a program that ends itself by %v: %+v", signal, exit)
		}
		p := s.start(c, s.o.Programs.Sleep)
		if err := p.Signal(int(signal), false); err != nil {
			s.Errorf("signal %v: %v", signal, err)
		}
		if exit, err := p.Wait(s.ctx()); err != nil || exit.Signal != int(signal) {
			s.Errorf("a program that was sent %v: %+v, %v", signal, exit, err)
		}
	}
	_, err := c.Start(s.ctx(), s.command(s.o.Programs.Missing))
	if refusal := (*guest.StartError)(nil); !errors.As(err, &refusal) || !errors.Is(err, syscall.ENOENT) {
		s.Errorf("a program that does not exist: %v", err)
	}
	want := strings.Repeat("\x00\xff\r\n all bytes pass", 1<<16)
	if got, exit := s.run(c, s.o.Programs.Cat, want); got != want || exit != (guest.Exit{}) {
		s.Errorf("%d of %d bytes came back, exit %+v", len(got), len(want), exit)
	}
	s.destroy(b)
	s.gone()
}

func checkUnreadOutput(s *scene) {
	b, spec := s.create()
	c := s.dial(b, spec)
	p := s.start(c, s.o.Programs.Flood)
	if _, exit := s.run(c, s.o.Programs.Exit(3), ""); exit.Code != 3 {
		s.Errorf("beside a program whose output nobody reads: %+v", exit)
	}
	if err := p.Signal(int(syscall.SIGKILL), false); err != nil {
		s.Errorf("signal: %v", err)
	}
	if _, err := p.Wait(s.ctx()); err != nil {
		s.Errorf("wait for a program whose output nobody reads: %v", err)
	}
}

// checkDescriptors: programs work on descriptors of the host where the driver
// says so, and only there.
func checkDescriptors(s *scene) {
	b, spec := s.create()
	if carries := b.Stream().SendDescriptors != nil; carries != s.caps.Descriptors {
		s.Fatalf("Capabilities.Descriptors is %v, the stream carries them: %v", s.caps.Descriptors, carries)
	}
	if !s.caps.Descriptors {
		return
	}
	c := s.dial(b, spec)
	in, inW := s.pipe()
	outR, out := s.pipe()
	cmd := s.command(s.o.Programs.Cat)
	cmd.Descriptors = []int{int(in.Fd()), int(out.Fd()), int(out.Fd())}
	p, err := c.Start(s.ctx(), cmd)
	_ = in.Close()
	_ = out.Close()
	if err != nil {
		s.Fatalf("start with descriptors: %v", err)
	}
	if _, err := inW.WriteString("through pipes"); err != nil {
		s.Errorf("write to the program's pipe: %v", err)
	}
	_ = inW.Close()
	got, err := io.ReadAll(outR)
	_ = outR.Close()
	if err != nil || !bytes.Equal(got, []byte("through pipes")) {
		s.Errorf("read from the program's pipe: %q, %v", got, err)
	}
	if exit, err := p.Wait(s.ctx()); err != nil || exit != (guest.Exit{}) {
		s.Errorf("wait: %+v, %v", exit, err)
	}
}

func (s *scene) pipe() (r, w *os.File) {
	s.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.Fatalf("make a pipe: %v", err)
	}
	return r, w
}
