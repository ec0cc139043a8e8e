package cli

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/policy"
)

// runFlags are the flags of run beside those of the policy.
type runFlags struct {
	policyFlags
	name   string
	keep   bool
	report string
	dryRun bool
}

func newRun(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG]...",
		Short: "Run a command in a fresh sandbox",
		Long: "Run a command in a fresh sandbox of its own and end the sandbox with it. Standard\n" +
			"input and output, the terminal, signals and the exit code are the command's.\n\n" +
			"What the sandbox may do comes from the flags, on top of --policy FILE and --preset\n" +
			"NAME, or else of policy.yaml in your own configuration folder; never from the\n" +
			"workspace.\n\n" +
			"The exit code is the command's; 128+N when signal N ended it; 124 when its time ran\n" +
			"out; 137 when a limit did; 127 when there is no such command and 126 when it cannot\n" +
			"be executed; 125 when Caisson refuses or fails.",
		Example: "  caisson run -- make test\n" +
			"  caisson run --read ~/docs --timeout 10m -- python3 script.py\n" +
			"  caisson run --dry-run -- true",
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, &f, args) },
	}
	cmd.Flags().SetInterspersed(false) // flags after the command are the command's
	f.bind(a, cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", "", "call the sandbox `NAME`")
	fs.BoolVar(&f.keep, "keep", false, "keep the sandbox after the command ended")
	fs.StringVar(&f.report, "report", "", "write the decisions to `FILE`, as JSON lines")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the plan with the strength of each point, and run nothing")
	return cmd
}

func (a *app) run(cmd *cobra.Command, f *runFlags, argv []string) error {
	if len(argv) == 0 && !f.dryRun {
		return usage("caisson run -- COMMAND ARGS..., for example: caisson run -- sh", "run: no command is given")
	}
	if f.keep {
		return notBuilt("keep", "sandboxes that outlive their command are") // nor start, exec and rm
	}
	drivers, err := a.drivers()
	if err != nil {
		return err
	}
	resolve := func() (*policy.Plan, error) { return a.plan(cmd.Context(), &f.policyFlags, drivers, argv) }
	if f.dryRun {
		plan, err := resolve()
		if err != nil {
			return err
		}
		return a.ui.print(viewPlan(plan), func(w *bytes.Buffer) { a.ui.planText(w, plan, false) })
	}
	code, err := a.keep(cmd.Context(), drivers, f, func() (*policy.Plan, error) {
		plan, err := resolve()
		if err == nil {
			for _, line := range plan.Warnings {
				a.ui.warn(line)
			}
		}
		return plan, err
	})
	if err != nil && code == 0 {
		code = api.ExitFailed // the command did well, and we did not
	}
	if err != nil {
		return &failure{code, err}
	}
	return ended(code)
}

// ended gives a code on as the code of the call.
func ended(code int) error {
	if code == 0 {
		return nil
	}
	return exit(code)
}
