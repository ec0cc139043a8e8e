package cli

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/escape"
)

func newBenchEscape() *cobra.Command {
	return &cobra.Command{
		Use:                "escape [flags]",
		Short:              "Try to break out of boxes, and judge from outside what came of it",
		DisableFlagParsing: true, // package escape reads its own words
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return ended(escape.Main(ctx, args, os.Stdout, os.Stderr))
		},
	}
}
