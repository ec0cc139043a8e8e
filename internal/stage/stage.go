//go:build linux

// Package stage makes the place that a box runs in: namespaces, a root built
// from nothing, ids, and the bounds that no program inside can leave. The
// drivers share it.
//
// It has two halves. The outer half (Begin, Build) runs in the keeper: it clones the
// guest's binary into new namespaces and starts the watcher beside it. The inner
// half (Enter) is the first thing that the guest runs: it reads a Setup from its
// stream, builds everything around itself and gives up its rights; then the
// process goes on as the guest, PID 1 of the box.
//
// Nothing inside is trusted to end the box: death is the matter of the watcher,
// of PDEATHSIG and of the stream's end, in that order.
package stage

import "github.com/caisson-dev/caisson/internal/guest"

// Descriptors of the guest's process when it starts.
const (
	streamFD = 3 // the stream: first the Setup, then the guest's protocol
)

// Setup is what the outer half tells the inner: all that it builds.
type Setup struct {
	ID         string
	Generation uint64
	Hostname   string
	UID, GID   int  // the host's ids that the box runs under; never 0
	FromRoot   bool // the keeper is root: no user namespace, ids are set
	IDMap      bool // a user namespace with the map of the workspace comes with it
	Nested     bool
	Mounts     []Mount
	Disk       int64  // bytes that all private folders may hold together; 0: the kernel's default
	OpenFiles  uint64 // hard RLIMIT_NOFILE of the programs; 0: as inherited
	// What programs are told they have, so that they do not size themselves for the
	// host; 0: the host's.
	CPUs         float64 // in steps of a thousandth
	Memory, Pids int64
	Processors   int // how many processors the programs are kept to; 0: as inherited

	idmap int // inside: the descriptor that came
}

// MountKind mirrors the kinds of a plan's mounts.
type MountKind uint8

// The kinds. The zero value is refused.
const (
	MountInvalid MountKind = iota
	MountBind
	MountTmpfs
	MountFile
	MountLink
	MountProc
	MountDev
	MountHide
)

// Mount is one entry of the root, made in the order given.
type Mount struct {
	Kind     MountKind
	Source   string // of a bind: a host path without symbolic links; of a link: its text
	Target   string // inside, absolute and clean
	Writable bool
	NoExec   bool
	Optional bool
	IDMap    bool
	Mode     uint32
	Data     []byte
}

// SetupError says which step failed and why. It crosses the stream as a Hello.
type SetupError struct {
	Step string
	Err  error
}

// Error returns step and cause.
func (e *SetupError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Err }

// maxSetup bounds a Setup on the wire, in bytes. Plans have some tens of mounts;
// a thousand masks with long paths fit.
const maxSetup = 4 << 20

func (s *Setup) encode() []byte {
	var e guest.Encoder
	e.String(s.ID)
	e.Uint(s.Generation)
	e.String(s.Hostname)
	e.Uint(uint64(s.UID))
	e.Uint(uint64(s.GID))
	e.Bool(s.FromRoot)
	e.Bool(s.IDMap)
	e.Bool(s.Nested)
	e.Uint(uint64(s.Disk))
	e.Uint(s.OpenFiles)
	e.Uint(uint64(s.CPUs*1000 + 0.5))
	e.Uint(uint64(s.Memory))
	e.Uint(uint64(s.Pids))
	e.Uint(uint64(s.Processors))
	e.Uint(uint64(len(s.Mounts)))
	for i := range s.Mounts {
		m := &s.Mounts[i]
		e.Uint(uint64(m.Kind))
		e.String(m.Source)
		e.String(m.Target)
		e.Bool(m.Writable)
		e.Bool(m.NoExec)
		e.Bool(m.Optional)
		e.Bool(m.IDMap)
		e.Uint(uint64(m.Mode))
		e.Bytes(m.Data)
	}
	return e.Data()
}

func decodeSetup(p []byte) (*Setup, error) {
	d := guest.NewDecoder(p)
	s := &Setup{
		ID:         d.String(256),
		Generation: d.Uint(),
		Hostname:   d.String(256),
		UID:        int(d.UintMax(maxID)),
		GID:        int(d.UintMax(maxID)),
		FromRoot:   d.Bool(),
		IDMap:      d.Bool(),
		Nested:     d.Bool(),
		Disk:       int64(d.UintMax(1 << 62)),
		OpenFiles:  d.Uint(),
		CPUs:       float64(d.UintMax(1<<30)) / 1000,
		Memory:     int64(d.UintMax(1 << 62)),
		Pids:       int64(d.UintMax(1 << 62)),
		Processors: int(d.UintMax(1 << 20)),
	}
	for range d.UintMax(maxSetup) {
		m := Mount{
			Kind:     MountKind(d.UintMax(uint64(MountHide))),
			Source:   d.String(maxSetup),
			Target:   d.String(maxSetup),
			Writable: d.Bool(),
			NoExec:   d.Bool(),
			Optional: d.Bool(),
			IDMap:    d.Bool(),
			Mode:     uint32(d.UintMax(0o7777)),
			Data:     d.Bytes(maxSetup),
		}
		if m.Kind == MountInvalid { // also what a message that broke off gives
			break
		}
		s.Mounts = append(s.Mounts, m)
	}
	return s, d.Finish()
}

// maxID is the largest id that the kernel takes; the one above means "none".
const maxID = 1<<32 - 2
