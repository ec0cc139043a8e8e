// Package all lists the drivers of this build. A new tier is one more line.
package all

import (
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/driver/process"
)

// Drivers returns every driver, in the order of api.Tiers. dir is a folder of
// ours in which drivers place what they execute.
func Drivers(dir string) []driver.Driver {
	return []driver.Driver{process.New(dir)}
}
