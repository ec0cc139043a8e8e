package cli

import "github.com/spf13/cobra"

// newPolicy holds the commands about policies.
func newPolicy(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check policies and explain what they come to here",
	}
	makeGroup(cmd)
	cmd.AddCommand(newPolicyCheck(a), newPolicyExplain(a))
	return cmd
}
