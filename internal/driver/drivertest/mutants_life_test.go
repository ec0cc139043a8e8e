package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
)

func probeMutants(add adder) {
	probe := func(name, says string, change func(depth driver.Depth, p *api.Probe)) {
		add(name, "Probe", says, mutant{probe: func(depth driver.Depth, p api.Probe) api.Probe {
			change(depth, &p)
			return p
		}})
	}
	probe("promises too much at a glance", "a quick probe says", func(depth driver.Depth, p *api.Probe) {
		if depth == driver.ProbeQuick {
			p.Features[1].Strength = api.StrengthHard
		}
	})
	probe("another tier's probe", "a probe of tier", func(_ driver.Depth, p *api.Probe) { p.Tier = api.TierWasm })
	probe("weak without a reason", "no reason", func(_ driver.Depth, p *api.Probe) { p.Features[1].Reason = "" })
	probe("usable without what is required", "usable is true", func(_ driver.Depth, p *api.Probe) { p.Features[1].Required = true })
	probe("reports twice", "or twice", func(_ driver.Depth, p *api.Probe) { p.Features = append(p.Features, p.Features[0]) })
}

func createMutants(add adder) {
	add("gives another id", "Create", "the guest says", mutant{create: func(_ context.Context, spec driver.Spec, really func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
		spec.ID = "same"
		return really(spec)
	}})
	add("knows of the others", "Many boxes", "too many boxes", mutant{create: func() func(context.Context, driver.Spec, func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
		var mu sync.Mutex
		n := 0
		return func(_ context.Context, spec driver.Spec, really func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n > 10 {
				return nil, errors.New("too many boxes")
			}
			return really(spec)
		}
	}()})
	add("starts all the same", "Create/refused leaves nothing", "the box was made", mutant{create: func(_ context.Context, spec driver.Spec, really func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
		plan := *spec.Plan
		plan.Mounts = nil
		spec.Plan = &plan
		return really(spec)
	}})
	add("leaves a file of a failed create", "Create/refused leaves nothing", "left when there should be nothing", mutant{create: leaveIfRefused})
	add("creates although the ctx has ended", "Create/refused leaves nothing", "a ctx that has ended", mutant{create: func(_ context.Context, spec driver.Spec, _ func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
		return (&Fake{Can: Everything()}).Create(context.Background(), spec)
	}})
	add("leaves what it had begun", "Create/given up leaves nothing", "left when there should be nothing", mutant{create: beginSlowly})
}

func leavingMutants(t *testing.T, onBox onBoxer) {
	onBox("leaves a process", "Create", "left: process", func(*mutantBox) {
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "100"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Kill(); _, _ = p.Wait() })
	})
	onBox("leaves a descriptor", "Create", "left: descriptor", func(*mutantBox) {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
	})
	onBox("leaves a file", "Create", "file driver-left", func(b *mutantBox) { touch(b.spec.Dir, "driver-left") })
	onBox("makes files of any name", "Create", "its names begin with driver-", func(b *mutantBox) { touch(b.spec.Dir, "mine") })
	onBox("removes the folder", "Create", "its owner's to do", func(b *mutantBox) {
		b.destroy = func(ctx context.Context) error {
			return errors.Join(b.Box.Destroy(ctx), os.RemoveAll(b.spec.Dir))
		}
	})
}

func boxMutants(add adder, onBox onBoxer) {
	onBox("counts from 0", "Create", "generation 0", func(b *mutantBox) { b.generation = func() uint64 { return 0 } })
	onBox("gives a stream each time", "Create", "more than one stream", func(b *mutantBox) {
		b.stream = func() guest.Stream {
			return guest.Stream{ReadWriteCloser: &struct{ io.ReadWriteCloser }{b.Box.Stream()}}
		}
	})
	onBox("loses the end of the stream", "Create", "its stream has no end", func(b *mutantBox) {
		endless := guest.Stream{ReadWriteCloser: &endless{b.Box.Stream().ReadWriteCloser, make(chan struct{}), sync.Once{}}}
		b.stream = func() guest.Stream { return endless }
	})
	onBox("a PID that is none", "Create", "PID 4194303", func(b *mutantBox) { b.pid = func() int { return 1<<22 - 1 } })
	add("a PID of another host", "Create", "a box elsewhere", mutant{
		can: func(c driver.Capabilities) driver.Capabilities { c.Remote = true; return c },
		box: func(b *mutantBox) { b.pid = os.Getpid },
	})
	onBox("measures the dead", "Stats", "that is gone", func(b *mutantBox) { b.stats = func() (driver.Stats, error) { return driver.Stats{}, nil } })
	onBox("measures less than nothing", "Stats", "Memory:-1", func(b *mutantBox) { b.stats = func() (driver.Stats, error) { return driver.Stats{Memory: -1}, nil } })
}

// begunFile is the beginning of a box: a file, which Abandon removes.
type begunFile string

func (b begunFile) Abandon() { _ = os.Remove(string(b)) }

// begunForEver is one that Abandon leaves.
type begunForEver struct{}

func (begunForEver) Abandon() {}

func beginMutants(add adder) {
	const file = "driver-begun"
	add("abandons nothing", "Begin", "file driver-begun", mutant{begin: func(_, dir string) driver.Begun {
		touch(dir, file)
		return begunForEver{}
	}})
	add("begins again", "Begin", "file driver-begun", mutant{begin: func(_, dir string) driver.Begun {
		touch(dir, file)
		return begunFile(filepath.Join(dir, file)) // which the fake's Create knows nothing of
	}})
	add("leaves what was begun for a box that is refused", "Begin", "file driver-begun", mutant{
		begin: func(_, dir string) driver.Begun {
			touch(dir, file)
			return begunFile(filepath.Join(dir, file))
		},
		create: func(_ context.Context, spec driver.Spec, really func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
			b, err := really(spec)
			if err == nil && spec.Begun != nil {
				spec.Begun.Abandon()
			}
			return b, err
		},
	})
}

func touch(dir, name string) {
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		panic(err)
	}
}

func leaveIfRefused(_ context.Context, spec driver.Spec, really func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
	b, err := really(spec)
	if err != nil {
		_ = os.WriteFile(filepath.Join(spec.Dir, "driver-left"), nil, 0o600) // the folder may be what is missing
	}
	return b, err
}

func beginSlowly(ctx context.Context, spec driver.Spec, really func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
	touch(spec.Dir, "driver-begun")
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(20 * time.Millisecond):
	}
	return really(spec)
}

// endless is a stream that hides its end.
type endless struct {
	io.ReadWriteCloser
	closed chan struct{}
	once   sync.Once
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.ReadWriteCloser.Read(p)
	if err != nil {
		<-e.closed
	}
	return n, err
}

func (e *endless) Close() error {
	e.once.Do(func() { close(e.closed) })
	return e.ReadWriteCloser.Close()
}

func destroyMutants(onBox onBoxer) {
	onBox("returns early from Destroy", "Create", "file driver-fake", func(b *mutantBox) {
		b.destroy = func(context.Context) error {
			b.fake().die(driver.Exit{Destroyed: true})
			time.AfterFunc(30*time.Millisecond, func() { _ = b.Box.Destroy(context.Background()) })
			return nil
		}
	})
	onBox("destroys nothing", "Create", "Wait after Destroy", func(b *mutantBox) { b.destroy = func(context.Context) error { return nil } })
	onBox("can be destroyed once", "Destroy/again and at once", "destroyed already", func(b *mutantBox) {
		var once sync.Once
		b.destroy = func(ctx context.Context) error {
			err := errors.New("destroyed already")
			once.Do(func() { err = b.Box.Destroy(ctx) })
			return err
		}
	})
	onBox("asks the guest to end", "Destroy/without the guest's help", "Destroy: ", func(b *mutantBox) {
		b.destroy = func(ctx context.Context) error {
			for b.fake().isPaused() && ctx.Err() == nil {
				runtime.Gosched()
			}
			return errors.Join(ctx.Err(), b.Box.Destroy(ctx))
		}
	})
	onBox("needs a ctx to kill", "Destroy/with a ctx that has ended", "does not kill", func(b *mutantBox) {
		b.destroy = func(ctx context.Context) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return b.Box.Destroy(ctx)
		}
	})
	onBox("works when it is dead", "Destroy/then nothing works", "Pause of a box that is gone", func(b *mutantBox) { b.pause = func() error { return nil } })
}

func waitMutants(onBox onBoxer) {
	onBox("does not say that it was destroyed", "Wait", "Destroyed:false", func(b *mutantBox) {
		b.wait = func(ctx context.Context) (driver.Exit, error) {
			_, err := b.Box.Wait(ctx)
			return driver.Exit{}, err
		}
	})
	onBox("tells one of many", "Wait", "not all who wait are told", func(b *mutantBox) {
		var mu sync.Mutex
		told := 0
		b.wait = func(ctx context.Context) (driver.Exit, error) {
			exit, err := b.Box.Wait(ctx)
			if err != nil {
				return exit, err
			}
			mu.Lock()
			told++
			first := told <= 2
			mu.Unlock()
			if !first {
				<-ctx.Done()
			}
			return exit, ctx.Err()
		}
	})
	onBox("does not wait", "Wait", "Wait with a ctx that ends", func(b *mutantBox) {
		b.wait = func(context.Context) (driver.Exit, error) { return driver.Exit{Destroyed: true}, nil }
	})
	onBox("waits for ever", "Wait", "Wait with a ctx that ends", func(b *mutantBox) {
		b.wait = func(context.Context) (driver.Exit, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			exit, _ := b.Box.Wait(ctx)
			return exit, nil
		}
	})
	onBox("dies without a reason", "End from inside", "Wait for a box that died", func(b *mutantBox) {
		b.wait = func(ctx context.Context) (driver.Exit, error) {
			exit, err := b.Box.Wait(ctx)
			exit.Reason = ""
			return exit, err
		}
	})
	onBox("changes its mind", "End from inside", "before it was", func(b *mutantBox) {
		var mu sync.Mutex
		n := 0
		b.wait = func(ctx context.Context) (driver.Exit, error) {
			exit, err := b.Box.Wait(ctx)
			mu.Lock()
			defer mu.Unlock()
			n++
			exit.Limit = fmt.Sprint(n)
			return exit, err
		}
	})
}

func (b *fakeBox) isPaused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paused
}
