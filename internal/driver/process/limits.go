//go:build linux

package process

import (
	"fmt"
	"os"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/stage"
)

// limits says how the tier bounds what a box uses. In full it makes a cgroup
// and removes it.
func (d process) limits(depth driver.Depth) []api.Feature {
	pids := "RLIMIT_NPROC, counted in the box's user namespace"
	if os.Geteuid() == 0 {
		pids = "RLIMIT_NPROC, counted for the box's own user id"
	}
	return append([]api.Feature{
		{Name: api.FeatureLimitPids, Strength: api.StrengthHard, Detail: pids},
		{Name: api.FeatureLimitFiles, Strength: api.StrengthHard, Detail: "RLIMIT_NOFILE, for each process"},
		{Name: api.FeatureLimitDisk, Strength: api.StrengthHard, Detail: "size of the tmpfs of all private folders; the workspace is the host's"},
		{Name: api.FeatureLimitOutput, Strength: api.StrengthHard, Detail: "counted by the keeper, through which all of it goes"},
		{Name: api.FeatureLimitWall, Strength: api.StrengthHard, Detail: "the watcher kills PID 1 by pidfd"},
	}, cgroupFeatures(d.cgroups(), depth)...)
}

// cgroupFeatures are the limits that only a cgroup makes hard.
func cgroupFeatures(c *stage.Cgroups, depth driver.Depth) []api.Feature {
	var broken error
	if depth == driver.ProbeFull && c.Version != 0 {
		broken = c.Try()
	}
	var features []api.Feature
	for _, f := range []struct {
		name, hard string
		control    stage.Controller
		weak       api.Strength
		how, loss  string
	}{
		{
			api.FeatureLimitMemory, "memory and swap of all processes together", stage.ControlMemory,
			api.StrengthSoft, "the watcher samples the memory of all processes; RLIMIT_DATA for each", "it can be exceeded for some tens of ms",
		},
		{
			api.FeatureLimitCPU, "quota of all processes together", stage.ControlCPU,
			api.StrengthSoft, "so many whole processors, by affinity", "a program could choose other processors",
		},
		{
			api.FeatureFreeze, "all processes at once", stage.ControlFreeze,
			api.StrengthSoft, "SIGSTOP to every process", "a process of the box could continue another",
		},
	} {
		ok, reason, fix := c.Can(f.control)
		if ok && broken != nil {
			ok, reason = false, broken.Error()
		}
		feature := api.Feature{Name: f.name, Strength: api.StrengthHard, Detail: fmt.Sprintf("cgroup v%d: %s", c.Version, f.hard)}
		if !ok {
			feature = api.Feature{Name: f.name, Strength: f.weak, Detail: f.how, Reason: reason + "; " + f.loss, Fix: fix}
		}
		features = append(features, feature)
	}
	return features
}
