package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Pipe returns the two ends of a link in memory: what is written to one is read
// from the other. It stands for a wire in tests, and may join two boxes. Each direction
// holds at most 512 packets; what comes when it is full is dropped and counted.
func Pipe(mtu int) (a, b *PipeEnd) {
	ab, ba := newQueue(), newQueue()
	return &PipeEnd{mtu, ba, ab}, &PipeEnd{mtu, ab, ba}
}

// pipePackets is as much as a Linux interface queues (half of its usual 1000).
const pipePackets = 512

// PipeEnd is one end of a Pipe, a PacketEndpoint.
type PipeEnd struct {
	mtu     int
	in, out *queue
}

var errNoPacket = errors.New("write packet: it is empty")

// ReadPacket returns the next packet. When the other end is closed it returns
// what is queued still, then io.EOF.
func (e *PipeEnd) ReadPacket(p []byte) (int, error) {
	for {
		packet, ok := e.in.take()
		if !ok {
			return 0, io.EOF
		}
		if len(packet) <= len(p) {
			return copy(p, packet), nil
		}
		e.in.drop()
	}
}

// WritePacket queues a copy of p. It never waits.
func (e *PipeEnd) WritePacket(p []byte) error {
	switch {
	case len(p) == 0:
		return errNoPacket
	case len(p) > e.mtu:
		return fmt.Errorf("write packet: it has %d bytes, the MTU is %d", len(p), e.mtu)
	}
	if !e.out.put(p) {
		return fmt.Errorf("write packet: %w", net.ErrClosed)
	}
	return nil
}

// MTU is the largest packet.
func (e *PipeEnd) MTU() int { return e.mtu }

// Dropped counts the packets to this end that it never got, or that were longer
// than the buffer of its reader.
func (e *PipeEnd) Dropped() uint64 { return e.in.count() }

// Close ends both directions. This end reads nothing more, the other what is
// queued. It may be repeated.
func (e *PipeEnd) Close() error {
	e.in.close(true)
	e.out.close(false)
	return nil
}

// queue is one direction.
type queue struct {
	mu      sync.Mutex
	filled  *sync.Cond
	packets [][]byte
	closed  bool
	dropped uint64
}

func newQueue() *queue {
	q := &queue{}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *queue) put(p []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return false
	case len(q.packets) >= pipePackets:
		q.dropped++
	default:
		q.packets = append(q.packets, append([]byte(nil), p...))
		q.filled.Signal()
	}
	return true
}

func (q *queue) take() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.packets) == 0 && !q.closed {
		q.filled.Wait()
	}
	if len(q.packets) == 0 {
		return nil, false
	}
	p := q.packets[0]
	q.packets[0] = nil
	q.packets = q.packets[1:]
	return p, true
}

func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped++
}

func (q *queue) count() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

func (q *queue) close(discard bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if discard {
		q.packets = nil
	}
	q.filled.Broadcast()
}
