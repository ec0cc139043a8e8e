package bench

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report for a person.
func (r Report) WriteText(w *bytes.Buffer) {
	c := r.Conditions
	fmt.Fprintf(w, "%s · Linux %s · %d x %s · load %s\n", c.Time.Format("2006-01-02 15:04 MST"), c.Kernel, c.CPUs, c.CPU, c.LoadBefore)
	fmt.Fprintf(w, "%d rounds, order by seed %d · user %s (uid %d) · workspace: %s\n\n", c.Rounds, c.Seed, c.User, c.UID, c.Workspace)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "true in ...\tmin ms\tmedian\tp90\tcpu median\tx min\tx median\t\n")
	for _, p := range r.Peers {
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%s\t\n",
			p.Peer, p.WallMS.Min, p.WallMS.Median, p.WallMS.P90, p.CPUMS.Median, ratio(p.RatioMin), ratio(p.RatioMedian))
	}
	_ = table.Flush() // into a buffer, which takes everything
	if r.Baseline != "" {
		fmt.Fprintf(w, "\nx: wall time over that of %s in the same run.\n", r.Baseline)
	}
	for _, p := range r.Peers {
		fmt.Fprintf(w, "%s: %s\n", p.Peer, strings.Join(p.Argv, " "))
	}
	for _, t := range r.Inittrace {
		fmt.Fprintf(w, "\n%s before main: %d packages, %.3f ms in initialisers, done after %.2f ms, %d bytes\n",
			t.Binary, t.Packages, t.ClockMS, t.EndMS, t.Bytes)
		for _, p := range t.Slowest[:min(3, len(t.Slowest))] {
			fmt.Fprintf(w, "  %.3f ms  %s\n", p.ClockMS, p.Package)
		}
	}
}

func ratio(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}
