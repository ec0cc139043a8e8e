package guest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

// channel is a program or a connection on one side of the stream. It has
// ended, and is forgotten, when all its parts have: its lanes, the answer to its
// opening, and a program's exit.
type channel struct {
	id      uint32
	parts   int // that have not ended; guarded by link.mu
	readers [3]*reader
	senders [3]*sender
	program *program // inner side, of a program
	process *Process // outer side, of a program
	opening *opening // outer side
}

// link is one end of the stream: what both sides have in common.
type link struct {
	stream Stream
	in     *frameReader
	out    *writer
	done   chan struct{}

	mu       sync.Mutex
	err      error
	channels map[uint32]*channel
	last     uint32 // the highest channel so far
	windows  int    // what is left of windowBudget
}

func newLink(s Stream, descriptors bool) *link {
	l := &link{
		stream:   s,
		in:       newFrameReader(s, descriptors),
		done:     make(chan struct{}),
		channels: map[uint32]*channel{},
		windows:  windowBudget,
	}
	l.out = newWriter(s, l.writeFailed)
	return l
}

// fail ends the stream with the reason err; only the first counts.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	channels := l.channels
	l.channels = nil
	l.mu.Unlock()

	l.out.shut()
	_ = l.stream.Close() // the reason is known, and the stream is given up
	for _, ch := range channels {
		l.cutOff(ch, err)
	}
	close(l.done)
}

// drain is how long a stream that takes no more is still read: a guest that is
// gone may have said why before, or how a program ended.
const drain = 2 * time.Second

// writeFailed ends the stream, but lets what the peer has said be read first.
func (l *link) writeFailed(err error) {
	if err == errQueue {
		l.fail(err)
		return
	}
	time.AfterFunc(drain, func() { l.fail(fmt.Errorf("write guest stream: %w", err)) })
}

// cutOff ends all lanes of ch here, without telling the peer.
func (l *link) cutOff(ch *channel, err error) {
	for i := range ch.readers {
		if r := ch.readers[i]; r != nil {
			r.finish(err)
		}
		if s := ch.senders[i]; s != nil {
			s.end(err, 0, false)
		}
	}
}

// reason returns why the stream ended, nil if it did not.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// find returns the channel with that number; nil if it has ended. A number that
// was never given is an error.
func (l *link) find(id uint32) (*channel, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == 0 || id > l.last {
		return nil, broken("channel %d was never opened", id)
	}
	return l.channels[id], nil
}

// finish ends one part of ch and forgets ch after its last.
func (l *link) finish(ch *channel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch.parts--
	if ch.parts == 0 {
		delete(l.channels, ch.id)
	}
}

// drop forgets ch, which was refused.
func (l *link) drop(ch *channel) {
	l.mu.Lock()
	delete(l.channels, ch.id)
	l.mu.Unlock()
	l.cutOff(ch, ErrReset)
}

// takeWindow returns how much a new lane may buffer: less when many are open.
func (l *link) takeWindow() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	window := maxWindow
	if l.windows < maxWindow {
		window = minWindow
	}
	l.windows -= window
	return window
}

func (l *link) giveWindow(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.windows += n
}

// read handles frames until the stream ends, and returns why: errGone if the peer
// closed it between frames.
func (l *link) read(handle func(frame) error) error {
	defer l.in.close()
	for {
		f, err := l.in.next()
		if err == nil {
			if err = handle(f); err == nil {
				continue
			}
		}
		if cause := l.reason(); cause != nil {
			return cause
		}
		if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			return errGone
		}
		return err
	}
}

// handleLane handles a frame of a lane.
func (l *link) handleLane(f frame) error {
	ch, err := l.find(f.id)
	if err != nil || ch == nil {
		return err
	}
	r, s := ch.readers[f.lane], ch.senders[f.lane]
	switch {
	case f.kind == kindData && r != nil:
		return r.receive(f.payload)
	case f.kind == kindEnd && r != nil && len(f.payload) == 0:
		r.finish(io.EOF)
		return nil
	case f.kind == kindReset && r != nil && len(f.payload) == 0:
		r.finish(ErrReset)
		return nil
	case f.kind == kindReset && s != nil && len(f.payload) == 0:
		s.stop()
		return nil
	case f.kind == kindCredit && s != nil:
		d := NewDecoder(f.payload)
		n := int(d.UintMax(maxWindow))
		if err := d.Finish(); err != nil {
			return fmt.Errorf("guest stream: read credit: %w", err)
		}
		return s.fund(n)
	}
	return broken("frame kind %d for lane %d of channel %d", f.kind, f.lane, f.id)
}

// checkHello reads the first frame of the peer and compares versions.
func checkHello(f frame) (Hello, error) {
	if f.kind != kindHello || f.id != 0 {
		return Hello{}, broken("frame kind %d before the hello", f.kind)
	}
	h, err := decodeHello(f.payload)
	switch {
	case err != nil:
		return h, fmt.Errorf("guest stream: read hello: %w", err)
	case h.Version != Version:
		return h, fmt.Errorf("guest stream: the other side speaks version %d, this one %d", h.Version, Version)
	}
	return h, nil
}

// errGone is the end of a stream that the peer closed.
var errGone = errors.New("guest stream: the other side closed it")
