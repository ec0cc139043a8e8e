package guest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// Fail writes a hello that says why set-up failed. The caller then ends.
func Fail(w io.Writer, hello Hello) error {
	hello.Version = Version
	_, err := w.Write(appendFrame(nil, kindHello, 0, 0, encodeHello(hello)))
	return err
}

// server is the inner side of a stream.
type server struct {
	*link
	handler Handler
	greeted bool

	mu       sync.Mutex
	starting int             // startCost of what is being opened
	calls    map[uint32]bool // that have no answer yet
}

// Serve says hello and does what the outer side asks until the stream ends: nil
// if the outer side closed it. Programs that run then, and calls of the handler
// that have not returned, are the caller's to end; their channels are cut off.
// The stream is closed.
func Serve(stream Stream, hello Hello, h Handler) error {
	s := &server{link: newLink(stream, true), handler: h, calls: map[uint32]bool{}}
	hello.Version = Version
	s.out.post(kindHello, 0, 0, encodeHello(hello))
	go s.out.loop(s.done)
	err := s.read(s.handle)
	s.fail(err)
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

func (s *server) handle(f frame) error {
	if !s.greeted {
		closeDescriptors(f.descriptors)
		_, err := checkHello(f)
		s.greeted = err == nil
		return err
	}
	switch {
	case f.kind.laned():
		return s.handleLane(f)
	case f.kind == kindStart:
		return s.handleStart(f)
	case f.kind == kindDial:
		return s.handleDial(f)
	case f.kind >= kindSignal && f.kind <= kindIdentify:
		return s.handleCall(f)
	}
	return broken("frame kind %d from outside", f.kind)
}

// admit makes ch known under the number of f, if there is room for it.
func (s *server) admit(ch *channel, id uint32, cost int) error {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case id <= s.last:
		return broken("channel %d is not new", id)
	case len(s.channels) >= 2*maxChannels: // the ends of as many may be on their way
		return broken("more than %d channels", 2*maxChannels)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting+cost > maxStarting {
		return broken("more than %d bytes of starts at once", maxStarting)
	}
	s.starting += cost
	s.last, ch.id = id, id
	s.channels[id] = ch
	return nil
}

// answer ends the opening of ch. What it counted is free before the peer can
// know the answer.
func (s *server) answer(ch *channel, cost int, k kind, payload []byte) {
	s.mu.Lock()
	s.starting -= cost
	s.mu.Unlock()
	if k == kindRefused {
		s.drop(ch)
	} else {
		s.finish(ch)
	}
	s.out.post(k, 0, ch.id, payload)
}

func (s *server) handleDial(f frame) error {
	d := NewDecoder(f.payload)
	port := uint16(d.UintMax(1<<16 - 1))
	credit := decodeWindow(d)
	if err := d.Finish(); err != nil {
		return fmt.Errorf("guest stream: read dial: %w", err)
	}
	if credit == 0 {
		return broken("connection without a window")
	}
	ch := &channel{parts: 3} // answer, two lanes
	cost := len(f.payload)
	ch.readers[0] = newReader(s.link, ch, 0)
	ch.senders[1] = newSender(s.link, ch, 1, credit)
	if err := s.admit(ch, f.id, cost); err != nil {
		return err
	}
	go func() {
		conn, err := s.handler.DialPort(port)
		if err != nil {
			s.answer(ch, cost, kindRefused, encodeError("dial", err))
			return
		}
		ch.senders[1].onOver(func(stopped bool) {
			if stopped {
				_ = conn.Close() // unblocks the pump that reads it
			}
		})
		s.answer(ch, cost, kindDialed, encodeNumbers(uint64(ch.readers[0].window)))
		pump(conn, ch.readers[0], ch.senders[1])
	}()
	return nil
}

// pump moves bytes between a connection and its lanes until both directions
// have ended, and closes the connection.
func pump(conn Conn, in *reader, out *sender) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(out, conn); err != nil {
			out.reset()
			_ = in.Close() // a connection that broke takes no more either
			return
		}
		_ = out.Close()
	}()
	if _, err := io.Copy(conn, in); err != nil {
		_ = in.Close()   // nothing, if it was the lane that failed
		_ = conn.Close() // cut off: the other direction is void too
	} else if err := conn.CloseWrite(); err != nil {
		_ = conn.Close()
	}
	<-done
	_ = conn.Close()
}

// handleCall does a call in a goroutine of its own.
func (s *server) handleCall(f frame) error {
	do, step, err := s.decodeCall(f)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calls[f.id]:
		return broken("call %d is not new", f.id)
	case len(s.calls) >= maxCalls:
		return broken("more than %d calls at once", maxCalls)
	}
	s.calls[f.id] = true
	id := f.id
	go func() {
		err := do()
		s.mu.Lock()
		delete(s.calls, id)
		s.mu.Unlock()
		if err != nil {
			s.out.post(kindFailed, 0, id, encodeError(step, err))
			return
		}
		s.out.post(kindDone, 0, id, nil)
	}()
	return nil
}

// decodeCall reads a call, and names it.
func (s *server) decodeCall(f frame) (do func() error, step string, err error) {
	d := NewDecoder(f.payload)
	switch f.kind {
	case kindFreeze:
		do, step = s.handler.Freeze, "freeze"
	case kindThaw:
		do, step = s.handler.Thaw, "thaw"
	case kindIdentify:
		identity, err := decodeIdentity(f.payload)
		if err != nil {
			return nil, "", fmt.Errorf("guest stream: read identity: %w", err)
		}
		return func() error { return s.handler.Identify(identity) }, "identify", nil
	case kindSignal:
		id, signal, group := s.target(d), int(d.Int()), d.Bool()
		step = "signal"
		do = s.onProgram(id, func(p *program) error { return p.signal(signal, group) })
	case kindResize:
		id, size := s.target(d), decodeSize(d)
		step = "resize"
		do = s.onProgram(id, func(p *program) error { return p.inner.Resize(size) })
	case kindContinue:
		id := s.target(d)
		step = "continue"
		do = s.onProgram(id, (*program).resume)
	}
	if err := d.Finish(); err != nil {
		return nil, "", fmt.Errorf("guest stream: read %s: %w", step, err)
	}
	return do, step, nil
}

func (s *server) target(d *Decoder) uint32 { return uint32(d.UintMax(1<<32 - 1)) }

// onProgram returns a call on the program of a channel. One that has ended, or
// has not begun, is ESRCH.
func (s *server) onProgram(id uint32, do func(*program) error) func() error {
	s.link.mu.Lock()
	ch := s.channels[id]
	s.link.mu.Unlock()
	return func() error {
		if ch == nil || ch.program == nil || !ch.program.hasStarted() {
			return syscall.ESRCH
		}
		return do(ch.program)
	}
}
