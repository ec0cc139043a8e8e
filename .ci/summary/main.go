// Command summary reads what `go test -json` says and prints what a person
// wants of it: the whole output of each test that failed, each skip with its
// reason, and go test's closing line of each package. It exits with 1 if
// anything failed or nothing was tested.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if !summarise(os.Stdin, os.Stdout) {
		os.Exit(1)
	}
}

// event is one line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Output     string
}

type summary struct {
	out     io.Writer
	output  map[[2]string][]string // lines by package and test; "" is the package
	passed  int
	skipped int
	failed  int
	tested  int // packages with tests
	broken  int // packages that failed, or did not build
}

// summarise reports whether all went well.
func summarise(in io.Reader, out io.Writer) bool {
	s := summary{out: out, output: map[[2]string][]string{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			s.line(line)
		}
		if err != nil {
			break // the end; a broken pipe shows as a package without a result
		}
	}
	fmt.Fprintf(out, "%d packages: %d passed, %d skipped, %d failed\n", s.tested, s.passed, s.skipped, s.failed)
	return s.failed == 0 && s.broken == 0 && s.tested > 0
}

func (s *summary) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(s.out, line) // of the go command itself
		return
	}
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "build-fail":
		s.broken++
	case "output":
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e.Action, key)
		} else {
			s.endTest(e.Action, key)
		}
		delete(s.output, key)
	}
}

func (s *summary) endTest(action string, key [2]string) {
	switch action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		fmt.Fprintf(s.out, "skip %s %s: %s\n", short(key[0]), key[1], reason(s.output[key]))
	case "fail":
		s.failed++
		fmt.Fprintf(s.out, "FAIL %s %s\n", short(key[0]), key[1])
		for _, l := range s.output[key] {
			if !strings.HasPrefix(l, "=== ") {
				fmt.Fprint(s.out, "  ", l)
			}
		}
	}
}

func (s *summary) endPackage(action string, key [2]string) {
	lines := s.output[key]
	if action == "skip" {
		return // no test files
	}
	s.tested++
	if action == "fail" {
		s.broken++
		fmt.Fprint(s.out, strings.Join(lines, "")) // a panic stands here
		s.unfinished(key[0])
		return
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "ok") {
			fmt.Fprint(s.out, l)
		}
	}
}

// unfinished prints what tests said that a panic or a timeout cut off.
func (s *summary) unfinished(pkg string) {
	for key, lines := range s.output {
		if key[0] == pkg && key[1] != "" {
			fmt.Fprintf(s.out, "unfinished %s %s\n  %s", short(pkg), key[1], strings.Join(lines, "  "))
		}
	}
}

// reason is the last thing that a skipped test said of itself.
func reason(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		l := strings.TrimSpace(lines[i])
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			return l
		}
	}
	return "no reason given"
}

func short(pkg string) string { return strings.TrimPrefix(pkg, "github.com/caisson-dev/caisson/") }
