//go:build linux

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// read returns the events from seq on and checks that they are in order and
// that each holds the hash of the one before.
func read(t testing.TB, s *Store, id string, from uint64) (all []api.Event) {
	t.Helper()
	previous := ""
	for e, err := range s.Events(id, from) {
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 && (e.Seq != all[len(all)-1].Seq+1 || e.Previous != previous) {
			t.Errorf("event %d follows %d with previous %q, want %q", e.Seq, all[len(all)-1].Seq, e.Previous, previous)
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		previous = hash(line)
		all = append(all, e)
	}
	return all
}

func TestEvents(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	before := time.Now().UTC()
	for i := range 5 {
		if err := f.Append(api.Event{Kind: api.EventState, Seq: 99, Previous: "x", Sandbox: "x", Data: map[string]string{"to": fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	all := read(t, s, f.ID(), 0)
	if len(all) != 5 || all[0].Seq != 1 || all[0].Previous != "" || len(all[1].Previous) != 64 {
		t.Fatalf("%+v", all)
	}
	if e := all[4]; e.Sandbox != f.ID() || e.Time.Before(before) || e.Time.Location() != time.UTC || e.Data["to"] != "4" {
		t.Errorf("%+v", e)
	}
	if diff := cmp.Diff(all[3:], read(t, s, f.ID(), 4)); diff != "" {
		t.Error(diff)
	}
	n := 0
	for range f.Events(0) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("an iteration that was left went on: %d", n)
	}
	last := error(nil)
	for _, err := range s.Events("none", 0) {
		last = err
	}
	if !errors.Is(last, os.ErrNotExist) {
		t.Errorf("events of no sandbox: %v", last)
	}
}

func TestEventsAreEscapedAndCapped(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	d := &api.Decision{Target: "a\x1b[2J", Reason: "\u202egnp", Hint: "naïve"}
	if err := f.Append(api.Event{Decision: d, Message: "x\ny\xff", Data: map[string]string{"k\r": "v\a"}, Process: &api.Process{Executable: "/t\t"}}); err != nil {
		t.Fatal(err)
	}
	e := read(t, s, f.ID(), 0)[0]
	want := api.Event{
		Seq: 1, Time: e.Time, Sandbox: f.ID(), Message: `x\ny\xff`, Data: map[string]string{`k\r`: `v\a`},
		Decision: &api.Decision{Target: `a\x1b[2J`, Reason: `\u202egnp`, Hint: "naïve"}, Process: &api.Process{Executable: `/t\t`},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
	if d.Target != "a\x1b[2J" {
		t.Error("the caller's decision was changed")
	}
	if err := f.Append(api.Event{Message: strings.Repeat("x", maxEvent)}); err == nil {
		t.Error("an event beyond the cap was taken")
	}
	if err := f.Append(api.Event{Message: strings.Repeat("x", maxEvent-1000)}); err != nil {
		t.Error(err)
	}
	if all := read(t, s, f.ID(), 0); len(all) != 2 {
		t.Errorf("%d events", len(all))
	}
}

func TestSegments(t *testing.T) {
	s := open(t)
	s.segmentSize, s.maxSegments = 1000, 4
	f := create(t, s, api.Sandbox{})
	const n = 100
	for range n {
		if err := f.Append(api.Event{Kind: api.EventDecision, Message: strings.Repeat("x", 100)}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(f.Path() + "/events-*")
	if err != nil || len(files) != 4 || filepath.Base(files[0]) != "events-000001.jsonl" {
		t.Fatalf("segments %v (%v)", files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 1000 {
			t.Errorf("%s: %d bytes, %v", file, info.Size(), err)
		}
	}
	var seqs []uint64
	for e, err := range s.Events(f.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	if seqs[0] != 1 || seqs[len(seqs)-1] != n || len(seqs) < 8 {
		t.Errorf("events %v: want the first and the last ones", seqs)
	}
	if tail := read(t, s, f.ID(), n-1); len(tail) != 2 {
		t.Errorf("%d events from %d on", len(tail), n-1)
	}
}

func TestAcquireGoesOnWhereTheKeeperDied(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	for range 3 {
		if err := f.Append(api.Event{Kind: api.EventState}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Acquire(f.ID()); !errors.Is(err, errLocked) {
		t.Fatalf("Acquire beside a living keeper: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := appendFile(f.Path()+"/events-000001.jsonl", `{"seq":4,"sandbox":"torn`); err != nil {
		t.Fatal(err)
	}
	if all := read(t, s, f.ID(), 0); len(all) != 3 {
		t.Errorf("with a torn line: %d events", len(all))
	}
	again, err := s.Acquire(f.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Append(api.Event{Kind: api.EventExited}); err != nil {
		t.Fatal(err)
	}
	all := read(t, s, f.ID(), 0) // checks the chain
	if len(all) != 4 || all[3].Kind != api.EventExited {
		t.Errorf("%+v", all)
	}
}

func TestReadersSkipWhatIsNoEvent(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	if err := f.Append(api.Event{}); err != nil {
		t.Fatal(err)
	}
	junk := "\n\nnull\n[]\n{\"seq\":\"x\"}\n" + strings.Repeat("y", maxEvent+100) + "\n\x00\xff\n"
	if err := appendFile(f.Path()+"/events-000001.jsonl", junk); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"events-1.jsonl", "events-000000.jsonl", "events-x.jsonl", "events-000009.jsonl.gz"} {
		if err := os.WriteFile(f.Path()+"/"+name, []byte(`{"seq":7}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Append(api.Event{}); err != nil {
		t.Fatal(err)
	}
	if all := read(t, s, f.ID(), 0); len(all) != 2 {
		t.Errorf("%d events", len(all))
	}
}

// A disk that is full in the middle of a line must not spoil the next one. The
// limit of a file's size stands for the disk: it cuts the write short as well.
func TestShortWriteIsTakenBack(t *testing.T) {
	if os.Getenv("STORE_TEST_CHILD") != "short" {
		runSelf(t, "TestShortWriteIsTakenBack", "short")
		return
	}
	s := open(t)
	f := create(t, s, api.Sandbox{})
	if err := f.Append(api.Event{}); err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	small := unix.Rlimit{Cur: 2000, Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := f.Append(api.Event{Message: strings.Repeat("x", 5000)})
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err == nil {
		t.Error("a write that was cut short was acknowledged")
	}
	if err := f.Append(api.Event{Message: "after"}); err != nil {
		t.Fatal(err)
	}
	if all := read(t, s, f.ID(), 0); len(all) != 2 || all[1].Message != "after" {
		t.Errorf("%+v", all)
	}
	data, err := os.ReadFile(f.Path() + "/events-000001.jsonl")
	if err != nil || strings.Count(string(data), "\n") != 2 {
		t.Errorf("the file has %d lines (%v)", strings.Count(string(data), "\n"), err)
	}
}

func TestConcurrentAppends(t *testing.T) {
	s := open(t)
	s.segmentSize, s.maxSegments = 4000, 1000
	f := create(t, s, api.Sandbox{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := f.Append(api.Event{Kind: api.EventUsage}); err != nil {
					t.Error(err)
				}
				if err := f.Update(func(r *api.Sandbox) { r.InitPID++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			for _, e := range list(t, s) {
				if e.Err != nil || !e.Alive {
					t.Errorf("while it is written: %+v", e)
				}
			}
		}
	})
	all.Wait()
	if got := read(t, s, f.ID(), 0); len(got) != 400 || f.Record().InitPID != 400 {
		t.Errorf("%d events, %d updates", len(got), f.Record().InitPID)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"seq":1}` + "\n" + `{"seq":2`))
	f.Add([]byte("\n\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/events-000001.jsonl", data, 0o600); err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for e, err := range events(func() (*os.File, error) { return os.Open(dir) }, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Seq <= last {
				t.Errorf("event %d after %d", e.Seq, last)
			}
			last = e.Seq
		}
	})
}
