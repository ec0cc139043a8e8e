package api

// Error is a failure told to a person or a program: what went wrong, and what
// to do about it. Every command prints one as "caisson: MESSAGE" and
// "caisson: HINT", or as this object with --json.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`        // one line, no trailing period: what and why
	Hint    string `json:"hint,omitempty"` // one line: what to do
}

// Error returns the message alone; the hint is for the printer.
func (e *Error) Error() string { return e.Message }

// Code names a kind of failure that a program may branch on.
type Code string

// The codes. A new one needs a caller that tells it from the others.
const (
	CodeUsage       Code = "usage"           // the call's words are wrong
	CodePolicy      Code = "policy"          // the policy is malformed or contradicts itself
	CodeCeiling     Code = "ceiling"         // the ceiling does not allow it
	CodeStrength    Code = "strength"        // a point cannot be enforced as strongly as asked
	CodeNotBuilt    Code = "not-in-build"    // a part of the contract that this build lacks
	CodeUnsupported Code = "unsupported"     // this tier or this system cannot do it
	CodeHost        Code = "host"            // the host lacks something or refused it
	CodeWorkspace   Code = "workspace"       // the workspace cannot be used
	CodeNotFound    Code = "not-found"       // no such sandbox, preset, ...
	CodeGone        Code = "gone"            // it was there; the message says why it ended
	CodeNotExec     Code = "not-executable"  // the command cannot be executed (exit 126)
	CodeNoCommand   Code = "command-missing" // the command was not found (exit 127)
	CodeLimit       Code = "limit"           // a limit ended it
	CodeInternal    Code = "internal"        // "cannot happen": a defect of ours
)

// Exit codes of `caisson run`, beside the command's own and 128+N for a signal.
const (
	ExitTimeout       = 124 // the wall time ran out
	ExitFailed        = 125 // Caisson refused or failed
	ExitNotExecutable = 126 // the command exists and cannot be executed
	ExitNotFound      = 127 // the command does not exist
	ExitKilled        = 137 // killed for a limit; the reason is on stderr
)
