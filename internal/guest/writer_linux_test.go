package guest

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// gated is a stream that writes only what it is let.
type gated struct {
	io.Reader
	bytes.Buffer
	entered, pass chan struct{}
}

func (g *gated) Read(p []byte) (int, error) { return g.Reader.Read(p) }
func (g *gated) Close() error               { return nil }

func (g *gated) Write(p []byte) (int, error) {
	g.entered <- struct{}{}
	<-g.pass
	return g.Buffer.Write(p)
}

// TestControlGoesFirst: what waits while a frame is written goes in the order
// control, starts, data, whichever came first.
func TestControlGoesFirst(t *testing.T) {
	g := &gated{Reader: bytes.NewReader(nil), entered: make(chan struct{}), pass: make(chan struct{})}
	w := newWriter(Stream{ReadWriteCloser: g}, func(err error) { t.Error(err) })
	done := make(chan struct{})
	go w.loop(done)
	w.post(kindHello, 0, 0, nil)
	<-g.entered
	data := make(chan error, 1)
	go func() { data <- w.data(1, 3, []byte("data")) }()
	w.postStart(
		&outward{bytes: appendFrame(nil, kindStart, flagMore, 2, []byte("a"))},
		&outward{bytes: appendFrame(nil, kindStart, 0, 2, []byte("b"))},
	)
	w.post(kindExit, 0, 1, nil)
	g.pass <- struct{}{} // the hello
	<-g.entered          // the exit
	g.pass <- struct{}{}
	<-g.entered // the first part
	w.post(kindSignal, 0, 4, nil)
	for range 3 { // the first part, the signal, the second
		g.pass <- struct{}{}
		<-g.entered
	}
	g.pass <- struct{}{} // the data
	if err := <-data; err != nil {
		t.Fatal(err)
	}
	close(done)
	r := newFrameReader(Stream{ReadWriteCloser: dialog{&g.Buffer, io.Discard}}, false)
	var got []string
	for {
		f, flags, err := r.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d/%d%s", f.kind, flags, f.payload))
	}
	want := fmt.Sprintf("[%d/0 %d/0 %d/%da %d/0 %d/0b %d/1data]", kindHello, kindExit, kindStart, flagMore, kindSignal, kindStart, kindData)
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestRing(t *testing.T) {
	var r ring
	var in, out byte
	for round := range 2000 {
		p := make([]byte, round*7%600)
		for i := range p {
			p[i] = in
			in++
		}
		if r.size+len(p) <= 10_000 {
			r.put(p, 10_000)
		} else {
			in -= byte(len(p))
		}
		q := make([]byte, round*11%500)
		for _, b := range q[:r.take(q)] {
			if b != out {
				t.Fatalf("round %d: %d, want %d", round, b, out)
			}
			out++
		}
	}
	if len(r.buf) > 10_000 {
		t.Errorf("grew to %d bytes", len(r.buf))
	}
}

func TestBudgetIsFair(t *testing.T) {
	b := budget{free: 10}
	ctx, over := t.Context(), make(chan struct{})
	if err := b.take(ctx, over, 8); err != nil {
		t.Fatal(err)
	}
	order := make(chan int, 2)
	for i, n := range []int{5, 1} { // the small one waits behind the large
		go func() {
			_ = b.take(ctx, over, n)
			order <- i
		}()
		for waiting := 0; waiting <= i; {
			b.mu.Lock()
			waiting = len(b.waiting)
			b.mu.Unlock()
		}
	}
	select {
	case i := <-order:
		t.Fatalf("claim %d was served over the limit", i)
	default:
	}
	b.give(3)
	if i := <-order; i != 0 {
		b.give(5)
		t.Errorf("claim %d came first", i)
	}
	b.give(1)
	<-order
	close(over)
	if err := b.take(ctx, over, 11); err != errGone {
		t.Errorf("after the end: %v", err)
	}
}

// TestControlOvertakesData: control that came after waiting data goes before it.
func TestControlOvertakesData(t *testing.T) {
	g := &gated{Reader: bytes.NewReader(nil), entered: make(chan struct{}), pass: make(chan struct{})}
	w := newWriter(Stream{ReadWriteCloser: g}, func(err error) { t.Error(err) })
	data := make(chan error, 2)
	go func() { data <- w.data(1, 1, []byte("first")) }()
	<-g.entered
	go func() { data <- w.data(1, 1, []byte("second")) }()
	w.post(kindExit, 0, 1, nil) // and there is no loop that would write it
	for range 2 {
		g.pass <- struct{}{}
		<-g.entered
	}
	g.pass <- struct{}{}
	for range 2 {
		if err := <-data; err != nil {
			t.Fatal(err)
		}
	}
	want := frames(appendFrame(nil, kindData, 1, 1, []byte("first")), appendFrame(nil, kindExit, 0, 1, nil), appendFrame(nil, kindData, 1, 1, []byte("second")))
	if !bytes.Equal(g.Bytes(), want) {
		t.Errorf("%q", g.Bytes())
	}
}

// TestEndWaitsForData: a lane that is closed while its last data waits ends after
// it, though ends are control and go first.
func TestEndWaitsForData(t *testing.T) {
	g := &gated{Reader: bytes.NewReader(nil), entered: make(chan struct{}), pass: make(chan struct{})}
	l := newLink(Stream{ReadWriteCloser: g}, false)
	s := newSender(l, &channel{id: 1, parts: 1}, 1, maxWindow)
	l.out.turn.Lock()
	written := make(chan error, 1)
	go func() { _, err := s.Write([]byte("last")); written <- err }()
	for taken := false; !taken; {
		s.mu.Lock()
		taken = s.credit < maxWindow
		s.mu.Unlock()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l.out.turn.Unlock()
	<-g.entered
	g.pass <- struct{}{}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go l.out.loop(done)
	<-g.entered
	g.pass <- struct{}{}
	close(done)
	l.out.turn.Lock() // the loop has written
	defer l.out.turn.Unlock()
	want := frames(appendFrame(nil, kindData, 1, 1, []byte("last")), appendFrame(nil, kindEnd, 1, 1, nil))
	if !bytes.Equal(g.Bytes(), want) {
		t.Errorf("%q", g.Bytes())
	}
}

// TestQueueIsBounded: control for a peer that does not read ends the stream at the
// bound, and not before.
func TestQueueIsBounded(t *testing.T) {
	failed := make(chan error, 1)
	w := newWriter(Stream{}, func(err error) { failed <- err })
	fits := maxQueue / frameSize
	for range fits {
		w.post(kindFailed, 0, 1, make([]byte, maxPayload))
	}
	select {
	case err := <-failed:
		t.Fatalf("within the bound: %v", err)
	default:
	}
	w.post(kindDone, 0, 1, nil)
	if err := <-failed; err != errQueue {
		t.Error(err)
	}
}
