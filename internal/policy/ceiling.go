package policy

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// CeilingPath is where the ceiling of a host stands.
const CeilingPath = "/etc/caisson/ceiling.yaml"

// ReadCeiling reads a ceiling, which bounds what any policy, flag or approval
// can grant. No file: no ceiling. One that cannot be read or parsed refuses
// everything.
func ReadCeiling(name string) (*File, error) {
	text, err := readCapped(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, brokenCeiling("cannot read the ceiling " + name + ": " + reason(err))
	}
	return ParseCeiling(name, text)
}

// ParseCeiling parses the text of a ceiling: a policy whose keys are bounds. A
// key that it lacks bounds nothing; an empty list allows nothing.
func ParseCeiling(name string, text []byte) (*File, error) {
	f, err := Parse(name, text)
	if err != nil {
		return nil, brokenCeiling("the ceiling is wrong: " + err.Error())
	}
	p := &f.Policy
	for _, k := range []struct {
		key   string
		there bool
	}{{"extends", p.Extends != nil}, {"services", p.Services != nil}, {"workspace.unprotect", p.Workspace.Unprotect != nil}} {
		if k.there {
			return nil, brokenCeiling(place(f.Origin(k.key)) + ": a ceiling has no " + k.key)
		}
	}
	for _, k := range []struct {
		key  string
		list []string
	}{
		{"filesystem.read", p.Filesystem.Read},
		{"filesystem.write", p.Filesystem.Write},
		{"filesystem.hide", p.Filesystem.Hide},
		{"workspace.path", []string{p.Workspace.Path}},
	} {
		for _, s := range k.list {
			if s != "" && s[0] != '/' && s[0] != '~' && !isGlob(s) {
				return nil, brokenCeiling(place(f.Origin(k.key)) + ": " + k.key + " of a ceiling holds full paths, not " + quote(s))
			}
		}
	}
	return f, nil
}

func brokenCeiling(message string) error {
	return &api.Error{Code: api.CodeCeiling, Message: message, Hint: "the host's administrator must mend it; until then nothing runs here"}
}

// bounder holds one policy against one ceiling.
type bounder struct {
	m      *merged
	c      *File
	top    *api.Policy // of the ceiling
	caller *Caller
	files  *files
	err    error // the first excess
}

// bound refuses a policy that exceeds the ceiling, tightens defaults to it, and
// adds what it denies, hides and protects. The first baseReads elements of
// filesystem.read are the system's own and under no ceiling.
func bound(m *merged, ceiling *File, c *Caller, f *files, baseReads int) error {
	if ceiling == nil {
		return nil
	}
	b := &bounder{m: m, c: ceiling, top: &ceiling.Policy, caller: c, files: f}
	b.singles()
	b.numbers()
	b.paths(baseReads)
	b.network()
	b.secrets()
	b.environment()
	b.tighten()
	return b.err
}

// exceed records the first excess, with both places.
func (b *bounder) exceed(key, ceilingKey, what string) {
	if b.err == nil {
		b.err = fail(api.CodeCeiling, b.m.origin(key), "ask the host's administrator, or ask for less",
			"%s: the ceiling does not allow it (%s)", what, place(b.c.Origin(ceilingKey)))
	}
}

// force gives a default the ceiling's value.
func force[T any](b *bounder, key string, dst *T, v T) {
	*dst = v
	b.m.at[key] = b.c.Origin(key)
}

// single bounds a value by order: more reports that the first grants more than
// the second. What the user wrote is refused, a default is tightened.
func single[T comparable](b *bounder, key string, dst *T, top T, text func(T) string, more func(a, b T) bool) {
	var unset T
	switch {
	case top == unset:
	case *dst == unset:
		force(b, key, dst, top)
	case more(*dst, top) && b.m.origin(key).User:
		b.exceed(key, key, key+" "+text(*dst))
	case more(*dst, top):
		force(b, key, dst, top)
	}
}

// looser makes an order of words, the one that grants most first.
func looser[T ~string](order ...T) func(a, b T) bool {
	return func(a, b T) bool { return slices.Index(order, a) < slices.Index(order, b) }
}

func word[T ~string](s T) string { return string(s) }

func differs[T comparable](a, b T) bool { return a != b }

func (b *bounder) singles() {
	m, top := b.m, b.top
	single(b, "trust", &m.Trust, top.Trust, word, looser(api.TrustOwn, api.TrustReviewed, api.TrustGenerated, api.TrustHostile))
	single(b, "tenants", &m.Tenants, top.Tenants, word, looser(api.TenantsOne, api.TenantsMany))
	single(b, "image", &m.Image, top.Image, word, differs)
	single(b, "workspace.on_exec_later", &m.Workspace.OnExecLater, top.Workspace.OnExecLater, word, looser("tell", "ask", "stop"))
	single(b, "lifetime.on_idle", &m.Lifetime.OnIdle, top.Lifetime.OnIdle, word, looser("none", "pause", "hibernate", "stop"))
	modes := looser(api.WorkspaceDirect, api.WorkspaceReview, api.WorkspaceBranch, api.WorkspaceCopy, api.WorkspaceNone)
	if m.Workspace.Mode != "" {
		single(b, "workspace.mode", &m.Workspace.Mode, top.Workspace.Mode, word, modes)
	} else if top.Workspace.Mode != "" && top.Workspace.Mode != api.WorkspaceDirect {
		force(b, "workspace.mode", &m.Workspace.Mode, top.Workspace.Mode)
	}
	if t := top.Tier; t != "" && t != api.TierAuto {
		switch {
		case m.Tier == api.TierAuto:
			m.atLeast, m.atLeastAt = t, b.c.Origin("tier")
		case rank(m.Tier) < rank(t) && m.origin("tier").User:
			b.exceed("tier", "tier", "tier "+string(m.Tier))
		case rank(m.Tier) < rank(t):
			force(b, "tier", &m.Tier, t)
		}
	}
	b.off("network.ask", m.Network.Ask, top.Network.Ask)
	b.off("nested", m.Nested, top.Nested)
}

// off refuses what the ceiling switches off.
func (b *bounder) off(key string, mine, top *bool) {
	if top != nil && !*top && mine != nil && *mine {
		b.exceed(key, key, key+" true")
	}
}

func (b *bounder) numbers() {
	m, top := b.m, b.top
	l, t := &m.Limits, &top.Limits
	atMost(b, "limits.memory", &l.Memory, t.Memory)
	atMost(b, "limits.cpus", &l.CPUs, t.CPUs)
	atMost(b, "limits.pids", &l.Pids, t.Pids)
	atMost(b, "limits.disk", &l.Disk, t.Disk)
	atMost(b, "limits.open_files", &l.OpenFiles, t.OpenFiles)
	atMost(b, "limits.output", &l.Output, t.Output)
	atMost(b, "lifetime.wall", &m.Lifetime.Wall, top.Lifetime.Wall)
	atMost(b, "lifetime.idle", &m.Lifetime.Idle, top.Lifetime.Idle)
	atMost(b, "lifetime.max", &m.Lifetime.Max, top.Lifetime.Max)
	n, d := &m.Network.Budget, &top.Network.Budget
	atMost(b, "network.budget.requests", &n.Requests, d.Requests)
	atMost(b, "network.budget.connections", &n.Connections, d.Connections)
	atMost(b, "network.budget.up", &n.Up, d.Up)
	atMost(b, "network.budget.down", &n.Down, d.Down)
	atMost(b, "network.budget.time", &n.Time, d.Time)
}

func atMost[T int64 | float64 | api.Bytes | api.Duration](b *bounder, key string, dst *T, top T) {
	single(b, key, dst, top, func(v T) string { return fmt.Sprint(v) }, func(a, b T) bool { return a > b })
}

// paths holds files and what may come home against the ceiling.
func (b *bounder) paths(baseReads int) {
	m, top := b.m, b.top
	writable := top.Filesystem.Write
	for i, p := range m.Filesystem.Read[min(baseReads, len(m.Filesystem.Read)):] {
		if top.Filesystem.Read != nil && !b.below(p, top.Filesystem.Read) && !b.below(p, writable) {
			b.beyond(item("filesystem.read", i+baseReads), "filesystem.read", p)
		}
	}
	for i, p := range m.Filesystem.Write {
		if writable != nil && !b.below(p, writable) {
			b.beyond(item("filesystem.write", i), "filesystem.write", p)
		}
	}
	subset(b, "filesystem.keep.caches", m.Filesystem.Keep.Caches, top.Filesystem.Keep.Caches, equal)
	subset(b, "filesystem.keep.home", m.Filesystem.Keep.Home, top.Filesystem.Keep.Home, within)
	subset(b, "workspace.home", m.Workspace.Home, top.Workspace.Home, refCovered)
	subset(b, "workspace.unprotect", m.Workspace.Unprotect, top.Workspace.Unprotect, equal)
	subset(b, "accept", m.Accept, top.Accept, equal)
	for i, p := range m.Workspace.Unprotect {
		if slices.Contains(top.Workspace.Protect, p) {
			b.exceed(item("workspace.unprotect", i), "workspace.protect", "workspace.unprotect "+quote(p))
		}
	}
}

// beyond refuses a path that the user wrote, and leaves out one of a preset:
// presets name more than a host grants.
func (b *bounder) beyond(key, list, p string) {
	if b.m.origin(key).User {
		b.exceed(key, list, list+" "+quote(p))
		return
	}
	if b.m.leftOut == nil {
		b.m.leftOut = map[string]bool{}
	}
	b.m.leftOut[key] = true
}

// below reports whether a path, its links resolved, lies in one of the tops.
func (b *bounder) below(p string, tops []string) bool {
	resolve := func(s string) string {
		s = expand(s, b.caller)
		if real, _, err := b.files.real(s); err == nil {
			return real
		}
		return s
	}
	real := resolve(p)
	return slices.ContainsFunc(tops, func(t string) bool { return within(real, resolve(t)) })
}

// subset refuses elements that no element of the ceiling's list covers.
func subset[T ~string](b *bounder, key string, list, top []T, covered func(v, top T) bool) {
	if top == nil {
		return
	}
	for i, v := range list {
		if !slices.ContainsFunc(top, func(t T) bool { return covered(v, t) }) {
			b.exceed(item(key, i), key, key+" "+quote(string(v)))
		}
	}
}

// refCovered reports whether all refs of a pattern are refs of another.
func refCovered(v, top string) bool {
	prefix, star := strings.CutSuffix(top, "*")
	return v == top || star && strings.HasPrefix(v, prefix)
}

// tighten adds what the ceiling denies, hides and protects.
func (b *bounder) tighten() {
	j := &joiner{m: b.m, f: b.c}
	m, top := b.m, b.top
	join(j, "workspace.protect", &m.Workspace.Protect, top.Workspace.Protect, equal)
	join(j, "filesystem.hide", &m.Filesystem.Hide, top.Filesystem.Hide, equal)
	join(j, "network.deny", &m.Network.Deny, top.Network.Deny, nil)
}

// workspaceBelow refuses a workspace that lies beyond the ceiling's.
func workspaceBelow(ceiling *File, real string, at api.Origin, c *Caller, f *files) error {
	if ceiling == nil || ceiling.Policy.Workspace.Path == "" {
		return nil
	}
	top := expand(ceiling.Policy.Workspace.Path, c)
	if r, _, err := f.real(top); err == nil {
		top = r
	}
	if within(real, path.Clean(top)) {
		return nil
	}
	return fail(api.CodeCeiling, at, "work below "+top, "workspace %s: the ceiling does not allow it (%s)",
		quote(real), place(ceiling.Origin("workspace.path")))
}
