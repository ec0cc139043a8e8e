package escape

// Job tells the program inside what to do. It arrives as one line of JSON on
// its standard input, so that nothing of it stands in arguments, environment or
// paths. It never holds a secret that the program is meant to find.
type Job struct {
	Action string            `json:"action"`
	Arg    string            `json:"arg,omitempty"`
	Token  string            `json:"token"`  // printed by "@start" and "@ready": shows that the program ran
	Marker string            `json:"marker"` // what the action writes or sends: 128 random bits in hex
	Home   string            `json:"home"`
	WS     string            `json:"ws"`
	Name   string            `json:"name"`           // a random file name
	Hold   bool              `json:"hold,omitempty"` // after the action, stay until standard input ends
	Facts  map[string]string `json:"facts,omitempty"`
}

// The lines by which the program inside shows that it ran. They separate a box
// that held from one that never started the program; a breach is never read
// from them.
const (
	lineStart = "@start "
	lineReady = "@ready "
)

// MarkerCall is the first argument, upper half, of the close(2) calls by which
// a probe marks a stretch of its system calls for a tracer outside. No
// descriptor has such a number, so the call does nothing.
const MarkerCall = 0x43a15500_00000000
