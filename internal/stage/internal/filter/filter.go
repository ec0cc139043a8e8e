//go:build linux

// Package filter says what a program in a sandbox may ask of the kernel: a
// table of system calls (table.go), and the assembler that makes of it a
// seccomp program for an architecture and a variant. It runs when the project
// is built, not when a sandbox starts: package stage carries the finished
// programs as arrays, and its tests hold them equal to this table.
package filter

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Variant is what a filter is for. Rules name the variants that they hold in.
type Variant uint8

const (
	// Box is the normal filter: namespaces of our own stand around the program.
	Box Variant = 1 << iota
	// Nested is Box plus what inner sandboxes need: user namespaces, and mounts within them.
	Nested
	// Bare has no namespaces around it, so it must also refuse what they would
	// have made private: the network, System V IPC, POSIX queues, sockets of the host.
	Bare
)

// Variants lists every variant.
func Variants() []Variant { return []Variant{Box, Nested, Bare} }

// String returns "box", "nested" or "bare".
func (v Variant) String() string {
	switch v {
	case Box:
		return "box"
	case Nested:
		return "nested"
	case Bare:
		return "bare"
	}
	return fmt.Sprintf("Variant(%d)", uint8(v))
}

// Arch is an architecture that filters are made for.
type Arch struct {
	Name  string // as GOARCH
	Audit uint32 // AUDIT_ARCH_*, what the kernel reports for a call of this ABI
	Calls map[string]uint32
}

// Action is a seccomp return value. The zero value kills the thread.
type Action uint32

// The actions of the table. A refusal is the errno that a program knows how
// to take: ENOSYS where libraries have a way around, EPERM where the answer is no.
const (
	Kill  Action = unix.SECCOMP_RET_KILL_PROCESS
	Allow Action = unix.SECCOMP_RET_ALLOW
)

// Errno refuses a call with an error number.
func Errno(e unix.Errno) Action {
	return Action(unix.SECCOMP_RET_ERRNO | uint32(e)&unix.SECCOMP_RET_DATA)
}

// String returns "allow", "kill" or the name of the errno.
func (a Action) String() string {
	switch uint32(a) & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_KILL_PROCESS:
		return "kill"
	case unix.SECCOMP_RET_KILL_THREAD:
		return "kill thread"
	case unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(uint32(a) & unix.SECCOMP_RET_DATA))
	}
	return fmt.Sprintf("Action(%#x)", uint32(a))
}

// Rule is one row of the table. Its cases are tried in order, the first that
// holds decides; if none holds, Do does.
type Rule struct {
	Calls string  // names, separated by spaces
	In    Variant // the variants that the row is for; zero: every one
	Cases []Case
	Do    Action
	Why   string // for a refusal or a condition that needs a reason
}

// Case is an action for certain arguments: every condition must hold.
type Case struct {
	If []Cond
	Do Action
}

// Cond is a condition on one argument. Unless it says otherwise it looks at the
// low 32 bits after Mask: the kernel takes int and unsigned int arguments from
// a 64-bit register and ignores the rest, so a filter that compares all 64 bits
// is passed by a dirty high half (CVE-2019-10063, CVE-2023-28100).
type Cond struct {
	Arg    int
	Kind   Kind
	Mask   uint32  // for In; zero: all bits
	Ranges []Range // for In
	Bits   uint32  // for AnyBits and NoBits
}

// Range is an inclusive range of 32-bit values.
type Range struct{ Lo, Hi uint32 }

// Kind is how a condition compares.
type Kind uint8

// The kinds of conditions.
const (
	In      Kind = iota // the low half, masked, is in one of the ranges
	AnyBits             // the low half has one of the bits
	NoBits              // the low half has none of the bits
	Zero                // all 64 bits are zero: a null pointer
)

func isIn(arg int, values ...uint32) Cond {
	return Cond{Arg: arg, Kind: In, Ranges: ranges(values)}
}

func maskedIn(arg int, mask uint32, values ...uint32) Cond {
	return Cond{Arg: arg, Kind: In, Mask: mask, Ranges: ranges(values)}
}

func between(arg int, rs ...Range) Cond { return Cond{Arg: arg, Kind: In, Ranges: rs} }
func anyBits(arg int, bits uint32) Cond { return Cond{Arg: arg, Kind: AnyBits, Bits: bits} }
func noBits(arg int, bits uint32) Cond  { return Cond{Arg: arg, Kind: NoBits, Bits: bits} }
func isNull(arg int) Cond               { return Cond{Arg: arg, Kind: Zero} }

// when makes a case of an action and its conditions.
func when(do Action, conds ...Cond) Case { return Case{If: conds, Do: do} }

//go:embed numbers.tsv
var numbers string

// Arches returns the architectures with their system call numbers.
func Arches() ([]Arch, error) {
	arches := []Arch{
		{Name: "amd64", Audit: unix.AUDIT_ARCH_X86_64, Calls: map[string]uint32{}},
		{Name: "arm64", Audit: unix.AUDIT_ARCH_AARCH64, Calls: map[string]uint32{}},
	}
	for line := range strings.Lines(numbers) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 1+len(arches) {
			return nil, fmt.Errorf("read system call numbers: %q has %d columns", line, len(columns))
		}
		for i, a := range arches {
			if columns[1+i] == "-" {
				continue
			}
			n, err := strconv.ParseUint(columns[1+i], 10, 32)
			if err != nil {
				return nil, fmt.Errorf("read system call numbers: %w", err)
			}
			a.Calls[columns[0]] = uint32(n)
		}
	}
	return arches, nil
}
