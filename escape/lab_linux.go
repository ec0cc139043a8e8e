package escape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spec is what the lab is told, as JSON on its standard input.
type spec struct {
	Targets []string      `json:"targets"`
	IDs     []string      `json:"ids"`
	Seed    uint64        `json:"seed"`
	Rounds  int           `json:"rounds"`
	Probe   string        `json:"probe"` // the program that is put into boxes
	Caisson string        `json:"caisson,omitempty"`
	Root    bool          `json:"root"` // the lab's root is the machine's
	Limit   time.Duration `json:"limit"`
	Group   string        `json:"group,omitempty"`    // the lab's control group on the machine
	NoGroup string        `json:"no_group,omitempty"` // why there is none
}

// A lab is a machine of its own for probes: process 1 of its own namespaces,
// with files in memory that vanish with it. It is the "host" of every box
// that is started in it.
type lab struct {
	spec
	uid, gid int    // who probes and products are; never 0 inside
	user     string // random, so that a leak of it can be told
	home     string
	host     string // random host name
	nonce    string // random source name of the lab's file systems: shows in mount tables
	rng      *rand.Rand
	procs    *procs
	log      *logbook
	net      *labNet
	self     map[string]string // the lab's own namespaces
	memory   atomic.Int64      // most memory seen in use, MiB
	targets  map[string]target
	controls map[string]control
	gates    map[string]string
}

// Where things lie inside the lab.
const (
	labTools = "/opt/lab"     // the probe binary as the lab's tool
	labBin   = "/opt/caisson" // the folder of the product's binaries
	tracefs  = "/opt/tracing"
)

// Bounds of the lab, so that a probe cannot hurt the machine. The kernel's bound
// on tasks leaves room for a product that sets its own default below it.
const (
	labTasks     = 1500
	labTasksHard = 8192
	labMemory    = 3 << 10 // MiB
)

// labMain is process 1 of the lab: it builds it, runs the probes, and writes
// one line of JSON for each verdict to descriptor 3.
func labMain([]string) error {
	if os.Getpid() != 1 {
		return errors.New("the lab is started by the benchmark, in namespaces of its own")
	}
	var sp spec
	if err := json.NewDecoder(os.Stdin).Decode(&sp); err != nil {
		return fmt.Errorf("read the lab's task: %w", err)
	}
	go func() { // the benchmark holds the other end: when it is gone, so is the lab
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(4)
	}()
	l, err := newLab(sp)
	if err != nil {
		return fmt.Errorf("build the lab: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), sp.Limit)
	defer cancel()
	go l.watch(ctx)
	out := json.NewEncoder(os.NewFile(3, "verdicts"))
	return l.run(ctx, func(r Result) error { return out.Encode(r) })
}

func newLab(sp spec) (*lab, error) {
	l := &lab{
		spec: sp, rng: rand.New(rand.NewPCG(sp.Seed, 1)), procs: newProcs(), log: &logbook{},
		nonce: "lab" + secret()[:12], user: "u" + secret()[:8], host: "h" + secret()[:12],
		controls: map[string]control{}, gates: map[string]string{},
	}
	l.home = "/home/" + l.user
	l.uid, l.gid = 0, 0 // the caller, mapped to root here and to an ordinary id below
	if sp.Root {
		l.uid = firstUID + l.rng.IntN(manyUIDs)
		l.gid = l.uid
	}
	if err := l.mountAll(); err != nil {
		return nil, err
	}
	if err := unix.Sethostname([]byte(l.host)); err != nil {
		return nil, fmt.Errorf("set host name: %w", err)
	}
	var err error
	if l.net, err = newLabNet(l.log); err != nil {
		return nil, err
	}
	if err := l.net.listenAll(l); err != nil {
		return nil, err
	}
	l.self = map[string]string{}
	for _, ns := range []string{"mnt", "net", "pid", "ipc", "uts", "user"} {
		l.self[ns], _ = os.Readlink("/proc/self/ns/" + ns)
	}
	tasks := &unix.Rlimit{Cur: labTasksHard, Max: labTasksHard}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, tasks); err != nil {
		return nil, fmt.Errorf("bound the number of tasks: %w", err)
	}
	if l.targets, err = l.makeTargets(); err != nil {
		return nil, err
	}
	return l, nil
}

// watch ends the lab when it takes too long or too much memory. Process 1
// takes all others with it.
func (l *lab) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if ctx.Err() != context.DeadlineExceeded {
				return // the lab has done its work
			}
			fmt.Fprintln(os.Stderr, "lab: out of time")
			os.Exit(3)
		case <-tick.C:
		}
		used := memoryMiB()
		if used > l.memory.Load() {
			l.memory.Store(used)
		}
		if tasks := len(pidsOf("/proc")); used > labMemory || tasks > labTasks {
			l.procs.killAll()
			fmt.Fprintf(os.Stderr, "lab: %d MiB and %d tasks in use, all programs killed\n", used, tasks)
		}
	}
}

// memoryMiB adds up the resident memory of every process of the lab but the
// lab itself.
func memoryMiB() int64 {
	var pages int64
	for _, pid := range pidsOf("/proc") {
		if pid == 1 {
			continue
		}
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b))
		if len(f) > 2 {
			resident, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			pages += resident - shared // file pages are the machine's anyway
		}
	}
	return pages * int64(os.Getpagesize()) >> 20
}

// credentials makes a program of the lab an ordinary user: by its uid where
// the lab has the machine's root, else by a user namespace of its own.
func (l *lab) credentials(attr *unix.SysProcAttr) {
	if l.Root {
		attr.Credential = &syscall.Credential{Uid: uint32(l.uid), Gid: uint32(l.gid)}
		return
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: userUID, HostID: 0, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: userUID, HostID: 0, Size: 1}}
}

// The ids of the lab's users, which no system gives out.
const (
	firstUID = 61200
	manyUIDs = 300
)

// userUID is what a program of the lab sees as its own id where the lab is
// not the machine's root.
const userUID = 1000

// seenUID is the id by which programs of the lab know themselves.
func (l *lab) seenUID() int {
	if l.Root {
		return l.uid
	}
	return userUID
}

// onThread runs f on a thread of its own that ends with it, so that what f
// does to its thread stays there.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}
