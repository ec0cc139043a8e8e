package guest

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// heapGrowth returns a function that checks how much more is held than now.
func heapGrowth(t *testing.T, most int64) func(t *testing.T) {
	t.Helper()
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := held()
	return func(t *testing.T) {
		t.Helper()
		grown := held() - before
		t.Logf("%d KiB more", grown>>10)
		if grown > most {
			t.Errorf("%d KiB more are held, at most %d are allowed", grown>>10, most>>10)
		}
	}
}

// TestMemoryOfFullWindows: a guest fills every window of a thousand programs,
// which would be 500 MiB if every lane had the largest.
func TestMemoryOfFullWindows(t *testing.T) {
	const count = 1000
	check := heapGrowth(t, windowBudget+2*count*minWindow+16<<20)
	outer, inner := pair(t)
	c := Open(outer)
	go floodWindows(inner)
	processes := make([]*Process, count)
	for i := range processes {
		processes[i] = mustStart(t, c, Command{Argv: []string{"a"}})
	}
	last := processes[count-1].Stderr.(*reader)
	waitFor(t, "all windows to be full", func() bool {
		last.mu.Lock()
		defer last.mu.Unlock()
		return last.credit == 0
	})
	check(t)
	_, _ = inner.Write(appendFrame(nil, kindData, 1, 1, []byte("x"))) // one byte more
	<-c.Done()
	checkError(t, c.Err(), "has credit for")
	runtime.KeepAlive(processes)
}

// floodWindows plays a guest that answers every start with all that its lanes
// may hold.
func floodWindows(s Stream) {
	_, _ = s.Write(ourHello())
	r := newFrameReader(s, true)
	zeros := make([]byte, maxPayload)
	for {
		f, err := r.next()
		if err != nil {
			return
		}
		if f.kind != kindStart {
			continue
		}
		m, err := decodeStart(f.payload)
		if err != nil {
			return
		}
		_, _ = s.Write(appendFrame(nil, kindStarted, 0, f.id, encodeNumbers(5, maxWindow)))
		for lane, window := range map[uint8]int{1: m.stdout, 2: m.stderr} {
			for ; window > 0; window -= min(window, maxPayload) {
				_, _ = s.Write(appendFrame(nil, kindData, lane, f.id, zeros[:min(window, maxPayload)]))
			}
		}
	}
}

// TestMemoryOfFloods: an outer side that asks without end, reads nothing or lets
// nothing finish is cut off at the bounds.
func TestMemoryOfFloods(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	long := strings.Repeat("x", maxMessage*4/5)
	longStart := encodeStart(start{command: Command{Argv: []string{long}}, stdout: maxWindow, stderr: maxWindow})
	for name, c := range map[string]struct {
		next func(id uint32) []byte
		want string
	}{
		"calls": {func(id uint32) []byte { return appendFrame(nil, kindFreeze, 0, id, nil) }, "calls at once"},
		"programs": {func(id uint32) []byte {
			return appendFrame(nil, kindStart, 0, id, startOf("hold"))
		}, "more than 4096 channels"},
		"ports": {func(id uint32) []byte {
			return appendFrame(nil, kindDial, 0, id, encodeNumbers(1, maxWindow))
		}, "more than 4096 channels"},
		"long starts": {func(id uint32) []byte {
			var b []byte
			for _, p := range startFrames(id, longStart, nil) {
				b = append(b, p.bytes...)
			}
			return b
		}, "bytes of starts at once"},
		"answers that it does not read": {func(id uint32) []byte {
			return appendFrame(nil, kindSignal, 0, id, []byte{9, 18, 0})
		}, "guest stream: "}, // the queue or the calls, whichever is full first
	} {
		t.Run(name, func(t *testing.T) {
			check := heapGrowth(t, maxStarting+2*maxMessage+2*maxQueue+64<<20)
			handler := &blocked{fake{programs: map[string]func(*fakeProgram){}}, block}
			outer, inner := pair(t)
			served := make(chan error, 1)
			go func() { served <- Serve(inner, Hello{}, handler) }()
			_, err := outer.Write(ourHello())
			for id := uint32(1); err == nil; id++ {
				_, err = outer.Write(c.next(id))
			}
			checkError(t, <-served, c.want)
			check(t)
		})
	}
}

// blocked is a handler that finishes nothing.
type blocked struct {
	fake
	until chan struct{}
}

func (b *blocked) wait() error { <-b.until; return io.EOF }

func (b *blocked) Start(Command, StdIO, Events) (Program, error) { return nil, b.wait() }
func (b *blocked) DialPort(uint16) (Conn, error)                 { return nil, b.wait() }
func (b *blocked) Freeze() error                                 { return b.wait() }
