//go:build linux

package filter

import "slices"

// Table is the rules of an architecture and a variant, to be asked without a
// program in between.
type Table struct{ byNumber map[uint32]Rule }

// NewTable returns the table for an architecture and a variant.
func NewTable(a Arch, v Variant) (Table, error) {
	byNumber, err := resolve(a, v)
	return Table{byNumber}, err
}

// Decide says what the table means for a call of the own ABI. An assembled
// program must answer the same.
func (t Table) Decide(number uint32, args [6]uint64) Action {
	r, ok := t.byNumber[number]
	if !ok {
		return enosys
	}
	for _, c := range r.Cases {
		if !slices.ContainsFunc(c.If, func(cond Cond) bool { return !cond.holds(args[cond.Arg]) }) {
			return c.Do
		}
	}
	return r.Do
}

func (c Cond) holds(arg uint64) bool {
	low := uint32(arg)
	switch c.Kind {
	case AnyBits:
		return low&c.Bits != 0
	case NoBits:
		return low&c.Bits == 0
	case Zero:
		return arg == 0
	}
	if c.Mask != 0 {
		low &= c.Mask
	}
	return slices.ContainsFunc(c.Ranges, func(r Range) bool { return r.Lo <= low && low <= r.Hi })
}

// Values are all that conditions of the table compare with, and zero: what a test of
// the programs tries.
func Values() []uint32 {
	values := []uint32{0}
	for _, r := range Rules() {
		for _, c := range r.Cases {
			for _, cond := range c.If {
				values = append(values, cond.Bits, cond.Mask)
				for _, between := range cond.Ranges {
					values = append(values, between.Lo, between.Hi)
				}
			}
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}
