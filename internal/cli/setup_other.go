//go:build !linux

package cli

// setup has nothing to do where there are no sandboxes.
func (a *app) setup(*setupFlags) error { return noBoxes() }
