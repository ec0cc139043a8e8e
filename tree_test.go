package caisson_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// goFile is one Go file of the tree.
type goFile struct {
	path    string // relative to the module root, with slashes
	pkg     string // its folder
	test    bool
	made    bool // generated: nobody reads its length
	imports []string
	data    []byte
}

// skipped folders hold nothing that is tracked.
var skipped = []string{".git", "bin", ".cache", "node_modules"}

// tree is every file of the module but what version control does not hold.
var tree = sync.OnceValues(func() (files []string, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(skipped, path):
			if d.IsDir() {
				return filepath.SkipDir
			}
		case d.Type().IsRegular():
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	return files, err
})

// parsed is every Go file of the module outside testdata folders.
var parsed = sync.OnceValues(func() ([]goFile, error) {
	paths, err := tree()
	if err != nil {
		return nil, err
	}
	var files []goFile
	for _, path := range paths {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			continue
		}
		f, err := readGo(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
})

// generated is the mark by which Go tools know such files.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func readGo(path string) (goFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return goFile{}, err
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), path, data, parser.ImportsOnly)
	if err != nil {
		return goFile{}, err
	}
	f := goFile{
		path: path, pkg: filepath.ToSlash(filepath.Dir(path)), data: data,
		test: strings.HasSuffix(path, "_test.go"), made: generated.Match(data),
	}
	for _, spec := range syntax.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return goFile{}, err
		}
		f.imports = append(f.imports, imp)
	}
	return f, nil
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// longFiles may be longer than 400 lines, each for a reason.
var longFiles = map[string]string{}

func TestFilesAreShort(t *testing.T) {
	for _, f := range goFiles(t) {
		lines := bytes.Count(f.data, []byte("\n"))
		if _, ok := longFiles[f.path]; lines > 400 && !f.made && !ok {
			t.Errorf("%s has %d lines: split it (most files stay under 400)", f.path, lines)
		}
	}
}

// words that no tracked file may hold, in pieces so that this file does not
// hold them either: hosts of package registries are what a client of this host is
// set to use, never a name in the project.
func forbiddenWords() []string {
	join := func(s ...string) string { return strings.Join(s, "") }
	return []string{
		join("proxy", ".golang", ".org"), join("sum", ".golang", ".org"), join("registry", ".npmjs", ".org"), join("registry", ".yarnpkg", ".com"),
		join("pypi", ".org"), join("pythonhosted", ".org"), join("crates", ".io"), join("repo", ".maven"), join("repo1", ".maven"),
		join("maven", ".apache", ".org"), join("rubygems", ".org"), join("deb.debian", ".org"), join("/wo", "rk/"),
	}
}

func TestNoForbiddenWords(t *testing.T) {
	paths, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if path == "go.sum" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range holds(data) {
			t.Errorf("%s holds %q", path, word)
		}
	}
	if got := holds([]byte("see " + forbiddenWords()[0])); len(got) != 1 {
		t.Errorf("the test finds nothing where there is something: %q", got)
	}
}

func holds(data []byte) (found []string) {
	low := bytes.ToLower(data)
	for _, word := range forbiddenWords() {
		if bytes.Contains(low, []byte(word)) {
			found = append(found, word)
		}
	}
	return found
}
