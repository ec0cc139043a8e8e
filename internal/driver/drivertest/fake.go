package drivertest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
	"github.com/caisson-dev/caisson/internal/policy"
)

// Fake is a driver whose boxes are in memory and whose programs are Go
// functions. It isolates nothing: it is for the tests of what stands above a driver.
type Fake struct {
	// Can is what it can do; what is false is refused.
	Can driver.Capabilities
	// Programs are more programs, by Argv[0], than FakePrograms has.
	Programs map[string]Program
}

// Everything is the most that a Fake can.
func Everything() driver.Capabilities {
	return driver.Capabilities{Descriptors: true, SharedFiles: true, Pause: true, Checkpoint: true, Fork: true}
}

// Tier is the process tier's: a fake stands for any.
func (f *Fake) Tier() api.Tier { return api.TierProcess }

// Capabilities returns f.Can.
func (f *Fake) Capabilities() driver.Capabilities { return f.Can }

// Begin has nothing to begin.
func (*Fake) Begin(string, string) driver.Begun { return nil }

// Probe finds that memory is there.
func (f *Fake) Probe(context.Context, driver.Depth) api.Probe {
	return api.Probe{Tier: f.Tier(), Usable: true, Features: []api.Feature{
		{Name: api.FeatureFreeze, Strength: api.StrengthHard, Required: true},
		{Name: api.FeatureTUN, Strength: api.StrengthNone, Reason: "a fake has no network", Fix: "use a real driver"},
	}}
}

// Create starts a box.
func (f *Fake) Create(ctx context.Context, spec driver.Spec) (driver.Box, error) {
	return f.make(ctx, spec, 1, map[string]string{}, false)
}

// Restore starts a box from what Checkpoint wrote.
func (f *Fake) Restore(ctx context.Context, spec driver.Spec, checkpoint string) (driver.Box, error) {
	if !f.Can.Checkpoint {
		return nil, driver.ErrUnsupported
	}
	st, err := readState(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("restore checkpoint: %w", err)
	}
	return f.make(ctx, spec, st.Generation+1, st.Memory, true)
}

// fakeFile is what a fake box has on the host.
const fakeFile = "driver-fake"

func (f *Fake) make(ctx context.Context, spec driver.Spec, generation uint64, memory map[string]string, frozen bool) (_ driver.Box, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("create fake box: %w", err)
	}
	for _, m := range spec.Plan.Mounts {
		if err := checkMount(m); err != nil {
			return nil, fmt.Errorf("create fake box: %w", err)
		}
	}
	file := filepath.Join(spec.Dir, fakeFile)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, fmt.Errorf("create fake box: %w", err)
	}
	socket, fd, err := linux.Socketpair(3)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create fake box: %w", err), os.Remove(file))
	}
	inner, err := guest.FromFD(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create fake box: %w", err), socket.Close(), os.Remove(file))
	}
	outer := guest.FromSocket(socket)
	if !f.Can.Descriptors {
		outer.SendDescriptors, outer.ReceiveDescriptors = nil, nil
	}
	b := &fakeBox{
		fake: f, spec: spec, generation: generation, outer: outer, inner: inner,
		memory: maps.Clone(memory), frozen: frozen, programs: map[*FakeProgram]bool{},
		ended: make(chan struct{}), over: make(chan struct{}),
	}
	b.changed = sync.NewCond(&b.mu)
	go b.serve()
	return b, nil
}

func checkMount(m policy.Mount) error {
	switch m.Kind {
	case policy.MountInvalid:
		return fmt.Errorf("mount %s: no kind", m.Target)
	case policy.MountBind:
		if _, err := os.Stat(m.Source); err != nil && !m.Optional {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	return nil
}

// fakeState is a checkpoint: the sum of the rest, then the rest.
type fakeState struct {
	Generation uint64
	Memory     map[string]string
}

const stateFile = "state"

func writeState(dir string, st fakeState) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	return os.WriteFile(filepath.Join(dir, stateFile), append(sum[:], data...), 0o600)
}

func readState(dir string) (st fakeState, err error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return st, err
	}
	if len(data) < sha256.Size || sha256.Sum256(data[sha256.Size:]) != [sha256.Size]byte(data[:sha256.Size]) {
		return st, errors.New("the sum is wrong")
	}
	return st, json.Unmarshal(data[sha256.Size:], &st)
}
