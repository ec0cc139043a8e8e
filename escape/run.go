package escape

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// Options says what to judge and with what.
type Options struct {
	Targets []string      // names of Targets(); none: bare alone
	Filter  string        // patterns of ids or classes, separated by commas: "PER-*,network"; empty: all
	Seed    uint64        // order, names and ports; the same seed gives the same
	Rounds  int           // how often each row runs; 0 means once
	Probe   string        // path of the probe binary, which is put into the boxes
	Lab     string        // path of the probe binary as the lab's tool; empty: Probe
	Caisson string        // path of the caisson binary, for the targets of ours
	Limit   time.Duration // bound of the whole; 0 means half an hour
	// Progress gets each result as soon as it is there; may be nil.
	Progress func(Result)
	// Log gets what the lab itself says; may be nil.
	Log io.Writer
}

// Report is what a run showed.
type Report struct {
	Seed    uint64    `json:"seed"`
	Kernel  string    `json:"kernel"`
	Root    bool      `json:"root"` // whether the lab had the machine's root
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Targets []string  `json:"targets"`
	Results []Result  `json:"results"`
	// Residue is what the benchmark changed on the host: it must be empty. On a
	// machine where others work it may name their doing.
	Residue []string `json:"residue,omitempty"`
}

// choose gives the ids of the rows that the filter names.
func choose(corpus []Probe, filter string) ([]string, error) {
	var ids []string
	patterns := strings.Split(filter, ",")
	for _, p := range corpus {
		for _, pat := range patterns {
			byID, err := path.Match(pat, p.ID)
			if err != nil {
				return nil, fmt.Errorf("read filter: %w", err)
			}
			if pat == "" || byID || pat == p.Class {
				ids = append(ids, p.ID)
				break
			}
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no probe matches the filter %q", filter)
	}
	return ids, nil
}
