// Package cli is the command line: it reads the caller's words, hands them to
// the packages that do the work, and says what came of it. There is one file
// per command.
//
// Exit codes. `caisson run` is transparent: it gives the command's own code,
// 128+N for a signal, 124 for the wall time, 137 for a limit, 126 and 127 when
// the command cannot be executed or is not there, and 125 for every failure or
// refusal of Caisson itself, wrong flags included. Every other command gives 0
// when it did what was asked, 1 when it could not or the answer is no (doctor:
// the tier is not usable), and 2 when the words of the call are wrong.
//
// The package is on the path of every sandbox's start. It imports nothing that
// is slow to initialise and does no work before the command is known.
package cli

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
)

// app is one call of the command line.
type app struct {
	ui     *ui
	getenv func(string) string
	host   string // --host: a remote Caisson
}

// Main runs one call with the words after the program's name and returns the
// exit code.
func Main(args []string) int {
	a := &app{ui: newUI(os.Stdout, os.Stderr, os.Getenv), getenv: getenv}
	root := newRoot(a, args)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	var code exit
	if errors.As(err, &code) {
		return int(code)
	}
	if wantsJSON(args) { // the failure may stand before the flag
		a.ui.json = true
	}
	for _, e := range asErrors(err) {
		a.ui.fail(e)
	}
	return exitCode(cmd, err)
}

// getenv reads the environment. Without a usable HOME it is the one of the
// caller's account.
func getenv(name string) string {
	value := os.Getenv(name)
	if name != "HOME" || filepath.IsAbs(value) {
		return value
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return ""
	}
	return u.HomeDir
}

// newRoot makes the command tree.
func newRoot(a *app, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "caisson",
		Short: "Run AI agents and the code they write in sandboxes that hold by construction",
		Long: "Caisson runs AI agents, and any code they write, in sandboxes that hold by\n" +
			"construction: what a sandbox may not do, it has no means to do.\n\n" +
			"  caisson run -- COMMAND ARGS...   run a command in a fresh sandbox\n" +
			"  caisson doctor                   what this machine can do, and how to fix the rest",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.refuseHost() },
	}
	flags := root.PersistentFlags()
	flags.BoolVar(&a.ui.json, "json", false, "print JSON, errors included")
	flags.StringVar(&a.host, "host", "", "use the remote Caisson at `URL`")
	if err := flags.MarkHidden("host"); err != nil {
		panic(err) // cannot happen: the line before defines it
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.SetOut(a.ui.out)
	root.SetErr(a.ui.err)
	makeGroup(root)
	root.AddCommand(commands(a, args)...)
	return root
}

// commands makes all commands, or only the one that the call names: the others
// would cost every start of a box the making of their flags.
func commands(a *app, args []string) []*cobra.Command {
	if len(args) > 0 && args[0] == "run" {
		return []*cobra.Command{newRun(a)}
	}
	return []*cobra.Command{
		newRun(a), newLs(a), newDoctor(a), newPolicy(a), newSetup(a), newReset(a), newBench(a), newVersion(a), newCompletion(a),
	}
}

// makeGroup lets a command that only holds others show its help, and refuse
// names that it does not hold.
func makeGroup(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return cmd.Help()
	}
}

// newHelp makes `caisson help COMMAND`, the same as `caisson COMMAND --help`.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Describe a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(topic, append(rest, args...)[0])
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}

// refuseHost says that remote use is not there, instead of running locally what
// was meant for another machine.
func (a *app) refuseHost() error {
	if a.host == "" {
		return nil
	}
	return &api.Error{
		Code:    api.CodeNotBuilt,
		Message: "--host: a remote Caisson is not in this build",
		Hint:    "leave --host out to work on this machine",
	}
}

// wantsJSON tells whether the call asked for JSON, for failures that come
// before its flags are read.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}
