package cli

import (
	"context"
	"errors"
	"os"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/driver/all"
	"github.com/caisson-dev/caisson/internal/driver/place"
	"github.com/caisson-dev/caisson/internal/linux"
	"github.com/caisson-dev/caisson/internal/policy"
	"github.com/caisson-dev/caisson/internal/sandbox"
	"github.com/caisson-dev/caisson/internal/sandbox/keeper"
	"github.com/caisson-dev/caisson/internal/store"
)

// stateDir is the folder of the caller's sandboxes.
func (a *app) stateDir() (string, error) { return store.StateDir(a.getenv, os.Getuid()) }

// guestDir is the folder of the guest's binary.
func (a *app) guestDir() (string, error) {
	dir, err := place.Dir(a.getenv, os.Getuid())
	if err != nil {
		return "", hostError("find a folder for the guest", "set HOME, or XDG_CACHE_HOME to a folder of your own", err)
	}
	return dir, nil
}

// drivers are the tiers of this build.
func (a *app) drivers() ([]driver.Driver, error) {
	dir, err := a.guestDir()
	if err != nil {
		return nil, err
	}
	return all.Drivers(dir), nil
}

// setHost adds to the caller what only a host of sandboxes has.
func (a *app) setHost(c *policy.Caller) (err error) {
	if c.StateDir, err = a.stateDir(); err != nil {
		return err
	}
	if c.GuestDir, err = a.guestDir(); err != nil || c.UID != 0 {
		return err
	}
	if c.BoxUID, err = sandbox.BoxID(); err != nil {
		return err
	}
	c.BoxGID, c.CanIDMap = c.BoxUID, linux.CanIDMap
	return nil
}

// keep is the keeper of a sandbox until its end, and returns the exit code.
func (a *app) keep(ctx context.Context, drivers []driver.Driver, f *runFlags, resolve func() (*policy.Plan, error)) (int, error) {
	st, err := a.store()
	if err != nil {
		return api.ExitFailed, err
	}
	code, err := keeper.Run(ctx, keeper.Options{
		Resolve: resolve, Drivers: drivers, Store: st, Name: f.name, Report: f.report,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Warn: a.ui.warn,
	})
	return code, errors.Join(err, st.Close())
}

// stateHint helps where the folder of sandboxes cannot be used.
const stateHint = "set CAISSON_STATE to a folder of your own"

// store opens the folder of the caller's sandboxes.
func (a *app) store() (*store.Store, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	st, err := store.Open(dir)
	if err != nil {
		return nil, hostError("open the folder of sandboxes", stateHint, err)
	}
	return st, nil
}

// sandboxes reads the folders of all sandboxes, the oldest first, after it has
// removed what is left of those whose keeper died. A broken one is an entry
// that says so.
func (a *app) sandboxes(ctx context.Context) (list []listed, err error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	defer st.Close() // nothing was written that it could lose
	if err := sandbox.Sweep(ctx, st); err != nil {
		a.ui.warn(err.Error())
	}
	entries, err := st.List()
	if err != nil {
		return nil, hostError("list sandboxes", stateHint, err)
	}
	list = make([]listed, 0, len(entries)) // --json prints [], not null
	for _, e := range entries {
		l := listed{Sandbox: e.Sandbox, Alive: e.Alive}
		if e.Err != nil {
			l.Error = e.Err.Error()
		}
		list = append(list, l)
	}
	return list, nil
}
