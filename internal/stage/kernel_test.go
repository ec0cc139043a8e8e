//go:build linux

package stage

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/testenv"
)

func TestKernelFeatures(t *testing.T) {
	var names []string
	for _, f := range KernelFeatures() {
		names = append(names, f.Name)
		if f.Strength != api.StrengthHard && f.Reason == "" {
			t.Errorf("%s is %s without a reason", f.Name, f.Strength)
		}
		if f.Required && f.Strength == api.StrengthNone && f.Fix == "" {
			t.Errorf("%s is required and missing without a fix", f.Name)
		}
		t.Logf("%+v", f)
	}
	want := []string{
		api.FeatureNamespaces, api.FeatureUserNamespaces, api.FeatureTimeNamespace, api.FeatureMountAPI,
		api.FeatureIDMap, api.FeatureSeccomp, api.FeatureLandlock, api.FeaturePidfd,
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// What the quick look says agrees with what trying says.
func TestKernelFeaturesAgreeWithTrying(t *testing.T) {
	for feature, need := range map[string]string{api.FeatureSeccomp: "seccomp", api.FeatureLandlock: "landlock", api.FeatureUserNamespaces: "userns"} {
		i := slices.IndexFunc(KernelFeatures(), func(f api.Feature) bool { return f.Name == feature })
		looked, tried := KernelFeatures()[i].Strength == api.StrengthHard, testenv.Lacks(need) == nil
		if tried && !looked {
			t.Errorf("%s works, but the quick look says %+v", feature, KernelFeatures()[i])
		}
	}
}

func TestLandlockLacks(t *testing.T) {
	if got := landlockLacks(100); got != "" {
		t.Errorf("a kernel of the future lacks %q", got)
	}
	if got, want := landlockLacks(8), "a bound on sockets of the host in granted folders (Linux 7.1)"; got != want {
		t.Errorf("ABI 8 lacks %q, want %q", got, want)
	}
}

func BenchmarkKernelFeatures(b *testing.B) {
	for b.Loop() {
		if len(KernelFeatures()) == 0 {
			b.Fatal("none")
		}
	}
}
