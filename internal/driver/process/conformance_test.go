//go:build linux

package process_test

import (
	"testing"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/driver/drivertest"
	"github.com/caisson-dev/caisson/internal/policy"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Options{
		New:  func(testing.TB) driver.Driver { return newDriver(t) },
		Plan: func(testing.TB) *policy.Plan { return newPlan(t, "") },
	})
}
