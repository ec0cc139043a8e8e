// Package credential keeps secrets outside of sandboxes: where they come from,
// what they are bound to, and how they are put into a request at the last
// moment.
package credential

import (
	"context"
	"fmt"
	"io"
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

// Secret is one value with its end. Whatever prints or encodes it, alone or
// within another value, gets "[secret]" or an address. A copy is the same secret.
type Secret struct {
	// value is behind a function: fmt reaches into the unexported fields of other
	// types, where it calls no methods, and follows pointers for a verb that it does not
	// know. Of a function it prints the address.
	value   func() []byte
	Expires time.Time // zero: not known
}

// NewSecret makes a secret of value, which is then the secret's.
func NewSecret(value []byte, expires time.Time) Secret {
	return Secret{value: func() []byte { return value }, Expires: expires}
}

// Reveal returns the value itself, not a copy: it is gone after Clear.
func (s Secret) Reveal() []byte {
	if s.value == nil {
		return nil
	}
	return s.value()
}

// Clear overwrites the value.
func (s Secret) Clear() { clear(s.Reveal()) }

const hidden = "[secret]"

// String hides the value.
func (Secret) String() string { return hidden }

// Format hides the value from every verb, the numeric ones too.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the value.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
