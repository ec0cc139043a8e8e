//go:build !linux

package sandbox

import (
	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/store"
)

// sweepBox has nothing to do: there are no boxes here.
func sweepBox(store.Entry) error { return nil }

// blocked knows of no cause: there are no boxes here.
func blocked(*guest.SetupError) *api.Error { return nil }
