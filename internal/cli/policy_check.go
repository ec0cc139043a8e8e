package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/policy"
)

// checked is what `caisson policy check --json` says of one file.
type checked struct {
	File  string     `json:"file"`
	OK    bool       `json:"ok"`
	Error *api.Error `json:"error,omitempty"`
}

func newPolicyCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check policy files: what is wrong, where, and what to write instead",
		Long: "Check policy files and the presets that they extend, without looking at this\n" +
			"machine. A FILE of - is standard input. The exit code is 1 if one is wrong.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("caisson policy check FILE..., or - for standard input", "policy check: no file is named")
			}
			results, bad := make([]checked, 0, len(args)), false
			for _, name := range args {
				r := checked{File: name, OK: true}
				if err := a.checkPolicy(name); err != nil {
					r.OK, r.Error, bad = false, asError(err), true
				}
				results = append(results, r)
			}
			return a.sayChecked(results, bad)
		},
	}
}

// sayChecked tells what is right on standard output and what is wrong on
// standard error; as JSON all is one answer.
func (a *app) sayChecked(results []checked, bad bool) error {
	err := a.ui.print(results, func(w *bytes.Buffer) {
		for _, r := range results {
			if r.OK {
				fmt.Fprintf(w, "%s: ok\n", oneLine(r.File))
			} else {
				a.ui.fail(r.Error)
			}
		}
	})
	if err == nil && bad {
		return exit(1)
	}
	return err
}

// checkPolicy checks a file with what it extends.
func (a *app) checkPolicy(name string) error {
	f, err := readPolicy(name)
	if err != nil {
		return err
	}
	_, err = policy.Stack(a.configDir(), f)
	return err
}

func readPolicy(name string) (*policy.File, error) {
	if name != "-" {
		return policy.ReadFile(name)
	}
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxPolicy+1))
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, &api.Error{Code: api.CodePolicy, Message: "cannot read policy from standard input: " + err.Error()}
	}
	return policy.Parse("standard input", text)
}

// maxPolicy is more than package policy takes, so that it is the one to say so.
const maxPolicy = 1 << 20
