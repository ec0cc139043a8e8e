//go:build linux

package store

import (
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/api"
)

// encodeRecord and encodeEvent write what json.Marshal would, which builds its
// encoder of a type at the first use: 0.2 ms of every start. A test compares them for
// every field of the types.
func encodeRecord(rec *api.Sandbox) ([]byte, error) {
	o := newObject(make([]byte, 0, 512+256*len(rec.Points)))
	o.text("id", rec.ID)
	o.optional("name", rec.Name)
	o.text("tier", string(rec.Tier))
	o.text("image", rec.Image)
	o.text("state", string(rec.State))
	o.optional("reason", rec.Reason)
	o.time("created", rec.Created)
	o.list("command", len(rec.Command), func(i int) { o.b = appendText(o.b, rec.Command[i]) })
	o.optional("workspace", rec.Workspace)
	o.text("policy", rec.Policy)
	o.optionalInt("keeper_pid", rec.KeeperPID)
	o.optionalInt("init_pid", rec.InitPID)
	o.list("points", len(rec.Points), func(i int) {
		p := &rec.Points[i]
		o.open()
		o.text("name", p.Name)
		o.text("value", p.Value)
		o.named("strength", p.Strength)
		o.origin(p.Origin)
		o.optional("reason", p.Reason)
		o.optional("loss", string(p.Loss))
		o.close()
	})
	o.close()
	return o.b, o.err
}

func encodeEvent(e *api.Event) ([]byte, error) {
	o := newObject(make([]byte, 0, 512+len(e.Message)))
	o.key("seq")
	o.b = strconv.AppendUint(o.b, e.Seq, 10)
	o.time("time", e.Time)
	o.text("sandbox", e.Sandbox)
	o.text("kind", string(e.Kind))
	if d := e.Decision; d != nil {
		o.key("decision")
		o.open()
		o.named("action", d.Action)
		o.text("verb", d.Verb)
		o.text("target", d.Target)
		o.optional("rule", d.Rule)
		o.origin(d.Origin)
		o.optional("reason", d.Reason)
		o.optional("hint", d.Hint)
		o.close()
	}
	if p := e.Process; p != nil {
		o.key("process")
		o.open()
		o.key("pid")
		o.b = strconv.AppendInt(o.b, int64(p.PID), 10)
		o.optional("executable", p.Executable)
		o.close()
	}
	if len(e.Data) > 0 {
		o.key("data")
		o.open()
		for _, key := range slices.Sorted(maps.Keys(e.Data)) {
			o.text(key, e.Data[key])
		}
		o.close()
	}
	o.optional("message", e.Message)
	o.optional("previous", e.Previous)
	o.close()
	return o.b, o.err
}

// object is JSON that is being written.
type object struct {
	b   []byte
	err error // the first
}

func newObject(b []byte) *object { return &object{b: append(b, '{')} }

func (o *object) open()  { o.b = append(o.b, '{') }
func (o *object) close() { o.b = append(o.b, '}') }

// key writes a comma, unless it is the first one of its object, and the key.
func (o *object) key(key string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(appendText(o.b, key), ':')
}

func (o *object) text(key, value string) {
	o.key(key)
	o.b = appendText(o.b, value)
}

func (o *object) optional(key, value string) {
	if value != "" {
		o.text(key, value)
	}
}

func (o *object) optionalInt(key string, value int) {
	if value != 0 {
		o.key(key)
		o.b = strconv.AppendInt(o.b, int64(value), 10)
	}
}

// named writes the name of a numbered value; an unknown one is an error.
func (o *object) named(key string, value interface{ MarshalText() ([]byte, error) }) {
	name, err := value.MarshalText()
	if err != nil && o.err == nil {
		o.err = err
	}
	o.text(key, string(name))
}

func (o *object) time(key string, t time.Time) {
	o.key(key)
	b, err := t.AppendText(append(o.b, '"'))
	if err != nil && o.err == nil {
		o.err = err
	}
	o.b = append(b, '"')
}

func (o *object) origin(origin api.Origin) {
	o.key("origin")
	o.open()
	o.text("source", origin.Source)
	o.optionalInt("line", origin.Line)
	if origin.User {
		o.key("user")
		o.b = append(o.b, "true"...)
	}
	o.close()
}

func (o *object) list(key string, n int, element func(i int)) {
	if n == 0 {
		return
	}
	o.key(key)
	for i := range n {
		o.b = append(o.b, "[,"[min(i, 1)])
		element(i)
	}
	o.b = append(o.b, ']')
}

// appendText appends s as a JSON string. What HTML or JavaScript would obey is
// escaped, and bytes that are no UTF-8 become U+FFFD, as in encoding/json.
func appendText(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == '"', r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < ' ', r == '<', r == '>', r == '&':
			b = append(b, `\u00`...)
			b = append(b, digits[r>>4], digits[r&15])
		case r == utf8.RuneError && size == 1:
			b = append(b, `\ufffd`...)
		case r == '\u2028', r == '\u2029':
			b = append(b, `\u202`...)
			b = append(b, digits[r&15])
		default:
			b = append(b, s[:size]...)
		}
		s = s[size:]
	}
	return append(b, '"')
}
