package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// network holds rules and published ports against the ceiling.
func (b *bounder) network() {
	m, top := b.m, b.top
	if top.Network.Allow != nil {
		for i, r := range m.Network.Allow {
			if !slices.ContainsFunc(top.Network.Allow, func(t api.NetworkRule) bool { return ruleCovered(&r, &t) }) {
				b.exceed(item("network.allow", i), "network.allow", "network.allow "+describeRule(&r))
			}
		}
	}
	subset(b, "network.publish", m.Network.Publish, top.Network.Publish, equal)
}

// ruleCovered reports whether all that a rule matches is matched by the top
// rule too. Where that is not plain, the answer is no.
func ruleCovered(r, top *api.NetworkRule) bool {
	switch {
	case r.Preset != top.Preset, r.To != top.To, r.Private && !top.Private, r.WebSocket && !top.WebSocket:
		return false
	case (r.CIDR == "") != (top.CIDR == ""), r.Host != "" && !hostCovered(r.Host, top.Host):
		return false
	case r.CIDR != "" && !cidrCovered(r.CIDR, top.CIDR):
		return false
	case protocol(r) != protocol(top), !allIn(portsOf(r), portsOf(top)), !allIn(r.DNS, top.DNS):
		return false
	}
	return narrower(r.Methods, top.Methods, equal) && narrower(r.Paths, top.Paths, pathCovered) && narrower(r.Programs, top.Programs, equal) &&
		graphQLCovered(r.GraphQL, top.GraphQL) && mcpCovered(r.MCP, top.MCP) && budgetCovered(r.Budget, top.Budget)
}

// hostCovered: the same name, or one label under the top's wildcard.
func hostCovered(host, top string) bool {
	if host == top {
		return true
	}
	suffix, wild := strings.CutPrefix(top, "*")
	if !wild || strings.HasPrefix(host, "*") {
		return false
	}
	label, ok := strings.CutSuffix(host, suffix)
	return ok && label != "" && !strings.Contains(label, ".")
}

func cidrCovered(c, top string) bool {
	p, err1 := netip.ParsePrefix(c)
	t, err2 := netip.ParsePrefix(top)
	return err1 == nil && err2 == nil && p.Bits() >= t.Bits() && t.Contains(p.Addr())
}

func protocol(r *api.NetworkRule) string {
	if r.Protocol == "" {
		return "tcp"
	}
	return r.Protocol
}

// portsOf gives the ports of a rule; absent ones mean 443.
func portsOf(r *api.NetworkRule) []int {
	if r.Ports == nil && r.CIDR == "" && r.To == "" && r.Preset == "" {
		return []int{443}
	}
	return r.Ports
}

// allIn reports whether each element is one of the others.
func allIn[T comparable](list, others []T) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !slices.Contains(others, v) })
}

// narrower compares two conditions: an absent one restricts nothing.
func narrower[T any](list, top []T, covered func(v, t T) bool) bool {
	if top == nil {
		return true
	}
	return list != nil && !slices.ContainsFunc(list, func(v T) bool {
		return !slices.ContainsFunc(top, func(t T) bool { return covered(v, t) })
	})
}

// pathCovered: the same pattern, or all below a top that ends in /**.
func pathCovered(p, top string) bool {
	prefix, deep := strings.CutSuffix(top, "**")
	return p == top || deep && !strings.Contains(prefix, "*") && strings.HasPrefix(p, prefix) && len(p) > len(prefix)
}

// nameCovered: the same name, or one under a top that ends in a star.
func nameCovered(s, top string) bool {
	prefix, star := strings.CutSuffix(top, "*")
	return s == top || star && !strings.Contains(prefix, "*") && strings.HasPrefix(s, prefix)
}

func graphQLCovered(g, top *api.GraphQLRule) bool {
	switch {
	case top == nil:
		return true
	case g == nil:
		return false
	}
	return fieldsCovered(g.Queries, top.Queries) && fieldsCovered(g.Mutations, top.Mutations) && fieldsCovered(g.Subscriptions, top.Subscriptions)
}

// fieldsCovered compares root fields; an absent list is like an absent one only.
func fieldsCovered(list, top []string) bool {
	return list == nil && top == nil || list != nil && (len(list) == 0 || top != nil && narrower(list, top, nameCovered))
}

func mcpCovered(m, top *api.MCPRule) bool {
	return top == nil || m != nil && narrower(m.Tools, top.Tools, nameCovered)
}

func budgetCovered(b, top api.Budget) bool {
	return bounded(b.Requests, top.Requests) && bounded(b.Connections, top.Connections) && bounded(b.Up, top.Up) &&
		bounded(b.Down, top.Down) && bounded(b.Time, top.Time)
}

// bounded reports whether a value is at most the top's; zero is unlimited.
func bounded[T int64 | api.Bytes | api.Duration](v, top T) bool {
	return top == 0 || v != 0 && v <= top
}

// describeRule names a rule in a message.
func describeRule(r *api.NetworkRule) string {
	name := r.Host + r.CIDR
	if r.Preset != "" {
		name = "@" + r.Preset
	}
	for i, p := range r.Ports {
		sep := ","
		if i == 0 {
			sep = ":"
		}
		name += sep + strconv.Itoa(p)
	}
	return quote(name)
}

// secrets holds credentials and repositories against the ceiling.
func (b *bounder) secrets() {
	m, top := b.m, b.top
	if top.Credentials != nil {
		for i, c := range m.Credentials {
			if !slices.ContainsFunc(top.Credentials, func(t api.Credential) bool { return credentialCovered(&c, &t) }) {
				b.exceed(item("credentials", i), "credentials", "credential "+quote(c.Name))
			}
		}
	}
	if top.Git != nil {
		for i, g := range m.Git {
			if !slices.ContainsFunc(top.Git, func(t api.GitRule) bool { return gitCovered(&g, &t) }) {
				b.exceed(item("git", i), "git", "git "+quote(g.Repo))
			}
		}
	}
}

func credentialCovered(c, top *api.Credential) bool {
	return c.Name == top.Name && c.From == top.From && c.Inject == top.Inject && budgetCovered(c.Budget, top.Budget) &&
		!slices.ContainsFunc(c.Bind, func(r api.NetworkRule) bool {
			return !slices.ContainsFunc(top.Bind, func(t api.NetworkRule) bool { return ruleCovered(&r, &t) })
		})
}

func gitCovered(g, top *api.GitRule) bool {
	switch {
	case g.Repo != top.Repo, g.Fetch && !top.Fetch, g.Force && !top.Force, !allIn(top.DenyPaths, g.DenyPaths), !bounded(g.MaxBlob, top.MaxBlob):
		return false
	case g.Credential != top.Credential && top.Credential != "", top.Sign != "" && g.Sign != top.Sign:
		return false
	case g.Export != "" && g.Export != top.Export && !slices.ContainsFunc(top.Push, func(t string) bool { return refCovered(g.Export, t) }):
		return false
	}
	return !slices.ContainsFunc(g.Push, func(p string) bool {
		return !slices.ContainsFunc(top.Push, func(t string) bool { return refCovered(p, t) })
	})
}

// environment: what the ceiling says of a variable holds; a policy that says
// something else is refused.
func (b *bounder) environment() {
	for _, name := range sortedKeys(b.top.Env) {
		want := b.top.Env[name]
		key := "env." + name
		if mine, there := b.m.Env[name]; there && b.m.origin(key).User && !sameText(mine, want) {
			b.exceed(key, key, key)
			continue
		}
		if b.m.Env == nil {
			b.m.Env = map[string]*string{}
		}
		b.m.Env[name] = want
		b.m.at[key] = b.c.Origin(key)
	}
}

func sameText(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}
