//go:build !linux

package cli

import "context"

// reset has nothing to remove where there are no sandboxes.
func (a *app) reset(context.Context, *resetFlags) error { return noBoxes() }
