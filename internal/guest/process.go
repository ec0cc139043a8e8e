package guest

import (
	"context"
	"fmt"
	"syscall"
)

// Start starts a program. The error is a *StartError where the guest refused. If
// ctx ends first, the program is killed in case it was started after all. The
// channels are the caller's to read to their end or to close.
func (c *Client) Start(ctx context.Context, cmd Command) (*Process, error) {
	if err := c.checkCommand(cmd); err != nil {
		return nil, err
	}
	p := &Process{client: c, exited: make(chan struct{}), stopped: make(chan struct{}, 1)}
	ch := &channel{process: p, parts: 2} // answer and exit
	p.ch = ch
	s := start{command: cmd, descriptors: cmd.Descriptors != nil}
	if !s.descriptors {
		ch.senders[0] = newSender(c.link, ch, 0, 0)
		ch.readers[1] = newReader(c.link, ch, 1)
		s.stdout = ch.readers[1].window
		p.Stdin, p.Stdout = ch.senders[0], ch.readers[1]
		ch.parts += 2
	}
	if !s.descriptors && cmd.Terminal == nil {
		ch.readers[2] = newReader(c.link, ch, 2)
		s.stderr = ch.readers[2].window
		p.Stderr = ch.readers[2]
		ch.parts++
	}
	message := encodeStart(s)
	if len(message) > maxMessage {
		c.cutOff(ch, ErrClosed)
		return nil, &StartError{Step: "exec", Errno: int(syscall.E2BIG), Text: "arguments and environment are too long"}
	}
	err := c.open(ctx, ch, startCost(len(message), cmd), func(id uint32) []*outward {
		return startFrames(id, message, cmd.Descriptors)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (c *Client) checkCommand(cmd Command) error {
	invalid := func(text string) error {
		return &StartError{Step: "start", Errno: int(syscall.EINVAL), Text: text}
	}
	switch {
	case len(cmd.Argv) == 0:
		return invalid("no arguments, not even the program's name")
	case len(cmd.Argv) > maxStrings || len(cmd.Env) > maxStrings:
		return &StartError{Step: "exec", Errno: int(syscall.E2BIG), Text: "too many arguments or variables"}
	case cmd.Descriptors == nil:
		return nil
	case len(cmd.Descriptors) != 3:
		return invalid(fmt.Sprintf("%d descriptors, not 3", len(cmd.Descriptors)))
	case cmd.Terminal != nil:
		return invalid("descriptors and a terminal")
	case c.stream.SendDescriptors == nil:
		return invalid("this stream carries no descriptors")
	}
	return nil
}

// startFrames cuts a start into frames; the descriptors go with the first.
func startFrames(id uint32, message []byte, fds []int) []*outward {
	var parts []*outward
	for first := true; first || len(message) > 0; first = false {
		n := min(len(message), maxPayload)
		var flags uint8
		if n < len(message) {
			flags |= flagMore
		}
		part := &outward{}
		if first && fds != nil {
			flags |= flagDescriptors
			part.fds = fds
		}
		part.bytes = appendFrame(nil, kindStart, flags, id, message[:n])
		parts = append(parts, part)
		message = message[n:]
	}
	return parts
}

// Signal sends a signal to the program, or, with group, to its process group. It
// returns when the guest has done so; a program that has ended is ESRCH.
func (p *Process) Signal(signal int, group bool) error {
	var e Encoder
	e.Uint(uint64(p.ch.id))
	e.Int(int64(signal))
	e.Bool(group)
	return p.client.call(context.Background(), kindSignal, e.Data())
}

// Resize tells the program's terminal its size.
func (p *Process) Resize(size Size) error {
	var e Encoder
	e.Uint(uint64(p.ch.id))
	encodeSize(&e, size)
	return p.client.call(context.Background(), kindResize, e.Data())
}

// Continue lets a stopped program go on.
func (p *Process) Continue() error {
	return p.client.call(context.Background(), kindContinue, encodeNumbers(uint64(p.ch.id)))
}

// Stopped gets a value each time that the terminal's foreground program was
// stopped. It holds one.
func (p *Process) Stopped() <-chan struct{} { return p.stopped }

// Wait waits for the end of the program itself; output may still come. Many may
// wait. The error is ctx's, or says why the stream ended before the exit was known.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.exited:
		return p.exit, nil
	case <-p.client.done:
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
	select {
	case <-p.exited: // both
		return p.exit, nil
	default:
		return Exit{}, p.client.reason()
	}
}

// handleProcess handles what the guest reports of a program.
func (c *Client) handleProcess(f frame) error {
	ch, err := c.find(f.id)
	if err != nil {
		return err
	}
	if ch == nil || ch.process == nil || ch.opening != nil || ch.process.hasExited() {
		return broken("frame kind %d for channel %d, which is no running program", f.kind, f.id)
	}
	p := ch.process
	if f.kind == kindStopped {
		if len(f.payload) > 0 {
			return broken("stop of %d bytes", len(f.payload))
		}
		select {
		case p.stopped <- struct{}{}:
		default:
		}
		return nil
	}
	if p.exit, err = decodeExit(f.payload); err != nil {
		return fmt.Errorf("guest stream: read exit: %w", err)
	}
	c.finish(ch)
	close(p.exited)
	return nil
}

func (p *Process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}
