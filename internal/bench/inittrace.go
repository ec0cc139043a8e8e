package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Trace is what a Go binary initialises before its main.
type Trace struct {
	Binary   string `json:"binary"`
	Packages int    `json:"packages"` // that have something to initialise
	// EndMS is when the last initialiser was done, from the start of the runtime.
	EndMS   float64       `json:"end_ms"`
	ClockMS float64       `json:"clock_ms"` // spent in initialisers
	Bytes   int64         `json:"bytes"`    // allocated in them
	Slowest []PackageInit `json:"slowest"`  // slowest first, at most 10
}

// PackageInit is the initialisation of one package.
type PackageInit struct {
	Package string  `json:"package"`
	AtMS    float64 `json:"at_ms"`
	ClockMS float64 `json:"clock_ms"`
	Bytes   int64   `json:"bytes"`
	Allocs  int64   `json:"allocs"`
}

// initTrace starts the binary in a way that does nothing but end, and reads
// what the runtime says of its initialisers.
func initTrace(ctx context.Context, binary string) (Trace, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // what it exits with does not matter: initialisers came first
		return Trace{}, err
	}
	return parseTrace(filepath.Base(binary), stderr.String())
}

// parseTrace reads lines like
//
//	init internal/bytealg @0.008 ms, 0.001 ms clock, 0 bytes, 0 allocs
//
// and ignores all others.
func parseTrace(binary, text string) (Trace, error) {
	t := Trace{Binary: binary}
	var all []PackageInit
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "init ") {
			continue
		}
		var p PackageInit
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &p.Package, &p.AtMS, &p.ClockMS, &p.Bytes, &p.Allocs); err != nil {
			continue
		}
		t.Packages++
		t.ClockMS += p.ClockMS
		t.Bytes += p.Bytes
		t.EndMS = max(t.EndMS, p.AtMS+p.ClockMS)
		all = append(all, p)
	}
	if t.Packages == 0 {
		return Trace{}, errors.New("it printed no trace of its initialisers")
	}
	slices.SortStableFunc(all, func(a, b PackageInit) int {
		switch {
		case a.ClockMS > b.ClockMS:
			return -1
		case a.ClockMS < b.ClockMS:
			return 1
		}
		return 0
	})
	t.Slowest = all[:min(10, len(all))]
	return t, nil
}
