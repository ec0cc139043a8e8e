package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/caisson-dev/caisson/api"
)

// maxFile bounds a policy file in bytes. The longest one in the field has a
// few hundred rules; this holds ten thousand.
const maxFile = 1 << 20

// File is one checked policy text with the place of each of its values.
type File struct {
	Name   string // as it stands in messages: "policy.yaml", "preset claude"
	Policy api.Policy

	user bool                  // the user wrote it: its values must be hard
	base bool                  // the fragment that is underneath all others
	at   map[string]api.Origin // by key: "limits.memory", "network.allow[0]"
}

// Origin says where the value of a key stands. A key without a place of its
// own has the place of the file.
func (f *File) Origin(key string) api.Origin {
	if o, ok := f.at[key]; ok {
		return o
	}
	if f.base {
		return api.Origin{Source: f.Name, Line: baseLine(key)}
	}
	return api.Origin{Source: f.Name, User: f.user}
}

// item is the key of one element of a list.
func item(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

// ReadFile reads and parses a policy file that the user named.
func ReadFile(name string) (*File, error) {
	text, err := readCapped(name)
	if err != nil {
		hint := "name a file that you can read, or leave --policy out"
		if errors.Is(err, os.ErrNotExist) {
			hint = "check the name, or write a first one with `caisson policy init`"
		}
		return nil, &api.Error{Code: api.CodePolicy, Message: "cannot read policy " + quote(name) + ": " + reason(err), Hint: hint}
	}
	return Parse(name, text)
}

// readCapped reads a regular file of at most maxFile bytes, and one byte more
// so that Parse sees that it is too long.
func readCapped(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("is a folder")
	}
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// reason is the cause of a file error without the operation and the name.
func reason(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// place writes an origin as a message starts with it: "FILE:LINE" or "flag --x".
func place(o api.Origin) string {
	if o.Line > 0 {
		return o.Source + ":" + strconv.Itoa(o.Line)
	}
	return o.Source
}

// fail makes the error for a value that stands at o.
func fail(code api.Code, o api.Origin, hint, format string, args ...any) *api.Error {
	return &api.Error{Code: code, Message: place(o) + ": " + fmt.Sprintf(format, args...), Hint: hint}
}

// quote shows text of a file in a message: control characters escaped, and cut
// where it is long.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}
