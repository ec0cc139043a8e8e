package policy

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
)

func policyDoc(t *testing.T) string {
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// grammar lists every key of the structs. Rules and budgets occur in several
// places and count once, as rule.* and budget.*.
func grammar() []string {
	keys := map[string]bool{}
	var walk func(ty reflect.Type, prefix string)
	walk = func(ty reflect.Type, prefix string) {
		for i := range ty.NumField() {
			f := ty.Field(i)
			tag := f.Tag.Get("yaml")
			if tag == "-" {
				continue
			}
			keys[prefix+tag] = true
			inner := f.Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			switch {
			case inner == reflect.TypeFor[api.NetworkRule](), inner == reflect.TypeFor[api.Budget]():
			case inner.Kind() == reflect.Struct:
				walk(inner, prefix+tag+".")
			}
		}
	}
	walk(reflect.TypeFor[api.Policy](), "")
	walk(reflect.TypeFor[api.NetworkRule](), "rule.")
	walk(reflect.TypeFor[api.Budget](), "budget.")
	return slices.Sorted(maps.Keys(keys))
}

// TestDocumentNamesEveryKey: docs/policy.md has a row for every key of the
// structs and for nothing else, and one for every loss.
func TestDocumentNamesEveryKey(t *testing.T) {
	var keys, losses, want []string
	_, body, _ := strings.Cut(policyDoc(t), "\n## Keys\n")
	ofKeys, ofLosses, _ := strings.Cut(body, "\n## Losses\n")
	keys, losses = rows(ofKeys), rows(ofLosses)
	slices.Sort(keys)
	if diff := cmp.Diff(grammar(), keys); diff != "" {
		t.Errorf("keys of the structs and of docs/policy.md (-structs +document):\n%s", diff)
	}
	for _, l := range api.Losses() {
		want = append(want, string(l.Loss))
	}
	if diff := cmp.Diff(want, losses); diff != "" {
		t.Errorf("losses of the code and of docs/policy.md:\n%s", diff)
	}
}

// rows gives the first cells of tables.
func rows(text string) (cells []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			cell, _, _ := strings.Cut(rest, "`")
			cells = append(cells, cell)
		}
	}
	return cells
}

// TestDocumentExample: the example has every key of the grammar and parses.
func TestDocumentExample(t *testing.T) {
	_, example, ok := strings.Cut(policyDoc(t), "```yaml\n")
	example, _, ok2 := strings.Cut(example, "```")
	if !ok || !ok2 {
		t.Fatal("docs/policy.md has no example")
	}
	f, err := Parse("example.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range grammar() {
		if !written(f, key) {
			t.Errorf("the example does not show %s", key)
		}
	}
	layers, err := Stack("", f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merge(layers); err != nil {
		t.Error(err)
	}
}

// written reports whether a file has a key somewhere, list indices aside.
func written(f *File, key string) bool {
	for k := range f.at {
		plain := ""
		for part := range strings.SplitSeq(k, ".") {
			part, _, _ = strings.Cut(part, "[")
			plain += "." + part
		}
		if rest, ok := strings.CutPrefix(key, "rule"); ok {
			for _, at := range []string{"network.allow", "network.deny", "credentials.bind"} {
				if plain == "."+at+rest {
					return true
				}
			}
		}
		if strings.HasPrefix(key, "budget.") && strings.HasSuffix(plain, "."+key) || plain == "."+key {
			return true
		}
	}
	return false
}
