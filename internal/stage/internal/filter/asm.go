//go:build linux

package filter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, which a filter reads in 32-bit words.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// maxProgram is BPF_MAXINSNS, the longest program that the kernel takes.
const maxProgram = 4096

// Assemble returns the program for an architecture and a variant. A foreign ABI
// (32-bit programs) is killed: there is no call that such a program could fall
// back to, so an error at every call would only make it wander. What no rule
// names, x32 numbers among them, gets ENOSYS.
func Assemble(a Arch, v Variant) ([]unix.SockFilter, error) {
	rules, err := resolve(a, v)
	if err != nil {
		return nil, err
	}
	tree, err := search(segments(rules))
	if err != nil {
		return nil, err
	}
	program := shrink(append([]unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, a.Audit, 1, 0),
		ret(Kill),
		load(offsetNumber),
	}, tree...))
	if len(program) > maxProgram {
		return nil, fmt.Errorf("assemble filter: %d instructions, the kernel takes %d", len(program), maxProgram)
	}
	return program, nil
}

// resolve maps system call numbers to their rule.
func resolve(a Arch, v Variant) (map[uint32]Rule, error) {
	byNumber := map[uint32]Rule{}
	for _, r := range Rules() {
		if r.In != 0 && r.In&v == 0 {
			continue
		}
		for _, name := range strings.Fields(r.Calls) {
			n, ok := a.Calls[name]
			if !ok {
				continue // not on this architecture; a test holds that each name is on one
			}
			if _, twice := byNumber[n]; twice {
				return nil, fmt.Errorf("resolve rules: %s has two rows for %s", name, v)
			}
			byNumber[n] = r
		}
	}
	return byNumber, nil
}

// segment is a range of numbers, up to the next segment's start, that share code.
type segment struct {
	start uint32
	code  []unix.SockFilter
	err   error
}

// segments lays the rules out over the whole number space; gaps are unknown
// calls. Neighbours with the same code become one segment.
func segments(rules map[uint32]Rule) []segment {
	unknown := []unix.SockFilter{ret(Errno(unix.ENOSYS))}
	list := []segment{{start: 0, code: unknown}}
	add := func(s segment) {
		last := &list[len(list)-1]
		if last.start == s.start {
			*last = s
		} else if !slices.Equal(last.code, s.code) || s.err != nil {
			list = append(list, s)
		}
	}
	order := make([]uint32, 0, len(rules))
	for n := range rules {
		order = append(order, n)
	}
	slices.SortFunc(order, cmp.Compare[uint32])
	for i, n := range order {
		code, err := body(rules[n])
		add(segment{start: n, code: code, err: err})
		if i+1 == len(order) || order[i+1] != n+1 {
			add(segment{start: n + 1, code: unknown})
		}
	}
	return list
}

// search is a binary search over the segments with their code at the leaves. The
// number is in the accumulator. Calls that are always allowed never come here
// on Linux 5.11 and later: the kernel keeps a bitmap of them.
func search(list []segment) ([]unix.SockFilter, error) {
	if len(list) == 1 {
		return list[0].code, list[0].err
	}
	middle := len(list) / 2
	left, err := search(list[:middle])
	if err != nil {
		return nil, err
	}
	right, err := search(list[middle:])
	if err != nil {
		return nil, err
	}
	pivot := list[middle].start
	var head []unix.SockFilter
	if len(left) <= reach {
		head = []unix.SockFilter{jump(unix.BPF_JGE, pivot, uint8(len(left)), 0)}
	} else {
		head = []unix.SockFilter{
			jump(unix.BPF_JGE, pivot, 0, 1),
			{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(left))},
		}
	}
	return slices.Concat(head, left, right), nil
}

// body is the code of one rule.
func body(r Rule) ([]unix.SockFilter, error) {
	var code []unix.SockFilter
	for _, c := range r.Cases {
		one, err := caseCode(c)
		if err != nil {
			return nil, fmt.Errorf("assemble %s: %w", r.Calls, err)
		}
		code = append(code, one...)
	}
	return append(code, ret(r.Do)), nil
}

// toNext is a jump to the end of a case until the length of the case is known.
// No condition has so many instructions, so it cannot be meant as a distance.
const toNext = 0xff

// caseCode runs into the action if every condition holds, else past its end.
func caseCode(c Case) ([]unix.SockFilter, error) {
	var code []unix.SockFilter
	for _, cond := range c.If {
		code = append(code, cond.code()...)
	}
	code = append(code, ret(c.Do))
	if len(code) >= toNext {
		return nil, fmt.Errorf("a case has %d instructions", len(code))
	}
	for i := range code {
		if code[i].Code&0x07 != unix.BPF_JMP {
			continue
		}
		next := uint8(len(code) - i - 1)
		if code[i].Jt == toNext {
			code[i].Jt = next
		}
		if code[i].Jf == toNext {
			code[i].Jf = next
		}
	}
	return code, nil
}

// code falls through if the condition holds.
func (c Cond) code() []unix.SockFilter {
	low, high := uint32(offsetArgs+8*c.Arg), uint32(offsetArgs+8*c.Arg+4)
	switch c.Kind {
	case AnyBits:
		return []unix.SockFilter{load(low), jump(unix.BPF_JSET, c.Bits, 0, toNext)}
	case NoBits:
		return []unix.SockFilter{load(low), jump(unix.BPF_JSET, c.Bits, toNext, 0)}
	case Zero:
		return []unix.SockFilter{
			load(high), jump(unix.BPF_JEQ, 0, 0, toNext),
			load(low), jump(unix.BPF_JEQ, 0, 0, toNext),
		}
	}
	code := []unix.SockFilter{load(low)}
	if c.Mask != 0 {
		code = append(code, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.Mask})
	}
	return append(code, rangeCode(c.Ranges)...)
}

// rangeCode falls through if the accumulator is in one of the ranges, which are
// in ascending order.
func rangeCode(rs []Range) []unix.SockFilter {
	var code []unix.SockFilter
	size := 0
	for _, r := range rs {
		size += r.size()
	}
	for i, r := range rs {
		size -= r.size()
		miss := uint8(0) // on to the next range
		if i == len(rs)-1 {
			miss = toNext
		}
		if r.Lo == r.Hi {
			code = append(code, jump(unix.BPF_JEQ, r.Lo, uint8(size), miss))
			continue
		}
		code = append(code,
			jump(unix.BPF_JGE, r.Lo, 0, toNext), // below this range is below all that follow
			jump(unix.BPF_JGT, r.Hi, miss, uint8(size)))
	}
	return code
}

func (r Range) size() int {
	if r.Lo == r.Hi {
		return 1
	}
	return 2
}

// ranges sorts values and joins neighbours.
func ranges(values []uint32) []Range {
	values = slices.Clone(values)
	slices.Sort(values)
	var rs []Range
	for _, v := range values {
		if n := len(rs); n > 0 && rs[n-1].Hi+1 == v {
			rs[n-1].Hi = v
			continue
		}
		rs = append(rs, Range{v, v})
	}
	return rs
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func ret(a Action) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(a)}
}

// Conditional returns the names of the calls whose arguments matter.
func Conditional() map[string]bool {
	names := map[string]bool{}
	for _, r := range Rules() {
		if len(r.Cases) == 0 {
			continue
		}
		for _, name := range strings.Fields(r.Calls) {
			names[name] = true
		}
	}
	return names
}
