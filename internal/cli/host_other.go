//go:build !linux

package cli

import (
	"context"
	"runtime"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/policy"
)

// Boxes need Linux; elsewhere Caisson is a client.

func (a *app) drivers() ([]driver.Driver, error) { return nil, noBoxes() }

func (a *app) setHost(*policy.Caller) error { return noBoxes() }

func (a *app) keep(context.Context, []driver.Driver, *runFlags, func() (*policy.Plan, error)) (int, error) {
	return api.ExitFailed, noBoxes()
}

func (a *app) sandboxes(context.Context) ([]listed, error) { return []listed{}, nil }

// noBoxes refuses what needs a box on this machine.
func noBoxes() error {
	return &api.Error{
		Code:    api.CodeUnsupported,
		Message: "there are no sandboxes on " + runtime.GOOS + ": they need Linux",
		Hint:    "run Caisson on a Linux machine, or in a Linux VM on this one",
	}
}
