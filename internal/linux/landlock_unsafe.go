//go:build linux

package linux

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LandlockRuleset is struct landlock_ruleset_attr: what a domain handles, that
// is, denies unless a rule grants it.
type LandlockRuleset struct {
	AccessFS  uint64 // LANDLOCK_ACCESS_FS_*
	AccessNet uint64 // LANDLOCK_ACCESS_NET_*, ABI 4
	Scoped    uint64 // LANDLOCK_SCOPE_*, ABI 6
}

// landlockPathBeneath is struct landlock_path_beneath_attr, which is packed; the kernel
// reads its first 12 bytes.
type landlockPathBeneath struct {
	access uint64
	parent int32
}

// LandlockABI returns the kernel's Landlock version, 0 where there is none.
func LandlockABI() int {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// LandlockErrata returns the bit set of the Landlock bugs that this kernel has
// fixed, bit N-1 for erratum N; 0 where it does not say (before Linux 6.15).
func LandlockErrata() uint64 {
	fixed, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	if errno != 0 {
		return 0
	}
	return uint64(fixed)
}

// LandlockCreate makes a ruleset and returns its descriptor, close-on-exec.
func LandlockCreate(r LandlockRuleset) (int, error) {
	// An older kernel takes the longer struct as long as what it does not know is zero.
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&r)), unsafe.Sizeof(r), 0)
	if errno != 0 {
		return -1, fmt.Errorf("create landlock ruleset: %w", errno)
	}
	return int(fd), nil
}

// LandlockGrant grants accesses beneath the folder or file that parent, an O_PATH descriptor, is.
func LandlockGrant(ruleset, parent int, access uint64) error {
	rule := landlockPathBeneath{access: access, parent: int32(parent)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("add landlock rule: %w", errno)
	}
	return nil
}

// LandlockRestrict puts the calling thread into the ruleset's domain, for good. The
// thread has no_new_privs or CAP_SYS_ADMIN in its user namespace.
func LandlockRestrict(ruleset int, flags uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), uintptr(flags), 0)
	if errno != 0 {
		return fmt.Errorf("enter landlock domain: %w", errno)
	}
	return nil
}
