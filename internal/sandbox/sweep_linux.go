package sandbox

import (
	"syscall"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/stage"
	"github.com/caisson-dev/caisson/internal/store"
)

// sweepBox ends what is left of a box.
func sweepBox(e store.Entry) error { return stage.SweepCgroup(e.Dir) }

// blocked names the cause of a set-up that failed, if it is one of those by which
// hosts block boxes.
func blocked(e *guest.SetupError) *api.Error {
	return stage.Blocked(e.Hello.Step, syscall.Errno(e.Hello.Errno), "")
}
