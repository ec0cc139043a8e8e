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
	"io"
	"syscall"
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
	Stdin  io.WriteCloser // nil with Descriptors; Close is the program's end of input
	Stdout io.ReadCloser  // nil with Descriptors; not reading it blocks the program, nothing else
	Stderr io.ReadCloser  // nil with Descriptors or Terminal; Close: what comes is refused

	client  *Client
	ch      *channel
	exited  chan struct{} // closed when exit is known
	exit    Exit
	stopped chan struct{}
}

// Exit is how a program ended.
type Exit struct {
	Code   int // exit code if Signal is 0
	Signal int // signal that ended it
	Core   bool
}

// StartError says why a program could not be started: Errno is the host's
// number (ENOENT, EACCES, ...), Step what was tried. The other calls return it
// too where the guest refused; Step then names the call. It unwraps to the
// syscall.Errno.
type StartError struct {
	Step  string // "exec", "chdir", "terminal", ...
	Errno int
	Text  string
}

// Error returns the text.
func (e *StartError) Error() string { return e.Step + ": " + e.Text }

// Unwrap returns the errno, so that errors.Is(err, syscall.ENOENT) works.
func (e *StartError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return syscall.Errno(e.Errno)
}

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
// concurrently. An error of any method goes back to the caller as text, with
// step and errno where it is (or wraps) a *StartError or a syscall.Errno.
type Handler interface {
	// Start starts cmd. With descriptors, they are in cmd.Descriptors and become the
	// handler's to close, also when it returns an error; else the handler uses io: it
	// reads Stdin until EOF, or closes it when the program no longer reads, and closes
	// Stdout and Stderr at their end. With an error it touches io no more.
	Start(cmd Command, io StdIO, events Events) (Program, error)
	// DialPort connects to a port on the loopback inside. The connection is closed
	// by the caller.
	DialPort(port uint16) (Conn, error)
	Freeze() error // stop every program; repeated is the same
	Thaw() error
	Identify(Identity) error
}

// Conn is a connection to a port inside. CloseWrite ends what is sent and
// leaves the other direction open; Close ends both.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// StdIO is a program's input and output as channels of the stream. For a
// terminal Stderr is nil; with descriptors all are. Closing Stdin says that
// nobody reads it any more: writing to it outside then fails. A write to Stdout
// or Stderr fails with ErrReset when the other side no longer reads. When Exited was called
// and both outputs are closed, Stdin is closed by itself.
type StdIO struct {
	Stdin  io.ReadCloser
	Stdout io.WriteCloser
	Stderr io.WriteCloser
}

// Events is how a handler reports what happens to a program. Neither function
// ever blocks, and both may be called before Start has returned.
type Events struct {
	// Exited is called once, when the program itself has ended, even if a
	// grandchild keeps the output open.
	Exited func(Exit)
	// Stopped is called when a terminal's foreground program was stopped (^Z).
	// Repeated calls until Continue count as one.
	Stopped func()
}

// Program is a started program on the inner side.
type Program interface {
	PID() int
	// Signal sends a signal to the program, or, with group, to its process group
	// (the foreground group of its terminal).
	Signal(signal int, group bool) error
	Resize(Size) error
	// Continue lets a stopped program go on, in the foreground of its terminal.
	Continue() error
}

// The outer side, implemented by Client:
//
//	Open(stream) *Client                      waits for nothing: a Start may follow at once
//	Dial(ctx, stream) (*Client, error)        Open and Ready; closes the stream on error
//	(*Client).Ready(ctx) (Hello, error)       waits for Hello; Hello.Failed is returned as *SetupError
//	(*Client).Hello() Hello                   zero until Ready
//	(*Client).Start(ctx, Command) (*Process, error)   error is *StartError where the guest refused
//	(*Client).DialPort(ctx, port) (Conn, error)
//	(*Client).Freeze(ctx), Thaw(ctx), Identify(ctx, Identity) error
//	(*Client).Done() <-chan struct{}          the stream ended; Err says why
//	(*Client).Close() error                   ends the stream
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
//
// Messages that precede the stream, for the set-up:
//
//	WriteMessage(w, p) error; ReadMessage(r, max) ([]byte, error); Encoder; Decoder
//	FromFD(fd) (Stream, error)                           over a SOCK_STREAM socketpair, with descriptors
