package policy

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write generated files and goldens anew")

// TestBaseIsItsText: reading the YAML of base would cost more than all the rest
// of Resolve, so base is also there as Go. Both must say the same.
func TestBaseIsItsText(t *testing.T) {
	text, _ := PresetText("base")
	want, err := parse("preset base", text, false)
	if err != nil {
		t.Fatal(err)
	}
	want.base = true
	source := baseSource(t, want)
	if *update {
		if err := os.WriteFile("base_gen.go", source, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("written; run the test again")
	}
	got := baseFile()
	const again = "base_gen.go is not presets/base.yaml: go test ./internal/policy -run TestBaseIsItsText -update"
	if diff := cmp.Diff(want.Policy, got.Policy); diff != "" || got.Name != want.Name || got.user || !got.base {
		t.Errorf("%s\n%s", again, diff)
	}
	for key := range want.at {
		if got.Origin(key) != want.at[key] {
			t.Errorf("%s: %s stands at %v", again, key, want.at[key])
		}
	}
}

// baseSource writes base_gen.go.
func baseSource(t *testing.T, f *File) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated from presets/base.yaml by TestBaseIsItsText -update; DO NOT EDIT.\n\npackage policy\n\n")
	fmt.Fprintf(&b, "import %q\n\n", "github.com/caisson-dev/caisson/api")
	fmt.Fprintf(&b, "// baseLines says in which line of its text each value of base stands.\nvar baseLines = [...]struct {\nkey string\nline int\n}{\n")
	var keys []string
	for k := range f.at {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if f.at[a].Line != f.at[b].Line {
			return f.at[a].Line - f.at[b].Line
		}
		return strings.Compare(a, b)
	})
	for _, k := range keys {
		fmt.Fprintf(&b, "{%q, %d},\n", k, f.at[k].Line)
	}
	fmt.Fprintf(&b, "}\n\n// baseFile is the preset that is underneath every policy.\nfunc baseFile() *File {\n")
	fmt.Fprintf(&b, "p := api.Policy%s\n", literal(reflect.ValueOf(f.Policy)))
	fmt.Fprintf(&b, "return &File{Name: %q, Policy: p, base: true}\n}\n", f.Name)
	fmt.Fprintf(&b, "\n// baseLine is the line of a key of base, 0 if it is not there.\nfunc baseLine(key string) int {\n")
	fmt.Fprintf(&b, "for _, l := range baseLines {\nif l.key == key {\nreturn l.line\n}\n}\nreturn 0\n}\n")
	source, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.Bytes())
	}
	return source
}

// literal writes a struct or list without its zero parts and its type.
func literal(v reflect.Value) string {
	var b strings.Builder
	b.WriteString("{\n")
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if f.IsZero() {
				continue
			}
			name := v.Type().Field(i).Name
			if k := f.Kind(); k == reflect.Struct || k == reflect.Slice {
				fmt.Fprintf(&b, "%s: %s%s,\n", name, f.Type(), literal(f))
			} else {
				fmt.Fprintf(&b, "%s: %#v,\n", name, f.Interface())
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			fmt.Fprintf(&b, "%#v,", v.Index(i).Interface())
			if i%4 == 3 || i == v.Len()-1 {
				b.WriteByte('\n')
			}
		}
	}
	return b.String() + "}"
}
