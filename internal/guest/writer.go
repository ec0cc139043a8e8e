package guest

import (
	"errors"
	"sync"
)

// errQueue ends a stream whose peer makes us say more than it reads.
var errQueue = errors.New("guest stream: the peer does not read: too many control frames wait")

// writer puts frames on the stream. Control frames are queued and go first, the
// parts of starts next, data last; only who sends data ever waits for the
// stream. Frames are written by whoever has the turn: a sender of data, or the
// loop, which is there for the queue.
type writer struct {
	stream Stream
	failed func(error) // called once with the first error

	turn sync.Mutex // held while bytes are written; guards buf, spare and err
	buf  []byte
	err  error

	mu      sync.Mutex
	control []byte     // frames that wait
	spare   []byte     // the other buffer of control
	starts  []*outward // likewise, in parts
	wake    chan struct{}
	over    bool
}

// outward is a part of a start. Its descriptors are the caller's, who waits for
// written.
type outward struct {
	bytes   []byte
	fds     []int
	written chan struct{} // of the last part: closed when it is on the stream
}

func newWriter(s Stream, failed func(error)) *writer {
	return &writer{stream: s, failed: failed, wake: make(chan struct{}, 1)}
}

// post queues a control frame. It never blocks.
func (w *writer) post(k kind, lane uint8, id uint32, payload []byte) {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.control = appendFrame(w.control, k, lane, id, payload)
	full := len(w.control) > maxQueue
	w.mu.Unlock()
	if full {
		go w.failed(errQueue) // the caller may hold what failed takes
		return
	}
	w.kick()
}

// postStart queues all parts of a start, or another frame that must keep its
// order among the starts. It never blocks; the sender keeps to maxStarting.
func (w *writer) postStart(parts ...*outward) {
	w.mu.Lock()
	if !w.over {
		w.starts = append(w.starts, parts...)
	}
	w.mu.Unlock()
	w.kick()
}

func (w *writer) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// data writes a data frame after all that waits. It blocks while the peer does
// not read the stream.
func (w *writer) data(lane uint8, id uint32, payload []byte) error {
	w.turn.Lock()
	defer w.turn.Unlock()
	if err := w.flush(); err != nil {
		return err
	}
	w.buf = appendFrame(w.buf[:0], kindData, lane, id, payload)
	return w.write(w.buf, nil)
}

// loop writes what is queued until done is closed.
func (w *writer) loop(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-w.wake:
		}
		w.turn.Lock()
		err := w.flush()
		w.turn.Unlock()
		if err != nil {
			return
		}
	}
}

// flush writes all that is queued, with the turn held: between two parts of a
// start the control frames that came meanwhile.
func (w *writer) flush() error {
	for {
		w.mu.Lock()
		control := w.control
		w.control = w.spare[:0]
		w.spare = nil
		var part *outward
		if len(control) == 0 && len(w.starts) > 0 {
			part = w.starts[0]
			w.starts[0] = nil
			w.starts = w.starts[1:]
		}
		w.mu.Unlock()

		var err error
		switch {
		case part != nil:
			if err = w.write(part.bytes, part.fds); err == nil && part.written != nil {
				close(part.written)
			}
		case len(control) > 0:
			err = w.write(control, nil)
		}
		w.keepSpare(control)
		if err != nil {
			return err
		}
		if part == nil && len(control) == 0 {
			return w.err
		}
	}
}

// keepSpare gives a written buffer back unless it grew large.
func (w *writer) keepSpare(b []byte) {
	if cap(b) > frameSize {
		return
	}
	w.mu.Lock()
	w.spare = b[:0]
	w.mu.Unlock()
}

// write writes b with the turn held. The first error stays.
func (w *writer) write(b []byte, fds []int) error {
	if w.err != nil {
		return w.err
	}
	if len(fds) > 0 {
		w.err = w.stream.SendDescriptors(b, fds)
	} else {
		_, w.err = w.stream.Write(b)
	}
	if w.err != nil {
		w.failed(w.err)
	}
	return w.err
}

// withdraw takes the parts of a start from the queue if none of them is written
// yet, and says whether it did.
func (w *writer) withdraw(parts []*outward) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.starts {
		if p == parts[0] {
			w.starts = append(w.starts[:i:i], w.starts[i+len(parts):]...)
			return true
		}
	}
	return false
}

// shut drops what is queued and refuses more.
func (w *writer) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.control, w.starts = nil, nil
}
