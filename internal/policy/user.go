package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// chooseUser decides who the programs inside are: the caller, or, started by
// root, somebody who is not root.
func (r *resolver) chooseUser() error {
	c := r.caller
	u := User{
		UID: c.UID, GID: c.GID, HostUID: c.UID, HostGID: c.GID,
		Name: accountName(c.Name, "user"), Group: accountName(c.Group, "user"), Home: r.homeInside(), Shell: "/bin/sh",
	}
	if c.UID == 0 {
		if err := r.notRoot(&u); err != nil {
			return err
		}
	} else if c.GID == 0 {
		r.warn("your group is root's (0): files that it may read are readable where the policy shows them")
	}
	for _, shell := range []string{envOf(c.Env, "SHELL"), "/bin/bash"} {
		if path.IsAbs(shell) && r.inSystem(shell) {
			if _, mode, err := r.files.real(path.Clean(shell)); err == nil && mode.IsRegular() {
				u.Shell = path.Clean(shell)
				break
			}
		}
	}
	r.plan.User, r.home = u, u.Home
	f := r.weakest(api.FeatureNamespaces)
	return r.promise(api.Point{
		Name: "user", Value: fmt.Sprintf("%s (%d:%d), never root", u.Name, u.HostUID, u.HostGID),
		Strength: f.Strength, Reason: f.Reason, Origin: api.Origin{Source: "default"},
	}, f.Fix)
}

// notRoot finds ids for a box that root starts: an id of its own with
// translated mounts, else the owner of the workspace.
func (r *resolver) notRoot(u *User) error {
	c, ws := r.caller, r.plan.Workspace
	u.Name, u.Group = "caisson", "caisson"
	own := c.BoxUID > 0 && c.BoxGID > 0
	canMap := func() bool { return c.CanIDMap != nil && c.CanIDMap(ws.Source) }
	switch {
	case own && ws.Source == "":
		u.HostUID, u.HostGID = c.BoxUID, c.BoxGID
	case own && canMap():
		u.HostUID, u.HostGID = c.BoxUID, c.BoxGID
		u.IDMap, u.WorkspaceUID, u.WorkspaceGID = true, r.onDisk[0], r.onDisk[1]
	case ws.Source != "" && r.onDisk[0] != 0:
		u.HostUID, u.HostGID = r.onDisk[0], r.onDisk[1]
		if u.HostGID == 0 {
			u.HostGID = nobody // a group id of 0 opens what root's group may read
		}
	default:
		why := "its file system cannot do it on this kernel"
		if !own {
			why = "no ids were set aside for sandboxes"
		}
		return &api.Error{
			Code:    api.CodeHost,
			Message: "started as root, and no other id to run under: the workspace belongs to root, and ids cannot be translated: " + why,
			Hint:    "start it as an ordinary user, or give the workspace to one: chown -R USER " + oneLine(ws.Source),
		}
	}
	u.UID, u.GID = u.HostUID, u.HostGID
	return nil
}

const nobody = 65534

// homeInside is the caller's home path, unless a private folder there would
// cover what the system needs.
func (r *resolver) homeInside() string {
	h := path.Clean(r.caller.Home)
	fallback := "/home/" + accountName(r.caller.Name, "user")
	if !path.IsAbs(h) || hasControl(h) || h == "/" {
		return fallback
	}
	for _, top := range [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/boot", "/proc", "/sys", "/dev", "/nix"} {
		if within(h, top) {
			return fallback
		}
	}
	switch h {
	case noHome, "/home", "/opt", "/var", "/run", "/tmp", "/var/tmp", "/mnt", "/srv", "/media":
		return fallback
	}
	return h
}

// accountName keeps what may stand in a passwd file.
func accountName(s, fallback string) string {
	if s == "" || s == "root" || len(s) > 64 || strings.ContainsAny(s, ": /\\") || hasControl(s) {
		return fallback
	}
	return s
}

// envOf gives the value of a variable, "" if it is unset.
func envOf(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name); ok && strings.HasPrefix(v, "=") {
			return v[1:]
		}
	}
	return ""
}
