// Package credential keeps secrets outside of sandboxes: where they come from,
// what they are bound to, and how they are put into a request at the last
// moment.
package credential

import (
	"context"
	"time"
)

// Source reads one secret from where it is kept: an environment variable, a
// file, a command, an encrypted store, a cloud chain. It is read late, by the
// keeper's side only, and again when the secret expires. Implementations hold
// no copy after Read returns.
type Source interface {
	// Read returns the secret as it is now. An error never contains any part
	// of it.
	Read(ctx context.Context) (Secret, error)
	// Name is the source as the policy wrote it ("env:NAME", "exec:gh auth token");
	// it may be shown.
	Name() string
}

// Secret is one value with its end. It prints as "[secret]".
type Secret struct {
	Value   []byte
	Expires time.Time // zero: not known
}

// String hides the value.
func (Secret) String() string { return "[secret]" }

// GoString hides the value.
func (Secret) GoString() string { return "[secret]" }

// MarshalText hides the value.
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Clear overwrites the value.
func (s Secret) Clear() { clear(s.Value) }
