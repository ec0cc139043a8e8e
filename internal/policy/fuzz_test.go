package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/caisson-dev/caisson/api"
)

// FuzzParse: any text is a policy or an error on one printable line that names
// the file, and a policy that parses can be merged, checked and digested.
func FuzzParse(f *testing.F) {
	names, _ := filepath.Glob("testdata/*/*.txtar")
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".yaml") {
				f.Add(file.Data)
			}
		}
	}
	if doc, err := os.ReadFile("../../docs/policy.md"); err == nil {
		_, example, _ := strings.Cut(string(doc), "```yaml\n")
		example, _, _ = strings.Cut(example, "```")
		f.Add([]byte(example))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("p.yaml", text)
		if err != nil {
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != api.CodePolicy || e.Hint == "" || !strings.HasPrefix(e.Message, "p.yaml:") {
				t.Fatalf("error %#v", err)
			}
			if oneLine(e.Message) != e.Message || oneLine(e.Hint) != e.Hint {
				t.Fatalf("not one printable line: %q %q", e.Message, e.Hint)
			}
			return
		}
		if file.Policy.Version != 1 {
			t.Fatal("no version")
		}
		m, err := merge([]*File{baseFile(), file})
		if err != nil {
			return
		}
		m.digest()
		if _, err := Check([]*File{baseFile(), file}); err != nil {
			t.Fatal(err)
		}
	})
}
