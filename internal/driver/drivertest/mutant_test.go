package drivertest

import (
	"context"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
)

// mutant is a driver that breaks the contract in one way. What it does not
// replace is the fake's.
type mutant struct {
	driver.Driver
	can     func(driver.Capabilities) driver.Capabilities
	probe   func(depth driver.Depth, p api.Probe) api.Probe
	begin   func(id, dir string) driver.Begun
	create  func(ctx context.Context, spec driver.Spec, real func(driver.Spec) (driver.Box, error)) (driver.Box, error)
	restore func(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error)
	box     func(b *mutantBox)
}

func (m *mutant) Capabilities() driver.Capabilities {
	if m.can != nil {
		return m.can(m.Driver.Capabilities())
	}
	return m.Driver.Capabilities()
}

func (m *mutant) Probe(ctx context.Context, depth driver.Depth) api.Probe {
	p := m.Driver.Probe(ctx, depth)
	if m.probe != nil {
		return m.probe(depth, p)
	}
	return p
}

func (m *mutant) Begin(id, dir string) driver.Begun {
	if m.begin != nil {
		return m.begin(id, dir)
	}
	return m.Driver.Begin(id, dir)
}

func (m *mutant) Create(ctx context.Context, spec driver.Spec) (driver.Box, error) {
	really := func(spec driver.Spec) (driver.Box, error) { return m.Driver.Create(ctx, spec) }
	var b driver.Box
	var err error
	if m.create != nil {
		b, err = m.create(ctx, spec, really)
	} else {
		b, err = really(spec)
	}
	return m.wrap(b, err, spec)
}

func (m *mutant) Restore(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error) {
	really := m.Driver.Restore
	if m.restore != nil {
		really = m.restore
	}
	b, err := really(ctx, spec, dir)
	return m.wrap(b, err, spec)
}

func (m *mutant) wrap(b driver.Box, err error, spec driver.Spec) (driver.Box, error) {
	if err != nil || m.box == nil {
		return b, err
	}
	w := &mutantBox{Box: b, spec: spec}
	m.box(w)
	return w, nil
}

// mutantBox replaces the methods that are not nil.
type mutantBox struct {
	driver.Box
	spec       driver.Spec
	generation func() uint64
	stream     func() guest.Stream
	pid        func() int
	pause      func() error
	resume     func() error
	checkpoint func(dir string) error
	fork       func(ctx context.Context, specs []driver.Spec) ([]driver.Box, error)
	stats      func() (driver.Stats, error)
	wait       func(ctx context.Context) (driver.Exit, error)
	destroy    func(ctx context.Context) error
}

func (b *mutantBox) Generation() uint64 {
	if b.generation != nil {
		return b.generation()
	}
	return b.Box.Generation()
}

func (b *mutantBox) Stream() guest.Stream {
	if b.stream != nil {
		return b.stream()
	}
	return b.Box.Stream()
}

func (b *mutantBox) PID() int {
	if b.pid != nil {
		return b.pid()
	}
	return b.Box.PID()
}

func (b *mutantBox) Pause(ctx context.Context) error {
	if b.pause != nil {
		return b.pause()
	}
	return b.Box.Pause(ctx)
}

func (b *mutantBox) Resume(ctx context.Context) error {
	if b.resume != nil {
		return b.resume()
	}
	return b.Box.Resume(ctx)
}

func (b *mutantBox) Checkpoint(ctx context.Context, dir string) error {
	if b.checkpoint != nil {
		return b.checkpoint(dir)
	}
	return b.Box.Checkpoint(ctx, dir)
}

func (b *mutantBox) Fork(ctx context.Context, specs []driver.Spec) ([]driver.Box, error) {
	if b.fork != nil {
		return b.fork(ctx, specs)
	}
	return b.Box.Fork(ctx, specs)
}

func (b *mutantBox) Stats(ctx context.Context) (driver.Stats, error) {
	if b.stats != nil {
		return b.stats()
	}
	return b.Box.Stats(ctx)
}

func (b *mutantBox) Wait(ctx context.Context) (driver.Exit, error) {
	if b.wait != nil {
		return b.wait(ctx)
	}
	return b.Box.Wait(ctx)
}

func (b *mutantBox) Destroy(ctx context.Context) error {
	if b.destroy != nil {
		return b.destroy(ctx)
	}
	return b.Box.Destroy(ctx)
}

func (b *mutantBox) fake() *fakeBox { return b.Box.(*fakeBox) }
