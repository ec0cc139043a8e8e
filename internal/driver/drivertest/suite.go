// Package drivertest is the driver contract as tests. A driver's own tests call
// Run with a way to make the driver and a plan; when all checks pass, with nothing
// skipped but what its Capabilities exclude, it does what package driver says.
//
// Fake is the smallest driver that passes: a box in memory. Remote puts any driver
// behind a socket, so that nothing can assume that a box and its files are on
// this host. Both are for tests, and the suite tests itself with them: each known way to
// break the contract is tried, and must be caught.
package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/policy"
	"github.com/caisson-dev/caisson/internal/testenv"
)

// Options say how a driver is tested.
type Options struct {
	// New makes a driver. Two drivers of one test must not know of each other.
	New func(t testing.TB) driver.Driver
	// Plan makes the plan of a box that has the Programs. Each check makes one, for
	// all its boxes.
	Plan func(t testing.TB) *policy.Plan
	// Programs are what is run inside; the zero value is Shell().
	Programs Programs
	// Spoil are further changes of a spec that Create must refuse, by name.
	Spoil map[string]func(t testing.TB, spec *driver.Spec)

	Boxes    int           // at once; 0: 20
	Patience time.Duration // for what must happen; 0: 30 s
	Within   time.Duration // for an end: Destroy, and nothing left; 0: 2 s
	Moment   time.Duration // in which what must not happen would have; 0: 150 ms
}

// Programs are the command lines of the suite, all with the environment and the
// folder of the plan.
type Programs struct {
	Exit     func(code int) []string   // ends with code
	Kill     func(signal int) []string // ends itself by a signal
	Cat      []string                  // copies its input to its output until the input ends
	Sleep    []string                  // runs until a signal ends it
	Stubborn []string                  // writes a line, then ignores every signal that it can, it and what it has detached
	Flood    []string                  // writes without end
	Missing  []string                  // does not exist
	Remember func(word string) []string
	// Recall writes the word that the last Remember has, which runs since before:
	// it keeps it in memory, not in a file, writes a line when it does, and outlives its input and output.
	Recall []string
	// End ends the whole box from inside, as a crash would; nil: by killing Box.PID.
	End []string
}

// Shell are the programs for a box with a POSIX shell, sleep, cat and setsid.
func Shell() Programs {
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	return Programs{
		Exit:     func(code int) []string { return sh(fmt.Sprintf("exit %d", code)) },
		Kill:     func(signal int) []string { return sh(fmt.Sprintf("kill -%d $$", signal)) },
		Cat:      []string{"cat"},
		Sleep:    []string{"sleep", "100000"},
		Stubborn: sh(`trap "" HUP INT QUIT TERM USR1 USR2 PIPE; for i in 1 2 3; do setsid sh -c 'sleep 100000 & sleep 100000' & done; echo up; while :; do sleep 1000; done`),
		Flood:    sh("while :; do echo flood flood flood flood flood flood flood flood; done"),
		Missing:  []string{"/no/such/program"},
		Remember: func(word string) []string {
			return sh(`trap "" HUP PIPE; w=` + word + `; rm -f /tmp/ask /tmp/answer; echo up; exec <&- >/dev/null 2>&1
while :; do if [ -e /tmp/ask ]; then rm -f /tmp/ask; echo $w >/tmp/answer.new; mv /tmp/answer.new /tmp/answer; fi; sleep 0.02; done`)
		},
		Recall: sh(`rm -f /tmp/answer; : >/tmp/ask; while ! [ -e /tmp/answer ]; do sleep 0.02; done; cat /tmp/answer`),
	}
}

// check is one part of the contract.
type check struct {
	name string
	run  func(s *scene)
}

// checks returns the whole contract.
func checks() []check {
	return []check{
		{"Probe", checkProbe},
		{"Create", checkCreate},
		{"Begin", checkBegin},
		{"Create/refused leaves nothing", checkRefusedCreate},
		{"Create/given up leaves nothing", checkAbandonedCreate},
		{"Programs", checkPrograms},
		{"Programs/output that nobody reads", checkUnreadOutput},
		{"Descriptors", checkDescriptors},
		{"Stats", checkStats},
		{"Wait", checkWait},
		{"End from inside", checkEnd},
		{"Destroy/again and at once", checkDestroyAgain},
		{"Destroy/without the guest's help", checkDestroyStubborn},
		{"Destroy/nobody on the stream", checkDestroyUnused},
		{"Destroy/with a ctx that has ended", checkDestroyContext},
		{"Destroy/then nothing works", checkAfterDestroy},
		{"Pause", checkPause},
		{"Checkpoint", checkCheckpoint},
		{"Checkpoint/what is wrong is refused", checkBadCheckpoint},
		{"Fork", checkFork},
		{"Fork/all or none", checkBadFork},
		{"Unsupported", checkUnsupported},
		{"Many boxes", checkMany},
	}
}

// Run tests the driver. The driver's own test says before, by testenv.Need,
// what it needs of the host.
func Run(t *testing.T, o Options) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { perform(t, o, c) })
	}
}

// perform runs one check and compares the host before and after.
func perform(t testing.TB, o Options, c check) {
	if o.Programs.Exit == nil {
		o.Programs = Shell()
	}
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{{&o.Patience, 30 * time.Second}, {&o.Within, 2 * time.Second}, {&o.Moment, 150 * time.Millisecond}} {
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	if o.Boxes == 0 {
		o.Boxes = 20
	}
	s := &scene{TB: t, o: o, plan: o.Plan(t), driver: o.New(t), other: o.New(t), root: t.TempDir()}
	s.caps = s.driver.Capabilities()
	s.host = testenv.HostState(t).OnlyCgroups(s.name(""))
	defer s.end()
	c.run(s)
}

// scene is one check at work: its boxes, and what is to be the same afterwards.
type scene struct {
	testing.TB
	o      Options
	plan   *policy.Plan
	driver driver.Driver
	other  driver.Driver // of the same tier
	caps   driver.Capabilities
	host   *testenv.Host
	root   string

	mu      sync.Mutex
	count   int
	boxes   []driver.Box
	dirs    []string
	clients []*guest.Client
	cancels []context.CancelFunc
}

// ctx is the context of what must happen.
func (s *scene) ctx() context.Context { return s.in(s.o.Patience) }

func (s *scene) in(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = append(s.cancels, cancel)
	return ctx
}

// name begins the id of each box of this process, and so the names of what is made
// for it.
func (s *scene) name(number string) string {
	return fmt.Sprintf("conform-%d-%s", os.Getpid(), number)
}

// spec makes the spec of a new box, and its folder.
func (s *scene) spec() driver.Spec {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	id := s.name(strconv.Itoa(s.count))
	dir := filepath.Join(s.root, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.Fatalf("make the folder of a box: %v", err)
	}
	s.dirs = append(s.dirs, dir)
	plan := *s.plan
	plan.Mounts = slices.Clone(plan.Mounts) // for who spoils it
	return driver.Spec{ID: id, Plan: &plan, Dir: dir}
}

// create makes a box, which ends with the check.
func (s *scene) create() (driver.Box, driver.Spec) {
	s.Helper()
	spec := s.spec()
	b, err := s.driver.Create(s.ctx(), spec)
	if err != nil {
		s.Fatalf("Create: %v", err)
	}
	return s.keep(b), spec
}

func (s *scene) keep(b driver.Box) driver.Box {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boxes = append(s.boxes, b)
	return b
}

// dial speaks to the guest of a box and checks who it says it is.
func (s *scene) dial(b driver.Box, spec driver.Spec) *guest.Client {
	s.Helper()
	c, err := guest.Dial(s.ctx(), b.Stream())
	if err != nil {
		s.Fatalf("dial the guest: %v", err)
	}
	s.mu.Lock()
	s.clients = append(s.clients, c)
	s.mu.Unlock()
	if h := c.Hello(); h.Generation != b.Generation() {
		s.Errorf("the guest says generation %d, the box %d", h.Generation, b.Generation())
	}
	return c
}

// destroy ends a box and checks that it is gone when Destroy says so.
func (s *scene) destroy(b driver.Box) {
	s.Helper()
	if err := b.Destroy(s.in(s.o.Within)); err != nil {
		s.Errorf("Destroy: %v", err)
	}
	exit, err := b.Wait(s.in(s.o.Within))
	if err != nil {
		s.Errorf("Wait after Destroy: %v", err)
	} else if !exit.Destroyed {
		s.Errorf("Wait after Destroy says %+v", exit)
	}
}

// gone checks, when no box of the scene should live, that nothing of one is left.
func (s *scene) gone() {
	s.Helper()
	left, err := s.host.LeftOf("process", "network namespace")
	if err != nil {
		s.Fatalf("look at the host: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dir := range s.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.Errorf("a box's folder was removed, which is its owner's to do: %v", err)
		}
		for _, e := range entries {
			left = append(left, "file "+e.Name())
		}
	}
	if len(left) > 0 {
		s.Errorf("left when there should be nothing:\n\t%s", strings.Join(left, "\n\t"))
	}
}

// end destroys what is there still and compares the host.
func (s *scene) end() {
	s.Helper()
	for _, b := range s.boxes {
		if err := b.Destroy(s.in(s.o.Within)); err != nil {
			s.Errorf("Destroy at the end of the check: %v", err)
		}
	}
	s.gone()
	for _, c := range s.clients {
		_ = c.Close()
	}
	for _, b := range s.boxes {
		_ = b.Stream().Close() // whoever used it may have closed it
	}
	for _, cancel := range s.cancels {
		cancel()
	}
	s.host.AwaitClean(s.TB, s.o.Within)
}

// command is a program with the plan's environment and folder.
func (s *scene) command(argv []string) guest.Command {
	return guest.Command{Argv: argv, Env: slices.Clone(s.plan.Env), Dir: s.plan.Dir}
}
