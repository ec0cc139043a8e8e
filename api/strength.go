package api

import "fmt"

// Strength says how firmly a point of a plan is enforced on this host.
// The zero value is StrengthNone: what nobody measured is not enforced.
type Strength uint8

// The strengths, weakest first, so that they compare with <.
const (
	// StrengthNone: nothing enforces the point.
	StrengthNone Strength = iota
	// StrengthSoft: a watcher or an approximation enforces it; a program that
	// tries can exceed it for a while.
	StrengthSoft
	// StrengthHard: the kernel (an rlimit included) or the VMM enforces it.
	StrengthHard
)

var strengthNames = [...]string{"none", "soft", "hard"}

// String returns "none", "soft" or "hard".
func (s Strength) String() string {
	if int(s) < len(strengthNames) {
		return strengthNames[s]
	}
	return fmt.Sprintf("Strength(%d)", uint8(s))
}

// MarshalText returns the name; an unknown value is an error.
func (s Strength) MarshalText() ([]byte, error) {
	return enumText(strengthNames[:], int(s), "strength")
}

// UnmarshalText accepts exactly the names.
func (s *Strength) UnmarshalText(b []byte) error {
	i, err := enumIndex(strengthNames[:], b, "strength")
	*s = Strength(i)
	return err
}

// Action is what a decision grants. The zero value denies.
type Action uint8

// The actions.
const (
	ActionDeny Action = iota
	ActionAsk
	ActionAllow
)

var actionNames = [...]string{"deny", "ask", "allow"}

// String returns "deny", "ask" or "allow".
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

// MarshalText returns the name; an unknown value is an error.
func (a Action) MarshalText() ([]byte, error) { return enumText(actionNames[:], int(a), "action") }

// UnmarshalText accepts exactly the names.
func (a *Action) UnmarshalText(b []byte) error {
	i, err := enumIndex(actionNames[:], b, "action")
	*a = Action(i)
	return err
}

func enumText(names []string, i int, kind string) ([]byte, error) {
	if i >= len(names) {
		return nil, fmt.Errorf("api: unknown %s %d", kind, i)
	}
	return []byte(names[i]), nil
}

func enumIndex(names []string, b []byte, kind string) (int, error) {
	for i, n := range names {
		if n == string(b) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("api: unknown %s %q", kind, b)
}
