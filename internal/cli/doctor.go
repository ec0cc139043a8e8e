package cli

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
)

// diagnosis is what `caisson doctor --json` prints.
type diagnosis struct {
	Usable  bool        `json:"usable"`            // every tier that was asked for; of all, one is enough
	Tiers   []api.Probe `json:"tiers"`             // those that this build has
	Missing []api.Tier  `json:"missing,omitempty"` // those that it lacks
}

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [TIER]...",
		Short: "Try what this machine can do, and say how to fix the rest",
		Long: "Try what each tier needs of this machine, by doing it, and say how strong each\n" +
			"point is, why it is not stronger, and what would make it so.\n\n" +
			"The exit code is 0 if every TIER that is named, or without names any tier, is\n" +
			"usable, and else 1.",
		ValidArgsFunction: complete(func() []string { return tierNames()[1:] }),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, t := range args {
				if !slices.Contains(api.Tiers(), api.Tier(t)) {
					return unknownWord("tier", t, tierNames()[1:])
				}
			}
			drivers, err := a.drivers()
			if err != nil {
				return err
			}
			d := diagnose(cmd, drivers, args)
			if err := a.ui.print(d, func(w *bytes.Buffer) { a.diagnosisText(w, d) }); err != nil {
				return err
			}
			if !d.Usable {
				return exit(1)
			}
			return nil
		},
	}
}

// diagnose asks the drivers of the named tiers, or all.
func diagnose(cmd *cobra.Command, drivers []driver.Driver, names []string) diagnosis {
	d := diagnosis{Tiers: []api.Probe{}}
	for _, tier := range api.Tiers() {
		if len(names) > 0 && !slices.Contains(names, string(tier)) {
			continue
		}
		i := slices.IndexFunc(drivers, func(d driver.Driver) bool { return d.Tier() == tier })
		if i < 0 {
			d.Missing = append(d.Missing, tier)
			continue
		}
		d.Tiers = append(d.Tiers, drivers[i].Probe(cmd.Context(), driver.ProbeFull))
	}
	usable := func(p api.Probe) bool { return p.Usable }
	if len(names) > 0 {
		d.Usable = len(d.Missing) == 0 && !slices.ContainsFunc(d.Tiers, func(p api.Probe) bool { return !p.Usable })
	} else {
		d.Usable = slices.ContainsFunc(d.Tiers, usable)
	}
	return d
}

func (a *app) diagnosisText(w *bytes.Buffer, d diagnosis) {
	for _, p := range d.Tiers {
		verdict := a.ui.paint(colourGreen, "usable")
		if !p.Usable {
			verdict = a.ui.paint(colourRed, "not usable")
		}
		table(w, [][]cell{{{text: string(p.Tier) + ":"}, verdict}})
		rows := [][]cell{a.ui.heading("  FEATURE", "STRENGTH", "NEEDED", "WHAT WAS SEEN")}
		for _, f := range p.Features {
			rows = append(rows, a.featureRow(f))
		}
		table(w, rows)
		a.fixes(w, p)
		w.WriteByte('\n')
	}
	for _, tier := range d.Missing {
		fmt.Fprintf(w, "%s: not in this build\n", tier)
	}
}

func (a *app) featureRow(f api.Feature) []cell {
	needed := "-"
	if f.Required {
		needed = "yes"
	}
	seen := f.Detail
	switch {
	case f.Reason != "" && seen != "":
		seen += ": " + f.Reason
	case f.Reason != "":
		seen = f.Reason
	}
	return []cell{{text: "  " + f.Name}, a.ui.strength(f.Strength), {text: needed}, {text: seen}}
}

// fixes lists what would make the features of p stronger.
func (a *app) fixes(w *bytes.Buffer, p api.Probe) {
	for _, f := range p.Features {
		if f.Fix != "" && f.Strength != api.StrengthHard {
			fmt.Fprintf(w, "  fix %s: %s\n", f.Name, oneLine(f.Fix))
		}
	}
}
