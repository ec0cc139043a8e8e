package policy

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// placeWorkspace decides which folder of the host is the workspace, and how it
// gets in. It sets plan.Workspace and plan.Dir.
func (r *resolver) placeWorkspace() error {
	mode := r.m.Workspace.Mode
	if mode == "" {
		mode = api.WorkspaceDirect
		if r.caller.API {
			mode = api.WorkspaceReview
			if r.files.exists(join2(r.askedWorkspace(), ".git")) {
				mode = api.WorkspaceBranch
			}
		}
		if !r.hasMode(mode) {
			return &api.Error{
				Code: api.CodeNotBuilt, Message: "workspace.mode " + string(mode) + ", the default here, is not in this build",
				Hint: "name the mode that you want: direct or none",
			}
		}
	}
	r.plan.Workspace.Mode = mode
	if mode == api.WorkspaceNone {
		p, m := r.m.origin("workspace.path"), r.m.origin("workspace.mode")
		tightened := strings.HasPrefix(m.Source, "flag ") && !strings.HasPrefix(p.Source, "flag ") // by a flag, in this one call
		if r.m.Workspace.Path != "" && !tightened {
			return fail(api.CodePolicy, r.m.origin("workspace.path"), "remove one of them",
				"workspace.path is set, yet workspace.mode is none (%s)", place(r.m.origin("workspace.mode")))
		}
		return nil
	}
	at := r.m.origin("workspace.path")
	r.given = r.askedWorkspace()
	if r.m.Workspace.Path == "" {
		at = api.Origin{Source: "the folder that you are in"}
	}
	source, err := r.checkWorkspace(r.given, at)
	if err != nil {
		return err
	}
	target := source
	if r.m.Image != "host" {
		target = "/workspace"
	}
	r.plan.Workspace.Source, r.plan.Workspace.Target = source, target
	r.plan.Dir = target
	if cwd, _, err := r.files.real(r.caller.Dir); err == nil && within(cwd, source) {
		r.plan.Dir = target + cwd[len(source):]
	}
	return nil
}

func (r *resolver) hasMode(m api.WorkspaceMode) bool {
	for _, b := range r.built.Modes {
		if b == m {
			return true
		}
	}
	return false
}

// askedWorkspace is the folder that the policy names, else the enclosing one.
func (r *resolver) askedWorkspace() string {
	if r.m.Workspace.Path != "" {
		return expand(r.m.Workspace.Path, r.caller)
	}
	return r.enclosing()
}

// enclosing is the top of the repository around the caller's folder, or that
// folder. A repository over the whole home (dotfiles) is not one for a box.
func (r *resolver) enclosing() string {
	cwd := path.Clean(r.caller.Dir)
	for dir := cwd; dir != "/"; dir = path.Dir(dir) {
		if within(path.Clean(r.caller.Home), dir) {
			break
		}
		if r.files.exists(join2(dir, ".git")) {
			return dir
		}
	}
	return cwd
}

// checkWorkspace resolves a folder and refuses those that no box may have.
func (r *resolver) checkWorkspace(p string, at api.Origin) (string, error) {
	wrong := func(hint, format string, args ...any) error {
		return fail(api.CodeWorkspace, at, hint, format, args...)
	}
	const other = "name another folder: --workspace DIR, or none: --workspace-mode none"
	real, mode, err := r.files.real(p)
	switch {
	case err != nil:
		return "", wrong(other, "workspace %s: %s", quote(p), reason(err))
	case !mode.IsDir():
		return "", wrong(other, "workspace %s is not a folder", quote(p))
	}
	if hasControl(real) {
		return "", wrong("rename it", "workspace %s has a control character in its name", quote(real))
	}
	switch {
	case real == "/":
		return "", wrong(other, "workspace / is the whole host")
	case r.holdsHome(real):
		return "", wrong(other, "workspace %s is your home or holds it, with every key in it", quote(real))
	case within(real, "/proc"), within(real, "/sys"), within(real, "/dev"):
		return "", wrong(other, "workspace %s is part of the kernel's own files", quote(real))
	case systemFolder(real):
		return "", wrong(other, "workspace %s is a folder of the system", quote(real))
	}
	if own := r.ownFolder(real); own != "" {
		return "", wrong(other, "workspace %s and Caisson's own folder %s would meet", quote(real), quote(own))
	}
	if err := workspaceBelow(r.in.Ceiling, real, at, r.caller, r.files); err != nil {
		return "", err
	}
	if s := r.secretIn(real); s != "" {
		r.warn(place(at) + ": workspace " + quote(real) + " shows keys to the sandbox (" + s + "), which may change them")
	}
	if info, err := os.Lstat(r.in.Root + real); err == nil {
		uid, gid, _ := owner(info)
		r.onDisk = [2]int{uid, gid}
	}
	return real, nil
}

// holdsHome reports whether a real folder is the caller's home or lies above
// it. A HOME that points elsewhere does not open the one of the account.
func (r *resolver) holdsHome(real string) bool {
	account := r.caller.AccountHome
	return within(r.realOr(r.caller.Home), real) || path.IsAbs(account) && within(r.realOr(account), real)
}

// systemFolder tells folders that are no place of work, though a folder below
// may be.
func systemFolder(p string) bool {
	switch p {
	case "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/root", "/run", "/sbin", "/tmp", "/usr", "/usr/bin",
		"/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/local/bin", "/usr/share", "/var", "/var/lib", "/var/tmp", "/nix", "/nix/store":
		return true
	}
	return false
}

// ownFolders are the folders from which a later box, or what runs outside of
// it, is made: whoever writes there is no longer in a box.
func (r *resolver) ownFolders() []string {
	own := []string{r.caller.StateDir, r.caller.ConfigDir, r.caller.GuestDir, path.Dir(CeilingPath)}
	if home := r.caller.AccountHome; path.IsAbs(home) {
		own = append(own, path.Join(home, ".cache/caisson")) // tomorrow's guest folder, if the environment names another today
	}
	return slices.DeleteFunc(own, func(dir string) bool { return dir == "" })
}

// ownFolder gives the folder of Caisson's that a path is, holds or lies in.
func (r *resolver) ownFolder(real string) string {
	for _, own := range r.ownFolders() {
		o := r.realOr(own)
		if within(o, real) || within(real, o) {
			return o
		}
	}
	return ""
}

// realOr resolves a path; one that does not exist stays as it is, its parents
// resolved as far as they exist.
func (r *resolver) realOr(p string) string {
	p = path.Clean(p)
	rest := ""
	for dir := p; ; dir = path.Dir(dir) {
		if real, _, err := r.files.real(dir); err == nil {
			return path.Join(real, rest)
		}
		if dir == "/" || dir == "." {
			return p
		}
		rest = path.Join(path.Base(dir), rest)
	}
}
