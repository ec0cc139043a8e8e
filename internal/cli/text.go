package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/api"
)

// maxLine bounds a line of ours: a name of a megabyte says no more than its start.
const maxLine = 600

// oneLine makes one line of s that shows all of it and commands no terminal.
func oneLine(s string) string {
	if len(s) > maxLine {
		cut := maxLine
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + fmt.Sprintf("... (%d bytes)", len(s))
	}
	if strings.IndexFunc(s, unshowable) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unshowable(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// quote shows a word of the caller's within a message: on one line, and only
// its start where it is long.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + fmt.Sprintf("... (%d bytes)", len(s))
	}
	return strconv.Quote(s)
}

// unshowable is what a terminal would obey, hide or turn around instead of show.
func unshowable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// table writes rows in columns, two blanks between them; the last column is as
// long as it is. A cell is one line.
func table(w *bytes.Buffer, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		if len(row) == 1 {
			continue // a line of its own among the rows
		}
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(oneLine(c.text)))
		}
	}
	for _, row := range rows {
		last := len(row) - 1
		for last > 0 && row[last].text == "" {
			last--
		}
		for i, c := range row[:last+1] {
			text := oneLine(c.text)
			w.WriteString(c.start)
			w.WriteString(text)
			if c.start != "" {
				w.WriteString(colourOff)
			}
			if i < last {
				w.WriteString(strings.Repeat(" ", widths[i]+2-utf8.RuneCountInString(text)))
			}
		}
		w.WriteByte('\n')
	}
}

// cell is one cell of a table, with the colour that it starts with, if any.
type cell struct{ text, start string }

// cells makes a row without colour.
func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, t := range texts {
		row[i].text = t
	}
	return row
}

// The colours: escape sequences of the eight that every terminal has.
const (
	colourOff    = "\x1b[0m"
	colourBold   = "\x1b[1m"
	colourRed    = "\x1b[31m"
	colourGreen  = "\x1b[32m"
	colourYellow = "\x1b[33m"
)

// paint makes a cell in a colour where colours are wanted.
func (u *ui) paint(colour, text string) cell {
	if !u.colour {
		return cell{text: text}
	}
	return cell{text: text, start: colour}
}

// strength makes the cell of a strength.
func (u *ui) strength(s api.Strength) cell {
	switch s {
	case api.StrengthHard:
		return u.paint(colourGreen, s.String())
	case api.StrengthSoft:
		return u.paint(colourYellow, s.String())
	default:
		return u.paint(colourRed, s.String())
	}
}

// heading makes a row of column names.
func (u *ui) heading(names ...string) []cell {
	row := make([]cell, len(names))
	for i, n := range names {
		row[i] = u.paint(colourBold, n)
	}
	return row
}
