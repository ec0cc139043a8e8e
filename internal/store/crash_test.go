//go:build linux

package store

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/api"
)

// runSelf runs one test of this binary again, in a process of its own.
func runSelf(t *testing.T, test, role string, env ...string) {
	t.Helper()
	cmd := self(test, role, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func self(test, role string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$", "-test.timeout=60s")
	cmd.Env = append(append(os.Environ(), "STORE_TEST_CHILD="+role), env...)
	return cmd
}

// TestKilledKeeper kills a keeper with SIGKILL at random points of its life:
// what it acknowledged is there, the sandboxes can be listed, and a sweep leaves nothing.
// STORE_TEST_KILLS sets the number of rounds.
func TestKilledKeeper(t *testing.T) {
	if os.Getenv("STORE_TEST_CHILD") == "keeper" {
		keep(t)
		return
	}
	rounds := 30
	if n, err := strconv.Atoi(os.Getenv("STORE_TEST_KILLS")); err == nil {
		rounds = n
	}
	s := open(t)
	swept, acknowledged := 0, 0
	for round := range rounds {
		acked := killKeeper(t, s, round)
		for _, e := range list(t, s) {
			if e.Err != nil || e.Alive {
				t.Fatalf("round %d: %+v", round, e)
			}
		}
		for id, seq := range acked {
			acknowledged += int(seq)
			if all := read(t, s, id, 0); uint64(len(all)) < seq {
				t.Fatalf("round %d: %d events of %s, %d were acknowledged", round, len(all), id, seq)
			}
		}
		if err := s.Sweep(t.Context(), func(Entry) error { swept++; return nil }); err != nil {
			t.Fatal(err)
		}
		if names, err := os.ReadDir(filepath.Join(s.Path(), "boxes")); err != nil || len(names) != 0 {
			t.Fatalf("round %d: the sweep left %v (%v)", round, names, err)
		}
	}
	if swept == 0 || acknowledged == 0 {
		t.Errorf("%d sweeps, %d events: the kills came too early to show anything", swept, acknowledged)
	}
}

// keep makes, writes and removes sandboxes until it is killed. It prints what
// was acknowledged: "ID SEQ", and "ID -" when the folder was removed.
func keep(t *testing.T) {
	s, err := Open(os.Getenv("STORE_TEST_DIR"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("keeper started")
	for {
		f, err := s.Create(api.Sandbox{Name: "n" + strconv.Itoa(rand.IntN(1e9))})
		if err != nil {
			t.Fatal(err)
		}
		for seq := 1; seq <= 5; seq++ {
			if err := errors.Join(f.Append(api.Event{Message: strings.Repeat("x", rand.IntN(3000))}), f.Update(func(r *api.Sandbox) { r.InitPID = seq })); err != nil {
				t.Fatal(err)
			}
			fmt.Printf("keeper %s %d\n", f.ID(), seq)
		}
		fmt.Printf("keeper %s -\n", f.ID()) // before: from here on it may be gone
		if err := f.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

// killKeeper lets a keeper live for a moment and returns what it acknowledged.
func killKeeper(t *testing.T, s *Store, round int) map[string]uint64 {
	t.Helper()
	cmd := self("TestKilledKeeper", "keeper", "STORE_TEST_DIR="+s.Path())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[string]uint64{}
	lines := bufio.NewScanner(out)
	started := false
	for after := rand.IntN(20); lines.Scan(); after-- { // so many lines, and a moment more
		if after == 0 {
			time.AfterFunc(time.Duration(rand.IntN(500))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 2 && f[1] == "started":
			started = true
		case len(f) == 3 && f[2] == "-":
			delete(acked, f[1])
		case len(f) == 3:
			if acked[f[1]], err = strconv.ParseUint(f[2], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !started {
		t.Fatalf("round %d: the keeper did not start: %v", round, cmd.Wait())
	}
	_ = cmd.Wait() // killed
	return acked
}

// TestSweepersAndStarters: several sweepers beside sandboxes that come and go
// sweep each abandoned folder once, and never a living or a starting one.
func TestSweepersAndStarters(t *testing.T) {
	s := open(t)
	var living, dead, kept sync.Map
	var swept, starting atomic.Int64
	var starters, sweepers sync.WaitGroup
	destroy := func(e Entry) error {
		if _, ok := living.Load(e.ID); ok {
			t.Errorf("the living sandbox %s was swept", e.ID)
		}
		if _, ok := kept.Load(e.ID); ok {
			t.Errorf("the kept sandbox %s was swept", e.ID)
		}
		if _, again := dead.LoadOrStore(e.ID, true); again {
			t.Errorf("sandbox %s was swept twice", e.ID)
		}
		swept.Add(1)
		return nil
	}
	done := make(chan struct{})
	for range 3 {
		sweepers.Go(func() {
			own, err := Open(s.Path()) // as a process of its own would
			if err != nil {
				t.Error(err)
				return
			}
			defer own.Close()
			for {
				if err := own.Sweep(t.Context(), destroy); err != nil {
					t.Errorf("Sweep: %v", err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 4 {
		starters.Go(func() {
			for i := range 60 {
				id, err := newID()
				if err != nil {
					t.Error(err)
					return
				}
				living.Store(id, true)
				f, err := s.Create(api.Sandbox{ID: id})
				if err != nil {
					t.Errorf("Create: %v", err)
					return
				}
				starting.Add(1)
				if i%3 == 0 {
					kept.Store(id, true)
					err = f.Update(func(r *api.Sandbox) { r.State = api.StateStopped })
				}
				living.Delete(id)
				if i%3 == 1 {
					dead.Store(id, true) // removed by its keeper: nobody may sweep it
					err = f.Remove()
				} else {
					err = errors.Join(err, f.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	starters.Wait()
	close(done)
	sweepers.Wait()
	if err := s.Sweep(t.Context(), destroy); err != nil {
		t.Error(err)
	}
	if starting.Load() != 240 || swept.Load() != 80 || len(list(t, s)) != 80 {
		t.Errorf("%d started, %d swept, %d kept: want 240, 80, 80", starting.Load(), swept.Load(), len(list(t, s)))
	}
}

func TestSweepOfAFailedDestroyStays(t *testing.T) {
	s := open(t)
	for _, id := range []string{"bad", "good"} {
		if err := create(t, s, api.Sandbox{ID: id}).Close(); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("a process would not die")
	err := s.Sweep(t.Context(), func(e Entry) error {
		if e.ID == "bad" {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("Sweep: %v", err)
	}
	if got := ids(list(t, s)); len(got) != 1 || got[0] != "bad" {
		t.Errorf("left %v", got)
	}
}

func TestSweepRemovesHalfMadeFolders(t *testing.T) {
	s := open(t)
	boxes := filepath.Join(s.Path(), "boxes")
	for _, dir := range []string{".new-a-b/driver-x", ".gone-c-d/driver-y"} {
		if err := os.MkdirAll(filepath.Join(boxes, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := s.lockCreation(false) // somebody is making a folder
	if err != nil {
		t.Fatal(err)
	}
	none := func(Entry) error { t.Error("destroy was called"); return nil }
	if err := s.Sweep(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(boxes, ".new-a-b")); err != nil {
		t.Errorf("a folder that was being made was swept: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(boxes); err != nil || len(names) != 0 {
		t.Errorf("left %v (%v)", names, err)
	}
}
