//go:build linux

package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// segment is the end of a sandbox's events: where the next one goes.
type segment struct {
	file   *os.File // nil before the first event
	number int      // of the file, from 1
	size   int64
	torn   bool   // what is after size is a failed write that could not be taken back
	seq    uint64 // of the last event
	last   string // sha256 of its line
}

// Append writes one event: in one write, so that the death of the keeper
// leaves it whole or not at all. Seq, Sandbox, Previous (the sha256 of the line before, in
// hexadecimal) and, if it is zero, Time are filled in; what a terminal would obey
// in the texts is escaped. Without an error the event is in the file.
func (f *Folder) Append(e api.Event) error {
	_, err := f.AppendTold(e)
	return err
}

// AppendTold is Append that returns the event as it was written, for whoever tells
// it on.
func (f *Folder) AppendTold(e api.Event) (api.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.append(&e); err != nil {
		return api.Event{}, fmt.Errorf("append event of sandbox %s: %w", f.id, err)
	}
	return e, nil
}

func (f *Folder) append(e *api.Event) error {
	if f.closed {
		return os.ErrClosed
	}
	s := &f.segment
	e.Seq, e.Sandbox, e.Previous = s.seq+1, f.id, s.last
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	escapeEvent(e)
	line, err := encodeEvent(e)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if len(line) > maxEvent {
		return fmt.Errorf("it has %d bytes, more than %d", len(line), maxEvent)
	}
	if err := f.room(int64(len(line)) + 1); err != nil {
		return err
	}
	text := append(line, '\n')
	if s.torn {
		text = append([]byte{'\n'}, text...) // ends the torn line, which readers skip
	}
	n, err := s.file.Write(text)
	if err != nil {
		s.torn = n > 0 && unix.Ftruncate(number(s.file), s.size) != nil
		return err
	}
	s.size += int64(n)
	s.torn = false
	s.seq = e.Seq
	s.last = hash(line)
	return nil
}

func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// room makes sure that there is a segment that can take n bytes, and removes
// the oldest but the first (which says what the sandbox was made of) if there
// are too many.
func (f *Folder) room(n int64) error {
	s := &f.segment
	if s.file != nil && (s.size == 0 || s.size+n <= f.store.segmentSize) {
		return nil
	}
	next, err := openAt(number(f.dir), segmentName(s.number+1), unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	if s.file != nil {
		err = s.file.Close()
	}
	s.file, s.size, s.torn = next, 0, false
	s.number++
	if old := s.number - f.store.maxSegments + 1; old > 1 {
		err = errors.Join(err, unlink(number(f.dir), segmentName(old), 0))
	}
	return err
}

// resume finds the end of the events that an earlier keeper wrote. A torn last
// line is cut off: it was never acknowledged.
func (f *Folder) resume() error {
	numbers, err := segments(f.dir)
	if err != nil || len(numbers) == 0 {
		return err
	}
	s := &f.segment
	s.number = numbers[len(numbers)-1]
	for i := len(numbers) - 1; i >= 0 && s.seq == 0; i-- { // the last one may be empty
		err := eachEvent(f.dir, segmentName(numbers[i]), func(e api.Event, line []byte) bool {
			s.seq, s.last = e.Seq, hash(line)
			return true
		})
		if err != nil {
			return err
		}
	}
	if s.file, err = openAt(number(f.dir), segmentName(s.number), unix.O_RDWR|unix.O_APPEND); err != nil {
		return err
	}
	if s.size, err = wholeLines(s.file); err != nil {
		return err
	}
	return unix.Ftruncate(number(s.file), s.size)
}

// wholeLines is the length of the file up to its last line break.
func wholeLines(f *os.File) (int64, error) {
	end, err := regular(f)
	if err != nil {
		return 0, err
	}
	block := make([]byte, 64<<10)
	for end > 0 {
		start := max(0, end-int64(len(block)))
		n, err := f.ReadAt(block[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// Events returns the events from seq on, in order. What is not an event is
// skipped; an error is the last thing that comes.
func (f *Folder) Events(from uint64) iter.Seq2[api.Event, error] {
	return events(func() (*os.File, error) { return openDirAt(number(f.dir), ".") }, from)
}

// Events returns the events of the sandbox with that id from seq on, in order,
// whether or not its keeper lives.
func (s *Store) Events(id string, from uint64) iter.Seq2[api.Event, error] {
	return events(func() (*os.File, error) {
		if !validName(id) {
			return nil, fmt.Errorf("%.80q is not an id", id)
		}
		return openDirAt(number(s.boxes), id)
	}, from)
}

func events(open func() (*os.File, error), from uint64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		stopped, err := readEvents(open, from, func(e api.Event) bool { return yield(e, nil) })
		if err != nil && !stopped {
			yield(api.Event{}, fmt.Errorf("read events: %w", err))
		}
	}
}

func readEvents(open func() (*os.File, error), from uint64, yield func(api.Event) bool) (stopped bool, err error) {
	dir, err := open()
	if err != nil {
		return false, err
	}
	defer dir.Close()
	numbers, err := segments(dir)
	if err != nil {
		return false, err
	}
	next := from
	for _, n := range numbers[firstSegment(dir, numbers, from):] {
		err := eachEvent(dir, segmentName(n), func(e api.Event, _ []byte) bool {
			if e.Seq < next {
				return true
			}
			next = e.Seq + 1
			stopped = !yield(e)
			return !stopped
		})
		if stopped || err != nil && !errors.Is(err, os.ErrNotExist) { // removed by a busy keeper
			return stopped, err
		}
	}
	return false, nil
}

// firstSegment is the index of the last segment that begins at or before seq.
func firstSegment(dir *os.File, numbers []int, seq uint64) int {
	for i := len(numbers) - 1; i > 0; i-- {
		begins := false
		err := eachEvent(dir, segmentName(numbers[i]), func(e api.Event, _ []byte) bool {
			begins = e.Seq <= seq
			return false
		})
		if err == nil && begins {
			return i
		}
	}
	return 0
}

// eachEvent calls do for each event of a segment until it returns false. Lines
// that are no events, are too long or have no end are skipped.
func eachEvent(dir *os.File, name string, do func(e api.Event, line []byte) bool) error {
	f, err := openAt(number(dir), name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := regular(f); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := wholeLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e api.Event
		if len(line) == 0 || json.Unmarshal(line, &e) != nil || e.Seq == 0 {
			continue
		}
		if !do(e, line) {
			return nil
		}
	}
}

// wholeLine returns the next line without its end, nothing of one that is too
// long, and io.EOF at the end, also if a line without end comes before it.
func wholeLine(r *bufio.Reader) (line []byte, err error) {
	for tooLong := false; ; {
		part, err := r.ReadSlice('\n')
		tooLong = tooLong || len(line)+len(part) > maxEvent+1
		if tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if err == nil {
			return bytes.TrimSuffix(line, []byte{'\n'}), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

const segmentPrefix, segmentSuffix = "events-", ".jsonl"

func segmentName(n int) string { return fmt.Sprintf("%s%06d%s", segmentPrefix, n, segmentSuffix) }

// segments returns the numbers of the segments in dir, sorted.
func segments(dir *os.File) ([]int, error) {
	again, err := openDirAt(number(dir), ".") // a position of our own
	if err != nil {
		return nil, err
	}
	defer again.Close()
	names, err := again.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range names {
		text := strings.TrimSuffix(strings.TrimPrefix(name, segmentPrefix), segmentSuffix)
		n, err := strconv.Atoi(text)
		if err == nil && n > 0 && segmentName(n) == name {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
