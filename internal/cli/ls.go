package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
)

// listed is one sandbox as `caisson ls --json` tells it.
type listed struct {
	api.Sandbox
	Alive bool   `json:"alive"` // its keeper lives
	Error string `json:"error,omitempty"`
}

func newLs(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the sandboxes of this user",
		Long: "List the sandboxes of this user, oldest first, from their own folders: no\n" +
			"daemon is asked, and none need run. What is left of one whose keeper died is\n" +
			"removed first.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.sandboxes(cmd.Context())
			if err != nil {
				return err
			}
			return a.ui.print(list, func(w *bytes.Buffer) { a.listText(w, list, time.Now()) })
		},
	}
}

func (a *app) listText(w *bytes.Buffer, list []listed, now time.Time) {
	rows := [][]cell{a.ui.heading("ID", "NAME", "TIER", "STATE", "AGE", "COMMAND")}
	for _, l := range list {
		state := string(l.State)
		switch {
		case l.Error != "":
			state = "broken"
		case !l.Alive && l.State != api.StateStopped && l.State != api.StateFailed:
			state = "dead" // its keeper is gone, and it could not be removed
		}
		rows = append(rows, cells(l.ID, cmp.Or(l.Name, "-"), cmp.Or(string(l.Tier), "-"), state,
			age(now.Sub(l.Created), l.Created), strings.Join(l.Command, " ")))
	}
	table(w, rows)
	for _, l := range list {
		if l.Error != "" {
			a.ui.warn(fmt.Sprintf("%s: %s", l.ID, l.Error))
		}
	}
}

// age is how long ago something was made, in its largest unit.
func age(d time.Duration, made time.Time) string {
	switch {
	case made.IsZero():
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
