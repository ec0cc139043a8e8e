// Package driver is the contract between Caisson and a tier: how a plan becomes
// a running box. Everything else about a box (exec, files, terminals, ports,
// metering) is written once, above, over the byte stream that a driver returns.
//
// Package drivertest is the contract as tests. A driver is finished when
// drivertest passes whole.
package driver

import (
	"context"
	"errors"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/policy"
)

// ErrUnsupported is returned by an operation that the driver's Capabilities
// say it lacks. Callers look at Capabilities first; the error is for those who
// did not.
var ErrUnsupported = errors.New("driver: operation not supported by this tier")

// Driver realises one tier on one host. It holds no state of its own: two
// drivers of one tier on one host do not know of each other. All methods may
// be called concurrently.
type Driver interface {
	// Tier names the tier.
	Tier() api.Tier

	// Capabilities says what boxes of this driver can do. It is constant.
	Capabilities() Capabilities

	// Probe reports what this host can do, each feature with its strength, the
	// reason and the fix. Depth decides what it may cost.
	Probe(ctx context.Context, depth Depth) api.Probe

	// Begin starts, in the background, what of a box needs no plan, so that it is
	// there when the plan is: a box of a process has its two first processes started meanwhile. It
	// may return nil. What it returns goes into the Spec of one Create with the
	// same ID and Dir, or is abandoned.
	Begin(id, dir string) Begun

	// Create starts a box, or returns an error when nothing of it is left. It
	// returns as soon as whatever must end the box holds it and the stream is
	// there; that the root stands and has tested itself, the guest says in its Hello, so a
	// caller may send the first command without waiting for it. The returned Box
	// is the caller's to Destroy, also when the Hello tells a failure.
	Create(ctx context.Context, spec Spec) (Box, error)

	// Restore starts a box from a checkpoint that this driver wrote. The new box
	// is a new generation; its workload stays frozen until the guest was given
	// its new identity and thawed. Needs Capabilities.Checkpoint.
	Restore(ctx context.Context, spec Spec, checkpoint string) (Box, error)
}

// Depth says how much a Probe may do.
type Depth uint8

// The depths.
const (
	// ProbeQuick looks, and starts nothing: it is on the path of every run.
	ProbeQuick Depth = iota
	// ProbeFull tries what it reports, by starting real processes or a VM.
	ProbeFull
)

// Capabilities describe a driver as data. The zero value can do nothing extra.
type Capabilities struct {
	Descriptors bool // streams carry descriptors: guest.Stream.SendDescriptors works
	SharedFiles bool // host folders can be shared live (workspace mode direct)
	Images      bool // takes images beside "host"
	Wire        bool // can give a box a packet endpoint
	Pause       bool // Pause and Resume
	Checkpoint  bool // Checkpoint and Restore
	Fork        bool // Fork
	Remote      bool // the box's files are not on this host
}

// Spec is all that a driver is told of one sandbox.
type Spec struct {
	ID   string       // unique on this host; [a-z0-9-]
	Plan *policy.Plan // not changed by the driver
	// Dir is the sandbox's own folder on the host, mode 0700, absolute. The driver may keep
	// files in it under names that start with "driver-"; the folder's owner removes it.
	Dir string
	// Begun is what Begin returned for ID and Dir, or nil. Create takes it over, also
	// when it fails.
	Begun Begun
}

// Begun is the beginning of a box that has no plan yet. It dies with the
// process that began it.
type Begun interface {
	// Abandon ends it; nothing of it is left.
	Abandon()
}

// Box is one running sandbox. Methods may be called concurrently; after Destroy
// every one returns an error but Wait and Destroy.
type Box interface {
	// Generation counts from 1. What is restored or forked has the one after
	// that of the state it comes from.
	Generation() uint64

	// Stream is the byte stream to the guest of this generation. There is one;
	// every call returns the same. Its reader sees EOF when the box is gone. Who uses it
	// closes it (guest.Client does).
	Stream() guest.Stream

	// PID is the host's process id of the box's first process, 0 where there
	// is none on this host.
	PID() int

	// Pause stops every program of the box and keeps its memory; Resume lets it
	// go on. Both may be repeated. Need Capabilities.Pause.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error

	// Checkpoint writes state, memory and files of the paused box into the empty
	// folder dir. A box that is not paused, or a folder that is not empty, is an error. Needs
	// Capabilities.Checkpoint.
	Checkpoint(ctx context.Context, dir string) error

	// Fork makes boxes of this paused one's state, each under its own spec and as
	// frozen as after Restore. It gives all or none. They live without it. Needs
	// Capabilities.Fork.
	Fork(ctx context.Context, specs []Spec) ([]Box, error)

	// Stats is what the box uses now.
	Stats(ctx context.Context) (Stats, error)

	// Wait returns when the box has ended, however it ended, and says why. Many
	// may wait. It returns early only with ctx's error.
	Wait(ctx context.Context) (Exit, error)

	// Kill ends the box at once and returns when nothing in it lives, as Destroy
	// does, but what guards the box on the host stays until Destroy: an owner
	// that removes Spec.Dir between the two leaves nothing, whenever it dies. A driver
	// whose boxes have no such guard may do all that Destroy does.
	Kill(ctx context.Context) error

	// Destroy ends the box at once and returns when nothing of it is left on the
	// host: no process, mount, namespace, cgroup or driver file. It may be repeated, and
	// does not depend on anything inside. A ctx that ends stops the waiting, not
	// the killing.
	Destroy(ctx context.Context) error
}

// Exit says how a box ended. A box ends when its first process does: that is
// never the exit code of the user's command, which the guest's stream carries.
type Exit struct {
	Destroyed bool   // by Destroy
	Reason    string // in words, otherwise: "guest was killed", "memory: 4 GiB limit"
	Limit     string // the limit that ended it: "memory", "wall", "pids", ...; "" if none
	// Reached names the limits that the box ran into, whether one ended it or not, by
	// what is counted outside of it.
	Reached []string
}

// Stats is the use of a box. Fields that a tier cannot measure are 0.
type Stats struct {
	CPU       time.Duration // used since the start
	Memory    int64         // bytes now (PSS or cgroup usage)
	Processes int
	Disk      int64 // bytes of the box's own layers and scratch
}
