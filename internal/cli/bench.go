package cli

import "github.com/spf13/cobra"

// newBench holds the benchmarks.
func newBench(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure this machine: how fast boxes start, how well they hold"}
	makeGroup(cmd)
	cmd.AddCommand(newBenchStart(a), newBenchEscape())
	return cmd
}
