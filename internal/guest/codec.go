package guest

import (
	"encoding/binary"
	"errors"
	"io"
)

// errShort and its like are what a Decoder reports. They say what is wrong with
// the bytes, never what the bytes are.
var (
	errShort    = errors.New("message ends too early")
	errVarint   = errors.New("number is not in its shortest form")
	errTooLong  = errors.New("field is longer than allowed")
	errBool     = errors.New("truth value is neither 0 nor 1")
	errTrailing = errors.New("bytes after the end of the message")
)

// Encoder appends fields to a message: numbers as uvarints, byte strings with
// their length in front. The zero value is ready.
type Encoder struct{ buf []byte }

// Data returns the message so far. It is the encoder's until the last call.
func (e *Encoder) Data() []byte { return e.buf }

// Uint appends a number.
func (e *Encoder) Uint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }

// Int appends a number that may be negative.
func (e *Encoder) Int(v int64) { e.buf = binary.AppendVarint(e.buf, v) }

// Bool appends a truth value.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Uint(1)
		return
	}
	e.Uint(0)
}

// Bytes appends a byte string.
func (e *Encoder) Bytes(p []byte) {
	e.Uint(uint64(len(p)))
	e.buf = append(e.buf, p...)
}

// String appends the bytes of s, whatever they are.
func (e *Encoder) String(s string) {
	e.Uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

// Strings appends a list.
func (e *Encoder) Strings(list []string) {
	e.Uint(uint64(len(list)))
	for _, s := range list {
		e.String(s)
	}
}

// Decoder takes fields from a message in the order in which an Encoder put
// them. The first error stays: later calls return zero values, and Finish
// returns it. No length is believed before it was compared with what is left,
// and each message has one encoding only.
type Decoder struct {
	buf []byte
	err error
}

// NewDecoder returns a decoder of p. Strings and Bytes that it returns are
// copies.
func NewDecoder(p []byte) *Decoder { return &Decoder{buf: p} }

// Finish returns the first error, or one if bytes are left.
func (d *Decoder) Finish() error {
	if d.err == nil && len(d.buf) > 0 {
		d.err = errTrailing
	}
	return d.err
}

// fail keeps the first error and drops the rest of the message.
func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.buf = nil
}

// Uint takes a number.
func (d *Decoder) Uint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.buf)
	switch {
	case n == 0:
		d.fail(errShort)
		return 0
	case n < 0, n > 1 && d.buf[n-1] == 0:
		d.fail(errVarint)
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

// UintMax takes a number that is at most limit.
func (d *Decoder) UintMax(limit uint64) uint64 {
	v := d.Uint()
	if v > limit {
		d.fail(errTooLong)
		return 0
	}
	return v
}

// Int takes a number that may be negative.
func (d *Decoder) Int() int64 {
	u := d.Uint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

// Bool takes a truth value.
func (d *Decoder) Bool() bool {
	v := d.Uint()
	if v > 1 {
		d.fail(errBool)
	}
	return v == 1
}

// take returns the next length-prefixed bytes as a part of the message.
func (d *Decoder) take(limit int) []byte {
	n := d.Uint()
	switch {
	case d.err != nil:
		return nil
	case n > uint64(limit):
		d.fail(errTooLong)
		return nil
	case n > uint64(len(d.buf)):
		d.fail(errShort)
		return nil
	}
	p := d.buf[:n]
	d.buf = d.buf[n:]
	return p
}

// Bytes takes a byte string of at most limit bytes; nil if it is empty.
func (d *Decoder) Bytes(limit int) []byte {
	return append([]byte(nil), d.take(limit)...)
}

// String takes a string of at most limit bytes.
func (d *Decoder) String(limit int) string { return string(d.take(limit)) }

// Strings takes a list of at most count strings; nil if it is empty. An entry is
// only bounded by the message.
func (d *Decoder) Strings(count int) []string {
	n := d.Uint()
	switch {
	case d.err != nil || n == 0:
		return nil
	case n > uint64(count):
		d.fail(errTooLong)
		return nil
	case n > uint64(len(d.buf)): // each takes a byte at least
		d.fail(errShort)
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, string(d.take(len(d.buf))))
	}
	if d.err != nil {
		return nil
	}
	return list
}

// WriteMessage writes p with its length in front, in one Write.
func WriteMessage(w io.Writer, p []byte) error {
	if uint64(len(p)) > 1<<32-1 {
		return errTooLong
	}
	b := make([]byte, 4, 4+len(p))
	binary.BigEndian.PutUint32(b, uint32(len(p)))
	_, err := w.Write(append(b, p...))
	return err
}

// ReadMessage reads what WriteMessage wrote and not a byte beyond: descriptors
// and frames may follow on the same stream. A message of more than limit bytes
// is an error. Memory grows with what arrives, not with what is announced. The
// error is io.EOF only if the stream ended before the first byte.
func ReadMessage(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if uint64(size) > uint64(max(limit, 0)) {
		return nil, errTooLong
	}
	const step = 64 << 10
	var p []byte
	for left := int(size); left > 0; {
		n := min(left, step)
		at := len(p)
		p = append(p, make([]byte, n)...)
		if _, err := io.ReadFull(r, p[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		left -= n
	}
	return p, nil
}
