package policy

import (
	"os"
	"testing"

	"github.com/caisson-dev/caisson/api"
)

// hardProbe is a host where everything is enforced by the kernel.
func hardProbe() map[api.Tier]api.Probe {
	var fs []api.Feature
	for _, n := range []string{
		api.FeatureUserNamespaces, api.FeatureNamespaces, api.FeatureMountAPI, api.FeatureSeccomp, api.FeatureLandlock,
		api.FeatureLimitPids, api.FeatureLimitMemory, api.FeatureLimitWall,
	} {
		fs = append(fs, api.Feature{Name: n, Strength: api.StrengthHard, Required: true})
	}
	return map[api.Tier]api.Probe{api.TierProcess: {Tier: api.TierProcess, Usable: true, Features: fs}}
}

// TestResolveHere resolves with the real host's files: the defaults of a run
// in an empty folder.
func TestResolveHere(t *testing.T) {
	dir := t.TempDir()
	c := Caller{UID: 1000, GID: 1000, Name: "me", Group: "me", Home: "/home/me", Dir: dir, Env: os.Environ(), Argv: []string{"true"}}
	layers, err := Stack("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Resolve(Input{Layers: layers, Caller: c, Probes: hardProbe()})
	if err != nil {
		t.Fatal(err)
	}
	if p.Tier != api.TierProcess || !p.Sealed || p.Dir != p.Workspace.Target || p.Workspace.Mode != api.WorkspaceDirect {
		t.Errorf("plan: %+v", p)
	}
	for i, m := range p.Mounts {
		if m.Kind == MountInvalid || m.Target == "" {
			t.Errorf("mount %d: %+v", i, m)
		}
		for _, later := range p.Mounts[i+1:] {
			if within(m.Target, later.Target) {
				t.Errorf("%s is mounted before %s, which covers it", m.Target, later.Target)
			}
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	c := Caller{UID: 1000, GID: 1000, Name: "me", Group: "me", Home: os.Getenv("HOME"), Dir: b.TempDir(), Env: os.Environ(), Argv: []string{"true"}}
	probes := hardProbe()
	for b.Loop() {
		layers, err := Stack(c.ConfigDir)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Resolve(Input{Layers: layers, Caller: c, Probes: probes}); err != nil {
			b.Fatal(err)
		}
	}
}
