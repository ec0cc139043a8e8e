package cli

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
)

// TestDoctorText is what a person sees where AppArmor bars sandboxes: on no
// machine of the tests.
func TestDoctorText(t *testing.T) {
	const (
		barred = "AppArmor restricts user namespaces here: kernel.apparmor_restrict_unprivileged_userns is 1, and no profile allows them to caisson"
		fix    = "caisson setup, as root: it writes a profile for caisson alone"
	)
	d := diagnosis{
		Tiers: []api.Probe{{Tier: api.TierProcess, Features: []api.Feature{
			{Name: api.FeatureNamespaces, Strength: api.StrengthHard, Required: true},
			{Name: api.FeatureUserNamespaces, Strength: api.StrengthHard, Required: true, Detail: "AppArmor restricts them to programs that have a profile"},
			{Name: api.FeatureLandlock, Strength: api.StrengthHard, Detail: "ABI 4"},
			{Name: "box", Required: true, Reason: barred, Fix: fix},
		}}},
		Missing: []api.Tier{api.TierMicroVM},
	}
	var b bytes.Buffer
	(&app{ui: &ui{}}).diagnosisText(&b, d)
	const want = `process:  not usable
  FEATURE          STRENGTH  NEEDED  WHAT WAS SEEN
  namespaces       hard      yes
  user-namespaces  hard      yes     AppArmor restricts them to programs that have a profile
  landlock         hard      -       ABI 4
  box              none      yes     ` + barred + `
  fix box: ` + fix + `

microvm: not in this build
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
