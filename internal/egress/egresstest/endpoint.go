// Package egresstest is the contracts of package egress as tests: Endpoint for
// whatever is a PacketEndpoint (the drivers' wires and egress.Pipe), Dialer for what
// dials for the gateway. Table is a dialer over a table in memory, for tests of what
// stands above one. It is imported by tests only.
package egresstest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/egress"
)

// patience is how long something that must happen may take.
const patience = 10 * time.Second

// Endpoint tests a wire. pair makes a new one: the endpoint under test, and
// the box's side of it, where packets come out as they went in. The pair is closed by
// the test.
func Endpoint(t *testing.T, pair func(t testing.TB) (outer, box egress.PacketEndpoint)) {
	for _, c := range endpointChecks() {
		t.Run(c.name, func(t *testing.T) {
			outer, box := pair(t)
			defer outer.Close()
			defer box.Close()
			c.run(t, outer, box)
		})
	}
}

type endpointCheck struct {
	name string
	run  func(t testing.TB, a, b egress.PacketEndpoint)
}

func endpointChecks() []endpointCheck {
	return []endpointCheck{
		{"whole packets, in order", checkWhole},
		{"both directions at once", checkBoth},
		{"longer than the MTU is an error", checkMTU},
		{"longer than the buffer is dropped, never cut", checkShortBuffer},
		{"the writer's buffer is its own", checkBuffer},
		{"a write never waits for a reader", checkFull},
		{"EOF after Close", checkClose},
		{"EOF when the other side is gone", checkPeerClose},
		{"Close from many sides", checkCloseConcurrently},
	}
}

// packet is an IPv4 packet of n bytes, at least 20, that says its number.
func packet(n int, number byte) []byte {
	p := bytes.Repeat([]byte{number}, n)
	copy(p, []byte{0x45, 0, 0, 0, 0, number, 0, 0, 64, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}) // protocol 253: for experiments
	binary.BigEndian.PutUint16(p[2:], uint16(n))
	return p
}

// read reads one packet, against a deadline.
func read(t testing.TB, e egress.PacketEndpoint, size int) ([]byte, error) {
	t.Helper()
	type result struct {
		p   []byte
		err error
	}
	got := make(chan result, 1)
	go func() {
		p := make([]byte, size)
		n, err := e.ReadPacket(p)
		got <- result{p[:min(n, size)], err}
	}()
	select {
	case r := <-got:
		return r.p, r.err
	case <-time.After(patience):
		t.Fatalf("no packet, and no error, in %v", patience)
		return nil, nil
	}
}

func write(t testing.TB, e egress.PacketEndpoint, p []byte) {
	t.Helper()
	if err := e.WritePacket(p); err != nil {
		t.Fatalf("write a packet of %d bytes: %v", len(p), err)
	}
}

// expect reads the packet want.
func expect(t testing.TB, e egress.PacketEndpoint, want []byte) {
	t.Helper()
	got, err := read(t, e, e.MTU())
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read a packet of %d bytes, %v; want %d bytes, the same that were written", len(got), err, len(want))
	}
}

func checkWhole(t testing.TB, a, b egress.PacketEndpoint) {
	if a.MTU() < 576 || a.MTU() != b.MTU() {
		t.Fatalf("the MTU is %d and %d: want the same, at least 576", a.MTU(), b.MTU())
	}
	sizes := []int{20, 21, 576, a.MTU() - 1, a.MTU()}
	for _, dir := range [][2]egress.PacketEndpoint{{a, b}, {b, a}} {
		for i, n := range sizes {
			write(t, dir[0], packet(n, byte(i)))
		}
		for i, n := range sizes {
			expect(t, dir[1], packet(n, byte(i)))
		}
	}
}

func checkBoth(t testing.TB, a, b egress.PacketEndpoint) {
	const n = 100
	var all sync.WaitGroup
	for _, dir := range [][2]egress.PacketEndpoint{{a, b}, {b, a}} {
		all.Go(func() {
			for i := range n {
				if err := dir[0].WritePacket(packet(100+i, byte(i))); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
		all.Go(func() {
			p := make([]byte, dir[1].MTU())
			for i := range n {
				size, err := dir[1].ReadPacket(p)
				if err != nil || !bytes.Equal(p[:size], packet(100+i, byte(i))) {
					t.Errorf("packet %d: %d bytes, %v", i, size, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func checkMTU(t testing.TB, a, b egress.PacketEndpoint) {
	for _, n := range []int{a.MTU() + 1, a.MTU() + 10000} {
		if err := a.WritePacket(make([]byte, n)); err == nil {
			t.Errorf("a packet of %d bytes was taken, the MTU is %d", n, a.MTU())
		}
	}
	write(t, a, packet(a.MTU(), 1))
	expect(t, b, packet(a.MTU(), 1))
}

func checkShortBuffer(t testing.TB, a, b egress.PacketEndpoint) {
	write(t, a, packet(101, 1))
	write(t, a, packet(100, 2))
	got, err := read(t, b, 100)
	if err != nil || !bytes.Equal(got, packet(100, 2)) {
		t.Errorf("with a buffer of 100 bytes, after a packet of 101: %d bytes, %v; want the next packet", len(got), err)
	}
}

func checkBuffer(t testing.TB, a, b egress.PacketEndpoint) {
	p := packet(100, 1)
	write(t, a, p)
	clear(p)
	expect(t, b, packet(100, 1))
}

func checkFull(t testing.TB, a, b egress.PacketEndpoint) {
	const burst = 5000
	done := make(chan error, 1)
	go func() {
		for i := range burst {
			if err := a.WritePacket(packet(1000, byte(i))); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("a packet too many is an error (%v): want it dropped", err)
		}
	case <-time.After(patience):
		t.Fatalf("the writer waits for the reader")
	}
	for range 2 * burst { // what was queued is whole, then the link works as before
		write(t, a, packet(200, 9))
		got, err := read(t, b, b.MTU())
		switch {
		case err == nil && bytes.Equal(got, packet(200, 9)):
			return
		case err != nil || len(got) != 1000 || !bytes.Equal(got, packet(1000, got[5])):
			t.Fatalf("a packet of the burst: %d bytes, %v", len(got), err)
		}
	}
	t.Errorf("after a burst the link does not come back")
}

func checkClose(t testing.TB, a, _ egress.PacketEndpoint) {
	got := make(chan error, 1)
	go func() {
		_, err := a.ReadPacket(make([]byte, a.MTU()))
		got <- err
	}()
	if err := a.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	select {
	case err := <-got:
		if !errors.Is(err, io.EOF) {
			t.Errorf("a read during Close: %v, want io.EOF", err)
		}
	case <-time.After(patience):
		t.Fatalf("a read does not end with Close")
	}
	if _, err := read(t, a, a.MTU()); !errors.Is(err, io.EOF) {
		t.Errorf("a read after Close: %v, want io.EOF", err)
	}
	if err := a.WritePacket(packet(100, 1)); err == nil {
		t.Errorf("a write after Close succeeded")
	}
}

func checkPeerClose(t testing.TB, a, b egress.PacketEndpoint) {
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := read(t, a, a.MTU()); !errors.Is(err, io.EOF) {
		t.Errorf("a read when the other side is gone: %v, want io.EOF", err)
	}
}

func checkCloseConcurrently(t testing.TB, a, b egress.PacketEndpoint) {
	var all sync.WaitGroup
	for _, e := range []egress.PacketEndpoint{a, b} {
		all.Go(func() {
			for p := make([]byte, e.MTU()); ; {
				if _, err := e.ReadPacket(p); err != nil {
					return
				}
			}
		})
		all.Go(func() {
			for e.WritePacket(packet(100, 1)) == nil {
			}
		})
		for range 2 {
			all.Go(func() { _ = e.Close() }) // the second may say that it was closed
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("readers and writers do not end with Close")
	}
}
