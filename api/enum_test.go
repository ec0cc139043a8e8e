package api_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/api"
)

// enums are the types whose values are numbers with names, weakest first, as
// they are written.
var enums = map[string]struct {
	names []string
	value func(i int) any // the i-th value, of the enum's type
	empty func() any      // a pointer to a new one
}{
	"Strength": {[]string{"none", "soft", "hard"}, func(i int) any { return api.Strength(i) }, func() any { return new(api.Strength) }},
	"Action":   {[]string{"deny", "ask", "allow"}, func(i int) any { return api.Action(i) }, func() any { return new(api.Action) }},
}

func TestEnumsAsText(t *testing.T) {
	for kind, e := range enums {
		for i, name := range e.names {
			text, err := e.value(i).(encoding.TextMarshaler).MarshalText()
			if err != nil || string(text) != name || fmt.Sprint(e.value(i)) != name {
				t.Errorf("%s(%d): text %q, %v, string %v; want %q", kind, i, text, err, e.value(i), name)
			}
			back := e.empty()
			if err := back.(encoding.TextUnmarshaler).UnmarshalText(text); err != nil || reflect.ValueOf(back).Elem().Interface() != e.value(i) {
				t.Errorf("%s %q comes back as %v, %v", kind, text, back, err)
			}
		}
		unknown := e.value(len(e.names))
		if text, err := unknown.(encoding.TextMarshaler).MarshalText(); err == nil {
			t.Errorf("%s has text for a value that it does not know: %q", kind, text)
		}
		if s := fmt.Sprint(unknown); !strings.HasPrefix(s, kind+"(") {
			t.Errorf("an unknown %s is %q", kind, s)
		}
		for _, bad := range []string{"", " ", "0", "1", strings.ToUpper(e.names[2]), e.names[2] + " ", "x" + e.names[2], e.names[2] + "\x00", "unknown"} {
			v := e.empty()
			if err := v.(encoding.TextUnmarshaler).UnmarshalText([]byte(bad)); err == nil {
				t.Errorf("%s takes %q", kind, bad)
			}
			if reflect.ValueOf(v).Elem().Interface() != e.value(0) {
				t.Errorf("%s is %v after it refused %q, want the zero value", kind, v, bad)
			}
		}
		// A refusal also takes back what was there.
		v := reflect.ValueOf(e.empty())
		v.Elem().Set(reflect.ValueOf(e.value(2)))
		if err := v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte("bad")); err == nil || v.Elem().Interface() != e.value(0) {
			t.Errorf("%s was %s, refused a value and is %v now", kind, e.names[2], v.Elem())
		}
	}
}

// TestEveryEnumIsTested reads the source: a new type of numbered names needs a
// row above, and one of strings names nothing by its zero value.
func TestEveryEnumIsTested(t *testing.T) {
	types, constants := declared(t)
	numbers := 0
	for name, kind := range types {
		switch kind {
		case "uint8", "int", "uint", "uint16", "uint32":
			numbers++
			if _, ok := enums[name]; !ok {
				t.Errorf("type %s %s is in no table of this test", name, kind)
			}
		case "string":
			if len(constants[name]) == 0 {
				t.Errorf("type %s string has no values", name)
			}
			for _, value := range constants[name] {
				if value == `""` {
					t.Errorf("a value of %s is empty: the zero value must name nothing", name)
				}
			}
		}
	}
	if numbers != len(enums) || len(types) < 10 {
		t.Errorf("found %d numbered types of %d, and %d types: the test does not see the package", numbers, len(enums), len(types))
	}
}

// declared returns the package's named types with what they are of, and the
// constants of each.
func declared(t *testing.T) (types map[string]string, constants map[string][]string) {
	t.Helper()
	types, constants = map[string]string{}, map[string][]string{}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if id, ok := n.Type.(*ast.Ident); ok {
					types[n.Name.Name] = id.Name
				} else {
					types[n.Name.Name] = "other"
				}
			case *ast.ValueSpec:
				id, ok := n.Type.(*ast.Ident)
				if !ok || len(n.Values) == 0 {
					break
				}
				if value, ok := n.Values[0].(*ast.BasicLit); ok {
					constants[id.Name] = append(constants[id.Name], value.Value)
				}
			}
			return true
		})
	}
	return types, constants
}

// TestZeroValuesDeny walks all that the API's values are made of.
func TestZeroValuesDeny(t *testing.T) {
	seen := map[reflect.Type]bool{}
	found := 0
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
			walk(typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				if f := typ.Field(i); f.IsExported() {
					walk(f.Type)
				}
			}
		case reflect.Uint8:
			if typ.PkgPath() == "" {
				return
			}
			found++
			switch zero := fmt.Sprint(reflect.Zero(typ)); zero {
			case "deny", "none":
			default:
				t.Errorf("the zero %s is %q, want deny or none", typ, zero)
			}
		}
	}
	for _, v := range []any{api.Policy{}, api.Sandbox{}, api.Event{}, api.Decision{}, api.Probe{}, api.Error{}} {
		walk(reflect.TypeOf(v))
	}
	if found != len(enums) {
		t.Errorf("found %d numbered types, want %d", found, len(enums))
	}
}

// What a decoder leaves out, or is given in another form, grants nothing.
func TestDecodedDecisionsDeny(t *testing.T) {
	for text, ok := range map[string]bool{
		`{}`: true, `{"action":null}`: true, `{"verb":"connect","rule":"r"}`: true,
		`{"action":""}`: false, `{"action":2}`: false, `{"action":true}`: false, `{"action":"Allow"}`: false, `{"action":["allow"]}`: false,
	} {
		var d api.Decision
		err := json.Unmarshal([]byte(text), &d)
		if d.Action != api.ActionDeny || (err == nil) != ok {
			t.Errorf("%s: action %s, %v", text, d.Action, err)
		}
	}
	var d api.Decision
	if err := json.Unmarshal([]byte(`{"action":"allow"}`), &d); err != nil || d.Action != api.ActionAllow { // the control
		t.Errorf("allow: %s, %v", d.Action, err)
	}
	if _, err := json.Marshal(api.Decision{Action: 7}); err == nil {
		t.Error("an unknown action was encoded")
	}
}

func TestProbeOfWhatNobodyReported(t *testing.T) {
	p := api.Probe{Features: []api.Feature{{Name: api.FeatureTUN, Strength: api.StrengthHard}}}
	if f := p.Feature(api.FeatureSeccomp); f.Strength != api.StrengthNone || f.Name != api.FeatureSeccomp {
		t.Errorf("a feature that was not reported: %+v", f)
	}
	if f := p.Feature(api.FeatureTUN); f.Strength != api.StrengthHard {
		t.Errorf("a feature that was: %+v", f)
	}
}

func TestLossesAreClosedAndSaid(t *testing.T) {
	_, constants := declared(t)
	listed := map[string]bool{}
	for _, l := range api.Losses() {
		if l.Means == "" || strings.HasSuffix(l.Means, ".") || strings.ContainsAny(l.Means, "\n\t") || listed[string(l.Loss)] {
			t.Errorf("%s: %q is not one clause, said once", l.Loss, l.Means)
		}
		listed[string(l.Loss)] = true
	}
	if len(listed) != len(constants["Loss"]) {
		t.Errorf("%d losses are listed, %d are declared", len(listed), len(constants["Loss"]))
	}
}
