//go:build linux

package process

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/stage"
)

// explain turns the failure of a start into what a person can act on; whatever
// is no known way of being blocked is told as it is.
func (d process) explain(err error) *api.Error {
	bin, _ := d.guest() // without it the start did not come to where it matters
	step, no := stage.StepOf(err)
	var setup *guest.SetupError
	if errors.As(err, &setup) {
		step = setup.Hello.Step
	}
	if known := stage.Blocked(step, no, bin); known != nil {
		return known
	}
	return &api.Error{Code: api.CodeHost, Message: "start box: " + err.Error(), Hint: "caisson doctor process says what this host lacks"}
}

// noGuest says what to do where the guest's binary could not be put in its place.
func noGuest(err error) *api.Error {
	if known := stage.Blocked("place guest", 0, ""); known != nil {
		return known
	}
	e := &api.Error{Code: api.CodeHost, Message: err.Error(), Hint: "caisson and caisson-guest come from one build; run make build, or install both into one folder"}
	for _, no := range []syscall.Errno{unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOSPC, unix.EDQUOT, unix.ENOTDIR} {
		if errors.Is(err, no) {
			e.Hint = "caisson keeps its guest in a cache folder, once: set XDG_CACHE_HOME to a folder of yours that can be written and allows execution"
		}
	}
	return e
}
