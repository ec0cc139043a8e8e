package escape

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Exit codes of Main.
const (
	exitHeld     = 0
	exitFailed   = 1 // the benchmark itself failed, or a row ended in an error
	exitBreached = 2 // a critical row is breached on a target of ours
)

// Main is `caisson bench escape`: it judges the targets that its arguments
// name, writes the report to stdout and progress to stderr, and returns the
// exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, form, err := parseArgs(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitHeld
	}
	if err != nil {
		fmt.Fprintln(stderr, "caisson: bench escape:", err)
		return exitFailed
	}
	if form == "list" {
		return list(stdout, stderr)
	}
	if form == "text" {
		o.Progress = func(v Result) {
			fmt.Fprintf(stderr, "%-13s %-8s %-8s %s\n", v.Target, v.ID, v.Verdict, firstOf(v.Reason, v.Evidence))
		}
	}
	o.Log = stderr
	r, err := Run(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "caisson: bench escape:", err)
	}
	write := r.WriteText
	if form == "json" {
		write = r.WriteJSON
	}
	if werr := write(stdout); werr != nil || err != nil {
		return exitFailed
	}
	return exitCode(r)
}

// exitCode says whether the report is a failure: peers may be breached, ours
// may not.
func exitCode(r Report) int {
	code := exitHeld
	for _, v := range r.Results {
		switch {
		case v.Verdict == Breached && v.Severity == "critical" && strings.HasPrefix(v.Target, "ours"):
			return exitBreached
		case v.Verdict == Error:
			code = exitFailed
		}
	}
	return code
}

func firstOf(s ...string) string {
	return s[max(0, slices.IndexFunc(s, func(x string) bool { return x != "" }))]
}

func list(stdout, stderr io.Writer) int {
	corpus, err := Corpus()
	if err != nil {
		fmt.Fprintln(stderr, "caisson: bench escape:", err)
		return exitFailed
	}
	for _, p := range corpus {
		fmt.Fprintf(stdout, "%-8s %-14s %-8s %s\n", p.ID, p.Class, p.Severity, p.What)
	}
	return exitHeld
}

// parseArgs reads the command line. A tier means Caisson itself, a peer
// another tool, or "bare" for none.
func parseArgs(args []string, stderr io.Writer) (Options, string, error) {
	var o Options
	fs := flag.NewFlagSet("bench escape", flag.ContinueOnError)
	fs.SetOutput(stderr)
	here := "."
	if exe, err := os.Executable(); err == nil {
		here = filepath.Dir(exe)
	}
	tier := fs.String("tier", "", "judge Caisson in this `tier` (process)")
	peers := fs.String("peer", "", "judge these `peers`, by commas: "+strings.Join(peerNames(), ", "))
	asRoot := fs.Bool("as-root", false, "with --tier: start Caisson as root too")
	fs.StringVar(&o.Filter, "filter", "", "only rows whose id or class matches a `pattern`, by commas")
	fs.Uint64Var(&o.Seed, "seed", 1, "order, names and ports")
	fs.IntVar(&o.Rounds, "rounds", 1, "how often each row runs")
	fs.StringVar(&o.Probe, "probe", filepath.Join(here, "caisson-probe"), "`path` of the probe binary")
	fs.StringVar(&o.Caisson, "caisson", filepath.Join(here, "caisson"), "`path` of the caisson binary")
	asJSON := fs.Bool("json", false, "one JSON object a line")
	all := fs.Bool("list", false, "list the rows and do nothing")
	if err := fs.Parse(args); err != nil {
		return o, "", err
	}
	if fs.NArg() > 0 {
		return o, "", fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	form := "text"
	switch {
	case *all:
		return o, "list", nil
	case *asJSON:
		form = "json"
	}
	if *peers != "" {
		o.Targets = strings.Split(*peers, ",")
	}
	switch *tier {
	case "process":
		o.Targets = append(o.Targets, "ours")
		if *asRoot {
			o.Targets = append(o.Targets, "ours-root")
		}
	case "":
		o.Caisson = ""
		if *peers == "" {
			return o, "", errors.New("name what to judge: --tier process, or --peer " + strings.Join(peerNames(), "|"))
		}
	default:
		return o, "", fmt.Errorf("tier %q cannot be judged yet (known: process)", *tier)
	}
	return o, form, nil
}

func peerNames() []string {
	return slices.DeleteFunc(Targets(), func(s string) bool { return strings.HasPrefix(s, "ours") })
}
