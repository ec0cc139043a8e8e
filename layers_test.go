package caisson_test

import (
	"slices"
	"strings"
	"testing"
)

const module = "github.com/caisson-dev/caisson"

// layers is the map of the project. An import goes to a strictly lower layer,
// never to a sibling. A package that is in no layer fails the test, so the
// table grows in the change that adds a package.
var layers = map[string]int{
	"api":              0,
	"internal/linux":   0,
	"internal/testenv": 0,

	"internal/policy": 1,
	"internal/guest":  1,
	"internal/image":  1,
	"internal/store":  1,
	"sdk":             1,

	"internal/driver":       2,
	"internal/driver/place": 2,
	"internal/guest/agent":  2,
	"internal/stage":        2,
	"internal/workspace":    2,
	"internal/egress":       2,
	"internal/credential":   2,
	"internal/gitgate":      2,

	"internal/driver/drivertest": 3,
	"internal/egress/egresstest": 3,
	"internal/driver/process":    3,
	"internal/driver/gvisor":     3,
	"internal/driver/microvm":    3,
	"internal/driver/wasm":       3,
	"internal/pool":              3,

	"internal/driver/all": 4,
	"internal/sandbox":    4,

	"internal/sandbox/keeper": 5,
	"internal/server":         5,
	"internal/server/e2b":     5,
	"internal/mcp":            5,
	"internal/web":            5,

	"internal/daemon": 6,
	"internal/bench":  6,
	"escape":          6,

	"internal/cli": 7,

	".ci/summary":       8,
	"cmd/caisson":       8,
	"cmd/caissond":      8,
	"cmd/caisson-guest": 8,
	"escape/probe":      8,
}

// testOnly packages are imported by tests, from any layer, and by nothing else.
var testOnly = []string{"internal/testenv", "internal/driver/drivertest", "internal/egress/egresstest"}

// stdOnly packages are what other people's programs link: the standard library
// and lower packages of the same list.
var stdOnly = []string{"api", "sdk"}

// guestReach is all that the small binary may link besides layers 0 and 1.
var guestReach = []string{"internal/stage", "internal/guest/agent"}

// owners says which packages may import a library; every direct requirement
// of go.mod has a row here and a line in docs/rationale.md. The owner wraps the
// library, so that it can be replaced in one place. "tests" are test files of any package,
// "any" is every package but those of stdOnly.
var owners = map[string][]string{
	"github.com/creack/pty":                  {"internal/guest/agent", "internal/sandbox/keeper", "tests"},
	"github.com/elastic/go-seccomp-bpf":      {"internal/stage"},
	"github.com/google/go-cmp":               {"tests"},
	"github.com/google/go-containerregistry": {"internal/image"},
	"github.com/landlock-lsm/go-landlock":    {"internal/stage"},
	"github.com/rogpeppe/go-internal":        {"tests"},
	"github.com/spf13/cobra":                 {"internal/cli"},
	"github.com/spf13/pflag":                 {"internal/cli"},
	"github.com/tetratelabs/wazero":          {"internal/driver/wasm", "tests"},
	"go.yaml.in/yaml/v4":                     {"internal/policy"},
	"golang.org/x/sys":                       {"any"},
	"gvisor.dev/gvisor":                      {"internal/egress"},
	"k8s.io":                                 {"operator"},
	"modernc.org/sqlite":                     {"internal/store"},
	"sigs.k8s.io":                            {"operator"},
}

// execPackages may start programs of the host with os/exec. The critical path
// of a run does not: it forks by package linux.
var execPackages = []string{
	"internal/bench",      // measures other programs
	"internal/cli",        // doctor and setup ask the host's tools
	"internal/credential", // commands as sources
	"internal/gitgate",    // host git in a quarantine
	"internal/image",
	"internal/sandbox",
	"internal/server",
	"internal/testenv",
	"internal/workspace", // host git for the way home
	"escape",
	"escape/probe", // tries what it must not be able to do
}

func TestEveryPackageHasALayer(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		if seen[f.pkg] || f.pkg == "." {
			continue
		}
		seen[f.pkg] = true
		if _, ok := layers[whole(f.pkg)]; !ok {
			t.Errorf("%s: package %s is in no layer: add it to layers_test.go", f.path, f.pkg)
		}
	}
	if len(seen) < 5 {
		t.Fatalf("found only the packages %v: the test does not see the tree", seen)
	}
}

func TestImportsGoDown(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, imp := range f.imports {
			if why := breach(f, imp); why != "" {
				t.Errorf("%s imports %s: %s", f.path, imp, why)
			}
		}
	}
}

// breach says which rule of the layer table the import breaks, "" if none.
func breach(f goFile, imp string) string {
	to, ours := strings.CutPrefix(imp, module+"/")
	switch {
	case ours:
		return breachInside(f, to)
	case !strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		return "" // the standard library
	case slices.Contains(stdOnly, f.pkg) && !f.test:
		return "only the standard library may be linked here"
	}
	for lib, who := range owners {
		if imp != lib && !strings.HasPrefix(imp, lib+"/") {
			continue
		}
		if slices.Contains(who, whole(f.pkg)) || slices.Contains(who, "any") || f.test && slices.Contains(who, "tests") {
			return ""
		}
		return "this library belongs to " + strings.Join(who, ", ")
	}
	return "this library has no owner"
}

// whole returns the package that a private part such as internal/stage/internal/x
// belongs to: it lies in that one's layer, and nobody else can import it.
func whole(pkg string) string {
	if i := strings.Index(pkg, "/internal/"); i >= 0 {
		return pkg[:i]
	}
	return pkg
}

func breachInside(f goFile, to string) string {
	if slices.Contains(testOnly, to) {
		if f.test || slices.Contains(testOnly, f.pkg) {
			return ""
		}
		return "that package is for tests only"
	}
	if to == f.pkg && f.test {
		return "" // package x_test
	}
	if slices.Contains(stdOnly, f.pkg) && !slices.Contains(stdOnly, to) && !f.test {
		return "other people's programs link this package: std only"
	}
	if f.pkg == "." {
		return ""
	}
	if whole(to) == whole(f.pkg) && to != whole(to) {
		return "" // a package and its own parts
	}
	from, target := layers[whole(f.pkg)], layers[whole(to)]
	if target < from || f.test && target == from {
		return "" // a test may meet a sibling: it is the wiring
	}
	return "not a strictly lower layer"
}

func TestTheSmallBinaryStaysSmall(t *testing.T) {
	graph := map[string][]string{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		for _, imp := range f.imports {
			if to, ok := strings.CutPrefix(imp, module+"/"); ok {
				graph[f.pkg] = append(graph[f.pkg], to)
			}
		}
	}
	if len(graph["cmd/caisson-guest"]) == 0 {
		t.Fatal("cmd/caisson-guest imports nothing of the project")
	}
	seen := map[string]bool{}
	var visit func(string)
	visit = func(pkg string) {
		for _, to := range graph[pkg] {
			if seen[to] {
				continue
			}
			seen[to] = true
			if layers[whole(to)] > 1 && !slices.Contains(guestReach, whole(to)) {
				t.Errorf("cmd/caisson-guest reaches %s (by %s), which does not belong in it", to, pkg)
			}
			visit(to)
		}
	}
	visit("cmd/caisson-guest")
}

func TestOnlyListedPackagesExecute(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || slices.Contains(execPackages, f.pkg) {
			continue
		}
		if slices.Contains(f.imports, "os/exec") {
			t.Errorf("%s imports os/exec, and %s is not in the list of packages that may", f.path, f.pkg)
		}
	}
}

func TestUnsafeIsNamed(t *testing.T) {
	for _, f := range goFiles(t) {
		name := strings.TrimSuffix(f.path, ".go")
		named := strings.HasSuffix(name, "_unsafe") || strings.Contains(name, "_unsafe_")
		if slices.Contains(f.imports, "unsafe") && !named {
			t.Errorf("%s imports unsafe: such code lives in *_unsafe.go", f.path)
		}
	}
}

// The rules must bite: each is given something that breaks it.
func TestLayerRulesBite(t *testing.T) {
	at := func(pkg string, test bool) goFile { return goFile{pkg: pkg, test: test} }
	for _, c := range []struct {
		name   string
		from   goFile
		imp    string
		broken bool
	}{
		{"down", at("internal/store", false), module + "/api", false},
		{"up", at("api", false), module + "/internal/store", true},
		{"sibling", at("internal/stage", false), module + "/internal/driver", true},
		{"own part", at("internal/stage", false), module + "/internal/stage/internal/filter", false},
		{"part of a part", at("internal/stage/internal/filter", false), module + "/internal/linux", false},
		{"part to its whole", at("internal/stage/internal/filter", false), module + "/internal/stage", true},
		{"part to a sibling of its whole", at("internal/stage/internal/filter", false), module + "/internal/driver", true},
		{"sibling in a test", at("internal/stage", true), module + "/internal/driver", false},
		{"tests only", at("internal/cli", false), module + "/internal/testenv", true},
		{"tests only in a test", at("internal/cli", true), module + "/internal/testenv", false},
		{"std", at("api", false), "net/http", false},
		{"std only", at("api", false), "golang.org/x/sys/unix", true},
		{"owner", at("internal/policy", false), "go.yaml.in/yaml/v4", false},
		{"not the owner", at("internal/store", false), "go.yaml.in/yaml/v4", true},
		{"no owner", at("internal/store", false), "example.org/x", true},
		{"test library", at("internal/store", true), "github.com/google/go-cmp/cmp", false},
		{"test library in code", at("internal/store", false), "github.com/google/go-cmp/cmp", true},
	} {
		if why := breach(c.from, c.imp); (why != "") != c.broken {
			t.Errorf("%s: breach = %q, want broken %v", c.name, why, c.broken)
		}
	}
}
