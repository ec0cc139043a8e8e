//go:build linux

package stage

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// keepTo keeps the calling thread, the stem, and so every program to n of the
// processors that it may use now, chosen at random: boxes that all chose the first would
// share it while others idle. A program may choose others for itself; that is why
// it is no hard limit. 0, or more than there are, changes nothing.
func keepTo(n int) error {
	var may unix.CPUSet
	if n == 0 {
		return nil
	}
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return fmt.Errorf("read processors: %w", err)
	}
	left := may.Count()
	if n >= left {
		return nil
	}
	var keep unix.CPUSet
	for cpu := 0; n > 0; cpu++ {
		if !may.IsSet(cpu) {
			continue
		}
		if rand.IntN(left) < n { // each choice of n is as likely as any other
			keep.Set(cpu)
			n--
		}
		left--
	}
	if err := unix.SchedSetaffinity(0, &keep); err != nil {
		return fmt.Errorf("keep to processors: %w", err)
	}
	return nil
}
