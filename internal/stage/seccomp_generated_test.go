//go:build linux

package stage

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/stage/internal/filter"
)

var update = flag.Bool("update", false, "write the generated filters and tables anew")

// The arrays that package stage carries are what the table says now.
func TestFiltersAreTheTable(t *testing.T) {
	arches, err := filter.Arches()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arches {
		var b bytes.Buffer
		b.WriteString("// Code generated from internal/filter by go generate; DO NOT EDIT.\n\n//go:build linux\n\npackage stage\n")
		for _, v := range filter.Variants() {
			program, err := filter.Assemble(a, v)
			if err != nil {
				t.Fatalf("%s %s: %v", a.Name, v, err)
			}
			writeProgram(&b, v, program)
		}
		golden(t, "seccomp_filter_"+a.Name+".go", b.Bytes())
	}
}

func writeProgram(b *bytes.Buffer, v filter.Variant, program []unix.SockFilter) {
	name := "filter" + strings.ToUpper(v.String()[:1]) + v.String()[1:]
	fmt.Fprintf(b, "\n// %s has %d instructions.\nvar %s = []packed{\n", name, len(program), name)
	const perLine = 6
	for i, s := range program {
		if i%perLine == 0 {
			b.WriteString("\t")
		}
		fmt.Fprintf(b, "%#016x,", uint64(s.Code)<<48|uint64(s.Jt)<<40|uint64(s.Jf)<<32|uint64(s.K))
		if i%perLine == perLine-1 || i == len(program)-1 {
			b.WriteString("\n")
		} else {
			b.WriteString(" ")
		}
	}
	b.WriteString("}\n")
}

// golden compares a file with what it should hold, or writes it.
func golden(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	was, is := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			t.Fatalf("%s, line %d:\nthe file says %s\nit should say %s\n(go generate writes it anew)", path, i+1, was[i], is[i])
		}
	}
	t.Fatalf("%s has %d lines, it should have %d (go generate writes it anew)", path, len(was), len(is))
}
