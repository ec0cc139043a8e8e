package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// isolate states what holds beside files: the network, processes, system calls.
func (r *resolver) isolate() error {
	def := api.Origin{Source: "default"}
	ns := r.weakest(api.FeatureNamespaces)
	network := def
	for _, key := range []string{"network.ask", "network.deny"} {
		if r.m.wrote(key) {
			network = r.m.origin(key)
		}
	}
	sec, land := r.probe.Feature(api.FeatureSeccomp), r.probe.Feature(api.FeatureLandlock)
	bounded := api.Point{Name: "landlock", Value: "files and signals bounded a second time", Strength: land.Strength, Reason: land.Reason, Origin: def}
	calls := r.narrowed(&bounded)
	points := []struct {
		api.Point
		fix string
	}{
		{api.Point{Name: "network", Value: "sealed: no way out or in, its own loopback only", Strength: ns.Strength, Reason: ns.Reason, Origin: network}, ns.Fix},
		{api.Point{Name: "processes", Value: "it sees its own processes only, and they end with it", Strength: ns.Strength, Reason: ns.Reason, Origin: def}, ns.Fix},
		{api.Point{Name: "hostname", Value: hostname, Strength: ns.Strength, Reason: ns.Reason, Origin: def}, ns.Fix},
		{api.Point{Name: "seccomp", Value: calls, Strength: sec.Strength, Reason: sec.Reason, Origin: def}, sec.Fix},
		{bounded, land.Fix},
	}
	if land.Strength == api.StrengthNone && land.Fix != "" {
		r.warn("no Landlock here, so nothing stands behind the mounts if they fail; to have it: " + land.Fix)
	}
	for i, rule := range r.m.Network.Deny {
		points = append(points, points[0])
		p := &points[len(points)-1]
		p.Name, p.Value, p.Origin = item("network.deny", i), rule.Host+rule.CIDR+" stays out of reach", r.m.origin(item("network.deny", i))
	}
	for _, p := range points {
		if err := r.promise(p.Point, p.fix); err != nil {
			return err
		}
	}
	return nil
}

// limit resolves limits with the strengths of this host. A default that
// nothing enforces is left out of the plan and said.
func (r *resolver) limit() error {
	l := r.m.Limits
	r.plan.Limits = l
	all := []struct {
		key, feature, value string
		drop                func()
	}{
		{"limits.memory", api.FeatureLimitMemory, l.Memory.String(), func() { r.plan.Limits.Memory = 0 }},
		{"limits.cpus", api.FeatureLimitCPU, strconv.FormatFloat(l.CPUs, 'g', -1, 64), func() { r.plan.Limits.CPUs = 0 }},
		{"limits.pids", api.FeatureLimitPids, strconv.FormatInt(l.Pids, 10), func() { r.plan.Limits.Pids = 0 }},
		{"limits.disk", api.FeatureLimitDisk, l.Disk.String(), func() { r.plan.Limits.Disk = 0 }},
		{"limits.open_files", api.FeatureLimitFiles, strconv.FormatInt(l.OpenFiles, 10), func() { r.plan.Limits.OpenFiles = 0 }},
		{"limits.output", api.FeatureLimitOutput, l.Output.String(), func() { r.plan.Limits.Output = 0 }},
		{"lifetime.wall", api.FeatureLimitWall, r.m.Lifetime.Wall.String(), func() { r.plan.Lifetime.Wall = 0 }},
	}
	for _, a := range all {
		if !r.m.wrote(a.key) {
			continue
		}
		f := r.probe.Feature(a.feature)
		p := api.Point{Name: a.key, Value: "at most " + a.value, Strength: f.Strength, Reason: f.Reason, Origin: r.m.origin(a.key)}
		if f.Strength < api.StrengthHard {
			p.Loss = api.LossSoftLimits
		}
		if f.Strength == api.StrengthNone {
			a.drop()
		}
		if err := r.promise(p, f.Fix); err != nil {
			return err
		}
	}
	return nil
}

// passed are the variables of the caller that a box gets, beside LC_*. None of
// them can hold a secret by its nature.
var passed = [...]string{"TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "NO_COLOR", "CLICOLOR", "FORCE_COLOR"}

// environment makes all variables of the box.
func (r *resolver) environment() error {
	u := &r.plan.User
	env := map[string]string{
		"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name, "SHELL": u.Shell, "TMPDIR": "/tmp", "PWD": r.plan.Dir,
		"PATH": strings.Join(r.pathInside(), ":"),
	}
	for _, e := range r.caller.Env {
		name, value, ok := strings.Cut(e, "=")
		if ok && !hasControl(e) && (slices.Contains(passed[:], name) || strings.HasPrefix(name, "LC_")) {
			env[name] = value
		}
	}
	for _, name := range sortedKeys(r.m.Env) {
		if value := r.m.Env[name]; value == nil {
			delete(env, name)
		} else {
			env[name] = *value
		}
	}
	for _, name := range sortedKeys(env) {
		r.plan.Env = append(r.plan.Env, name+"="+env[name])
	}
	value := strings.Join(sortedKeys(env), " ")
	if err := r.promise(api.Point{Name: "env", Value: "only " + value, Strength: api.StrengthHard, Origin: api.Origin{Source: "default"}}, ""); err != nil {
		return err
	}
	for _, name := range sortedKeys(r.m.Env) {
		value := "removed"
		if v := r.m.Env[name]; v != nil {
			value = fmt.Sprintf("set, %d bytes", len(*v)) // a value may be a secret: not shown
		}
		p := api.Point{Name: "env." + name, Value: value, Strength: api.StrengthHard, Origin: r.m.origin("env." + name)}
		if err := r.promise(p, ""); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
