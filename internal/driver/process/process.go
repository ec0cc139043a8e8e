//go:build linux

// Package process is the driver of the process tier: a box is a set of
// namespaces around our own guest, with a root that is built from the host's
// folders, read-only, and nothing else. The boundary is the host's kernel,
// narrowed; the stage draws it.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/driver/place"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/policy"
	"github.com/caisson-dev/caisson/internal/stage"
)

// New returns the driver. dir is a folder of ours in which the guest's binary
// is placed, on a file system that allows execution.
func New(dir string) driver.Driver {
	return process{
		func() (string, error) { return place.Guest(dir) },
		sync.OnceValue(stage.FindCgroups),
	}
}

// At returns the driver for a guest's binary that is in its place already.
func At(guest string) driver.Driver {
	return process{
		func() (string, error) { return guest, nil },
		sync.OnceValue(stage.FindCgroups),
	}
}

type process struct {
	guest   func() (string, error) // path of the guest's binary
	cgroups func() *stage.Cgroups  // looked for once, when first needed
}

func (process) Tier() api.Tier { return api.TierProcess }

// Capabilities: a box can be paused where a cgroup freezes it. By signals, which
// its programs can undo, it could not.
func (d process) Capabilities() driver.Capabilities {
	freeze, _, _ := d.cgroups().Can(stage.ControlFreeze)
	return driver.Capabilities{Descriptors: true, SharedFiles: true, Pause: freeze}
}

// Begin starts the guest and the watcher of a box; see driver.Driver.
func (d process) Begin(id, dir string) driver.Begun {
	b := &begun{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		bin, err := d.guest()
		if err != nil {
			b.err = noGuest(err)
			return
		}
		b.p, b.err = stage.Begin(stage.Beginning{
			Guest: bin, ID: id, Dir: dir, Cgroups: d.cgroups(),
			FromRoot: os.Geteuid() == 0, UID: os.Getuid(), GID: os.Getgid(),
		})
		if b.err != nil {
			b.barred = stage.BarsNamespaces(b.err)
			b.err = d.explain(b.err)
		}
	}()
	return b
}

// begun is a guest and a watcher that wait, once done is closed.
type begun struct {
	done chan struct{}
	p    *stage.Process
	err  error
	// barred: the host did not let the namespaces be made.
	barred bool
}

// Abandon ends them; see driver.Begun.
func (b *begun) Abandon() {
	<-b.done
	if b.err == nil {
		// What cannot be removed, the next command sweeps.
		_ = b.p.Destroy()
	}
}

// Create starts a box; see driver.Driver.
func (d process) Create(ctx context.Context, spec driver.Spec) (driver.Box, error) {
	start := spec.Begun
	if start == nil {
		start = d.Begin(spec.ID, spec.Dir)
	}
	launch, err := translate(spec)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("create box: %w", ctx.Err())
	}
	if err != nil {
		start.Abandon()
		return nil, err
	}
	b, ok := start.(*begun)
	if !ok {
		start.Abandon()
		return nil, fmt.Errorf("create box: what was begun is another driver's")
	}
	<-b.done
	if b.err != nil {
		if b.barred && slices.Contains(spec.Plan.Accepted, api.LossNoUserNS) {
			return nil, policy.NoUserNS()
		}
		return nil, b.err
	}
	if err := b.p.Build(launch); err != nil {
		return nil, d.explain(err)
	}
	// Nothing may run in a box that nobody is sure to end.
	select {
	case <-b.p.Ready():
		return &box{p: b.p}, nil
	case <-b.p.Ended():
		// The guest's Hello, if it could send one, says more than its end.
		return &box{p: b.p}, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("create box: %w", ctx.Err()), b.p.Destroy())
	}
}

func (process) Restore(context.Context, driver.Spec, string) (driver.Box, error) {
	return nil, driver.ErrUnsupported
}

// translate turns a plan into what the stage builds. A part of the plan that
// it has no words for is refused, never left out.
func translate(spec driver.Spec) (stage.Launch, error) {
	p := spec.Plan
	switch {
	case p.Tier != api.TierProcess:
		return stage.Launch{}, fmt.Errorf("create box: the plan is for tier %q", p.Tier)
	case p.Image != "host":
		return stage.Launch{}, notBuilt("image " + p.Image + " in tier process")
	case !p.Sealed:
		return stage.Launch{}, notBuilt("a network")
	case len(p.Credentials) > 0 || len(p.Git) > 0 || len(p.Services) > 0:
		return stage.Launch{}, notBuilt("credentials, git or services")
	}
	root := os.Geteuid() == 0
	l := stage.Launch{
		Wall: time.Duration(p.Lifetime.Wall),
		Limits: stage.Limits{
			Memory: int64(p.Limits.Memory), CPUs: p.Limits.CPUs, Pids: p.Limits.Pids,
		},
		Setup: stage.Setup{
			ID: spec.ID, Generation: 1, Hostname: p.Hostname,
			UID: p.User.HostUID, GID: p.User.HostGID,
			FromRoot: root, IDMap: p.User.IDMap, Nested: p.Nested,
			Disk: int64(p.Limits.Disk), OpenFiles: uint64(p.Limits.OpenFiles),
			CPUs: p.Limits.CPUs, Memory: int64(p.Limits.Memory), Pids: p.Limits.Pids,
		},
		WorkspaceUID: p.User.WorkspaceUID, WorkspaceGID: p.User.WorkspaceGID,
	}
	for _, m := range p.Mounts {
		kind, ok := mountKinds[m.Kind]
		if !ok {
			return stage.Launch{}, fmt.Errorf("create box: unknown kind of mount for %s", m.Target)
		}
		l.Setup.Mounts = append(l.Setup.Mounts, stage.Mount{
			Kind: kind, Source: m.Source, Target: m.Target, Writable: m.Writable,
			NoExec: m.NoExec, Optional: m.Optional, IDMap: m.IDMap, Mode: m.Mode, Data: m.Data,
		})
	}
	return l, nil
}

var mountKinds = map[policy.MountKind]stage.MountKind{
	policy.MountBind:  stage.MountBind,
	policy.MountTmpfs: stage.MountTmpfs,
	policy.MountFile:  stage.MountFile,
	policy.MountLink:  stage.MountLink,
	policy.MountProc:  stage.MountProc,
	policy.MountDev:   stage.MountDev,
	policy.MountHide:  stage.MountHide,
}

func notBuilt(what string) error {
	return &api.Error{
		Code: api.CodeNotBuilt, Message: what + " is not in this build",
		Hint: "remove it from the policy",
	}
}

// box is one running box of the tier.
type box struct{ p *stage.Process }

func (b *box) Generation() uint64   { return 1 }
func (b *box) Stream() guest.Stream { return b.p.Stream }
func (b *box) PID() int             { return b.p.PID }

// Pause freezes the box, the guest too; see driver.Box.
func (b *box) Pause(ctx context.Context) error { return b.freeze(ctx, true) }

// Resume lets it go on.
func (b *box) Resume(ctx context.Context) error { return b.freeze(ctx, false) }

func (b *box) freeze(ctx context.Context, frozen bool) error {
	if !b.p.CanFreeze() {
		return driver.ErrUnsupported
	}
	return b.p.Freeze(ctx, frozen)
}

func (*box) Checkpoint(context.Context, string) error { return driver.ErrUnsupported }
func (*box) Fork(context.Context, []driver.Spec) ([]driver.Box, error) {
	return nil, driver.ErrUnsupported
}

// Wait returns when the box has ended; see driver.Box.
func (b *box) Wait(ctx context.Context) (driver.Exit, error) {
	select {
	case <-b.p.Ended():
	case <-ctx.Done():
		return driver.Exit{}, ctx.Err()
	}
	destroyed, limit, reason := b.p.Outcome()
	return driver.Exit{Destroyed: destroyed, Limit: limit, Reason: reason, Reached: b.p.Reached()}, nil
}

// Destroy ends the box; see driver.Box.
func (b *box) Destroy(ctx context.Context) error { return until(ctx, b.p.Destroy) }

// Kill ends the box and leaves its watcher; see driver.Box.
func (b *box) Kill(ctx context.Context) error { return until(ctx, b.p.Kill) }

// until runs f, and returns earlier only if ctx ends.
func until(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
