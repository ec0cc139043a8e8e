package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/policy"
)

// planView is a plan as --dry-run --json and policy explain --json print it.
// Of the environment it tells the names alone: a value may be a secret of the
// caller's, and a plan is what people paste into bug reports.
type planView struct {
	Tier      api.Tier       `json:"tier"`
	Image     string         `json:"image"`
	User      userView       `json:"user"`
	Hostname  string         `json:"hostname"`
	Workspace *workspaceView `json:"workspace,omitempty"`
	Mounts    []mountView    `json:"mounts"`
	Env       []string       `json:"env"`
	Command   []string       `json:"command"`
	Dir       string         `json:"dir"`
	Limits    api.Limits     `json:"limits"`
	Lifetime  api.Lifetime   `json:"lifetime"`
	Sealed    bool           `json:"sealed"`
	Network   *api.Network   `json:"network,omitempty"`
	Nested    bool           `json:"nested"`
	Accepted  []api.Loss     `json:"accepted"`
	Points    []api.Point    `json:"points"`
	Warnings  []string       `json:"warnings"`
	Digest    string         `json:"digest"`
}

type userView struct {
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Name    string `json:"name"`
	Home    string `json:"home"`
	HostUID int    `json:"host_uid"`
	HostGID int    `json:"host_gid"`
}

type workspaceView struct {
	Source string            `json:"source"`
	Target string            `json:"target"`
	Mode   api.WorkspaceMode `json:"mode"`
}

type mountView struct {
	Kind     string     `json:"kind"`
	Source   string     `json:"source,omitempty"`
	Target   string     `json:"target"`
	Writable bool       `json:"writable,omitempty"`
	NoExec   bool       `json:"noexec,omitempty"`
	Optional bool       `json:"optional,omitempty"`
	Origin   api.Origin `json:"origin"`
}

func viewPlan(p *policy.Plan) planView {
	v := planView{
		Tier: p.Tier, Image: p.Image, Hostname: p.Hostname,
		User: userView{
			UID: p.User.UID, GID: p.User.GID, Name: p.User.Name, Home: p.User.Home,
			HostUID: p.User.HostUID, HostGID: p.User.HostGID,
		},
		Mounts: make([]mountView, 0, len(p.Mounts)), Env: make([]string, 0, len(p.Env)),
		Command: notNil(p.Argv), Dir: p.Dir, Limits: p.Limits, Lifetime: p.Lifetime,
		Sealed: p.Sealed, Nested: p.Nested, Accepted: notNil(p.Accepted),
		Points: notNil(p.Points), Warnings: notNil(p.Warnings), Digest: p.Digest,
	}
	if p.Workspace.Source != "" {
		v.Workspace = &workspaceView{p.Workspace.Source, p.Workspace.Target, p.Workspace.Mode}
	}
	if !p.Sealed {
		v.Network = &p.Network
	}
	for _, m := range p.Mounts {
		v.Mounts = append(v.Mounts, mountView{
			mountKind(m.Kind), m.Source, m.Target, m.Writable, m.NoExec, m.Optional, m.Origin,
		})
	}
	for _, e := range p.Env {
		name, _, _ := strings.Cut(e, "=")
		v.Env = append(v.Env, name)
	}
	return v
}

// notNil makes a list print as [] where it is empty.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// planText writes a plan for people: what runs, each promise with its strength,
// and what there is to see inside. Of that, what every box has is one line, unless all is asked for.
func (u *ui) planText(w *bytes.Buffer, p *policy.Plan, all bool) {
	rows := [][]cell{cells("folder", p.Dir)}
	if len(p.Argv) > 0 {
		rows = append(rows, cells("command", commandText(p.Argv)))
	}
	table(w, rows)
	w.WriteByte('\n')
	w.WriteString(policy.Explain(p))
	w.WriteByte('\n')
	rows = [][]cell{u.heading("INSIDE", "IS", "FROM")}
	others := 0
	for _, m := range p.Mounts {
		if !all && !m.Origin.User && m.Target != p.Workspace.Target {
			others++
			continue
		}
		rows = append(rows, cells(m.Target, mountText(m), originText(m.Origin)))
	}
	if others > 0 {
		rows = append(rows, cells(fmt.Sprintf("and %d parts of the system that every box has: caisson policy explain lists them", others)))
	}
	table(w, rows)
}

// commandText shows a command so that its words can be told apart.
func commandText(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`;&|<>()*?[]#~") {
			words[i] = strconv.Quote(a)
		}
	}
	return strings.Join(words, " ")
}

func originText(o api.Origin) string {
	if o.Line > 0 {
		return fmt.Sprintf("%s:%d", o.Source, o.Line)
	}
	return o.Source
}

func mountKind(k policy.MountKind) string {
	switch k {
	case policy.MountBind:
		return "bind"
	case policy.MountTmpfs:
		return "tmpfs"
	case policy.MountFile:
		return "file"
	case policy.MountLink:
		return "link"
	case policy.MountProc:
		return "proc"
	case policy.MountDev:
		return "dev"
	case policy.MountHide:
		return "hide"
	default:
		return "invalid"
	}
}

func mountText(m policy.Mount) string {
	var text string
	switch m.Kind {
	case policy.MountBind:
		text = "the host's"
		if m.Source != m.Target {
			text += " " + m.Source
		}
		if m.Writable {
			text += ", writable"
		} else {
			text += ", read-only"
		}
	case policy.MountTmpfs:
		text = "an empty private folder"
	case policy.MountFile:
		text = "a made-up file"
	case policy.MountLink:
		text = "a link to " + m.Source
	case policy.MountProc:
		text = "its own processes"
	case policy.MountDev:
		text = "a minimal set of devices"
	case policy.MountHide:
		text = "hidden"
	default:
		text = "invalid"
	}
	if m.NoExec {
		text += ", nothing executable"
	}
	return text
}
