package drivertest

import (
	"context"
	"errors"
	"os"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/policy"
)

func capabilityMutants(add adder, onBox onBoxer) {
	add("can more than it says", "Unsupported", "want ErrUnsupported", mutant{can: func(driver.Capabilities) driver.Capabilities {
		return driver.Capabilities{Descriptors: true}
	}})
	add("carries descriptors and denies it", "Descriptors", "the stream carries them: true", mutant{can: func(c driver.Capabilities) driver.Capabilities {
		c.Descriptors = false
		return c
	}})
	onBox("can less than it says", "Checkpoint", "Checkpoint: driver: operation not supported", func(b *mutantBox) {
		b.checkpoint = func(string) error { return driver.ErrUnsupported }
	})
	onBox("does not pause", "Pause", "a paused box says", func(b *mutantBox) { b.pause = func() error { return nil } })
	onBox("does not resume", "Pause", "a box that goes on says", func(b *mutantBox) { b.resume = func() error { return nil } })
	onBox("cannot be paused twice", "Pause", "paused already", func(b *mutantBox) {
		b.pause = func() error {
			if b.fake().isPaused() {
				return errors.New("paused already")
			}
			return b.Box.Pause(context.Background())
		}
	})
}

func stateMutants(onBox onBoxer) {
	onBox("writes running boxes", "Checkpoint/what is wrong is refused", "of a running box", func(b *mutantBox) {
		b.checkpoint = func(dir string) error {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				return errors.New("not empty")
			}
			return writeState(dir, fakeState{1, map[string]string{}})
		}
	})
	onBox("writes over files", "Checkpoint/what is wrong is refused", "a folder that is not empty", func(b *mutantBox) {
		b.checkpoint = func(dir string) error { return writeState(dir, fakeState{1, map[string]string{}}) }
	})
	onBox("an empty checkpoint", "Checkpoint", "the checkpoint is empty", func(b *mutantBox) { b.checkpoint = func(string) error { return nil } })
	onBox("forks fewer", "Fork", "were forked into", func(b *mutantBox) {
		b.fork = func(ctx context.Context, specs []driver.Spec) ([]driver.Box, error) {
			return b.Box.Fork(ctx, specs[:1])
		}
	})
	onBox("forks that die with their parent", "Fork", "the other side closed it", func(b *mutantBox) {
		b.fork = func(ctx context.Context, specs []driver.Spec) ([]driver.Box, error) {
			boxes, err := b.Box.Fork(ctx, specs)
			b.destroy = func(ctx context.Context) error {
				for _, child := range boxes {
					_ = child.Destroy(ctx)
				}
				return b.Box.Destroy(ctx)
			}
			return boxes, err
		}
	})
	onBox("forks some", "Fork/all or none", "Fork with a folder that does not exist", func(b *mutantBox) {
		b.fork = func(ctx context.Context, specs []driver.Spec) (boxes []driver.Box, err error) {
			for _, spec := range specs {
				child, err := b.Box.Fork(ctx, []driver.Spec{spec})
				boxes = append(boxes, child...)
				if err != nil {
					return boxes, err
				}
			}
			return boxes, nil
		}
	})
	onBox("leaves half a fork", "Fork/all or none", "file driver-left", func(b *mutantBox) {
		b.fork = func(ctx context.Context, specs []driver.Spec) ([]driver.Box, error) {
			boxes, err := b.Box.Fork(ctx, specs)
			touch(specs[0].Dir, "driver-left")
			return boxes, err
		}
	})
}

func restoreMutants(add adder) {
	fake := func() *Fake { return &Fake{Can: Everything()} }
	restore := func(name, check, says string, do func(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error)) {
		add(name, check, says, mutant{restore: do})
	}
	restore("restores running boxes", "Checkpoint", "before it was thawed", func(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error) {
		b, err := fake().Restore(ctx, spec, dir)
		if err == nil {
			err = b.(*fakeBox).Thaw()
		}
		return b, err
	})
	restore("forgets", "Checkpoint", "the box remembers", func(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error) {
		b, err := fake().Restore(ctx, spec, dir)
		if err == nil {
			f := b.(*fakeBox)
			err = f.set(func() { clear(f.memory) })
		}
		return b, err
	})
	restore("restores the same generation", "Checkpoint", "generation 1 was restored as 1", func(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error) {
		st, err := readState(dir)
		if err != nil {
			return nil, err
		}
		return fake().make(ctx, spec, st.Generation, st.Memory, true)
	})
	restore("restores what is damaged", "Checkpoint/what is wrong is refused", "is damaged was restored", func(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error) {
		return fake().make(ctx, spec, 2, map[string]string{}, true)
	})
	restore("restores nothing", "Checkpoint/what is wrong is refused", "an empty folder was restored", func(ctx context.Context, spec driver.Spec, dir string) (driver.Box, error) {
		if b, err := fake().Restore(ctx, spec, dir); err == nil {
			return b, nil
		}
		return fake().make(ctx, spec, 2, map[string]string{}, true)
	})
	add("thaws for nobody", "Fork", "does nothing", mutant{box: func(b *mutantBox) {
		b.fork = func(ctx context.Context, specs []driver.Spec) ([]driver.Box, error) {
			boxes, err := b.Box.Fork(ctx, specs)
			for _, child := range boxes {
				_ = child.Pause(ctx)
			}
			return boxes, err
		}
	}})
	add("a mount of no kind is nothing", "Create/refused leaves nothing", "a mount of no kind", mutant{create: func(_ context.Context, spec driver.Spec, really func(driver.Spec) (driver.Box, error)) (driver.Box, error) {
		plan := *spec.Plan
		plan.Mounts = nil
		for _, m := range spec.Plan.Mounts {
			if m.Kind != policy.MountInvalid {
				plan.Mounts = append(plan.Mounts, m)
			}
		}
		spec.Plan = &plan
		return really(spec)
	}})
}
