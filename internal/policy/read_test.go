package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/api"
)

// TestReadCeiling: no file is no ceiling; a file that is there and cannot be
// used refuses everything.
func TestReadCeiling(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for name, text := range map[string]string{good: "version: 1\nnested: false\n", bad: "version: 1\nnesetd: false\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := ReadCeiling(filepath.Join(dir, "none.yaml")); f != nil || err != nil {
		t.Errorf("no file: %v %v", f, err)
	}
	if f, err := ReadCeiling(good); f == nil || err != nil {
		t.Errorf("a good one: %v %v", f, err)
	}
	for name, want := range map[string]string{
		dir:                           "is a folder",
		bad:                           `unknown key "nesetd"`,
		filepath.Join(good, "x.yaml"): "not a directory",
	} {
		_, err := ReadCeiling(name)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.CodeCeiling || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestReadFile: a policy that was named and cannot be used is an error.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(good, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(good); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "none\n.yaml"): `none\n.yaml": no such file`,
		dir:                               "is a folder",
	} {
		_, err := ReadFile(name)
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != api.CodePolicy || !strings.Contains(e.Message, want) || strings.Contains(e.Message, "\n") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
