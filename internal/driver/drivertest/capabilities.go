package drivertest

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
)

// checkUnsupported: what a driver says it lacks says so when it is called.
func checkUnsupported(s *scene) {
	b, spec := s.create()
	calls := map[string]func() error{}
	if !s.caps.Pause {
		calls["Pause"] = func() error { return b.Pause(s.ctx()) }
		calls["Resume"] = func() error { return b.Resume(s.ctx()) }
	}
	if !s.caps.Checkpoint {
		calls["Checkpoint"] = func() error { return b.Checkpoint(s.ctx(), s.TempDir()) }
		calls["Restore"] = func() error {
			b, err := s.driver.Restore(s.ctx(), s.spec(), s.TempDir())
			if err == nil {
				s.keep(b)
			}
			return err
		}
	}
	if !s.caps.Fork {
		calls["Fork"] = func() error {
			boxes, err := b.Fork(s.ctx(), []driver.Spec{s.spec()})
			for _, b := range boxes {
				s.keep(b)
			}
			return err
		}
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, driver.ErrUnsupported) {
			s.Errorf("%s, which Capabilities exclude: %v, want ErrUnsupported", name, err)
		}
	}
	if _, exit := s.run(s.dial(b, spec), s.o.Programs.Exit(5), ""); exit.Code != 5 {
		s.Errorf("after that the box does not work: %+v", exit)
	}
}

// checkPause: a paused box does nothing, keeps what it has, and goes on.
func checkPause(s *scene) {
	if !s.caps.Pause {
		s.Skipf("Capabilities exclude Pause")
	}
	b, spec := s.create()
	c := s.dial(b, spec)
	p := s.start(c, s.o.Programs.Cat)
	for round := range 2 {
		s.say(p, "running\n")
		if got := s.line(p, s.o.Patience); got != "running" {
			s.Fatalf("round %d: a running box says %q", round, got)
		}
		for range 2 { // repeated is the same
			if err := b.Pause(s.ctx()); err != nil {
				s.Fatalf("Pause: %v", err)
			}
		}
		s.say(p, "paused\n")
		got := make(chan string, 1)
		go func() { got <- s.line(p, s.o.Patience) }()
		select {
		case line := <-got:
			s.Fatalf("round %d: a paused box says %q", round, line)
		case <-time.After(s.o.Moment):
		}
		for range 2 {
			if err := b.Resume(s.ctx()); err != nil {
				s.Fatalf("Resume: %v", err)
			}
		}
		if line := <-got; line != "paused" {
			s.Fatalf("round %d: a box that goes on says %q", round, line)
		}
	}
	s.destroy(b)
	s.gone()
}

// say writes to a program's input without waiting: a paused guest takes nothing.
func (s *scene) say(p *guest.Process, text string) {
	go func() { _, _ = io.WriteString(p.Stdin, text) }() // that it does not arrive is seen at the output
}

// remembering makes a box that has a random word in its memory, paused.
func (s *scene) remembering() (b driver.Box, word string) {
	s.Helper()
	b, spec := s.create()
	c := s.dial(b, spec)
	word = "word" + rand.Text()
	if up := s.line(s.start(c, s.o.Programs.Remember(word)), s.o.Patience); up == "" {
		s.Fatalf("the program that remembers says nothing")
	}
	if err := b.Pause(s.ctx()); err != nil {
		s.Fatalf("Pause: %v", err)
	}
	return b, word
}

// awaken gives a box that was restored or forked its identity and thaws it; it
// has the word, and does nothing before.
func (s *scene) awaken(b driver.Box, spec driver.Spec, word string) {
	s.Helper()
	c := s.dial(b, spec)
	identity := guest.Identity{Sandbox: spec.ID, Generation: b.Generation(), Time: time.Now(), Entropy: make([]byte, 32), Hostname: "box"}
	if _, err := rand.Read(identity.Entropy); err != nil {
		s.Fatalf("read random bytes: %v", err)
	}
	if err := c.Identify(s.ctx(), identity); err != nil {
		s.Fatalf("Identify: %v", err)
	}
	type result struct {
		out []byte
		err error
	}
	got := make(chan result, 1)
	cmd := s.command(s.o.Programs.Recall)
	go func() {
		p, err := c.Start(s.ctx(), cmd)
		if err != nil {
			got <- result{err: err}
			return
		}
		out, err := io.ReadAll(p.Stdout)
		got <- result{out, err}
	}()
	select {
	case r := <-got:
		s.Fatalf("before it was thawed the box did something: %q, %v", r.out, r.err)
	case <-time.After(s.o.Moment):
	}
	if err := c.Thaw(s.ctx()); err != nil {
		s.Fatalf("Thaw: %v", err)
	}
	select {
	case r := <-got:
		if r.err != nil || string(r.out) != word+"\n" {
			s.Errorf("the box remembers %q, %v, want %q", r.out, r.err, word)
		}
	case <-time.After(s.o.Patience):
		s.Fatalf("the box was thawed and does nothing")
	}
}

// checkCheckpoint: a box is written and restored as a new generation, twice,
// without the first one, which goes on.
func checkCheckpoint(s *scene) {
	if !s.caps.Checkpoint {
		s.Skipf("Capabilities exclude Checkpoint")
	}
	b, word := s.remembering()
	dir := s.TempDir()
	if err := b.Checkpoint(s.ctx(), dir); err != nil {
		s.Fatalf("Checkpoint: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		s.Fatalf("the checkpoint is empty (%v)", err)
	}
	if err := b.Resume(s.ctx()); err != nil {
		s.Fatalf("Resume after a checkpoint: %v", err)
	}
	s.destroy(b)
	s.gone()
	for range 2 {
		spec := s.spec()
		r, err := s.driver.Restore(s.ctx(), spec, dir)
		if err != nil {
			s.Fatalf("Restore: %v", err)
		}
		s.keep(r)
		if r.Generation() != b.Generation()+1 {
			s.Errorf("generation %d was restored as %d", b.Generation(), r.Generation())
		}
		s.awaken(r, spec, word)
		s.destroy(r)
		s.gone()
	}
}

// checkBadCheckpoint: a running box is not written, a folder that is not empty
// is not written to, and a damaged checkpoint is not restored.
func checkBadCheckpoint(s *scene) {
	if !s.caps.Checkpoint {
		s.Skipf("Capabilities exclude Checkpoint")
	}
	b, _ := s.remembering()
	full := s.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		s.Fatalf("write a file: %v", err)
	}
	if err := b.Checkpoint(s.ctx(), full); err == nil {
		s.Errorf("a checkpoint was written into a folder that is not empty")
	}
	dir := s.TempDir()
	if err := b.Checkpoint(s.ctx(), dir); err != nil {
		s.Fatalf("Checkpoint: %v", err)
	}
	if err := b.Resume(s.ctx()); err != nil {
		s.Fatalf("Resume: %v", err)
	}
	if err := b.Checkpoint(s.ctx(), s.TempDir()); err == nil {
		s.Errorf("a checkpoint of a running box was written")
	}
	s.destroy(b)
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.Fatalf("read the checkpoint: %v", err)
	}
	for _, e := range entries {
		s.damaged(dir, e.Name())
	}
	if r, err := s.driver.Restore(s.ctx(), s.spec(), s.TempDir()); err == nil {
		s.keep(r)
		s.Errorf("an empty folder was restored")
	}
	s.gone()
}

// damaged tries to restore a checkpoint in which one byte of one file is wrong.
func (s *scene) damaged(dir, name string) {
	s.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return // a folder or an empty file: nothing to damage
	}
	bad := append([]byte(nil), data...)
	bad[len(bad)/2] ^= 1
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		s.Fatalf("damage the checkpoint: %v", err)
	}
	if r, err := s.driver.Restore(s.ctx(), s.spec(), dir); err == nil {
		s.keep(r)
		s.Errorf("a checkpoint whose file %s is damaged was restored", name)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.Fatalf("repair the checkpoint: %v", err)
	}
}

// checkFork: boxes of one state, each its own.
func checkFork(s *scene) {
	if !s.caps.Fork {
		s.Skipf("Capabilities exclude Fork")
	}
	b, word := s.remembering()
	specs := []driver.Spec{s.spec(), s.spec(), s.spec()}
	boxes, err := b.Fork(s.ctx(), specs)
	if err != nil {
		s.Fatalf("Fork: %v", err)
	}
	if len(boxes) != len(specs) {
		s.Fatalf("%d specs were forked into %d boxes", len(specs), len(boxes))
	}
	for _, f := range boxes {
		s.keep(f)
	}
	s.destroy(b) // the children live without it
	for i, f := range boxes {
		if f.Generation() != b.Generation()+1 {
			s.Errorf("generation %d was forked as %d", b.Generation(), f.Generation())
		}
		s.awaken(f, specs[i], word)
	}
	s.destroy(boxes[0])
	if _, err := boxes[1].Stats(s.ctx()); err != nil {
		s.Errorf("a box ended with its sibling: %v", err)
	}
}

// checkBadFork: if one cannot be made, none is.
func checkBadFork(s *scene) {
	if !s.caps.Fork {
		s.Skipf("Capabilities exclude Fork")
	}
	b, _ := s.remembering()
	bad := s.spec()
	bad.Dir = filepath.Join(bad.Dir, "missing")
	boxes, err := b.Fork(s.ctx(), []driver.Spec{s.spec(), s.spec(), bad})
	if err == nil || len(boxes) > 0 {
		s.Errorf("Fork with a folder that does not exist: %d boxes, %v", len(boxes), err)
	}
	for _, f := range boxes {
		s.keep(f)
	}
	s.destroy(b)
	s.gone()
}
