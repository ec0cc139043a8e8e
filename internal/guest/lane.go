package guest

import (
	"errors"
	"io"
	"sync"
)

// ErrReset is what reading or writing returns when the other side cut the
// channel off or no longer reads it.
var ErrReset = errors.New("guest stream: channel was reset by the other side")

// ErrClosed is what is returned after one's own Close.
var ErrClosed = errors.New("guest stream: closed")

// reader is the receiving end of a lane. It buffers at most its window; what was
// read is given back to the sender as credit.
type reader struct {
	link *link
	ch   *channel
	lane uint8

	mu     sync.Mutex
	change sync.Cond
	ring   ring
	window int
	credit int   // that the sender has
	owed   int   // read, and not given back yet
	end    error // set when no more comes
	closed bool
	freed  bool // the window was given back to the link
}

func newReader(l *link, ch *channel, lane uint8) *reader {
	window := l.takeWindow()
	r := &reader{link: l, ch: ch, lane: lane, window: window, credit: window}
	r.change.L = &r.mu
	return r
}

// Read returns what came, in order, then how the lane ended: io.EOF, ErrReset or
// the error of the stream.
func (r *reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	for r.ring.size == 0 && r.end == nil && !r.closed && len(p) > 0 {
		r.change.Wait()
	}
	if r.closed {
		r.mu.Unlock()
		return 0, ErrClosed
	}
	if r.ring.size == 0 {
		err := r.end
		r.mu.Unlock()
		return 0, err
	}
	n := r.ring.take(p)
	r.owed += n
	give := 0
	if r.end == nil && r.owed >= r.window/2 {
		give, r.owed = r.owed, 0
		r.credit += give
	}
	r.free()
	r.mu.Unlock()
	if give > 0 {
		r.link.out.post(kindCredit, r.lane, r.ch.id, encodeNumbers(uint64(give)))
	}
	return n, nil
}

// Close says that nobody reads any more: what is buffered and what still comes
// is dropped, and the sender learns it.
func (r *reader) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	tell := r.end == nil
	r.free()
	r.change.Broadcast()
	r.mu.Unlock()
	if tell {
		r.link.finish(r.ch)
		r.link.out.post(kindReset, r.lane, r.ch.id, nil)
	}
	return nil
}

// receive takes data from the peer.
func (r *reader) receive(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil
	case r.end != nil:
		return broken("data after the end of lane %d of channel %d", r.lane, r.ch.id)
	case len(p) == 0:
		return broken("empty data")
	case len(p) > r.credit:
		return broken("%d bytes on lane %d of channel %d, which has credit for %d", len(p), r.lane, r.ch.id, r.credit)
	}
	r.credit -= len(p)
	r.ring.put(p, r.window)
	r.change.Broadcast()
	return nil
}

// finish ends the lane with err. The link knows before who reads it does, so that the
// channel is free by then.
func (r *reader) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return
	}
	if !r.closed {
		r.link.finish(r.ch)
	}
	r.end = err
	r.free()
	r.change.Broadcast()
}

// free gives the window and the memory back when nothing more can be buffered.
func (r *reader) free() {
	if r.freed || !r.closed && (r.end == nil || r.ring.size > 0) {
		return
	}
	r.freed = true
	r.ring = ring{}
	r.link.giveWindow(r.window)
}

// sender is the sending end of a lane. A Write blocks while it has no credit.
type sender struct {
	link *link
	ch   *channel
	lane uint8
	// over is called once when the lane has ended; stopped: because the other side no
	// longer reads.
	over func(stopped bool)

	mu     sync.Mutex
	change sync.Cond
	credit int
	busy   bool  // a Write is under way
	err    error // why no more can be written
	last   kind  // the frame that ends the lane, once the Write under way has returned
}

func newSender(l *link, ch *channel, lane uint8, credit int) *sender {
	s := &sender{link: l, ch: ch, lane: lane, credit: credit}
	s.change.L = &s.mu
	return s
}

// Write sends p. It returns when all of it is on the stream, or with an error and
// the number of bytes that are.
func (s *sender) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy && s.err == nil {
		s.change.Wait()
	}
	if s.err != nil {
		return 0, s.err
	}
	s.busy = true
	for len(p) > n && err == nil {
		for s.credit == 0 && s.err == nil {
			s.change.Wait()
		}
		if err = s.err; err != nil {
			break
		}
		part := p[n:min(len(p), n+s.credit, n+maxPayload)]
		s.credit -= len(part)
		s.mu.Unlock()
		err = s.link.out.data(s.lane, s.ch.id, part)
		s.mu.Lock()
		if err == nil {
			n += len(part)
		}
	}
	s.busy = false
	s.change.Broadcast()
	s.postLast()
	return n, err
}

// Close ends the lane: the other side reads io.EOF after the data. A Write under
// way returns ErrClosed. It never blocks.
func (s *sender) Close() error { return s.shut(kindEnd) }

// reset cuts the lane off: the other side reads ErrReset.
func (s *sender) reset() { _ = s.shut(kindReset) }

func (s *sender) shut(last kind) error {
	if !s.end(ErrClosed, last, false) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy {
		s.postLast()
	}
	return nil
}

// postLast queues the frame that ends the lane. All data before it is on the
// stream by then.
func (s *sender) postLast() {
	if s.last != 0 {
		s.link.out.post(s.last, s.lane, s.ch.id, nil)
		s.last = 0
	}
}

// end lets no more be written, for the reason err. It says whether the lane was
// open until now.
func (s *sender) end(err error, last kind, stopped bool) bool {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return false
	}
	s.err, s.last = err, last
	over := s.over
	s.change.Broadcast()
	s.mu.Unlock()
	s.link.finish(s.ch)
	if over != nil {
		over(stopped)
	}
	return true
}

// onOver sets over. If the lane has ended already, it is called at once.
func (s *sender) onOver(over func(stopped bool)) {
	s.mu.Lock()
	s.over = over
	err := s.err
	s.mu.Unlock()
	if err != nil {
		over(err == ErrReset)
	}
}

// stop is called when the other side no longer reads.
func (s *sender) stop() { s.end(ErrReset, 0, true) }

// fund adds credit. The peer may not give more than the window that it told.
func (s *sender) fund(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 || s.credit+n > maxWindow {
		return broken("credit of %d for lane %d of channel %d", n, s.lane, s.ch.id)
	}
	s.credit += n
	s.change.Broadcast()
	return nil
}

var (
	_ io.ReadCloser  = (*reader)(nil)
	_ io.WriteCloser = (*sender)(nil)
)
