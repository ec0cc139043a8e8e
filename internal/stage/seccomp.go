//go:build linux

package stage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/linux"
)

//go:generate go test -run ^(TestFiltersAreTheTable|TestVerdictOnEveryNumber)$ -update .

// FilterOptions say which system calls the programs of a box may make. The zero
// value is the normal, tightest filter for a box with namespaces.
type FilterOptions struct {
	// Nested lets programs make user namespaces, and mounts within them. A named loss.
	Nested bool
	// Bare is for a host without namespaces: no socket but a connected pair, no
	// System V IPC, no POSIX queues, as all of them would be the host's. Signals
	// to the user's other processes are then bounded by Landlock's scope alone
	// (Linux 6.12).
	Bare bool
}

// SeccompFilter returns the filter for the running architecture, ready for
// InstallFilter. It was assembled when the project was built, from the table in
// internal/filter. It errs where no filter exists: for an architecture without one, and
// for Nested together with Bare.
func SeccompFilter(o FilterOptions) ([]unix.SockFilter, error) {
	var program []packed
	switch {
	case o.Nested && o.Bare:
		return nil, errors.New("choose seccomp filter: nested needs namespaces")
	case o.Nested:
		program = filterNested
	case o.Bare:
		program = filterBare
	default:
		program = filterBox
	}
	if len(program) == 0 {
		return nil, errors.New("choose seccomp filter: none for this architecture")
	}
	return unpack(program), nil
}

// packed is one instruction, struct sock_filter, as a number:
// code 16 bits, jt 8, jf 8, k 32, from the highest.
type packed uint64

func unpack(program []packed) []unix.SockFilter {
	out := make([]unix.SockFilter, len(program))
	for i, p := range program {
		out[i] = unix.SockFilter{Code: uint16(p >> 48), Jt: uint8(p >> 40), Jf: uint8(p >> 32), K: uint32(p)}
	}
	return out
}

// InstallFilter sets no_new_privs and the filter on the calling thread alone,
// for good; the caller has locked its goroutine to the thread. What the thread
// forks has both. From then on nothing may act on all threads of the process
// (AllThreadsSyscall), as they differ.
func InstallFilter(program []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return linux.SetSeccompFilter(program)
}
