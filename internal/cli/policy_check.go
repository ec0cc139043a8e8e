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
	File     string           `json:"file"`
	OK       bool             `json:"ok"`
	Error    *api.Error       `json:"error,omitempty"`
	Findings []policy.Finding `json:"findings,omitempty"` // no errors, and hardly meant
}

func newPolicyCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check policy files: what is wrong, where, and what to write instead",
		Long: "Check policy files and the presets that they extend, without looking at this\n" +
			"machine. What is no error and hardly meant, such as a rule that another one makes\n" +
			"dead, is a warning. A FILE of - is standard input. The exit code is 1 if one is\n" +
			"wrong.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("caisson policy check FILE..., or - for standard input", "policy check: no file is named")
			}
			results, bad := make([]checked, 0, len(args)), false
			for _, name := range args {
				r := a.checkPolicy(name)
				bad = bad || !r.OK
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
			if !r.OK {
				a.ui.fail(r.Error)
				continue
			}
			fmt.Fprintf(w, "%s: ok\n", oneLine(r.File))
			for _, f := range r.Findings {
				a.ui.warn("warning: " + f.Message)
				if f.Hint != "" {
					a.ui.warn("hint: " + f.Hint)
				}
			}
		}
	})
	if err == nil && bad {
		return exit(1)
	}
	return err
}

// checkPolicy checks a file with what it extends.
func (a *app) checkPolicy(name string) checked {
	f, err := readPolicy(name)
	var layers []*policy.File
	if err == nil {
		layers, err = policy.Stack(a.configDir(), f)
	}
	var findings []policy.Finding
	if err == nil {
		findings, err = policy.Check(layers)
	}
	if err != nil {
		return checked{File: name, Error: asError(err)}
	}
	return checked{File: name, OK: true, Findings: findings}
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
