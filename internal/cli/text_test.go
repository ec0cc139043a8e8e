package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":           "plain",
		"größe 日本":        "größe 日本",
		"two\nlines\r\t.": `two\nlines\r\t.`,
		"\x1b[31mred":     `\x1b[31mred`,
		"bad\xffutf8":     `bad\xffutf8`,
		"\u202Etxt.exe":   `\u202etxt.exe`,
		"zero\u200bwidth": `zero\u200bwidth`,
		"\ufffd":          `�`,
	} {
		if diff := cmp.Diff(want, oneLine(in)); diff != "" {
			t.Errorf("oneLine(%q): %s", in, diff)
		}
	}
}

func TestOneLineIsBounded(t *testing.T) {
	got := oneLine(strings.Repeat("日", 1<<20))
	if len(got) > maxLine+40 || !strings.HasSuffix(got, "日... (3145728 bytes)") {
		t.Errorf("a line of %d bytes that ends %q", len(got), got[len(got)-40:])
	}
}

func TestTable(t *testing.T) {
	u := &ui{}
	var b bytes.Buffer
	table(&b, [][]cell{u.heading("NAME", "WHAT", "WHY"), cells("a\nb", "größe", ""), cells("x", "y", "z z")})
	want := "NAME  WHAT   WHY\n" +
		"a\\nb  größe\n" +
		"x     y      z z\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"run", "ls", "doctor", "policy", "version", "completion", "soft-limits"}
	for word, want := range map[string]string{
		"rnu": "run", "vesrion": "version", "doc": "doctor", "polcy": "policy", "softlimits": "soft-limits",
		"l": "ls", "frobnicate": "", "": "", strings.Repeat("run", 1000): "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}
