// Package guest is the protocol between Caisson outside and the guest, our
// agent inside a sandbox, and its outer side. One byte stream per generation
// carries everything: start and signal programs, their input and output,
// terminals, connections to ports inside, identity, freeze and thaw.
//
// The stream is multiplexed with a credit per channel, and control goes first:
// output that nobody reads never blocks a signal or an exit. Frames are capped,
// and neither side trusts the other: whatever breaks the protocol ends the
// stream with an error, never with a panic or unbounded memory.
package guest

import (
	"context"
	"io"
	"time"
)

// Version of the protocol. Both sides say theirs first; unequal is an error,
// since both come from one build.
const Version = 1

// Stream is the byte stream to a guest. SendDescriptors is nil where the
// transport cannot carry descriptors: then programs get channels instead.
type Stream struct {
	io.ReadWriteCloser
	// SendDescriptors writes p and passes fds with its first byte. The fds stay
	// the caller's to close.
	SendDescriptors func(p []byte, fds []int) error
	// ReceiveDescriptors returns the descriptors that came with the bytes read
	// so far and were not returned yet, in order; the caller closes them.
	ReceiveDescriptors func() []int
}

// Hello is what the guest says first: that the box stands and what it is.
type Hello struct {
	Version    uint32
	Sandbox    string // id it was given
	Generation uint64
	PID        int    // of the guest inside; 1
	Failed     string // not empty: set-up failed, in words, and the guest is gone
	Step       string // the step that failed
	Errno      int    // its errno, 0 if none
}

// Size of a terminal in characters.
type Size struct{ Rows, Columns uint16 }

// Command is a program to start inside.
type Command struct {
	Argv []string // bytes as given, not necessarily UTF-8; Argv[0] is looked up in PATH of Env
	Env  []string // NAME=VALUE, all of it
	Dir  string   // absolute, inside
	// Terminal, if not nil, gives the program a terminal of that size; its
	// input and output are Process.Stdin and Stdout, and Stderr is nil.
	Terminal *Size
	// Descriptors, if not nil, become 0, 1 and 2 of the program (exactly three;
	// needs Stream.SendDescriptors, not with Terminal). Process.Stdin, Stdout and
	// Stderr are then nil.
	Descriptors []int
	// Limits of the program and its children.
	OpenFiles uint64 // RLIMIT_NOFILE; 0: the guest's default
	Processes uint64 // RLIMIT_NPROC; 0: none
	DataSize  uint64 // RLIMIT_DATA in bytes; 0: none
	FileSize  uint64 // RLIMIT_FSIZE in bytes; 0: none
}

// Process is a program that was started inside, as seen from outside.
type Process struct {
	PID    int            // inside
	Stdin  io.WriteCloser // nil with Descriptors
	Stdout io.Reader      // nil with Descriptors; not reading it blocks the program, nothing else
	Stderr io.Reader      // nil with Descriptors or Terminal

}

// Exit is how a program ended.
type Exit struct {
	Code   int // exit code if Signal is 0
	Signal int // signal that ended it
	Core   bool
}

// StartError says why a program could not be started: Errno is the host's
// number (ENOENT, EACCES, ...), Step what was tried.
type StartError struct {
	Step  string // "exec", "chdir", "terminal", ...
	Errno int
	Text  string
}

// Error returns the text.
func (e *StartError) Error() string { return e.Step + ": " + e.Text }

// Identity is what makes a box this box and not the one that it was copied
// from. It is given before the first thaw after a restore.
type Identity struct {
	Sandbox    string
	Generation uint64
	Time       time.Time // the guest sets its clock if it has one of its own
	Entropy    []byte    // at least 32 random bytes for the kernel's pool
	Hostname   string
}

// Handler is the inner side: what the agent does for each call. Calls come
// concurrently. An error of any method goes back to the caller as text (and
// errno for a *StartError).
type Handler interface {
	// Start starts cmd. With descriptors, they are in cmd.Descriptors and become the
	// handler's to close; else the handler uses io: it reads Stdin until EOF and
	// closes Stdout and Stderr at their end. exited is called once, when the
	// program itself has ended, even if a grandchild keeps the output open.
	Start(cmd Command, io StdIO, exited func(Exit)) (Program, error)
	// DialPort connects to a port on the loopback inside.
	DialPort(port uint16) (io.ReadWriteCloser, error)
	Freeze() error // stop every program; repeated is the same
	Thaw() error
	Identify(Identity) error
}

// StdIO is a program's input and output as channels of the stream. For a
// terminal Stderr is nil.
type StdIO struct {
	Stdin  io.Reader
	Stdout io.WriteCloser
	Stderr io.WriteCloser
}

// Program is a started program on the inner side.
type Program interface {
	PID() int
	// Signal sends a signal to the program, or, with group, to its process group
	// (the foreground group of its terminal).
	Signal(signal int, group bool) error
	Resize(Size) error
}

// The outer side, implemented by Client:
//
//	Dial(ctx, stream) (*Client, error)        reads Hello; Hello.Failed is returned as *SetupError
//	(*Client).Hello() Hello
//	(*Client).Start(ctx, Command) (*Process, error)   error is *StartError where the guest refused
//	(*Client).DialPort(ctx, port) (io.ReadWriteCloser, error)
//	(*Client).Freeze(ctx), Thaw(ctx), Identify(ctx, Identity) error
//	(*Client).Done() <-chan struct{}          the stream ended; Err says why
//	(*Process).Signal(signal int, group bool) error
//	(*Process).Resize(Size) error
//	(*Process).Wait(ctx) (Exit, error)        error: the stream ended before the exit was known
//	(*Process).Stopped() <-chan struct{}      a terminal's foreground program was stopped (^Z); a value each time
//	(*Process).Continue() error               after Stopped
//
// The inner side:
//
//	Serve(stream Stream, hello Hello, h Handler) error   returns when the stream ends
//	Fail(w io.Writer, hello Hello) error                 writes a Hello that says why set-up failed
var _ = context.Background
