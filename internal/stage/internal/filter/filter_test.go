//go:build linux && (amd64 || arm64)

package filter

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func arch(t *testing.T, name string) Arch {
	t.Helper()
	arches, err := Arches()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arches {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no architecture %s", name)
	return Arch{}
}

func TestNumbersAreTheKernels(t *testing.T) {
	if diff := cmp.Diff(known, arch(t, runtime.GOARCH).Calls); diff != "" {
		t.Errorf("numbers.tsv differs from package unix (-unix +numbers.tsv):\n%s", diff)
	}
}

// Every name of the table is a call of some architecture, so that a slip of the
// pen forbids nothing and allows nothing by accident.
func TestNamesOfTheTableAreCalls(t *testing.T) {
	amd64, arm64 := arch(t, "amd64").Calls, arch(t, "arm64").Calls
	for _, r := range Rules() {
		for _, name := range strings.Fields(r.Calls) {
			_, one := amd64[name]
			_, other := arm64[name]
			if !one && !other {
				t.Errorf("%s is no call", name)
			}
		}
	}
}

// A refusal says why, and so does what holds in some variants only.
func TestRefusalsSayWhy(t *testing.T) {
	for _, r := range Rules() {
		if r.Do != Allow && len(r.Cases) == 0 && r.Why == "" {
			t.Errorf("%s: refused without a reason", r.Calls)
		}
	}
}

// Nested may do more than Box, Bare less; the zero action of a rule is kill.
func TestVariantsAreOrdered(t *testing.T) {
	for _, name := range []string{"amd64", "arm64"} {
		a := arch(t, name)
		free := map[Variant][]string{}
		for _, v := range Variants() {
			rules, err := resolve(a, v)
			if err != nil {
				t.Fatal(err)
			}
			for call, n := range a.Calls {
				if r, ok := rules[n]; ok && r.Do == Allow && len(r.Cases) == 0 {
					free[v] = append(free[v], call)
				}
			}
		}
		for _, pair := range [][2]Variant{{Bare, Box}, {Box, Nested}} {
			for _, call := range free[pair[0]] {
				if !slices.Contains(free[pair[1]], call) {
					t.Errorf("%s: %s is free in %s and not in %s", name, call, pair[0], pair[1])
				}
			}
		}
	}
	if got := (Rule{}).Do.String(); got != "kill thread" {
		t.Errorf("a rule that says nothing does %s", got)
	}
}

func TestRanges(t *testing.T) {
	got := ranges([]uint32{5, 1, 2, 9, 3})
	if diff := cmp.Diff([]Range{{1, 3}, {5, 5}, {9, 9}}, got); diff != "" {
		t.Error(diff)
	}
}

// Jumps over more than 255 instructions: a program too long for one jump, shrunk
// and not, must end where it did.
func TestShrinkKeepsFarJumps(t *testing.T) {
	var list []segment
	for n := range uint32(600) {
		list = append(list, segment{start: n, code: []unix.SockFilter{
			load(offsetArgs), jump(unix.BPF_JEQ, n, 0, 1), ret(Allow), ret(Action(unix.SECCOMP_RET_ERRNO | (n%700 + 1))),
		}})
	}
	program, err := search(list)
	if err != nil {
		t.Fatal(err)
	}
	program = append([]unix.SockFilter{load(offsetNumber)}, program...)
	small := shrink(program)
	if len(small) >= len(program) {
		t.Errorf("%d instructions shrank to %d", len(program), len(small))
	}
	for n := range uint32(600) {
		for _, arg := range []uint32{n, n + 1} {
			if want, got := walk(program, n, arg), walk(small, n, arg); got != want || want == Kill {
				t.Fatalf("number %d, argument %d: %s, want %s", n, arg, got, want)
			}
		}
	}
}

// walk runs the few instructions of the test above; running off the end is kill.
func walk(program []unix.SockFilter, number, arg uint32) Action {
	var acc uint32
	for pc := 0; pc < len(program); pc++ {
		ins, hit := program[pc], false
		switch ins.Code & 0x07 {
		case unix.BPF_LD:
			acc = map[uint32]uint32{offsetNumber: number, offsetArgs: arg}[ins.K]
			continue
		case unix.BPF_RET:
			return Action(ins.K)
		}
		switch ins.Code & 0xf0 {
		case unix.BPF_JA:
			pc += int(ins.K)
			continue
		case unix.BPF_JEQ:
			hit = acc == ins.K
		case unix.BPF_JGE:
			hit = acc >= ins.K
		}
		pc += int(ins.Jf)
		if hit {
			pc += int(ins.Jt) - int(ins.Jf)
		}
	}
	return Kill
}
