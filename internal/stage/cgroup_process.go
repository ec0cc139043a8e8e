//go:build linux

package stage

import (
	"context"
	"fmt"
	"slices"
)

// Reached names the limits that the box has run into so far, ended or not. A
// Destroy does not change it.
func (p *Process) Reached() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.Clone(p.reached)
	if !p.counted {
		names = p.group.reached()
	}
	if p.memory && !slices.Contains(names, "memory") {
		names = append(names, "memory")
	}
	return names
}

// CanFreeze reports whether Freeze works.
func (p *Process) CanFreeze() bool { return p.group.has(ControlFreeze) }

// Freeze stops or thaws every process of the box, the guest too, and returns
// when all are. A frozen box can be destroyed, and its wall time goes on.
func (p *Process) Freeze(ctx context.Context, frozen bool) error {
	if !p.CanFreeze() {
		return fmt.Errorf("freeze box: it has no cgroup freezer")
	}
	if err := p.group.freeze(ctx, frozen); err != nil {
		return fmt.Errorf("freeze box: %w", err)
	}
	return nil
}

// removeGroup keeps what the group has counted and removes it. The watcher must
// still live, so that a keeper that dies meanwhile leaves no group.
func (p *Process) removeGroup() {
	reached := p.group.reached()
	err := p.group.remove()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted, p.reached, p.residue = true, reached, err
}
