package sandbox

import (
	"github.com/caisson-dev/caisson/internal/stage"
	"github.com/caisson-dev/caisson/internal/store"
)

// sweepBox ends what is left of a box.
func sweepBox(e store.Entry) error { return stage.SweepCgroup(e.Dir) }
