//go:build !linux

// Package all lists the drivers of this build. Off Linux there are none: there
// Caisson is a client.
package all

import "github.com/caisson-dev/caisson/internal/driver"

// Drivers returns no driver.
func Drivers(string) []driver.Driver { return nil }
