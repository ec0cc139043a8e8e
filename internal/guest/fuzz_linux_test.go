package guest

import (
	"bytes"
	"io"
	"testing"
)

// FuzzServe gives hostile bytes to the inner side: it must end, whatever they
// are, and hold to its bounds.
func FuzzServe(f *testing.F) {
	h := appendFrame
	open := frames(ourHello(), h(nil, kindStart, 0, 1, startOf("cat")))
	f.Add(open)
	f.Add(frames(open, h(nil, kindData, 0, 1, []byte("x")), h(nil, kindEnd, 0, 1, nil), h(nil, kindReset, 1, 1, nil)))
	f.Add(frames(open, h(nil, kindSignal, 0, 1, []byte{1, 18, 0}), h(nil, kindResize, 0, 2, []byte{1, 2, 3}), h(nil, kindContinue, 0, 3, []byte{1})))
	f.Add(frames(ourHello(), h(nil, kindDial, 0, 1, encodeNumbers(80, maxWindow)), h(nil, kindData, 0, 1, []byte("x")), h(nil, kindReset, 0, 1, nil)))
	f.Add(frames(ourHello(), h(nil, kindStart, flagMore, 1, []byte{2, 1}), h(nil, kindThaw, 0, 1, nil), h(nil, kindStart, 0, 1, []byte{3})))
	f.Add(frames(ourHello(), h(nil, kindIdentify, 0, 1, encodeIdentity(Identity{Entropy: []byte("0")}))))
	f.Fuzz(func(t *testing.T, p []byte) {
		handler := &fake{
			programs: map[string]func(*fakeProgram){"cat": cat},
			freeze:   func() error { return nil },
			dial:     func(uint16) (Conn, error) { return loop(), nil },
		}
		_ = Serve(Stream{ReadWriteCloser: dialog{bytes.NewReader(p), io.Discard}, ReceiveDescriptors: func() []int { return nil }}, Hello{}, handler)
	})
}

// loop is a connection that says back what it hears.
func loop() Conn {
	r, w := io.Pipe()
	return loopConn{r, w}
}

type loopConn struct {
	*io.PipeReader
	w *io.PipeWriter
}

func (l loopConn) Write(p []byte) (int, error) { return l.w.Write(p) }
func (l loopConn) CloseWrite() error           { return l.w.Close() }

func (l loopConn) Close() error {
	_ = l.w.Close()
	return l.PipeReader.Close()
}

// FuzzDial gives hostile bytes to a client that has a program and a call on
// their way: it must end, and nothing on it may hang.
func FuzzDial(f *testing.F) {
	h := appendFrame
	started := frames(ourHello(), h(nil, kindStarted, 0, 1, encodeNumbers(5, maxWindow)))
	f.Add(started)
	f.Add(frames(started, h(nil, kindData, 1, 1, []byte("x")), h(nil, kindEnd, 1, 1, nil), h(nil, kindReset, 2, 1, nil)))
	f.Add(frames(started, h(nil, kindStopped, 0, 1, nil), h(nil, kindReset, 0, 1, nil), h(nil, kindExit, 0, 1, encodeExit(Exit{Code: 1}))))
	f.Add(frames(ourHello(), h(nil, kindRefused, 0, 1, encodeError("a", io.EOF)), h(nil, kindFailed, 0, 1, encodeError("b", io.EOF))))
	f.Add(frames(ourHello(), h(nil, kindDone, 0, 1, nil)))
	f.Add(h(nil, kindHello, 0, 0, encodeHello(Hello{Version: Version, Failed: "why"})))
	f.Fuzz(func(t *testing.T, p []byte) {
		playGuest(t, p, func(c *Client) {
			checkStays(t, c)
			c.link.mu.Lock()
			defer c.link.mu.Unlock()
			if c.windows > windowBudget {
				t.Errorf("windows of %d bytes", c.windows)
			}
		})
	})
}
