package caisson_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var (
	testName  = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	invariant = regexp.MustCompile(`(?m)^\| (I\d) \|.*$`)
)

// Every invariant names its tests or says that they are pending, and every test
// that the threat model names is there.
func TestThreatModelNamesRealTests(t *testing.T) {
	there := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test {
			for _, m := range testFunc.FindAllStringSubmatch(string(f.data), -1) {
				there[m[1]] = true
			}
		}
	}
	if !there["TestThreatModelNamesRealTests"] {
		t.Fatal("the test does not find itself: it would find nothing missing")
	}
	text := readDoc(t, "docs/threat-model.md")
	for _, name := range testName.FindAllString(text, -1) {
		if !there[name] {
			t.Errorf("docs/threat-model.md names %s, and no test has that name", name)
		}
	}
	rows := invariant.FindAllStringSubmatch(text, -1)
	if len(rows) != 8 {
		t.Fatalf("docs/threat-model.md has %d rows of invariants, want I1 to I8", len(rows))
	}
	for _, row := range rows {
		if !testName.MatchString(row[0]) && !strings.Contains(row[0], "[test pending]") {
			t.Errorf("%s names neither a test nor [test pending]", row[1])
		}
	}
}

var requirement = regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v\S+$`)

// Every direct requirement has an owner and a reason.
func TestDependenciesAreExplained(t *testing.T) {
	why := readDoc(t, "docs/rationale.md")
	direct := requirement.FindAllStringSubmatch(readDoc(t, "go.mod"), -1)
	if len(direct) == 0 {
		t.Fatal("go.mod has no direct requirement: the test does not read it")
	}
	for _, m := range direct {
		if !strings.Contains(why, "| "+m[1]+" |") {
			t.Errorf("%s has no line in docs/rationale.md", m[1])
		}
		if owners[m[1]] == nil {
			t.Errorf("%s has no owner in layers_test.go", m[1])
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	paths, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range paths {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(readDoc(t, file), -1) {
			seen++
			if _, err := os.Stat(path.Join(path.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
			}
		}
	}
	if seen == 0 {
		t.Error("no link found at all")
	}
}
