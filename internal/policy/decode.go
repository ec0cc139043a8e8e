package policy

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/caisson-dev/caisson/api"
)

// decoder fills the types of api from YAML nodes. The structs are the grammar:
// a key is a field's yaml tag and nothing else.
type decoder struct{ file *File }

func (d *decoder) fail(line int, hint, format string, args ...any) error {
	return fail(api.CodePolicy, api.Origin{Source: d.file.Name, Line: line}, hint, format, args...)
}

// mapping decodes a node into a struct. key is where it stands, "" at the top.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, key string) error {
	if n.Kind != yaml.MappingNode {
		return d.fail(n.Line, "write its keys below it, indented", "%s is a mapping, not %s", key, describe(n))
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if err := d.fresh(k, seen); err != nil {
			return err
		}
		field := fieldOf(v.Type(), k.Value)
		if field < 0 {
			return d.unknownKey(k, v.Type(), key)
		}
		name := k.Value
		if key != "" {
			name = key + "." + name
		}
		d.mark(name, k.Line)
		at := v.Type().Name() + "." + v.Type().Field(field).Name
		if err := d.value(val, v.Field(field), name, at); err != nil {
			return err
		}
	}
	if what, hint := checkStruct(v.Addr().Interface(), seen); what != "" {
		return d.fail(n.Line, hint, "%s", what)
	}
	return nil
}

// fresh checks that a key is text and not said twice.
func (d *decoder) fresh(k *yaml.Node, seen map[string]int) error {
	if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" {
		return d.fail(k.Line, "keys are words", "%s is no key", describe(k))
	}
	if first, ok := seen[k.Value]; ok {
		return d.fail(k.Line, "keep one of them", "%s was already said in line %d", quote(k.Value), first)
	}
	seen[k.Value] = k.Line
	return nil
}

func (d *decoder) unknownKey(k *yaml.Node, t reflect.Type, key string) error {
	where := ""
	if key != "" {
		where = " in " + key
	}
	return d.fail(k.Line, didYouMean(k.Value, keysOf(t)), "unknown key %s%s", quote(k.Value), where)
}

// mark keeps the line of a key.
func (d *decoder) mark(key string, line int) {
	d.file.at[key] = api.Origin{Source: d.file.Name, Line: line, User: d.file.user}
}

// value decodes a node into a field. at names the field for checkText.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key, at string) error {
	if n.ShortTag() == "!!null" && n.Kind == yaml.ScalarNode {
		if at == "GitRule.Export" {
			return nil
		}
		return d.fail(n.Line, "give it a value, or remove the line", "%s has no value", key)
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!merge" {
		return d.fail(n.Line, "write the value out", "merge keys are not part of the policy grammar")
	}
	switch p := v.Addr().Interface().(type) {
	case *api.Bytes:
		return d.amount(n, key, p.UnmarshalText, func() bool { return *p > 0 })
	case *api.Duration:
		return d.amount(n, key, p.UnmarshalText, func() bool { return *p > 0 })
	case *api.NetworkRule:
		return d.rule(n, p, key)
	}
	switch v.Kind() {
	case reflect.String:
		return d.text(n, v, key, at)
	case reflect.Bool:
		return d.boolean(n, v, key)
	case reflect.Int, reflect.Int64, reflect.Float64:
		return d.number(n, v, key, at)
	case reflect.Slice:
		return d.list(n, v, key, at)
	case reflect.Map:
		return d.environment(n, v, key)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(n, v.Elem(), key, at)
	case reflect.Struct:
		return d.mapping(n, v, key)
	}
	return fmt.Errorf("policy: no decoder for %s: this is a defect of Caisson", v.Type())
}

// maxList bounds one list: some steps compare each element with each other.
const maxList = 4096

func (d *decoder) list(n *yaml.Node, v reflect.Value, key, at string) error {
	if len(n.Content) > maxList {
		return d.fail(n.Line, "name folders instead of files, or wildcards instead of names", "%s has more than %d elements", key, maxList)
	}
	if n.Kind != yaml.SequenceNode {
		return d.fail(n.Line, "write ["+oneLine(shorten(n.Value))+"]", "%s is a list, not %s", key, describe(n))
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		k := item(key, i)
		d.mark(k, c.Line)
		if err := d.value(c, out.Index(i), k, at); err != nil {
			return err
		}
	}
	v.Set(out)
	if what, hint := checkList(at, v.Interface()); what != "" {
		return d.fail(n.Line, hint, "%s: %s", key, what)
	}
	return nil
}

// text decodes a string, checked and normalised by checkText.
func (d *decoder) text(n *yaml.Node, v reflect.Value, key, at string) error {
	// A port alone is a number to YAML, and a fine thing to publish.
	numeric := at == "Network.Publish" && n.ShortTag() == "!!int"
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && !numeric {
		hint := "write one word or a quoted text"
		if n.Kind == yaml.ScalarNode {
			hint = "write " + strconv.Quote(n.Value) + ", in quotes"
		}
		return d.fail(n.Line, hint, "%s is text, not %s", key, describe(n))
	}
	s, what, hint := checkText(at, n.Value)
	if what != "" {
		return d.fail(n.Line, hint, "%s: %s", key, what)
	}
	v.SetString(s)
	return nil
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value, key string) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Value != "true" && n.Value != "false" {
		return d.fail(n.Line, "write true or false", "%s is true or false, not %s", key, describe(n))
	}
	v.SetBool(n.Value == "true")
	return nil
}

func (d *decoder) number(n *yaml.Node, v reflect.Value, key, at string) error {
	hint := "write a number above 0; to leave it unlimited, remove the line"
	if at == "NetworkRule.Ports" || at == "ServiceReady.TCP" {
		hint = "write a port from 1 to 65535, without quotes"
	}
	wrong := func() error {
		return d.fail(n.Line, hint, "%s is a number above 0, not %s", key, describe(n))
	}
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return wrong()
	}
	if v.Kind() == reflect.Float64 {
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !(f > 0) || math.IsInf(f, 0) || strings.ContainsAny(n.Value, "xXpP_") {
			return wrong()
		}
		v.SetFloat(f)
		return nil
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || i <= 0 || n.Value[0] == '+' {
		return wrong()
	}
	if what, hint := checkNumber(at, i); what != "" {
		return d.fail(n.Line, hint, "%s: %s", key, what)
	}
	v.SetInt(i)
	return nil
}

// amount decodes a size or a span of time; both are above zero.
func (d *decoder) amount(n *yaml.Node, key string, set func([]byte) error, positive func() bool) error {
	if n.Kind != yaml.ScalarNode {
		return d.fail(n.Line, "write it as 4GiB or 10m", "%s is one value, not %s", key, describe(n))
	}
	if err := set([]byte(n.Value)); err != nil {
		what, hint, _ := strings.Cut(strings.TrimPrefix(err.Error(), "api: "), ": ")
		return d.fail(n.Line, hint, "%s: %s", key, what)
	}
	if !positive() {
		return d.fail(n.Line, "to leave it unlimited, remove the line", "%s must be above 0", key)
	}
	return nil
}

// environment decodes NAME: value, where null removes.
func (d *decoder) environment(n *yaml.Node, v reflect.Value, key string) error {
	if n.Kind != yaml.MappingNode {
		return d.fail(n.Line, `write {NAME: "value"}`, "%s is a mapping of names to values, not %s", key, describe(n))
	}
	out, seen := make(map[string]*string, len(n.Content)/2), map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if err := d.fresh(k, seen); err != nil {
			return err
		}
		if what, hint := checkEnvName(k.Value); what != "" {
			return d.fail(k.Line, hint, "%s: %s", key, what)
		}
		name := key + "." + k.Value
		d.mark(name, k.Line)
		if val.Kind == yaml.ScalarNode && val.ShortTag() == "!!null" {
			out[k.Value] = nil
			continue
		}
		s := new(string)
		if err := d.text(val, reflect.ValueOf(s).Elem(), name, "Policy.Env"); err != nil {
			return err
		}
		out[k.Value] = s
	}
	v.Set(reflect.ValueOf(out))
	return nil
}

// rule decodes a network rule: the short form as a string, or a mapping.
func (d *decoder) rule(n *yaml.Node, r *api.NetworkRule, key string) error {
	switch {
	case n.Kind != yaml.ScalarNode:
		if err := d.mapping(n, reflect.ValueOf(r).Elem(), key); err != nil {
			return err
		}
	case n.ShortTag() != "!!str":
		return d.fail(n.Line, "write NAME, NAME:PORT, @PRESET or a mapping with host", "%s is a rule, not %s", key, describe(n))
	default:
		short, what, hint := shortRule(n.Value)
		if what != "" {
			return d.fail(n.Line, hint, "%s: %s", key, what)
		}
		*r = short
	}
	rest, wild := strings.CutPrefix(r.Host, "*.")
	if what, hint := tooWide(rest); wild && what != "" && !strings.HasPrefix(key, "network.deny") {
		return d.fail(n.Line, hint, "%s: %s", key, what)
	}
	return nil
}

// fieldOf finds the field with a yaml key, -1 if there is none.
func fieldOf(t reflect.Type, key string) int {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") == key && key != "-" {
			return i
		}
	}
	return -1
}

// keysOf lists the yaml keys of a struct.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if k := t.Field(i).Tag.Get("yaml"); k != "-" {
			keys = append(keys, k)
		}
	}
	return keys
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
