package guest

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHostileDescriptors: what a guest sends outward is closed at once, and so
// is what comes inward unannounced. Announced ones are the control.
func TestHostileDescriptors(t *testing.T) {
	file, open := markedFile(t)
	fd := int(file.Fd())
	message := encodeStart(start{command: Command{Argv: []string{"fds"}}, descriptors: true})
	announced := appendFrame(nil, kindStart, flagDescriptors, 1, message)
	for name, c := range map[string]struct {
		count int
		bytes []byte
		want  string
	}{
		"control":         {3, announced, ""},
		"two":             {2, announced, "2 descriptors"},
		"four":            {4, announced, "more than are allowed"},
		"a hundred":       {100, announced, "more than are allowed"},
		"unannounced":     {3, appendFrame(nil, kindStart, 0, 1, startOf("fds")), "no frame announced"},
		"with a call":     {1, appendFrame(nil, kindThaw, 0, 1, nil), "no frame announced"},
		"with a bit":      {3, []byte{1}, "within a frame"},
		"with no message": {3, appendFrame(nil, kindStart, flagDescriptors, 1, nil), "read start"},
		"with half start": {3, appendFrame(nil, kindStart, flagDescriptors|flagMore, 1, message), ""},
	} {
		outer, inner := pair(t)
		served, got := make(chan error, 1), make(chan int, 1)
		go func() {
			served <- Serve(inner, Hello{}, &fake{programs: map[string]func(*fakeProgram){"fds": func(p *fakeProgram) {
				closeDescriptors(p.Descriptors)
				got <- len(p.Descriptors)
			}}})
		}()
		if _, err := io.ReadFull(outer, make([]byte, len(ourHello()))); err != nil {
			t.Fatal(err)
		}
		if _, err := outer.Write(ourHello()); err != nil {
			t.Fatal(err)
		}
		if err := outer.SendDescriptors(c.bytes, manyOf(fd, c.count)); err != nil {
			t.Fatal(err)
		}
		if name == "control" && <-got != 3 {
			t.Error("the control got no three descriptors")
		}
		if c.want == "" || strings.HasPrefix(c.want, "within") {
			_ = outer.Close()
		}
		if err := <-served; err != nil || c.want != "" {
			if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want: %s", name, err, c.want)
			}
		}
		_ = outer.Close()
		waitFor(t, name+": all descriptors to be closed", func() bool { return open() == 1 })
	}
}

func TestHostileDescriptorsOutward(t *testing.T) {
	file, open := markedFile(t)
	outer, inner := pair(t)
	c := Open(outer)
	if err := inner.SendDescriptors(ourHello(), manyOf(int(file.Fd()), 3)); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	checkError(t, c.Err(), "no frame announced")
	_ = inner.Close()
	waitFor(t, "all descriptors to be closed", func() bool { return open() == 1 })
}

func manyOf(fd, n int) []int {
	fds := make([]int, n)
	for i := range fds {
		fds[i] = fd
	}
	return fds
}

// markedFile returns a file and a function that counts the descriptors that
// lead to it.
func markedFile(t *testing.T) (file *os.File, count func() int) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "marked"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file, func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, entry := range list {
			if link, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && link == file.Name() {
				n++
			}
		}
		return n
	}
}

// TestDescriptorsOfTwoStarts has one read end within the header of a start, so
// that the next read brings the descriptors of a second.
func TestDescriptorsOfTwoStarts(t *testing.T) {
	outer, inner := pair(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()

	filler := func(n int) []byte {
		return frames(ourHello(), appendFrame(nil, kindStart, 0, 1, startOf("none", strings.Repeat("x", n))))
	}
	const some = 60_000
	begin := filler(some + frameSize - 6 - len(filler(some)))
	if len(begin) != frameSize-6 {
		t.Fatalf("%d bytes before the starts", len(begin))
	}
	if _, err := outer.Write(begin); err != nil {
		t.Fatal(err)
	}
	message := encodeStart(start{command: Command{Argv: []string{"fds"}}, descriptors: true})
	for _, id := range []uint32{2, 3} {
		if err := outer.SendDescriptors(appendFrame(nil, kindStart, flagDescriptors, id, message), manyOf(int(null.Fd()), 3)); err != nil {
			t.Fatal(err)
		}
	}
	got, served := make(chan int, 2), make(chan error, 1)
	go func() {
		served <- Serve(inner, Hello{}, &fake{programs: map[string]func(*fakeProgram){"fds": func(p *fakeProgram) {
			closeDescriptors(p.Descriptors)
			got <- len(p.Descriptors)
		}}})
	}()
	for range 2 {
		select {
		case n := <-got:
			if n != 3 {
				t.Errorf("%d descriptors", n)
			}
		case err := <-served:
			t.Fatal(err)
		}
	}
	_ = outer.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestAnswerBeforeTheQuestion: a hostile guest answers a start that it was not sent
// yet. The caller must not be told, or it would close descriptors whose
// numbers are still to be passed on.
func TestAnswerBeforeTheQuestion(t *testing.T) {
	outer, inner := pair(t)
	entered, release := make(chan struct{}), make(chan struct{})
	send := outer.SendDescriptors
	outer.SendDescriptors = func(p []byte, fds []int) error {
		close(entered)
		<-release
		return send(p, fds)
	}
	c := Open(outer)
	defer func() { _ = c.Close() }()
	returned := make(chan error, 1)
	go func() {
		_, err := c.Start(withTimeout(t), Command{Argv: []string{"a"}, Descriptors: []int{0, 0, 0}})
		returned <- err
	}()
	<-entered
	answer := frames(ourHello(), appendFrame(nil, kindStarted, 0, 1, encodeNumbers(5, 0)))
	if _, err := inner.Write(answer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the answer to be heard", func() bool {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		ch := c.channels[1]
		return ch != nil && ch.parts == 1
	})
	select {
	case <-returned:
		t.Error("Start returned before its descriptors were sent")
	default:
	}
	close(release)
	if err := <-returned; err != nil {
		t.Error(err)
	}
}

// TestAnswerWithoutReading: a guest that reads nothing and answers all the same is
// cut off, after a while.
func TestAnswerWithoutReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard, says := io.Pipe()
		unread, told := io.Pipe()
		c := Open(Stream{ReadWriteCloser: duplex{heard, told}})
		started := make(chan error, 1)
		go func() {
			_, err := c.Start(t.Context(), Command{Argv: []string{"a"}})
			started <- err
		}()
		synctest.Wait()
		_, _ = says.Write(frames(ourHello(), appendFrame(nil, kindStarted, 0, 1, encodeNumbers(5, maxWindow))))
		begin := time.Now()
		checkError(t, <-started, "was not read")
		if waited := time.Since(begin); waited != drain {
			t.Errorf("waited for %v", waited)
		}
		<-c.Done()
		_ = unread.Close()
	})
}

// duplex is a stream of two pipes.
type duplex struct {
	*io.PipeReader
	w *io.PipeWriter
}

func (d duplex) Write(p []byte) (int, error) { return d.w.Write(p) }

func (d duplex) Close() error {
	_ = d.w.Close()
	return d.PipeReader.Close()
}
