package cli

import "github.com/spf13/cobra"

// setupFlags are the flags of setup.
type setupFlags struct {
	show bool
	undo bool
	user string
}

func newSetup(a *app) *cobra.Command {
	var f setupFlags
	cmd := &cobra.Command{
		Use:   "setup [--user NAME] [--undo] [--print]",
		Short: "Do once, as root, what this host needs for sandboxes",
		Long: "Do once, as root, what this host needs before ordinary users can start sandboxes:\n" +
			"an AppArmor profile that lets caisson alone use user namespaces, settings of the\n" +
			"kernel that bar them, and a range of subordinate ids for --user NAME (or who calls\n" +
			"by sudo). Whatever is there already is left alone.\n\n" +
			"Without root, or with --print, it only prints the commands. --undo takes back all\n" +
			"that setup did, and nothing else.",
		Example: "  caisson setup            # print what root would do\n" +
			"  sudo caisson setup       # do it\n" +
			"  sudo caisson setup --undo",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.setup(&f) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.show, "print", false, "print the commands, and change nothing")
	fs.BoolVar(&f.undo, "undo", false, "take back what setup did")
	fs.StringVar(&f.user, "user", "", "give the user `NAME` a range of subordinate ids")
	return cmd
}
