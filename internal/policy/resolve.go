package policy

import (
	"path"
	"slices"

	"github.com/caisson-dev/caisson/api"
)

// Input is all that resolution knows. Resolve changes none of it.
type Input struct {
	Layers  []*File // from Stack: base first
	Ceiling *File   // from ReadCeiling; nil: there is none
	Caller  Caller
	Probes  map[api.Tier]api.Probe // what each driver found on this host
	Built   *Built                 // nil: ThisBuild()
	Root    string                 // stands before every host path that is looked at; "" but in tests
}

// Resolve turns policies and the facts of a host into a plan. It looks at few
// files and starts nothing. Every error is an *api.Error that names the place
// of the value at fault.
func Resolve(in Input) (*Plan, error) {
	r, err := newResolver(&in)
	if err != nil {
		return nil, err
	}
	steps := []func() error{
		r.chooseTier, r.nest, r.placeWorkspace, r.chooseUser,
		r.layRoot, r.findOpen, r.bindPathFolders, r.bindWorkspace, r.grant, r.pastLinks, r.hide, r.settle,
		r.isolate, r.limit, r.environment,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	r.plan.Digest = r.m.digest()
	return r.plan, nil
}

// resolver holds a resolution while it goes on.
type resolver struct {
	in     *Input
	m      *merged
	built  Built
	caller *Caller
	plan   *Plan
	probe  api.Probe // of the chosen tier
	files  *files

	baseReads int             // elements of filesystem.read that are base's
	mounts    []Mount         // in no order yet
	home      string          // HOME inside
	links     map[string]bool // host paths that are symbolic links inside
	path      []string        // folders of PATH that exist inside
	given     string          // the workspace as it was written, before links
	onDisk    [2]int          // owner of the workspace
	open      []string        // host folders that the box may write
	pinned    map[string]bool // targets that are mounted though they are visible already
}

func newResolver(in *Input) (*resolver, error) {
	if !path.IsAbs(in.Caller.Home) {
		in.Caller.Home = noHome // in is a copy of the caller's
	}
	r := &resolver{in: in, caller: &in.Caller, files: newFiles(in.Root), links: map[string]bool{}, pinned: map[string]bool{}, mounts: make([]Mount, 0, 128)}
	if !path.IsAbs(in.Caller.Dir) {
		return nil, &api.Error{
			Code: api.CodeWorkspace, Message: "the folder that you are in has no absolute name: " + quote(in.Caller.Dir),
			Hint: "change into a folder that exists",
		}
	}
	r.built = ThisBuild()
	if in.Built != nil {
		r.built = *in.Built
	}
	m, err := merge(in.Layers)
	if err != nil {
		return nil, err
	}
	for _, f := range in.Layers {
		if f.base {
			r.baseReads = len(f.Policy.Filesystem.Read)
		}
	}
	if err := bound(m, in.Ceiling, &in.Caller, r.files, r.baseReads); err != nil {
		return nil, err
	}
	if err := r.built.refuse(m); err != nil {
		return nil, err
	}
	r.m = m
	r.files.list(0, "/")
	r.files.list(1, "/etc")
	r.plan = &Plan{
		Image: m.Image, Hostname: hostname, Argv: in.Caller.Argv, Sealed: true,
		Network: m.Network, Credentials: m.Credentials, Git: m.Git, Services: m.Services,
		Nested: m.Nested != nil && *m.Nested, Accepted: m.Accept, Lifetime: m.Lifetime,
	}
	return r, nil
}

// noHome is the home of accounts that have none, by Debian's convention.
const noHome = "/nonexistent"

// hostname is the same in every box, so that it says nothing of the host.
const hostname = "caisson"

// promise adds a point. A point that the user wrote is hard, or its loss is
// accepted and something still enforces it, or the plan fails.
func (r *resolver) promise(p api.Point, fix string) error {
	r.plan.Points = append(r.plan.Points, p)
	if p.Strength == api.StrengthHard || !p.Origin.User {
		return nil
	}
	accepted := p.Loss != "" && slices.Contains(r.plan.Accepted, p.Loss)
	if accepted && p.Strength == api.StrengthSoft {
		return nil
	}
	if fix == "" {
		fix = "remove it"
	}
	if p.Loss != "" && p.Strength == api.StrengthSoft {
		fix += ", or accept the loss: --accept-loss " + string(p.Loss)
	}
	why := p.Reason
	if why == "" {
		why = "nobody measured that this host can"
	}
	return fail(api.CodeStrength, p.Origin, fix, "%s (%s) cannot be enforced here: %s (strength %s)", p.Name, p.Value, why, p.Strength)
}

// weakest gives the weakest of some features, with its reason and fix.
func (r *resolver) weakest(names ...string) api.Feature {
	weakest := api.Feature{Strength: api.StrengthHard}
	for _, n := range names {
		f := r.probe.Feature(n)
		if f.Strength < weakest.Strength {
			if f.Reason == "" {
				f.Reason = n + " is missing"
			}
			weakest = f
		}
	}
	return weakest
}

// mountStrength is how firmly the box's view of files holds.
func (r *resolver) mountStrength() api.Feature {
	return r.weakest(api.FeatureNamespaces, api.FeatureMountAPI)
}

func (r *resolver) warn(text string) { r.plan.Warnings = append(r.plan.Warnings, oneLine(text)) }
