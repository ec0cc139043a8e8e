package guest

import (
	"context"
	"sync"
)

// budget is a number of units that are taken and given back, first come first
// served. A sender keeps to the peer's bounds with it.
type budget struct {
	mu      sync.Mutex
	free    int
	waiting []*claim
}

type claim struct {
	units int
	got   chan struct{}
}

// take waits for n units. The error is ctx's, or errGone when over is closed.
func (b *budget) take(ctx context.Context, over <-chan struct{}, n int) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.free >= n {
		b.free -= n
		b.mu.Unlock()
		return nil
	}
	c := &claim{units: n, got: make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()

	var err error
	select {
	case <-c.got:
		return nil
	case <-over:
		err = errGone
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.forget(c)
	return err
}

// give returns n units.
func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.serve()
}

// forget withdraws a claim, or gives back what it got meanwhile.
func (b *budget) forget(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.waiting {
		if w == c {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve()
			return
		}
	}
	b.free += c.units
	b.serve()
}

func (b *budget) serve() {
	for len(b.waiting) > 0 && b.waiting[0].units <= b.free {
		b.free -= b.waiting[0].units
		close(b.waiting[0].got)
		b.waiting = b.waiting[1:]
	}
}
