package escape

import (
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed probes.tsv
var probesTSV string

// A Probe is one row of the corpus. Plant, Action and Observe are a name and
// arguments: what is planted outside, what the program inside does, what is
// looked at outside afterwards.
type Probe struct {
	ID       string `json:"id"`
	Class    string `json:"class"`
	What     string `json:"what"`
	How      string `json:"how"` // the course of the trial: run, hold, pair, ...
	Plant    string `json:"plant,omitempty"`
	Action   string `json:"action"`
	Observe  string `json:"observe"`
	Tiers    string `json:"tiers"` // letters: P process, C container, G gvisor, V microvm, W wasm
	Severity string `json:"severity"`
	Control  string `json:"control"` // what must breach for a hold to mean anything
	Source   string `json:"source,omitempty"`
}

const columns = "id\tclass\twhat\thow\tplant\taction\tobserve\ttiers\tseverity\tcontrol\tsource"

// Corpus gives every probe in the order of probes.tsv.
func Corpus() ([]Probe, error) { return parseCorpus(probesTSV) }

func parseCorpus(text string) ([]Probe, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if lines[0] != columns {
		return nil, fmt.Errorf("read probes: the first line is not %q", columns)
	}
	seen := map[string]bool{}
	var out []Probe
	for i, line := range lines[1:] {
		f := strings.Split(line, "\t")
		if len(f) != 11 {
			return nil, fmt.Errorf("read probes: line %d has %d columns, not 11", i+2, len(f))
		}
		p := Probe{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10]}
		if seen[p.ID] {
			return nil, fmt.Errorf("read probes: %s stands twice", p.ID)
		}
		if weights()[p.Severity] == 0 {
			return nil, fmt.Errorf("read probes: %s has no severity %q", p.ID, p.Severity)
		}
		seen[p.ID] = true
		out = append(out, p)
	}
	return out, nil
}

// weights gives what each severity counts in the weighted rate.
func weights() map[string]int {
	return map[string]int{"critical": 8, "high": 4, "medium": 2, "low": 1}
}

// secret gives 128 random bits in hex.
func secret() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// cut splits a cell into its name and its arguments.
func cut(cell string) (name, arg string) {
	name, arg, _ = strings.Cut(cell, " ")
	return name, arg
}
