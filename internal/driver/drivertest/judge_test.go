package drivertest

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
)

// recorder is a testing.TB that remembers what a check said.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) { r.Fatalf("skipped: "+format, args...) }

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// judge runs one check on a driver and returns what it complained of.
func judge(t *testing.T, name string, d driver.Driver) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, c := range checks() {
			if c.name != name {
				continue
			}
			o := forFakes(func(testing.TB) driver.Driver { return d })
			o.Patience, o.Within = time.Second, 100*time.Millisecond
			perform(r, o, c)
			return
		}
		r.Errorf("there is no check %q", name)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Errorf("the check %q hangs", name)
	}
	for _, f := range r.cleanups {
		f()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.said, "\n")
}

// TestTheSuiteCatches tries every known way to break the contract: the named
// check must say so, in these words.
func TestTheSuiteCatches(t *testing.T) {
	for _, c := range mutants(t) {
		t.Run(c.name, func(t *testing.T) {
			fake := &Fake{Can: Everything(), Programs: c.programs}
			c.mutant.Driver = fake
			if said := judge(t, c.check, &c.mutant); !strings.Contains(said, c.says) {
				t.Errorf("the check %q says %q, want %q", c.check, said, c.says)
			}
		})
	}
}

type defect struct {
	name, check, says string
	mutant            mutant
	programs          map[string]Program
}

func mutants(t *testing.T) []defect {
	var all []defect
	add := func(name, check, says string, m mutant) { all = append(all, defect{name, check, says, m, nil}) }
	onBox := func(name, check, says string, change func(b *mutantBox)) { add(name, check, says, mutant{box: change}) }
	onProgram := func(name, check, says, program string, run Program) {
		all = append(all, defect{name, check, says, mutant{}, map[string]Program{program: run}})
	}
	probeMutants(add)
	beginMutants(add)
	createMutants(add)
	leavingMutants(t, onBox)
	boxMutants(add, onBox)
	destroyMutants(onBox)
	waitMutants(onBox)
	capabilityMutants(add, onBox)
	stateMutants(onBox)
	restoreMutants(add)

	onProgram("loses the exit code", "Programs", "ends with 7", "exit", func(*FakeProgram) guest.Exit { return guest.Exit{} })
	onProgram("makes a code of a signal", "Programs", "ends itself by", "kill", func(*FakeProgram) guest.Exit { return guest.Exit{Code: 143} })
	onProgram("loses signals", "Programs", "that was sent", "sleep", func(p *FakeProgram) guest.Exit { p.IgnoreSignals(); return p.wait() })
	onProgram("starts what is not there", "Programs", "does not exist", "missing", func(*FakeProgram) guest.Exit { return guest.Exit{} })
	onProgram("cuts the input", "Programs", "bytes came back", "cat", func(p *FakeProgram) guest.Exit {
		_, _ = io.Copy(p.Stdout, io.LimitReader(p.Stdin, 1000))
		return guest.Exit{}
	})
	return all
}

type (
	adder   func(name, check, says string, m mutant)
	onBoxer func(name, check, says string, change func(b *mutantBox))
)
