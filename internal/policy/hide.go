package policy

import (
	"bytes"
	"os"
	"path"
	"slices"

	"github.com/caisson-dev/caisson/api"
)

// hide covers what the policy hides, and what is Caisson's own, wherever a
// mount shows it. No allow re-opens it.
func (r *resolver) hide() error {
	for _, own := range r.ownFolders() {
		if real, _, err := r.files.real(own); err == nil {
			r.mask(real, api.Origin{Source: "default"})
		}
	}
	for i, p := range r.m.Filesystem.Hide {
		if err := r.hideOne(item("filesystem.hide", i), p); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) hideOne(key, p string) error {
	origin := r.m.origin(key)
	name := expand(p, r.caller)
	real, _, err := r.files.real(name)
	if err != nil {
		return r.hideAbsent(key, name, origin)
	}
	if link := r.throughOpen(); link != "" {
		return fail(api.CodePolicy, origin, "name what is meant itself: "+oneLine(real),
			"%s %s: the link %s leads there, which the sandbox can change", key, quote(name), quote(link))
	}
	if ws := r.plan.Workspace.Source; ws != "" && within(ws, real) {
		return fail(api.CodePolicy, origin, "hide something in it", "%s %s would hide the workspace", key, quote(name))
	}
	if info, err := os.Lstat(r.in.Root + real); err == nil && names(info) > 1 {
		r.warn(place(origin) + ": " + key + " " + quote(name) + " has other names (hard links), which stay visible where they lie")
	}
	f := r.mountStrength()
	point := api.Point{Name: key, Value: name + " is covered", Strength: f.Strength, Reason: f.Reason, Origin: origin}
	if r.mask(real, origin) && point.Strength == api.StrengthHard {
		point.Strength, point.Loss = api.StrengthSoft, api.LossHostEdits
		point.Reason = "a save on the host that replaces the file takes the cover away"
	}
	if err := r.promise(point, "use a workspace mode that copies"); err != nil {
		return err
	}
	if !r.inHistory(real) {
		return nil
	}
	return r.promise(api.Point{
		Name: key + ".history", Value: name + " is not in the git history", Strength: api.StrengthSoft, Loss: api.LossHistory,
		Reason: "git tracks it, so its history shows it", Origin: origin,
	}, "take it out of git")
}

// hideAbsent is for a path that does not exist: nothing can be put over it, so
// where its folder is visible it would appear as soon as somebody makes it.
func (r *resolver) hideAbsent(key, name string, origin api.Origin) error {
	real := r.realOr(name)
	shown := slices.ContainsFunc(r.mounts, func(m Mount) bool { return m.Kind == MountBind && within(real, m.Source) })
	f := r.mountStrength()
	point := api.Point{Name: key, Value: name + " is not visible", Strength: f.Strength, Reason: f.Reason, Origin: origin}
	if shown {
		point.Strength, point.Reason = api.StrengthNone, "it does not exist yet, so nothing can be put over it"
	}
	return r.promise(point, "create it first, or remove the line")
}

// mask covers one host path in every mount that shows it, takes out the mounts
// that show nothing else, and reports whether a cover was needed.
func (r *resolver) mask(real string, origin api.Origin) (covers bool) {
	var hides []Mount
	r.mounts = slices.DeleteFunc(r.mounts, func(m Mount) bool {
		if m.Kind != MountBind {
			return false
		}
		if within(m.Source, real) {
			if m.Origin.User && !r.pinned[m.Target] {
				r.warn(place(m.Origin) + ": " + quote(m.Target) + " stays hidden by " + place(origin))
			}
			return true
		}
		if within(real, m.Source) {
			hides = append(hides, r.pin(m, real, origin)...)
			hides = append(hides, Mount{Kind: MountHide, Target: m.Target + real[len(m.Source):], Origin: origin})
		}
		return false
	})
	r.mounts = append(r.mounts, hides...)
	return len(hides) > 0
}

// pin mounts each folder between a writable mount and what is hidden in it onto
// itself. Else a box could move one away, put another in its place, and the
// next box would see what was hidden under the new name. The price: a rename
// into or out of these folders is one between file systems.
func (r *resolver) pin(m Mount, real string, origin api.Origin) (pins []Mount) {
	if !m.Writable {
		return nil
	}
	for dir := path.Dir(real); dir != m.Source && within(dir, m.Source); dir = path.Dir(dir) {
		p := Mount{Kind: MountBind, Source: dir, Target: m.Target + dir[len(m.Source):], Writable: true, IDMap: m.IDMap, Origin: origin}
		r.pinned[p.Target] = true
		pins = append(pins, p)
	}
	return pins
}

// inHistory reports whether the workspace's git tracks a path, or may. It
// reads the index once, without parsing: a path is text there, but in version 4.
func (r *resolver) inHistory(real string) bool {
	ws := r.plan.Workspace.Source
	if ws == "" || !within(real, ws) || real == ws {
		return false
	}
	git := r.files.at(join2(ws, ".git"))
	if git.err != nil || !git.mode.IsDir() {
		return false // no repository, or its git directory lies outside
	}
	if r.files.exists(join2(ws, ".git/index")) {
		index, err := os.ReadFile(r.in.Root + join2(ws, ".git/index"))
		if err != nil || len(index) < 12 || index[7] > 3 || bytes.Contains(index, []byte("link\x00\x00")) {
			return true // unreadable, compressed or split: it may
		}
		rel := real[len(ws)+1:]
		return bytes.Contains(index, []byte(rel+"\x00")) || bytes.Contains(index, []byte(rel+"/"))
	}
	return false
}
