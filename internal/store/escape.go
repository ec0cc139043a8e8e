//go:build linux

package store

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/api"
)

// escapeEvent makes the texts of an event safe to print: a sandbox chooses
// names and targets, and a person reads them in a terminal. The caller's Decision and Data
// stay as they are.
func escapeEvent(e *api.Event) {
	e.Message = escape(e.Message)
	if e.Decision != nil {
		d := *e.Decision
		d.Target, d.Rule, d.Reason, d.Hint = escape(d.Target), escape(d.Rule), escape(d.Reason), escape(d.Hint)
		e.Decision = &d
	}
	if e.Process != nil {
		p := *e.Process
		p.Executable = escape(p.Executable)
		e.Process = &p
	}
	var data map[string]string
	for key, value := range e.Data {
		if data == nil {
			data = make(map[string]string, len(e.Data))
		}
		data[escape(key)] = escape(value)
	}
	e.Data = data
}

// escape writes what does not print (control characters, marks that turn the
// direction of text, bytes that are no UTF-8) as in a Go string.
func escape(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == '\uFFFD' && size == 1:
			b.WriteString(`\x`)
			b.WriteString(strconv.FormatUint(uint64(s[0]), 16)) // 80 to ff: two digits
		case strconv.IsPrint(r):
			b.WriteString(s[:size])
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}
