package testenv

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Need skips the test unless this machine has everything of what. It fails the
// test instead if CAISSON_TEST_REQUIRE lists the missing thing, or if a name,
// here or there, is none that this package knows.
func Need(t testing.TB, what ...string) {
	t.Helper()
	required, err := parseRequired(os.Getenv("CAISSON_TEST_REQUIRE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range what {
		err := Lacks(name)
		switch {
		case err == nil:
		case errors.Is(err, errUnknown):
			t.Fatalf("testenv: %v", err)
		case slices.Contains(required, name):
			t.Fatalf("testenv: %s is required (CAISSON_TEST_REQUIRE) and missing: %v", name, err)
		default:
			t.Skipf("needs %s: %v", name, err)
		}
	}
}

// Lacks says why this machine lacks the named thing, nil if it has it. Each
// thing is tried once per process.
func Lacks(name string) error {
	check, ok := checks[name]
	if !ok {
		return fmt.Errorf("%w %q: one of %s", errUnknown, name, strings.Join(Names(), ", "))
	}
	return check()
}

// Names returns every name that Need knows, sorted.
func Names() []string { return slices.Sorted(maps.Keys(checks)) }

var errUnknown = errors.New("unknown requirement")

func parseRequired(list string) (names []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if _, ok := checks[name]; !ok {
			return nil, fmt.Errorf("testenv: CAISSON_TEST_REQUIRE: %w %q: one of %s", errUnknown, name, strings.Join(Names(), ", "))
		}
		names = append(names, name)
	}
	return names, nil
}
