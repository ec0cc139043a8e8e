package cli

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/bench"
)

func newBenchStart(a *app) *cobra.Command {
	var o bench.Options
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Measure how long a command in a box takes to start and end",
		Long: "Run `true` bare, in bubblewrap and in a box, interleaved in random order in one\n" +
			"run, and print minima, medians and their ratios to bubblewrap's. The figures\n" +
			"belong to this machine and this moment; --json keeps the conditions with them.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			report, err := bench.Start(ctx, o)
			if err != nil {
				return &api.Error{
					Code:    api.CodeHost,
					Message: fmt.Sprintf("bench start: %v", err),
					Hint:    "caisson doctor says what this machine can do, caisson bench start --help what the command takes",
				}
			}
			return a.ui.print(report, report.WriteText)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Rounds, "rounds", 60, "samples of each peer")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the order within each round")
	flags.StringSliceVar(&o.Peers, "peers", nil, "`NAMES` of bare, bubblewrap, caisson (default: all that are installed)")
	flags.StringVar(&o.User, "user", "", "measure as this user; only as root")
	flags.StringVar(&o.Workspace, "workspace", "", "`DIR` to work in (default: a new empty one)")
	return cmd
}
