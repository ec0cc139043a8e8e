package policy

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// Finding is something in a policy that is no error and still not what its
// author can have meant.
type Finding struct {
	Origin  api.Origin `json:"origin"`
	Message string     `json:"message"` // one line, starts with the place
	Hint    string     `json:"hint,omitempty"`
}

// Check finds rules that do nothing and promises that do not hold, in a stack
// of layers as Stack gives it. It looks at no file of the host.
func Check(layers []*File) ([]Finding, error) {
	m, err := merge(layers)
	if err != nil {
		return nil, err
	}
	c := &checker{m: m}
	c.hiddenPaths()
	c.deadRules()
	c.unwidened()
	c.credentials()
	c.services()
	c.trifecta()
	return c.found, nil
}

type checker struct {
	m     *merged
	found []Finding
}

func (c *checker) find(key, hint, what string) {
	o := c.m.origin(key)
	c.found = append(c.found, Finding{Origin: o, Message: place(o) + ": " + what, Hint: hint})
}

// hiddenPaths names grants that a hide covers.
func (c *checker) hiddenPaths() {
	grants := []struct {
		key  string
		list []string
	}{{"filesystem.read", c.m.Filesystem.Read}, {"filesystem.write", c.m.Filesystem.Write}}
	for _, g := range grants {
		for i, p := range g.list {
			for j, h := range c.m.Filesystem.Hide {
				if !isGlob(h) && within(path.Clean(p), path.Clean(h)) {
					c.find(item(g.key, i), "remove one of them", "dead: "+g.key+" "+quote(p)+" lies in what "+
						place(c.m.origin(item("filesystem.hide", j)))+" hides")
				}
			}
		}
	}
}

// deadRules names allows that a deny covers or that can match nothing.
func (c *checker) deadRules() {
	for i, r := range c.m.Network.Allow {
		key := item("network.allow", i)
		for j, d := range c.m.Network.Deny {
			if denies(&d, &r) {
				c.find(key, "remove one of them", "dead: network.allow "+describeRule(&r)+" is denied by "+
					place(c.m.origin(item("network.deny", j))))
			}
		}
		for _, e := range []struct {
			name  string
			empty bool
		}{
			{"ports", r.Ports != nil && len(r.Ports) == 0},
			{"methods", r.Methods != nil && len(r.Methods) == 0},
			{"paths", r.Paths != nil && len(r.Paths) == 0},
			{"programs", r.Programs != nil && len(r.Programs) == 0},
		} {
			if e.empty {
				c.find(key, "remove the empty list to restrict nothing", "dead: "+e.name+" is empty, so network.allow "+describeRule(&r)+" matches nothing")
			}
		}
		if p, err := netip.ParsePrefix(r.CIDR); err == nil && !r.Private && p.Addr().IsPrivate() {
			c.find(key, "write private: true", "dead: network.allow "+describeRule(&r)+" is a private range, and no private address is reached without private: true")
		}
	}
}

// denies reports whether a deny covers all that an allow matches.
func denies(d, r *api.NetworkRule) bool {
	if d.Methods != nil || d.Paths != nil || d.GraphQL != nil || d.MCP != nil || d.Programs != nil || protocol(d) != protocol(r) {
		return false
	}
	if r.Preset != "" || d.Preset != "" {
		return r.Preset == d.Preset
	}
	if r.CIDR != "" || d.CIDR != "" {
		return d.CIDR != "" && r.CIDR != "" && cidrCovered(r.CIDR, d.CIDR) && allIn(portsOf(r), portsOf(d))
	}
	suffix, wild := strings.CutPrefix(d.Host, "*")
	covered := d.Host == r.Host || wild && strings.HasSuffix(r.Host, suffix)
	return covered && allIn(portsOf(r), portsOf(d))
}

// unwidened names name-only rules for a name that has content rules.
func (c *checker) unwidened() {
	content := func(r *api.NetworkRule) bool {
		return r.Methods != nil || r.Paths != nil || r.GraphQL != nil || r.MCP != nil || r.WebSocket
	}
	for i, r := range c.m.Network.Allow {
		if content(&r) || r.Host == "" {
			continue
		}
		for j, o := range c.m.Network.Allow {
			if content(&o) && o.Host == r.Host {
				c.find(item("network.allow", i), "add the methods and paths that are meant", "network.allow "+describeRule(&r)+
					" does not widen the rule with content at "+place(c.m.origin(item("network.allow", j))))
				break
			}
		}
	}
}

// credentials names those that nothing uses, and uses of ones that are not there.
func (c *checker) credentials() {
	for i, g := range c.m.Git {
		k := slices.IndexFunc(c.m.Credentials, func(cr api.Credential) bool { return cr.Name == g.Credential })
		if g.Credential == "" {
			continue
		}
		if k < 0 {
			c.find(item("git", i), "add it to credentials", "git "+quote(g.Repo)+" names credential "+quote(g.Credential)+", which is not there")
		} else if c.m.Credentials[k].Inject != "git" {
			c.find(item("git", i), "give it inject: git", "git "+quote(g.Repo)+" names credential "+quote(g.Credential)+", which has no inject: git")
		}
	}
	for i, cr := range c.m.Credentials {
		for _, b := range cr.Bind {
			open := slices.ContainsFunc(c.m.Network.Allow, func(r api.NetworkRule) bool {
				return r.Preset != "" || r.Host == b.Host || hostCovered(b.Host, r.Host)
			})
			if !open {
				c.find(item("credentials", i), "add it to network.allow", "credential "+quote(cr.Name)+" is bound to "+quote(b.Host)+
					", which no rule opens: a binding opens nothing")
			}
		}
		if cr.Inject == "git" && !slices.ContainsFunc(c.m.Git, func(g api.GitRule) bool { return g.Credential == cr.Name }) {
			c.find(item("credentials", i), "name it in git, or remove it", "credential "+quote(cr.Name)+" is for git, and no git entry names it")
		}
	}
}

// services names an order that cannot be kept.
func (c *checker) services() {
	for i, s := range c.m.Services {
		for _, after := range s.After {
			if !slices.ContainsFunc(c.m.Services, func(o api.Service) bool { return o.Name == after }) {
				c.find(item("services", i), "add it, or remove it from after", "service "+quote(s.Name)+" waits for "+quote(after)+", which is not there")
			}
		}
	}
}

// trifecta warns where private data, untrusted content and a way out meet: the
// boundary contains a breach, not an injection.
func (c *checker) trifecta() {
	out := len(c.m.Network.Allow) > 0 || c.m.Network.Ask != nil && *c.m.Network.Ask
	private := len(c.m.Credentials) > 0
	for i := range c.m.Filesystem.Read {
		private = private || c.m.origin(item("filesystem.read", i)).User
	}
	if out && private && (c.m.Trust == api.TrustGenerated || c.m.Trust == api.TrustHostile) {
		c.find("network.allow", "narrow the rules to reading, or take the private data out",
			"private data, untrusted content and a way out together: what a program is told to send, it can send where a rule lets it")
	}
}
