package drivertest

import (
	"testing"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/policy"
)

// forFakes are the options of what takes no time.
func forFakes(newDriver func(t testing.TB) driver.Driver) Options {
	return Options{
		New: newDriver,
		Plan: func(testing.TB) *policy.Plan {
			return &policy.Plan{Tier: api.TierProcess, Image: "host", Sealed: true, Dir: "/", Env: []string{"PATH=/bin"}}
		},
		Programs: FakePrograms(),
		Patience: 10 * time.Second, Within: 2 * time.Second, Moment: 20 * time.Millisecond,
	}
}

func TestFake(t *testing.T) {
	t.Run("everything", func(t *testing.T) {
		Run(t, forFakes(func(testing.TB) driver.Driver { return &Fake{Can: Everything()} }))
	})
	t.Run("nothing extra", func(t *testing.T) {
		Run(t, forFakes(func(testing.TB) driver.Driver { return &Fake{} }))
	})
}

// TestRemote: the fake at the other end of a socket passes too.
func TestRemote(t *testing.T) {
	Run(t, forFakes(func(t testing.TB) driver.Driver { return Remote(t, &Fake{Can: Everything()}) }))
}
