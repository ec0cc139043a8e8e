package guest

import (
	"context"
	"fmt"
	"sync"
	"syscall"
)

// SetupError says that the guest could not set its box up. The guest is gone.
type SetupError struct{ Hello Hello }

// Error names the step and what went wrong.
func (e *SetupError) Error() string { return "set up sandbox: " + e.Hello.Step + ": " + e.Hello.Failed }

// Unwrap returns the errno, if the guest gave one.
func (e *SetupError) Unwrap() error {
	if e.Hello.Errno == 0 {
		return nil
	}
	return syscall.Errno(e.Hello.Errno)
}

// Client is the outer side of a stream to a guest. Its methods may be called
// concurrently. It treats what the guest sends as hostile.
type Client struct {
	*link
	ready chan struct{} // closed when hello is known
	hello Hello

	starting budget // of startCost
	calling  budget // of calls

	opens    sync.Mutex // held while a channel gets its number and its place in the queue
	mu       sync.Mutex
	lastCall uint32
	calls    map[uint32]chan error
}

// Open starts a client on the stream and waits for nothing: a Start that follows
// is on its way before the guest has said its hello. The stream is the
// client's.
func Open(s Stream) *Client {
	c := &Client{
		ready:    make(chan struct{}),
		starting: budget{free: maxStarting},
		calling:  budget{free: maxCalls},
		calls:    map[uint32]chan error{},
	}
	c.link = newLink(s, false)
	c.out.post(kindHello, 0, 0, encodeHello(Hello{Version: Version}))
	go c.out.loop(c.done)
	go c.run()
	return c
}

// Dial opens a client and waits until the guest stands. On error, a *SetupError
// where the guest says why, the stream is closed.
func Dial(ctx context.Context, s Stream) (*Client, error) {
	c := Open(s)
	if _, err := c.Ready(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Ready waits for the guest's hello.
func (c *Client) Ready(ctx context.Context) (Hello, error) {
	select {
	case <-c.ready:
		return c.hello, nil
	case <-c.done:
	case <-ctx.Done():
		return Hello{}, ctx.Err()
	}
	select {
	case <-c.ready: // both
		return c.hello, nil
	default:
		return Hello{}, c.reason()
	}
}

// Hello returns what the guest said first; the zero value before that.
func (c *Client) Hello() Hello {
	select {
	case <-c.ready:
		return c.hello
	default:
		return Hello{}
	}
}

// Done is closed when the stream has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the stream ended: ErrClosed after Close, a *SetupError, what the
// guest did wrong. It is nil before.
func (c *Client) Err() error { return c.reason() }

// Close ends the stream, and with it every channel and call.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	return nil
}

// run reads the stream until it ends.
func (c *Client) run() {
	c.fail(c.read(c.handle))
}

func (c *Client) handle(f frame) error {
	if c.Hello().Version == 0 {
		return c.handleHello(f)
	}
	if f.kind.laned() {
		return c.handleLane(f)
	}
	switch f.kind {
	case kindStarted, kindDialed, kindRefused:
		return c.handleOpened(f)
	case kindExit, kindStopped:
		return c.handleProcess(f)
	case kindDone, kindFailed:
		return c.handleReply(f)
	}
	return broken("frame kind %d from the guest", f.kind)
}

func (c *Client) handleHello(f frame) error {
	h, err := checkHello(f)
	if err != nil {
		return err
	}
	if h.Failed != "" {
		return &SetupError{Hello: h}
	}
	c.hello = h
	close(c.ready)
	return nil
}

// Freeze stops every program inside; repeated is the same.
func (c *Client) Freeze(ctx context.Context) error { return c.call(ctx, kindFreeze, nil) }

// Thaw lets the programs go on.
func (c *Client) Thaw(ctx context.Context) error { return c.call(ctx, kindThaw, nil) }

// Identify gives the box its identity.
func (c *Client) Identify(ctx context.Context, i Identity) error {
	if len(i.Sandbox) > maxField || len(i.Hostname) > maxField || len(i.Entropy) > maxEntropy {
		return &StartError{Step: "identify", Errno: int(syscall.E2BIG), Text: "identity is too long"}
	}
	return c.call(ctx, kindIdentify, encodeIdentity(i))
}

// call makes a call and waits for its answer. When ctx ends first, the guest may
// still do it.
func (c *Client) call(ctx context.Context, k kind, payload []byte) error {
	if err := c.calling.take(ctx, c.done, 1); err != nil {
		return c.because(err)
	}
	answer := make(chan error, 1)
	c.mu.Lock()
	c.lastCall++
	id := c.lastCall
	for c.calls[id] != nil { // after four thousand million
		id++
	}
	c.lastCall = id
	c.calls[id] = answer
	c.mu.Unlock()
	c.out.post(k, 0, id, payload)
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		select {
		case err := <-answer:
			return err
		default:
			return c.reason()
		}
	}
}

// because returns why the stream ended, if err says that it did.
func (c *Client) because(err error) error {
	if err == errGone {
		return c.reason()
	}
	return err
}

func (c *Client) handleReply(f frame) error {
	c.mu.Lock()
	answer := c.calls[f.id]
	delete(c.calls, f.id)
	c.mu.Unlock()
	if answer == nil {
		return broken("answer to call %d, which was not made", f.id)
	}
	c.calling.give(1)
	if f.kind == kindDone {
		if len(f.payload) > 0 {
			return broken("answer of %d bytes", len(f.payload))
		}
		answer <- nil
		return nil
	}
	refusal, err := decodeError(f.payload)
	if err != nil {
		return fmt.Errorf("guest stream: read error: %w", err)
	}
	answer <- refusal
	return nil
}
