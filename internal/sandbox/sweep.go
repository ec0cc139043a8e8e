package sandbox

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/caisson-dev/caisson/internal/store"
)

// Sweep removes what is left of sandboxes whose keeper and watcher both died.
// Their boxes died by PDEATHSIG, but for what was frozen; what remains are cgroups and folders.
func Sweep(ctx context.Context, st *store.Store) error {
	if err := st.Sweep(ctx, sweepBox); err != nil {
		return fmt.Errorf("sweep dead sandboxes: %w", err)
	}
	return nil
}

// sweepEvery is how often runs sweep. A sweep looks at every sandbox, so it is
// not for each run: their cost must not grow with the number of boxes.
const sweepEvery = time.Minute

// SweepSometimes sweeps if nobody has done so in the last minute. It is for
// beside a run, and what it could not do the next sweep will.
func SweepSometimes(ctx context.Context, st *store.Store) {
	mark := st.Path() + "/swept"
	now := time.Now()
	if info, err := os.Stat(mark); err == nil && now.Sub(info.ModTime()) < sweepEvery {
		return
	}
	f, err := os.OpenFile(mark, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	f.Close()
	if os.Chtimes(mark, now, now) == nil {
		_ = Sweep(ctx, st) // told by `caisson ls`, which sweeps too
	}
}

// Clear removes every sandbox of a store and the store's folder. It refuses
// while one runs.
func Clear(ctx context.Context, st *store.Store) error {
	if err := st.Clear(ctx, sweepBox); err != nil {
		return fmt.Errorf("clear sandboxes: %w", err)
	}
	return nil
}
