package escape

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Tally counts the verdicts of a group of results.
type Tally struct {
	Breached int `json:"breached"`
	Flagged  int `json:"flagged"`
	Decided  int `json:"decided"`
	NA       int `json:"na"`
	Vacuous  int `json:"vacuous"`
	Invalid  int `json:"invalid"`
	Errors   int `json:"errors"`
}

func (t *Tally) add(v Verdict) {
	if v.Decided() {
		t.Decided++
	}
	switch v {
	case Breached:
		t.Breached++
	case Flagged:
		t.Flagged++
	case NotApplicable:
		t.NA++
	case Vacuous:
		t.Vacuous++
	case Invalid:
		t.Invalid++
	case Error:
		t.Errors++
	case Held:
	}
}

func (t Tally) rate() float64 {
	if t.Decided == 0 {
		return 0
	}
	return float64(t.Breached) / float64(t.Decided)
}

// Score is what one target's results come to. No single number stands for it:
// the vector by class comes first.
type Score struct {
	Target   string           `json:"target"`
	Classes  map[string]Tally `json:"classes"`
	Total    Tally            `json:"total"`
	Serious  []string         `json:"serious"`   // breached rows of severity critical or high
	OfGrave  int              `json:"grave"`     // decided rows of these severities
	Macro    float64          `json:"macro"`     // mean of the classes' rates
	Micro    float64          `json:"micro"`     // rate over all rows
	Weighted float64          `json:"weighted"`  // rate by severity: for comparing one target with itself
	WilsonLo float64          `json:"wilson_lo"` // 95 % interval of the micro rate
	WilsonHi float64          `json:"wilson_hi"`
}

// Score adds one target's results up.
func (r Report) Score(target string) Score {
	s := Score{Target: target, Classes: map[string]Tally{}}
	var hit, all int
	for _, v := range r.Results {
		if v.Target != target {
			continue
		}
		c := s.Classes[v.Class]
		c.add(v.Verdict)
		s.Classes[v.Class] = c
		s.Total.add(v.Verdict)
		if !v.Verdict.Decided() {
			continue
		}
		w := weights()[v.Severity]
		all += w
		grave := v.Severity == "critical" || v.Severity == "high"
		if grave {
			s.OfGrave++
		}
		if v.Verdict == Breached {
			hit += w
			if grave {
				s.Serious = append(s.Serious, v.ID)
			}
		}
	}
	classes := 0
	for _, c := range s.Classes {
		if c.Decided > 0 {
			classes++
			s.Macro += c.rate()
		}
	}
	if classes > 0 {
		s.Macro /= float64(classes)
	}
	if all > 0 {
		s.Weighted = float64(hit) / float64(all)
	}
	s.Micro = s.Total.rate()
	s.WilsonLo, s.WilsonHi = wilson(s.Total.Breached, s.Total.Decided)
	return s
}

// WriteJSON writes one line for each verdict and one for each score.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	for _, v := range r.Results {
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	for _, t := range r.Targets {
		if err := enc.Encode(r.Score(t)); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

// WriteText writes the report for people: breached of decided by class, side
// by side, then each target's headline and list, then what was not decided.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %s, root %v, seed %d, %.0f s\n\n", r.Kernel, r.Root, r.Seed, r.Seconds)
	scores := make([]Score, len(r.Targets))
	var classes []string
	for i, t := range r.Targets {
		scores[i] = r.Score(t)
		for _, c := range slices.Sorted(maps.Keys(scores[i].Classes)) {
			if !slices.Contains(classes, c) {
				classes = append(classes, c)
			}
		}
	}
	row := func(name string, cell func(Score) string) {
		fmt.Fprintf(&b, "%-14s", name)
		for _, s := range scores {
			fmt.Fprintf(&b, " %14s", cell(s))
		}
		b.WriteByte('\n')
	}
	row("class", func(s Score) string { return s.Target })
	for _, c := range classes {
		row(c, func(s Score) string { return fmt.Sprintf("%d/%d", s.Classes[c].Breached, s.Classes[c].Decided) })
	}
	row("all", func(s Score) string { return fmt.Sprintf("%d/%d", s.Total.Breached, s.Total.Decided) })
	row("micro", func(s Score) string { return fmt.Sprintf("%.0f%%", 100*s.Micro) })
	row("95%", func(s Score) string { return fmt.Sprintf("%.0f-%.0f%%", 100*s.WilsonLo, 100*s.WilsonHi) })
	row("macro", func(s Score) string { return fmt.Sprintf("%.0f%%", 100*s.Macro) })
	row("weighted", func(s Score) string { return fmt.Sprintf("%.0f%%", 100*s.Weighted) })
	row("flagged", func(s Score) string { return fmt.Sprint(s.Total.Flagged) })
	row("n/a", func(s Score) string { return fmt.Sprint(s.Total.NA) })
	row("vacuous", func(s Score) string { return fmt.Sprint(s.Total.Vacuous) })
	row("invalid", func(s Score) string { return fmt.Sprint(s.Total.Invalid) })
	row("error", func(s Score) string { return fmt.Sprint(s.Total.Errors) })
	for _, s := range scores {
		fmt.Fprintf(&b, "\n%s: %d of %d critical and high rows breached: %s\n", s.Target, len(s.Serious), s.OfGrave, strings.Join(s.Serious, " "))
	}
	r.writeUndecided(&b)
	for _, left := range r.Residue {
		fmt.Fprintf(&b, "host changed: %s\n", left)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeUndecided(b *strings.Builder) {
	b.WriteString("\nnot decided:\n")
	var open []Result
	for _, v := range r.Results {
		if !v.Verdict.Decided() {
			open = append(open, v)
		}
	}
	slices.SortStableFunc(open, func(x, y Result) int { return cmp.Compare(x.Target, y.Target) })
	for _, v := range open {
		fmt.Fprintf(b, "  %-13s %-8s %-8s %s\n", v.Target, v.ID, v.Verdict, v.Reason)
	}
}
