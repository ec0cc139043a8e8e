package policy

import (
	"slices"

	"github.com/caisson-dev/caisson/api"
)

// nest states what nested opens: it is a loss where programs share the host's
// kernel, and no use where the host lets nobody make user namespaces.
func (r *resolver) nest() error {
	if !r.plan.Nested || r.plan.Tier != api.TierProcess && r.plan.Tier != api.TierContainer {
		return nil
	}
	at := r.m.origin("nested")
	if f := r.probe.Feature(api.FeatureUserNamespaces); f.Strength != api.StrengthHard {
		return fail(api.CodeHost, at, f.Fix, "nested is of no use here: %s", f.Reason)
	}
	if !slices.Contains(r.m.Accept, api.LossNested) {
		return fail(api.CodeStrength, at, "remove it, or accept the loss: --accept-loss nested",
			"nested in tier %s lets programs make user namespaces and mounts, and so reach more of the host's kernel", r.plan.Tier)
	}
	return r.promise(api.Point{
		Name: "nested", Value: "programs may make user namespaces, and mounts in them", Origin: at,
		Strength: api.StrengthSoft, Reason: "it opens more of the host's kernel", Loss: api.LossNested,
	}, "")
}

// narrowed are the values of the points seccomp and landlock, and of what Landlock is left
// with when nested: see LandlockOptions of the stage.
func (r *resolver) narrowed(land *api.Point) (seccomp string) {
	if !r.plan.Nested {
		return "only system calls of an allow list"
	}
	land.Value = "signals and abstract sockets bounded a second time, files not"
	if land.Strength == api.StrengthHard {
		land.Strength, land.Loss = api.StrengthSoft, api.LossNested
		land.Reason = "nested: the kernel refuses mounts to a program whose files Landlock bounds"
	}
	return "only system calls of an allow list, with those that make user namespaces and mounts"
}

// chromiumFlags is where Debian's launcher of Chromium finds flags; each file is
// a piece of shell. There is no variable for them.
const chromiumFlags = "/etc/chromium.d"

// layBrowser lets Chromium start. It cannot make its own sandbox in a box that is not
// nested, and would refuse to run: there the launcher is told to go without, and the
// box is the sandbox.
func (r *resolver) layBrowser() {
	if r.plan.Nested || !r.files.exists(chromiumFlags) {
		return
	}
	r.mounts = append(r.mounts, Mount{
		Kind: MountFile, Target: chromiumFlags + "/caisson", Mode: 0o644, Origin: api.Origin{Source: "default"},
		Data: []byte("export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\"\n"),
	})
}
