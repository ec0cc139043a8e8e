package drivertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
)

// fakeBox is a box of a Fake. It is also the handler of its guest.
type fakeBox struct {
	fake         *Fake
	spec         driver.Spec
	generation   uint64
	outer, inner guest.Stream
	ended        chan struct{} // closed when the box has ended, and why is known
	over         chan struct{} // closed when nothing is left
	clear        sync.Once
	work         sync.WaitGroup // of programs

	mu       sync.Mutex
	changed  *sync.Cond // paused, frozen, dead
	paused   bool       // from outside
	frozen   bool       // by the guest
	dead     bool
	exit     driver.Exit
	memory   map[string]string
	programs map[*FakeProgram]bool
	identity guest.Identity
}

var errGone = errors.New("the box is gone")

// serve is the guest's life. It ends when the stream does, from either side.
func (b *fakeBox) serve() {
	err := guest.Serve(b.inner, guest.Hello{Sandbox: b.spec.ID, Generation: b.generation, PID: 1}, b)
	reason := "nobody is at the other end"
	if err != nil {
		reason = err.Error()
	}
	b.die(driver.Exit{Reason: reason})
}

// die ends the box; the first reason counts.
func (b *fakeBox) die(exit driver.Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return
	}
	b.dead, b.exit = true, exit
	b.changed.Broadcast()
	for p := range b.programs {
		p.kill()
	}
	_ = b.inner.Close() // so that the outer end sees its end
	close(b.ended)
}

// may waits until programs may run, and reports whether they ever will.
func (b *fakeBox) may() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for (b.paused || b.frozen) && !b.dead {
		b.changed.Wait()
	}
	return !b.dead
}

func (b *fakeBox) set(change func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return errGone
	}
	change()
	b.changed.Broadcast()
	return nil
}

func (b *fakeBox) Generation() uint64   { return b.generation }
func (b *fakeBox) Stream() guest.Stream { return b.outer }
func (b *fakeBox) PID() int             { return 0 }

func (b *fakeBox) Pause(context.Context) error {
	if !b.fake.Can.Pause {
		return driver.ErrUnsupported
	}
	return b.set(func() { b.paused = true })
}

func (b *fakeBox) Resume(context.Context) error {
	if !b.fake.Can.Pause {
		return driver.ErrUnsupported
	}
	return b.set(func() { b.paused = false })
}

// state copies a paused box.
func (b *fakeBox) state() (st fakeState, err error) {
	paused := false
	err = b.set(func() { st, paused = fakeState{b.generation, maps.Clone(b.memory)}, b.paused })
	if err == nil && !paused {
		err = errors.New("the box is not paused")
	}
	return st, err
}

func (b *fakeBox) Checkpoint(_ context.Context, dir string) error {
	if !b.fake.Can.Checkpoint {
		return driver.ErrUnsupported
	}
	st, err := b.state()
	if err != nil {
		return fmt.Errorf("checkpoint fake box: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty", dir)
	}
	if err != nil {
		return fmt.Errorf("checkpoint fake box: %w", err)
	}
	return writeState(dir, st)
}

func (b *fakeBox) Fork(ctx context.Context, specs []driver.Spec) (boxes []driver.Box, err error) {
	if !b.fake.Can.Fork {
		return nil, driver.ErrUnsupported
	}
	st, err := b.state()
	if err != nil {
		return nil, fmt.Errorf("fork fake box: %w", err)
	}
	for _, spec := range specs {
		child, err := b.fake.make(ctx, spec, st.Generation+1, st.Memory, true)
		if err != nil {
			for _, made := range boxes {
				err = errors.Join(err, made.Destroy(context.WithoutCancel(ctx)), made.Stream().Close())
			}
			return nil, err
		}
		boxes = append(boxes, child)
	}
	return boxes, nil
}

func (b *fakeBox) Stats(context.Context) (st driver.Stats, err error) {
	err = b.set(func() { st.Processes = 1 + len(b.programs) })
	return st, err
}

func (b *fakeBox) Wait(ctx context.Context) (driver.Exit, error) {
	select {
	case <-b.ended:
	default:
		select {
		case <-b.ended:
		case <-ctx.Done():
			return driver.Exit{}, ctx.Err()
		}
	}
	return b.exit, nil
}

// Kill does all that Destroy does: nothing guards a fake.
func (b *fakeBox) Kill(ctx context.Context) error { return b.Destroy(ctx) }

func (b *fakeBox) Destroy(ctx context.Context) error {
	b.die(driver.Exit{Destroyed: true})
	b.clear.Do(func() {
		go func() {
			defer close(b.over)
			b.work.Wait()
			_ = os.Remove(filepath.Join(b.spec.Dir, fakeFile)) // the suite sees it if it stays
		}()
	})
	select {
	case <-b.over:
		return nil
	default:
	}
	select {
	case <-b.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
