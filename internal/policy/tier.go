package policy

import (
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// rank orders tiers by how much must fail before the host is open.
func rank(t api.Tier) int {
	switch t {
	case api.TierProcess:
		return 1
	case api.TierContainer:
		return 2
	case api.TierGVisor, api.TierWasm:
		return 3
	case api.TierMicroVM:
		return 4
	}
	return 0
}

// sufficient lists the tiers that are strong enough, the preferred first: the
// table "which tier, by what is lost if it fails".
func sufficient(trust api.Trust, tenants api.Tenants) []api.Tier {
	all := []api.Tier{api.TierProcess, api.TierContainer, api.TierGVisor, api.TierMicroVM}
	many := tenants != api.TenantsOne
	switch trust {
	case api.TrustOwn, api.TrustReviewed:
		if many {
			return all[1:]
		}
		return all
	case api.TrustGenerated:
		if many {
			return all[2:]
		}
		return all
	}
	if many {
		return all[3:]
	}
	return all[2:]
}

// chooseTier takes the tier that the policy names, or the first sufficient one.
func (r *resolver) chooseTier() error {
	enough := sufficient(r.m.Trust, r.m.Tenants)
	if r.m.Image != "host" {
		enough = slices.DeleteFunc(slices.Clone(enough), func(t api.Tier) bool { return t == api.TierProcess })
	}
	if least := r.m.atLeast; least != "" {
		enough = slices.DeleteFunc(slices.Clone(enough), func(t api.Tier) bool { return rank(t) < rank(least) })
	}
	tier := r.m.Tier
	if tier == api.TierAuto {
		tier = r.firstUsable(enough)
	}
	if tier == "" {
		return r.noTier(enough)
	}
	if tier == api.TierProcess && r.m.Image != "host" {
		return fail(api.CodeUnsupported, r.m.origin("image"), "use tier container, gvisor or microvm", "tier process takes only the image host, not %s", quote(r.m.Image))
	}
	probe, ok := r.in.Probes[tier]
	if !ok || !probe.Usable {
		return r.unusable(tier, probe)
	}
	weak := rank(tier) < rank(enough[0])
	if weak && !slices.Contains(r.m.Accept, api.LossWeakTier) {
		return fail(api.CodeStrength, r.m.origin("tier"), "use tier "+words(enough)+", or accept the loss: --accept-loss weak-tier",
			"tier %s is weaker than trust %s and tenants %s ask for (%s)", tier, r.m.Trust, r.m.Tenants, words(enough))
	}
	r.plan.Tier, r.probe = tier, probe
	p := api.Point{Name: "tier", Value: string(tier), Strength: api.StrengthHard, Origin: r.m.origin("tier")}
	if weak {
		p.Strength, p.Loss = api.StrengthSoft, api.LossWeakTier
		p.Reason = "weaker than trust " + string(r.m.Trust) + " and tenants " + string(r.m.Tenants) + " ask for"
	}
	return r.promise(p, "")
}

// firstUsable is the first tier of the list that this build and host can run;
// where a weaker one is accepted, the strongest there is.
func (r *resolver) firstUsable(enough []api.Tier) api.Tier {
	can := func(t api.Tier) bool { return slices.Contains(r.built.Tiers, t) && r.in.Probes[t].Usable }
	if i := slices.IndexFunc(enough, can); i >= 0 {
		return enough[i]
	}
	if slices.Contains(r.m.Accept, api.LossWeakTier) {
		for _, t := range []api.Tier{api.TierMicroVM, api.TierGVisor, api.TierContainer, api.TierProcess} {
			if can(t) && rank(t) >= rank(r.m.atLeast) && (t != api.TierProcess || r.m.Image == "host") {
				return t
			}
		}
	}
	return ""
}

// noTier says why none of the sufficient tiers can be had.
func (r *resolver) noTier(enough []api.Tier) error {
	var built []api.Tier
	for _, t := range enough {
		if slices.Contains(r.built.Tiers, t) {
			built = append(built, t)
		}
	}
	if len(built) > 0 {
		return r.unusable(built[0], r.in.Probes[built[0]])
	}
	at := r.m.origin("trust")
	if r.m.atLeast != "" {
		return fail(api.CodeNotBuilt, r.m.atLeastAt, "use a build that has it", "the ceiling asks for tier %s, which is not in this build", words(enough))
	}
	if !at.User && r.m.origin("tenants").User {
		at = r.m.origin("tenants")
	}
	return fail(api.CodeNotBuilt, at, "use a build that has it, or accept the loss: --accept-loss weak-tier",
		"trust %s and tenants %s need tier %s, which is not in this build", r.m.Trust, r.m.Tenants, words(enough))
}

// unusable says what the host lacks for a tier.
func (r *resolver) unusable(tier api.Tier, probe api.Probe) error {
	for _, f := range probe.Features {
		if !f.Required || f.Strength == api.StrengthHard {
			continue
		}
		if f.Name == api.FeatureUserNamespaces && slices.Contains(r.m.Accept, api.LossNoUserNS) {
			return NoUserNS()
		}
		why, fix := f.Detail, f.Fix
		if why == "" {
			why = f.Reason // what is lost without it
		}
		if why == "" {
			why = "it is missing"
		}
		if fix == "" {
			fix = "see `caisson doctor`"
		}
		return &api.Error{Code: api.CodeHost, Message: "tier " + string(tier) + " does not run on this host: " + f.Name + ": " + why, Hint: fix}
	}
	return &api.Error{Code: api.CodeHost, Message: "tier " + string(tier) + " does not run on this host", Hint: "see `caisson doctor`"}
}

// NoUserNS refuses a box without user namespaces to who accepted the loss of
// them. Half of such a box would be worse than none: it would be taken for a sandbox.
func NoUserNS() *api.Error {
	return &api.Error{
		Code: api.CodeNotBuilt,
		Message: "this host bars user namespaces, and a box without them (no-userns) is not in this build: Landlock does not bound " +
			"mode, owner, times and attributes of the host's files, and without a pid namespace no process is sure to end with the box",
		Hint: "let caisson use user namespaces: `caisson doctor` says what bars them here, and `caisson setup` does what root must do once",
	}
}

func words(tiers []api.Tier) string {
	var s []string
	for _, t := range tiers {
		s = append(s, string(t))
	}
	return strings.Join(s, " or ")
}
