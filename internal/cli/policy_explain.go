package cli

import (
	"bytes"

	"github.com/spf13/cobra"
)

func newPolicyExplain(a *app) *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "explain [flags] [[--] COMMAND [ARG]...]",
		Short: "Say what a policy comes to on this machine",
		Long: "Resolve the policy of a run with the same flags, and say each promise with its\n" +
			"strength on this machine and who asked for it. Nothing is run.",
		RunE: func(cmd *cobra.Command, args []string) error {
			drivers, err := a.drivers()
			if err != nil {
				return err
			}
			plan, err := a.plan(cmd.Context(), &f, drivers, args)
			if err != nil {
				return err
			}
			return a.ui.print(viewPlan(plan), func(w *bytes.Buffer) { a.ui.planText(w, plan, true) })
		},
	}
	cmd.Flags().SetInterspersed(false)
	f.bind(a, cmd)
	return cmd
}
