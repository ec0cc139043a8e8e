//go:build !linux

package escape

import (
	"context"
	"errors"
)

// Run judges targets with probes. It needs Linux.
func Run(context.Context, Options) (Report, error) {
	return Report{}, errors.New("the benchmark runs on Linux")
}

// Targets gives the names of the targets that this benchmark knows.
func Targets() []string { return nil }

// Tool is the probe binary's other half; it needs Linux.
func Tool([]string) int { return 2 }
