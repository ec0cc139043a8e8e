//go:build !linux

package bench

import (
	"context"
	"errors"
)

// runner exists on Linux only: Start refuses before it is used.
type runner struct {
	dir string
	who account
}

func (runner) measure(context.Context, []string) (sample, error) {
	return sample{}, errors.New("not on this system")
}
