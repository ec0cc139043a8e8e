//go:build unix

package policy

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestCheckGoldens: policy.yaml gives want, one finding per line.
func TestCheckGoldens(t *testing.T) {
	goldens(t, "check", func(t *testing.T, a *txtar.Archive) map[string]string {
		text, _ := section(a, "policy.yaml")
		layers, err := Stack("", mustParse(t, "policy.yaml", text))
		if err != nil {
			t.Fatal(err)
		}
		found, err := Check(layers)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, f := range found {
			b.WriteString(f.Message + "\n\t" + f.Hint + "\n")
		}
		return map[string]string{"want": b.String()}
	})
}

// TestPresetsAreClean: every preset of ours parses, stacks, has no finding and
// nothing that this build lacks.
func TestPresetsAreClean(t *testing.T) {
	for _, name := range PresetNames() {
		layers, err := Stack("", mustParse(t, "p", "version: 1\nextends: ["+name+"]\n"))
		if err != nil {
			t.Fatal(err)
		}
		found, err := Check(layers)
		if err != nil || len(found) > 0 {
			t.Errorf("preset %s: %v %v", name, found, err)
		}
		m, err := merge(layers)
		if err != nil {
			t.Fatal(err)
		}
		if err := ThisBuild().refuse(m); err != nil {
			t.Errorf("preset %s: %v", name, err)
		}
	}
}

// TestLacksAreKnown: each key that a build may lack is one that uses knows, so
// that a policy without it is not refused.
func TestLacksAreKnown(t *testing.T) {
	m, err := merge([]*File{baseFile()})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range ThisBuild().Lacks {
		if uses(&m.Policy, key) {
			t.Errorf("base asks for %s, or uses does not know it", key)
		}
	}
}
