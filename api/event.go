package api

import "time"

// Decision is the answer to one question that a sandbox put to its policy. The
// zero value denies.
type Decision struct {
	Action Action `json:"action"`
	Verb   string `json:"verb"`             // "connect", "read", "write", "exec", "env", "credential", "push", ...
	Target string `json:"target"`           // what it is about, control characters escaped: "api.github.com:443"
	Rule   string `json:"rule,omitempty"`   // the rule that decided; empty: none matched, so it is denied
	Origin Origin `json:"origin"`           // where that rule stands
	Reason string `json:"reason,omitempty"` // in words
	Hint   string `json:"hint,omitempty"`   // how to allow it
}

// Event is one record of what happened in or to a sandbox. Audit, usage and
// metrics are views of events. Events are JSON lines in the sandbox's folder,
// written by its keeper; Seq counts from 1 without a gap.
type Event struct {
	Seq      uint64            `json:"seq"`
	Time     time.Time         `json:"time"` // UTC
	Sandbox  string            `json:"sandbox"`
	Kind     EventKind         `json:"kind"`
	Decision *Decision         `json:"decision,omitempty"`
	Process  *Process          `json:"process,omitempty"` // inside, where it can be seen
	Data     map[string]string `json:"data,omitempty"`    // further facts by kind; never a secret
	Message  string            `json:"message,omitempty"` // for people; control characters escaped
	Previous string            `json:"previous,omitempty"`
}

// Process names a program inside a sandbox as the host sees it.
type Process struct {
	PID        int    `json:"pid"` // inside
	Executable string `json:"executable,omitempty"`
}

// EventKind names what happened.
type EventKind string

// The kinds of events.
const (
	EventCreated  EventKind = "created"  // Data: tier, policy digest
	EventState    EventKind = "state"    // Data: from, to
	EventStarted  EventKind = "started"  // a program was started; Data: id, pid
	EventExited   EventKind = "exited"   // Data: id, code or signal
	EventDecision EventKind = "decision" // Decision is set
	EventLimit    EventKind = "limit"    // a limit was reached; Data: limit
	EventFlagged  EventKind = "flagged"  // a file that will execute later; Data: path
	EventFailed   EventKind = "failed"   // a process of ours failed; Message says which
	EventUsage    EventKind = "usage"
)

// State is where a sandbox is in its life.
type State string

// The states. creating → ready → running ⇄ paused → stopped → gone, and failed from anywhere.
const (
	StateCreating State = "creating"
	StateReady    State = "ready"
	StateRunning  State = "running"
	StatePaused   State = "paused"
	StateStopped  State = "stopped"
	StateGone     State = "gone"
	StateFailed   State = "failed"
)

// Sandbox is the record of one sandbox: what `caisson ls` shows.
type Sandbox struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Tier      Tier      `json:"tier"`
	Image     string    `json:"image"`
	State     State     `json:"state"`
	Reason    string    `json:"reason,omitempty"` // why it failed or ended
	Created   time.Time `json:"created"`
	Command   []string  `json:"command,omitempty"` // what `run` started, for display: not for execution
	Workspace string    `json:"workspace,omitempty"`
	Policy    string    `json:"policy"` // digest of the resolved policy, "sha256:..."
	KeeperPID int       `json:"keeper_pid,omitempty"`
	InitPID   int       `json:"init_pid,omitempty"` // PID 1 of the box as the host sees it
	Points    []Point   `json:"points,omitempty"`
}
