package caisson_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// longFunctions may be longer than 80 lines ("package name"), each for a reason.
var longFunctions = map[string]string{
	"internal/linux fork": "between fork and exec nothing may grow the stack, so it cannot be cut",
}

// inits are the only init functions, each for a reason.
var inits = map[string]string{
	"cmd/caisson-guest": "only init runs on the leader thread, to which main must be locked",
}

// states are the only package variables that are neither tables nor error values, each for a reason.
var states = map[string]string{}

func TestCodeHabits(t *testing.T) {
	packages := map[string][]goFile{}
	for _, f := range goFiles(t) {
		if !f.test {
			packages[f.pkg] = append(packages[f.pkg], f)
		}
	}
	for pkg, files := range packages {
		for _, problem := range habits(pkg, files) {
			t.Error(problem)
		}
	}
}

// tableCall are functions whose result, in a package variable, is only read.
var tableCall = regexp.MustCompile(`^(errors\.New|fmt\.Errorf|regexp\.MustCompile|strings\.NewReplacer|netip\.MustParse\w+|template\.Must|sync\.OnceValues?)$`)

// habits returns what in a package is an init function, mutable state, an
// os.Create or a long function.
func habits(pkg string, files []goFile) (problems []string) {
	fset := token.NewFileSet()
	vars := map[string]*ast.ValueSpec{}
	var syntax []*ast.File
	for _, f := range files {
		s, err := parser.ParseFile(fset, f.path, f.data, parser.ParseComments)
		if err != nil {
			return append(problems, err.Error())
		}
		syntax = append(syntax, s)
		for _, d := range s.Decls {
			problems = append(problems, judgeDecl(fset, pkg, f, d, vars)...)
		}
	}
	for _, s := range syntax {
		problems = append(problems, judgeBodies(fset, pkg, s, vars)...)
	}
	return problems
}

func judgeDecl(fset *token.FileSet, pkg string, f goFile, d ast.Decl, vars map[string]*ast.ValueSpec) (problems []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		at := fset.Position(d.Pos())
		lines := fset.Position(d.End()).Line - at.Line + 1
		if d.Recv == nil && d.Name.Name == "init" && inits[pkg] == "" {
			problems = append(problems, at.String()+": init function")
		}
		if limit := maxLines(d); lines > limit && !f.made && longFunctions[pkg+" "+d.Name.Name] == "" {
			problems = append(problems, at.String()+": function "+d.Name.Name+" has "+strconv.Itoa(lines)+" lines, more than "+strconv.Itoa(limit))
		}
	case *ast.GenDecl:
		if d.Tok != token.VAR {
			break
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			embedded := d.Doc != nil && strings.Contains(d.Doc.List[len(d.Doc.List)-1].Text, "//go:embed")
			for i, name := range v.Names {
				vars[name.Name] = v
				named := name.Name == "_" || len(v.Values) > 0 && strings.HasPrefix(strings.ToLower(name.Name), "err") // an error value
				if !named && !embedded && !isTable(v, i) && states[pkg+" "+name.Name] == "" {
					problems = append(problems, fset.Position(name.Pos()).String()+": package variable "+name.Name+" is mutable state")
				}
			}
		}
	}
	return problems
}

// maxLines is the longest that a function may be.
func maxLines(d *ast.FuncDecl) int {
	if d.Recv == nil && d.Name.Name == "main" {
		return 40
	}
	return 80
}

// isTable reports whether the i-th variable of v is a value that is only read:
// a literal, an error, a string that the linker sets, a function.
func isTable(v *ast.ValueSpec, i int) bool {
	if len(v.Values) == 0 {
		t, ok := v.Type.(*ast.Ident)
		return ok && t.Name == "string"
	}
	if i >= len(v.Values) {
		i = 0
	}
	switch x := v.Values[i].(type) {
	case *ast.CompositeLit, *ast.BasicLit, *ast.FuncLit, *ast.BinaryExpr:
		return true
	case *ast.CallExpr:
		return tableCall.MatchString(selector(x.Fun)) || isConversion(x)
	case *ast.SelectorExpr:
		return strings.HasPrefix(x.Sel.Name, "Err") // another package's error under our name
	}
	return false
}

// isConversion reports whether x is []byte("...") or the like.
func isConversion(x *ast.CallExpr) bool {
	_, ok := x.Fun.(*ast.ArrayType)
	return ok
}

func judgeBodies(fset *token.FileSet, pkg string, s *ast.File, vars map[string]*ast.ValueSpec) (problems []string) {
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if selector(n.Fun) == "os.Create" {
				problems = append(problems, fset.Position(n.Pos()).String()+": os.Create follows links and truncates: use OpenFile with flags that say what is meant")
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				break
			}
			for _, l := range n.Lhs {
				problems = append(problems, judgeWrite(fset, pkg, l, vars)...)
			}
		case *ast.IncDecStmt:
			problems = append(problems, judgeWrite(fset, pkg, n.X, vars)...)
		}
		return true
	})
	return problems
}

// judgeWrite complains if the written expression belongs to a package variable.
func judgeWrite(fset *token.FileSet, pkg string, x ast.Expr, vars map[string]*ast.ValueSpec) []string {
	for {
		switch e := x.(type) {
		case *ast.IndexExpr:
			x = e.X
			continue
		case *ast.SelectorExpr:
			x = e.X
			continue
		case *ast.Ident:
			spec, ok := vars[e.Name]
			local := e.Obj != nil && e.Obj.Decl != spec // the parser resolves names within a file
			if !ok || local || e.Name == "_" || states[pkg+" "+e.Name] != "" {
				return nil
			}
			return []string{fset.Position(e.Pos()).String() + ": writes the package variable " + e.Name}
		}
		return nil
	}
}

// selector returns "pkg.Name" for such an expression, "" for another.
func selector(x ast.Expr) string {
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name + "." + sel.Sel.Name
}

// The habits must bite: each snippet breaks one, or none.
func TestHabitsBite(t *testing.T) {
	for _, c := range []struct{ name, code, want string }{
		{"table", `var t = map[string]int{"a": 1}; func f() int { return t["a"] }`, ""},
		{"linked string", "var version string", ""},
		{"error", `var ErrGone = errors.New("gone")`, ""},
		{"local of the same name", "var t = []int{1}; func f() { t := []int{2}; t[0] = 3 }", ""},
		{"init", "func init() {}", "init function"},
		{"mutex", "var mu sync.Mutex", "mutable state"},
		{"map without content", "var m = make(map[string]int)", "mutable state"},
		{"written table", "var t = []int{1}; func f() { t[0] = 2 }", "writes the package variable"},
		{"counter", "var n = 1; func f() { n++ }", "writes the package variable"},
		{"create", `func f() { os.Create("x") }`, "os.Create"},
		{"long function", "func f() {" + strings.Repeat("\n", 90) + "}", "lines, more than 80"},
		{"long main", "func main() {" + strings.Repeat("\n", 50) + "}", "lines, more than 40"},
	} {
		got := habits("x", []goFile{{path: "x.go", data: []byte("package x\n" + c.code)}})
		all := strings.Join(got, "; ")
		if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
			t.Errorf("%s: habits found %q, want %q", c.name, all, c.want)
		}
	}
}
