package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/caisson-dev/caisson/api"
)

// ui is how Caisson talks. The rules:
//
//   - What a command was asked for goes to standard output: text for people, or
//     with --json one JSON document. Nothing else ever does.
//   - Caisson's own words go to standard error, one line each, "caisson: ..."
//     (with --json one JSON object a line). A failure is one line and, where
//     there is something to do about it, one line "caisson: hint: ...".
//   - One line is one line: what would move the cursor, end the line or turn the
//     direction of writing is shown escaped, whoever wrote it.
//   - Colour only says again what words say, only on a terminal, and never with
//     NO_COLOR set or TERM=dumb.
//   - Nothing is ever asked of somebody who is not at a terminal.
type ui struct {
	out, err io.Writer
	json     bool
	colour   bool // of out
}

func newUI(out, err *os.File, getenv func(string) string) *ui {
	return &ui{
		out:    out,
		err:    err,
		colour: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && isTerminal(out),
	}
}

// isTerminal tells whether f is a terminal. A character device that is none,
// such as /dev/null, counts as one: there colour does no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// fail tells a failure.
func (u *ui) fail(e *api.Error) {
	if u.json {
		u.errJSON(e)
		return
	}
	text := "caisson: " + oneLine(e.Message) + "\n"
	if e.Hint != "" {
		text += "caisson: hint: " + oneLine(e.Hint) + "\n"
	}
	// One write, so that the lines of several processes do not mix.
	_, _ = io.WriteString(u.err, text) // nobody is left to tell
}

// warn tells one line that is not a failure.
func (u *ui) warn(line string) {
	if u.json {
		u.errJSON(struct {
			Warning string `json:"warning"`
		}{line})
		return
	}
	_, _ = io.WriteString(u.err, "caisson: "+oneLine(line)+"\n")
}

func (u *ui) errJSON(v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintf(&b, "{\"code\":%q,\"message\":%q}\n", api.CodeInternal, err)
	}
	_, _ = u.err.Write(b.Bytes())
}

// print writes the answer of a command: v with --json, else what text writes.
// An answer that could not be written is a failure, not a success.
func (u *ui) print(v any, text func(w *bytes.Buffer)) error {
	var b bytes.Buffer
	if u.json {
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
	} else {
		text(&b)
	}
	if _, err := u.out.Write(b.Bytes()); err != nil {
		return &api.Error{
			Code:    api.CodeHost,
			Message: fmt.Sprintf("cannot write the answer: %v", err),
			Hint:    "check where standard output goes",
		}
	}
	return nil
}
