package escape

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A tracer records the system calls of a process and of all that it starts
// from then on, as the host's kernel sees them. It is made of descriptors
// alone, so that nothing of it outlives the process that holds it.
type tracer struct {
	enter, exit uint16 // ids of the two tracepoints
	fds         []int
	rings       [][]byte
}

// A sysCall is one system call as the kernel's exit tracepoint shows it. Args
// is empty where a filter refused it before the kernel looked at it.
type sysCall struct {
	tid  uint32
	time uint64
	nr   int64
	args []uint64
	ret  int64
	done bool
}

const ringPages = 1024 // 4 MiB a processor: a Go product's start and the probe fit many times

// newTracer attaches to the process pid, which waits at the gate; recording
// starts when it executes its program.
func newTracer(pid int) (*tracer, error) {
	t := &tracer{}
	for _, x := range []struct {
		name string
		id   *uint16
	}{{"sys_enter", &t.enter}, {"sys_exit", &t.exit}} {
		b, err := os.ReadFile(tracefs + "/events/raw_syscalls/" + x.name + "/id")
		if err != nil {
			return nil, fmt.Errorf("the kernel's tracepoints need root: %w", err)
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("read tracepoint: %w", err)
		}
		*x.id = uint16(n)
	}
	for cpu := range runtime.NumCPU() {
		if err := t.open(pid, cpu); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func (t *tracer) open(pid, cpu int) error {
	first := -1
	for _, id := range []uint16{t.enter, t.exit} {
		attr := &unix.PerfEventAttr{
			Type: unix.PERF_TYPE_TRACEPOINT, Config: uint64(id), Sample: 1,
			Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_RAW,
			Bits:        unix.PerfBitInherit | unix.PerfBitDisabled | unix.PerfBitEnableOnExec,
		}
		fd, err := unix.PerfEventOpen(attr, pid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("trace system calls: %w", err)
		}
		t.fds = append(t.fds, fd)
		if first >= 0 {
			if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, first); err != nil {
				return fmt.Errorf("join trace buffers: %w", err)
			}
			continue
		}
		first = fd
		ring, err := unix.Mmap(fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map trace buffer: %w", err)
		}
		t.rings = append(t.rings, ring)
	}
	return nil
}

// Offsets of struct perf_event_mmap_page and of a sample as asked for above.
const (
	ringHead     = 1024
	recordSample = 9
	recordLost   = 2
)

// calls gives what was recorded so far, in no order, and how many records were lost.
func (t *tracer) calls() (calls []sysCall, lost int) {
	for _, ring := range t.rings {
		page := os.Getpagesize()
		data := ring[page:]
		head := binary.LittleEndian.Uint64(ring[ringHead:])
		if head > uint64(len(data)) {
			head = uint64(len(data))
		}
		for at := uint64(0); at+8 <= head; {
			size := uint64(binary.LittleEndian.Uint16(data[at+6:]))
			if size < 8 || at+size > head {
				break
			}
			rec := data[at : at+size]
			switch binary.LittleEndian.Uint32(rec) {
			case recordSample:
				if c, ok := t.parse(rec[8:]); ok {
					calls = append(calls, c)
				}
			case recordLost:
				lost++
			}
			at += size
		}
		// The kernel stops at a full buffer: what came later is missing.
		if uint64(len(data))-head < 4096 {
			lost++
		}
	}
	return calls, lost
}

// parse reads one sample: pid, tid, time, size, then the tracepoint's record
// (8 bytes common to all, the number, then arguments or result).
func (t *tracer) parse(b []byte) (sysCall, bool) {
	if len(b) < 20+24 {
		return sysCall{}, false
	}
	c := sysCall{tid: binary.LittleEndian.Uint32(b[4:]), time: binary.LittleEndian.Uint64(b[8:])}
	raw := b[20:]
	c.nr = int64(binary.LittleEndian.Uint64(raw[8:]))
	switch binary.LittleEndian.Uint16(raw) {
	case t.exit:
		c.ret, c.done = int64(binary.LittleEndian.Uint64(raw[16:])), true
	case t.enter:
		for i := 16; i+8 <= len(raw) && len(c.args) < 6; i += 8 {
			c.args = append(c.args, binary.LittleEndian.Uint64(raw[i:]))
		}
	default:
		return sysCall{}, false
	}
	return c, true
}

func (t *tracer) close() {
	for _, r := range t.rings {
		_ = unix.Munmap(r)
	}
	for _, fd := range t.fds {
		_ = unix.Close(fd)
	}
}
