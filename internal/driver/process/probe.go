//go:build linux

package process

import (
	"context"
	"errors"
	"os"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/stage"
)

// Probe reports what this host gives the tier; see driver.Driver. In full it
// starts a box that runs nothing, since a look cannot know what a security module or a
// container refuses.
func (d process) Probe(ctx context.Context, depth driver.Depth) api.Probe {
	p := api.Probe{Tier: api.TierProcess, Usable: true}
	p.Features = append(stage.KernelFeatures(), d.limits(depth)...)
	if depth == driver.ProbeFull {
		p.Features = append(p.Features, d.tryBox(ctx))
	}
	for _, f := range p.Features {
		if f.Required && f.Strength < api.StrengthHard {
			p.Usable = false
		}
	}
	return p
}

// FeatureBox is the feature that a full probe reports: a real box was started.
const FeatureBox = "box"

func (d process) tryBox(ctx context.Context) api.Feature {
	f := api.Feature{Name: FeatureBox, Required: true, Detail: "a box was started and has tested itself"}
	if err := d.startNothing(ctx); err != nil {
		f.Detail, f.Reason = "", err.Error()
		var e *api.Error
		if errors.As(err, &e) {
			f.Fix = e.Hint
		}
		return f
	}
	f.Strength = api.StrengthHard
	return f
}

func (d process) startNothing(ctx context.Context) error {
	bin, err := d.guest()
	if err != nil {
		return noGuest(err)
	}
	root := os.Geteuid() == 0
	p, err := stage.Begin(stage.Beginning{Guest: bin, ID: "probe", FromRoot: root, UID: os.Getuid(), GID: os.Getgid()})
	if err != nil {
		return d.explain(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if root {
		uid, gid = probeID, probeID
	}
	err = p.Build(stage.Launch{Setup: stage.Setup{
		ID: "probe", Generation: 1, Hostname: "caisson", UID: uid, GID: gid, FromRoot: root,
		Mounts: []stage.Mount{
			{Kind: stage.MountProc, Target: "/proc"},
			{Kind: stage.MountDev, Target: "/dev"},
			{Kind: stage.MountTmpfs, Target: "/tmp", Mode: 0o1777},
		},
	}})
	if err != nil {
		return d.explain(err)
	}
	defer p.Destroy()
	c := guest.Open(p.Stream)
	if _, err := c.Ready(ctx); err != nil {
		return d.explain(err)
	}
	return nil
}

// probeID is the id of a probe's box under root: nobody's on any system known
// to us, below the range that sandboxes take theirs from.
const probeID = 0x6fff_fffe
