package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	line := func(action, pkg, test, output string) string {
		return `{"Action":"` + action + `","Package":"` + pkg + `","Test":"` + test + `","Output":"` + output + `"}` + "\n"
	}
	pass := line("output", "p", "TestA", "chatter\\n") + line("pass", "p", "TestA", "") +
		line("output", "p", "", "ok  \\tp\\t1s\\n") + line("pass", "p", "", "")
	for _, c := range []struct {
		name, in string
		ok       bool
		want     string
		not      string
	}{
		{"pass", pass, true, "ok  \tp\t1s\n1 packages: 1 passed, 0 skipped, 0 failed\n", "chatter"},
		{
			"skip", line("output", "p", "TestB", "  b_test.go:1: needs root\\n") + line("output", "p", "TestB", "--- SKIP: TestB\\n") + line("skip", "p", "TestB", "") + pass,
			true, "skip p TestB: b_test.go:1: needs root\n", "---",
		},
		{
			"fail", pass + line("output", "q", "TestC", "=== RUN TestC\\n") + line("output", "q", "TestC", "c_test.go:1: wrong\\n") + line("fail", "q", "TestC", "") + line("fail", "q", "", ""),
			false, "FAIL q TestC\n  c_test.go:1: wrong\n", "=== RUN",
		},
		{
			"panic", line("output", "q", "TestD", "before\\n") + line("output", "q", "", "panic: out\\n") + line("fail", "q", "", ""),
			false, "panic: out\nunfinished q TestD\n  before\n", "ok",
		},
		{
			"build", pass + `{"Action":"build-output","ImportPath":"r","Output":"r.go:1: undefined: x\n"}` + "\n" + `{"Action":"build-fail","ImportPath":"r"}` + "\n",
			false, "r.go:1: undefined: x\n", "chatter",
		},
		{"nothing", "go: no such command\n", false, "go: no such command\n", "ok"},
	} {
		var out strings.Builder
		ok := summarise(strings.NewReader(c.in), &out)
		if ok != c.ok || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), c.not) {
			t.Errorf("%s: ok %v, want %v; printed\n%s", c.name, ok, c.ok, out.String())
		}
	}
}
