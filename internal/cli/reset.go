package cli

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
)

// resetFlags are the flags of reset.
type resetFlags struct {
	all, yes bool
}

// resetAnswer is what `caisson reset --json` prints.
type resetAnswer struct {
	Removed []string `json:"removed"`
}

func newReset(a *app) *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "reset [--all] [--yes]",
		Short: "Remove every trace of Caisson of this user",
		Long: "Remove every trace of Caisson of this user: all sandboxes, those that were kept\n" +
			"too, with their records, and the cache. With --all also the user's own policies and\n" +
			"presets. What root did once is taken back by caisson setup --undo.\n\n" +
			"It refuses while a sandbox runs. At a terminal it asks first; elsewhere it needs\n" +
			"--yes.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.reset(cmd.Context(), &f) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.all, "all", false, "remove policies and presets too")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	return cmd
}

func resetText(w *bytes.Buffer, answer resetAnswer) {
	if len(answer.Removed) == 0 {
		w.WriteString("nothing to remove\n")
	}
	for _, path := range answer.Removed {
		fmt.Fprintf(w, "removed %s\n", oneLine(path))
	}
}
