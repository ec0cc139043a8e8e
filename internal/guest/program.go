package guest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// program is a started program on the inner side, and its events on their way
// out.
type program struct {
	server *server
	ch     *channel
	open   atomic.Int32 // the exit and the outputs that have not ended

	mu      sync.Mutex
	inner   Program
	started bool
	held    []held // events before the answer to the start
	exited  bool
	stopped bool // told, and not continued
}

type held struct {
	kind    kind
	payload []byte
}

func (s *server) handleStart(f frame) error {
	m, err := decodeStart(f.payload)
	if err != nil {
		closeDescriptors(f.descriptors)
		return fmt.Errorf("guest stream: read start: %w", err)
	}
	if m.descriptors != (f.descriptors != nil) {
		closeDescriptors(f.descriptors)
		return broken("%d descriptors with a start", len(f.descriptors))
	}
	m.command.Descriptors = f.descriptors
	cost := startCost(len(f.payload), m.command)
	ch := &channel{parts: 2} // answer and exit
	p := &program{server: s, ch: ch}
	ch.program = p
	io := p.makeLanes(m)
	if err := s.admit(ch, f.id, cost); err != nil {
		closeDescriptors(f.descriptors)
		return err
	}
	go p.start(m.command, io, cost)
	return nil
}

// makeLanes makes the lanes that the start asks for.
func (p *program) makeLanes(m start) (io StdIO) {
	p.open.Store(1)
	output := func(lane uint8, credit int) *sender {
		s := newSender(p.server.link, p.ch, lane, credit)
		s.over = func(bool) { p.ended() }
		p.ch.senders[lane] = s
		p.ch.parts++
		p.open.Add(1)
		return s
	}
	if m.descriptors {
		return io
	}
	p.ch.readers[0] = newReader(p.server.link, p.ch, 0)
	p.ch.parts++
	io.Stdin, io.Stdout = p.ch.readers[0], output(1, m.stdout)
	if m.stderr > 0 {
		io.Stderr = output(2, m.stderr)
	}
	return io
}

// start has the handler start the program, and answers.
func (p *program) start(cmd Command, io StdIO, cost int) {
	var inner Program
	err := checkArguments(cmd)
	if err != nil {
		closeDescriptors(cmd.Descriptors)
	} else {
		inner, err = p.server.handler.Start(cmd, io, Events{Exited: p.reportExit, Stopped: p.reportStop})
	}
	if err != nil {
		p.server.answer(p.ch, cost, kindRefused, encodeError("start", err))
		return
	}
	var window int
	if r := p.ch.readers[0]; r != nil {
		window = r.window
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inner, p.started = inner, true
	p.server.answer(p.ch, cost, kindStarted, encodeNumbers(uint64(max(inner.PID(), 0)), uint64(window)))
	for _, h := range p.held {
		p.send(h)
	}
	p.held = nil
}

// checkArguments refuses what no exec can take, so that no handler cuts it short.
func checkArguments(cmd Command) error {
	invalid := &StartError{Step: "start", Errno: int(syscall.EINVAL), Text: "a NUL byte in the arguments"}
	if len(cmd.Argv) == 0 {
		invalid.Text = "no arguments, not even the program's name"
		return invalid
	}
	if strings.IndexByte(cmd.Dir, 0) >= 0 {
		return invalid
	}
	for _, list := range [][]string{cmd.Argv, cmd.Env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return invalid
			}
		}
	}
	return nil
}

// reportExit is Events.Exited.
func (p *program) reportExit(x Exit) {
	p.mu.Lock()
	first := !p.exited
	p.exited = true
	if first {
		p.sendOrHold(held{kindExit, encodeExit(x)})
	}
	p.mu.Unlock()
	if first {
		p.ended()
	}
}

// reportStop is Events.Stopped.
func (p *program) reportStop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exited || p.stopped {
		return
	}
	p.stopped = true
	p.sendOrHold(held{kindStopped, nil})
}

func (p *program) sendOrHold(h held) {
	if !p.started {
		p.held = append(p.held, h)
		return
	}
	p.send(h)
}

func (p *program) send(h held) {
	if h.kind == kindExit {
		p.server.finish(p.ch)
	}
	p.server.out.post(h.kind, 0, p.ch.id, h.payload)
}

// ended counts the exit and the ends of outputs. After the last nobody reads
// the input.
func (p *program) ended() {
	if p.open.Add(-1) == 0 && p.ch.readers[0] != nil {
		_ = p.ch.readers[0].Close()
	}
}

func (p *program) hasStarted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// signal passes a signal on. A program that has ended gets none, since its number may
// be another's; its group may live on, and then the number is still its own.
func (p *program) signal(signal int, group bool) error {
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	if exited && !group {
		return syscall.ESRCH
	}
	return p.inner.Signal(signal, group)
}

func (p *program) resume() error {
	p.mu.Lock()
	p.stopped = false
	p.mu.Unlock()
	return p.inner.Continue()
}
