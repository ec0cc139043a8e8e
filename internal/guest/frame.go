package guest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// A frame is a header of eight bytes and a payload:
//
//	byte 0      kind
//	byte 1      flags: lane in bits 0 and 1, flagMore, flagDescriptors
//	byte 2, 3   length of the payload, big endian
//	byte 4-7    channel, or number of a call, big endian
//
// A channel is a program or a connection. Each of its lanes has one direction:
// lane 0 goes inward, lanes 1 and 2 outward. The outer side counts channels up
// from 1 and never uses a number again.
const (
	headerSize = 8
	frameSize  = 64 << 10
	maxPayload = frameSize - headerSize
)

// Bounds of what a peer can make the other side hold. Whoever exceeds one ends
// the stream. On either side, at most: one message in parts (maxMessage); the
// starts that wait for their answer (maxStarting); the input of all lanes
// (windowBudget, and minWindow for each lane beyond it); the control frames not
// yet written (maxQueue); a goroutine per unanswered call (maxCalls) and start.
const (
	maxMessage   = 4 << 20  // bytes of a Start in all its parts
	maxStrings   = 1 << 18  // entries of Argv, and of Env; Linux takes no more in 2 MiB
	maxStarting  = 16 << 20 // startCost of the starts in flight
	maxChannels  = 2048     // programs and connections; twice as many inside
	maxCalls     = 1024     // signals, freezes and the like in flight
	maxQueue     = 4 << 20  // bytes of control frames that wait for the writer
	maxWindow    = 256 << 10
	minWindow    = 16 << 10
	windowBudget = 64 << 20
	maxText      = 512      // of an error, and of its step
	maxFailure   = 16 << 10 // of Hello.Failed
	maxField     = 1 << 10  // of a name
	maxEntropy   = 1 << 10
)

// kind says what a frame is. Zero is none.
type kind uint8

const (
	kindHello    kind = 1 + iota // either way, first and once
	kindStart                    // inward, opens a channel
	kindStarted                  // outward
	kindDial                     // inward, opens a channel
	kindDialed                   // outward
	kindRefused                  // outward: the channel was not opened
	kindExit                     // outward
	kindStopped                  // outward
	kindSignal                   // inward, a call; likewise up to kindIdentify
	kindResize                   //
	kindContinue                 //
	kindFreeze                   //
	kindThaw                     //
	kindIdentify                 //
	kindDone                     // outward: the call succeeded
	kindFailed                   // outward: it did not
	kindData                     // of a lane; likewise up to kindCredit
	kindEnd                      // the sender's last
	kindReset                    // from the sender: cut off; from the receiver: reads no more
	kindCredit                   // from the receiver: may send so many bytes more
	kindEndOfList
)

// laned says that frames of k belong to a lane.
func (k kind) laned() bool { return k >= kindData && k <= kindCredit }

const (
	laneMask        = 0x03
	flagMore        = 0x04 // parts of the same message follow
	flagDescriptors = 0x08 // three descriptors came with the first byte
)

// frame is one that was read. Its payload is valid until the next is read.
type frame struct {
	kind        kind
	lane        uint8
	id          uint32
	payload     []byte
	descriptors []int
}

// appendFrame appends a frame to b. The payload is at most maxPayload.
func appendFrame(b []byte, k kind, flags uint8, id uint32, payload []byte) []byte {
	b = append(b, byte(k), flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = binary.BigEndian.AppendUint32(b, id)
	return append(b, payload...)
}

// broken is the error for a peer that does not keep to the protocol.
func broken(format string, args ...any) error {
	return fmt.Errorf("guest stream: protocol broken: "+format, args...)
}

var errStray = broken("descriptors that no frame announced")

// frameReader reads frames and puts messages in parts together.
type frameReader struct {
	buf     *bufio.Reader
	receive func() []int // takes descriptors; may be nil
	used    int          // bytes in buf of the frame that was returned last

	parts       []byte // of the start that is being put together
	partsID     uint32
	partsFDs    []int
	assembling  bool
	descriptors bool // whether the peer may send any
}

func newFrameReader(s Stream, descriptors bool) *frameReader {
	return &frameReader{
		buf:         bufio.NewReaderSize(s, frameSize),
		receive:     s.ReceiveDescriptors,
		descriptors: descriptors,
	}
}

// next returns the next frame or whole start. io.EOF is an end between frames.
func (r *frameReader) next() (frame, error) {
	for {
		f, flags, err := r.read()
		if err != nil {
			closeDescriptors(f.descriptors)
			return frame{}, err
		}
		if f.kind != kindStart {
			return f, nil
		}
		if whole, err := r.assemble(&f, flags); err != nil || whole {
			return f, err
		}
	}
}

// read reads one frame and checks all that does not depend on its channel. On
// error f may still hold descriptors.
func (r *frameReader) read() (f frame, flags uint8, err error) {
	if _, err = r.buf.Discard(r.used); err != nil { // the frame before
		return f, 0, err
	}
	r.used = 0
	if n := r.buf.Buffered(); n > 0 && n < headerSize && r.receive != nil {
		// The read that completes the header may bring the descriptors of a
		// second frame.
		f.descriptors = r.receive()
	}
	h, err := r.buf.Peek(headerSize)
	if err != nil {
		return f, 0, within(err, len(h) > 0)
	}
	f.kind, flags = kind(h[0]), h[1]
	f.lane, f.id = flags&laneMask, binary.BigEndian.Uint32(h[4:])
	size := int(binary.BigEndian.Uint16(h[2:]))
	if err = checkHeader(f, flags, size); err != nil {
		return f, 0, err
	}
	if flags&flagDescriptors != 0 {
		err = r.takeDescriptors(&f)
	} else if len(f.descriptors) > 0 {
		err = errStray
	}
	if err != nil {
		return f, 0, err
	}
	p, err := r.buf.Peek(headerSize + size)
	if err != nil {
		return f, 0, within(err, true)
	}
	f.payload, r.used = p[headerSize:], len(p)
	return f, flags, r.refuseStray()
}

// within is the error of a read that ended, perhaps, in the middle of a frame.
func within(err error, begun bool) error {
	if err == io.EOF && begun {
		return broken("the stream ended within a frame")
	}
	return err
}

func checkHeader(f frame, flags uint8, size int) error {
	allowed := uint8(0)
	switch {
	case f.kind.laned():
		allowed = laneMask
	case f.kind == kindStart:
		allowed = flagMore | flagDescriptors
	}
	switch {
	case f.kind == 0 || f.kind >= kindEndOfList:
		return broken("frame of unknown kind %d", f.kind)
	case flags&^allowed != 0 || f.lane > 2:
		return broken("flags %#x of frame kind %d", flags, f.kind)
	case size > maxPayload: // and then it would not fit the buffer
		return broken("frame of %d bytes", size)
	}
	return nil
}

// takeDescriptors takes the three that came with the first byte of f. They
// cannot be those of a later frame: a read ends at the bytes that carry some.
func (r *frameReader) takeDescriptors(f *frame) error {
	if !r.descriptors || r.receive == nil {
		return broken("descriptors where none are allowed")
	}
	if f.descriptors == nil {
		f.descriptors = r.receive()
	}
	if len(f.descriptors) != 3 {
		return broken("%d descriptors, not 3", len(f.descriptors))
	}
	return nil
}

// refuseStray ends the stream if descriptors came that no frame announced. They
// may be those of the next one as long as a part of it was read.
func (r *frameReader) refuseStray() error {
	if r.receive == nil || r.descriptors && r.buf.Buffered() > r.used {
		return nil
	}
	if fds := r.receive(); len(fds) > 0 {
		closeDescriptors(fds)
		return errStray
	}
	return nil
}

// assemble adds a part of a start. When it was the last, f is the whole.
func (r *frameReader) assemble(f *frame, flags uint8) (whole bool, err error) {
	switch {
	case !r.assembling:
		r.assembling, r.partsID, r.partsFDs, r.parts = true, f.id, f.descriptors, nil
	case f.id != r.partsID:
		err = broken("start of channel %d within that of %d", f.id, r.partsID)
	case f.descriptors != nil:
		err = broken("descriptors with a later part of a start")
	case len(f.payload) == 0:
		err = broken("empty part of a start")
	}
	if err == nil && len(r.parts)+len(f.payload) > maxMessage {
		err = broken("start of more than %d bytes", maxMessage)
	}
	if err != nil {
		closeDescriptors(f.descriptors)
		return false, err
	}
	r.parts = append(r.parts, f.payload...)
	if flags&flagMore != 0 {
		return false, nil
	}
	f.payload, f.descriptors = r.parts, r.partsFDs
	r.assembling, r.parts, r.partsFDs = false, nil, nil
	return true, nil
}

// close closes the descriptors that nobody took.
func (r *frameReader) close() {
	closeDescriptors(r.partsFDs)
	r.partsFDs = nil
	if r.receive != nil {
		closeDescriptors(r.receive())
	}
}
