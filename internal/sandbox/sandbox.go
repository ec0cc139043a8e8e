// Package sandbox is the life of one sandbox: from a plan to a running box with
// a record, and to nothing again. It joins a driver, the guest's client and
// the sandbox's folder; whoever owns the life (the keeper) decides when what
// happens.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/policy"
	"github.com/caisson-dev/caisson/internal/store"
)

// Begun is a sandbox that has no plan yet: a folder, and what its driver could
// start ahead.
type Begun struct {
	folder *store.Folder
	driver driver.Driver
	begun  driver.Begun
}

// Begin makes the folder, and lets d begin in the background. name is
// optional; it must be free. Create or Abandon must follow.
func Begin(st *store.Store, d driver.Driver, name string) (*Begun, error) {
	folder, err := st.Create(api.Sandbox{Name: name, Tier: d.Tier(), State: api.StateCreating})
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	return &Begun{folder: folder, driver: d, begun: d.Begin(folder.ID(), folder.Path())}, nil
}

// Abandon ends a sandbox that gets no plan; nothing of it is left.
func (b *Begun) Abandon() error {
	if b.begun != nil {
		b.begun.Abandon()
	}
	return b.folder.Remove()
}

// Sandbox is a running sandbox. The one who created it must End it.
type Sandbox struct {
	Box    driver.Box
	Client *guest.Client

	plan    *policy.Plan
	pause   bool // the driver can, from outside
	folder  *store.Folder
	observe func(api.Event)
}

// endTime bounds how long the end of a box is waited for. The kernel needs some
// ms for an ordinary box, and 0.4 s to free 4 GiB.
const endTime = 10 * time.Second

// Create makes the box. Its root may not stand yet: Ready waits for that, and a
// command may be started before. observe, if not nil, is given every event after it was
// recorded. On an error nothing is left.
func (b *Begun) Create(ctx context.Context, plan *policy.Plan, observe func(api.Event)) (*Sandbox, error) {
	if plan.Tier != b.driver.Tier() {
		return nil, errors.Join(fmt.Errorf("create sandbox: it was begun in tier %s, and the plan is for %s", b.driver.Tier(), plan.Tier), b.Abandon())
	}
	s := &Sandbox{plan: plan, pause: b.driver.Capabilities().Pause, folder: b.folder, observe: observe}
	spec := driver.Spec{ID: b.folder.ID(), Plan: plan, Dir: b.folder.Path(), Begun: b.begun}
	var err error
	if s.Box, err = b.driver.Create(ctx, spec); err != nil {
		return nil, errors.Join(err, b.folder.Remove())
	}
	s.Client = guest.Open(s.Box.Stream())
	err = s.Record(api.Event{Kind: api.EventCreated, Data: map[string]string{
		"tier": string(plan.Tier), "policy": plan.Digest,
	}})
	if err != nil {
		return nil, errors.Join(err, s.End(false, ""))
	}
	return s, nil
}

// ID is the sandbox's id.
func (s *Sandbox) ID() string { return s.folder.ID() }

// Command is the plan's command with the limits that the guest sets on it.
func (s *Sandbox) Command() guest.Command {
	c := guest.Command{
		Argv: s.plan.Argv, Env: s.plan.Env, Dir: s.plan.Dir,
		Processes: uint64(s.plan.Limits.Pids),
		DataSize:  uint64(s.plan.Limits.Memory),
	}
	for _, p := range s.plan.Points {
		if p.Name == "limits.memory" && p.Strength == api.StrengthHard {
			// What bounds all processes together needs no bound for each, which
			// counts what a program only reserves, as sanitizers do by the TiB.
			c.DataSize = 0
		}
	}
	return c
}

// Ready waits until the guest says that the box stands, and records it as
// running.
func (s *Sandbox) Ready(ctx context.Context) error {
	if _, err := s.Client.Ready(ctx); err != nil {
		return s.blame(err)
	}
	return s.folder.Update(func(r *api.Sandbox) {
		r.State, r.InitPID = api.StateRunning, s.Box.PID()
		r.Image, r.Command, r.Workspace = s.plan.Image, s.plan.Argv, s.plan.Workspace.Source
		r.Policy, r.Points = s.plan.Digest, s.plan.Points
	})
}

// Freeze stops every program of the box, by the driver where it can, else by
// the guest. Thaw lets them go on.
func (s *Sandbox) Freeze(ctx context.Context) error {
	if s.pause {
		return s.Box.Pause(ctx)
	}
	return s.Client.Freeze(ctx)
}

// Thaw undoes Freeze, also one that went half way.
func (s *Sandbox) Thaw(ctx context.Context) error {
	if s.pause {
		return s.Box.Resume(ctx)
	}
	return s.Client.Thaw(ctx)
}

// blame turns the end of the stream into what ended it, where the box knows
// more.
func (s *Sandbox) blame(err error) error {
	var setup *guest.SetupError
	if errors.As(err, &setup) {
		if known := blocked(setup); known != nil {
			return known
		}
		return &api.Error{
			Code: api.CodeHost, Message: "the sandbox could not be set up: " + setup.Error(),
			Hint: "caisson doctor " + string(s.plan.Tier) + " says what this host lacks",
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	exit, e := s.Box.Wait(ctx)
	if e != nil || exit.Reason == "" {
		return err
	}
	return &api.Error{Code: api.CodeHost, Message: "the sandbox ended: " + exit.Reason}
}

// Record appends an event to the sandbox's folder.
func (s *Sandbox) Record(e api.Event) error {
	e, err := s.folder.AppendTold(e)
	if err != nil {
		return fmt.Errorf("record event: %w", err)
	}
	if s.observe != nil {
		s.observe(e)
	}
	return nil
}

// Stop ends the box and says how it ended and which limits it ran into. It may
// be repeated; after it only records and End are left.
func (s *Sandbox) Stop() (driver.Exit, error) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if err := s.Box.Kill(ctx); err != nil {
		return driver.Exit{}, fmt.Errorf("end box: %w", err)
	}
	exit, err := s.Box.Wait(ctx)
	if err != nil {
		return exit, fmt.Errorf("wait for box: %w", err)
	}
	return exit, nil
}

// End ends the box and returns when nothing of it is left. With keep the record
// and its events stay, as stopped.
func (s *Sandbox) End(keep bool, reason string) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	err := s.Box.Kill(ctx)
	// What the stream says at its end is not news: the box is gone.
	_ = s.Client.Close()
	if keep {
		err = errors.Join(err, s.folder.Update(func(r *api.Sandbox) {
			r.State, r.Reason, r.KeeperPID, r.InitPID = api.StateStopped, reason, 0, 0
		}), s.folder.Close())
	} else {
		err = errors.Join(err, s.folder.Remove())
	}
	// Last, since it ends the watcher, who would remove what is left if we died.
	return errors.Join(err, s.Box.Destroy(ctx))
}
