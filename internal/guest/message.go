package guest

import (
	"errors"
	"syscall"
	"time"
)

// cut shortens s to at most limit bytes.
func cut(s string, limit int) string {
	if len(s) > limit {
		return s[:limit]
	}
	return s
}

func encodeHello(h Hello) []byte {
	var e Encoder
	e.Uint(uint64(h.Version))
	e.String(cut(h.Sandbox, maxField))
	e.Uint(h.Generation)
	e.Int(int64(h.PID))
	e.String(cut(h.Failed, maxFailure))
	e.String(cut(h.Step, maxField))
	e.Int(int64(h.Errno))
	return e.Data()
}

// decodeHello reads a Hello. Of another version nothing but the version is
// looked at.
func decodeHello(p []byte) (Hello, error) {
	d := NewDecoder(p)
	h := Hello{Version: uint32(d.UintMax(1<<32 - 1))}
	if d.err == nil && h.Version != Version {
		return h, nil
	}
	h.Sandbox = d.String(maxField)
	h.Generation = d.Uint()
	h.PID = int(d.Int())
	h.Failed = d.String(maxFailure)
	h.Step = d.String(maxField)
	h.Errno = int(d.Int())
	return h, d.Finish()
}

// start is a Command as it travels, with the windows of its output lanes; a lane
// with window 0 does not exist.
type start struct {
	command        Command
	stdout, stderr int
	descriptors    bool
}

func encodeStart(s start) []byte {
	c := s.command
	var e Encoder
	e.Strings(c.Argv)
	e.Strings(c.Env)
	e.String(c.Dir)
	e.Bool(c.Terminal != nil)
	if c.Terminal != nil {
		encodeSize(&e, *c.Terminal)
	}
	e.Bool(s.descriptors)
	for _, v := range []uint64{c.OpenFiles, c.Processes, c.DataSize, c.FileSize} {
		e.Uint(v)
	}
	e.Uint(uint64(s.stdout))
	e.Uint(uint64(s.stderr))
	return e.Data()
}

func decodeStart(p []byte) (start, error) {
	var s start
	d := NewDecoder(p)
	c := &s.command
	c.Argv = d.Strings(maxStrings)
	c.Env = d.Strings(maxStrings)
	c.Dir = d.String(maxMessage)
	if d.Bool() {
		size := decodeSize(d)
		c.Terminal = &size
	}
	s.descriptors = d.Bool()
	c.OpenFiles, c.Processes, c.DataSize, c.FileSize = d.Uint(), d.Uint(), d.Uint(), d.Uint()
	s.stdout, s.stderr = decodeWindow(d), decodeWindow(d)
	if err := d.Finish(); err != nil {
		return s, err
	}
	if s.descriptors && c.Terminal != nil ||
		(s.stdout == 0) != s.descriptors ||
		(s.stderr == 0) != (s.descriptors || c.Terminal != nil) {
		return s, errors.New("lanes do not fit the command")
	}
	return s, nil
}

// startCost is what a start counts of maxStarting: about the memory that it
// takes once it is decoded.
func startCost(message int, c Command) int {
	const stringHeader = 16
	return message + stringHeader*(len(c.Argv)+len(c.Env))
}

func encodeSize(e *Encoder, s Size) {
	e.Uint(uint64(s.Rows))
	e.Uint(uint64(s.Columns))
}

func decodeSize(d *Decoder) Size {
	return Size{Rows: uint16(d.UintMax(1<<16 - 1)), Columns: uint16(d.UintMax(1<<16 - 1))}
}

// decodeWindow takes a window: 0 for no lane, or one within the bounds.
func decodeWindow(d *Decoder) int {
	w := int(d.UintMax(maxWindow))
	if w != 0 && w < minWindow {
		d.fail(errors.New("window is too small"))
		return 0
	}
	return w
}

// encodeNumbers is a message of numbers alone.
func encodeNumbers(values ...uint64) []byte {
	var e Encoder
	for _, v := range values {
		e.Uint(v)
	}
	return e.Data()
}

func encodeExit(x Exit) []byte {
	var e Encoder
	e.Int(int64(x.Code))
	e.Int(int64(x.Signal))
	e.Bool(x.Core)
	return e.Data()
}

func decodeExit(p []byte) (Exit, error) {
	d := NewDecoder(p)
	x := Exit{Code: int(d.Int()), Signal: int(d.Int()), Core: d.Bool()}
	return x, d.Finish()
}

func encodeIdentity(i Identity) []byte {
	var e Encoder
	e.String(i.Sandbox)
	e.Uint(i.Generation)
	e.Int(i.Time.Unix())
	e.Uint(uint64(i.Time.Nanosecond()))
	e.Bytes(i.Entropy)
	e.String(i.Hostname)
	return e.Data()
}

func decodeIdentity(p []byte) (Identity, error) {
	d := NewDecoder(p)
	i := Identity{Sandbox: d.String(maxField), Generation: d.Uint()}
	seconds, nanoseconds := d.Int(), d.UintMax(1e9-1)
	i.Time = time.Unix(seconds, int64(nanoseconds)).UTC()
	i.Entropy = d.Bytes(maxEntropy)
	i.Hostname = d.String(maxField)
	return i, d.Finish()
}

// encodeError is what goes back for an error of a handler. step names the call
// where the error does not say.
func encodeError(step string, err error) []byte {
	refusal := StartError{Step: step, Text: err.Error()}
	var given *StartError
	var errno syscall.Errno
	switch {
	case errors.As(err, &given):
		refusal = *given
	case errors.As(err, &errno):
		refusal.Errno = int(errno)
	}
	var e Encoder
	e.String(cut(refusal.Step, maxText))
	e.Int(int64(refusal.Errno))
	e.String(cut(refusal.Text, maxText))
	return e.Data()
}

func decodeError(p []byte) (*StartError, error) {
	d := NewDecoder(p)
	refusal := &StartError{Step: d.String(maxText), Errno: int(d.Int()), Text: d.String(maxText)}
	return refusal, d.Finish()
}
