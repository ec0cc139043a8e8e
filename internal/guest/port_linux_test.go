package guest

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// listen returns a handler that dials a listener on the loopback, and the
// connections that it accepts.
func listen(t *testing.T) (Handler, <-chan *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan *net.TCPConn)
	go func() {
		for {
			conn, err := l.AcceptTCP()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	return &fake{dial: func(port uint16) (Conn, error) {
		if port != 80 {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	}}, accepted
}

func TestPortHalfClose(t *testing.T) {
	h, accepted := listen(t)
	c := connect(t, h)
	conn, err := c.DialPort(withTimeout(t), 80)
	if err != nil {
		t.Fatal(err)
	}
	inside := <-accepted
	question, answer := strings.Repeat("q", 3<<20), strings.Repeat("a", 3<<20)
	go func() {
		_, _ = io.WriteString(conn, question)
		_ = conn.CloseWrite()
	}()
	if got := mustReadAll(t, inside); got != question {
		t.Errorf("%d bytes inside", len(got))
	}
	go func() {
		_, _ = io.WriteString(inside, answer)
		_ = inside.Close()
	}()
	if got := mustReadAll(t, conn); got != answer {
		t.Errorf("%d bytes outside", len(got))
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, "the channel to be forgotten", func() bool {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		return len(c.channels) == 0
	})
}

func TestPortRefused(t *testing.T) {
	h, _ := listen(t)
	c := connect(t, h)
	if _, err := c.DialPort(withTimeout(t), 81); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}

// TestPortClosedOutside: the connection inside ends, whether or not the outer
// side had ended its own direction before.
func TestPortClosedOutside(t *testing.T) {
	for name, half := range map[string]bool{"at once": false, "after a half close": true} {
		h, accepted := listen(t)
		c := connect(t, h)
		conn, err := c.DialPort(withTimeout(t), 80)
		if err != nil {
			t.Fatal(err)
		}
		inside := <-accepted
		if half {
			_ = conn.CloseWrite()
			_ = mustReadAll(t, inside)
		}
		_ = conn.Close()
		buf := make([]byte, 64<<10)
		waitFor(t, name+": the end inside", func() bool { // a write into a closed connection fails, later
			_, err := inside.Write(buf)
			return err != nil
		})
		_ = inside.Close()
		if _, err := conn.Write(buf); err != ErrClosed {
			t.Errorf("%s: write after close: %v", name, err)
		}
	}
}

// TestPortClosedOutsideWhileIdle: a connection inside that says nothing is closed
// as well.
func TestPortClosedOutsideWhileIdle(t *testing.T) {
	idle := &idleConn{closed: make(chan struct{})}
	c := connect(t, &fake{dial: func(uint16) (Conn, error) { return idle, nil }})
	conn, err := c.DialPort(withTimeout(t), 80)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-idle.closed:
		t.Error("a half close closed it")
	default:
	}
	_ = conn.Close()
	select {
	case <-idle.closed:
	case <-withTimeout(t).Done():
		t.Error("it is open")
	}
}

// idleConn is a connection whose other side says nothing.
type idleConn struct {
	once   sync.Once
	closed chan struct{}
}

func (c *idleConn) Read([]byte) (int, error)    { <-c.closed; return 0, io.ErrClosedPipe }
func (c *idleConn) Write(p []byte) (int, error) { return len(p), nil }
func (c *idleConn) CloseWrite() error           { return nil }
func (c *idleConn) Close() error                { c.once.Do(func() { close(c.closed) }); return nil }

// TestPortResetInside: a connection that breaks is not taken for one that ends.
func TestPortResetInside(t *testing.T) {
	h, accepted := listen(t)
	c := connect(t, h)
	conn, err := c.DialPort(withTimeout(t), 80)
	if err != nil {
		t.Fatal(err)
	}
	inside := <-accepted
	if _, err := io.WriteString(inside, "part"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "part" {
		t.Fatalf("%q, %v", buf, err)
	}
	_ = inside.SetLinger(0)
	_ = inside.Close()
	if _, err := conn.Read(buf); err != ErrReset {
		t.Errorf("read of a connection that was reset: %v", err)
	}
	waitFor(t, "the other direction's end", func() bool {
		_, err := conn.Write(buf)
		return err == ErrReset
	})
}
