package policy

import (
	"slices"

	"github.com/caisson-dev/caisson/api"
)

// Built says which parts of the policy's grammar this build can do. What it
// lacks is refused when someone writes it, never ignored.
type Built struct {
	Tiers  []api.Tier
	Images bool // images beside "host"
	Modes  []api.WorkspaceMode
	// Lacks are the keys that are refused when they ask for something.
	Lacks []string
	// HideGlobs and DirectGit: patterns in hide; a private git directory in
	// the mode direct.
	HideGlobs, DirectGit bool
}

// ThisBuild is the one table of what is built.
func ThisBuild() Built {
	return Built{
		Tiers: []api.Tier{api.TierProcess},
		Modes: []api.WorkspaceMode{api.WorkspaceDirect, api.WorkspaceNone},
		Lacks: []string{
			"workspace.protect", "workspace.unprotect", "workspace.on_exec_later", "workspace.home",
			"filesystem.keep.caches", "filesystem.keep.home",
			"network.allow", "network.ask", "network.publish",
			"credentials", "git", "services",
			"lifetime.idle", "lifetime.max", "lifetime.on_idle",
		},
	}
}

// refuse gives the error for the first thing that the policy asks for and this
// build lacks.
func (b Built) refuse(m *merged) error {
	for _, key := range b.Lacks {
		if uses(&m.Policy, key) {
			return notBuilt(m.whole(key), key)
		}
	}
	if m.Image != "host" && !b.Images {
		return notBuilt(m.origin("image"), "image "+m.Image)
	}
	if t := m.Tier; t != api.TierAuto && !slices.Contains(b.Tiers, t) {
		return notBuilt(m.origin("tier"), "tier "+string(t))
	}
	if mode := m.Workspace.Mode; mode != "" && !slices.Contains(b.Modes, mode) {
		return notBuilt(m.origin("workspace.mode"), "workspace.mode "+string(mode))
	}
	for i, h := range m.Filesystem.Hide {
		if isGlob(h) && !b.HideGlobs {
			return notBuilt(m.origin(item("filesystem.hide", i)), "a pattern in filesystem.hide ("+quote(h)+")")
		}
	}
	return nil
}

func notBuilt(o api.Origin, what string) error {
	return fail(api.CodeNotBuilt, o, "remove it, or use a build that has it", "%s is not in this build", what)
}

// uses reports whether the policy asks something of a key. False, "none" and
// an empty list ask for nothing; an empty home asks that nothing comes home.
func uses(p *api.Policy, key string) bool {
	switch key {
	case "workspace.protect":
		return len(p.Workspace.Protect) > 0
	case "workspace.unprotect":
		return len(p.Workspace.Unprotect) > 0
	case "workspace.on_exec_later":
		return p.Workspace.OnExecLater != ""
	case "workspace.home":
		return p.Workspace.Home != nil
	case "filesystem.keep.caches":
		return len(p.Filesystem.Keep.Caches) > 0
	case "filesystem.keep.home":
		return len(p.Filesystem.Keep.Home) > 0
	case "network.allow":
		return len(p.Network.Allow) > 0
	case "network.ask":
		return p.Network.Ask != nil && *p.Network.Ask
	case "network.publish":
		return len(p.Network.Publish) > 0
	case "credentials":
		return len(p.Credentials) > 0
	case "git":
		return len(p.Git) > 0
	case "nested":
		return p.Nested != nil && *p.Nested
	case "services":
		return len(p.Services) > 0
	case "lifetime.idle":
		return p.Lifetime.Idle != 0
	case "lifetime.max":
		return p.Lifetime.Max != 0
	case "lifetime.on_idle":
		return p.Lifetime.OnIdle != "" && p.Lifetime.OnIdle != "none"
	}
	return true // a key that nobody taught this function is refused, so a test finds it
}

// whole gives the place of a key, or of the first element of its list.
func (m *merged) whole(key string) api.Origin {
	if o, ok := m.at[item(key, 0)]; ok {
		return o
	}
	return m.origin(key)
}
