//go:build linux

package keeper_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// TestProgramsAreToldTheirLimits asks real runtimes what they think they have:
// in a box with limits, and in one without, where it is the host's.
func TestProgramsAreToldTheirLimits(t *testing.T) {
	testenv.Need(t, "cgroup")
	p := newPlace(t)
	for _, c := range []struct {
		needs string
		argv  []string
		told  string // regular expression
	}{
		{"python3", []string{python, "-c", "import os; print(os.cpu_count())"}, `^1\n$`},
		{"python3", []string{"getconf", "_NPROCESSORS_ONLN"}, `^1\n$`},
		{"python3", []string{"sh", "-c", "free -b | awk '/Mem/ {print $2}'"}, `^1073741824\n$`},
		{"java", []string{"java", "-XX:+PrintFlagsFinal", "-version"}, ` MaxHeapSize +=  *268435456 `}, // a quarter
		{"java", []string{"java", "-XshowSettings:system", "-version"}, `Effective CPU Count: 1\n(?s:.*)Memory Limit: 1.00G\n(?s:.*)Processes Limit: 4096\n`},
		{"node", []string{"node", "-p", "process.constrainedMemory()"}, `^1073741824\n$`},
		{"node", []string{"node", "-p", "os.totalmem()"}, `^1073741824\n$`},
	} {
		t.Run(strings.Join(c.argv, " "), func(t *testing.T) {
			testenv.Need(t, c.needs)
			told := regexp.MustCompile(c.told)
			for _, flags := range [][]string{{"--memory", "1GiB", "--cpus", "1"}, nil} {
				cmd := p.run(t, append(append([]string{"run"}, flags...), append([]string{"--"}, c.argv...)...)...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if told.Match(out) != (flags != nil) {
					t.Errorf("%v: it says %q", flags, out)
				}
			}
		})
	}
}

// TestGoRuntimeAsksWhatWeTell: on a host with few processors its answer is the
// same with and without, so what it reads is looked at.
func TestGoRuntimeAsksWhatWeTell(t *testing.T) {
	testenv.Need(t, "cgroup", "go", "strace")
	p := newPlace(t)
	src, program := p.home+"/ws/main.go", p.home+"/ws/prog"
	if err := os.WriteFile(src, []byte("package main\nimport \"runtime\"\nfunc main() { println(runtime.GOMAXPROCS(0)) }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, src).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := p.run(t, "run", "--cpus", "1.5", "--", "strace", "-f", program).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"150000\n"`) || !strings.Contains(string(out), `"100000\n"`) {
		t.Errorf("the runtime did not read the quota: %v\n%s", err, out)
	}
}
