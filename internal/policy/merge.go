package policy

import (
	"slices"

	"github.com/caisson-dev/caisson/api"
)

// merged is a stack as one policy, with the place of each value. Keys of list
// elements count in the joined list.
type merged struct {
	api.Policy
	at map[string]api.Origin

	atLeast   api.Tier // the ceiling's bound on tier auto; "" is none
	atLeastAt api.Origin
	leftOut   map[string]bool // paths of presets that the ceiling does not grant
}

// origin says where the value of a key comes from; a key that nobody wrote is
// a default.
func (m *merged) origin(key string) api.Origin {
	if o, ok := m.at[key]; ok {
		return o
	}
	return api.Origin{Source: "default"}
}

// wrote reports whether some layer wrote the key.
func (m *merged) wrote(key string) bool { _, ok := m.at[key]; return ok }

// merge joins layers, the lowest first. Lists join; of single values the last
// one holds. Deny, hide and protect win over allows when they are applied, so
// that the order of layers means nothing for them.
func merge(layers []*File) (*merged, error) {
	m := &merged{at: make(map[string]api.Origin, 32)}
	m.Version = 1
	for _, f := range layers {
		j := &joiner{m: m, f: f}
		j.singles(&m.Policy, &f.Policy)
		j.lists(&m.Policy, &f.Policy)
		for name, value := range f.Policy.Env {
			if m.Env == nil {
				m.Env = map[string]*string{}
			}
			m.Env[name] = value
			m.at["env."+name] = f.Origin("env." + name)
		}
		if j.err != nil {
			return nil, j.err
		}
	}
	return m, nil
}

type joiner struct {
	m   *merged
	f   *File
	err error
}

// last takes a single value if the file has it.
func last[T comparable](j *joiner, key string, dst *T, src T) {
	var unset T
	if src == unset {
		return
	}
	*dst = src
	j.m.at[key] = j.f.Origin(key)
}

// join appends the elements that are new. A present empty list stays present.
func join[T any](j *joiner, key string, dst *[]T, src []T, same func(a, b T) bool) {
	if src == nil {
		return
	}
	if *dst == nil {
		*dst = make([]T, 0, len(src))
	}
	if !j.m.wrote(key) {
		j.m.at[key] = j.f.Origin(key)
	}
	for i, v := range src {
		if same != nil && slices.ContainsFunc(*dst, func(o T) bool { return same(o, v) }) {
			continue
		}
		if !j.f.base { // of base only the list has a place: it is long, and on the path of every run
			j.m.at[item(key, len(*dst))] = j.f.Origin(item(key, i))
		}
		*dst = append(*dst, v)
	}
}

func equal[T comparable](a, b T) bool { return a == b }

func (j *joiner) singles(dst, src *api.Policy) {
	last(j, "trust", &dst.Trust, src.Trust)
	last(j, "tenants", &dst.Tenants, src.Tenants)
	last(j, "tier", &dst.Tier, src.Tier)
	last(j, "image", &dst.Image, src.Image)
	last(j, "workspace.path", &dst.Workspace.Path, src.Workspace.Path)
	last(j, "workspace.mode", &dst.Workspace.Mode, src.Workspace.Mode)
	last(j, "workspace.on_exec_later", &dst.Workspace.OnExecLater, src.Workspace.OnExecLater)
	last(j, "network.ask", &dst.Network.Ask, src.Network.Ask)
	last(j, "nested", &dst.Nested, src.Nested)

	b, s := &dst.Network.Budget, src.Network.Budget
	last(j, "network.budget.requests", &b.Requests, s.Requests)
	last(j, "network.budget.connections", &b.Connections, s.Connections)
	last(j, "network.budget.up", &b.Up, s.Up)
	last(j, "network.budget.down", &b.Down, s.Down)
	last(j, "network.budget.time", &b.Time, s.Time)

	last(j, "limits.memory", &dst.Limits.Memory, src.Limits.Memory)
	last(j, "limits.cpus", &dst.Limits.CPUs, src.Limits.CPUs)
	last(j, "limits.pids", &dst.Limits.Pids, src.Limits.Pids)
	last(j, "limits.disk", &dst.Limits.Disk, src.Limits.Disk)
	last(j, "limits.open_files", &dst.Limits.OpenFiles, src.Limits.OpenFiles)
	last(j, "limits.output", &dst.Limits.Output, src.Limits.Output)

	last(j, "lifetime.wall", &dst.Lifetime.Wall, src.Lifetime.Wall)
	last(j, "lifetime.idle", &dst.Lifetime.Idle, src.Lifetime.Idle)
	last(j, "lifetime.max", &dst.Lifetime.Max, src.Lifetime.Max)
	last(j, "lifetime.on_idle", &dst.Lifetime.OnIdle, src.Lifetime.OnIdle)
}

func (j *joiner) lists(dst, src *api.Policy) {
	join(j, "extends", &dst.Extends, src.Extends, equal)
	join(j, "accept", &dst.Accept, src.Accept, equal)
	join(j, "workspace.protect", &dst.Workspace.Protect, src.Workspace.Protect, equal)
	join(j, "workspace.unprotect", &dst.Workspace.Unprotect, src.Workspace.Unprotect, equal)
	join(j, "workspace.home", &dst.Workspace.Home, src.Workspace.Home, equal)
	join(j, "filesystem.read", &dst.Filesystem.Read, src.Filesystem.Read, equal)
	join(j, "filesystem.write", &dst.Filesystem.Write, src.Filesystem.Write, equal)
	join(j, "filesystem.hide", &dst.Filesystem.Hide, src.Filesystem.Hide, equal)
	join(j, "filesystem.keep.caches", &dst.Filesystem.Keep.Caches, src.Filesystem.Keep.Caches, equal)
	join(j, "filesystem.keep.home", &dst.Filesystem.Keep.Home, src.Filesystem.Keep.Home, equal)
	join(j, "network.allow", &dst.Network.Allow, src.Network.Allow, nil)
	join(j, "network.deny", &dst.Network.Deny, src.Network.Deny, nil)
	join(j, "network.publish", &dst.Network.Publish, src.Network.Publish, equal)
	named(j, "credentials", &dst.Credentials, src.Credentials, func(c api.Credential) string { return c.Name })
	named(j, "git", &dst.Git, src.Git, func(g api.GitRule) string { return g.Repo })
	named(j, "services", &dst.Services, src.Services, func(s api.Service) string { return s.Name })
}

// named joins lists whose elements have names: two of one name contradict each
// other, and neither of them is what both authors meant.
func named[T any](j *joiner, key string, dst *[]T, src []T, name func(T) string) {
	for i, v := range src {
		k := slices.IndexFunc(*dst, func(o T) bool { return name(o) == name(v) })
		if k >= 0 && j.err == nil {
			j.err = fail(api.CodePolicy, j.f.Origin(item(key, i)), "rename or remove one", "%s %s was already given at %s",
				key, quote(name(v)), place(j.m.origin(item(key, k))))
		}
	}
	join(j, key, dst, src, nil)
}
