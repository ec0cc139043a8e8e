//go:build !linux

package testenv

import "errors"

// checks: off Linux there is no box, and nothing that a test of one needs.
var checks = map[string]func() error{
	"root":   notLinux,
	"user":   notLinux,
	"userns": notLinux,
}

func notLinux() error { return errors.New("not on Linux") }
