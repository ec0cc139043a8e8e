package cli

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those that `caisson completion` can write for.
func shells() []string { return []string{"bash", "zsh", "fish"} }

func newCompletion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: "Print a script that completes commands, flags, sandboxes, presets, tiers and\n" +
			"losses in a shell:\n\n" +
			"  bash   source <(caisson completion bash)\n" +
			"  zsh    source <(caisson completion zsh)\n" +
			"  fish   caisson completion fish | source",
		ValidArgs: shells(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells(), args[0]) {
				return usage("caisson completion bash, or zsh, or fish", "completion needs the name of one shell")
			}
			script, err := completionScript(cmd.Root(), args[0])
			if err != nil {
				return err
			}
			answer := struct {
				Shell  string `json:"shell"`
				Script string `json:"script"`
			}{args[0], script}
			return a.ui.print(answer, func(w *bytes.Buffer) { w.WriteString(script) })
		},
	}
}

func completionScript(root *cobra.Command, shell string) (string, error) {
	var b bytes.Buffer
	var err error
	switch shell {
	case "bash":
		err = root.GenBashCompletionV2(&b, true)
	case "zsh":
		err = root.GenZshCompletion(&b)
	default:
		err = root.GenFishCompletion(&b, true)
	}
	return b.String(), err
}

// complete makes the completion of a word that is one of those that words
// returns; each is a word, or a word, a tab and what it means.
func complete(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, w := range words() {
			if strings.HasPrefix(w, prefix) {
				out = append(out, w)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
