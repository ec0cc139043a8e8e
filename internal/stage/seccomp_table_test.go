//go:build linux

package stage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/stage/internal/filter"
)

// call is what a filter sees: struct seccomp_data.
type call struct {
	number uint32
	arch   uint32
	args   [6]uint64
}

// run executes a filter as the kernel does. It knows the instructions that the
// kernel admits in a seccomp filter and that the assembler uses; any other, a
// load out of bounds and a jump past the end are errors.
func run(program []unix.SockFilter, c call) (filter.Action, error) {
	data := [16]uint32{c.number, c.arch} // words 2 and 3 are the instruction pointer
	for i, a := range c.args {
		data[4+2*i], data[5+2*i] = uint32(a), uint32(a>>32) // both architectures are little-endian
	}
	var acc uint32
	for pc := 0; pc < len(program); pc++ {
		ins := program[pc]
		var hit bool
		switch ins.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if ins.K%4 != 0 || ins.K > 60 {
				return 0, fmt.Errorf("instruction %d loads offset %d", pc, ins.K)
			}
			acc = data[ins.K/4]
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= ins.K
			continue
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(ins.K)
			continue
		case unix.BPF_RET | unix.BPF_K:
			return filter.Action(ins.K), nil
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			hit = acc == ins.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			hit = acc >= ins.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			hit = acc > ins.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			hit = acc&ins.K != 0
		default:
			return 0, fmt.Errorf("instruction %d has code %#x", pc, ins.Code)
		}
		if hit {
			pc += int(ins.Jt)
		} else {
			pc += int(ins.Jf)
		}
	}
	return 0, fmt.Errorf("the program runs past its end")
}

// verdict is run for tests.
func verdict(t *testing.T, program []unix.SockFilter, c call) filter.Action {
	t.Helper()
	a, err := run(program, c)
	if err != nil {
		t.Fatalf("call %d: %v", c.number, err)
	}
	return a
}

// eachFilter calls f with every program that the project carries.
func eachFilter(t *testing.T, f func(t *testing.T, a filter.Arch, v filter.Variant, program []unix.SockFilter)) {
	arches, err := filter.Arches()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arches {
		for _, v := range filter.Variants() {
			t.Run(a.Name+"-"+v.String(), func(t *testing.T) {
				program, err := filter.Assemble(a, v)
				if err != nil {
					t.Fatal(err)
				}
				f(t, a, v, program)
			})
		}
	}
}

// The verdict on every number, as a file that is reviewed like code.
func TestVerdictOnEveryNumber(t *testing.T) {
	arches, err := filter.Arches()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arches {
		names := map[uint32]string{}
		for name, n := range a.Calls {
			names[n] = name
		}
		answers := map[filter.Variant][]string{}
		for _, v := range filter.Variants() {
			program, err := filter.Assemble(a, v)
			if err != nil {
				t.Fatal(err)
			}
			for n := range uint32(1024) {
				answers[v] = append(answers[v], onNumber(t, program, a, n))
			}
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "# Written by go generate: what the filters for %s answer to each system call.\n# number\tname\tbox\tnested\tbare\n", a.Name)
		for n := range uint32(1024) {
			box, nested, bare := answers[filter.Box][n], answers[filter.Nested][n], answers[filter.Bare][n]
			if names[n] != "" {
				fmt.Fprintf(&b, "%d\t%s\t%s\t%s\t%s\n", n, names[n], box, nested, bare)
			} else if box != "ENOSYS" || nested != box || bare != box {
				t.Errorf("%s: number %d is no call, but the answers are %s, %s, %s", a.Name, n, box, nested, bare)
			}
		}
		golden(t, "testdata/seccomp-"+a.Name+".txt", b.Bytes())
	}
}

// onNumber is the answer whatever the arguments, or the answers if they matter.
func onNumber(t *testing.T, program []unix.SockFilter, a filter.Arch, n uint32) string {
	t.Helper()
	answers := map[string]bool{}
	for _, args := range probeArgs() {
		answers[verdict(t, program, call{n, a.Audit, args}).String()] = true
	}
	list := []string{}
	for answer := range answers {
		list = append(list, answer)
	}
	slices.Sort(list)
	if len(list) == 1 {
		return list[0]
	}
	return "by arguments: " + strings.Join(list, ", ")
}

// probeArgs are argument vectors that reach the branches of every rule.
func probeArgs() [][6]uint64 {
	values := []uint64{
		0, 1, 2, 3, 8, 12, 16, 38, 64, unix.F_SETLEASE, unix.TIOCSTI, unix.CLONE_NEWUSER, unix.S_ISUID, unix.S_IFBLK,
		unix.MAP_HUGETLB, 0x1002, 1 << 32, ^uint64(0),
	}
	out := [][6]uint64{{0, 6, unix.TCP_ULP}, {0, 0, unix.MADV_MERGEABLE}, {unix.AF_INET, unix.SOCK_STREAM}, {0, unix.MFD_HUGETLB}, {0, 0, unix.O_CREAT, unix.S_ISUID}, {0, unix.O_CREAT, unix.S_ISUID}, {0, 0, 0, 0, 4}, {unix.PR_SCHED_CORE}}
	for _, x := range values {
		out = append(out, [6]uint64{x}, [6]uint64{0, x}, [6]uint64{1, x}, [6]uint64{2, x}, [6]uint64{x, 1}, [6]uint64{0, 0, x}, [6]uint64{0, 0, 0, x}, [6]uint64{x, x, x, x, x, x})
	}
	return out
}

// The program answers what the table means, on arguments at random around the
// values that the table names, with and without rubbish in the high half.
func TestProgramIsTheTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	eachFilter(t, func(t *testing.T, a filter.Arch, v filter.Variant, program []unix.SockFilter) {
		table, err := filter.NewTable(a, v)
		if err != nil {
			t.Fatal(err)
		}
		values := filter.Values()
		answers := map[filter.Action]bool{}
		for range 200_000 {
			c := call{number: random.Uint32N(480), arch: a.Audit}
			for i := range c.args {
				c.args[i] = uint64(values[random.IntN(len(values))])
				switch random.IntN(8) {
				case 0:
					c.args[i] |= random.Uint64() << 32
				case 1:
					c.args[i] += uint64(random.IntN(3)) - 1
				case 2:
					c.args[i] |= 1 << random.IntN(32)
				}
			}
			got, want := verdict(t, program, c), table.Decide(c.number, c.args)
			if got != want {
				t.Fatalf("call %d %#x is %s, the table says %s", c.number, c.args, got, want)
			}
			answers[got] = true
		}
		if len(answers) < 6 {
			t.Errorf("only %d different answers were met", len(answers))
		}
	})
}

// Numbers of x32, of no call at all, and other architectures: never allowed.
func TestForeignABIs(t *testing.T) {
	eachFilter(t, func(t *testing.T, a filter.Arch, _ filter.Variant, program []unix.SockFilter) {
		read := a.Calls["read"]
		if got := verdict(t, program, call{number: read, arch: a.Audit}); got != filter.Allow {
			t.Fatalf("control: read of the own ABI is %s", got)
		}
		const x32 = 0x40000000
		for n := range uint32(1024) {
			for _, number := range []uint32{n | x32, n | 1<<31, ^n, n + 1024, n + 65536} {
				if got := verdict(t, program, call{number: number, arch: a.Audit}); got != filter.Errno(unix.ENOSYS) {
					t.Errorf("number %#x is %s, want ENOSYS", number, got)
				}
			}
			for _, arch := range []uint32{0, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_RISCV64, ^uint32(0)} {
				if arch == a.Audit {
					continue
				}
				if got := verdict(t, program, call{number: n, arch: arch}); got != filter.Kill {
					t.Errorf("number %d of architecture %#x is %s, want kill", n, arch, got)
				}
			}
		}
	})
}

// What the guest hands to the kernel is what the table gives for this machine.
func TestSeccompFilter(t *testing.T) {
	options := map[filter.Variant]FilterOptions{filter.Box: {}, filter.Nested: {Nested: true}, filter.Bare: {Bare: true}}
	eachFilter(t, func(t *testing.T, a filter.Arch, v filter.Variant, program []unix.SockFilter) {
		if a.Name != goarch {
			t.Skip("this machine is " + goarch)
		}
		got, err := SeccompFilter(options[v])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, program) {
			t.Error("differs from the table")
		}
	})
	if _, err := SeccompFilter(FilterOptions{Nested: true, Bare: true}); err == nil {
		t.Error("nested and bare at once were accepted")
	}
}
