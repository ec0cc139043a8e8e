package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestGigabyteThereAndBack(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() || raceEnabled {
		size = 64 << 20
	}
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"cat": cat}})
	p := mustStart(t, c, Command{Argv: []string{"cat"}})
	sent := make(chan hash.Hash, 1)
	go func() {
		sum := sha256.New()
		w := io.MultiWriter(p.Stdin, sum)
		source := rand.NewChaCha8([32]byte{1})
		buf := make([]byte, 300_001) // fits neither frame nor window
		for left := size; left > 0; {
			n := min(left, int64(len(buf)))
			_, _ = source.Read(buf[:n])
			if _, err := w.Write(buf[:n]); err != nil {
				t.Error(err)
				break
			}
			left -= n
		}
		_ = p.Stdin.Close()
		sent <- sum
	}()
	got := sha256.New()
	n, err := io.Copy(got, p.Stdout)
	if err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if want := (<-sent).Sum(nil); !bytes.Equal(got.Sum(nil), want) {
		t.Error("the bytes differ")
	}
	mustWait(t, p, Exit{})
}

// TestUnreadOutput: a program that writes what nobody reads blocks itself alone.
func TestUnreadOutput(t *testing.T) {
	written := make(chan error, 1)
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){
		"cat": cat,
		"yes": func(p *fakeProgram) {
			go func() {
				_, err := p.Stdout.Write(make([]byte, 64<<20))
				written <- err
			}()
			signal := <-p.signals
			p.Exited(Exit{Signal: signal[0]})
		},
	}})
	yes := mustStart(t, c, Command{Argv: []string{"yes"}})
	waitFor(t, "a full window", func() bool {
		r := yes.Stdout.(*reader)
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.credit == 0
	})
	other := mustStart(t, c, Command{Argv: []string{"cat"}})
	_, _ = io.WriteString(other.Stdin, "hello")
	_ = other.Stdin.Close()
	if s := mustReadAll(t, other.Stdout); s != "hello" {
		t.Errorf("another program's output: %q", s)
	}
	mustWait(t, other, Exit{})
	if err := yes.Signal(9, false); err != nil {
		t.Error(err)
	}
	mustWait(t, yes, Exit{Signal: 9})
	select {
	case err := <-written:
		t.Errorf("the write returned, %v, and nobody has read", err)
	default:
	}
	if err := yes.Stdout.Close(); err != nil {
		t.Error(err)
	}
	if err := <-written; err != ErrReset {
		t.Errorf("write that nobody reads: %v", err)
	}
	if _, err := yes.Stdout.Read(make([]byte, 1)); err != ErrClosed {
		t.Errorf("read after close: %v", err)
	}
}

// TestExitBeforeOutputEnds is a program with a grandchild that keeps its output.
func TestExitBeforeOutputEnds(t *testing.T) {
	release := make(chan struct{})
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"parent": func(p *fakeProgram) {
		p.Exited(Exit{Code: 5})
		<-release
		_, _ = io.WriteString(p.Stdout, "late")
		_ = p.Stdout.Close()
		_ = p.Stderr.Close()
	}}})
	p := mustStart(t, c, Command{Argv: []string{"parent"}})
	mustWait(t, p, Exit{Code: 5})
	close(release)
	if s := mustReadAll(t, p.Stdout); s != "late" {
		t.Errorf("%q", s)
	}
	// Nobody is left who could read the input.
	waitFor(t, "the input's end", func() bool {
		_, err := p.Stdin.Write([]byte("x"))
		return err == ErrReset
	})
}

func TestInputNobodyReads(t *testing.T) {
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"head": func(p *fakeProgram) {
		_, _ = io.ReadFull(p.Stdin, make([]byte, 1))
		_ = p.Stdin.Close()
		<-p.signals
		cat(p)
	}}})
	p := mustStart(t, c, Command{Argv: []string{"head"}})
	n, err := p.Stdin.Write(make([]byte, 10<<20))
	if err != ErrReset || n > 10<<20 {
		t.Errorf("wrote %d bytes: %v", n, err)
	}
	if err := p.Signal(1, false); err != nil {
		t.Error(err)
	}
	mustWait(t, p, Exit{Code: 1})
}

func TestThousandStarts(t *testing.T) {
	const count = 1000
	gate := make(chan struct{})
	var all sync.WaitGroup
	all.Add(count)
	go func() { all.Wait(); close(gate) }()
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"echo": func(p *fakeProgram) {
		all.Done()
		<-gate // all of them run at once
		_, _ = io.WriteString(p.Stdout, p.Argv[1])
		cat(p)
	}}})
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() {
			p, err := c.Start(context.Background(), Command{Argv: []string{"echo", fmt.Sprint(i)}})
			if err != nil {
				t.Error(err)
				return
			}
			_ = p.Stdin.Close()
			out, err := io.ReadAll(p.Stdout)
			if err != nil || string(out) != fmt.Sprint(i) {
				t.Errorf("%d: %q, %v", i, out, err)
			}
			if _, err := p.Wait(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	waitFor(t, "channels and windows given back", func() bool {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		return len(c.channels) == 0 && c.windows == windowBudget
	})
	c.starting.mu.Lock()
	defer c.starting.mu.Unlock()
	if c.starting.free != maxStarting {
		t.Errorf("%d of %d bytes of starts given back", c.starting.free, maxStarting)
	}
}

func TestTooManyPrograms(t *testing.T) {
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"wait": func(p *fakeProgram) {
		<-p.signals
		_ = p.Stdout.Close()
		_ = p.Stderr.Close()
		p.Exited(Exit{})
	}}})
	var first *Process
	for i := range maxChannels {
		p := mustStart(t, c, Command{Argv: []string{"wait"}})
		if i == 0 {
			first = p
		}
	}
	if _, err := c.Start(withTimeout(t), Command{Argv: []string{"wait"}}); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("one more: %v", err)
	}
	if err := first.Signal(1, false); err != nil {
		t.Fatal(err)
	}
	mustWait(t, first, Exit{})
	_ = mustReadAll(t, first.Stdout) + mustReadAll(t, first.Stderr)
	_ = first.Stdin.Close()
	mustStart(t, c, Command{Argv: []string{"wait"}})
}

func TestLongArguments(t *testing.T) {
	argv := []string{"len"}
	for range 16 {
		argv = append(argv, strings.Repeat("\xff", 128<<10-1))
	}
	c := connect(t, &fake{programs: map[string]func(*fakeProgram){"len": func(p *fakeProgram) {
		sum := sha256.Sum256([]byte(strings.Join(p.Argv, "\x00")))
		_, _ = p.Stdout.Write(sum[:])
		cat(p)
	}}})
	want := sha256.Sum256([]byte(strings.Join(argv, "\x00")))
	var group sync.WaitGroup
	for range 20 { // 40 MiB, more than may be on the way at once
		group.Go(func() {
			p, err := c.Start(withTimeout(t), Command{Argv: argv})
			if err != nil {
				t.Error(err)
				return
			}
			_ = p.Stdin.Close()
			if got, err := io.ReadAll(p.Stdout); err != nil || string(got) != string(want[:]) {
				t.Errorf("the arguments differ, or %v", err)
			}
		})
	}
	group.Wait()
}

// TestAbandonedStart: what starts after the caller has gone is killed.
func TestAbandonedStart(t *testing.T) {
	begin, killed := make(chan struct{}), make(chan [2]int, 1)
	h := &slowStart{begin: begin, entered: make(chan struct{}), fake: fake{programs: map[string]func(*fakeProgram){
		"slow": func(p *fakeProgram) {
			killed <- <-p.signals
			if _, err := p.Stdout.Write([]byte("x")); err != ErrReset {
				t.Errorf("write to nobody: %v", err)
			}
			cat(p)
		},
	}}}
	c := connect(t, h)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-h.entered; cancel() }()
	if _, err := c.Start(ctx, Command{Argv: []string{"slow"}}); err != context.Canceled {
		t.Fatal(err)
	}
	close(begin)
	if got := <-killed; got != [2]int{9, 0} {
		t.Errorf("signal %v", got)
	}
	waitFor(t, "the channel to be forgotten", func() bool {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		return len(c.channels) == 0
	})
}

// slowStart starts nothing before begin is closed.
type slowStart struct {
	fake
	entered, begin chan struct{}
}

func (s *slowStart) Start(cmd Command, io StdIO, events Events) (Program, error) {
	close(s.entered)
	<-s.begin
	return s.fake.Start(cmd, io, events)
}

func TestStreamEnds(t *testing.T) {
	outer, inner := pair(t)
	ended := make(chan error, 2)
	h := &fake{programs: map[string]func(*fakeProgram){"last": func(p *fakeProgram) {
		_, _ = io.WriteString(p.Stdout, "words")
		_ = p.Stderr.Close()
		_, err := io.ReadAll(p.Stdin)
		ended <- err
	}}}
	go func() { ended <- Serve(inner, Hello{}, h) }()
	c := Open(outer)
	p := mustStart(t, c, Command{Argv: []string{"last"}})
	_ = mustReadAll(t, p.Stderr)
	_ = inner.Close()
	<-c.Done()
	if err := c.Err(); !errors.Is(err, errGone) {
		t.Errorf("the reason is %v", err)
	}
	if out, err := io.ReadAll(p.Stdout); string(out) != "words" || !errors.Is(err, errGone) {
		t.Errorf("output %q, %v", out, err)
	}
	if _, err := p.Wait(context.Background()); !errors.Is(err, errGone) {
		t.Errorf("wait: %v", err)
	}
	for name, err := range map[string]error{
		"signal": p.Signal(9, false), "write": func() error { _, err := p.Stdin.Write([]byte("x")); return err }(),
		"thaw": c.Thaw(context.Background()), "start": func() error { _, err := c.Start(withTimeout(t), Command{Argv: []string{"last"}}); return err }(),
	} {
		if !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("Serve or the program's input ended well")
		}
	}
}

// waitFor waits for what another goroutine does.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
