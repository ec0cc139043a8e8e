package policy

import (
	"errors"
	"os"

	"github.com/caisson-dev/caisson/api"
)

// CeilingPath is where the ceiling of a host stands.
const CeilingPath = "/etc/caisson/ceiling.yaml"

// ReadCeiling reads a ceiling, which bounds what any policy, flag or approval
// can grant. No file: no ceiling. One that cannot be read or parsed refuses
// everything.
func ReadCeiling(name string) (*File, error) {
	text, err := readCapped(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	const hint = "the host's administrator must mend it; until then nothing runs here"
	if err != nil {
		return nil, &api.Error{Code: api.CodeCeiling, Message: "cannot read the ceiling " + name + ": " + reason(err), Hint: hint}
	}
	f, err := Parse(name, text)
	if err != nil {
		return nil, &api.Error{Code: api.CodeCeiling, Message: "the ceiling is wrong: " + err.Error(), Hint: hint}
	}
	return f, nil
}

// bound refuses a policy that exceeds the ceiling.
func bound(m *merged, ceiling *File, c *Caller, f *files) error {
	if ceiling == nil {
		return nil
	}
	return &api.Error{Code: api.CodeNotBuilt, Message: "a ceiling is not in this build: " + ceiling.Name, Hint: "remove it, or use a build that has it"}
}
