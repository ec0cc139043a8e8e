// Package bench measures Caisson side by side with its peers: the same act, on
// the same host, in one run, interleaved in random order, so that a figure is
// never compared with one taken at another time.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options of the start benchmark. The zero value measures 60 rounds of every
// peer, as the caller, with the caisson that is running.
type Options struct {
	Rounds int      // samples per peer; 0: 60
	Seed   uint64   // of the order within each round; 0: 1
	Peers  []string // names; nil: all that are installed. The order is that of the table
	User   string   // run every peer as this user; needs root. Empty: the caller
	// Workspace is the folder that the boxes work in. Empty: a new empty one.
	Workspace string
	// Caisson and Guest are the binaries. Empty: the running program, and
	// caisson-guest beside it.
	Caisson, Guest string
}

// warmups are rounds before the first that counts: caches fill, binaries are
// placed.
const warmups = 3

// Report is the outcome of one benchmark, complete enough to judge it later.
type Report struct {
	Benchmark  string     `json:"benchmark"` // "start"
	Conditions Conditions `json:"conditions"`
	Baseline   string     `json:"baseline,omitempty"` // the peer that ratios refer to
	Peers      []Result   `json:"peers"`
	// Inittrace is what each Go binary spends before main, by package, from
	// GODEBUG=inittrace=1.
	Inittrace []Trace `json:"inittrace"`
}

// Result is what one peer needed.
type Result struct {
	Peer   string   `json:"peer"`
	Argv   []string `json:"argv"`
	WallMS Summary  `json:"wall_ms"`
	// CPUMS is user and system time of the command and of everything it waited for.
	CPUMS Summary `json:"cpu_ms"`
	// RatioMin and RatioMedian are wall times divided by the baseline's; 0 without one.
	RatioMin    float64   `json:"ratio_min,omitempty"`
	RatioMedian float64   `json:"ratio_median,omitempty"`
	SamplesMS   []float64 `json:"samples_ms"` // wall, in the order of the rounds
}

// Start measures how long each peer takes to run `true` in its box: from the
// fork of the peer's command to the end of it, as its parent sees it.
func Start(ctx context.Context, o Options) (Report, error) {
	if runtime.GOOS != "linux" {
		return Report{}, errors.New("bench start measures boxes, which need Linux")
	}
	if err := o.complete(); err != nil {
		return Report{}, err
	}
	who, err := lookUser(o.User)
	if err != nil {
		return Report{}, err
	}
	if err := o.findBinaries(); err != nil {
		return Report{}, err
	}
	dir, remove, err := workspace(o.Workspace, who)
	if err != nil {
		return Report{}, err
	}
	defer remove()
	peers, err := choosePeers(o, who, dir)
	if err != nil {
		return Report{}, err
	}
	r := Report{Benchmark: "start", Conditions: conditions(o, who, dir, peers)}
	samples, err := rounds(ctx, o, peers, runner{dir: dir, who: who}.measure)
	if err != nil {
		return Report{}, err
	}
	r.Conditions.LoadAfter = loadAverage()
	r.summarise(peers, samples)
	for _, binary := range []string{o.Caisson, o.Guest} {
		trace, err := initTrace(ctx, binary)
		if err != nil {
			return Report{}, fmt.Errorf("trace the start of %s: %w", binary, err)
		}
		r.Inittrace = append(r.Inittrace, trace)
	}
	return r, nil
}

// complete fills what was left out and refuses what cannot be measured.
func (o *Options) complete() error {
	if o.Rounds == 0 {
		o.Rounds = 60
	}
	if o.Rounds < 0 {
		return fmt.Errorf("%d rounds measure nothing", o.Rounds)
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	for _, name := range o.Peers {
		if !slices.Contains(peerNames(), name) {
			return fmt.Errorf("unknown peer %q: there are %s", name, strings.Join(peerNames(), ", "))
		}
	}
	return nil
}

func (o *Options) findBinaries() error {
	if o.Caisson == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the running program: %w", err)
		}
		o.Caisson = self
	}
	var err error
	if o.Caisson, err = filepath.Abs(o.Caisson); err != nil {
		return fmt.Errorf("resolve the path of caisson: %w", err)
	}
	if o.Guest == "" {
		o.Guest = filepath.Join(filepath.Dir(o.Caisson), "caisson-guest")
	}
	for _, binary := range []string{o.Caisson, o.Guest} {
		if _, err := os.Stat(binary); err != nil {
			return fmt.Errorf("find a binary to measure: %w", err)
		}
	}
	return nil
}

// workspace returns the folder to work in and what removes it afterwards.
func workspace(given string, who account) (dir string, remove func(), err error) {
	if given != "" {
		dir, err = filepath.Abs(given)
		return dir, func() {}, err
	}
	dir, err = os.MkdirTemp("", "caisson-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("make a workspace: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) } // empty, in the temporary folder: worth no failure
	if who.switched {
		if err := os.Chown(dir, who.uid, who.gid); err != nil {
			remove()
			return "", nil, fmt.Errorf("give the workspace to %s: %w", who.name, err)
		}
	}
	return dir, remove, nil
}

// sample is one run of one peer.
type sample struct{ wall, cpu time.Duration }
