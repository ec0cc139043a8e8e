package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBoundsOfTexts: what is too large is refused, and the largest that is not
// costs little, whatever it is made of. Positive control: a full list parses.
func TestBoundsOfTexts(t *testing.T) {
	full := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ text, want string }{
		"too long":       {"version: 1\n#" + strings.Repeat("x", maxFile), "longer than"},
		"long list":      {"version: 1\nfilesystem:\n  read:\n" + full(maxList+1, "    - /a/%d\n"), "more than 4096"},
		"full list":      {"version: 1\nfilesystem:\n  read:\n" + full(maxList, "    - /a/%d\n"), ""},
		"full rules":     {"version: 1\nnetwork:\n  allow:\n" + full(maxList, "    - {host: n%d.example.org, methods: [GET]}\n"), ""},
		"brackets":       {"version: 1\nenv: " + strings.Repeat("[", maxFile-100), "p.yaml:"},
		"braces":         {strings.Repeat("{a: ", maxFile/4-10), "p.yaml:"},
		"indentation":    {"version: 1\n" + full(1000, "%d:\n"+strings.Repeat(" ", 900)), "p.yaml:"},
		"many keys":      {"version: 1\nenv:\n" + full(60000, "  A%d: x\n"), ""},
		"unknown keys":   {full(60000, "k%d: 1\n"), "unknown key"},
		"one long value": {"version: 1\nimage: " + strings.Repeat("a", maxFile-100), ""},
		"many documents": {strings.Repeat("---\n", maxFile/4-10), "p.yaml:"},
		"quotes":         {"version: 1\nimage: \"" + strings.Repeat("\\\"", maxFile/2-100), "p.yaml:"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			f, err := Parse("p.yaml", []byte(c.text))
			if err == nil {
				if layers, err := Stack("", f); err == nil {
					_, err = Check(layers)
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			} else {
				t.Logf("took %v", took)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
		})
	}
}
