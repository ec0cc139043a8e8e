package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/policy"
)

// policyFlags are the flags that say what a sandbox may do. They add to the
// policy or tighten it, in this one call.
type policyFlags struct {
	file       string        // --policy
	flags      []policy.Flag // what package policy reads, in the order of the call
	credential []string
	runtime    string
}

// bind defines the flags on cmd.
func (f *policyFlags) bind(a *app, cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.file, "policy", "", "read the policy from `FILE`")
	for _, fl := range []struct{ name, usage string }{
		{"preset", "add the policy preset `NAME`"},
		{"tier", "isolate by `TIER`: " + strings.Join(tierNames(), ", ")},
		{"image", "root filesystem `REF`: host, or an OCI image"},
		{"workspace", "work on the folder `DIR`; else the enclosing repository, or the folder that you are in"},
		{"workspace-mode", "how its files get in and out, `MODE`: " + strings.Join(modeNames(), ", ")},
		{"allow", "allow connections to `HOST[:PORT]`, or @PRESET"},
		{"deny", "deny connections to `HOST`"},
		{"read", "show the host's `PATH` read-only"},
		{"write", "show the host's `PATH` read-write"},
		{"hide", "hide `PATH` though the folder above it is shown"},
		{"env", "set a variable, `NAME[=VALUE]`; without VALUE, to yours"},
		{"publish", "open a port of the sandbox on the host, `[IP:]PORT[:BOXPORT]`"},
		{"memory", "use at most `SIZE` of memory, such as 2GiB"},
		{"cpus", "use at most `N` processors"},
		{"pids", "have at most `N` processes and threads"},
		{"timeout", "end it after `TIME`, such as 10m, with exit code 124"},
		{"accept-loss", "accept that the sandbox is weaker by the loss `NAME`"},
	} {
		fs.Var(recorder{fl.name, &f.flags}, fl.name, fl.usage)
	}
	fs.StringArrayVar(&f.credential, "credential", nil, "use the credential `NAME`")
	fs.StringVar(&f.runtime, "runtime", "", "use the OCI runtime `NAME`")
	for name, words := range map[string]func() []string{
		"preset": a.presetNames, "tier": tierNames, "workspace-mode": modeNames, "accept-loss": lossHelp,
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, complete(words)); err != nil {
			panic(err) // cannot happen: the flag is defined above
		}
	}
}

// layer makes the topmost policy of the flags, nil without any.
func (f *policyFlags) layer(env []string) (*policy.File, error) {
	if len(f.credential) > 0 {
		return nil, notBuilt("credential", "credentials are")
	}
	if f.runtime != "" {
		return nil, notBuilt("runtime", "OCI runtimes are")
	}
	return policy.Flags(f.flags, env)
}

// has tells whether the flag was given.
func (f *policyFlags) has(name string) bool {
	for _, fl := range f.flags {
		if fl.Name == name {
			return true
		}
	}
	return false
}

// notBuilt refuses a flag whose part is not there.
func notBuilt(flag, what string) error {
	return &api.Error{
		Code: api.CodeNotBuilt, Message: "--" + flag + ": " + what + " not in this build", Hint: "leave --" + flag + " out",
	}
}

// recorder is a flag that package policy reads: it keeps each use.
type recorder struct {
	name string
	to   *[]policy.Flag
}

// Set keeps one use of the flag.
func (r recorder) Set(value string) error {
	*r.to = append(*r.to, policy.Flag{Name: r.name, Value: value})
	return nil
}

// String is empty: these flags have no default to show.
func (r recorder) String() string { return "" }

// Type is for the help of the flag.
func (r recorder) Type() string { return "string" }

// presetNames are the words that --preset takes: ours, and the user's own.
func (a *app) presetNames() []string {
	names := policy.PresetNames()
	own, err := filepath.Glob(filepath.Join(a.configDir(), "presets", "*.yaml"))
	if err != nil {
		return names // a folder with a name that is a bad pattern; a completion has nobody to tell
	}
	for _, file := range own {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	return names
}

// modeNames are the words that --workspace-mode takes.
func modeNames() []string {
	return []string{
		string(api.WorkspaceDirect), string(api.WorkspaceReview), string(api.WorkspaceBranch),
		string(api.WorkspaceCopy), string(api.WorkspaceNone),
	}
}

// tierNames are the words that --tier takes.
func tierNames() []string {
	names := []string{string(api.TierAuto)}
	for _, t := range api.Tiers() {
		names = append(names, string(t))
	}
	return names
}

// lossHelp are the words that --accept-loss takes, each with what it gives up.
func lossHelp() []string {
	var words []string
	for _, l := range api.Losses() {
		words = append(words, string(l.Loss)+"\t"+l.Means)
	}
	return words
}
