//go:build !linux

package sandbox

import "github.com/caisson-dev/caisson/internal/store"

// sweepBox has nothing to do: there are no boxes here.
func sweepBox(store.Entry) error { return nil }
