package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/caisson-dev/caisson/api"
)

// Parse reads one policy text. The name is what messages call it. Everything
// that the grammar does not know is an *api.Error with the code "policy" and a
// message "NAME:LINE: what".
func Parse(name string, text []byte) (*File, error) {
	return parse(name, text, true)
}

func parse(name string, text []byte, user bool) (*File, error) {
	f := &File{Name: name, user: user, at: make(map[string]api.Origin, 32)}
	d := &decoder{file: f}
	if len(text) > maxFile {
		return nil, d.fail(1, "split it with `extends`", "longer than %d bytes", maxFile)
	}
	root, err := d.document(text)
	if err != nil {
		return nil, err
	}
	if err := d.plain(root, 0); err != nil {
		return nil, err
	}
	if err := d.mapping(root, reflect.ValueOf(&f.Policy).Elem(), ""); err != nil {
		return nil, err
	}
	return f, nil
}

// document gives the root mapping of a text that is one YAML document.
func (d *decoder) document(text []byte) (*yaml.Node, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, d.fail(1, "write `version: 1` first", "the file is empty")
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make YAML loader: %w", err)
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, d.fail(1, "write `version: 1` first", "the file holds no policy")
	} else if err != nil {
		return nil, d.syntax(err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, d.fail(second.Line, "keep one document: remove the line `---` and what follows", "a second YAML document")
	case !errors.Is(err, io.EOF):
		return nil, d.syntax(err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, d.fail(root.Line, "write `version: 1` first, then one key per line", "a policy is a mapping of keys, not %s", describe(root))
	}
	return root, nil
}

// syntax turns an error of the YAML reader into ours.
func (d *decoder) syntax(err error) error {
	line, what := 1, err.Error()
	if le, ok := errors.AsType[*yaml.LoadError](err); ok {
		line, what = max(le.Mark.Line, le.ContextMark.Line, 1), le.Message
	}
	return d.fail(line, "check indentation, quotes and brackets", "not YAML: %s", oneLine(what))
}

// maxDepth bounds nesting; the deepest key of the grammar is at 7.
const maxDepth = 16

// plain refuses what makes YAML more than keys, lists and values: anchors and
// aliases (they multiply), merge keys and tags (they change meanings unseen).
func (d *decoder) plain(n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return d.fail(n.Line, "no key lies that deep", "nested too deeply")
	case n.Kind == yaml.AliasNode:
		return d.fail(n.Line, "write the value out", "an alias (*%s) is not part of the policy grammar", n.Value)
	case n.Anchor != "":
		return d.fail(n.Line, "remove it and write values out", "an anchor (&%s) is not part of the policy grammar", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		return d.fail(n.Line, "remove the tag", "a tag (%s) is not part of the policy grammar", n.Tag)
	}
	for _, c := range n.Content {
		if err := d.plain(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// describe names what a node is, for messages.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "nothing (null)"
	case n.ShortTag() == "!!int", n.ShortTag() == "!!float":
		return "the number " + quote(n.Value)
	case n.ShortTag() == "!!bool":
		return "the truth value " + n.Value
	}
	return "the text " + quote(n.Value)
}

// oneLine keeps foreign text on one line and printable.
func oneLine(s string) string {
	for _, c := range s {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			q := strconv.Quote(s)
			return q[1 : len(q)-1]
		}
	}
	return s
}
