package guest

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// opening is a channel's state until its answer is there.
type opening struct {
	parts     []*outward
	sent      chan struct{} // closed when all parts are on the stream
	answered  chan struct{}
	err       error // valid when answered is closed
	abandoned bool  // guarded by link.mu
	complete  bool  // likewise: the answer was there
}

// open makes ch known, gives it its number and queues its opening. frames
// encodes that for the number. It never returns while the opening, if it carries
// descriptors, may still be sent: they are the caller's to close then.
func (c *Client) open(ctx context.Context, ch *channel, cost int, frames func(id uint32) []*outward) error {
	o := &opening{sent: make(chan struct{}), answered: make(chan struct{})}
	ch.opening = o
	err := ctx.Err()
	if err == nil {
		err = c.because(c.starting.take(ctx, c.done, cost))
	}
	if err != nil {
		c.cutOff(ch, ErrClosed)
		return err
	}
	if err := c.enqueue(ch, o, frames); err != nil {
		c.starting.give(cost)
		c.cutOff(ch, ErrClosed)
		return err
	}
	select {
	case <-o.answered:
	case <-c.done:
	case <-ctx.Done():
		if c.abandon(ch, o, cost) {
			return ctx.Err()
		}
	}
	if !c.settle(o, cost) {
		return c.reason()
	}
	return o.err
}

// settle waits until o was answered and is sent, gives back what it counted, and
// says whether it came to that before the stream ended. A guest that answers what it
// has not read is broken: it could have us queue without bound.
func (c *Client) settle(o *opening, cost int) bool {
	defer c.starting.give(cost)
	if !c.await(o.answered, nil) {
		return false
	}
	for range 2 { // twice, lest a stop of this process be taken for the guest's doing
		patience := time.NewTimer(drain / 2)
		sent := c.await(o.sent, patience.C)
		patience.Stop()
		if sent || c.reason() != nil {
			return sent
		}
	}
	c.fail(broken("answer to an opening that was not read"))
	return false
}

// await waits for event until the stream ends or patience does, and says whether it
// has happened.
func (c *Client) await(event <-chan struct{}, patience <-chan time.Time) bool {
	select {
	case <-event:
		return true
	case <-c.done:
	case <-patience:
	}
	select {
	case <-event: // both
		return true
	default:
		return false
	}
}

// enqueue gives ch a number and queues its frames, both in the same order. A
// hostile guest may answer before the frames are queued.
func (c *Client) enqueue(ch *channel, o *opening, frames func(id uint32) []*outward) error {
	c.opens.Lock()
	defer c.opens.Unlock()
	c.link.mu.Lock()
	switch {
	case c.err != nil:
		defer c.link.mu.Unlock()
		return c.err
	case len(c.channels) >= maxChannels:
		defer c.link.mu.Unlock()
		return &StartError{Step: "open", Errno: int(syscall.EAGAIN), Text: fmt.Sprintf("%d programs and connections are open", maxChannels)}
	case c.last == 1<<32-1:
		defer c.link.mu.Unlock()
		return &StartError{Step: "open", Errno: int(syscall.EAGAIN), Text: "all channel numbers of this stream are used"}
	}
	c.last++
	ch.id = c.last
	c.channels[ch.id] = ch
	c.link.mu.Unlock()
	o.parts = frames(ch.id)
	o.parts[len(o.parts)-1].written = o.sent
	c.out.postStart(o.parts...)
	return nil
}

// abandon gives up an opening that was not answered, and says whether it did. What
// is on its way still arrives; what it opens is ended at once.
func (c *Client) abandon(ch *channel, o *opening, cost int) bool {
	c.link.mu.Lock()
	if o.complete {
		c.link.mu.Unlock()
		return false
	}
	o.abandoned = true
	c.link.mu.Unlock()
	if c.out.withdraw(o.parts) {
		c.starting.give(cost)
		c.drop(ch)
		return true
	}
	if o.parts[0].fds != nil {
		c.await(o.sent, nil)
	}
	go c.settle(o, cost)
	return true
}

// handleOpened handles the answer to an opening.
func (c *Client) handleOpened(f frame) error {
	ch, err := c.find(f.id)
	if err != nil {
		return err
	}
	if ch == nil || ch.opening == nil {
		return broken("second answer for channel %d", f.id)
	}
	o := ch.opening
	if (f.kind == kindStarted) != (ch.process != nil) && f.kind != kindRefused {
		return broken("answer kind %d for channel %d", f.kind, f.id)
	}
	if err := c.readOpened(ch, f); err != nil {
		return err
	}
	ch.opening = nil
	c.link.mu.Lock()
	o.complete = !o.abandoned
	c.link.mu.Unlock()
	if o.err != nil {
		c.drop(ch)
	} else {
		c.finish(ch)
		if !o.complete {
			c.discard(ch)
		}
	}
	close(o.answered)
	return nil
}

// readOpened reads the answer into ch and its opening.
func (c *Client) readOpened(ch *channel, f frame) error {
	d := NewDecoder(f.payload)
	var window int
	switch f.kind {
	case kindRefused:
		refusal, err := decodeError(f.payload)
		if err != nil {
			return fmt.Errorf("guest stream: read error: %w", err)
		}
		ch.opening.err = refusal
		return nil
	case kindStarted:
		ch.process.PID = int(d.UintMax(1<<31 - 1))
		fallthrough
	default:
		window = decodeWindow(d)
	}
	if err := d.Finish(); err != nil {
		return fmt.Errorf("guest stream: read answer: %w", err)
	}
	input := ch.senders[0]
	if (window > 0) != (input != nil) {
		return broken("window of %d for the input of channel %d", window, ch.id)
	}
	if input == nil {
		return nil
	}
	return input.fund(window)
}

// discard ends what an abandoned opening has opened after all.
func (c *Client) discard(ch *channel) {
	if ch.process != nil {
		go func() { _ = ch.process.Signal(int(syscall.SIGKILL), false) }()
	}
	for i := range ch.readers {
		if s := ch.senders[i]; s != nil {
			s.reset()
		}
		if r := ch.readers[i]; r != nil {
			_ = r.Close()
		}
	}
}

// conn is a connection to a port inside, seen from outside.
type conn struct {
	*reader
	input *sender
}

func (c conn) Write(p []byte) (int, error) { return c.input.Write(p) }
func (c conn) CloseWrite() error           { return c.input.Close() }

// Close cuts off what was not sent to its end and drops what was not read.
func (c conn) Close() error {
	c.input.reset()
	return c.reader.Close()
}

// DialPort connects to a port on the loopback inside.
func (c *Client) DialPort(ctx context.Context, port uint16) (Conn, error) {
	ch := &channel{parts: 3} // answer, two lanes
	ch.senders[0] = newSender(c.link, ch, 0, 0)
	ch.readers[1] = newReader(c.link, ch, 1)
	message := encodeNumbers(uint64(port), uint64(ch.readers[1].window))
	err := c.open(ctx, ch, len(message), func(id uint32) []*outward {
		return []*outward{{bytes: appendFrame(nil, kindDial, 0, id, message)}}
	})
	if err != nil {
		return nil, err
	}
	return conn{ch.readers[1], ch.senders[0]}, nil
}
