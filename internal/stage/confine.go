//go:build linux

package stage

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/linux"
)

// confine puts the calling thread, the stem, inside the box's bounds for good:
// the Landlock domain and then the seccomp filter, which forbids to make another
// view of anything.
func confine(s *Setup) error {
	domain, err := LandlockDomain(LandlockOptions{Grants: grants(s), Nested: s.Nested})
	switch {
	case errors.Is(err, ErrNoLandlock):
		// The second layer is missing: the probe reports it, and the plan has said so.
	case err != nil:
		return &SetupError{"landlock", err}
	default:
		if err := domain.Enter(); err != nil {
			return &SetupError{"landlock", err}
		}
	}
	program, err := SeccompFilter(FilterOptions{Nested: s.Nested})
	if err != nil {
		return &SetupError{"seccomp", err}
	}
	if err := InstallFilter(program); err != nil {
		return &SetupError{"seccomp", err}
	}
	return nil
}

// grants says what the Landlock domain opens: reading and executing all of the
// root, and writing where a mount is writable. The mounts say the same; this is
// the second layer behind them.
func grants(s *Setup) []Grant {
	g := []Grant{{Path: "/", Access: AccessRead | AccessExec}}
	for i := range s.Mounts {
		m := &s.Mounts[i]
		switch {
		case m.Kind == MountTmpfs || m.Kind == MountBind && m.Writable && !m.Optional:
			g = append(g, Grant{Path: m.Target, Access: AccessWrite})
		case m.Kind == MountProc: // oom_score_adj, comm and the like of its own processes
			g = append(g, Grant{Path: m.Target, Access: AccessWrite})
		case m.Kind == MountDev:
			g = append(g, Grant{Path: m.Target, Access: AccessWrite | AccessDevice})
		}
	}
	return g
}

// newTimeNamespace gives the programs clocks that start with the box: the
// host's uptime says when it was started, and tells two boxes that they share
// a machine. It needs CAP_SYS_ADMIN and CAP_SYS_TIME. A kernel that cannot is left as it is; the
// probe reports it.
func newTimeNamespace() error {
	// Before Linux 6.2 a thread that did this could no longer start a program by
	// vfork, as Go does: a process moves to the namespace at its exec only since
	// then (2b5f9dad32ed).
	if !linux.KernelAtLeast(6, 2) {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		if err == unix.EINVAL { // built without
			return nil
		}
		return fmt.Errorf("make time namespace: %w", err)
	}
	// The offsets are those of a thread, found by its own id.
	fd, err := unix.Open("/proc/"+strconv.Itoa(unix.Gettid())+"/timens_offsets", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open time offsets: %w", err)
	}
	defer unix.Close(fd)
	for _, c := range []struct {
		name  string
		clock int32
	}{{"monotonic", unix.CLOCK_MONOTONIC}, {"boottime", unix.CLOCK_BOOTTIME}} {
		var now unix.Timespec
		if err := unix.ClockGettime(c.clock, &now); err != nil {
			return fmt.Errorf("read clock: %w", err)
		}
		// A second is left: programs divide by the uptime.
		line := fmt.Sprintf("%s -%d 0", c.name, max(now.Sec-1, 0))
		if _, err := unix.Write(fd, []byte(line)); err != nil {
			return fmt.Errorf("write time offset: %w", err)
		}
	}
	return nil
}
