package egresstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/egress"
)

func TestPipe(t *testing.T) {
	for _, mtu := range []int{1500, 65520} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			Endpoint(t, func(testing.TB) (outer, box egress.PacketEndpoint) { return egress.Pipe(mtu) })
		})
	}
}

func TestTable(t *testing.T) {
	Dialer(t, func(_ testing.TB, names map[string][]netip.Addr) egress.Dialer { return Table(names) })
}

// recorder is a testing.TB that remembers what a check said.
type recorder struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// said runs a check that is meant to fail and returns what it says.
func said(t *testing.T, check func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.said, "\n")
}

// badEnd replaces what is not nil.
type badEnd struct {
	egress.PacketEndpoint
	read  func(p []byte) (int, error)
	write func(p []byte) error
	close func() error
}

func (b badEnd) ReadPacket(p []byte) (int, error) {
	if b.read != nil {
		return b.read(p)
	}
	return b.PacketEndpoint.ReadPacket(p)
}

func (b badEnd) WritePacket(p []byte) error {
	if b.write != nil {
		return b.write(p)
	}
	return b.PacketEndpoint.WritePacket(p)
}

func (b badEnd) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.PacketEndpoint.Close()
}

// TestEndpointChecksBite: each known way to be wrong is caught by its check.
func TestEndpointChecksBite(t *testing.T) {
	for _, c := range []struct {
		name, check, says string
		spoil             func(a, b egress.PacketEndpoint) (egress.PacketEndpoint, egress.PacketEndpoint)
	}{
		{"cuts", "longer than the buffer is dropped, never cut", "want the next packet", func(a, b egress.PacketEndpoint) (egress.PacketEndpoint, egress.PacketEndpoint) {
			return a, badEnd{PacketEndpoint: b, read: func(p []byte) (int, error) {
				big := make([]byte, b.MTU())
				n, err := b.ReadPacket(big)
				return copy(p, big[:n]), err
			}}
		}},
		{"takes too much", "longer than the MTU is an error", "was taken", func(a, b egress.PacketEndpoint) (egress.PacketEndpoint, egress.PacketEndpoint) {
			return badEnd{PacketEndpoint: a, write: func(p []byte) error { return a.WritePacket(p[:min(len(p), a.MTU())]) }}, b
		}},
		{"changes packets", "whole packets, in order", "the same that were written", func(a, b egress.PacketEndpoint) (egress.PacketEndpoint, egress.PacketEndpoint) {
			return badEnd{PacketEndpoint: a, write: func(p []byte) error { return a.WritePacket(append(p[:len(p)-1:len(p)-1], 0)) }}, b
		}},
		{"says a full link is an error", "a write never waits for a reader", "want it dropped", func(a, b egress.PacketEndpoint) (egress.PacketEndpoint, egress.PacketEndpoint) {
			n := 0
			return badEnd{PacketEndpoint: a, write: func(p []byte) error {
				if n++; n > 512 {
					return errors.New("full")
				}
				return a.WritePacket(p)
			}}, b
		}},
		{"an end that is no EOF", "EOF when the other side is gone", "want io.EOF", func(a, b egress.PacketEndpoint) (egress.PacketEndpoint, egress.PacketEndpoint) {
			return badEnd{PacketEndpoint: a, read: func(p []byte) (int, error) {
				n, err := a.ReadPacket(p)
				if err != nil {
					err = errors.New("device gone")
				}
				return n, err
			}}, b
		}},
		{"writes after Close", "EOF after Close", "a write after Close succeeded", func(a, b egress.PacketEndpoint) (egress.PacketEndpoint, egress.PacketEndpoint) {
			return badEnd{PacketEndpoint: a, write: func([]byte) error { return nil }}, b
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer, box := egress.Pipe(1500)
			a, b := c.spoil(outer, box)
			for _, check := range endpointChecks() {
				if check.name != c.check {
					continue
				}
				if got := said(t, func(t testing.TB) { check.run(t, a, b) }); !strings.Contains(got, c.says) {
					t.Errorf("the check says %q, want %q", got, c.says)
				}
				return
			}
			t.Errorf("there is no check %q", c.check)
		})
	}
}

// badDialer changes a request or an answer of the table.
type badDialer struct {
	egress.Dialer
	ask    func(r *egress.Request)
	answer func(conn io.ReadWriteCloser, d *api.Decision, err *error)
}

func (b badDialer) Dial(ctx context.Context, r egress.Request) (io.ReadWriteCloser, api.Decision, error) {
	if b.ask != nil {
		b.ask(&r)
	}
	conn, d, err := b.Dialer.Dial(ctx, r)
	if b.answer != nil {
		b.answer(conn, &d, &err)
	}
	return conn, d, err
}

func TestDialerChecksBite(t *testing.T) {
	for _, c := range []struct {
		name, check, says string
		bad               badDialer
	}{
		{"needs no rule", "the zero request is refused", "want a denial", badDialer{ask: func(r *egress.Request) { r.Rule = "any" }}},
		{"everything is private", "classes are refused", "somebody was called", badDialer{ask: func(r *egress.Request) { r.Private = true }}},
		{"nothing is private", "an allowed one connects", "want a connection", badDialer{ask: func(r *egress.Request) { r.Private = false }}},
		{"looks at one address", "one bad address among good ones is refused", "want a denial", badDialer{ask: func(r *egress.Request) {
			if r.Authority.Host == "mixed.test" {
				r.Authority.Host = "echo.test"
			}
		}}},
		{"classes a host service", "a named host service", "want a connection", badDialer{ask: func(r *egress.Request) {
			if r.To.IsValid() {
				r.Authority = egress.Authority{Addr: r.To.Addr(), Port: r.To.Port()}
				r.To = netip.AddrPort{}
			}
		}}},
		{"denies what failed", "what fails is an error, not a denial", "error <nil>", badDialer{answer: func(_ io.ReadWriteCloser, d *api.Decision, err *error) {
			if *err != nil {
				d.Action, *err = api.ActionDeny, nil
			}
		}}},
		{"denies without a reason", "the zero request is refused", "denied without a reason", badDialer{answer: func(_ io.ReadWriteCloser, d *api.Decision, _ *error) { d.Reason = "" }}},
		{"a denied connection", "an allowed one connects", "a connection (true) with action deny", badDialer{answer: func(_ io.ReadWriteCloser, d *api.Decision, _ *error) { d.Action = api.ActionDeny }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, check := range dialerChecks() {
				if check.name != c.check {
					continue
				}
				got := said(t, func(t testing.TB) {
					check.run(newStand(t, func(_ testing.TB, names map[string][]netip.Addr) egress.Dialer {
						bad := c.bad
						bad.Dialer = Table(names)
						return bad
					}))
				})
				if !strings.Contains(got, c.says) {
					t.Errorf("the check says %q, want %q", got, c.says)
				}
				return
			}
			t.Errorf("there is no check %q", c.check)
		})
	}
}
