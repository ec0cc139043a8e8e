package egresstest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/egress"
)

// Dialer tests a dialer. New makes one that resolves names by the table alone.
// All that is dialled is a listener on the loopback, whose accepts are counted: a
// refusal must be none.
func Dialer(t *testing.T, newDialer func(t testing.TB, names map[string][]netip.Addr) egress.Dialer) {
	for _, c := range dialerChecks() {
		t.Run(c.name, func(t *testing.T) {
			c.run(newStand(t, newDialer))
		})
	}
}

type dialerCheck struct {
	name string
	run  func(s *stand)
}

func dialerChecks() []dialerCheck {
	return []dialerCheck{
		{"the zero request is refused", checkZero},
		{"an allowed one connects", checkAllowed},
		{"classes are refused", checkClasses},
		{"one bad address among good ones is refused", checkMixed},
		{"a named host service", checkService},
		{"what fails is an error, not a denial", checkFailures},
		{"a ctx that has ended", checkContext},
	}
}

// stand is a dialer and what it may reach.
type stand struct {
	testing.TB
	dialer   egress.Dialer
	echo     netip.AddrPort // a listener on the loopback
	dead     uint16         // a port where nobody listens
	accepted atomic.Int64
}

func newStand(t testing.TB, newDialer func(testing.TB, map[string][]netip.Addr) egress.Dialer) *stand {
	t.Helper()
	s := &stand{TB: t}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.accepted.Add(1)
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	s.echo = netip.MustParseAddrPort(l.Addr().String())
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s.dead = netip.MustParseAddrPort(closed.Addr().String()).Port()
	_ = closed.Close()
	s.dialer = newDialer(t, map[string][]netip.Addr{
		"echo.test":     {s.echo.Addr()},
		"metadata.test": {netip.MustParseAddr("169.254.169.254")},
		"mapped.test":   {netip.MustParseAddr("::ffff:127.0.0.1")},
		"mixed.test":    {netip.MustParseAddr("169.254.169.254"), s.echo.Addr()},
	})
	return s
}

// dial dials and checks what holds of every answer.
func (s *stand) dial(ctx context.Context, r egress.Request) (io.ReadWriteCloser, api.Decision, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, d, err := s.dialer.Dial(ctx, r)
	if (conn != nil) != (d.Action == api.ActionAllow && err == nil) {
		s.Errorf("dial %+v: a connection (%v) with action %s and error %v", r, conn != nil, d.Action, err)
	}
	if d.Action == api.ActionDeny && err == nil && d.Reason == "" {
		s.Errorf("dial %+v: denied without a reason", r)
	}
	return conn, d, err
}

// refused checks that a request is denied, and that nobody was called.
func (s *stand) refused(r egress.Request) {
	s.Helper()
	before := s.accepted.Load()
	conn, d, err := s.dial(context.Background(), r)
	if conn != nil {
		_ = conn.Close()
	}
	if d.Action != api.ActionDeny || err != nil || conn != nil {
		s.Errorf("dial %+v: action %s, error %v, want a denial", r, d.Action, err)
	}
	if s.accepted.Load() != before {
		s.Errorf("dial %+v: somebody was called", r)
	}
}

// works checks that a request connects to the echo.
func (s *stand) works(r egress.Request) {
	s.Helper()
	conn, d, err := s.dial(context.Background(), r)
	if err != nil || d.Action != api.ActionAllow || conn == nil {
		s.Fatalf("dial %+v: action %s (%s), error %v, want a connection", r, d.Action, d.Reason, err)
	}
	defer conn.Close()
	if d.Verb != "connect" || d.Target == "" || d.Rule != r.Rule {
		s.Errorf("dial %+v: the decision is %+v", r, d)
	}
	got := make(chan string, 1)
	go func() {
		_, err := io.WriteString(conn, "ping")
		p := make([]byte, 4)
		if err == nil {
			_, err = io.ReadFull(conn, p)
		}
		if err != nil {
			got <- err.Error()
			return
		}
		got <- string(p)
	}()
	select {
	case answer := <-got:
		if answer != "ping" {
			s.Errorf("the connection says %q", answer)
		}
	case <-time.After(patience):
		s.Errorf("the connection says nothing")
	}
}

func (s *stand) named(host string) egress.Request {
	return egress.Request{Authority: egress.Authority{Host: host, Port: s.echo.Port()}, Rule: "test"}
}

func (s *stand) addressed(addr string) egress.Request {
	return egress.Request{Authority: egress.Authority{Addr: netip.MustParseAddr(addr), Port: s.echo.Port()}, Rule: "test"}
}

func checkZero(s *stand) {
	s.refused(egress.Request{})
	allowed := s.named("echo.test")
	allowed.Private = true
	for _, spoil := range []func(*egress.Request){
		func(r *egress.Request) { r.Rule = "" },
		func(r *egress.Request) { r.Authority.Host = "" },
		func(r *egress.Request) { r.Authority.Port = 0 },
	} {
		r := allowed
		spoil(&r)
		s.refused(r)
	}
	s.works(allowed)
}

func checkAllowed(s *stand) {
	r := s.named("echo.test")
	r.Private = true
	s.works(r)
	r = s.addressed("127.0.0.1")
	r.Private = true
	s.works(r)
}

// checkClasses: private only by a rule that says so, metadata never.
func checkClasses(s *stand) {
	for _, host := range []string{"echo.test", "mapped.test", "metadata.test"} {
		s.refused(s.named(host))
	}
	for _, addr := range []string{"127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "100.64.0.1", "64:ff9b::7f00:1"} {
		s.refused(s.addressed(addr))
	}
	for _, r := range []egress.Request{s.named("metadata.test"), s.addressed("169.254.169.254"), s.addressed("::ffff:169.254.169.254")} {
		r.Private = true
		s.refused(r)
	}
	control := s.named("mapped.test")
	control.Private = true
	s.works(control)
}

func checkMixed(s *stand) {
	r := s.named("mixed.test")
	r.Private = true
	s.refused(r)
}

// checkService: it is dialled as it is, wherever it lies.
func checkService(s *stand) {
	s.works(egress.Request{Authority: egress.Authority{Host: "service.internal", Port: 5432}, Rule: "test", To: s.echo})
	s.refused(egress.Request{Authority: egress.Authority{Host: "service.internal", Port: 5432}, To: s.echo}) // by no rule
}

func checkFailures(s *stand) {
	nobody := s.named("echo.test")
	nobody.Private = true
	nobody.Authority.Port = s.dead
	for what, r := range map[string]egress.Request{"a port where nobody listens": nobody, "a name that does not exist": s.named("nobody.test")} {
		if conn, _, err := s.dial(context.Background(), r); err == nil || conn != nil {
			s.Errorf("%s: error %v, a connection %v", what, err, conn != nil)
		}
	}
}

func checkContext(s *stand) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := s.named("echo.test")
	r.Private = true
	if conn, _, err := s.dial(ctx, r); err == nil || conn != nil {
		s.Errorf("with a ctx that has ended: error %v, a connection %v", err, conn != nil)
	}
}
