//go:build linux

package filter

import (
	"slices"

	"golang.org/x/sys/unix"
)

// reach is how far a conditional jump goes.
const reach = 255

// shrink returns an equal program with fewer instructions: returns are shared as
// far as jumps reach, and jumps lead to where they end. What the kernel takes to
// load a filter goes with its length, as it compiles it each time.
//
// It works from the end to the start. As jumps only lead forwards, all
// distances are then known when a jump is written; where a target is too far, a
// return or a long jump is put behind the jump, where nothing else falls into.
func shrink(program []unix.SockFilter) []unix.SockFilter {
	s := shrinker{program: program, at: make([]int, len(program)), returns: map[uint32]int{}, jumps: map[int]int{}}
	for i, ins := range slices.Backward(program) {
		switch {
		case ins.Code == unix.BPF_RET|unix.BPF_K, ins.Code == unix.BPF_JMP|unix.BPF_JA:
			s.at[i] = -1 // made where a jump needs it
		case ins.Code&0x07 == unix.BPF_JMP:
			yes, no := i+1+int(ins.Jt), i+1+int(ins.Jf)
			s.bring(yes, 1)
			s.bring(no, 0)
			ins.Jt, ins.Jf = uint8(s.distance(yes)), uint8(s.distance(no))
			s.put(i, ins)
		default:
			s.put(i, ins)
		}
	}
	slices.Reverse(s.out)
	return s.out
}

type shrinker struct {
	program []unix.SockFilter
	out     []unix.SockFilter // from the last instruction to the first
	at      []int             // instruction of program → index in out, -1 for none
	returns map[uint32]int    // return value → index in out of its first copy
	jumps   map[int]int       // instruction of program → index in out of a long jump to it
}

func (s *shrinker) put(i int, ins unix.SockFilter) {
	s.out = append(s.out, ins)
	s.at[i] = len(s.out) - 1
}

// end follows long jumps.
func (s *shrinker) end(i int) int {
	for s.program[i].Code == unix.BPF_JMP|unix.BPF_JA {
		i += 1 + int(s.program[i].K)
	}
	return i
}

// place is the index in out of what stands for instruction i, -1 for none.
func (s *shrinker) place(i int) int {
	i = s.end(i)
	if ins := s.program[i]; ins.Code == unix.BPF_RET|unix.BPF_K {
		if p, ok := s.returns[ins.K]; ok {
			return p
		}
		return -1
	}
	if p, ok := s.jumps[i]; ok {
		return p
	}
	return s.at[i]
}

// distance is what a jump that is written next must skip to get to instruction i.
func (s *shrinker) distance(i int) int { return len(s.out) - 1 - s.place(i) }

// bring puts a return or a long jump in if a jump that is written after room more
// instructions would not reach instruction i.
func (s *shrinker) bring(i, room int) {
	if s.place(i) >= 0 && s.distance(i)+room <= reach {
		return
	}
	ins := s.program[s.end(i)]
	if ins.Code == unix.BPF_RET|unix.BPF_K {
		s.out = append(s.out, ins)
		s.returns[ins.K] = len(s.out) - 1
		return
	}
	s.out = append(s.out, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(s.out) - 1 - s.at[s.end(i)])})
	s.jumps[s.end(i)] = len(s.out) - 1
}
