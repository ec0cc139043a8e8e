package cli

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what `caisson version` tells of this program.
type version struct {
	Version  string `json:"version"` // of the module; "(devel)" without one
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified"`       // the source differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which Caisson this is",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			return a.ui.print(v, func(w *bytes.Buffer) {
				fmt.Fprintf(w, "caisson %s %s/%s %s\n", v.Version, v.OS, v.Arch, v.Go)
			})
		},
	}
}

// readVersion reads what the compiler recorded in the program.
func readVersion() version {
	v := version{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// noArgs refuses words that a command does not take.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(helpHint(cmd), "%sno argument is taken, got %s", prefix(cmd), quote(args[0]))
}
